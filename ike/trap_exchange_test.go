package ike

import (
	"bytes"
	"math"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// TestTrap_7296_10_Backoff: the pauses between repeats grow, and in the end IKE SA and children go.
func TestTrap_7296_10_Backoff(t *testing.T) {
	for _, up := range []bool{false, true} {
		n := newPair(t, setup{})
		if up {
			n.up()
		}
		var at []Time
		n.hook = func(d datagram) []datagram {
			if d.from.Addr() == addrA {
				at = append(at, n.now)
			}
			return nil
		}
		if up {
			n.a.step(Lower{Child: "lan"})
		} else {
			n.a.step(Initiate{})
		}
		n.run(10*time.Minute, func() bool { return n.a.finish != nil })
		if n.a.finish == nil || n.a.finish.Code != CodeNoAnswer || len(n.a.plane.sas)+len(n.a.plane.pols) != 0 {
			t.Fatalf("up %v: finish %+v, %d SAs are left", up, n.a.finish, len(n.a.plane.sas))
		}
		if len(at) < 5 || n.now.Sub(at[0]) < 40*time.Second {
			t.Errorf("up %v: given up after %d sendings in %v", up, len(at), n.now.Sub(at[0]))
		}
		at = append(at, n.now)
		for i := 2; i < len(at); i++ {
			if before, now := at[i-1].Sub(at[i-2]), at[i].Sub(at[i-1]); now < before*3/2 {
				t.Errorf("up %v: a pause of %v, then of %v", up, before, now)
			}
		}
	}
}

// TestTrap_7296_14_LastMessageID: the last message ID is used, and none after it, neither wrapped to 0 by us nor taken from the peer.
func TestTrap_7296_14_LastMessageID(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.sa.requests.next, n.b.sa.responses.next = math.MaxUint32, math.MaxUint32
	n.a.step(Lower{Child: "lan"})
	n.run(time.Second, nil)
	if n.a.children() != 0 || n.b.children() != 0 || !n.a.sa.Established() {
		t.Fatal("the last message ID cannot be used")
	}
	data := n.a.seal(n.a.sa.header(wire.Informational, false, 0), []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}})
	if n.a.exchange(data) != nil || !n.b.sa.Established() {
		t.Error("a request whose ID wrapped was processed")
	}
	sent := len(n.a.sends)
	n.a.step(RaiseChild{Child: "lan"})
	n.run(time.Second, nil)
	if n.a.finish == nil || !n.a.finish.Retry || len(n.a.sends) != sent {
		t.Errorf("finish %+v, %d messages after the last ID", n.a.finish, len(n.a.sends)-sent)
	}
	n.a.wants(CodeProtocol, "message IDs are used up")
}

// asksForMore are notifies of what we do not do.
func asksForMore() []wire.Payload {
	return []wire.Payload{
		wire.NewNotify(wire.NotifyUseTransportMode, nil), wire.NewNotify(wire.NotifyIPCompSupported, []byte{0x12, 0x34, 2}),
		wire.NewNotify(wire.NotifyESPTFCPaddingNotSupported, nil), wire.NewNotify(wire.NotifyNonFirstFragmentsAlso, nil),
	}
}

// tunnels checks that each SA is in tunnel mode.
func (h *host) tunnels() {
	h.t.Helper()
	for id, s := range h.plane.sas {
		if s.Mode != xfrm.Tunnel {
			h.t.Errorf("%s: %v is in mode %v", h.name, id, s.Mode)
		}
	}
}

// TestTrap_7296_49_TransportMode: what is not echoed is not agreed: tunnel mode on both sides, whatever one of them asks or answers.
func TestTrap_7296_49_TransportMode(t *testing.T) {
	for _, response := range []bool{false, true} {
		n := newPair(t, setup{})
		n.tamper(func(o *opened) bool {
			if o.is(wire.IKEAuth, true) && len(notifies(o.ps, wire.NotifyUseTransportMode)) != 0 {
				t.Error("USE_TRANSPORT_MODE was echoed")
			}
			if !o.is(wire.IKEAuth, response) {
				return false
			}
			o.ps = append(o.ps, wire.NewNotify(wire.NotifyUseTransportMode, nil))
			return true
		})
		n.up()
		n.a.tunnels()
		n.b.tunnels()
	}
}

