package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"cygnet/policy"
	"cygnet/policy/load"
	"cygnet/xfrm/doctor"
)

// checked is the answer as JSON.
type checked struct {
	Dir         string    `json:"dir"`
	OK          bool      `json:"ok"`
	Problems    []problem `json:"problems"`
	Connections []string  `json:"connections,omitempty"`
}

type problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Code    string `json:"code"`
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`
	Warning bool   `json:"warning,omitempty"`
}

func setupCheck(c *command) func(context.Context) error {
	host := c.flags.Bool("host", false, "look also whether this host fits it, as is done for "+load.DefaultDir)
	return func(context.Context) error {
		dir := load.DefaultDir
		if len(c.args) > 0 {
			var err error
			if dir, err = c.oneName("folder"); err != nil {
				return err
			}
		}
		snap, problems := load.Dir(dir)
		if snap != nil && (*host || filepath.Clean(dir) == load.DefaultDir) {
			problems = append(problems, doctor.Check(doctor.This(), snap)...)
		}
		if c.json {
			return c.checkJSON(dir, snap, problems)
		}
		return c.checkText(dir, snap, problems)
	}
}

func (c *command) checkJSON(dir string, snap *policy.Snapshot, problems []policy.Problem) error {
	r := checked{Dir: dir, OK: snap != nil, Problems: []problem{}}
	for _, p := range problems {
		r.Problems = append(r.Problems, problem(p))
	}
	if snap != nil {
		for _, conn := range snap.Connections {
			r.Connections = append(r.Connections, conn.Name)
		}
	}
	c.printJSON(r)
	return verdict(snap)
}

func (c *command) checkText(dir string, snap *policy.Snapshot, problems []policy.Problem) error {
	errors, warnings := 0, 0
	for _, p := range problems {
		kind := "error"
		if p.Warning {
			kind, warnings = "warning", warnings+1
		} else {
			errors++
		}
		fmt.Fprintf(c.out, "%s%s: %s\n", place(p), kind, printable(p.Text))
		if p.Hint != "" {
			fmt.Fprintf(c.out, "    hint: %s\n", printable(p.Hint))
		}
	}
	if snap == nil {
		fmt.Fprintf(c.out, "%s: not accepted: %s, %s\n", dir, count(errors, "error"), count(warnings, "warning"))
		return verdict(snap)
	}
	fmt.Fprintf(c.out, "%s: OK, %s", dir, count(len(snap.Connections), "connection"))
	if warnings > 0 {
		fmt.Fprintf(c.out, ", %s", count(warnings, "warning"))
	}
	fmt.Fprintln(c.out)
	for _, conn := range snap.Connections {
		c.summary(conn)
	}
	return nil
}

func verdict(snap *policy.Snapshot) error {
	if snap == nil {
		return silent{1}
	}
	return nil
}

// summary shows a connection in two or more lines, in the words of up and status.
func (c *command) summary(conn *policy.Connection) {
	down := "pass"
	if conn.Drop {
		down = "drop"
	}
	fmt.Fprintf(c.out, "  %s: %s <-> %s, start %s, %s when down\n", conn.Name, end(conn.Local), end(conn.Remote), conn.Start, down)
	for _, ch := range conn.Children {
		fmt.Fprintf(c.out, "    %s: %s <-> %s\n", ch.Name, ranges(ch.Local), ranges(ch.Remote))
	}
}

func end(e policy.End) string {
	where := e.Name
	if e.Address.IsValid() {
		where = e.Address.String()
	}
	if where == "" {
		where = "any"
	}
	return fmt.Sprintf("%s (%s)", where, e.ID)
}

func ranges(ts []policy.TS) string {
	var s []string
	for _, t := range ts {
		s = append(s, t.String())
	}
	return strings.Join(s, ", ")
}

// place is "conn.d/site-b.toml:7: ", or empty when a problem is not in a file.
func place(p policy.Problem) string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return printable(p.File) + ": "
	}
	return fmt.Sprintf("%s:%d: ", printable(p.File), p.Line)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
