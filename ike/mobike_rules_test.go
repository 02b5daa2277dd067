package ike

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"cygnet/ike/wire"
)

func addresses(list ...string) (as []netip.Addr) {
	for _, s := range list {
		as = append(as, netip.MustParseAddr(s))
	}
	return as
}

// TestUsable: what can be an end of a path.
func TestUsable(t *testing.T) {
	for _, a := range addresses("192.0.2.1", "2001:db8::1", "10.0.0.0") {
		if !usable(a) {
			t.Errorf("%v is not usable", a)
		}
	}
	for _, a := range append(addresses("0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "ff02::1", "169.254.1.1", "fe80::1", "255.255.255.255"), netip.Addr{}) {
		if usable(a) {
			t.Errorf("%v is usable", a)
		}
	}
}

// TestProtects: an address in a protected network is not for the way to the peer, borders included, unless the network is everything.
func TestProtects(t *testing.T) {
	n := newPair(t, setup{a: gwA + "\n[connection.site-b.child.all]\nlocal = [\"0.0.0.0/0\", \"2001:db8:1::/64\"]\nremote = [\"10.9.0.0/16\"]\n"})
	for text, want := range map[string]bool{"10.0.255.255": false, "10.1.0.0": true, "10.1.7.7": true, "10.1.255.255": true, "10.2.0.0": false, "192.0.2.1": false,
		"2001:db8:1::": true, "2001:db8:1::ffff:ffff:ffff:ffff": true, "2001:db8:1:1::": false, "2001:db8::ffff": false} {
		if got := n.a.sa.protects(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestFurtherAddresses: each once, no more than the bound, not the one in use, and none where the configuration names ours.
func TestFurtherAddresses(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	sa := n.a.sa
	sa.config.Addresses = addresses("192.0.2.1", "203.0.113.1", "203.0.113.1", "10.1.0.1", "fe80::1", "203.0.113.2")
	if got := sa.furtherAddresses(); !slices.Equal(got, addresses("203.0.113.1", "203.0.113.2")) {
		t.Errorf("%v", got)
	}
	sa.config.Addresses = nil
	for k := range byte(2 * maxAddresses) {
		sa.config.Addresses = append(sa.config.Addresses, netip.AddrFrom4([4]byte{203, 0, 113, k}))
	}
	if got := sa.furtherAddresses(); len(got) != maxAddresses {
		t.Errorf("%d addresses", len(got))
	}
	n = newPair(t, setup{})
	n.a.sa.config.Addresses = addresses("203.0.113.1")
	n.up()
	if got := n.a.sa.furtherAddresses(); got != nil {
		t.Errorf("beside a configured one: %v", got)
	}
}

// TestPeerAddresses: the list as notifies hold it, the address of the header first; what is malformed, unusable or there already is left out.
func TestPeerAddresses(t *testing.T) {
	from := Path{Local: apB, Remote: apA}
	four := func(b ...byte) wire.Payload { return wire.NewNotify(wire.NotifyAdditionalIP4Address, b) }
	six := func(a string) wire.Payload {
		return wire.NewNotify(wire.NotifyAdditionalIP6Address, netip.MustParseAddr(a).AsSlice())
	}
	none := wire.NewNotify(wire.NotifyNoAdditionalAddresses, nil)
	for name, c := range map[string]struct {
		ps   []wire.Payload
		want []netip.Addr
		told bool
	}{
		"nothing said":  {[]wire.Payload{wire.NewNotify(wire.NotifyMOBIKESupported, []byte{9, 9, 9, 9})}, addresses("192.0.2.1"), false},
		"none":          {[]wire.Payload{none}, addresses("192.0.2.1"), true},
		"some":          {[]wire.Payload{four(9, 9, 9, 9), six("2001:db8::1"), four(9, 9, 9, 9), four(192, 0, 2, 1)}, addresses("192.0.2.1", "9.9.9.9", "2001:db8::1"), true},
		"malformed":     {[]wire.Payload{four(9, 9, 9), wire.NewNotify(wire.NotifyAdditionalIP6Address, []byte{9, 9, 9, 9}), four(make([]byte, 16)...)}, addresses("192.0.2.1"), true},
		"unusable":      {[]wire.Payload{four(127, 0, 0, 1), six("ff02::1"), six("::ffff:127.0.0.1")}, addresses("192.0.2.1"), true},
		"mapped":        {[]wire.Payload{six("::ffff:9.9.9.9"), four(9, 9, 9, 9)}, addresses("192.0.2.1", "9.9.9.9"), true},
		"one of each 4": {[]wire.Payload{none, four(9, 9, 9, 9)}, addresses("192.0.2.1", "9.9.9.9"), true},
	} {
		if got, told := peerAddresses(c.ps, from); !slices.Equal(got, c.want) || told != c.told {
			t.Errorf("%s: %v, told %v", name, got, told)
		}
	}
	list := []netip.Addr{addrC, netip.MustParseAddr("2001:db8::1")}
	if got, told := peerAddresses(addressNotifies(list), from); !told || !slices.Equal(got, append([]netip.Addr{addrA}, list...)) {
		t.Errorf("what we say is read as %v", got)
	}
	if ps := addressNotifies(nil); !notified(ps, wire.NotifyNoAdditionalAddresses) {
		t.Errorf("no addresses are told as %v", ps)
	}
}

// TestProven: the last few, each once, newest last.
func TestProven(t *testing.T) {
	var m mobility
	for _, k := range []byte{1, 2, 3, 1, 4} {
		m.prove(netip.AddrFrom4([4]byte{10, 0, 0, k}))
	}
	if want := addresses("10.0.0.2", "10.0.0.3", "10.0.0.1", "10.0.0.4"); !slices.Equal(m.proven, want) {
		t.Errorf("%v, want %v", m.proven, want)
	}
	m.prove(netip.AddrFrom4([4]byte{10, 0, 0, 5}))
	if want := addresses("10.0.0.3", "10.0.0.1", "10.0.0.4", "10.0.0.5"); !slices.Equal(m.proven, want) {
		t.Errorf("%v, want %v", m.proven, want)
	}
}

// TestCookie2Length: 8 to 64 octets (RFC 4555 section 4.2.5), and what is none is not returned.
func TestCookie2Length(t *testing.T) {
	for size, legal := range map[int]bool{0: false, 7: false, 8: true, 16: true, 64: true, 65: false} {
		c := bytes.Repeat([]byte{5}, size)
		ps := []wire.Payload{wire.NewNotify(wire.NotifyCookie2, c)}
		if got := cookie2(ps); (got != nil) != legal || legal && !bytes.Equal(got, c) {
			t.Errorf("%d octets: %x", size, got)
		}
		if legal && !returned(ps, c) {
			t.Errorf("%d octets: not returned", size)
		}
	}
	if !returned(nil, nil) || returned(nil, make([]byte, 16)) || returned([]wire.Payload{wire.NewNotify(wire.NotifyCookie2, make([]byte, 17))}, make([]byte, 16)) {
		t.Error("what was not sent comes back, or what was does not")
	}
}

// TestInherit: a new IKE SA knows the peer's addresses as the old one did, of its own, and nothing that hangs on the SPIs.
func TestInherit(t *testing.T) {
	old := mobility{natt: true, agreed: true, begun: true, peer: addresses("9.9.9.1"), told: addresses("9.9.9.2"), proven: addresses("9.9.9.3"), tried: addresses("9.9.9.4"),
		seen: []byte{1}, taken: true, seeking: 7, moving: 5}
	var m mobility
	m.inherit(old)
	if !m.natt || !m.agreed || !m.begun || m.moving != 5 || m.tried != nil || m.seen != nil || m.taken || m.seeking != 0 {
		t.Errorf("%+v", m)
	}
	m.peer[0], m.told[0], m.proven[0] = addrC, addrC, addrC
	if !slices.Equal(old.peer, addresses("9.9.9.1")) || !slices.Equal(old.told, addresses("9.9.9.2")) || !slices.Equal(old.proven, addresses("9.9.9.3")) {
		t.Error("the old IKE SA's lists are changed through the new one")
	}
}

// TestPatience: a peer that may roam has at least five minutes to find another path (RFC 4555 section 3.11); whoever stands in the configuration does not.
func TestPatience(t *testing.T) {
	lasts := func(s schedule) (total time.Duration) {
		next := s.first
		for range s.tries {
			total, next = total+next, time.Duration(float64(next)*s.factor)
		}
		return total
	}
	n := roaming(t, setup{})
	n.up()
	for _, s := range []schedule{{4 * time.Second, 1.8, 5}, {2 * time.Second, 1.5, 3}, {4 * time.Second, 2, 2}} {
		got := n.b.sa.patienceOf(s)
		less := got
		less.tries--
		if got.first != s.first || got.factor != s.factor || lasts(got) < roamingLimit || lasts(less) >= roamingLimit && got.tries > s.tries {
			t.Errorf("%+v becomes %+v, which lasts %v", s, got, lasts(got))
		}
	}
	if got := n.b.sa.patienceOf(schedule{time.Second, 1, 3}); got.tries != maxRoamingTries {
		t.Errorf("of a request every second %d are sent", got.tries)
	}
	plan := schedule{4 * time.Second, 1.8, 5}
	for _, long := range []schedule{{time.Minute, 2, 10}, {time.Minute, 1, 5}} {
		if got := n.b.sa.patienceOf(long); got != long {
			t.Errorf("what is long enough, %+v, was made longer: %+v", long, got)
		}
	}
	if got := n.a.sa.patienceOf(plan); got != plan {
		t.Errorf("the side that moves waits %+v", got)
	}
	n = newPair(t, setup{})
	n.up()
	if got := n.b.sa.patienceOf(plan); got != plan {
		t.Errorf("for a peer with an address in the configuration: %+v", got)
	}
	n = roaming(t, setup{still: true})
	n.up()
	if got := n.b.sa.patienceOf(plan); got != plan {
		t.Errorf("for a peer without MOBIKE: %+v", got)
	}
}

// TestMobileAnswers: what a request of MOBIKE is answered, and what is not said where MOBIKE was not agreed.
func TestMobileAnswers(t *testing.T) {
	cookie := wire.NewNotify(wire.NotifyCookie2, []byte("01234567"))
	update := wire.NewNotify(wire.NotifyUpdateSAAddresses, nil)
	n := newPair(t, setup{still: true})
	n.up()
	if answer := n.a.ask(wire.Informational, cookie, update, wire.NewNotify(wire.NotifyNoNATsAllowed, nil)); len(answer) != 0 {
		t.Errorf("not agreed, and answered %v", answer)
	}

	n = roaming(t, setup{})
	n.up()
	if answer := n.a.ask(wire.Informational, wire.NewNotify(wire.NotifyNoNATsAllowed, nil), cookie); !notified(answer, wire.NotifyCookie2) {
		t.Errorf("NO_NATS_ALLOWED beside no address is answered %v", answer)
	}
	i, r := n.a.sa.spis()
	answer := n.a.ask(wire.Informational, natPayloads(i, r, n.a.sa.path, false)...)
	if len(answer) != 2 || len(notifies(answer, wire.NotifyNATDetectionSourceIP)) != 1 || len(notifies(answer, wire.NotifyNATDetectionDestinationIP)) != 1 {
		t.Errorf("NAT detection is answered %v", answer)
	}
	four := wire.NewNotify(wire.NotifyAdditionalIP4Address, []byte{9, 9, 9, 9})
	if answer := n.a.ask(wire.Informational, four, wire.NewNotify(wire.NotifyNoNATsAllowed, nil)); !notified(answer, wire.NotifyUnexpectedNATDetected) || len(n.b.sa.mobility.peer) != 1 {
		t.Errorf("addresses beside a wrong NO_NATS_ALLOWED are answered %v, and %v known", answer, n.b.sa.mobility.peer)
	}
	n.b.wants(CodeIgnored, "addresses on the way from 192.0.2.1:4500 were changed")
	if n.a.ask(wire.Informational, four); !slices.Equal(n.b.sa.mobility.peer, addresses("192.0.2.1", "9.9.9.9")) {
		t.Errorf("known are %v", n.b.sa.mobility.peer)
	}
	if n.a.ask(wire.Informational, cookie); len(n.b.sa.mobility.peer) != 2 {
		t.Errorf("after a request that tells none: %v", n.b.sa.mobility.peer)
	}
	if n.a.ask(wire.Informational, addressNotifies(nil)...); len(n.b.sa.mobility.peer) != 1 {
		t.Errorf("after NO_ADDITIONAL_ADDRESSES: %v", n.b.sa.mobility.peer)
	}
}

// TestUnacceptablePaths: where a peer may not move, in words.
func TestUnacceptablePaths(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	b := n.b.sa
	to := func(local, remote string) Path {
		return Path{Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote)}
	}
	for _, c := range []struct {
		sa   *SA
		path Path
		want string
	}{
		{b, to("198.51.100.7:4500", "203.0.113.50:4500"), ""},
		{b, to("198.51.100.8:4500", "203.0.113.50:4500"), "it came to 198.51.100.8, and conn.d/test.toml:2: local.address allows 198.51.100.7 alone"},
		{b, to("198.51.100.7:4500", "127.0.0.1:4500"), "that is no address of a host"},
		{n.a.sa, n.a.sa.path, "it is we who choose the path (RFC 4555 section 3.5)"},
	} {
		if got := c.sa.unacceptable(c.path); got != c.want {
			t.Errorf("%v: %q, want %q", c.path, got, c.want)
		}
	}
	update := wire.NewNotify(wire.NotifyUpdateSAAddresses, nil)
	if answer := n.b.ask(wire.Informational, update); !notified(answer, wire.NotifyUnacceptableAddresses) {
		t.Errorf("answer %v", answer)
	}
	n.a.wants(CodePeerError, "the peer wants to move to 198.51.100.7:4500: it is we who choose the path")
	n = roaming(t, setup{})
	n.up()
	if why := n.b.sa.unacceptable(to("198.51.100.8:4500", "203.0.113.50:4500")); why != "" {
		t.Errorf("without a configured address: %q", why)
	}
}

// TestSupportedAlone: a host with one address says MOBIKE_SUPPORTED in IKE_AUTH and nothing of addresses; one with more tells them.
func TestSupportedAlone(t *testing.T) {
	for _, more := range [][]netip.Addr{nil, {addrC, addrD}} {
		n := roaming(t, setup{})
		n.a.sa.config.Addresses = append([]netip.Addr{addrA}, more...)
		n.tamper(func(o *opened) bool {
			if !o.is(wire.IKEAuth, false) {
				return false
			}
			told, none := notifies(o.ps, wire.NotifyAdditionalIP4Address), notifies(o.ps, wire.NotifyNoAdditionalAddresses)
			if len(told) != len(more) || len(none) != 0 || len(notifies(o.ps, wire.NotifyMOBIKESupported)) != 1 {
				t.Errorf("%d further addresses: %d told, %d NO_ADDITIONAL_ADDRESSES", len(more), len(told), len(none))
			}
			return false
		})
		n.up()
	}
}

// TestRenewsOnce: a host whose address changes again and again while the peer is not heard asks for one IKE SA beside this one, and for another when it was heard.
func TestRenewsOnce(t *testing.T) {
	n := roaming(t, setup{still: true})
	n.up()
	n.hook = func(datagram) []datagram { return nil }
	for _, to := range []netip.Addr{addrC, addrD, addrC} {
		n.roam(to)
		n.run(time.Second, nil)
	}
	if len(n.a.reauth) != 1 {
		t.Errorf("asked %d times while the peer was not heard", len(n.a.reauth))
	}
	n.a.do(func(sa *SA) { sa.heard(sa.path) })
	n.roam(addrD)
	n.run(time.Second, nil)
	if len(n.a.reauth) != 2 {
		t.Errorf("asked %d times after it was", len(n.a.reauth))
	}
}
