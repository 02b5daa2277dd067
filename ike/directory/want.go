package directory

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"cygnet/ike"
	"cygnet/policy"
	"cygnet/xfrm"
)

const (
	backoffFirst = time.Second
	backoffLast  = time.Minute
	// stable is how long a child must have been up for the attempt to count as a success: a peer that accepts and deletes at
	// once is not asked every second.
	stable = 10 * time.Second
	// After an IKE SA came up, its initiator has this long to bring up all children before the missing ones are asked for. The
	// responder waits longer, so that not both ask for the same child.
	raiseGrace    = 10 * time.Second
	raiseResponds = 10 * time.Second
	// raiseAgain: further packets for a child that was asked for do not ask again within this time.
	raiseAgain = 10 * time.Second
)

func (t turn) up(ev Up) {
	c := t.find(ev.Connection)
	if c == nil || c.removed {
		t.report(ike.Report{Connection: ev.Connection, Code: CodeUnknown, Text: "no such connection", Hint: "ikectl status lists the connections"})
		return
	}
	for _, name := range ev.Children {
		if c.child(name) == nil {
			t.report(ike.Report{Connection: c.Name, Child: name, Code: CodeUnknown, Text: fmt.Sprintf("no child %q is configured", name)})
			return
		}
	}
	c.trouble.turned = Note{} // from now on it is let in
	if !c.canStart() {
		t.letIn(c, ev.Children)
		t.report(ike.Report{Connection: c.Name, Code: CodeNoAddress, Text: "the peer must start: its address is not configured",
			Hint: fmt.Sprintf("%s: give remote an address or a name", c.File)})
		if len(c.serving()) == 0 {
			return
		}
	}
	t.wish(c, ev.Children)
	c.anew()
	c.nextTry, c.tries = 0, 0
	t.claim(c)
	if list := c.serving(); len(list) > 0 {
		t.raise(c.survivor(list), c.missing(), nil)
	} else if c.attempting() {
		c.queue(c.missing()...)
		c.anewUp = true
	}
	t.settle(c)
}

// wish notes that these children are wanted up, beside those that were; none means all.
func (t turn) wish(c *connection, children []string) {
	all := len(children) == 0 || c.wanted() == wantUp && len(c.only) == 0
	t.operate(c, wantUp)
	c.wasUp = slices.ContainsFunc(c.serving(), func(a *sa) bool { return len(a.children) > 0 })
	if len(children) == 0 {
		c.off = nil
	}
	for _, name := range children {
		delete(c.off, name)
		if !slices.Contains(c.only, name) {
			c.only = append(c.only, name)
		}
	}
	if all {
		c.only = nil
	}
}

func (t turn) down(ev Down) {
	c := t.find(ev.Connection)
	switch {
	case c == nil || c.removed:
		t.report(ike.Report{Connection: ev.Connection, Code: CodeUnknown, Text: "no such connection", Hint: "ikectl status lists the connections"})
	case ev.Child == "":
		t.downAll(c)
	case c.child(ev.Child) == nil:
		t.report(ike.Report{Connection: c.Name, Child: ev.Child, Code: CodeUnknown, Text: fmt.Sprintf("no child %q is configured", ev.Child)})
	default:
		t.downChild(c, ev.Child)
	}
}

// downAll: down is down until up, so the connection is refused to the peer too from now on, or it would be back at once.
func (t turn) downAll(c *connection) {
	t.operate(c, wantDown)
	c.only, c.off = nil, nil
	t.stop(c, "taken down")
	t.claim(c)
}

func (t turn) downChild(c *connection, child string) {
	if c.off == nil {
		c.off = make(map[string]bool)
	}
	c.off[child] = true
	named := len(c.only) > 0
	c.only = slices.DeleteFunc(c.only, func(s string) bool { return s == child })
	if len(c.wantedChildren()) == 0 || named && len(c.only) == 0 { // nothing is left of what was asked for
		t.downAll(c)
		return
	}
	c.queued = slices.DeleteFunc(c.queued, func(s string) bool { return s == child })
	t.claim(c)
	if c.starting && slices.Contains(c.bringing, child) {
		c.dropped = append(c.dropped, child)
	}
	for _, a := range c.sas {
		if !a.lowered && (a.children[child] || !a.claimed) {
			t.tell(a, ike.Lower{Child: child, Why: "taken down"})
			delete(a.children, child) // it is not to be completed elsewhere
		}
	}
	t.settle(c)
}

// stop lowers all IKE SAs of a connection and forgets what was planned.
func (t turn) stop(c *connection, why string) {
	c.queued, c.asked, c.stale = nil, nil, c.starting
	c.nextTry, c.tries, c.raiseAt, c.raiseBy, c.raiseTries, c.dropAt, c.idleAt = 0, 0, 0, 0, 0, 0, 0
	for _, a := range c.sas {
		t.lower(a, ike.Lower{Why: why})
	}
}

// acquire: a packet met a trap. While an attempt runs, or a pause after one that failed, it only adds its child to what comes next.
func (t turn) acquire(ev Acquire) {
	c := t.find(ev.Connection)
	if c == nil || c.wanted() == wantDown || c.child(ev.Child) == nil || c.off[ev.Child] {
		return
	}
	if list := c.serving(); len(list) > 0 {
		packet := ev.Packet
		t.raise(c.survivor(list), []string{ev.Child}, &packet)
		return
	}
	c.queue(ev.Child)
	t.settle(c)
}