// TestTrap_7296_90_NothingUnasked: neither IPComp nor fragments without ports nor TFC padding is agreed to, asked or not.
func TestTrap_7296_90_NothingUnasked(t *testing.T) {
	n := newPair(t, two(""))
	n.tamper(func(o *opened) bool {
		extra := asksForMore()
		for _, p := range extra {
			if o.is(wire.IKEAuth, true) && len(notifies(o.ps, p.(*wire.Notify).Kind)) != 0 {
				t.Errorf("%v was answered", p)
			}
		}
		o.ps = append(o.ps, extra...)
		return o.Exchange == wire.IKEAuth
	})
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	answer := n.a.ask(wire.CreateChildSA, n.a.offer(0x7777, asksForMore()...)...)
	if _, ok := wire.Find[*wire.SA](answer); !ok || len(wire.All[*wire.Notify](answer)) != 0 {
		t.Errorf("answer %v", answer)
	}
	n.b.tunnels()
}

// TestTrap_7296_61_UnknownNotifies: in a response an unknown error fails the request alone, an unknown status is ignored.
func TestTrap_7296_61_UnknownNotifies(t *testing.T) {
	for kind, fails := range map[wire.NotifyType]bool{9999: true, 16383: true, 16384 + 9999: false, 65535: false} {
		n := newPair(t, two(""))
		n.tamper(func(o *opened) bool {
			if !o.is(wire.CreateChildSA, true) {
				return false
			}
			if fails {
				o.ps = nil
			}
			o.ps = append(o.ps, wire.NewNotify(kind, []byte("?")))
			return true
		})
		n.a.step(Initiate{Children: []string{"lan"}})
		n.both(1)
		n.a.step(RaiseChild{Child: "dmz"})
		n.run(3*time.Second, nil)
		if want := map[bool]int{true: 1, false: 2}[fails]; n.a.children() != want || !n.a.sa.Established() {
			t.Errorf("notify %d: %d children, want %d; finish %+v", kind, n.a.children(), want, n.a.finish)
		}
		if fails {
			n.a.wants(CodePeerError)
		}
		if answer := n.b.ask(wire.Informational, wire.NewNotify(kind, nil)); answer == nil || len(answer) != 0 || !n.a.sa.Established() {
			t.Errorf("notify %d in a request: %v", kind, answer)
		}
	}
}

// TestTrap_7296_76_Sizes: messages of 1280 octets, of 3000 and of more are processed.
func TestTrap_7296_76_Sizes(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for _, size := range []int{1280, 3000, 20000} {
		h := n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next))
		n.a.sa.requests.next++
		empty := len(n.a.seal(h, []wire.Payload{&wire.VendorID{}}))
		data := n.a.seal(h, []wire.Payload{&wire.VendorID{Data: make([]byte, size-empty)}})
		if len(data) != size {
			t.Fatalf("the message has %d octets", len(data))
		}
		if answer := n.a.exchange(data); answer == nil {
			t.Errorf("%d octets: no answer", size)
		}
	}
}

