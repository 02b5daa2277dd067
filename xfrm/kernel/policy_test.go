package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cygnet/xfrm"

	"golang.org/x/sys/unix"
)

// gateway is a namespace with a link "wan" (192.0.2.1/24, 2001:db8::1/64), a default route by it, and an inner address
// 10.1.0.1, fd00:1::1.
func gateway(t *testing.T) *namespace {
	t.Helper()
	n := newNamespace(t, "gw")
	for _, c := range []string{
		"link add wan type veth peer name far", "link set wan up", "link set far up",
		"addr add 192.0.2.1/24 dev wan", "addr add 2001:db8::1/64 dev wan nodad",
		"addr add 10.1.0.1/32 dev lo", "addr add fd00:1::1/128 dev lo nodad",
		"route add default via 192.0.2.254", "route add default via 2001:db8::fe",
	} {
		n.ip(t, c)
	}
	return n
}

func protect(dir xfrm.Direction, src, dst string) xfrm.Policy {
	p := xfrm.Policy{
		Slot:     xfrm.Slot{Direction: dir, Selector: xfrm.Selector{Src: prefix(src), Dst: prefix(dst)}},
		Template: xfrm.Template{Src: ip("192.0.2.1"), Dst: ip("198.51.100.7"), ReqID: 0x43590001},
		Priority: 0x00100400,
	}
	if dir == xfrm.In {
		p.Template.Src, p.Template.Dst = p.Template.Dst, p.Template.Src
	}
	return p
}

func with(p xfrm.Policy, change func(*xfrm.Policy)) xfrm.Policy {
	change(&p)
	return p
}

// everyKind of policy that the driver keeps in the kernel and gives back.
func everyKind() []xfrm.Policy {
	ports := func(proto uint8, src, dst xfrm.Ports) func(*xfrm.Policy) {
		return func(p *xfrm.Policy) {
			p.Slot.Selector.Proto, p.Slot.Selector.SrcPorts, p.Slot.Selector.DstPorts = proto, src, dst
		}
	}
	out := protect(xfrm.Out, "10.1.0.0/16", "10.2.0.0/16")
	return []xfrm.Policy{
		out,
		protect(xfrm.In, "10.2.0.0/16", "10.1.0.0/16"),
		protect(xfrm.Out, "fd00:1::/32", "fd00:2::/32"), // its octets after the fourth are zero: not an IPv4 prefix
		protect(xfrm.In, "fd00:2::/32", "fd00:1::/32"),
		protect(xfrm.In, "0.0.0.0/0", "10.1.0.0/16"),
		protect(xfrm.In, "::/0", "fd00:1::/48"),
		with(protect(xfrm.Out, "10.1.0.0/16", "10.3.0.0/16"), func(p *xfrm.Policy) {
			p.Template.Src, p.Template.Dst = ip("2001:db8::1"), ip("2001:db8:7::")
		}),
		with(protect(xfrm.Out, "192.0.2.1/32", "198.51.100.7/32"), func(p *xfrm.Policy) { p.Template.Mode = xfrm.Transport }),
		with(out, func(p *xfrm.Policy) { p.Slot.Mark = 42 }),
		with(out, func(p *xfrm.Policy) { p.Slot.IfID = 42 }),
		with(out, func(p *xfrm.Policy) { p.Slot.Selector.Proto = unix.IPPROTO_TCP }),
		with(out, ports(unix.IPPROTO_TCP, xfrm.Ports{}, xfrm.Ports{First: 443, Last: 443})),
		with(out, ports(unix.IPPROTO_TCP, xfrm.Ports{First: 1024, Last: 65535}, xfrm.Ports{})),
		with(out, ports(unix.IPPROTO_TCP, xfrm.Ports{}, xfrm.Ports{First: 1000, Last: 1999})), // two adjacent ranges
		with(out, ports(unix.IPPROTO_TCP, xfrm.Ports{}, xfrm.Ports{First: 2000, Last: 2999})),
		with(protect(xfrm.In, "10.2.0.0/16", "10.1.0.0/16"), ports(unix.IPPROTO_UDP, xfrm.Ports{First: 1, Last: 3}, xfrm.Ports{First: 0, Last: 5})),
		with(out, ports(unix.IPPROTO_ICMP, xfrm.Ports{First: 8 << 8, Last: 8<<8 | 255}, xfrm.Ports{First: 8 << 8, Last: 8<<8 | 255})),
		with(out, ports(unix.IPPROTO_ICMP, xfrm.Ports{First: 3<<8 | 4, Last: 3<<8 | 4}, xfrm.Ports{})),
		with(protect(xfrm.Out, "10.1.0.0/16", "10.9.0.0/16"), func(p *xfrm.Policy) { p.Action, p.Template = xfrm.Block, xfrm.Template{} }),
		with(protect(xfrm.In, "10.9.0.0/16", "10.1.0.0/16"), func(p *xfrm.Policy) { p.Action, p.Template = xfrm.Block, xfrm.Template{} }),
		with(protect(xfrm.Out, "10.1.0.0/16", "10.8.0.0/16"), func(p *xfrm.Policy) { p.Action, p.Template = xfrm.Pass, xfrm.Template{} }),
		with(protect(xfrm.In, "10.8.0.0/16", "10.1.0.0/16"), func(p *xfrm.Policy) { p.Action, p.Template = xfrm.Pass, xfrm.Template{} }),
	}
}

