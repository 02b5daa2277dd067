package ike

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// lone is A with a peer that never answers.
func lone(t *testing.T, s setup) *network {
	n := newPair(t, s)
	n.hook = func(datagram) []datagram { return nil }
	return n
}

func (h *host) texts(code Code) (list []string) {
	for _, r := range h.reports {
		if r.Code == code {
			list = append(list, r.Text)
		}
	}
	return list
}

// TestRepeatsAreTold: who waits for a peer that is not there hears of each try.
func TestRepeatsAreTold(t *testing.T) {
	n := lone(t, setup{})
	n.a.step(Initiate{})
	n.run(time.Minute, func() bool { return n.a.finish != nil })
	want := []string{"IKE_SA_INIT sent to 198.51.100.7:500", "no answer to IKE_SA_INIT, sent again (2 of 6)", "no answer to IKE_SA_INIT, sent again (3 of 6)",
		"no answer to IKE_SA_INIT, sent again (4 of 6)", "no answer to IKE_SA_INIT, sent again (5 of 6)", "no answer to IKE_SA_INIT, sent again (6 of 6)"}
	if got := n.a.texts(CodeSent); !slices.Equal(got, want) {
		t.Errorf("said %q", got)
	}
}

// TestSendFailed: what the host cannot send ends an attempt at once; what may pass does not, nor does anything once the peer has answered.
func TestSendFailed(t *testing.T) {
	for _, c := range []struct {
		fault SendFault
		text  string // empty: the attempt goes on
		hint  string
	}{
		{SendNoSource, "cannot send from 192.0.2.1: it is no address of this host (conn.d/test.toml:2: local.address)", "leave its address out"},
		{SendNoRoute, "cannot send from 192.0.2.1: no route to 198.51.100.7", "ip route get 198.51.100.7"},
		{SendRefused, "", ""},
	} {
		n := lone(t, setup{})
		n.a.step(Initiate{})
		n.run(100*time.Millisecond, nil)
		failed := SendFailed{n.a.sa.path, c.fault, errors.New("operation not permitted")}
		other := failed
		other.Remote = netip.MustParseAddrPort("198.51.100.99:500")
		n.a.step(other)
		if n.a.finish != nil {
			t.Fatal("another destination's failure ended it")
		}
		n.a.step(failed)
		switch {
		case c.text == "" && n.a.finish == nil:
			if got := n.a.texts(CodeSent); !strings.Contains(got[len(got)-1], "not sent: operation not permitted") {
				t.Errorf("said %q", got)
			}
		case n.a.finish == nil || n.a.finish.Code != CodeNotSent || !n.a.finish.Retry:
			t.Errorf("%d: finish %+v", c.fault, n.a.finish)
		default:
			n.a.wants(CodeNotSent, c.text, c.hint)
		}
	}
	n := newPair(t, setup{})
	n.up()
	n.a.step(SendFailed{n.a.sa.path, SendNoRoute, errors.New("network is unreachable")})
	if !n.a.sa.Established() {
		t.Error("a lost route ended an established IKE SA")
	}
}

// TestSendFailedNextAddress: of several addresses the next is tried.
func TestSendFailedNextAddress(t *testing.T) {
	n := lone(t, setup{a: strings.Replace(gwA, `address = "198.51.100.7"`, `address = "gw-b.example"`, 1)})
	n.a.lookup = []netip.Addr{netip.MustParseAddr("203.0.113.4"), addrB}
	n.a.step(Initiate{})
	n.run(100*time.Millisecond, nil)
	n.a.step(SendFailed{n.a.sa.path, SendNoRoute, errors.New("network is unreachable")})
	n.run(100*time.Millisecond, nil)
	if last := n.a.sends[len(n.a.sends)-1]; n.a.finish != nil || last.Remote.Addr() != addrB {
		t.Errorf("finish %+v, last sent to %v", n.a.finish, last.Remote)
	}
}

// asks counts the liveness requests that A sent.
func (n *network) asks() (asked int) {
	seen := map[uint32]bool{}
	for _, s := range n.a.sends {
		if h, err := wire.ParseHeader(s.Data); err == nil && h.Exchange == wire.Informational && !h.Response() && !seen[h.MessageID] {
			seen[h.MessageID] = true
			asked++
		}
	}
	return asked
}

// quietPair has a side B that asks nothing by itself.
func quietPair(t *testing.T) *network {
	n := newPair(t, setup{b: strings.Replace(gwB, "[connection.site-a.child", "liveness = { idle = \"24h\" }\n[connection.site-a.child", 1)})
	n.up()
	n.run(time.Second, nil)
	return n
}

