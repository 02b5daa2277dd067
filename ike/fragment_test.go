package ike

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
)

// keyed adds lines to the connection of a configuration.
func keyed(config string, lines ...string) string {
	return strings.Replace(config, "\nike ", "\n"+strings.Join(lines, "\n")+"\nike ", 1)
}

// small is a pair whose larger messages travel in fragments.
func small() setup {
	s := two("")
	s.a, s.b = keyed(s.a, "fragment_size = 256"), keyed(s.b, "fragment_size = 256")
	return s
}

// number and total of a datagram; 0: it is no fragment.
func numbers(data []byte) (number, total int) {
	m, err := wire.Decode(data)
	if err != nil {
		return 0, 0
	}
	if skf := fragmentOf(m); skf != nil {
		return int(skf.Number), int(skf.Total)
	}
	return 0, 0
}

// cut makes a message of a host's in total fragments by hand.
func (h *host) cut(hdr wire.Header, total int, ps ...wire.Payload) [][]byte {
	h.t.Helper()
	first, plain, err := wire.AppendPayloads(nil, ps)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.cutPlain(hdr, first, plain, total)
}

func (h *host) cutPlain(hdr wire.Header, first wire.PayloadType, plain []byte, total int) (list [][]byte) {
	h.t.Helper()
	for k := range total {
		data, err := h.sa.protect.SealFragment(hdr, first, uint16(k+1), uint16(total), plain[k*len(plain)/total:(k+1)*len(plain)/total], h.config.Rand)
		if err != nil {
			h.t.Fatal(err)
		}
		list = append(list, data)
	}
	return list
}

// feed gives datagrams of a to b at once and returns what b sends then.
func (n *network) feed(list ...[]byte) []Send {
	n.t.Helper()
	before := len(n.b.sends)
	for _, data := range list {
		n.b.step(Packet{Path{n.b.sa.path.Local, n.b.sa.path.Remote}, bytes.Clone(data)})
	}
	return n.b.sends[before:]
}

// next is the header of a's next request, which its machine is to know nothing of.
func (h *host) next(t wire.ExchangeType) wire.Header {
	hdr := h.sa.header(t, false, uint32(h.sa.requests.next))
	h.sa.requests.next++
	return hdr
}

func pad(n int) wire.Payload { return &wire.VendorID{Data: make([]byte, n)} }

// TestFragmentedLife: set-up, creation, rekeys of both kinds and deletes with both roles, all large messages in fragments, which a new IKE SA does as well.
func TestFragmentedLife(t *testing.T) {
	for _, suite := range []string{"aes256gcm16-prfsha256-ecp256", "aes256-sha512-modp2048", "chacha20poly1305-prfsha256-x25519"} {
		t.Run(suite, func(t *testing.T) {
			s := small()
			s.a, s.b = strings.Replace(s.a, "aes256gcm16-prfsha256-ecp256", suite, 1), strings.Replace(s.b, "aes256gcm16-prfsha256-ecp256", suite, 1)
			n := newPair(t, s)
			largest, most := 0, 0
			n.hook = func(d datagram) []datagram {
				h, _ := wire.ParseHeader(d.data)
				if h.Exchange != wire.IKESAInit {
					largest = max(largest, len(d.data)+ipv4Header+udpHeader)
				}
				_, total := numbers(d.data)
				most = max(most, total)
				return []datagram{d}
			}
			n.a.step(Initiate{})
			n.run(20*time.Second, nil)
			for _, h := range []*host{n.a, n.b} {
				h.step(Rekey{})
				n.run(20*time.Second, nil)
				h.step(Rekey{IKE: true})
				n.run(20*time.Second, nil)
				h.step(Lower{Child: "lan"})
				n.run(5*time.Second, nil)
				h.step(RaiseChild{Child: "lan"})
				n.run(20*time.Second, nil)
				if n.a.children() != 2 || n.b.children() != 2 {
					n.dump()
					t.Fatalf("a has %d children, b %d", n.a.children(), n.b.children())
				}
				n.paired()
			}
			if largest > 256 || most < 2 {
				t.Errorf("datagrams of up to %d octets, up to %d fragments", largest, most)
			}
			for _, h := range []*host{n.a, n.b} {
				if s := h.sa.Status(); s.Fragmentation != "used" || s.FragmentSize == 0 || s.FragmentSize > 256 {
					t.Errorf("%s: status %q, %d", h.name, s.Fragmentation, s.FragmentSize)
				}
			}
		})
	}
}

