package policy

import (
	"fmt"
	"net/netip"
	"strings"
)

// compare looks for connections and children that get into each other's way. Each is told once, at the one that stands later. Hubs have thousands of
// connections, so that only those are held against each other that an index finds.
func (r *reader) compare() {
	callers := make(map[caller][]*Connection)
	for _, c := range r.snapshot.Connections {
		k := callerOf(c)
		for _, o := range callers[k] {
			if r.neverChosen(o, c) {
				break
			}
		}
		callers[k] = append(callers[k], c)
	}
	r.overlaps()
}

// caller is what tells peers apart, coarser than Identity.Equal, which has the last word.
type caller struct {
	local, remote     netip.Addr
	name              string
	localID, remoteID string
}

func callerOf(c *Connection) caller {
	return caller{c.Local.Address, c.Remote.Address, c.Remote.Name, strings.ToLower(c.Local.ID.Data), strings.ToLower(c.Remote.ID.Data)}
}

// neverChosen: a peer that calls is told apart by addresses and identities; of two connections that share all of them the second would never
// be used.
func (r *reader) neverChosen(a, b *Connection) bool {
	if a.Name == b.Name || a.Local.Address != b.Local.Address || a.Remote.Address != b.Remote.Address || a.Remote.Name != b.Remote.Name ||
		a.Local.ID.Type == 0 || a.Remote.ID.Type == 0 || !a.Local.ID.Equal(b.Local.ID) || !a.Remote.ID.Equal(b.Remote.ID) {
		return false
	}
	r.problems = append(r.problems, Problem{
		File: b.File, Line: b.Line, Code: "ambiguous",
		Text: fmt.Sprintf("connection %s has the addresses and identities of %s (%s:%d), so a peer that calls would always get the latter", b.Name, a.Name, a.File, a.Line),
		Hint: fmt.Sprintf("make its children children of %s, or give it another id", a.Name),
	})
	return true
}