func ignoreWarnings(error) {}

func TestEveryKindOfPolicyComesBack(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{Warn: ignoreWarnings})
	want := everyKind()
	for _, p := range want {
		apply(t, d, xfrm.PutPolicy{Policy: p}, xfrm.PutPolicy{Policy: p})
	}
	got := dump(t, d).Policies
	for _, p := range want {
		if !slices.Contains(got, p) {
			t.Errorf("put %+v\nnot among what came back", p)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d policies came back, want %d:\n%+v", len(got), len(want), got)
	}
	for _, p := range want {
		apply(t, d, xfrm.RemovePolicy{Slot: p.Slot}, xfrm.RemovePolicy{Slot: p.Slot})
	}
	if out := n.ip(t, "xfrm policy list"); strings.TrimSpace(out) != "" {
		t.Errorf("left: %s", out)
	}
}

func TestPolicyInIsInAndForward(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	apply(t, d, xfrm.PutPolicy{Policy: protect(xfrm.In, "10.2.0.0/16", "10.1.0.0/16")})
	out := n.ip(t, "xfrm policy list")
	for _, s := range []string{"dir in", "dir fwd", "reqid 1129906177", "mode tunnel", "src 198.51.100.7 dst 192.0.2.1"} {
		if !strings.Contains(out, s) {
			t.Errorf("no %q in\n%s", s, out)
		}
	}
	if strings.Contains(out, "level use") {
		t.Errorf("the SA must be required:\n%s", out)
	}
}

func TestPutReplacesWithoutAHole(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{Warn: ignoreWarnings})
	p := protect(xfrm.In, "10.2.0.0/16", "10.1.0.0/16")
	apply(t, d, xfrm.PutPolicy{Policy: p})
	for _, change := range []func(*xfrm.Policy){
		func(p *xfrm.Policy) { p.Template.Src = ip("198.51.100.8") },
		func(p *xfrm.Policy) { p.Template.ReqID++ },
		func(p *xfrm.Policy) { p.Priority++ },
		func(p *xfrm.Policy) { p.Action, p.Template = xfrm.Block, xfrm.Template{} },
	} {
		change(&p)
		apply(t, d, xfrm.PutPolicy{Policy: p})
		if got := dump(t, d).Policies; !reflect.DeepEqual(got, []xfrm.Policy{p}) {
			t.Errorf("got %+v, want %+v", got, p)
		}
	}
}

// A slot of which the kernel has lost a part must not look whole, nor be forgotten.
func TestIncompletePolicyIsNobodysMatch(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	p := protect(xfrm.In, "10.2.0.0/16", "10.1.0.0/16")
	apply(t, d, xfrm.PutPolicy{Policy: p})
	n.ip(t, "xfrm policy delete src 10.2.0.0/16 dst 10.1.0.0/16 dir fwd")
	got := dump(t, d).Policies
	if len(got) != 1 || got[0] == p || got[0].Slot != p.Slot || !ourReqID(got[0].Template.ReqID) {
		t.Fatalf("got %+v", got)
	}
	apply(t, d, xfrm.PutPolicy{Policy: p})
	if got := dump(t, d).Policies; !reflect.DeepEqual(got, []xfrm.Policy{p}) {
		t.Errorf("after repair %+v", got)
	}
	other := p
	other.Priority += 2
	list, err := putPolicy(&other)
	if err != nil || d.socket.do(list[1], nil) != nil {
		t.Fatal("put one piece alone:", err)
	}
	if got := dump(t, d).Policies; len(got) != 1 || got[0] == p || got[0] == other {
		t.Errorf("pieces of two: %+v", got)
	}
}

