package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
)

// ByName returns a connection or nil.
func (s *Snapshot) ByName(name string) *Connection {
	for _, c := range s.Connections {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Near returns names that resemble name, for "did you mean".
func (s *Snapshot) Near(name string) []string {
	var names []string
	for _, c := range s.Connections {
		names = append(names, c.Name)
	}
	return Near(name, names)
}

// Candidates are the connections that an IKE_SA_INIT from remote to local may belong to, most specific addresses first.
func (s *Snapshot) Candidates(local, remote netip.Addr) []*Connection {
	local, remote = local.Unmap(), remote.Unmap()
	var out []*Connection
	for _, c := range s.Connections {
		if c.skips(local, remote) == "" {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *Connection) int { return cmp.Compare(b.specific(), a.specific()) })
	return out
}

// skips says why c is not for packets between these addresses; "" when it is.
func (c *Connection) skips(local, remote netip.Addr) string {
	switch {
	case c.Remote.Address.IsValid() && c.Remote.Address != remote:
		return fmt.Sprintf("expects the peer at %s", c.Remote.Address)
	case c.Local.Address.IsValid() && c.Local.Address != local:
		return fmt.Sprintf("is for our address %s", c.Local.Address)
	}
	return ""
}

// specific orders candidates: the peer's address counts more than ours; a name is more than any.
func (c *Connection) specific() (n int) {
	switch {
	case c.Remote.Address.IsValid():
		n = 4
	case c.Remote.Name != "":
		n = 2
	}
	if c.Local.Address.IsValid() {
		n++
	}
	return n
}

// NoCandidate says why no connection is for an IKE_SA_INIT from remote to local: each connection with what keeps it out.
func (s *Snapshot) NoCandidate(local, remote netip.Addr) *Mismatch {
	local, remote = local.Unmap(), remote.Unmap()
	m := &Mismatch{Notify: wire.NotifyNoProposalChosen, Theirs: fmt.Sprintf("%s to %s", remote, local), Hint: "add a connection for this peer, or correct its address"}
	var list []string
	for _, c := range s.Connections {
		why := c.skips(local, remote)
		if len(list) == 8 || why == "" {
			continue
		}
		list = append(list, c.Name+" "+why)
	}
	if len(list) == 0 {
		m.Text = fmt.Sprintf("no connection for %s <-> %s: none is configured", local, remote)
		return m
	}
	m.Ours = strings.Join(list, "; ")
	m.Text = fmt.Sprintf("no connection for %s <-> %s: %s", local, remote, m.Ours)
	c := s.Connections[0]
	m.Hint = where(c.File, c.Line, c.Lines, "remote.address") + fmt.Sprintf("address = %q if %s is this peer", remote.String(), c.Name)
	return m
}

// ForIdentities picks the connection of a responder: peer is the authenticated-to-be IDi, asked the IDr of the request or nil.
func ForIdentities(cands []*Connection, peer auth.Identity, asked *auth.Identity) (*Connection, *Mismatch) {
	var known *Connection
	for _, c := range meant(cands, peer) {
		if asked == nil || c.Local.ID.Equal(*asked) {
			return c, nil
		}
		if known == nil {
			known = c
		}
	}
	if known != nil {
		return nil, wrongAsked(known, *asked)
	}
	for _, c := range cands {
		if c.Local.ID.Equal(peer) && (asked == nil || c.Remote.ID.Equal(*asked)) {
			return nil, SwappedIDs(c, peer)
		}
	}
	return nil, wrongPeer(cands, peer)
}

// meant are the candidates that want the peer: those that want it alone first.
func meant(cands []*Connection, peer auth.Identity) (list []*Connection) {
	var several []*Connection
	for _, c := range cands {
		switch {
		case !c.Remote.Wants(peer):
		case c.Remote.ID.Type != 0:
			list = append(list, c)
		default:
			several = append(several, c)
		}
	}
	return append(list, several...)
}

// SwappedIDs: the peer goes by our name, as with a file that was copied to the other end as it was.
func SwappedIDs(c *Connection, peer auth.Identity) *Mismatch {
	return &Mismatch{Notify: wire.NotifyAuthenticationFailed, Ours: c.Local.ID.String(), Theirs: peer.String(),
		Text: fmt.Sprintf("the peer says it is %s, which is our own id in %s: the two ids seem to be swapped at one end", peer, c.Name),
		Hint: fmt.Sprintf("local.id is our own name, remote.id the peer's: exchange %s and %s here, or the two on the peer", c.Where("local.id", "local"), c.Where("remote.id", "remote")),
	}
}

func wrongPeer(cands []*Connection, peer auth.Identity) *Mismatch {
	m := &Mismatch{Notify: wire.NotifyAuthenticationFailed, Theirs: peer.String()}
	var list []string
	for n, c := range cands {
		if n == 8 {
			list = append(list, fmt.Sprintf("and %d more", len(cands)-n))
			break
		}
		list = append(list, fmt.Sprintf("%s wants %s", c.Name, c.Remote.identityText()))
	}
	if len(list) == 0 {
		m.Text = fmt.Sprintf("the peer says it is %s; no connection is meant for its address", m.Theirs)
		return m
	}
	m.Ours = strings.Join(list, "; ")
	m.Text = fmt.Sprintf("the peer says it is %s; %s", m.Theirs, m.Ours)
	c := cands[0]
	m.Hint = where(c.File, c.Line, c.Lines, "remote.id") + fmt.Sprintf("remote id = %q, or let the peer send %s", peer.String(), c.Remote.identityText())
	return m
}

func wrongAsked(c *Connection, asked auth.Identity) *Mismatch {
	m := &Mismatch{Notify: wire.NotifyAuthenticationFailed, Ours: c.Local.ID.String(), Theirs: asked.String()}
	m.Text = fmt.Sprintf("the peer asks for %s here; %s says that we are %s", m.Theirs, c.Name, m.Ours)
	m.Hint = where(c.File, c.Line, c.Lines, "local.id") + fmt.Sprintf("local id = %q, or let the peer expect %s", asked.String(), m.Ours)
	return m
}
