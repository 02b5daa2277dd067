package directory

import (
	"cygnet/ike"
)

// trouble is what the tool tells of what went wrong with a connection, as far as it still holds.
type trouble struct {
	err      Note            // why the last attempt or IKE SA failed
	last     string          // how the last IKE SA ended, when that was no failure
	children map[string]Note // why a child did not come up, or was not rekeyed
	asked    Note            // why the last request of the peer for a child was refused
	refused  Note            // the last caller who wanted to be the peer and was refused: who, and why
	turned   Note            // the peer was turned away, since the operator took the connection down
}

// Note is what went wrong once.
type Note struct {
	At   ike.Time // zero: nothing did
	Text string
}

// ChildTrouble is a child that is not up although it is wanted, or has an error.
type ChildTrouble struct {
	Name    string
	LastErr Note
	NextTry ike.Time // zero: none planned
}

// ended notes how an attempt or an IKE SA ended by itself.
func (tr *trouble) ended(now ike.Time, f ike.Finish) {
	tr.err, tr.last = Note{now, f.Text}, ""
	if f.Code == ike.CodeClosed {
		tr.err, tr.last = Note{}, f.Text
	}
}

// over: the peer has proved who it is, or the operator wants it tried anew. What is wrong with children is another matter.
func (tr *trouble) over() { tr.err, tr.last = Note{}, "" }

// anew: the operator wants it tried anew, so that what was wrong with children that are not up says nothing any more.
func (c *connection) anew() {
	c.trouble.over()
	for name := range c.trouble.children {
		if !c.childIsUp(name) {
			delete(c.trouble.children, name)
		}
	}
}

func (t turn) childFailed(ev ChildFailed) {
	a := t.sas[ev.SPI]
	if a == nil || a.conn.child(ev.Child) == nil {
		return
	}
	c := a.conn
	if c.trouble.children == nil {
		c.trouble.children = make(map[string]Note)
	}
	c.trouble.children[ev.Child] = Note{t.now, ev.Text}
}

// requestRefused: what the peer asked for was no child of ours, so that it is not known which one it meant.
func (t turn) requestRefused(ev RequestRefused) {
	if a := t.sas[ev.SPI]; a != nil && a.serves() {
		a.conn.trouble.asked = Note{t.now, ev.Text}
	}
}

// childIsWell forgets what was wrong with a child that is up, and what the peer asked for in vain once all are.
func (c *connection) childIsWell(name string) {
	c.trouble.over()
	delete(c.trouble.children, name)
	for _, ch := range c.Children {
		if !c.childIsUp(ch.Name) {
			return
		}
	}
	c.trouble.asked = Note{}
}

// caller is the last who was refused, for whichever reason.
func (tr *trouble) caller() Note {
	if tr.turned.At > tr.refused.At {
		return tr.turned
	}
	return tr.refused
}

func (t turn) callerRefused(ev CallerRefused) {
	switch c := t.find(ev.Connection); {
	case c == nil:
	case ev.Code != ike.CodeTurnedAway:
		c.trouble.refused = Note{t.now, ev.Text}
	case c.operator == wantDown: // else it is let in by now
		t.turnedAway(c, ev.Text)
	}
}

// childTroubles lists children in order of the configuration.
func (c *connection) childTroubles() (list []ChildTrouble) {
	var tries []string
	if len(c.serving()) > 0 && c.raiseAt != 0 {
		tries = c.missing()
	}
	for _, ch := range c.Children {
		x := ChildTrouble{Name: ch.Name, LastErr: c.trouble.children[ch.Name]}
		for _, name := range tries {
			if name == ch.Name {
				x.NextTry = c.raiseAt
			}
		}
		if x.LastErr.At != 0 || x.NextTry != 0 {
			list = append(list, x)
		}
	}
	return list
}