// TestFragmentLoss: each datagram of a set-up in fragments is lost, doubled, late or overtaken.
func TestFragmentLoss(t *testing.T) {
	for _, fault := range []string{"lose", "double", "late", "swap"} {
		for i := range 14 {
			n := newPair(t, small())
			count := -1
			n.hook = func(d datagram) []datagram {
				if count++; count != i {
					return []datagram{d}
				}
				switch fault {
				case "double":
					return []datagram{d, d}
				case "late":
					n.after(3*time.Second, func() { n.deliver(d) })
				case "swap":
					n.after(2*n.delay, func() { n.deliver(d) })
				}
				return nil
			}
			n.a.step(Initiate{})
			if !n.run(30*time.Second, func() bool { return n.a.children() == 2 && n.b.children() == 2 }) {
				n.dump()
				t.Fatalf("%s datagram %d: not up", fault, i)
			}
			n.run(10*time.Second, nil)
			n.paired()
			n.a.step(Lower{})
			n.run(time.Minute, nil)
			n.empty()
		}
	}
}

// TestFragmentWeather: everything goes wrong with fragments for a while.
func TestFragmentWeather(t *testing.T) {
	for seed := range uint64(30) {
		n := newPair(t, small())
		r := rand.New(rand.NewPCG(seed, 7))
		bad := true
		n.hook = func(d datagram) (list []datagram) {
			if !bad {
				return []datagram{d}
			}
			if r.IntN(6) == 0 {
				return nil
			}
			for range 1 + r.IntN(2) {
				n.after(time.Duration(r.IntN(100))*time.Millisecond, func() { n.deliver(d) })
			}
			return nil
		}
		n.a.step(Initiate{})
		n.run(time.Minute, nil)
		bad = false
		n.run(3*time.Minute, nil)
		n.settled()
		if n.a.finish == nil && n.a.children() != 2 {
			n.dump()
			t.Errorf("seed %d: %d children", seed, n.a.children())
		}
	}
}

// TestTrap_7383_1_OnlyAgreed: no fragment is sent or taken unless both sides have announced it, and no first message is ever one.
func TestTrap_7383_1_OnlyAgreed(t *testing.T) {
	for _, off := range []string{"a", "b", "both", "none"} {
		s := small()
		if off == "a" || off == "both" {
			s.a = keyed(two("").a, `fragmentation = "no"`)
		}
		if off == "b" || off == "both" {
			s.b = keyed(two("").b, `fragmentation = "no"`)
		}
		n := newPair(t, s)
		var inits, fragments int
		n.hook = func(d datagram) []datagram {
			m, err := wire.Decode(d.data)
			if err != nil {
				t.Fatal(err)
			}
			if fragmentOf(m) != nil {
				fragments++
			}
			if m.Exchange == wire.IKESAInit {
				inits++
				speaks := off != "both" && (off == "none" || off == "b" && !m.Response())
				if announced(m.Payloads) != speaks || len(m.Payloads) == 0 {
					t.Errorf("off %s: response %v: announced %v", off, m.Response(), announced(m.Payloads))
				}
			}
			return []datagram{d}
		}
		n.a.step(Initiate{})
		n.run(10*time.Second, nil)
		if n.a.children() != 2 || inits != 2 || (fragments > 0) != (off == "none") {
			t.Errorf("off %s: %d children, %d first messages, %d fragments", off, n.a.children(), inits, fragments)
		}
		if off == "none" {
			continue
		}
		if s := n.a.sa.Status(); s.Fragmentation != "none" || s.FragmentSize != 0 {
			t.Errorf("off %s: status %+v", off, s)
		}
		if answer := n.feed(n.a.cut(n.a.next(wire.Informational), 2, pad(40))...); len(answer) != 0 || n.b.sa.responses.parts.collecting() {
			t.Errorf("off %s: fragments are taken", off)
		}
	}
}