// raise asks an IKE SA for children that are not up and were not asked for just before.
func (t turn) raise(a *sa, children []string, packet *xfrm.Selector) {
	for _, name := range children {
		at, asked := a.conn.asked[name]
		if a.conn.childIsUp(name) || asked && t.now.Sub(at) < raiseAgain {
			continue
		}
		a.conn.noteAsked(t.now, []string{name})
		a.asksFor(t.now)
		t.tell(a, ike.RaiseChild{Child: name, Packet: packet})
	}
}

func (c *connection) noteAsked(now ike.Time, children []string) {
	if c.asked == nil {
		c.asked = make(map[string]ike.Time)
	}
	for _, name := range children {
		c.asked[name] = now
	}
}

// settle does what is due for a connection, whatever happened before.
func (t turn) settle(c *connection) {
	c.queued = slices.DeleteFunc(c.queued, c.childIsUp)
	if c.nextTry != 0 && !t.now.Before(c.nextTry) {
		c.nextTry = 0
	}
	c.dropAt = 0
	t.renewed(c) // first: what is no longer renewed may be a duplicate
	t.endDuplicates(c)
	t.doubt(c)
	t.endIdle(c)
	if len(c.serving()) > 0 {
		t.raiseMissing(c)
		return
	}
	c.raiseAt, c.raiseBy, c.raiseTries = 0, 0, 0
	if c.nextTry != 0 || c.attempting() || !c.canStart() {
		return
	}
	switch {
	case c.wanted() == wantUp && len(c.wantedChildren()) > 0:
		t.start(c, c.toStart())
	case c.wanted() == wantTrap && len(c.queued) > 0:
		t.start(c, c.queued)
	}
}

// start asks for an initiator. Its children are its own business from now on.
func (t turn) start(c *connection, children []string) {
	c.starting, c.anewUp, c.queued, c.asked, c.renews, c.dropped = true, false, nil, nil, nil, nil
	if c.bringing = slices.Clone(children); len(children) == 0 {
		c.bringing = c.wantedChildren()
	}
	t.emit(Start{Connection: c.Name, Children: slices.Clone(children), InitialContact: t.alone(c)})
}

// raiseMissing asks the serving IKE SA for children that are wanted and not up, with growing pauses.
func (t turn) raiseMissing(c *connection) {
	missing := c.missing()
	if len(missing) == 0 {
		c.raiseAt, c.raiseBy, c.raiseTries = 0, 0, 0
		return
	}
	a := c.survivor(c.serving())
	switch {
	case c.raiseAt == 0:
		c.raiseAt = max(a.since.Add(raiseGrace), t.now.Add(t.pause(1)))
	case !t.now.Before(c.raiseAt):
		clear(c.asked)
		t.raise(a, missing, nil)
		c.raiseTries++
		c.raiseAt, c.raiseBy = t.now.Add(raiseGrace+t.pause(c.raiseTries)), 0
	default:
		return
	}
	if !a.initiated {
		c.raiseAt = c.raiseAt.Add(raiseResponds)
	}
	if c.raiseBy == 0 {
		c.raiseBy = max(c.raiseAt, t.now.Add(raiseGrace+raiseResponds))
	}
	c.raiseAt = min(c.raiseAt, c.raiseBy)
}

// failed plans the next try after an attempt or an IKE SA ended that nobody here ended.
func (t turn) failed(c *connection, a *sa, why ike.Finish) {
	wasUp := a != nil && a.upSince != 0 && t.now.Sub(a.upSince) >= stable
	if len(c.serving()) > 0 || c.attempting() {
		return
	}
	c.trouble.ended(t.now, why)
	if wasUp {
		c.tries = 0
	}
	again := passes(why) || wasUp || c.anewUp
	switch {
	case c.wanted() == wantDown, c.wanted() == wantTrap && wasUp:
		return
	case !again && c.operator == wantUp && c.Start != policy.StartBoot && !c.wasUp:
		// The operator heard why and must change something first; a boot connection, and one that was up, are tried again nevertheless, since it may be
		// the peer's side that is changed, or where it was taken down.
		c.operator, c.only, c.off = configured, nil, nil
		t.claim(c)
		return
	}
	c.tries++
	wait := t.pause(c.tries)
	if !again {
		wait = t.pause(1 << 10)
	}
	c.nextTry = t.now.Add(wait)
	if c.startsAtNextTry() {
		t.report(ike.Report{Connection: c.Name, Code: CodeRetry, Text: fmt.Sprintf("next try in %s (failed %s)", seconds(wait), times(c.tries))})
	}
}

// passes: the failure may go by itself. A disagreement about what is configured does not.
func passes(f ike.Finish) bool {
	switch f.Code {
	case ike.CodeAuthFailed, ike.CodeBadIdentity, ike.CodeNoProposal, ike.CodeNoSelectors:
		return false
	}
	return f.Retry
}

// pause is 1 s, doubled with each failure up to a minute, and then a quarter more or less by chance, so that many peers
// of one gateway that came back do not all come at once.
func (t turn) pause(tries int) time.Duration {
	wait := backoffLast
	if shift := max(tries-1, 0); shift < 6 {
		wait = min(backoffFirst<<shift, backoffLast)
	}
	var b [2]byte
	if _, err := io.ReadFull(t.rand, b[:]); err != nil {
		return wait
	}
	return wait*3/4 + wait/2*time.Duration(binary.BigEndian.Uint16(b[:]))/(1<<16)
}

// times as a person says it.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// seconds as a person says it.
func seconds(d time.Duration) string {
	if d < 2*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
