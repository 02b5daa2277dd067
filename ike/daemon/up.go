package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/control"
	"cygnet/ike/directory"
	"cygnet/policy"
)

// Up brings a connection, or one child of it, up and waits until it is or the attempt has failed.
func (b backend) Up(ctx context.Context, name, child string, emit func(control.Line) error) *control.Failure {
	conn, f := b.find(name, child)
	if f != nil {
		return f
	}
	u := &raise{b: b, conn: conn, start: time.Now(), emit: emit, waiting: childNames(conn, child)}
	if child != "" {
		u.asked = u.waiting
	}
	u.watcher = b.d.hub.watch(name)
	defer u.watcher.stop()
	return u.run(ctx)
}

func childNames(conn *policy.Connection, only string) []string {
	if only != "" {
		return []string{only}
	}
	var names []string
	for _, c := range conn.Children {
		names = append(names, c.Name)
	}
	return names
}

// raise is one wait of Up.
type raise struct {
	b       backend
	conn    *policy.Connection
	start   time.Time
	emit    func(control.Line) error
	watcher *watcher
	asked   []string   // as the directory takes it: none are all
	waiting []string   // all children that are to be up
	fault   ike.Report // the last failure of the connection that was reported
	probed  ike.Time   // the peer is being asked whether it lives, since then; 0: it is not

	took    time.Duration    // until all was up
	settled <-chan time.Time // since all is up: when that is believed; nil: it is not up
}

// settleTime passes before up is told. A peer whose operator took the connection down proves itself, lets it come up and closes it at once.
const settleTime = 200 * time.Millisecond

func (u *raise) run(ctx context.Context) *control.Failure {
	v, err := u.b.d.view(u.conn.Name)
	if err != nil {
		return stopping()
	}
	// Also when it is up already, by the peer's doing perhaps: from now on it is wanted here too.
	u.b.d.directory.box.put(directory.Up{Connection: u.conn.Name, Children: u.asked})
	if notice := u.b.d.configNotice(); notice != "" {
		u.emit(control.Line{Code: "config", Text: notice})
	}
	for _, p := range policy.Expiring(&policy.Snapshot{Connections: []*policy.Connection{u.conn}}, time.Now()) {
		u.emit(control.Line{Connection: u.conn.Name, Code: p.Code, Text: fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text), Hint: p.Hint}) // the peer that refuses for it does not say so
	}
	if v.up(u.waiting) && !u.probe(ctx, v) {
		u.done("is up already: ", v)
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if u.settled != nil && u.stays() {
				return nil
			}
			return u.tooLong()
		case <-u.b.d.stopping:
			return stopping()
		case n := <-u.watcher.news:
			if over, f := u.hear(n); over {
				return f
			}
		case <-tick.C: // news may have been lost when there were very many
			if u.probed != 0 && u.answered() {
				return nil
			}
			if u.watcher.lost.Swap(0) > 0 {
				u.look()
			}
		case <-u.settled:
			if u.settled = nil; u.stays() {
				return nil
			}
		}
	}
}

// hear handles one piece of news and reports whether the wait is over.
func (u *raise) hear(n news) (over bool, f *control.Failure) {
	if n.finish != nil {
		switch u.look(); {
		case u.another():
			return false, nil
		case u.probed != 0: // it is wanted: the directory begins anew
			u.probed, u.fault = 0, ike.Report{}
			u.emit(control.Line{Connection: u.conn.Name, Code: "closed", Text: "what was up is given up: " + n.finish.Text})
			return false, nil
		}
		return true, u.failure(*n.finish)
	}
	r := n.report
	switch {
	case r.Code == ike.CodeChildUp:
		u.look()
		return false, nil
	case r.Code == directory.CodeNoAddress && !u.another(): // with another the peer came to us
		return true, u.asFailure(r)
	case r.Code.Failure() && (r.Child == "" || slices.Contains(u.waiting, r.Child)):
		u.fault = r
		if r.Child != "" || n.spi == 0 { // else the end of the IKE SA follows
			return true, u.asFailure(r)
		}
	default:
		if l, ok := n.line(); ok {
			u.emit(l)
		}
	}
	return false, nil
}

// look asks whether all children are up now; if so they have a moment to stay up.
func (u *raise) look() {
	v, err := u.b.d.view(u.conn.Name)
	switch {
	case err != nil || !v.up(u.waiting):
		u.settled = nil
	case u.settled == nil:
		u.took, u.settled = time.Since(u.start), time.After(settleTime)
	}
}

// stays ends the stream if all children are still up.
func (u *raise) stays() bool {
	v, err := u.b.d.view(u.conn.Name)
	if err != nil || !v.up(u.waiting) {
		return false
	}
	u.done(fmt.Sprintf("up in %s: ", elapsed(u.took)), v)
	return true
}

// another reports whether a second IKE SA of the connection is still at it: of two the directory ends one.
func (u *raise) another() bool {
	v, err := u.b.d.view(u.conn.Name)
	return err == nil && len(v.machines) > 0
}

// done sends a line for each child; the last ends the stream.
func (u *raise) done(intro string, v view) {
	for i, name := range u.waiting {
		text := intro
		if len(u.conn.Children) > 1 {
			text = name + " " + intro
		}
		u.emit(control.Line{
			Connection: u.conn.Name, Child: name, Code: "up", Done: i == len(u.waiting)-1,
			Text: text + u.b.d.describe(v.child(name)),
		})
	}
}

// failure is the end of the attempt: the fault that was reported says more than the end itself.
func (u *raise) failure(end ike.Finish) *control.Failure {
	if u.fault.Code != "" {
		return u.asFailure(u.fault)
	}
	hint := ""
	if end.Code == ike.CodeClosed {
		hint = "was it taken down there? What is down at one end comes up with ikectl up at that end"
	}
	return u.asFailure(ike.Report{Code: end.Code, Text: end.Text, Hint: hint})
}

func (u *raise) asFailure(r ike.Report) *control.Failure {
	hint := r.Hint
	if next := u.b.d.nextTry(u.conn.Name); next != "" {
		hint = strings.TrimPrefix(hint+"; next try "+next, "; ")
	}
	if r.Detail != "" {
		u.emit(control.Line{Connection: u.conn.Name, Code: string(r.Code), Level: control.LevelDetail, Text: r.Detail})
	}
	return control.Fail(string(r.Code), r.Text, hint)
}

// tooLong says how far it came when the client stops waiting.
func (u *raise) tooLong() *control.Failure {
	text, hint := "not up in the time given", "cygnetd goes on trying; see: ikectl status "+u.conn.Name
	if v, err := u.b.d.view(u.conn.Name); err == nil && len(v.machines) > 0 {
		m := v.machines[0]
		switch m.Phase {
		case "opening":
			text = fmt.Sprintf("no answer from %s yet: is UDP 500 and 4500 open on the path, and IKE running there?", m.Path.Remote)
			hint = u.conn.Where("remote.address", "remote") + " must be the peer's address as seen from here; " + hint
		case "authenticating":
			text = fmt.Sprintf("%s answered IKE_SA_INIT, but not IKE_AUTH yet", m.Path.Remote)
		case "established":
			if u.probed != 0 {
				text = fmt.Sprintf("it is up, but %s does not answer; if it goes on like that, it is given up and begun anew", m.Path.Remote)
				break
			}
			text = "the IKE SA is up, but not: " + strings.Join(v.missing(u.waiting), ", ")
		}
	} else if u.fault.Code != "" {
		text = u.fault.Text
	}
	return control.Fail(control.CodeTimeout, text, hint)
}

// elapsed prints milliseconds below a second, else tenths.
func elapsed(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
