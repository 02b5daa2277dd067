package directory

import "cygnet/ike"

// Paths: links, addresses or routes of this host have changed.
type Paths struct{}

func (Paths) dirEvent() {}

// paths: what could not be reached may be reachable now, so that no back-off is waited for.
func (t turn) paths() {
	for _, c := range t.conns {
		if c.startsAtNextTry() && !c.attempting() && t.now.Before(c.nextTry) {
			c.nextTry, c.tries = t.now, 0
			t.report(ike.Report{Connection: c.Name, Code: CodeRetry, Text: "the network of this host has changed: trying now"})
			t.settle(c)
		}
	}
}
