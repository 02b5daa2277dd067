package shard

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/policy"
)

func underAttack(t *testing.T) *stage {
	return newStage(t, Config{Snapshot: &policy.Snapshot{}}) // threshold 0: every request needs a cookie
}

func cookieFrom(t *testing.T, acts []Action) *wire.Notify {
	t.Helper()
	m := answer(t, acts)
	if !m.Response() || m.Initiator() || m.SPIr != 0 || m.MessageID != 0 || m.Exchange != wire.IKESAInit {
		t.Fatalf("header %+v", m.Header)
	}
	return notify(t, m, wire.NotifyCookie)
}

func TestTrap_7296_19_CookieKeepsNoState(t *testing.T) {
	st := underAttack(t)
	for i := range 10_000 {
		from := fmt.Sprintf("10.0.%d.%d:500", i/250, i%250)
		if acts := st.packet(from, initRequest(t, wire.SPI(i+1), 1)); len(acts) != 1 {
			t.Fatalf("actions %+v", acts)
		}
	}
	if st.Len()+len(st.inits)+len(st.sources.forged)+len(st.sources.proven)+len(st.notifies.last) != 0 {
		t.Error("state was kept")
	}
	c := cookieFrom(t, st.packet("198.51.100.7:500", initRequest(t, 5, 1)))
	if len(c.Data) < 1 || len(c.Data) > 64 {
		t.Errorf("cookie of %d octets", len(c.Data))
	}
	st.packet("198.51.100.7:500", initRequest(t, 5, 1, c))
	if len(st.puppets) != 1 {
		t.Fatal("the cookie was not accepted")
	}
	st.packet("198.51.100.7:500", initRequest(t, 5, 1, c))
	if len(st.puppets) != 1 {
		t.Error("the repeat made another machine")
	}
}

func TestTrap_7296_20_CookieBinds(t *testing.T) {
	st := underAttack(t)
	c := cookieFrom(t, st.packet("198.51.100.7:500", initRequest(t, 5, 1)))
	forged := &wire.Notify{Kind: wire.NotifyCookie, Data: bytes.Clone(c.Data)}
	forged.Data[len(forged.Data)-1] ^= 1
	short := &wire.Notify{Kind: wire.NotifyCookie, Data: c.Data[:len(c.Data)-1]}
	other := &wire.Notify{Kind: wire.NotifyCookie, Data: bytes.Clone(c.Data)}
	other.Data[0]--
	for name, acts := range map[string][]Action{
		"another address": st.packet("198.51.100.8:500", initRequest(t, 5, 1, c)),
		"another SPI":     st.packet("198.51.100.7:500", initRequest(t, 6, 1, c)),
		"another nonce":   st.packet("198.51.100.7:500", initRequest(t, 5, 2, c)),
		"a changed MAC":   st.packet("198.51.100.7:500", initRequest(t, 5, 1, forged)),
		"a short cookie":  st.packet("198.51.100.7:500", initRequest(t, 5, 1, short)),
		"another version": st.packet("198.51.100.7:500", initRequest(t, 5, 1, other)),
	} {
		cookieFrom(t, acts) // a new one is demanded
		if st.Len() != 0 {
			t.Errorf("%s was accepted", name)
		}
	}
	st.counted(CookieBad, 6)
	if st.packet("198.51.100.7:4711", initRequest(t, 5, 1, c)); st.Len() != 1 {
		t.Error("another port was refused")
	}
}

