package userspace

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// slowSum is RFC 1071 as it is written.
func slowSum(b []byte) uint16 {
	var a uint32
	for k := range b {
		w := uint32(b[k])
		if k%2 == 0 {
			w <<= 8
		}
		a += w
		a = a>>16 + a&0xffff
	}
	return uint16(a)
}

func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 70000)
	for n := range 300 {
		for k := range b[:n] {
			b[k] = byte(r.Uint32())
			if n%3 == 0 {
				b[k] = 0xff // carries everywhere
			}
		}
		initial := sum(r.Uint32())
		want := uint32(slowSum(b[:n])) + uint32(initial)
		if got := initial.add(b[:n]); uint32(got) != want>>16+want&0xffff {
			t.Fatalf("%d octets: %04x, want %04x", n, got, want)
		}
	}
	for k := range b {
		b[k] = 0xff
	}
	for _, n := range []int{65535, 65536, 70000} {
		if got := sum(0).add(b[:n]); uint16(got) != slowSum(b[:n]) {
			t.Errorf("%d octets: %04x", n, got)
		}
	}
}

func TestPseudo(t *testing.T) {
	addresses := []byte{192, 0, 2, 1, 198, 51, 100, 7}
	whole := binary.BigEndian.AppendUint32(append([]byte{}, addresses...), 70000)
	whole = append(whole, 0, 0, 0, 17)
	if got := pseudo(addresses, 17, 70000); uint16(got) != slowSum(whole) {
		t.Errorf("%04x, want %04x", got, slowSum(whole))
	}
}

func TestVnet(t *testing.T) {
	b := [vnetLen]byte{vnetNeedsCsum, gsoTCPv4, 1, 2, 3, 4, 5, 6, 7, 8}
	h := parseVnet(&b)
	e := binary.NativeEndian
	want := vnet{
		flags: vnetNeedsCsum, gsoType: gsoTCPv4,
		hdrLen: e.Uint16([]byte{1, 2}), gsoSize: e.Uint16([]byte{3, 4}), csumStart: e.Uint16([]byte{5, 6}), csumOffset: e.Uint16([]byte{7, 8}),
	}
	var back [vnetLen]byte
	if h.put(&back); h != want || back != b {
		t.Errorf("%+v, written %x", h, back)
	}
}

func TestOffloadsInWords(t *testing.T) {
	for o, want := range map[offloads]string{{}: "none", {header: true, tcp4: true, tcp6: true, udp: true}: "checksum TSO4 TSO6 USO"} {
		if got := o.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func BenchmarkSum(b *testing.B) {
	p := make([]byte, 1400)
	b.SetBytes(int64(len(p)))
	var s sum
	for b.Loop() {
		s = s.add(p)
	}
}