// TestQuietPeer: packets that go out while none come in make the peer be asked after 10 s and not after 30; a peer that only listens is asked less and less.
func TestQuietPeer(t *testing.T) {
	n := quietPair(t)
	n.a.usage = UsageDone{Outbound: 3}
	n.run(11*time.Second, nil)
	if got := n.asks(); got != 1 {
		t.Errorf("asked %d times in 11 s, want once", got)
	}
	n.run(149*time.Second, nil) // 10, then 20, then every 30
	if got := n.asks(); got < 5 || got > 7 {
		t.Errorf("asked %d times in 160 s", got)
	}
	n.a.usage = UsageDone{Inbound: 1, Outbound: 3}
	before := n.asks()
	n.run(100*time.Second, nil)
	if got := n.asks(); got != before {
		t.Errorf("asked %d times more although packets came in", got-before)
	}
	n.a.usage = UsageDone{Outbound: 3}
	n.run(21*time.Second, nil)
	if n.asks() == before {
		t.Error("not asked soon after the last packet came in")
	}
}

// TestProbe: the peer is asked at once, and once.
func TestProbe(t *testing.T) {
	n := quietPair(t)
	n.a.step(Probe{})
	n.a.step(Probe{})
	n.run(time.Second, nil)
	if got := n.asks(); got != 1 || n.a.sa.Status().LastHeard < n.now.Add(-time.Second) {
		t.Errorf("asked %d times, last heard %v before now", got, n.now.Sub(n.a.sa.Status().LastHeard))
	}
}

// TestDoubt: of an IKE SA that another has replaced the peer is asked for a few seconds. One that answers keeps it.
func TestDoubt(t *testing.T) {
	n := quietPair(t)
	n.a.step(Probe{Carried: true})
	n.a.step(Probe{Carried: true})
	n.run(time.Second, nil)
	if got := n.asks(); got != 1 || !n.a.sa.Established() {
		t.Errorf("asked %d times, established %v", got, n.a.sa.Established())
	}
	n.hook = func(datagram) []datagram { return nil }
	start := n.now
	n.a.step(Probe{Carried: true})
	n.run(time.Minute, func() bool { return n.a.finish != nil })
	if f := n.a.finish; f == nil || f.Code != CodeNoAnswer || n.now.Sub(start) > 12*time.Second {
		t.Errorf("%+v after %v", f, n.now.Sub(start))
	}
	n = quietPair(t)
	n.a.sa.conn.Liveness.Idle = 0 // nobody is asked
	n.a.step(Probe{Carried: true})
	n.run(time.Second, nil)
	if got := n.asks(); got != 0 {
		t.Errorf("asked %d times where liveness is off", got)
	}
}

// TestDisowned: INVALID_IKE_SPI without proof makes the repeats come evenly, and ends nothing by itself (RFC 7296 section 2.4).
func TestDisowned(t *testing.T) {
	forge := func(n *network, live bool, requests wire.ExchangeType) {
		n.hook = func(d datagram) []datagram {
			h, err := wire.ParseHeader(d.data)
			if err != nil || d.from.Addr() != addrA || h.Exchange != requests || h.Response() {
				return []datagram{d}
			}
			h.Flags = h.Flags&wire.FlagInitiator ^ wire.FlagInitiator | wire.FlagResponse
			data, err := (&wire.Message{Header: wire.Header{SPIi: h.SPIi, SPIr: h.SPIr, MajorVersion: 2, Exchange: h.Exchange, MessageID: h.MessageID, Flags: h.Flags},
				Payloads: []wire.Payload{wire.NewNotify(wire.NotifyInvalidIKESPI, nil)}}).Encode()
			if err != nil {
				t.Fatal(err)
			}
			list := []datagram{{d.to, d.from, data}}
			if live {
				list = append(list, d)
			}
			return list
		}
	}
	n := quietPair(t)
	forge(n, true, wire.Informational)
	n.a.step(Probe{})
	n.run(10*time.Second, nil)
	if !n.a.sa.Established() || len(n.a.texts(CodeNoAnswer)) > 0 {
		t.Error("a forged INVALID_IKE_SPI ended an IKE SA whose peer lives")
	}
	n = quietPair(t)
	forge(n, false, wire.Informational)
	start := n.now
	n.a.step(Probe{})
	if !n.run(time.Minute, func() bool { return n.a.finish != nil }) {
		t.Fatal("not given up in a minute")
	}
	if took := n.now.Sub(start); took < 19*time.Second || took > 21*time.Second {
		t.Errorf("given up after %v, want 5 tries of 4 s", took)
	}
	n.a.wants(CodeNoAnswer, "to 5 INFORMATIONAL (liveness)", "does not know this IKE SA, as after a restart")
	told := 0
	for _, s := range n.a.texts(CodeSent) {
		if strings.Contains(s, "without proof") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}

	// One that comes late, when the pauses have grown already, shortens the pause that has begun.
	n = quietPair(t)
	n.hook = func(datagram) []datagram { return nil }
	n.a.step(Probe{})
	n.run(time.Minute, func() bool { return n.a.sa.requests.sent == 3 })
	if pause := n.a.sa.requests.due.Sub(n.now); pause < 10*time.Second {
		t.Fatalf("the pause is %v", pause)
	}
	forge(n, false, wire.Informational)
	h := n.a.sa.requests.header
	h.Flags = h.Flags&wire.FlagInitiator ^ wire.FlagInitiator | wire.FlagResponse
	lie := encode(t, &wire.Message{Header: h, Payloads: []wire.Payload{wire.NewNotify(wire.NotifyInvalidIKESPI, nil)}})
	n.a.step(Packet{n.a.sa.path, lie})
	if pause := n.a.sa.requests.due.Sub(n.now); pause != n.a.sa.requests.plan.first {
		t.Errorf("then the pause is %v, want %v", pause, n.a.sa.requests.plan.first)
	}
	// And one that comes when the repeat is near does not put it off.
	n = quietPair(t)
	n.hook = func(datagram) []datagram { return nil }
	n.a.step(Probe{})
	due := n.a.sa.requests.due
	n.run(due.Sub(n.now)-time.Millisecond, nil)
	n.a.step(Packet{n.a.sa.path, lie})
	if n.a.sa.requests.due != due {
		t.Errorf("the repeat was put off by %v", n.a.sa.requests.due.Sub(due))
	}

	// The same in the middle of a set-up: a responder that has restarted does not hold the initiator for 41 s.
	n = newPair(t, setup{})
	forge(n, true, wire.IKEAuth)
	n.up()
	n = newPair(t, setup{})
	forge(n, false, wire.IKEAuth)
	start = n.now
	n.a.step(Initiate{})
	if !n.run(time.Minute, func() bool { return n.a.finish != nil }) {
		t.Fatal("not given up in a minute")
	}
	if took := n.now.Sub(start); took < 5*time.Second || took > 8*time.Second {
		t.Errorf("given up after %v, want 6 tries of 1 s", took)
	}
	n.a.wants(CodeNoAnswer, "restarted in the middle of the set-up")
}

