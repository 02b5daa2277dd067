package ike

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"runtime"
	"testing"
	"time"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
)

// phases are those of bring, each with two targets.
const phases = 8

// bring brings a pair into one of the phases in which a packet can come; the last bit of phase says to which of the two.
func bring(t testing.TB, phase byte) (*network, *host, *host) {
	n := newPair(t, two(`pfs = "no"`))
	target, other := n.a, n.b
	if phase&1 == 1 {
		target, other = n.b, n.a
	}
	stop := func(typ wire.ExchangeType, response bool) {
		n.hook = func(d datagram) []datagram {
			if h, _ := wire.ParseHeader(d.data); h.Exchange == typ && h.Response() == response {
				return nil
			}
			return []datagram{d}
		}
	}
	switch phase >> 1 % phases {
	case 0: // nothing was answered
		stop(wire.IKESAInit, false)
	case 1:
		stop(wire.IKEAuth, false)
	case 2:
		stop(wire.IKEAuth, true)
	case 4:
		stop(wire.CreateChildSA, true)
	case 5:
		stop(wire.Informational, true)
	}
	n.a.step(Initiate{})
	n.run(600*time.Millisecond, nil)
	var ev Event
	switch phase >> 1 % phases { // what the target waits for
	case 5:
		ev = Lower{Child: "lan"}
	case 6:
		ev = Rekey{Child: "lan"}
	case 7:
		ev = Rekey{IKE: true}
	}
	if ev != nil {
		stop(wire.CreateChildSA, true)
		if phase>>1%phases == 5 {
			stop(wire.Informational, true)
		}
		target.step(ev)
		n.run(100*time.Millisecond, nil)
	}
	if target == n.b && target.sa == nil {
		target.sa = NewResponder(target.config)
	}
	return n, target, other
}

// Bounds of what a packet may cost, whoever sent it.
const (
	packetCPU   = 50 * time.Millisecond                     // of this thread, with the jobs that it caused
	stateBefore = wire.MaxInit + wire.MaxBeforeAuth + 4<<10 // what is not the peer's takes the last part
	stateAfter  = wire.MaxMessage + 16<<10
	waitsMax    = 16
	saidMax     = 64 // messages and lines of the story
	runMax      = 12 // packets of a run
)

// parcel is one packet of a run.
type parcel struct {
	kind     byte // 0: body is a chain of payloads that a peer with keys protects; 1: a genuine message with octets changed; 2: octets
	exchange wire.ExchangeType
	flags    byte // 1: a response; 2: the message ID is one too high
	first    wire.PayloadType
	body     []byte
}

const parcelHead = 6

func (p parcel) append(b []byte) []byte {
	b = append(b, p.kind, byte(p.exchange), p.flags, byte(p.first))
	return append(binary.BigEndian.AppendUint16(b, uint16(len(p.body))), p.body...)
}

// parcels reads a run; what the fuzzer cut off is missing.
func parcels(b []byte) (list []parcel) {
	for len(b) >= parcelHead && len(list) < runMax {
		p := parcel{b[0] % 3, wire.ExchangeType(b[1]), b[2], wire.PayloadType(b[3]), nil}
		n := min(int(binary.BigEndian.Uint16(b[4:])), len(b)-parcelHead)
		p.body, b = b[parcelHead:parcelHead+n], b[parcelHead+n:]
		list = append(list, p)
	}
	return list
}

// hostile is a peer in a run: it has the keys, and nothing else reaches the target.
type hostile struct {
	t       *testing.T
	n       *network
	target  *host
	sa      *SA // the target's machine at the start
	protect *suite.Protector
	sent    []Send // the genuine messages of the peer
	path    Path
}

