package userspace

import "bytes"

// passed remembers flows whose packets the selectors of an SA let pass. Those never change, and a flow's packets differ in nothing that selectors look
// at. Only the commonest packets have a place here: what is not found is asked for in full.
type passed [8]struct {
	sa  *sa
	key [37]byte // protocol, addresses, ports
	n   int      // octets of it
}

// allowed checks an inner packet against the selectors of its SA (RFC 4301 section 5.2).
func (c *passed) allowed(s *sa, packet []byte) bool {
	proto, endpoints := flowOf(packet)
	if endpoints == nil {
		return allowed(s.state.Selectors, packet)
	}
	n := len(endpoints)
	entry := &c[(endpoints[n-1]^endpoints[n-3])&7] // of both ports
	if entry.sa == s && entry.n == 1+n && entry.key[0] == proto && bytes.Equal(entry.key[1:1+n], endpoints) {
		return true
	}
	if !allowed(s.state.Selectors, packet) {
		return false
	}
	entry.sa, entry.n, entry.key[0] = s, 1+n, proto
	copy(entry.key[1:], endpoints)
	return true
}

// flowOf returns protocol, addresses and ports of a TCP or UDP packet with nothing between IP header and ports; nil of any other.
func flowOf(p []byte) (proto uint8, endpoints []byte) {
	switch {
	case p[0]>>4 == 6 && len(p) >= 44:
		proto, endpoints = p[6], p[8:44]
	case p[0] == 0x45 && len(p) >= 24 && p[6]&0x3f == 0 && p[7] == 0: // no fragment
		proto, endpoints = p[9], p[12:24]
	}
	if proto != protoTCP && proto != protoUDP {
		return proto, nil
	}
	return proto, endpoints
}