// TestNATWords: what a pretended NAT is called on both sides, and that a real one is not taken for one.
func TestNATWords(t *testing.T) {
	udp := func() xfrm.Capabilities {
		c := kernelCaps()
		c.Name, c.PlainESP, c.MustEncap = "userspace", false, true
		return c
	}
	always := func(s string) string { return strings.Replace(s, "psk ", "encapsulation = \"always\"\npsk ", 1) }
	for name, c := range map[string]struct {
		s          setup
		a, b       string
		natA, natB string
	}{
		"none":           {setup{}, "; no NAT on the path", "; no NAT on the path", "none", "none"},
		"a userspace":    {setup{caps: udp, capsB: kernelCaps}, "; no NAT on the path; ESP in UDP (userspace data plane)", "; no NAT on the path, the peer asks for ESP in UDP", "none", "none"},
		"both userspace": {setup{caps: udp}, "the peer asks for ESP in UDP; ESP in UDP (userspace data plane)", "the peer asks for ESP in UDP; ESP in UDP (userspace data plane)", "none", "none"},
		"b always":       {setup{b: always(gwB)}, "; no NAT on the path, the peer asks for ESP in UDP", "; ESP in UDP (encapsulation = always)", "none", "none"},
	} {
		n := newPair(t, c.s)
		n.up()
		for _, x := range []struct {
			h         *host
			text, nat string
		}{{n.a, c.a, c.natA}, {n.b, c.b, c.natB}} {
			if got := x.h.said(CodeChosen).Text; !strings.HasSuffix(got, x.text) {
				t.Errorf("%s, %s: %s", name, x.h.name, got)
			}
			if got := x.h.sa.Status().NAT; got != x.nat {
				t.Errorf("%s, %s: NAT %q", name, x.h.name, got)
			}
		}
	}
	n, _ := natA(t, setup{})
	n.up()
	if a, b := n.a.sa.Status().NAT, n.b.sa.Status().NAT; a != "local" || b != "remote" {
		t.Errorf("behind a NAT: a %q, b %q", a, b)
	}
	// A mapping that keeps the port looks like a peer that pretends.
	n, base := natA(t, setup{caps: udp, capsB: kernelCaps})
	*base = 0
	n.up()
	if a, b := n.a.sa.Status().NAT, n.b.sa.Status().NAT; a != "local" || b != "unknown" {
		t.Errorf("behind a NAT that keeps ports: a %q, b %q", a, b)
	}
	n.b.wants(CodeChosen, "; the peer is behind NAT, or asks for ESP in UDP")
}