func TestForeignPoliciesAreNotOurs(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	for _, s := range []string{
		"xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 192.0.2.9 proto esp reqid 1 mode tunnel",
		"xfrm policy add src 10.1.0.0/16 dst 10.3.0.0/16 dir out priority 100 action block",
		"xfrm policy add src 10.1.0.0/16 dst 10.4.0.0/16 dir out priority 2097152",
	} {
		n.ip(t, s)
	}
	if got := dump(t, d); len(got.Policies) != 0 || len(got.SAs) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestSelectorsThatTheKernelCannotMatchAreRefused(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	base := protect(xfrm.Out, "10.1.0.0/16", "10.2.0.0/16")
	for says, change := range map[string]func(*xfrm.Policy){
		"OPAQUE": func(p *xfrm.Policy) {
			p.Slot.Selector.Proto, p.Slot.Selector.SrcPorts = 6, xfrm.Ports{First: 65535, Last: 0}
		},
		"take 900 kernel policies": func(p *xfrm.Policy) {
			r := xfrm.Ports{First: 1, Last: 65534}
			p.Slot.Selector.Proto, p.Slot.Selector.SrcPorts, p.Slot.Selector.DstPorts = 6, r, r
		},
		"a packet has only one": func(p *xfrm.Policy) {
			p.Slot.Selector.Proto, p.Slot.Selector.SrcPorts, p.Slot.Selector.DstPorts = 1, xfrm.Ports{First: 0x800, Last: 0x8ff}, xfrm.Ports{First: 0, Last: 0xff}
		},
		"selector 10.1.0.0/16 -> fd00:2::/32": func(p *xfrm.Policy) { p.Slot.Selector.Dst = prefix("fd00:2::/32") },
		"without reqid":                       func(p *xfrm.Policy) { p.Template.ReqID = 0 },
		"outer addresses":                     func(p *xfrm.Policy) { p.Template.Dst = ip("2001:db8::7") },
		"neither in nor out":                  func(p *xfrm.Policy) { p.Slot.Direction = 0 },
	} {
		err := d.Apply(t.Context(), []xfrm.Op{xfrm.PutPolicy{Policy: protect(xfrm.In, "10.7.0.0/16", "10.1.0.0/16")}, xfrm.PutPolicy{Policy: with(base, change)}})
		if e := opError(t, err); e.Index != 1 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: index %d, %v", says, e.Index, err)
		}
	}
	if got := dump(t, d).Policies; len(got) != 1 {
		t.Errorf("%d policies, want the one before the refused", len(got))
	}
}

func TestPortRangesMatchWhatTheySay(t *testing.T) {
	for _, p := range []xfrm.Ports{{First: 1, Last: 1}, {First: 1, Last: 65535}, {First: 0, Last: 65534}, {First: 1000, Last: 1999}, {First: 65535, Last: 65535}, {First: 0, Last: 1}} {
		list := prefixes(p)
		if len(list) > 30 {
			t.Errorf("%v: %d masks", p, len(list))
		}
		for port := range uint32(65536) {
			n := 0
			for _, m := range list {
				if uint16(port)&m.mask == m.value {
					n++
				}
			}
			want := 0
			if uint16(port) >= p.First && uint16(port) <= p.Last {
				want = 1
			}
			if n != want {
				t.Fatalf("%v: port %d is matched %d times, want %d", p, port, n, want)
			}
		}
	}
}