// seal protects the chain of payloads with the peer's keys.
func (x *hostile) seal(p parcel) []byte {
	id, response := uint32(x.sa.responses.next), p.flags&1 == 1
	if response {
		id = x.sa.requests.header.MessageID
	}
	if p.flags&2 == 2 {
		id++
	}
	h := x.sa.header(p.exchange, response, id)
	h.Flags ^= wire.FlagInitiator
	data, err := x.protect.Seal(h, p.first, p.body, x.target.config.Rand)
	if err != nil {
		x.t.Fatal(err)
	}
	return data
}

// packet is what goes over the wire, and whether the keys were needed to make it.
func (x *hostile) packet(p parcel) (data []byte, authentic bool) {
	switch {
	case p.kind == 0 && x.protect != nil && len(p.body) < wire.MaxMessage-1000:
		return x.seal(p), true
	case p.kind == 1 && len(x.sent) > 0: // positions and values by turns
		data = bytes.Clone(x.sent[int(p.flags)%len(x.sent)].Data)
		for i := 0; i+1 < len(p.body); i += 2 {
			data[(int(p.first)<<8+int(p.body[i]))%len(data)] ^= p.body[i+1]
		}
	default:
		data = bytes.Clone(p.body)
	}
	for _, s := range x.sent {
		authentic = authentic || bytes.Equal(s.Data, data)
	}
	return data, authentic
}

// said counts what the target has sent and reported.
func (x *hostile) said() int { return len(x.target.sends) + len(x.target.reports) }

// deliver gives the target one packet, lets the jobs of it end, and checks what it has cost.
func (x *hostile) deliver(p parcel) {
	data, authentic := x.packet(p)
	before, up := x.sa.Status(), x.sa.Established()
	windows := [2]uint64{x.sa.requests.next, x.sa.responses.next}
	said := x.said()
	begun := threadCPU()
	x.target.turn(x.sa, Packet{x.path, data})
	x.n.run(20*time.Millisecond, nil)
	took := threadCPU() - begun
	if took > packetCPU {
		x.t.Errorf("a packet took %v of CPU, more than %v: %+v", took, packetCPU, p)
	}
	if after := x.sa.Status(); up && !authentic && (!reflect.DeepEqual(before, after) || windows != [2]uint64{x.sa.requests.next, x.sa.responses.next}) {
		x.t.Errorf("an unauthentic packet changed\n%+v\nto\n%+v", before, after)
	}
	list, limit := x.target.machines(), stateBefore
	if x.sa.up != 0 {
		limit = stateAfter
	}
	if n := octets(list); n > limit {
		x.t.Errorf("%d machines keep %d octets, more than %d, after %+v", len(list), n, limit, p)
	}
	if n := waiting(list); n > waitsMax {
		x.t.Errorf("%d answers are waited for, more than %d, after %+v", n, waitsMax, p)
	}
	if n := x.said() - said; n > saidMax {
		x.t.Errorf("%d messages and lines of the story, more than %d, after %+v", n, saidMax, p)
	}
}

// FuzzStep feeds a machine in every phase with a run of packets: from a peer that has the keys, payloads of any kind in any exchange; from others octets, and
// genuine messages with some octets changed. Nothing panics, each packet costs what it may, what is not authentic changes nothing established, and who ends holds
// nothing.
func FuzzStep(f *testing.F) {
	for phase := range byte(2 * phases) {
		for _, run := range seedRuns(f, phase) {
			f.Add(phase, run)
		}
	}
	f.Fuzz(func(t *testing.T, phase byte, run []byte) {
		runtime.LockOSThread() // threadCPU
		defer runtime.UnlockOSThread()
		n, target, other := bring(t, phase)
		target.internal, other.internal = true, true
		x := &hostile{t: t, n: n, target: target, sa: target.sa, sent: other.sends, path: Path{other.sa0().Remote, other.sa0().Local}}
		if other.sa != nil {
			x.protect = other.sa.protect
		}
		n.hook = func(datagram) []datagram { return nil }
		n.queue = nil // what is on its way
		for _, p := range parcels(run) {
			if x.sa.finished || t.Failed() {
				break
			}
			x.deliver(p)
		}
		n.hook = nil
		n.lie()
		n.run(5*time.Minute, nil)
		n.settled()
	})
}

