package directory

import (
	"fmt"

	"cygnet/ike"
)

// Down is down until up: a connection that the operator took down does not come back because the peer wants it. The machines refuse the peer, as the shards know what is
// closed. A child that was taken down by name may come back: only a machine could refuse it before it is up, and one that goes up and down at each request of
// the peer is worse.

const takenDown = "it was taken down here"

func letInHint(c *connection) string { return "to let it in: ikectl up " + c.Name }

// operate notes the operator's wish.
func (t turn) operate(c *connection, w wish) {
	was, is := c.operator == wantDown, w == wantDown
	if c.operator = w; was != is {
		t.emit(Close{c.Name, is})
	}
}

// turnAway lowers an IKE SA of a connection that the operator took down, where the peer was let in before its shard heard of that.
func (t turn) turnAway(a *sa) {
	if !a.initiated {
		t.turnedAway(a.conn, fmt.Sprintf("%v asks for it, but %s", a.peer, takenDown))
		t.report(ike.Report{Connection: a.conn.Name, Code: ike.CodeTurnedAway, Text: fmt.Sprintf("%v asks for it and is refused: %s", a.peer, takenDown), Hint: letInHint(a.conn)})
	}
	t.lower(a, ike.Lower{Why: takenDown})
}

// turnedAway notes for the operator that the peer wants to come in.
func (t turn) turnedAway(c *connection, text string) {
	c.trouble.turned = Note{t.now, text + "; " + letInHint(c)}
}

// letIn ends the wish that keeps the peer out, where only the peer can start.
func (t turn) letIn(c *connection, children []string) {
	if c.operator == wantDown {
		t.operate(c, configured)
	}
	if len(children) == 0 {
		c.off = nil
	}
	for _, name := range children {
		delete(c.off, name)
	}
}