func TestICMPTypesAndCodes(t *testing.T) {
	for _, c := range []struct {
		ports xfrm.Ports
		want  []portPair
	}{
		{xfrm.Ports{}, []portPair{{}}},
		{xfrm.Ports{First: 8 << 8, Last: 8<<8 | 255}, []portPair{{src: masked{8, 0xffff}}}},
		{xfrm.Ports{First: 3<<8 | 4, Last: 3<<8 | 4}, []portPair{{masked{3, 0xffff}, masked{4, 0xffff}}}},
		{xfrm.Ports{First: 0, Last: 255}, []portPair{{src: masked{0, 0xffff}}}}, // echo reply is type 0, not any
		{xfrm.Ports{First: 8 << 8, Last: 9<<8 | 255}, []portPair{{src: masked{8, 0xfffe}}}},
	} {
		got, err := splitPorts(xfrm.Selector{Proto: unix.IPPROTO_ICMP, SrcPorts: c.ports})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %v %v, want %v", c.ports, got, err, c.want)
		}
	}
}

// poke sends one datagram from the namespace and forgets what becomes of it.
func (n *namespace) poke(t *testing.T, src, dst string) {
	t.Helper()
	n.must(t, func() error {
		from := net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip(src), 0))
		c, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(dst)))
		if err != nil {
			return err
		}
		defer c.Close()
		c.Write([]byte("x")) // an error is what the policy wants
		return nil
	})
}

func TestAcquire(t *testing.T) {
	for _, c := range []struct{ src, dst, from, to string }{
		{"10.1.0.0/16", "10.2.0.0/16", "10.1.0.1", "10.2.0.9:4711"},
		{"fd00:1::/32", "fd00:2::/32", "fd00:1::1", "[fd00:2::9]:4711"},
	} {
		n := gateway(t)
		d := n.driver(t, Config{})
		apply(t, d, xfrm.PutPolicy{Policy: protect(xfrm.Out, c.src, c.dst)})
		n.poke(t, c.from, c.to)
		a := event(t, d, func(xfrm.Acquire) bool { return true })
		to := netip.MustParseAddrPort(c.to)
		want := xfrm.Selector{
			Src: netip.PrefixFrom(ip(c.from), ip(c.from).BitLen()), Dst: netip.PrefixFrom(to.Addr(), to.Addr().BitLen()),
			Proto: unix.IPPROTO_UDP, SrcPorts: a.Selector.SrcPorts, DstPorts: xfrm.Ports{First: 4711, Last: 4711},
		}
		if a.ReqID != 0x43590001 || a.Selector != want {
			t.Errorf("%+v, want %+v", a, want)
		}
		if got := dump(t, d); len(got.SAs) != 0 {
			t.Errorf("the kernel's note of the ACQUIRE shows as an SA: %+v", got.SAs)
		}
	}
}

func TestAcquireOfOthersIsNotOurs(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	n.ip(t, "xfrm policy add src 10.1.0.0/16 dst 10.5.0.0/16 dir out tmpl src 192.0.2.1 dst 192.0.2.9 proto esp reqid 1 mode tunnel")
	n.poke(t, "10.1.0.1", "10.5.0.9:4711")
	apply(t, d, xfrm.PutPolicy{Policy: protect(xfrm.Out, "10.1.0.0/16", "10.2.0.0/16")})
	n.poke(t, "10.1.0.1", "10.2.0.9:4711")
	if e := <-d.Events(); e.(xfrm.Acquire).ReqID != 0x43590001 {
		t.Errorf("event %+v", e)
	}
}

// When nobody reads, the kernel drops notices: the reader must hear of it and go on.
func TestGapAfterLostNotices(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{Warn: ignoreWarnings})
	err := d.monitor.conn.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) })
	if err != nil {
		t.Fatal(err)
	}
	const many = eventQueue + 100
	for i := range many {
		p := protect(xfrm.Out, "10.1.0.0/16", fmt.Sprintf("10.2.%d.%d/32", i/250, i%250+1))
		p.Template.ReqID += uint32(i)
		apply(t, d, xfrm.PutPolicy{Policy: p})
		n.poke(t, "10.1.0.1", fmt.Sprintf("10.2.%d.%d:9", i/250, i%250+1))
	}
	// Whatever else is lost, a Gap comes after it; when all is read, the next notice arrives.
	p := protect(xfrm.Out, "10.1.0.0/16", "10.3.0.0/16")
	p.Template.ReqID = 0x4359ffff
	apply(t, d, xfrm.PutPolicy{Policy: p})
	for gaps := 0; ; {
		e := event(t, d, func(e xfrm.Event) bool {
			a, is := e.(xfrm.Acquire)
			return e == xfrm.Event(xfrm.Gap{}) || is && a.ReqID == p.Template.ReqID
		})
		if e != xfrm.Event(xfrm.Gap{}) {
			if gaps == 0 {
				t.Error("no Gap")
			}
			return
		}
		gaps++
		n.poke(t, "10.1.0.1", "10.3.0.1:9")
	}
}

