package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// duration is a flag's value that says how a time is written.
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	*d = duration(v)
	if err == nil {
		return nil
	}
	if _, err := strconv.Atoi(s); err == nil {
		return fmt.Errorf("a time has a unit: write %ss", s)
	}
	return errors.New("write a number with its unit, such as 30s or 5m")
}

// timeout declares the flag of the verbs that wait.
func (c *command) timeout(fallback time.Duration, usage string) *time.Duration {
	v := fallback
	c.flags.Var((*duration)(&v), "timeout", usage)
	return &v
}
