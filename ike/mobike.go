package ike

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
)

// MOBIKE (RFC 4555): the initiator of the first IKE SA chooses the path and tells the peer, and both keep a list of the other's addresses. This
// file holds what they know of each other; move.go moves. NO_NATS_ALLOWED is never sent: without NAT traversal on both sides MOBIKE is not
// agreed (section 3.9 wants that notify only then).

const (
	// maxAddresses bounds the peer's list of addresses, and ours.
	maxAddresses = 8
	// maxProven bounds the addresses at which the peer is known to receive: enough for one that goes to and fro between two networks.
	maxProven = 4
	// cookie2Len is the length in octets of our COOKIE2; section 4.2.5 allows 8 to 64.
	cookie2Len             = 16
	minCookie2, maxCookie2 = 8, 64
)

// mobility is what MOBIKE knows of an IKE SA. It survives a rekey.
type mobility struct {
	natt   bool         // both sides do NAT traversal
	agreed bool         // both sent MOBIKE_SUPPORTED
	begun  bool         // we initiated the first IKE SA: we choose the path (section 1.3)
	peer   []netip.Addr // the peer's addresses, as it told them
	told   []netip.Addr // ours, as the peer was told
	unsure bool         // whether it was
	proven []netip.Addr // where the peer has shown that it receives (section 3.7), newest last
	seen   []byte       // NAT_DETECTION_DESTINATION_IP of the peer's last answer: how it sees us; of these SPIs
	taken  bool         // an UPDATE_SA_ADDRESSES came on this IKE SA

	held      *way         // where ESP goes until the peer has shown that it receives where IKE goes; nil: with IKE
	guess     bool         // the path is only where authentic ESP of the peer came from
	stray     Time         // when ESP last came from where the peer is not
	doubt     Time         // until then no such packet counts, as the last guess was wrong
	moving    Time         // the path changed then, and the peer has not confirmed it; 0: it has
	tried     []netip.Addr // the peer's addresses from which no answer comes, since the last one came
	stranded  Time         // no address of this host leads to the peer since then; 0: one does
	lookAgain Time         // for one, then
	seeking   Token        // the look-up that counts
	reached   Time         // when something last came to where the peer believes us to be
	looked    Time         // when a change of the host's network last made us look how the peer sees us
	renewed   bool         // an IKE SA beside this one was asked for, and the peer was not heard since
}

// mayMOBIKE: it is configured and the peer does NAT traversal.
func (sa *SA) mayMOBIKE() bool { return sa.conn.MOBIKE && sa.mobility.natt }

// mobikeSupported is what an IKE_AUTH message with an SA payload says of us (sections 3.1, 3.4).
func (sa *SA) mobikeSupported() []wire.Payload {
	if !sa.mayMOBIKE() {
		return nil
	}
	ps := []wire.Payload{wire.NewNotify(wire.NotifyMOBIKESupported, nil)}
	if sa.mobility.told = sa.furtherAddresses(); len(sa.mobility.told) > 0 {
		ps = append(ps, addressNotifies(sa.mobility.told)...)
	}
	return ps
}

// heedMOBIKE reads what the peer's IKE_AUTH says. The data of MOBIKE_SUPPORTED is ignored (section 4.2.1).
func (sa *SA) heedMOBIKE(ps []wire.Payload) {
	m := &sa.mobility
	m.begun = sa.initiator
	m.proven = []netip.Addr{sa.path.Remote.Addr()} // it has our IKE_SA_INIT message
	if _, said := wire.FindNotify(ps, wire.NotifyMOBIKESupported); said && sa.mayMOBIKE() {
		m.agreed = true
		m.peer, _ = peerAddresses(ps, sa.path)
	}
}

// inherit takes over what concerns the peer rather than the keys. The hash of how it sees us has the SPIs in it.
func (m *mobility) inherit(from mobility) {
	*m = from
	m.peer, m.told, m.proven, m.tried = slices.Clone(from.peer), slices.Clone(from.told), slices.Clone(from.proven), nil
	m.seen, m.taken, m.seeking = nil, false, 0
}