func TestCloseEndsTheEvents(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	done := make(chan struct{})
	go func() {
		for range d.Events() {
		}
		close(done)
	}()
	var other *Driver
	n.must(t, func() (err error) { other, err = open(Config{}); return err })
	p := protect(xfrm.In, "10.2.0.0/16", "10.1.0.0/16")
	apply(t, other, xfrm.PutPolicy{Policy: p})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-other.Events(); open {
		t.Error("the events go on")
	}
	if err := other.Apply(t.Context(), []xfrm.Op{xfrm.PutPolicy{Policy: p}}); err == nil {
		t.Error("a closed driver works")
	}
	if got := dump(t, d).Policies; !reflect.DeepEqual(got, []xfrm.Policy{p}) {
		t.Errorf("after Close: %+v: what is installed must stay", got)
	}
	d.monitor.close()
	<-done
	d.monitor, _ = openMonitor()
	go d.monitor.run()
}

func TestProbeSaysWhyNot(t *testing.T) {
	caps, err := espHere()
	if err == nil {
		t.Logf("%+v", caps)
		if caps.Name != "kernel" || !caps.PlainESP || caps.MustEncap || caps.Why == "" {
			t.Errorf("capabilities %+v", caps)
		}
		return
	}
	if !strings.Contains(err.Error(), "the kernel") {
		t.Errorf("the error %q does not say who refuses what", err)
	}
	t.Log(err)
}

func TestOperationsWithoutSuchSA(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	id := xfrm.SAID{Dst: ip("192.0.2.1"), SPI: 0x12345678, Proto: 50}
	apply(t, d, xfrm.RemoveSA{ID: id})
	for _, op := range []xfrm.Op{
		xfrm.UpdateSA{ID: id, Encap: xfrm.Encap{SrcPort: 1, DstPort: 2}},
		xfrm.MoveSA{ID: id, Src: ip("192.0.2.1"), Dst: ip("192.0.2.2")},
	} {
		if err := d.Apply(t.Context(), []xfrm.Op{op}); err == nil || !strings.Contains(err.Error(), "no such SA") {
			t.Errorf("%T: %v", op, err)
		}
	}
	if _, err := d.Usage(t.Context(), id); err == nil || !strings.Contains(err.Error(), "12345678") {
		t.Errorf("usage: %v", err)
	}
}

func TestBuffersAreWipedAfterUse(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	p := protect(xfrm.In, "10.2.0.0/16", "10.1.0.0/16")
	list, err := putPolicy(&p)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(list, listPolicies(), delSA(xfrm.SAID{Dst: ip("192.0.2.1"), SPI: 5, Proto: 50})) { // the last is answered by an error
		seen := 0
		d.socket.do(r, func(_ uint16, content []byte) error { seen += len(content); return nil })
		if !slices.Equal(r.b[:cap(r.b)], make([]byte, cap(r.b))) {
			t.Errorf("the request still stands: %x", r.b)
		}
		if !slices.Equal(d.socket.buf, make([]byte, len(d.socket.buf))) {
			t.Errorf("the answer (%d octets) still stands", seen)
		}
	}
}

func TestApplyFromManyGoroutines(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{Warn: ignoreWarnings})
	done := make(chan error)
	const many = 8
	for g := range many {
		go func() {
			var err error
			for i := range 20 {
				p := protect(xfrm.Out, "10.1.0.0/16", fmt.Sprintf("10.2.%d.%d/32", g, i))
				err = errors.Join(err, d.Apply(t.Context(), []xfrm.Op{xfrm.PutPolicy{Policy: p}}))
				_, listed := d.Dump(t.Context())
				err = errors.Join(err, listed, d.Apply(t.Context(), []xfrm.Op{xfrm.RemovePolicy{Slot: p.Slot}}))
			}
			done <- err
		}()
	}
	for range many {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := dump(t, d).Policies; len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	if got := n.ours(t); len(got) != 0 {
		t.Errorf("routes left: %q", got)
	}
}