// TestTrap_7383_2_LargerTotal: a smaller total than that of what is here is dropped, a larger one begins anew, though only with a good ICV.
func TestTrap_7383_2_LargerTotal(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	h := n.a.next(wire.Informational)
	two, three, four := n.a.cut(h, 2, pad(50)), n.a.cut(h, 3, pad(50)), n.a.cut(h, 4, pad(50))
	f := &n.b.sa.responses.parts
	n.feed(three[0])
	forged := bytes.Clone(four[0])
	forged[len(forged)-1] ^= 1
	if n.feed(two[0], two[1], forged); f.have != 1 || len(f.parts) != 3 {
		t.Fatalf("%d of %d", f.have, len(f.parts))
	}
	if answer := n.feed(four[1], three[1], three[2], four[2], four[3]); len(answer) != 0 || f.have != 3 || len(f.parts) != 4 {
		t.Fatalf("%d answers, %d of %d", len(answer), f.have, len(f.parts))
	}
	if answer := n.feed(four[0]); len(answer) != 1 || f.collecting() {
		t.Errorf("%d answers", len(answer))
	}
}

// TestTrap_7383_3_Replay: what is here already is dropped, whatever its ICV; what is forged leaves no trace.
func TestTrap_7383_3_Replay(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	list := n.a.cut(n.a.next(wire.Informational), 3, pad(50))
	f := &n.b.sa.responses.parts
	for k := range list {
		for bit := range len(list[k]) * 8 {
			bad := bytes.Clone(list[k])
			bad[bit/8] ^= 1 << (bit % 8)
			if answer := n.feed(bad); len(answer) != 0 || f.have != k {
				t.Fatalf("fragment %d with bit %d changed: %d answers, %d kept", k+1, bit, len(answer), f.have)
			}
		}
		if k < 2 {
			if n.feed(list[k], list[k]); f.have != k+1 {
				t.Fatalf("%d fragments after %d", f.have, k+1)
			}
		}
	}
	if answer := n.feed(list[2]); len(answer) != 1 {
		t.Errorf("%d answers", len(answer))
	}
}

// TestTrap_7383_5_CutAnywhere: fragments of any lengths, also none, in any order, are joined.
func TestTrap_7383_5_CutAnywhere(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for total := 1; total <= wire.MaxFragments; total++ {
		list := n.a.cut(n.a.next(wire.Informational), total, pad(20))
		rand.New(rand.NewPCG(uint64(total), 1)).Shuffle(total, func(i, k int) { list[i], list[k] = list[k], list[i] })
		if answer := n.feed(list...); len(answer) != 1 {
			t.Fatalf("%d fragments: %d answers", total, len(answer))
		}
	}
	ivs := map[string]bool{}
	for _, data := range n.a.cut(n.a.next(wire.Informational), 5, pad(100)) {
		ivs[string(data[36:44])] = true
	}
	if len(ivs) != 5 {
		t.Errorf("%d IVs", len(ivs))
	}
}

// TestTrap_7383_6_FirstRepeats: of an answered request only the first fragment has the answer sent again, as it was.
func TestTrap_7383_6_FirstRepeats(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	list := n.a.cut(n.a.next(wire.Informational), 3, pad(50))
	answer := slices.Clone(n.feed(list...))
	for k, data := range list {
		again := n.feed(data)
		if k == 0 && (len(again) != 1 || !bytes.Equal(again[0].Data, answer[0].Data)) || k > 0 && len(again) != 0 {
			t.Errorf("fragment %d again: %d answers", k+1, len(again))
		}
	}
	forged := bytes.Clone(list[0])
	forged[40] ^= 1
	if len(n.feed(forged)) != 0 {
		t.Error("a forged fragment is answered")
	}
}

