package sim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
)

// The adversary sees the wire, may send from any address, and has no key.

// forge sends one forged packet, or a handful.
func (w *world) forge() {
	for range 1 + w.rng.IntN(4) {
		p := w.counterfeit()
		if p == nil {
			continue
		}
		w.saw(p.what)
		w.number++
		p.id = w.number
		w.after(w.between(0, 20*time.Millisecond), func() { w.arrive(p) })
	}
}

const replayed, flooding = "forged: replay", "forged: flood"

// counterfeit makes a forged packet, or nil when there is nothing yet to make it of.
func (w *world) counterfeit() *packet {
	if len(w.recent) == 0 {
		return w.junk()
	}
	real := pick(w, w.recent...)
	src := real.src
	if w.chance(0.3) {
		src = stranger(w)
	}
	p := &packet{src: src, dst: real.dst}
	switch w.rng.IntN(7) {
	case 0:
		return w.junk()
	case 1:
		p.what, p.data = "forged: mutated", w.mutate(real.data)
	case 2:
		if n, _ := w.behind(real.dst); n == nil || !w.watch.taken(n, real.data) { // whoever brings a message for the first time is the network, not a forger
			return nil
		}
		p.what, p.data = replayed, real.data
	case 3:
		p.what, p.data = "forged: error notify", w.errorNotify(real.data)
	case 4:
		p.what, p.data = "forged: Delete in clear", w.clearDelete(real.data)
	case 5:
		p.what, p.data = "forged: protected", w.sealedJunk(real.data)
	case 6:
		p = w.spoofedInit(real, p)
	}
	if p == nil || p.data == nil {
		return nil
	}
	return p
}

func stranger(w *world) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(w.rng.IntN(2)), byte(1 + w.rng.IntN(200))}), pick[uint16](w, ikePort, nattPort, 31337))
}

// junk is random octets, at times behind a header that fits.
func (w *world) junk() *packet {
	n := w.anyNode()
	dst := netip.AddrPortFrom(n.addr, pick[uint16](w, ikePort, nattPort))
	if n.nat != nil {
		dst = n.nat.outward(dst)
	}
	b := make([]byte, w.rng.IntN(300))
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	if len(b) >= wire.HeaderLen && w.chance(0.8) {
		b[17] = 0x20
		b[18] = byte(34 + w.rng.IntN(5))
		b[19] &= 0x28
		binary.BigEndian.PutUint32(b[24:], uint32(len(b)))
	}
	return &packet{src: stranger(w), dst: dst, data: b, what: "forged: junk"}
}

// mutate changes a real packet: single bits, its length, a header field.
func (w *world) mutate(data []byte) []byte {
	b := slices.Clone(data)
	switch w.rng.IntN(6) {
	case 0:
		b = b[:w.rng.IntN(len(b))]
	case 1:
		b = append(b, make([]byte, 1+w.rng.IntN(8))...)
	case 2:
		if len(b) > wire.HeaderLen {
			binary.BigEndian.PutUint32(b[20:], uint32(w.rng.IntN(5)))
		}
	case 3:
		if len(b) > wire.HeaderLen {
			b[19] ^= pick[byte](w, 0x08, 0x20, 0x28)
		}
	default:
		for range 1 + w.rng.IntN(3) {
			b[w.rng.IntN(len(b))] ^= 1 << w.rng.IntN(8)
		}
	}
	if len(b) >= wire.HeaderLen && w.chance(0.7) {
		binary.BigEndian.PutUint32(b[24:], uint32(len(b)))
	}
	if slices.Equal(b, data) {
		b[len(b)-1] ^= 1
	}
	return b
}

// header of a message that fits the SPIs of a real one, in the direction of the real one.
func (w *world) header(data []byte) (wire.Header, bool) {
	h, err := wire.ParseHeader(data)
	if err != nil || h.SPIr == 0 {
		return h, false
	}
	h.Exchange = pick(w, wire.Informational, wire.Informational, wire.CreateChildSA, wire.IKEAuth)
	h.MessageID = uint32(int(h.MessageID) + w.rng.IntN(4) - 1)
	if w.chance(0.5) {
		h.Flags ^= wire.FlagResponse
	}
	return h, true
}

func (w *world) unprotected(data []byte, ps ...wire.Payload) []byte {
	h, ok := w.header(data)
	if !ok {
		return nil
	}
	b, err := (&wire.Message{Header: h, Payloads: ps}).Encode()
	if err != nil {
		w.fail(Panic, "the adversary cannot encode: %v", err)
	}
	return b
}

func (w *world) errorNotify(data []byte) []byte {
	return w.unprotected(data, wire.NewNotify(pick(w, wire.NotifyInvalidIKESPI, wire.NotifyAuthenticationFailed, wire.NotifyInvalidSyntax,
		wire.NotifyNoProposalChosen, wire.NotifyInvalidMajorVersion, wire.NotifyInitialContact, wire.NotifyUnsupportedCriticalPayload), nil))
}

func (w *world) clearDelete(data []byte) []byte {
	return w.unprotected(data, &wire.Delete{Protocol: wire.ProtoIKE})
}

// sealedJunk has an SK payload of random octets.
func (w *world) sealedJunk(data []byte) []byte {
	body := make([]byte, pick(w, 0, 7, 28, 40, 64, 100))
	for i := range body {
		body[i] = byte(w.rng.Uint32())
	}
	return w.unprotected(data, &wire.SK{First: pick(w, wire.PayloadNotify, wire.PayloadDelete, wire.PayloadSA, 0), Body: body})
}

