package shard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// puppet is a machine that does what its test says.
type puppet struct {
	c           ike.Config
	events      []ike.Event
	onStep      func(*puppet, ike.Event, *ike.Actions)
	deadline    ike.Time // 0: none
	peerSPI     wire.SPI
	established bool
	finished    bool
}

func (p *puppet) Step(_ ike.Time, ev ike.Event, out *ike.Actions) {
	p.events = append(p.events, ev)
	if p.onStep != nil {
		p.onStep(p, ev, out)
	}
}
func (p *puppet) Deadline() (ike.Time, bool) { return p.deadline, p.deadline != 0 }
func (p *puppet) Status() ike.Status         { return ike.Status{SPIr: p.c.SPI} }
func (p *puppet) PeerSPI() wire.SPI          { return p.peerSPI }
func (p *puppet) Established() bool          { return p.established }
func (p *puppet) Finished() bool             { return p.finished }

// stage is a shard whose machines are puppets.
type stage struct {
	*Shard
	t       *testing.T
	now     ike.Time
	puppets []*puppet
	onStep  func(*puppet, ike.Event, *ike.Actions) // of puppets made from now on
}

func seeded(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

func newStage(t *testing.T, c Config) *stage {
	if c.Rand == nil {
		c.Rand = seeded(1)
	}
	if c.Snapshot == nil {
		c.Snapshot = &policy.Snapshot{Daemon: policy.Daemon{CookieThreshold: 100}, Connections: []*policy.Connection{{Name: "site-b"}}}
	}
	st := &stage{Shard: New(c), t: t, now: 1}
	st.newInitiator = func(c ike.Config, _ *policy.Connection) peer { return st.puppet(c, 0) }
	st.newResponder = func(c ike.Config) peer { return st.puppet(c, 0) }
	return st
}

func (st *stage) puppet(c ike.Config, spi wire.SPI) *puppet {
	p := &puppet{c: c, peerSPI: spi, onStep: st.onStep}
	st.puppets = append(st.puppets, p)
	return p
}

func (st *stage) step(ev Event) []Action {
	var out []Action
	st.Step(st.now, ev, &out)
	return out
}

var local = netip.MustParseAddrPort("192.0.2.1:500")

func (st *stage) packet(from string, data []byte) []Action {
	return st.step(Packet{ike.Packet{Path: ike.Path{Local: local, Remote: netip.MustParseAddrPort(from)}, Data: data}})
}

func (st *stage) counted(name string, n uint64) {
	st.t.Helper()
	if got := st.Counters()[name]; got != n {
		st.t.Errorf("counter %s is %d, want %d (all: %v)", name, got, n, st.Counters())
	}
}

func encode(t testing.TB, h wire.Header, ps ...wire.Payload) []byte {
	t.Helper()
	h.MajorVersion = 2
	b, err := (&wire.Message{Header: h, Payloads: ps}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ni(fill byte) *wire.Nonce { return &wire.Nonce{Data: bytes.Repeat([]byte{fill}, 32)} }

// sealed is a protected payload, under keys that nobody here has.
func sealed() *wire.SK { return &wire.SK{Body: make([]byte, 40)} }

// initRequest is an IKE_SA_INIT request as far as a shard reads it; extra payloads come first.
func initRequest(t testing.TB, spi wire.SPI, fill byte, extra ...wire.Payload) []byte {
	return encode(t, wire.Header{SPIi: spi, Exchange: wire.IKESAInit, Flags: wire.FlagInitiator}, append(extra, ni(fill))...)
}

// answer decodes the only action, which must be a message of the shard itself.
func answer(t *testing.T, acts []Action) *wire.Message {
	t.Helper()
	if len(acts) != 1 || acts[0].SPI != 0 {
		t.Fatalf("actions %+v, want one message of the shard", acts)
	}
	m, err := wire.Decode(acts[0].Action.(ike.Send).Data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func notify(t *testing.T, m *wire.Message, kind wire.NotifyType) *wire.Notify {
	t.Helper()
	n, ok := m.Payloads[0].(*wire.Notify)
	if len(m.Payloads) != 1 || !ok || n.Kind != kind || n.Protocol != 0 || len(n.SPI) != 0 {
		t.Fatalf("payloads %+v, want notify %d alone", m.Payloads, kind)
	}
	return n
}

func TestSipHash(t *testing.T) {
	var key [16]byte
	var in []byte
	for i := range key {
		key[i] = byte(i)
	}
	// Vectors of the authors' reference code.
	for n, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5} {
		in = in[:0]
		for i := range n {
			in = append(in, byte(i))
		}
		if got := sipHash(key, in); got != want {
			t.Errorf("%d octets: %#x, want %#x", n, got, want)
		}
	}
}

// Whatever a shard draws comes home to it, in both roles; a first message goes where its repeat will go.
func TestRoute(t *testing.T) {
	key := [16]byte{7}
	for index := range 5 {
		st := newStage(t, Config{Index: index, Count: 5, HashKey: key, Rand: seeded(byte(index))})
		for range 20 {
			spi, err := st.drawSPI()
			if err != nil {
				t.Fatal(err)
			}
			asInitiator := wire.Header{SPIi: spi, SPIr: 9}
			asResponder := wire.Header{SPIi: 9, SPIr: spi, Flags: wire.FlagInitiator}
			if a, b := Route(asInitiator, "x", 5, key), Route(asResponder, "y", 5, key); a != index || b != index {
				t.Fatalf("SPI of shard %d goes to %d as initiator, %d as responder", index, a, b)
			}
		}
	}
	first := wire.Header{SPIi: 9, Exchange: wire.IKESAInit, Flags: wire.FlagInitiator}
	seen := map[int]bool{}
	for i := range 100 {
		remote := fmt.Sprint("198.51.100.", i)
		r := Route(first, remote, 5, key)
		if r != Route(first, remote, 5, key) || r < 0 || r >= 5 {
			t.Fatalf("route %d", r)
		}
		seen[r] = true
	}
	if len(seen) != 5 {
		t.Errorf("100 clients reach only shards %v", seen)
	}
	if Route(first, "x", 0, key) != 0 {
		t.Error("no shard count")
	}
}

func TestDrawEndsWithBrokenRandom(t *testing.T) {
	st := newStage(t, Config{Rand: bytes.NewReader(nil)})
	acts := st.step(Open{Connection: "site-b"})
	if f, ok := acts[0].Action.(ike.Finish); len(acts) != 1 || !ok || !f.Retry || f.Connection != "site-b" || acts[0].SPI != 0 {
		t.Fatalf("actions %+v", acts)
	}
	st = newStage(t, Config{Rand: zeros{}})
	st.packet("198.51.100.7:500", initRequest(t, 1, 1))
	st.counted(InitNoSPI, 1)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestOpen(t *testing.T) {
	st := newStage(t, Config{})
	st.onStep = func(p *puppet, ev ike.Event, out *ike.Actions) { out.Add(ike.Report{Text: "on the way"}) }
	acts := st.step(Open{Connection: "site-b", Children: []string{"lan"}, InitialContact: true})
	if len(acts) != 2 || acts[0].Action.(Opened).Connection != "site-b" || acts[1].Action.(ike.Report).Text != "on the way" {
		t.Fatalf("actions %+v", acts)
	}
	p := st.puppets[0]
	if acts[0].SPI != p.c.SPI || acts[1].SPI != p.c.SPI || p.c.SPI == 0 || !p.c.InitialContact {
		t.Errorf("SPIs %v %v, the machine has %v", acts[0].SPI, acts[1].SPI, p.c.SPI)
	}
	if got := p.events[0].(ike.Initiate).Children; !slices.Equal(got, []string{"lan"}) {
		t.Errorf("children %v", got)
	}
	acts = st.step(Open{Connection: "gone"})
	if f := acts[0].Action.(ike.Finish); f.Connection != "gone" || f.Retry {
		t.Errorf("unknown connection: %+v", f)
	}
	st.step(Reload{&policy.Snapshot{Connections: []*policy.Connection{{Name: "gone"}}}})
	if acts = st.step(Open{Connection: "gone"}); acts[0].SPI == 0 {
		t.Error("the reloaded snapshot is not used")
	}
}

func TestTrap_7296_102_FoundBySPIAlone(t *testing.T) {
	st := newStage(t, Config{})
	st.packet("198.51.100.7:500", initRequest(t, 5, 1))
	p := st.puppets[0]
	p.peerSPI = 5
	h := wire.Header{SPIi: 5, SPIr: p.c.SPI, Exchange: wire.IKEAuth, Flags: wire.FlagInitiator, MessageID: 1}
	st.packet("203.0.113.9:4711", encode(t, h, ni(1)))
	if len(p.events) != 2 {
		t.Error("a packet from another address did not arrive")
	}
	h.SPIi = 6
	st.packet("198.51.100.7:500", encode(t, h, ni(1)))
	if len(p.events) != 2 {
		t.Error("a packet with another peer's SPI arrived")
	}
	st.counted(UnknownSPI, 1)
}

func TestTrap_7296_1_BadSPIs(t *testing.T) {
	st := newStage(t, Config{})
	for _, h := range []wire.Header{
		{SPIi: 0, Exchange: wire.IKESAInit, Flags: wire.FlagInitiator},
		{SPIi: 1, SPIr: 2, Exchange: wire.IKESAInit, Flags: wire.FlagInitiator},
		{SPIi: 1, Exchange: wire.IKESAInit},
		{SPIi: 1, Exchange: wire.IKESAInit, Flags: wire.FlagInitiator, MessageID: 1},
		{SPIi: 0, SPIr: 2, Exchange: wire.Informational, Flags: wire.FlagInitiator},
	} {
		if acts := st.packet("198.51.100.7:500", encode(t, h, ni(1))); len(acts) != 0 {
			t.Errorf("%+v: %+v", h, acts)
		}
	}
	st.counted(BadSPI, 5)
	if st.Len() != 0 {
		t.Error("a machine was made")
	}
}

func TestTrap_7296_11_Repeats(t *testing.T) {
	st := newStage(t, Config{})
	one, other := initRequest(t, 5, 1), initRequest(t, 5, 2)
	st.packet("198.51.100.7:500", one)
	st.packet("198.51.100.7:500", one)
	st.packet("198.51.100.7:1024", other) // another client behind the same NAT, with the same SPI
	st.packet("198.51.100.7:1025", one)   // the NAT changed the port
	if len(st.puppets) != 2 || len(st.puppets[0].events) != 3 || len(st.puppets[1].events) != 1 {
		t.Fatalf("%d machines", len(st.puppets))
	}
	st.packet("198.51.100.8:500", one)
	if len(st.puppets) != 3 {
		t.Error("another address got another's machine")
	}
	st.counted(InitRepeated, 2)
	st.puppets[0].finished = true
	st.step(ForSA{st.puppets[0].c.SPI, ike.Wake{}})
	st.packet("198.51.100.7:500", one)
	if len(st.puppets) != 4 || st.Len() != 3 {
		t.Error("a finished machine is still asked")
	}
}

func TestTrap_7296_3_MajorVersion(t *testing.T) {
	st := newStage(t, Config{})
	b := encode(t, wire.Header{SPIi: 1, SPIr: 2, Exchange: 77, Flags: wire.FlagInitiator, MessageID: 9}, ni(1))
	b[17] = 0x35
	m := answer(t, st.packet("198.51.100.7:500", b))
	notify(t, m, wire.NotifyInvalidMajorVersion)
	if m.MajorVersion != 2 || m.MinorVersion != 0 || !m.Response() || m.Initiator() || m.SPIi != 1 || m.SPIr != 2 || m.MessageID != 9 || m.Exchange != 77 {
		t.Errorf("header %+v", m.Header)
	}
	b[19] |= byte(wire.FlagResponse)
	if acts := st.packet("198.51.100.9:500", b); len(acts) != 0 {
		t.Errorf("a response was answered: %+v", acts)
	}
	b[17] = 0x10
	if acts := st.packet("198.51.100.10:500", b); len(acts) != 0 {
		t.Errorf("IKEv1 was answered: %+v", acts)
	}
	st.counted(OldVersion, 1)
	st.counted(NewVersion, 2)
}

func TestTrap_7296_62_UnknownSPI(t *testing.T) {
	st := newStage(t, Config{})
	h := wire.Header{SPIi: 1, SPIr: 2, Exchange: wire.Informational, MessageID: 3}
	m := answer(t, st.packet("198.51.100.7:500", encode(t, h, sealed())))
	notify(t, m, wire.NotifyInvalidIKESPI)
	if !m.Response() || !m.Initiator() || m.SPIi != 1 || m.SPIr != 2 || m.MessageID != 3 || m.Exchange != wire.Informational {
		t.Errorf("header %+v", m.Header)
	}
	h.Flags = wire.FlagResponse
	if acts := st.packet("198.51.100.8:500", encode(t, h, sealed())); len(acts) != 0 {
		t.Errorf("a response was answered: %+v", acts)
	}
	h.Flags = 0
	if acts := st.packet("198.51.100.9:500", encode(t, h, &wire.SK{})); len(acts) != 0 {
		t.Errorf("the answer to 32 octets is larger: %+v", acts)
	}
	st.counted(Amplification, 1)
}

func TestNotifiesAreFew(t *testing.T) {
	st := newStage(t, Config{})
	b := encode(t, wire.Header{SPIi: 1, SPIr: 2, Exchange: wire.Informational}, sealed())
	sent := 0
	for range 5 {
		sent += len(st.packet("198.51.100.7:500", b))
	}
	if sent != 1 {
		t.Errorf("one source got %d answers in no time", sent)
	}
	st.now = st.now.Add(notifyRate.perSource)
	for i := range 10_000 {
		sent += len(st.packet(fmt.Sprintf("10.0.%d.%d:500", i/250, i%250), b))
		st.now = st.now.Add(time.Millisecond)
	}
	if most := 1 + notifyRate.burst + int(10*time.Second/notifyRate.every); sent > most || sent < most-2 {
		t.Errorf("%d answers in 10 s, want %d", sent, most)
	}
	if len(st.notifies.last) > 4*notifyRate.burst {
		t.Errorf("the table holds %d sources", len(st.notifies.last))
	}
}

func TestBadHeaders(t *testing.T) {
	st := newStage(t, Config{})
	b := initRequest(t, 1, 1)
	for _, bad := range [][]byte{nil, b[:27], b[:len(b)-1], append(slices.Clone(b), 0)} {
		if acts := st.packet("198.51.100.7:500", bad); len(acts) != 0 {
			t.Errorf("%d octets: %+v", len(bad), acts)
		}
	}
	st.counted(BadHeader, 4)
}

func TestDeadlines(t *testing.T) {
	st := newStage(t, Config{})
	for range 5 {
		st.step(Open{Connection: "site-b"})
	}
	at := []ike.Time{50, 20, 40, 20, 0}
	for i, p := range st.puppets {
		p.deadline = at[i]
		st.step(ForSA{p.c.SPI, ike.Lower{}})
		p.events = nil
	}
	if d, ok := st.Deadline(); !ok || d != 20 {
		t.Fatalf("first deadline %v %v", d, ok)
	}
	var order []int
	for i, p := range st.puppets {
		p.onStep = func(p *puppet, _ ike.Event, _ *ike.Actions) {
			order = append(order, i)
			p.deadline = max(p.deadline, 45) // 50 stays
		}
	}
	st.now = 40
	st.step(Wake{})
	if len(order) != 3 || order[2] != 2 || at[order[0]] != 20 || at[order[1]] != 20 {
		t.Errorf("order of turns %v", order)
	}
	if d, _ := st.Deadline(); d != 45 {
		t.Errorf("next deadline %v", d)
	}
	for _, p := range st.puppets {
		p.finished = true
		st.step(ForSA{p.c.SPI, ike.Lower{}})
	}
	if d, ok := st.Deadline(); ok || st.Len() != 0 {
		t.Errorf("deadline %v of %d machines", d, st.Len())
	}
	if st.step(ForSA{st.puppets[0].c.SPI, ike.Wake{}}); len(st.puppets[0].events) > 3 {
		t.Error("a finished machine got an event")
	}
	st.counted(LateEvent, 1)
}

// A machine whose deadline stays in the past gets one turn in a Wake, not all of them.
func TestWakeEnds(t *testing.T) {
	st := newStage(t, Config{})
	st.onStep = func(p *puppet, _ ike.Event, _ *ike.Actions) { p.deadline = 1 }
	st.step(Open{Connection: "site-b"})
	st.now = 100
	st.step(Wake{})
	if n := len(st.puppets[0].events); n != 2 {
		t.Errorf("%d events", n)
	}
}

func TestPanicEndsOneMachine(t *testing.T) {
	st := newStage(t, Config{Recover: true})
	st.step(Open{Connection: "site-b"})
	st.step(Open{Connection: "site-b"})
	bad, good := st.puppets[0], st.puppets[1]
	bad.onStep = func(_ *puppet, _ ike.Event, out *ike.Actions) {
		out.Add(ike.Keepalive{})
		panic("out of range")
	}
	acts := st.step(ForSA{bad.c.SPI, ike.Wake{}})
	if len(acts) != 2 || acts[0].SPI != bad.c.SPI {
		t.Fatalf("actions %+v", acts)
	}
	report, finish := acts[0].Action.(ike.Report), acts[1].Action.(ike.Finish)
	if !strings.Contains(report.Detail, "out of range") || report.Code != ike.CodeInternal {
		t.Errorf("report %+v", report)
	}
	if finish.Code != ike.CodeInternal || finish.Connection != "site-b" || !finish.Retry {
		t.Errorf("finish %+v", finish)
	}
	if st.Len() != 1 {
		t.Error("the machine is still there")
	}
	good.onStep = func(_ *puppet, _ ike.Event, out *ike.Actions) { out.Add(ike.Keepalive{}) }
	if acts = st.step(ForSA{good.c.SPI, ike.Wake{}}); len(acts) != 1 {
		t.Errorf("the other machine's actions: %+v", acts)
	}
}

func TestPanicIsNotHiddenInTests(t *testing.T) {
	st := newStage(t, Config{})
	st.onStep = func(*puppet, ike.Event, *ike.Actions) { panic("seen") }
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	st.step(Open{Connection: "site-b"})
}

func TestStatusInOrder(t *testing.T) {
	st := newStage(t, Config{})
	for i := range 20 {
		st.packet("198.51.100.7:500", initRequest(t, wire.SPI(i+1), 1))
	}
	all := st.Status()
	if len(all) == 0 || !slices.IsSortedFunc(all, func(a, b ike.Status) int { return bytes.Compare(spiOctets(a.SPIr), spiOctets(b.SPIr)) }) {
		t.Error("not in order of SPIs")
	}
}

func spiOctets(s wire.SPI) []byte { return binary.BigEndian.AppendUint64(nil, uint64(s)) }