// TestTrap_7383_7_Bounded: a peer that has not proved its identity has at most 16 KiB kept, one that has 64 KiB; after half a minute all is gone, and the same
// message ID can be used.
func TestTrap_7383_7_Bounded(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	f := &n.b.sa.responses.parts
	h := n.a.next(wire.Informational)
	first, huge := wire.PayloadVendor, make([]byte, 2*wire.MaxMessage)
	for range 3 {
		for _, data := range n.a.cutPlain(h, first, huge, 64)[:40] {
			if n.feed(data); f.octets > wire.MaxMessage {
				t.Fatalf("%d octets are kept", f.octets)
			}
		}
	}
	n.a.sa.phase.deadline()
	list := n.a.cut(h, 64, pad(500))
	n.feed(list[:10]...)
	if !f.collecting() {
		t.Fatal("nothing is kept")
	}
	n.run(reassemblyLimit+time.Second, nil)
	if f.collecting() || !n.b.sa.Established() {
		t.Fatal("after the limit: fragments are still here, or the IKE SA is not")
	}
	if said := n.b.texts(CodeIgnored); !slices.Contains(said, "INFORMATIONAL: only 31 of 64 fragments came in 30 s") {
		t.Errorf("b says %q", said)
	}
	if answer := n.feed(n.a.cut(h, 2, pad(50))...); len(answer) != 1 {
		t.Errorf("with the same message ID: %d answers", len(answer))
	}
}

// TestCVE_2016_1344_BeforeAuth: 64 huge fragments before AUTH, and sets that never end: bounded, and the half-open IKE SA goes in its time.
func TestCVE_2016_1344_BeforeAuth(t *testing.T) {
	n := newPair(t, setup{})
	n.hook = func(d datagram) []datagram {
		if h, _ := wire.ParseHeader(d.data); h.Exchange == wire.IKEAuth {
			return nil
		}
		return []datagram{d}
	}
	n.a.step(Initiate{})
	n.run(300*time.Millisecond, nil)
	h := n.a.sa.header(wire.IKEAuth, false, 1)
	f := &n.b.sa.responses.parts
	most := 0
	for total := 2; total <= wire.MaxFragments; total++ {
		list := n.a.cutPlain(h, wire.PayloadIDi, make([]byte, total*1300), total)
		for _, data := range list[1:] { // the first never comes
			n.feed(data)
			most = max(most, f.octets)
		}
	}
	if most > wire.MaxBeforeAuth || most < wire.MaxBeforeAuth/2 {
		t.Errorf("%d octets kept", most)
	}
	n.b.wants(CodeIgnored, "hold more than 16384 octets")
	if len(n.b.reports) > 40 {
		t.Errorf("%d reports", len(n.b.reports))
	}
	n.run(time.Minute, func() bool { return n.b.finish != nil })
	if n.b.finish == nil || n.b.finish.Code != CodeNoAnswer {
		t.Errorf("finish %+v", n.b.finish)
	}
}

// TestCVE_2026_33824_Contradictions: totals and exchanges that change midway.
func TestCVE_2026_33824_Contradictions(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	r := rand.New(rand.NewPCG(1, 2))
	h := n.a.next(wire.Informational)
	other := h
	other.Exchange = wire.CreateChildSA
	for range 3000 {
		hdr := h
		if r.IntN(3) == 0 {
			hdr = other
		}
		total := 2 + r.IntN(63)
		list := n.a.cut(hdr, total, pad(200))
		if k := 1 + r.IntN(total-1); len(n.feed(list[k])) != 0 {
			t.Fatal("an answer without a first fragment")
		}
	}
	n.run(reassemblyLimit+time.Second, nil)
	if answer := n.feed(n.a.cut(h, 2, pad(50))...); len(answer) != 1 || !n.b.sa.Established() {
		t.Errorf("afterwards: %d answers", len(answer))
	}
}

// vanish loses datagrams that are larger as IP than the path takes.
func (n *network) vanish(mtu func(d datagram) int) {
	n.hook = func(d datagram) []datagram {
		header := ipv6Header + udpHeader
		if d.to.Addr().Is4() {
			header = ipv4Header + udpHeader
		}
		if d.from.Port() == policy.DefaultNATTPort {
			header += nonESP
		}
		if len(d.data)+header > mtu(d) {
			return nil
		}
		return []datagram{d}
	}
}

