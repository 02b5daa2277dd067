package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Bounds of a configuration file in octets, far more than anyone writes: the TOML parser recurses on nested brackets and takes quadratic time
// for a key of many dots.
const (
	maxSource = 1 << 20
	maxLine   = 4096
)

// Parse reads all sources as one configuration, and what they name through files. When any Problem is not a Warning the Snapshot is nil. All problems are told at once, in the order of files and lines.
func Parse(sources []Source, files Files) (*Snapshot, []Problem) {
	r := &reader{files: files, snapshot: &Snapshot{Daemon: defaultDaemon()}, byName: make(map[string]*Connection)}
	var tables []*table
	for _, s := range sources {
		if t := r.open(s); t != nil {
			tables = append(tables, t)
		}
	}
	r.findStrays(tables)
	for _, t := range tables {
		r.file(t)
	}
	r.compare()
	inOrder(r.problems, sources)
	r.problems = bounded(r.problems)
	if Fatal(r.problems) {
		return nil, r.problems
	}
	slices.SortFunc(r.snapshot.Connections, func(a, b *Connection) int { return strings.Compare(a.Name, b.Name) })
	return r.snapshot, r.problems
}

// reader gathers one configuration from its files.
type reader struct {
	files    Files
	snapshot *Snapshot
	byName   map[string]*Connection
	daemonAt string // where [daemon] stands
	strays   strays
	problems []Problem
}

// open parses the TOML of one file; nil when it is none.
func (r *reader) open(s Source) *table {
	if len(s.Data) > maxSource {
		r.problems = append(r.problems, Problem{File: s.Name, Code: "too-large", Text: fmt.Sprintf("the file has %d octets, at most %d are read", len(s.Data), maxSource), Hint: "split it"})
		return nil
	}
	line := 0
	for text := range strings.Lines(string(s.Data)) {
		if line++; len(text) > maxLine {
			r.problems = append(r.problems, Problem{File: s.Name, Line: line, Code: "too-large", Text: fmt.Sprintf("the line has %d octets, at most %d are read", len(text), maxLine), Hint: "break the list over several lines"})
			return nil
		}
	}
	t := &table{r: r, file: s.Name}
	if _, err := toml.Decode(string(s.Data), &t.rows); err != nil {
		p := Problem{File: s.Name, Line: 1, Code: "syntax", Text: err.Error(), Hint: "see https://toml.io for how TOML is written"}
		var at toml.ParseError
		if errors.As(err, &at) {
			p.Line, p.Text = at.Position.Line, "this is not TOML: "+at.Message
			explainSyntax(&p, at, string(s.Data))
		}
		r.problems = append(r.problems, p)
		return nil
	}
	t.lines = newLineIndex(string(s.Data))
	return t
}

func (r *reader) file(t *table) {
	if d := t.table("daemon", "[daemon]"); d != nil {
		if r.daemonAt != "" {
			t.problem("daemon", "duplicate-table", "keep one of them", "a second [daemon] table; the first is at %s", r.daemonAt)
		}
		r.daemonAt = fmt.Sprintf("%s:%d", t.file, t.line("daemon"))
		r.daemon(d)
	}
	if all := t.table("connection", "[connection.NAME]"); all != nil {
		for _, name := range all.names() {
			if c := all.table(name, "[connection."+name+"]"); c != nil {
				r.connection(c, name)
			}
		}
	}
	t.done()
}

func (r *reader) daemon(t *table) {
	d := &r.snapshot.Daemon
	d.Dataplane = t.word("dataplane", d.Dataplane, "auto", "kernel", "userspace")
	d.LogLevel = t.word("log", d.LogLevel, LogLevels()...)
	d.Port = uint16(t.integer("port", DefaultPort, 1, 65535))
	d.NATTPort = uint16(t.integer("natt_port", DefaultNATTPort, 1, 65535))
	d.MTU = int(t.integer("mtu", DefaultMTU, minMTU, maxMTU))
	d.CookieThreshold = int(t.integer("cookie_threshold", DefaultCookieThreshold, 0, 1<<20))
	if d.Port == d.NATTPort {
		t.problem("natt_port", "contradiction", "the defaults are 500 and 4500", "port and natt_port are both %d; messages on the second begin with a marker (RFC 7296 section 3.1)", d.Port)
	}
	t.done()
}

// LogLevels are the words for how much is logged, from little to much.
func LogLevels() []string { return []string{"error", "warn", "info", "debug", "trace"} }

// goodName: names are arguments of commands and parts of paths, so they are TOML's bare keys.
func goodName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" && name[0] != '-'
}
