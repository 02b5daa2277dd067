package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"cygnet/ike/control"
)

// silent is an error that was printed already.
type silent struct{ exit int }

func (silent) Error() string { return "printed already" }

// report prints how it ended and returns the exit code.
func (c *command) report(err error) int {
	if err == nil {
		return 0
	}
	var s silent
	if errors.As(err, &s) {
		return s.exit
	}
	var f *control.Failure
	if !errors.As(err, &f) {
		f = control.Fail(control.CodeInternal, err.Error(), "")
	}
	if c.json {
		c.printJSON(f)
	} else {
		c.printFailure("ikectl", f)
	}
	return f.Exit
}

func (c *command) printFailure(who string, f *control.Failure) {
	fmt.Fprintf(c.err, "%s: %s\n", who, printable(f.Summary))
	if f.Hint != "" {
		fmt.Fprintf(c.err, "  hint: %s\n", printable(f.Hint))
	}
}

// printJSON prints v on one line.
func (c *command) printJSON(v any) {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	enc.Encode(v)
}

// printLine prints a line of a stream for people.
func (c *command) printLine(l control.Line) {
	who := l.Connection
	if who == "" {
		who = "cygnetd"
	}
	if l.Child != "" && l.Code == "down" { // all others name the child in their text
		who += "/" + l.Child
	}
	fmt.Fprintf(c.out, "%s: %s\n", printable(who), printable(l.Text))
	if c.verbose && l.Detail != "" {
		fmt.Fprintf(c.out, "  %s\n", printable(l.Detail))
	}
	if l.Hint != "" {
		fmt.Fprintf(c.out, "  hint: %s\n", printable(l.Hint))
	}
}

// progress prints the lines of a stream. The end that is a failure is left to the caller, who has it as an error, unless it is JSON.
func (c *command) progress(l control.Line) {
	switch {
	case c.json:
		c.printJSON(l)
	case l.Done && !l.OK, l.Text == "", l.Level == control.LevelDetail && !c.verbose:
	default:
		c.printLine(l)
	}
}

// ended gives the error of a stream its last form. With --json the failed last line was printed as it came, so that only errors
// that the daemon did not send are printed here, as a line like the others.
func (c *command) ended(name string, err error, sent bool) error {
	var f *control.Failure
	if !errors.As(err, &f) {
		return err
	}
	switch {
	case c.json && !sent:
		c.printJSON(control.Line{Time: time.Now().Format(control.TimeLayout), Connection: name, Code: f.Code, Text: f.Summary, Hint: f.Hint, Done: true})
	case c.json:
	case name != "" && f.Exit != control.ExitNoDaemon && f.Code != control.CodePermission && f.Code != control.CodeDaemonSilent:
		c.printFailure(printable(name), f)
	default:
		c.printFailure("ikectl", f)
	}
	return silent{f.Exit}
}

// printable keeps what a terminal must not act upon from reaching it: control characters and those that turn the direction of text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