// TestTrap_7383_8_Smaller: datagrams are of the size that is recommended; when large ones vanish, smaller ones follow, with timers that start over.
func TestTrap_7383_8_Smaller(t *testing.T) {
	both := func(datagram) int { return 600 }
	for _, c := range []struct {
		name     string
		mtu      func(d datagram) int
		dies     bool
		lines    string
		fragment int
	}{
		{"both ways", both, false, "", 576},
		{"request", func(d datagram) int {
			if d.from.Addr() == addrA {
				return 600
			}
			return 1500
		}, false, "", 576},
		{"response", func(d datagram) int {
			if d.from.Addr() == addrB {
				return 600
			}
			return 1500
		}, false, "", 576},
		{"not agreed", both, true, `fragmentation = "no"`, 0},
		{"configured", both, false, "fragment_size = 512", 512},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := with("aes256gcm16-prfsha256-modp4096", "")
			if c.lines != "" {
				s.a, s.b = keyed(s.a, c.lines), keyed(s.b, c.lines)
			}
			n := newPair(t, s)
			n.up()
			n.vanish(c.mtu)
			start := n.now
			n.a.step(Rekey{IKE: true}) // with a key of 512 octets
			n.run(time.Minute, func() bool {
				return len(n.a.others) > 0 && n.a.sa.next.pending == 0 && n.a.sa != n.a.others[0] && n.b.sa.next.pending == 0
			})
			if (n.a.said(CodeIKERekeyed) == nil) != c.dies {
				n.dump()
				t.Fatalf("after %v", n.now.Sub(start))
			}
			if s := n.a.sa.Status(); s.FragmentSize != c.fragment {
				t.Errorf("size %d", s.FragmentSize)
			}
			if d := n.now.Sub(start); !c.dies && d > 13*time.Second {
				t.Errorf("after %v", d)
			}
		})
	}
}

// TestHeedsSizeOfFirstMessage: a responder hears how small the peer's fragments are before it knows the connection, whose size may be larger than any other. Its answer heeds it.
func TestHeedsSizeOfFirstMessage(t *testing.T) {
	var many []string
	for k := range 50 {
		many = append(many, fmt.Sprintf("2001:db8:%x::/64", 2*k))
	}
	wide := strings.NewReplacer(`"10.1.0.0/16"`, `"`+strings.Join(many, `", "`)+`"`, "10.2.0.0/16", "2001:db8:ff::/64")
	for _, size := range []int{576, policy.DefaultFragmentSize, 1300} {
		n := newPair(t, setup{a: keyed(wide.Replace(gwA), fmt.Sprintf("fragment_size = %d", size)), b: keyed(wide.Replace(gwB), "fragment_size = 1500")})
		largest := map[netip.Addr]int{}
		n.hook = func(d datagram) []datagram {
			if number, _ := numbers(d.data); number > 0 {
				largest[d.from.Addr()] = max(largest[d.from.Addr()], len(d.data)+n.a.sa.overhead(n.a.sa.path))
			}
			return []datagram{d}
		}
		n.up()
		if a, b := largest[addrA], largest[addrB]; a != size || b == 0 || b > a {
			t.Errorf("a cuts to %d octets, b to %d", a, b)
		}
		if got := n.b.sa.Status().FragmentSize; got != size {
			t.Errorf("b is to cut to %d octets, a cuts to %d", got, size)
		}
		n.b.sa.heedSize(size + 100)
		if got := n.b.sa.Status().FragmentSize; got != size {
			t.Errorf("b cuts to %d octets after a larger fragment came", got)
		}
	}
}

// TestTrap_7383_9_WholeThenFragments: a request that was sent whole and then in fragments is worked on once; so is one whose answer was lost.
func TestTrap_7383_9_WholeThenFragments(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	h := n.a.next(wire.Informational)
	ps := []wire.Payload{pad(700)}
	list := n.a.cut(h, 3, ps...)
	n.feed(list[1], list[2])
	if answer := n.feed(n.a.seal(h, ps)); len(answer) != 1 || n.b.sa.responses.parts.collecting() {
		t.Fatalf("whole among fragments: %d answers", len(answer))
	}
	next := n.b.sa.responses.next
	if answer := n.feed(list...); len(answer) != 1 || n.b.sa.responses.next != next || n.b.sa.responses.parts.collecting() {
		t.Errorf("fragments after it: %d answers", len(answer))
	}
}