// seedRuns are, for one phase, runs of every exchange: what a peer says there, doubled, out of order, and mere noise.
func seedRuns(f *testing.F, phase byte) (runs [][]byte) {
	single := func(p parcel) { runs = append(runs, p.append(nil)) }
	single(parcel{kind: 2, body: []byte{}})
	single(parcel{kind: 2, body: bytes.Repeat([]byte{0xff}, 60)})
	single(parcel{kind: 1, flags: 0, body: []byte{}})
	single(parcel{kind: 1, flags: 1, body: []byte{18, 34, 20, 0x20}})
	single(parcel{kind: 1, flags: 2, body: []byte{60, 1}})
	for _, response := range []byte{0, 1} {
		for _, p := range []parcel{
			{0, wire.IKEAuth, response, wire.PayloadIDi, []byte{0, 0, 0, 9, 2, 0, 0, 0, 'x'}},
			{0, wire.IKEAuth, response, wire.PayloadNotify, []byte{0, 0, 0, 8, 0, 0, 0, 24}},
			{0, wire.CreateChildSA, response, wire.PayloadNotify, []byte{0, 0, 0, 12, 3, 4, 0x40, 9, 1, 2, 3, 4}},
			{0, wire.CreateChildSA, response, wire.PayloadNotify, []byte{0, 0, 0, 10, 0, 0, 0, 17, 0, 19}},
			{0, wire.Informational, response, wire.PayloadDelete, []byte{0, 0, 0, 8, 1, 0, 0, 0}},
			{0, wire.Informational, response, 0, nil},
			{0, 99, response, 0, nil},
		} {
			single(p)
			runs = append(runs, p.append(p.append(nil)))
		}
	}
	return append(runs, genuineRuns(f, phase)...)
}

// genuineRuns are the messages of a life with every exchange, as a peer with keys would send them: all that one side sends in a row, and each alone.
func genuineRuns(f *testing.F, phase byte) (runs [][]byte) {
	_, _, other := bring(f, phase)
	whole := []byte(nil)
	for _, s := range other.sends {
		m, err := wire.Decode(s.Data)
		if err != nil {
			continue
		}
		p := parcel{kind: 2, body: s.Data}
		if m.Exchange == wire.IKESAInit { // as large as it can be
			m.Payloads = append(m.Payloads, &wire.VendorID{Data: make([]byte, 60000)})
			runs = append(runs, parcel{kind: 2, body: encode(f, m)}.append(nil))
		}
		if sk, ok := m.Payloads[len(m.Payloads)-1].(*wire.SK); ok && other.sa.protect != nil {
			filler := binary.BigEndian.AppendUint16([]byte{0, 0}, 60000)
			runs = append(runs, parcel{0, m.Exchange, byte(m.Flags >> 5 & 1), wire.PayloadVendor, append(filler, make([]byte, 60000-4)...)}.append(nil))
			if plain, err := other.net.opposite(other).sa.protect.Open(s.Data, sk); err == nil {
				p = parcel{0, m.Exchange, byte(m.Flags >> 5 & 1), sk.First, bytes.Clone(plain)}
			}
		}
		if len(whole)+len(p.body) < wire.MaxMessage {
			runs, whole = append(runs, p.append(nil)), p.append(whole)
		}
	}
	return append(runs, whole)
}

// opposite is the other host.
func (n *network) opposite(h *host) *host {
	if h == n.a {
		return n.b
	}
	return n.a
}

// sa0 is a path from a host even before its machine exists.
func (h *host) sa0() Path {
	if h.sa != nil && h.sa.path.Remote.IsValid() {
		return h.sa.path
	}
	if h == h.net.a {
		return Path{apA, apB}
	}
	return Path{apB, apA}
}