func TestTrap_7296_20_CookieRotation(t *testing.T) {
	for _, c := range []struct {
		name  string
		ask   time.Duration // another client's question meanwhile, so that the secret rotates early
		after time.Duration
		good  bool
	}{
		{"fresh", 0, time.Second, true},
		{"previous secret", cookieLife, cookieLife + time.Second, true},
		{"previous secret at its end", cookieLife, 2*cookieLife - time.Second, true},
		{"two secrets ago", cookieLife, 2*cookieLife + time.Second, false},
		{"long quiet", 0, 2 * cookieLife, false},
		{"rotated late", 0, 2*cookieLife - time.Second, true},
	} {
		st := underAttack(t)
		cookie := cookieFrom(t, st.packet("198.51.100.7:500", initRequest(t, 5, 1)))
		start := st.now
		if c.ask > 0 {
			st.now = start.Add(c.ask)
			st.packet("198.51.100.8:500", initRequest(t, 5, 1))
		}
		st.now = start.Add(c.after)
		st.packet("198.51.100.7:500", initRequest(t, 5, 1, cookie))
		if (st.Len() == 1) != c.good {
			t.Errorf("%s: accepted %v, want %v", c.name, st.Len() == 1, c.good)
		}
	}
}

func TestCookieFromThresholdOn(t *testing.T) {
	st := newStage(t, Config{Count: 2, Snapshot: &policy.Snapshot{Daemon: policy.Daemon{CookieThreshold: 7}}})
	for i := range 6 {
		st.packet(fmt.Sprintf("198.51.100.%d:500", i), initRequest(t, wire.SPI(i+1), 1))
	}
	if st.HalfOpen() != 4 { // 7 for two shards
		t.Fatalf("%d half-open", st.HalfOpen())
	}
	st.counted(CookieSent, 2)
	st.puppets[0].established = true
	st.step(ForSA{st.puppets[0].c.SPI, ike.Wake{}})
	st.packet("198.51.100.99:500", initRequest(t, 99, 1))
	if st.HalfOpen() != 4 || st.Len() != 5 {
		t.Errorf("%d half-open of %d", st.HalfOpen(), st.Len())
	}
	st.step(Reload{&policy.Snapshot{Daemon: policy.Daemon{CookieThreshold: 1000}}})
	st.step(Pressure{Full: true})
	cookieFrom(t, st.packet("198.51.100.100:500", initRequest(t, 100, 1)))
	st.step(Pressure{})
	st.packet("198.51.100.100:500", initRequest(t, 100, 1))
	if st.Len() != 6 {
		t.Error("cookies are still demanded")
	}
}

// One source with forged packets gets cookies early, and cannot shut out the real client behind the address.
func TestSourceLimits(t *testing.T) {
	st := newStage(t, Config{Snapshot: &policy.Snapshot{Daemon: policy.Daemon{CookieThreshold: 1 << 20}}})
	spi := wire.SPI(1)
	for ; st.Counters()[CookieSent] == 0; spi++ {
		st.packet(fmt.Sprintf("[2001:db8::%x]:500", uint64(spi)), initRequest(t, spi, 1))
	}
	if st.Len() != sourceUnproven {
		t.Errorf("%d admitted without cookie", st.Len())
	}
	for ; st.Counters()[InitSourceFull] == 0 && spi < 1000; spi++ {
		c := cookieFrom(t, st.packet("[2001:db8::1]:500", initRequest(t, spi, 1)))
		st.packet("[2001:db8::1]:500", initRequest(t, spi, 1, c))
	}
	if st.Len() != sourceUnproven+sourceMax {
		t.Errorf("%d admitted", st.Len())
	}
	st.packet("[2001:db8:0:1::1]:500", initRequest(t, spi, 1))
	if st.Len() != sourceUnproven+sourceMax+1 {
		t.Error("another /64 was not admitted")
	}
	for _, p := range st.puppets {
		p.finished = true
		st.step(ForSA{p.c.SPI, ike.Wake{}})
	}
	if st.Len()+st.HalfOpen()+len(st.inits)+len(st.sources.forged)+len(st.sources.proven)+len(st.due) != 0 {
		t.Error("state did not return to zero")
	}
}

func TestHalfOpenMax(t *testing.T) {
	st := newStage(t, Config{Snapshot: &policy.Snapshot{Daemon: policy.Daemon{CookieThreshold: 1 << 20}}})
	for i := range halfOpenMax + 10 {
		st.packet(fmt.Sprintf("10.%d.%d.1:500", i/250, i%250), initRequest(t, wire.SPI(i+1), 1))
	}
	if st.HalfOpen() != halfOpenMax {
		t.Errorf("%d half-open", st.HalfOpen())
	}
	st.counted(InitFull, 10)
}

