package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/control"
	"cygnet/ike/directory"
	"cygnet/policy"
)

// backend is the daemon as the control API sees it. Its methods run in the goroutines of the clients.
type backend struct{ d *Daemon }

// lookEvery is how often a wait looks by itself, beside the news that wake it.
const lookEvery = 250 * time.Millisecond

// find checks the names of a request.
func (b backend) find(name, child string) (*policy.Connection, *control.Failure) {
	snap := b.d.snapshot.Load()
	conn := snap.ByName(name)
	if conn == nil {
		hint := "see: ikectl status"
		if near := snap.Near(name); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return nil, control.Fail(control.CodeUnknownConnection, fmt.Sprintf("there is no connection %q", name), hint)
	}
	if child == "" {
		return conn, nil
	}
	var names []string
	for _, c := range conn.Children {
		if c.Name == child {
			return conn, nil
		}
		names = append(names, c.Name)
	}
	return nil, control.Fail(control.CodeUnknownChild, fmt.Sprintf("%s has no child %q", name, child), "its children: "+strings.Join(names, ", "))
}

// Monitor streams all that happens.
func (b backend) Monitor(ctx context.Context, emit func(control.Line) error) *control.Failure {
	w := b.d.hub.watch("")
	defer w.stop()
	for {
		select {
		case <-ctx.Done():
			return stopping()
		case <-b.d.stopping:
			return stopping()
		case n := <-w.news:
			if lost := w.lost.Swap(0); lost > 0 {
				emit(control.Line{Code: control.CodeGap, Text: fmt.Sprintf("%d lines were lost here", lost)})
			}
			if l, ok := n.line(); ok {
				if err := emit(l); err != nil {
					return stopping()
				}
			}
		}
	}
}

func stopping() *control.Failure { return control.Fail("stopping", "cygnetd stops", "") }

// Reload reads the configuration again. One with errors changes nothing.
func (b backend) Reload(_ context.Context, emit func(control.Line) error) *control.Failure {
	summary, changes, problems, ok := b.d.reloadAll()
	for _, p := range problems {
		level := control.LevelError
		if p.Warning {
			level = ""
		}
		emit(control.Line{Code: p.Code, Level: level, Text: problemText(p), Hint: p.Hint})
	}
	if !ok {
		return control.Fail("configuration", "the configuration was not accepted; the one before it stays in force", "see also: ikectl check")
	}
	for _, c := range changes {
		emit(control.Line{Connection: c.Connection, Code: "reloaded", Text: c.Text})
	}
	emit(control.Line{Code: "reloaded", Text: summary, Done: true})
	return nil
}

// Down takes a connection or a child down and waits until it is gone.
func (b backend) Down(ctx context.Context, name, child string, emit func(control.Line) error) *control.Failure {
	conn, f := b.find(name, child)
	if f != nil {
		return f
	}
	w := b.d.hub.watch(name)
	defer w.stop()
	before, err := b.d.view(name)
	if err != nil {
		return stopping()
	}
	tried := false
	if err := b.d.inDirectory(func(dir *directory.Directory) { tried = statusOf(dir, name).Wanted == "up" }); err != nil {
		return stopping()
	}
	b.d.directory.box.put(directory.Down{Connection: name, Child: child})
	if err := b.d.inDirectory(func(*directory.Directory) {}); err != nil {
		return stopping()
	}
	text := "down"
	if before.gone(child) && !tried {
		text = "is down already"
	}
	if conn.Drop {
		text += "; packets for it are dropped, not sent in clear"
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		v, err := b.d.view(name)
		if err != nil {
			return stopping()
		}
		if v.gone(child) {
			b.d.inPlane(func(*plane) {}) // what it held is removed when this returns
			emit(control.Line{Connection: name, Child: child, Code: "down", Text: text, Done: true})
			return nil
		}
		select {
		case <-ctx.Done():
			return control.Fail(control.CodeTimeout, "the peer has not answered the Delete yet", "it ends by itself; see: ikectl status "+name)
		case <-b.d.stopping:
			return stopping()
		case n := <-w.news:
			if l, ok := n.line(); ok && n.report.Code != ike.CodeChildDown {
				emit(l)
			}
		case <-tick.C:
		}
	}
}
