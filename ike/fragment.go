package ike

import (
	"cmp"

	"cygnet/ike/wire"
	"cygnet/policy"
)

// Messages that would not fit into one datagram leave in fragments (RFC 7383), which are sealed each by itself, so that no firewall or NAT has to
// let fragments of IP through. The size is searched downwards (section 2.5.2): when a request stays unanswered, it is cut anew for smaller datagrams.

const (
	udpHeader   = 8
	ipv4Header  = 20
	ipv6Header  = 40
	nonESP      = 4 // RFC 3948 section 2.2: the marker before IKE on the NAT traversal port
	skfOverSK   = 4 // octets that the header of SKF has more than that of SK
	probesASize = 2 // how often a request is sent before it is cut smaller
)

// fragmentation is what was agreed about fragments, and what came of it.
type fragmentation struct {
	agreed bool // both sides announced it in IKE_SA_INIT; a rekey of the IKE SA does not ask again
	size   int  // octets that an IP datagram of a fragment of ours must not exceed, as the path or the peer has shown; 0: the configured size counts alone
	used   bool // a message went or came in fragments
}

// outgoing is a message of ours, whole or in fragments. It is kept until it needs no repeat.
type outgoing struct {
	header    wire.Header
	first     wire.PayloadType
	plain     []byte   // the payloads of one that may have to be cut smaller; else nil
	datagrams [][]byte // IKE messages: one, or all the fragments
}

// wipe forgets what was not encrypted.
func (m *outgoing) wipe() {
	if m != nil {
		clear(m.plain)
		m.plain = nil
	}
}

// whole is a message that is never cut: IKE_SA_INIT.
func whole(h wire.Header, data []byte) *outgoing {
	return &outgoing{header: h, datagrams: [][]byte{data}}
}

// announces adds the notify that we take fragments.
func announces(ps []wire.Payload) []wire.Payload {
	return append(ps, wire.NewNotify(wire.NotifyFragmentationSupported, nil))
}

func announced(ps []wire.Payload) bool {
	return len(notifies(ps, wire.NotifyFragmentationSupported)) > 0
}

// mayFragment: a responder announces fragmentation before it knows the connection, which may forbid it.
func (sa *SA) mayFragment() bool {
	return sa.fragments.agreed && (sa.conn == nil || !sa.conn.Fragments.Off)
}

// datagramSize is the present threshold in octets of IP datagrams (RFC 7383 section 2.5.1).
func (sa *SA) datagramSize() int {
	size := policy.DefaultFragmentSize
	if sa.conn != nil {
		size = cmp.Or(sa.conn.Fragments.Size, size)
	}
	return min(size, cmp.Or(sa.fragments.size, size))
}

// smallerSize is the next threshold when large datagrams vanish; false: there is none. All IPv6 paths take 1280 octets.
func (sa *SA) smallerSize() (int, bool) {
	next := policy.DefaultFragmentSize
	if sa.path.Remote.Addr().Is4() {
		next = policy.SmallestIPv4
	}
	return next, next < sa.datagramSize()
}

// overhead is what an IP datagram on a path has around an IKE message.
func (sa *SA) overhead(p Path) int {
	n := ipv6Header + udpHeader
	if p.Remote.Addr().Is4() {
		n = ipv4Header + udpHeader
	}
	if _, natt := sa.ports(); p.Local.Port() == natt {
		n += nonESP
	}
	return n
}

// pieces says in how many datagrams of a size n octets of payloads leave, and how many of them each holds. One is the whole message in SK. More
// fragments than a peer need take are not made: rather, they are larger.
func (sa *SA) pieces(n, size int) (count, room int) {
	size -= sa.overhead(sa.path)
	if !sa.mayFragment() || n <= sa.protect.Room(size+skfOverSK) {
		return 1, n
	}
	room = max(sa.protect.Room(size), (n+wire.MaxFragments-1)/wire.MaxFragments)
	return (n + room - 1) / room, room
}

