package ike

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// stage brings a pair into one of the phases in which a packet can come.
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
	switch phase >> 1 % 6 {
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
	if phase>>1%6 == 5 {
		target.step(Lower{Child: "lan"})
		n.run(100*time.Millisecond, nil)
	}
	if target == n.b && target.sa == nil {
		target.sa = NewResponder(target.config)
	}
	return n, target, other
}

// FuzzStep feeds a machine in every phase with octets from the network: raw ones, and genuine messages with some octets changed. Nothing panics; what
// is not authentic changes nothing established.
func FuzzStep(f *testing.F) {
	for phase := range byte(12) {
		f.Add(phase, byte(0), []byte{})
		f.Add(phase, byte(1), []byte{18, 34, 20, 0x20})
		f.Add(phase, byte(2), []byte{60, 1})
		f.Add(phase, byte(200), bytes.Repeat([]byte{0xff}, 60))
	}
	f.Fuzz(func(t *testing.T, phase, which byte, data []byte) {
		n, target, other := bring(t, phase)
		target.internal = true
		packet := data
		if which < 128 && len(other.sends) > 0 { // positions and values by turns
			packet = bytes.Clone(other.sends[int(which)%len(other.sends)].Data)
			for i := 0; i+1 < len(data); i += 2 {
				packet[int(data[i])%len(packet)] ^= data[i+1]
			}
		}
		before := target.sa.Status()
		up := target.sa.Established()
		target.step(Packet{Path{other.sa0().Remote, other.sa0().Local}, packet})
		genuine := false
		for _, s := range other.sends {
			genuine = genuine || bytes.Equal(s.Data, packet)
		}
		if up && !genuine && (target.finish != nil || !reflect.DeepEqual(before, target.sa.Status())) {
			t.Errorf("an unauthentic packet changed\n%+v\nto\n%+v", before, target.sa.Status())
		}
		n.hook = nil
		n.run(2*time.Minute, nil)
		n.settled()
	})
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

// FuzzPeer feeds a machine with payloads of any kind under good checksums: what a peer with keys can do.
func FuzzPeer(f *testing.F) {
	for phase := range byte(12) {
		f.Add(phase, byte(wire.Informational), byte(0), byte(wire.PayloadDelete), []byte{0, 0, 0, 8, 1, 0, 0, 0})
		f.Add(phase, byte(wire.Informational), byte(1), byte(0), []byte{})
		f.Add(phase, byte(wire.IKEAuth), byte(0), byte(wire.PayloadIDi), []byte{0, 0, 0, 9, 2, 0, 0, 0, 'x'})
		f.Add(phase, byte(wire.IKEAuth), byte(1), byte(wire.PayloadNotify), []byte{0, 0, 0, 8, 0, 0, 0, 24})
		f.Add(phase, byte(wire.CreateChildSA), byte(0), byte(wire.PayloadNotify), []byte{0, 0, 0, 12, 3, 4, 0x40, 9, 1, 2, 3, 4})
		f.Add(phase, byte(wire.CreateChildSA), byte(1), byte(wire.PayloadNotify), []byte{0, 0, 0, 10, 0, 0, 0, 17, 0, 19})
	}
	for _, phase := range []byte{2, 3, 6, 7} { // genuine plaintexts to mutate
		_, target, other := bring(f, phase)
		for _, s := range other.sends {
			m, err := wire.Decode(s.Data)
			if err != nil || target.sa.protect == nil {
				continue
			}
			sk, ok := m.Payloads[len(m.Payloads)-1].(*wire.SK)
			if !ok {
				continue
			}
			if plain, err := target.sa.protect.Open(s.Data, sk); err == nil {
				f.Add(phase, byte(m.Exchange), byte(m.Flags>>5&1), byte(sk.First), bytes.Clone(plain))
			}
		}
	}
	f.Fuzz(func(t *testing.T, phase, exchange, response, first byte, plain []byte) {
		n, target, other := bring(t, phase)
		target.internal, other.internal = true, true
		if target.sa == nil || target.sa.protect == nil || other.sa == nil || other.sa.protect == nil || len(plain) > 60000 {
			return
		}
		id := uint32(target.sa.responses.next)
		if response&1 == 1 {
			id = target.sa.requests.header.MessageID
		}
		h := other.sa.header(wire.ExchangeType(exchange), response&1 == 1, id)
		data, err := other.sa.protect.Seal(h, wire.PayloadType(first), plain, other.config.Rand)
		if err != nil {
			t.Fatal(err)
		}
		target.step(Packet{Path{target.sa.path.Local, target.sa.path.Remote}, data})
		n.hook = nil
		n.run(5*time.Minute, nil)
		if target.finish != nil && len(target.plane.sas)+len(target.plane.pols) > 0 {
			t.Error("finished and holds SAs")
		}
	})
}