// furtherAddresses are ours besides the one that IKE uses. With a configured address there is no other; and one of a protected network is not
// for the way to the peer.
func (sa *SA) furtherAddresses() []netip.Addr {
	if sa.conn.Local.Address.IsValid() {
		return nil
	}
	var list []netip.Addr
	for _, a := range sa.config.Addresses {
		if len(list) < maxAddresses && usable(a) && a != sa.path.Local.Addr() && !sa.protects(a) && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// protects reports whether an address of ours lies in a network that a child protects, unless that is everything.
func (sa *SA) protects(a netip.Addr) bool {
	return slices.ContainsFunc(sa.conn.Children, func(c *policy.Child) bool { return covers(c.Local, a) })
}

// covers reports whether selectors other than "everything" hold an address.
func covers(list []policy.TS, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(ts policy.TS) bool {
		return !ts.Start.IsUnspecified() && ts.Start.BitLen() == a.BitLen() && ts.Start.Compare(a) <= 0 && a.Compare(ts.End) <= 0
	})
}

// usable reports whether an address can be one end of a path.
func usable(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// addressNotifies is the whole list of our further addresses, none included (section 3.6).
func addressNotifies(list []netip.Addr) (ps []wire.Payload) {
	for _, a := range list {
		kind := wire.NotifyAdditionalIP6Address
		if a.Is4() {
			kind = wire.NotifyAdditionalIP4Address
		}
		ps = append(ps, wire.NewNotify(kind, a.AsSlice()))
	}
	if len(ps) == 0 {
		ps = append(ps, wire.NewNotify(wire.NotifyNoAdditionalAddresses, nil))
	}
	return ps
}

// peerAddresses reads the list of the peer's addresses: that of the IP header first (section 3.6). told is false where a message has none.
func peerAddresses(ps []wire.Payload, from Path) (list []netip.Addr, told bool) {
	list = []netip.Addr{from.Remote.Addr()}
	for _, n := range wire.All[*wire.Notify](ps) {
		size := 0
		switch n.Kind {
		case wire.NotifyAdditionalIP4Address:
			size = 4
		case wire.NotifyAdditionalIP6Address:
			size = 16
		case wire.NotifyNoAdditionalAddresses:
			told = true
		}
		if size == 0 {
			continue
		}
		told = true
		a, ok := netip.AddrFromSlice(n.Data)
		if ok && len(n.Data) == size && usable(a.Unmap()) && len(list) < maxAddresses && !slices.Contains(list, a.Unmap()) {
			list = append(list, a.Unmap())
		}
	}
	return list, told
}

// prove notes that the peer receives at an address.
func (m *mobility) prove(a netip.Addr) {
	m.proven = append(slices.DeleteFunc(m.proven, func(x netip.Addr) bool { return x == a }), a)
	m.proven = m.proven[max(len(m.proven)-maxProven, 0):]
}

// cookie2 finds the COOKIE2 of a message; nil: none of a legal length.
func cookie2(ps []wire.Payload) []byte {
	n, ok := wire.FindNotify(ps, wire.NotifyCookie2)
	if !ok || len(n.Data) < minCookie2 || len(n.Data) > maxCookie2 {
		return nil
	}
	return n.Data
}

// returned reports whether a response has the COOKIE2 of its request; a request without one is answered by any.
func returned(ps []wire.Payload, cookie []byte) bool {
	return cookie == nil || subtle.ConstantTimeCompare(cookie2(ps), cookie) == 1
}

// mistaken reports whether NO_NATS_ALLOWED contradicts the addresses and ports that a message came with (section 3.9).
func mistaken(ps []wire.Payload, came Path) bool {
	n, ok := wire.FindNotify(ps, wire.NotifyNoNATsAllowed)
	if !ok {
		return false
	}
	src, dst := came.Remote, came.Local
	want := append(src.Addr().AsSlice(), dst.Addr().AsSlice()...)
	want = binary.BigEndian.AppendUint16(want, src.Port())
	want = binary.BigEndian.AppendUint16(want, dst.Port())
	return !bytes.Equal(n.Data, want)
}

// answerMobile handles what MOBIKE adds to an INFORMATIONAL request. It returns what the response says of it, and what follows the response.
func (sa *SA) answerMobile(m *message) (ps []wire.Payload, then func()) {
	then = func() {}
	if !sa.mobility.agreed {
		return nil, then
	}
	if c := cookie2(m.payloads); c != nil { // section 3.7: MUST copy the notify as it is
		ps = append(ps, wire.NewNotify(wire.NotifyCookie2, c))
	}
	_, update := wire.FindNotify(m.payloads, wire.NotifyUpdateSAAddresses)
	list, told := peerAddresses(m.payloads, m.path)
	if (update || told) && mistaken(m.payloads, m.path) {
		sa.ignored("addresses on the way from %v were changed, which NO_NATS_ALLOWED forbids", m.path.Remote)
		return append(ps, wire.NewNotify(wire.NotifyUnexpectedNATDetected, nil)), then
	}
	if why := sa.unacceptable(m.path); update && why != "" {
		sa.refused(&Refusal{Stage: "INFORMATIONAL", Code: CodePeerError, Why: "the peer wants to move to " + m.path.Remote.String() + ": " + why}, "")
		return append(ps, wire.NewNotify(wire.NotifyUnacceptableAddresses, nil)), then
	}
	if len(notifies(m.payloads, wire.NotifyNATDetectionSourceIP))+len(notifies(m.payloads, wire.NotifyNATDetectionDestinationIP)) > 0 { // section 3.8
		i, r := sa.spis()
		ps = append(ps, natPayloads(i, r, m.path, sa.nat.faked)...)
	}
	if sa.phase.name() != phaseEstablished {
		return ps, then
	}
	return ps, func() {
		if told {
			sa.heedAddresses(list)
		}
		if update {
			sa.follows(m)
		}
	}
}

// unacceptable says why the peer may not move to a path; "": it may. An address that is configured for us is the only one.
func (sa *SA) unacceptable(p Path) string {
	local := sa.conn.Local.Address
	switch {
	case sa.mobility.begun:
		return "it is we who choose the path (RFC 4555 section 3.5)"
	case !usable(p.Remote.Addr()):
		return "that is no address of a host"
	case local.IsValid() && p.Local.Addr() != local.Unmap():
		return "it came to " + p.Local.Addr().String() + ", and " + where(sa.conn, "local.address", "local") + " allows " + local.String() + " alone"
	}
	return ""
}

// heedAddresses replaces the list of the peer's addresses (section 3.6).
func (sa *SA) heedAddresses(list []netip.Addr) {
	m := &sa.mobility
	m.peer = list
	if m.begun && !slices.Contains(list, sa.path.Remote.Addr()) {
		sa.seek("the peer has left "+sa.path.Remote.Addr().String(), false)
	}
}

// patienceOf a responder whose peer may come from anywhere: it gives the peer time to find another path (section 3.11: for at least five minutes). A peer
// with an address in the configuration is a gateway that stays where it is, and one that is gone must be known soon.
func (sa *SA) patienceOf(s schedule) schedule {
	if !sa.mobility.agreed || sa.mobility.begun || sa.conn.Remote.Address.IsValid() || sa.conn.Remote.Name != "" {
		return s
	}
	total, next := time.Duration(0), s.first
	for range s.tries {
		total, next = total+next, time.Duration(float64(next)*s.factor)
	}
	for ; total < roamingLimit && s.tries < maxRoamingTries; s.tries++ {
		total, next = total+next, time.Duration(float64(next)*s.factor)
	}
	return s
}

const (
	roamingLimit    = 5 * time.Minute
	maxRoamingTries = 20
)