// spoofedInit answers an IKE_SA_INIT request that it saw: with an error, a COOKIE, or a real answer of another time under another SPI.
func (w *world) spoofedInit(real *packet, p *packet) *packet {
	h, err := wire.ParseHeader(real.data)
	if err != nil || h.Exchange != wire.IKESAInit || h.Response() {
		return nil
	}
	h.Flags = wire.FlagResponse
	p.src, p.dst = real.dst, real.src
	group := binary.BigEndian.AppendUint16(nil, uint16(pick(w, wire.GroupMODP2048, wire.GroupECP256, wire.GroupX25519)))
	n := pick(w, wire.NewNotify(wire.NotifyNoProposalChosen, nil), wire.NewNotify(wire.NotifyCookie, []byte("not the peer's cookie")),
		wire.NewNotify(wire.NotifyInvalidKEPayload, group), wire.NewNotify(wire.NotifyInvalidSyntax, nil))
	m := &wire.Message{Header: h, Payloads: []wire.Payload{n}}
	for _, o := range w.recent {
		oh, err := wire.ParseHeader(o.data)
		if err == nil && oh.Exchange == wire.IKESAInit && oh.Response() && oh.SPIr != 0 && w.chance(0.5) {
			if old, err := wire.Decode(o.data); err == nil {
				h.SPIr = wire.SPI(w.rng.Uint64())
				m = &wire.Message{Header: h, Payloads: old.Payloads}
			}
		}
	}
	b, err := m.Encode()
	if err != nil {
		return nil
	}
	p.data, p.what = b, "forged: IKE_SA_INIT response"
	return p
}

// flood is what came from and went to a source that nobody has.
type flood struct{ in, out int }

func (f *flood) answered(w *world, n int) {
	if f.out += n; f.out > f.in {
		w.fail(Flood, "%d octets went to a forged source from which %d came", f.out, f.in)
	}
}

// flood sends many IKE_SA_INIT requests from sources that nobody has: copies of a real one with other SPIs.
func (w *world) flood() {
	var real *packet
	for _, p := range w.recent {
		if h, err := wire.ParseHeader(p.data); err == nil && h.Exchange == wire.IKESAInit && !h.Response() {
			real = p
		}
	}
	if real == nil {
		return
	}
	w.saw("flood")
	for i := range 3 * cookieThreshold {
		src := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 19, byte(i % 3), byte(i)}), ikePort)
		if w.flooded[src.Addr()] == nil {
			w.flooded[src.Addr()] = &flood{}
		}
		data := slices.Clone(real.data)
		binary.BigEndian.PutUint64(data, w.rng.Uint64()|1)
		for range 1 + w.rng.IntN(2) {
			w.after(w.between(0, 2*time.Second), func() {
				w.flooded[src.Addr()].in += len(data)
				w.arrive(&packet{src: src, dst: real.dst, data: data, what: flooding})
			})
		}
	}
}

// forged delivers something that is not authentic, and compares what is established before and after.
func (w *world) forged(n *node, p *packet, in ike.Packet) {
	if p.what == flooding && w.chance(0.8) { // many of one kind: some are looked at
		w.watch.arrived(n, p.data)
		n.receive(in)
		return
	}
	machines := 0
	for _, l := range n.shards {
		machines += l.shard.Len()
	}
	before, at := n.established()
	if isInit(p.data) { // nothing proves who answered: the machine may believe it and go on to IKE_AUTH
		w.watch.arrived(n, p.data)
	}
	n.receive(in)
	now := 0
	for _, l := range n.shards {
		now += l.shard.Len()
	}
	after, then := n.established()
	if before != after {
		w.fail(Unauthenticated, "%s: %q from %v changed what is established:\nbefore: %s\nafter:  %s", n.name, p.what, p.src, before, after)
	}
	// The answer to a replay that comes from the peer's own address keeps a NAT's mapping alive as any other message.
	known := w.at[p.src.Addr()] != nil || w.natAt[p.src.Addr()] != nil
	// An unproved INVALID_IKE_SPI may make a machine ask its peer sooner (RFC 7296 section 2.4), never later.
	later := at != 0 && (then == 0 || at.Before(then))
	if machines == now && !isInit(p.data) && later && !(known && p.what == replayed) {
		w.fail(Unauthenticated, "%s: %q from %v changed a deadline from %v to %v", n.name, p.what, p.src, at.Sub(epoch), then.Sub(epoch))
	}
}

func isInit(data []byte) bool {
	h, err := wire.ParseHeader(data)
	return err == nil && h.Exchange == wire.IKESAInit
}

// established describes all that has proved its peer, with its children, and the nearest deadline.
func (n *node) established() (text string, at ike.Time) {
	var b strings.Builder
	for _, m := range n.machines() {
		// One that is closing and has nothing ends by a hint that nobody has proved: the peer may not know it.
		if m.Phase == "established" || m.Phase == "closing" && len(m.Children) > 0 {
			fmt.Fprintf(&b, "%+v\n", m)
		}
	}
	for _, l := range n.shards {
		if t, ok := l.shard.Deadline(); ok && (at == 0 || t < at) {
			at = t
		}
	}
	claims, sas := n.plane.ledger.Size()
	fmt.Fprintf(&b, "%d claims, %d SAs\n", claims, sas)
	return b.String(), at
}
