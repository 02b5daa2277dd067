package suite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// counting is a random source that tests can foresee.
type counting struct{ n byte }

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = c.n
		c.n++
	}
	return len(b), nil
}

// suites is every combination of cipher, key length and integrity algorithm.
func suites() []IKE {
	var all []IKE
	for _, c := range alg.Ciphers() {
		for _, bits := range c.KeyBits {
			s := IKE{Encr: c.ID, KeyBits: bits, PRF: wire.PRFHMACSHA256, Group: wire.GroupX25519}
			if c.AEAD() {
				all = append(all, s)
				continue
			}
			for _, m := range alg.MACs() {
				s.Integ = m.ID
				all = append(all, s)
			}
		}
	}
	return all
}

// pair gives both ends of an IKE SA with keys of their own.
func pair(t testing.TB, s IKE) (i, r *Protector) {
	t.Helper()
	k, err := Derive(s, secret([]byte("shared")), []byte("0123456789abcdef"), []byte("fedcba9876543210"), 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if i, err = NewProtector(k, true); err != nil {
		t.Fatal(err)
	}
	if r, err = NewProtector(k, false); err != nil {
		t.Fatal(err)
	}
	return i, r
}

var testHeader = wire.Header{SPIi: 1, SPIr: 2, MajorVersion: 2, Exchange: wire.Informational, Flags: wire.FlagInitiator, MessageID: 7}

// skOf and skfOf are the payload of a message that has no other.
func skOf(msg []byte) *wire.SK   { return &wire.SK{Body: msg[wire.HeaderLen+4:]} }
func skfOf(msg []byte) *wire.SKF { return &wire.SKF{Body: msg[wire.HeaderLen+8:]} }

func TestSealOpen(t *testing.T) {
	for _, s := range suites() {
		i, r := pair(t, s)
		rand := new(counting)
		for _, n := range []int{0, 1, 14, 15, 16, 17, 31, 32, 33, 1000, 65000} {
			plaintext := bytes.Repeat([]byte{0xa5}, n)
			for from, to := range map[*Protector]*Protector{i: r, r: i} {
				msg, err := from.Seal(testHeader, wire.PayloadDelete, plaintext, rand)
				if err != nil {
					t.Fatalf("%s: %v", s, err)
				}
				h, err := wire.ParseHeader(msg)
				if err != nil || h.NextPayload != wire.PayloadSK || h.MessageID != 7 || h.SPIi != 1 {
					t.Errorf("%s: header %+v, %v", s, h, err)
				}
				if first, length := msg[28], binary.BigEndian.Uint16(msg[30:]); wire.PayloadType(first) != wire.PayloadDelete || msg[29] != 0 || int(length) != len(msg)-28 {
					t.Errorf("%s: payload header %x in a message of %d", s, msg[28:32], len(msg))
				}
				before := bytes.Clone(msg)
				got, err := to.Open(msg, skOf(msg))
				if err != nil || !bytes.Equal(got, plaintext) {
					t.Errorf("%s: %d octets: opened %d, %v", s, n, len(got), err)
				}
				if !bytes.Equal(msg, before) {
					t.Errorf("%s: Open changed the message", s)
				}
				if _, err := from.Open(msg, skOf(msg)); !errors.Is(err, ErrIntegrity) {
					t.Errorf("%s: the sender opens its own message: %v", s, err)
				}
			}
		}
	}
}

// One octet wrong, anywhere, or one missing: one and the same error.
func TestOpenRefuses(t *testing.T) {
	for _, s := range suites() {
		i, r := pair(t, s)
		msg, err := i.Seal(testHeader, wire.PayloadNotify, []byte("some payloads"), new(counting))
		if err != nil {
			t.Fatal(err)
		}
		for at := range msg {
			bad := bytes.Clone(msg)
			bad[at] ^= 0x40
			if got, err := r.Open(bad, skOf(bad)); err != ErrIntegrity || got != nil {
				t.Errorf("%s: octet %d changed: %x, %v", s, at, got, err)
			}
		}
		for n := wire.HeaderLen + 4; n < len(msg); n++ {
			bad := bytes.Clone(msg[:n])
			if got, err := r.Open(bad, skOf(bad)); err != ErrIntegrity || got != nil {
				t.Errorf("%s: first %d octets: %x, %v", s, n, got, err)
			}
		}
		// A body that is not the end of the message is no way past the checks.
		for _, n := range []int{0, 1, len(msg) - 32 - 1, len(msg) - 32 + 1, len(msg), len(msg) + 1} {
			if got, err := r.Open(msg, &wire.SK{Body: make([]byte, n)}); err != ErrIntegrity || got != nil {
				t.Errorf("%s: body of %d octets: %x, %v", s, n, got, err)
			}
		}
		if _, err := r.Open(nil, &wire.SK{}); err != ErrIntegrity {
			t.Error(err)
		}
	}
}

// An authenticated peer whose body is too short or no whole number of blocks is refused like everybody.
func TestOpenAuthenticatedButShort(t *testing.T) {
	for _, s := range suites() {
		i, r := pair(t, s)
		c, ok := i.out.(*cbcTransform)
		if !ok { // TestTrap_7296_72_AnyPadding has the AEADs
			continue
		}
		for n := range 4 * cbcBlock {
			msg := append(make([]byte, wire.HeaderLen+4+n), c.tag(make([]byte, wire.HeaderLen+4+n))...)
			_, err := r.Open(msg, skOf(msg))
			if n < 2*cbcBlock || n%cbcBlock != 0 {
				if err != ErrIntegrity {
					t.Errorf("%s: %d octets of IV and ciphertext: %v", s, n, err)
				}
			}
		}
	}
}

// RFC 7296 section 2.14: the original initiator's messages are under SK_ei and SK_ai, also its answers in exchanges that the other side started.
func TestTrap_7296_101_OriginalInitiatorKeys(t *testing.T) {
	for _, s := range suites() {
		i, r := pair(t, s)
		request, err := r.Seal(wire.Header{MajorVersion: 2, Exchange: wire.CreateChildSA}, 0, nil, new(counting))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := i.Seal(wire.Header{MajorVersion: 2, Exchange: wire.CreateChildSA, Flags: wire.FlagInitiator | wire.FlagResponse}, 0, nil, new(counting))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Open(request, skOf(request)); err != nil {
			t.Errorf("%s: request of the original responder: %v", s, err)
		}
		if _, err := r.Open(answer, skOf(answer)); err != nil {
			t.Errorf("%s: answer of the original initiator: %v", s, err)
		}
	}
}

// sealWith makes a message whose decrypted content is content, Pad Length included.
func sealWith(t *testing.T, p *Protector, content []byte) []byte {
	t.Helper()
	n := p.out.bodyLen(0) + len(content)
	if c, ok := p.out.(*cbcTransform); ok {
		n = cbcBlock + len(content) + c.icv
	} else {
		n--
	}
	h := testHeader
	h.NextPayload, h.Length = wire.PayloadSK, uint32(wire.HeaderLen+4+n)
	head := h.AppendHeader(nil)
	head = append(head, 0, 0, byte((n+4)>>8), byte(n+4))
	switch o := p.out.(type) {
	case *cbcTransform:
		msg := append(head, make([]byte, cbcBlock)...)
		o.encrypt.SetIV(make([]byte, cbcBlock))
		sealed := make([]byte, len(content))
		o.encrypt.CryptBlocks(sealed, content)
		msg = append(msg, sealed...)
		return append(msg, o.tag(msg)...)
	case *aeadTransform:
		iv := make([]byte, 8)
		return append(head, append(iv, o.aead.Seal(nil, iv, content, head)...)...)
	}
	panic("no such transform")
}

// RFC 7296 section 3.14 and RFC 5282 section 3: any padding with any Pad Length is accepted, a Pad Length beyond the content is not.
func TestTrap_7296_72_AnyPadding(t *testing.T) {
	for _, s := range suites() {
		i, r := pair(t, s)
		for _, size := range []int{1, 2, 16, 17, 32, 256, 272} {
			if s.Integ != alg.IntegNone && size%cbcBlock != 0 {
				continue
			}
			for pad := range 256 {
				content := bytes.Repeat([]byte{0xee}, size)
				content[size-1] = byte(pad)
				msg := sealWith(t, i, content)
				got, err := r.Open(msg, skOf(msg))
				switch {
				case pad < size && (err != nil || !bytes.Equal(got, content[:size-1-pad])):
					t.Errorf("%s: Pad Length %d in %d octets: %x, %v", s, pad, size, got, err)
				case pad >= size && (err != ErrIntegrity || got != nil):
					t.Errorf("%s: Pad Length %d in %d octets is accepted: %x, %v", s, pad, size, got, err)
				}
			}
		}
		if s.Integ == alg.IntegNone { // not even a Pad Length
			msg := sealWith(t, i, nil)
			if got, err := r.Open(msg, skOf(msg)); err != ErrIntegrity || got != nil {
				t.Errorf("%s: no content at all: %x, %v", s, got, err)
			}
		}
	}
}

// RFC 7296 section 3.14: the ICV covers the message from the IKE header with its final lengths, in encrypted form. RFC 5282 section 5.1: the
// associated data ends with the generic header of the SK payload, and payloads between belong to it.
func TestTrap_7296_73_CoveredOctets(t *testing.T) {
	for _, s := range suites() {
		i, r := pair(t, s)
		between := []byte{byte(wire.PayloadSK), 0, 0, 10, 0, 0, 0x40, 0x0f, 'h', 'i'} // an unprotected notify
		plaintext := []byte("inner payloads")
		n := i.out.bodyLen(len(plaintext))
		h := testHeader
		h.NextPayload, h.Length = wire.PayloadNotify, uint32(wire.HeaderLen+len(between)+4+n)
		head := append(h.AppendHeader(make([]byte, 0, h.Length)), between...)
		head = append(head, byte(wire.PayloadDelete), 0, byte((n+4)>>8), byte(n+4))
		msg, err := i.out.seal(head, plaintext, new(counting))
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.Decode(msg)
		if err != nil {
			t.Fatal(err)
		}
		sk := m.Payloads[len(m.Payloads)-1].(*wire.SK)
		if got, err := r.Open(msg, sk); err != nil || !bytes.Equal(got, plaintext) {
			t.Errorf("%s: %q, %v", s, got, err)
		}
		for at := wire.HeaderLen; at < wire.HeaderLen+len(between)+4; at++ {
			bad := bytes.Clone(msg)
			bad[at] ^= 1
			if _, err := r.Open(bad, &wire.SK{Body: bad[len(bad)-n:]}); err != ErrIntegrity {
				t.Errorf("%s: octet %d changed: %v", s, at, err)
			}
		}
	}
}

// RFC 5282 section 3.1: an IV of 8 octets, once for a key, its own for each fragment. RFC 7296 section 3.14: a new unpredictable one with CBC.
func TestTrap_7296_74_IVs(t *testing.T) {
	for _, s := range suites() {
		i, _ := pair(t, s)
		seen := make(map[string]bool)
		rand := new(counting)
		for n := uint16(1); n <= 8; n++ {
			whole, err1 := i.Seal(testHeader, wire.PayloadDelete, []byte("x"), rand)
			part, err2 := i.SealFragment(testHeader, wire.PayloadDelete, n, 8, []byte("x"), rand)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			ivLen := 8
			if s.Integ != alg.IntegNone {
				ivLen = 16
			}
			for _, iv := range [][]byte{whole[32:][:ivLen], part[36:][:ivLen]} {
				if seen[string(iv)] {
					t.Errorf("%s: IV %x comes twice", s, iv)
				}
				seen[string(iv)] = true
			}
		}
		if s.Integ != alg.IntegNone {
			if rand.n != 0 { // 16 messages of 16 octets come round to 0
				t.Errorf("%s: not each IV was drawn from the random source", s)
			}
			if _, err := i.Seal(testHeader, 0, nil, bytes.NewReader(make([]byte, 15))); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: a random source that ends is accepted: %v", s, err)
			}
		}
	}
}