// seal protects payloads and cuts them to the present size.
func (sa *SA) seal(h wire.Header, ps []wire.Payload) (*outgoing, error) {
	first, plain, err := wire.AppendPayloads(nil, ps)
	if err != nil {
		return nil, err
	}
	m := &outgoing{header: h, first: first, plain: plain}
	if err := sa.cut(m, sa.datagramSize()); err != nil {
		return nil, err
	}
	if n, _ := sa.pieces(len(plain), policy.MinFragmentSize); n == 1 {
		m.wipe() // it will never be cut
	}
	return m, nil
}

// cut makes the datagrams of a message, each with an IV of its own.
func (sa *SA) cut(m *outgoing, size int) error {
	count, room := sa.pieces(len(m.plain), size)
	m.datagrams = make([][]byte, 0, count)
	if count == 1 {
		data, err := sa.protect.Seal(m.header, m.first, m.plain, sa.config.Rand)
		m.datagrams = append(m.datagrams, data)
		return err
	}
	for number, rest := 1, m.plain; number <= count; number++ {
		n := min(room, len(rest))
		data, err := sa.protect.SealFragment(m.header, m.first, uint16(number), uint16(count), rest[:n], sa.config.Rand)
		if err != nil {
			return err
		}
		m.datagrams, rest = append(m.datagrams, data), rest[n:]
	}
	sa.fragments.used = true
	return nil
}

// recut cuts a message for smaller datagrams. False: nothing has changed, since their number would not grow, by which the receiver tells the sets
// apart (RFC 7383 section 2.5.2), or since the message does not belong to fragmentation.
func (sa *SA) recut(m *outgoing, size int) bool {
	if m == nil || m.plain == nil {
		return false
	}
	if n, _ := sa.pieces(len(m.plain), size); n <= len(m.datagrams) {
		return false
	}
	smaller := *m
	if sa.cut(&smaller, size) != nil {
		return false
	}
	*m = smaller
	return true
}

// probeSmaller: a large request stays unanswered, so the next, smaller size is tried, with timers that start over (RFC 7383 section 2.5.2).
func (sa *SA) probeSmaller() bool {
	r := &sa.requests
	size, ok := sa.smallerSize()
	if !ok || r.sent < min(probesASize, r.plan.tries) || !sa.recut(r.message, size) {
		return false
	}
	sa.fragments.size = size
	r.restart(sa.now)
	return true
}

// tooLarge: the host says that a message of ours does not fit the path. False: it cannot be made smaller.
func (sa *SA) tooLarge() bool {
	size, ok := sa.smallerSize()
	r := &sa.responses
	switch {
	case !ok || sa.protect == nil:
		return false
	case sa.recut(sa.requests.message, size):
		sa.fragments.size = size
		sa.requests.restart(sa.now)
		sa.transmit(sa.path, sa.requests.message)
		sa.repeated(sa.requests.current)
		return true
	case !r.busy && sa.recut(r.answer, size):
		sa.fragments.size = size
		sa.transmit(r.path, r.answer)
		return true
	}
	return false
}

// heedSize: the peer has reason to send small fragments, so ours are no larger (RFC 7383 section 2.5.1), also when the connection, which a responder does not know yet, allows more.
// largest is an IP datagram of its own.
func (sa *SA) heedSize(largest int) {
	largest = max(largest, policy.MinFragmentSize)
	sa.fragments.size = min(largest, cmp.Or(sa.fragments.size, largest))
}

// fragmentStatus is for Status.
func (sa *SA) fragmentStatus() (word string, size int) {
	switch {
	case !sa.mayFragment():
		return "none", 0
	case sa.fragments.used:
		return "used", sa.datagramSize()
	}
	return "agreed", sa.datagramSize()
}

// transmit sends all datagrams of a message.
func (sa *SA) transmit(p Path, m *outgoing) {
	for _, data := range m.datagrams {
		sa.send(p, data)
	}
}