// TestTrap_7296_80_DeleteIsSent: the peer hears of a child, and of an IKE SA, that ends here; a dead one does not.
func TestTrap_7296_80_DeleteIsSent(t *testing.T) {
	for name, c := range map[string]struct {
		ev   Event
		want wire.ProtocolID
	}{
		"child": {Lower{Child: "lan"}, wire.ProtoESP}, "IKE SA": {Lower{}, wire.ProtoIKE}, "peer is gone": {Lower{Silent: true}, 0},
	} {
		n := newPair(t, setup{})
		n.up()
		spi, got := n.a.sa.children[0].spiIn, wire.ProtocolID(0)
		n.tamper(func(o *opened) bool {
			if d, ok := wire.Find[*wire.Delete](o.ps); ok && o.is(wire.Informational, false) {
				got = d.Protocol
				if got == wire.ProtoESP && (len(d.SPIs) != 1 || d.SPIs[0] != spi) {
					t.Errorf("%s: Delete of %x, want %x", name, d.SPIs, spi)
				}
			}
			return false
		})
		n.a.step(c.ev)
		n.run(time.Second, nil)
		if got != c.want {
			t.Errorf("%s: Delete for protocol %d, want %d", name, got, c.want)
		}
	}
}

// TestTrap_7296_93_HalfClosed: until the peer has answered our Delete the inbound SA stays, and its SPI is not drawn again.
func TestTrap_7296_93_HalfClosed(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	c := n.a.sa.children[0]
	n.hook = func(d datagram) []datagram {
		if d.from.Addr() == addrB {
			return nil
		}
		return []datagram{d}
	}
	n.a.step(Lower{Child: "lan"})
	n.run(3*time.Second, nil)
	if _, ok := n.a.plane.sas[c.inID()]; !ok || n.b.children() != 0 {
		t.Fatalf("inbound SA is there: %v; the peer has %d children", ok, n.b.children())
	}
	spi := []byte{byte(c.spiIn >> 24), byte(c.spiIn >> 16), byte(c.spiIn >> 8), byte(c.spiIn)}
	random := n.a.sa.config.Rand
	n.a.sa.config.Rand = bytes.NewReader(append(spi, 9, 9, 9, 9))
	if got := n.a.sa.drawSPI(); got != 0x09090909 {
		t.Errorf("SPI %08x of a half-closed child was drawn", got)
	}
	n.a.sa.config.Rand = random
	n.hook = nil
	n.run(time.Minute, func() bool { return len(n.a.sa.children) == 0 })
	n.run(time.Second, nil)
	n.empty()
}

// TestTrap_7296_98_UnprotectedInvalidSPI: it is not answered, and changes nothing.
func TestTrap_7296_98_UnprotectedInvalidSPI(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	sent := len(n.a.sends)
	n.now = n.now.Add(time.Second)
	heard := n.a.sa.lastHeard
	spi := []byte{0, 0, 0x77, 0x77}
	for _, h := range []wire.Header{n.b.sa.header(wire.Informational, false, 0), n.b.sa.header(wire.Informational, true, 0), {MajorVersion: 2, Exchange: wire.Informational, Flags: wire.FlagInitiator}} {
		n.a.step(Packet{Path{apA, apB}, encode(t, &wire.Message{Header: h, Payloads: []wire.Payload{wire.NewNotify(wire.NotifyInvalidSPI, spi)}})})
	}
	if len(n.a.sends) != sent || n.a.children() != 1 || n.a.sa.lastHeard != heard {
		t.Error("something changed")
	}
}

// TestTrap_7296_103_VendorID: unknown Vendor IDs in each message are ignored.
func TestTrap_7296_103_VendorID(t *testing.T) {
	n := newPair(t, setup{})
	vendor := &wire.VendorID{Data: bytes.Repeat([]byte{0xaf}, 20)}
	answered := false
	n.tamper(func(o *opened) bool {
		o.ps = append([]wire.Payload{vendor}, o.ps...)
		answered = answered || o.is(wire.IKESAInit, true)
		return o.is(wire.IKESAInit, false)
	})
	n.a.step(Initiate{})
	n.run(100*time.Millisecond, nil)
	if !answered {
		t.Error("IKE_SA_INIT with a Vendor ID is not answered")
	}
	n = newPair(t, setup{})
	n.tamper(func(o *opened) bool {
		o.ps = append([]wire.Payload{vendor, &wire.VendorID{}}, o.ps...)
		return o.Exchange != wire.IKESAInit // else AUTH would not fit
	})
	n.up()
}
