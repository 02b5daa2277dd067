package directory

import (
	"fmt"

	"cygnet/ike"
)

// Down is down until up: a connection that the operator took down does not come back because the peer wants it. A child that was taken down by name
// may: only a machine could refuse it before it is up, and one that goes up and down at each request of the peer is worse.

const takenDown = "it was taken down here"

// turnAway lowers an IKE SA of a connection that the operator took down. The peer has proved who it is; its operator hears of a Delete.
func (t turn) turnAway(a *sa) {
	if !a.initiated {
		hint := "to let it in: ikectl up " + a.conn.Name
		a.conn.trouble.turned = Note{t.now, fmt.Sprintf("%v asks for it, but %s; %s", a.peer, takenDown, hint)}
		t.report(ike.Report{Connection: a.conn.Name, Code: CodeTurnedAway, Text: fmt.Sprintf("%v asks for it and is refused: %s", a.peer, takenDown), Hint: hint})
	}
	t.lower(a, ike.Lower{Why: takenDown})
}

// letIn ends the wish that keeps the peer out, where only the peer can start.
func (c *connection) letIn(children []string) {
	if c.operator == wantDown {
		c.operator = configured
	}
	if len(children) == 0 {
		c.off = nil
	}
	for _, name := range children {
		delete(c.off, name)
	}
}
