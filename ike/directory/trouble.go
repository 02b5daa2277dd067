package directory

import (
	"cygnet/ike"
)

// trouble is what the tool tells of what went wrong with a connection, as far as it still holds.
type trouble struct {
	err      string            // why the last attempt or IKE SA failed
	last     string            // how the last IKE SA ended, when that was no failure
	children map[string]string // why a child did not come up, or was not rekeyed
	refused  Caller
}

// Caller is someone who wanted to be the peer of a connection and was refused.
type Caller struct {
	At   ike.Time // zero: there was none
	Text string   // who, and why
}

// ChildTrouble is a child that is not up although it is wanted, or has an error.
type ChildTrouble struct {
	Name    string
	LastErr string
	NextTry ike.Time // zero: none planned
}

// ended notes how an attempt or an IKE SA ended by itself.
func (tr *trouble) ended(f ike.Finish) {
	tr.err, tr.last = f.Text, ""
	if f.Code == ike.CodeClosed {
		tr.err, tr.last = "", f.Text
	}
}

// over: the peer has proved who it is. What is wrong with children is another matter.
func (tr *trouble) over() { tr.err, tr.last = "", "" }

func (t turn) childFailed(ev ChildFailed) {
	a := t.sas[ev.SPI]
	if a == nil || a.conn.child(ev.Child) == nil {
		return
	}
	c := a.conn
	if c.trouble.children == nil {
		c.trouble.children = make(map[string]string)
	}
	c.trouble.children[ev.Child] = ev.Text
}

func (t turn) callerRefused(ev CallerRefused) {
	if c := t.find(ev.Connection); c != nil {
		c.trouble.refused = Caller{At: t.now, Text: ev.Text}
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
		if x.LastErr != "" || x.NextTry != 0 {
			list = append(list, x)
		}
	}
	return list
}