func TestAEADCounterEnds(t *testing.T) {
	for _, s := range suites() {
		i, _ := pair(t, s)
		a, ok := i.out.(*aeadTransform)
		if !ok {
			continue
		}
		a.next = math.MaxUint64 - 1
		if _, err := i.Seal(testHeader, 0, nil, nil); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		for range 3 {
			if msg, err := i.Seal(testHeader, 0, nil, nil); err != ErrExhausted || msg != nil {
				t.Errorf("%s: after the last IV: %v", s, err)
			}
		}
	}
}

// RFC 7383 section 2.5.
func TestFragments(t *testing.T) {
	for _, s := range suites() {
		i, r := pair(t, s)
		for n := uint16(1); n <= 3; n++ {
			msg, err := i.SealFragment(testHeader, wire.PayloadCert, n, 3, []byte("stretch"), new(counting))
			if err != nil {
				t.Fatal(err)
			}
			m, err := wire.Decode(msg)
			if err != nil {
				t.Fatal(err)
			}
			skf := m.Payloads[0].(*wire.SKF)
			first := wire.PayloadType(0)
			if n == 1 {
				first = wire.PayloadCert
			}
			if skf.Number != n || skf.Total != 3 || wire.PayloadType(msg[28]) != first || m.NextPayload != wire.PayloadSKF {
				t.Errorf("%s: fragment %d of %d, first payload %d", s, skf.Number, skf.Total, msg[28])
			}
			if got, err := r.OpenFragment(msg, skf); err != nil || string(got) != "stretch" {
				t.Errorf("%s: %q, %v", s, got, err)
			}
			for at := range msg {
				bad := bytes.Clone(msg)
				bad[at] ^= 1
				if got, err := r.OpenFragment(bad, skfOf(bad)); err != ErrIntegrity || got != nil {
					t.Errorf("%s: octet %d changed: %x, %v", s, at, got, err)
				}
			}
			if _, err := r.Open(msg, skOf(msg)); err == nil {
				t.Errorf("%s: a fragment opens as a whole message", s)
			}
		}
		for _, n := range [][2]uint16{{0, 0}, {0, 1}, {2, 1}} {
			if _, err := i.SealFragment(testHeader, 0, n[0], n[1], nil, new(counting)); err == nil {
				t.Errorf("fragment %d of %d is sealed", n[0], n[1])
			}
		}
	}
}