// To a source that may be forged never go more octets than came from it.
func TestAmplification(t *testing.T) {
	st := newStage(t, Config{})
	request := initRequest(t, 5, 1)
	size := 2 * len(request)
	st.onStep = func(p *puppet, ev ike.Event, out *ike.Actions) {
		if pkt, ok := ev.(ike.Packet); ok {
			data := make([]byte, size)
			data[18] = byte(wire.IKESAInit)
			out.Add(ike.Send{Path: pkt.Path, Data: data})
		}
	}
	acts := st.packet("198.51.100.7:500", request)
	if len(acts) != 2 {
		t.Fatalf("actions %+v", acts)
	}
	if _, ok := acts[0].Action.(ike.Finish); !ok || acts[0].SPI == 0 {
		t.Errorf("the machine did not finish: %+v", acts[0])
	}
	c := cookieFrom(t, acts[1:])
	if st.Len()+st.HalfOpen() != 0 {
		t.Error("the machine stays")
	}
	acts = st.packet("198.51.100.7:500", initRequest(t, 5, 1, c))
	if len(acts) != 1 || len(acts[0].Action.(ike.Send).Data) != size {
		t.Errorf("after the cookie: %+v", acts)
	}
	// An answer of equal size passes, once for each request.
	size = len(request)
	other := initRequest(t, 6, 1)
	for range 2 {
		if acts = st.packet("198.51.100.9:500", other); len(acts) != 1 || len(acts[0].Action.(ike.Send).Data) != size {
			t.Errorf("an answer of equal size: %+v", acts)
		}
	}
	st.counted(Amplification, 1)
}

func TestMalformedFirstMessages(t *testing.T) {
	st := underAttack(t)
	head := wire.Header{SPIi: 1, Exchange: wire.IKESAInit, Flags: wire.FlagInitiator}
	noNonce := encode(t, head, &wire.VendorID{Data: []byte("x")})
	loop := initRequest(t, 1, 1)
	loop[30], loop[31] = 0, 0 // payload length 0
	long := initRequest(t, 1, 1)
	long[30] = 0xff
	tiny := encode(t, head, &wire.VendorID{Data: make([]byte, 8)})
	tiny[16] = byte(wire.PayloadNonce)
	for _, b := range [][]byte{noNonce, loop, long, tiny} {
		if acts := st.packet("198.51.100.7:500", b); len(acts) != 0 {
			t.Errorf("%x: %+v", b, acts)
		}
	}
	st.counted(InitMalformed, 4)
}

// Whatever arrives, a shard does not panic, never answers with more than came, and keeps no more than one machine per packet.
func FuzzStep(f *testing.F) {
	f.Add(initRequest(f, 5, 1), byte(0))
	f.Add(initRequest(f, 5, 1, &wire.Notify{Kind: wire.NotifyCookie, Data: make([]byte, 17)}), byte(1))
	f.Add(encode(f, wire.Header{SPIi: 1, SPIr: 2, Exchange: wire.Informational}, ni(1)), byte(0))
	f.Add([]byte{}, byte(1))
	f.Fuzz(func(t *testing.T, b []byte, threshold byte) {
		s := New(Config{Rand: seeded(3), Snapshot: &policy.Snapshot{Daemon: policy.Daemon{CookieThreshold: int(threshold)}}})
		for i := range 3 {
			var out []Action
			s.Step(ike.Time(i+1), Packet{ike.Packet{Path: ike.Path{Local: local, Remote: local}, Data: bytes.Clone(b)}}, &out)
			sent := 0
			for _, a := range out {
				if send, ok := a.Action.(ike.Send); ok {
					sent += len(send.Data)
				}
			}
			if sent > len(b) {
				t.Fatalf("%d octets answer %d", sent, len(b))
			}
		}
		if s.Len() > 1 {
			t.Fatalf("%d machines of one packet", s.Len())
		}
	})
}