// TestTooLarge: the host itself refuses large datagrams.
func TestTooLarge(t *testing.T) {
	n := newPair(t, with("aes256gcm16-prfsha256-modp4096", ""))
	n.up()
	n.hook = func(d datagram) []datagram {
		if len(d.data) > 560 {
			h := n.rewire(d.from.Addr())
			n.after(time.Millisecond, func() {
				h.step(SendFailed{Path: Path{d.from, d.to}, Fault: SendTooLarge, Err: fmt.Errorf("message too long")})
			})
			return nil
		}
		return []datagram{d}
	}
	start := n.now
	n.a.step(Rekey{IKE: true})
	n.run(10*time.Second, func() bool { return n.b.said(CodeIKERekeyed) != nil && n.a.said(CodeIKERekeyed) != nil })
	if n.a.said(CodeIKERekeyed) == nil || n.now.Sub(start) > time.Second {
		n.dump()
		t.Errorf("after %v", n.now.Sub(start))
	}
}

// TestAuthNever: IKE_SA_INIT is answered and IKE_AUTH is lost: both ends say so.
func TestAuthNever(t *testing.T) {
	long := small()
	for _, gw := range []string{"gw-a", "gw-b"} {
		name := strings.Repeat("x", 60) + "." + strings.Repeat("y", 60) + "." + gw
		long.a, long.b = strings.Replace(long.a, gw, name, 1), strings.Replace(long.b, gw, name, 1)
	}
	for _, c := range []struct {
		name       string
		s          setup
		lose       func(d datagram, number int) bool
		a, b, hint string
	}{
		{"all", setup{}, func(datagram, int) bool { return true }, "UDP 4500 is closed", "no IKE_AUTH of it came in 30 s", "open UDP 4500"},
		{"fragment 2", long, func(d datagram, k int) bool { return k == 2 }, "some of its 4 fragments of up to 256 octets", "of its IKE_AUTH only 3 of 4 fragments came in 30 s", "open UDP 4500"},
		{"fragment 2 of the answer", long, func(d datagram, k int) bool { return k == 2 && d.from.Addr() == addrB }, "of its answer 1 of 2 fragments came, the others never", "", "open UDP 4500"},
		{"not agreed", setup{b: keyed(gwB, `fragmentation = "no"`)}, func(datagram, int) bool { return true }, "fragments of IP, which a firewall drops", "no IKE_AUTH", "or allow IKE fragmentation on the peer"},
		{"not wanted", setup{a: keyed(gwA, `fragmentation = "no"`)}, func(datagram, int) bool { return true }, "fragments of IP, which a firewall drops", "no IKE_AUTH", `write fragmentation = "yes" (conn.d/test.toml:5: fragmentation)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newPair(t, c.s)
			n.hook = func(d datagram) []datagram {
				k, _ := numbers(d.data)
				if h, _ := wire.ParseHeader(d.data); h.Exchange == wire.IKEAuth && c.lose(d, k) {
					return nil
				}
				return []datagram{d}
			}
			n.a.step(Initiate{})
			n.run(3*time.Minute, func() bool { return n.a.finish != nil && (n.b.finish != nil || c.b == "") })
			n.a.wants(CodeNoAnswer, "it answered IKE_SA_INIT, but what follows is lost on the path", c.a, c.hint)
			if c.b != "" {
				n.b.wants(CodeNoAnswer, "half-open: 192.0.2.1:500 began IKE_SA_INIT, and", c.b, "is UDP 4500 open to here")
			}
		})
	}
}

// TestAnswerVanishes: a small request comes again and again, since its large answer does not arrive: from the second time on the answer is cut smaller, which changes
// nothing else, as anyone could have repeated the request.
func TestAnswerVanishes(t *testing.T) {
	n := newPair(t, with("aes256gcm16-prfsha256-modp4096", ""))
	n.up()
	var request []byte
	n.hook = func(d datagram) []datagram {
		if d.from.Addr() == addrB {
			return nil
		}
		request = bytes.Clone(d.data)
		return []datagram{d}
	}
	old := n.b.sa
	n.a.step(Rekey{IKE: true})
	n.run(time.Second, nil)
	if n, _ := numbers(request); n != 0 {
		t.Fatal("the request is no longer small")
	}
	before := old.Status()
	for _, want := range []int{1, 2, 2} {
		sent := len(n.b.sends)
		n.b.turn(old, Packet{Path{apB, apA}, bytes.Clone(request)})
		answer := n.b.sends[sent:]
		if _, total := numbers(answer[len(answer)-1].Data); len(answer) != want || want > 1 && total != want {
			t.Errorf("%d datagrams, wanted %d", len(answer), want)
		}
	}
	if after := old.Status(); after.FragmentSize != before.FragmentSize {
		t.Errorf("size %d", after.FragmentSize)
	}
}

// TestFragmentsOfTwoExchanges: fragments of one message ID and of different exchange types are not of one set.
func TestFragmentsOfTwoExchanges(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	h := n.a.next(wire.Informational)
	other := h
	other.Exchange = wire.CreateChildSA
	right, wrong := n.a.cut(h, 2, pad(50)), n.a.cut(other, 2, pad(50))
	if answer := n.feed(right[0], wrong[1]); len(answer) != 0 || n.b.sa.responses.parts.have != 1 {
		t.Errorf("%d answers, %s here", len(answer), n.b.sa.responses.parts.text())
	}
	if answer := n.feed(right[1]); len(answer) != 1 {
		t.Errorf("%d answers to the whole set", len(answer))
	}
}

// TestSmallerStartsOver: a request that is cut smaller is sent as often, and with the same pauses, as one that was never sent (RFC 7383 section 2.5.2).
func TestSmallerStartsOver(t *testing.T) {
	n := newPair(t, with("aes256gcm16-prfsha256-modp4096", ""))
	n.up()
	n.hook = func(datagram) []datagram { return nil }
	n.a.step(Rekey{IKE: true})
	r := &n.a.sa.requests
	n.run(time.Second, func() bool { return r.waiting() })
	if r.sent != 1 || len(r.message.datagrams) != 1 {
		t.Fatalf("sent %d times in %d datagrams", r.sent, len(r.message.datagrams))
	}
	plan, start := r.plan, n.now
	var pauses []time.Duration
	cutAt := 0
	for last := start; n.a.finish == nil && n.a.sa.phase.name() == phaseEstablished; last = n.now {
		sent := r.sent
		if !n.run(10*time.Minute, func() bool { return n.a.finish != nil || r.sent != sent }) {
			t.Fatal("it is never given up")
		}
		pauses = append(pauses, n.now.Sub(last).Round(time.Millisecond))
		if cutAt == 0 && r.waiting() && len(r.message.datagrams) > 1 {
			cutAt = len(pauses)
		}
	}
	var want []time.Duration
	fresh := func(times int) {
		for p := plan.first; times > 0; times-- {
			want = append(want, p.Round(time.Millisecond))
			p = time.Duration(float64(p) * plan.factor)
		}
	}
	fresh(probesASize)
	fresh(plan.tries)
	if cutAt != probesASize || !slices.Equal(pauses, want) {
		t.Errorf("cut after %d pauses of %v, want %v", cutAt, pauses, want)
	}
}

// TestSameNumberOfFragments: a message is not cut anew into as many fragments as before, by which a receiver could not tell the sets apart.
func TestSameNumberOfFragments(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	sa := n.a.sa
	_, room := sa.pieces(1000, 400)
	m, err := sa.seal(sa.header(wire.Informational, false, 7), []wire.Payload{pad(2*room - 40)})
	if err != nil {
		t.Fatal(err)
	}
	if !sa.recut(m, 400) || len(m.datagrams) != 2 {
		t.Fatalf("%d datagrams", len(m.datagrams))
	}
	before := slices.Clone(m.datagrams)
	if sa.recut(m, 399) || len(m.datagrams) != 2 || !bytes.Equal(m.datagrams[0], before[0]) {
		t.Error("cut anew into as many")
	}
	if !sa.recut(m, 300) || len(m.datagrams) != 3 {
		t.Errorf("%d datagrams of 300 octets", len(m.datagrams))
	}
}