func TestRoom(t *testing.T) {
	for _, s := range suites() {
		i, _ := pair(t, s)
		for size := 0; size < 1400; size++ {
			n := i.Room(size)
			if n < 0 {
				if msg, err := i.SealFragment(testHeader, 0, 1, 1, nil, new(counting)); err != nil || len(msg) <= size {
					t.Fatalf("%s: no room in %d octets, but %d suffice", s, size, len(msg))
				}
				continue
			}
			for _, m := range []int{n, n + 1} {
				msg, err := i.SealFragment(testHeader, 0, 1, 1, make([]byte, m), new(counting))
				if err != nil {
					t.Fatal(err)
				}
				if fits := len(msg) <= size; fits != (m == n) {
					t.Fatalf("%s: room for %d octets in %d, but %d octets make %d", s, n, size, m, len(msg))
				}
			}
		}
	}
}

func TestSealRefusesTooLong(t *testing.T) {
	for _, s := range suites() {
		i, _ := pair(t, s)
		if msg, err := i.Seal(testHeader, 0, make([]byte, 65535), new(counting)); err == nil {
			t.Errorf("%s: a message of %d octets", s, len(msg))
		}
	}
}

func TestNewProtectorRefusesKeys(t *testing.T) {
	for _, s := range suites() {
		k, err := Derive(s, secret([]byte("shared")), make([]byte, 16), make([]byte, 16), 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, spoil := range []func(*Keys){
			func(k *Keys) { k.Ei = alg.NewSecret(k.Ei.Bytes()[1:]) },
			func(k *Keys) { k.Er = alg.Secret{} },
			func(k *Keys) { k.Er = alg.NewSecret(make([]byte, k.Ei.Len()^8)) }, // right for another key length of the cipher
			func(k *Keys) { k.Ai = alg.NewSecret(append(k.Ai.Bytes(), 0)) },
			func(k *Keys) { k.Ar = alg.NewSecret(make([]byte, 11)) },
			func(k *Keys) { k.Suite.Encr = 3 },
		} {
			bad := *k
			spoil(&bad)
			if _, err := NewProtector(&bad, true); err == nil {
				t.Errorf("%s: wrong keys are accepted", s)
			}
		}
	}
}

// Nothing is allocated but the message and the plaintext.
func TestProtectorAllocations(t *testing.T) {
	for _, s := range suites() {
		i, r := pair(t, s)
		plaintext, rand := make([]byte, 300), new(counting)
		msg, err := i.Seal(testHeader, 0, plaintext, rand)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(50, func() { i.Seal(testHeader, 0, plaintext, rand) }); n > 1 {
			t.Errorf("%s: Seal makes %v allocations", s, n)
		}
		sk := skOf(msg)
		if n := testing.AllocsPerRun(50, func() { r.Open(msg, sk) }); n > 1 {
			t.Errorf("%s: Open makes %v allocations", s, n)
		}
	}
}
