package suite

import (
	"bytes"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"

	"cygnet/ike/wire"
)

// fixed makes a key exchange of the private value in a vector.
func fixed(t *testing.T, g wire.GroupID, private []byte) *KeyExchange {
	t.Helper()
	k, err := NewKeyExchange(g, bytes.NewReader(private))
	if err != nil {
		t.Fatalf("%s: %v", DHName(g), err)
	}
	return k
}

func TestKeyExchange(t *testing.T) {
	names := []string{"X25519", "ECP-256", "ECP-384", "ECP-521", "MODP-2048", "MODP-3072", "MODP-4096"}
	for n, g := range Groups() {
		if DHName(g) != names[n] || !Supported(g) {
			t.Errorf("group %d is %s, supported %v", g, DHName(g), Supported(g))
		}
		rand := &counting{n: 1}
		a, err1 := NewKeyExchange(g, rand)
		b, err2 := NewKeyExchange(g, rand)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		s1, err1 := a.Shared(b.Public())
		s2, err2 := b.Shared(a.Public())
		if err1 != nil || err2 != nil || !s1.Equal(s2) || bytes.Equal(a.Public(), b.Public()) {
			t.Errorf("%s: %v, %v, equal %v", DHName(g), err1, err2, s1.Equal(s2))
		}
		if len(a.Public()) != PublicLen(g) || a.Group() != g {
			t.Errorf("%s: public value of %d octets", DHName(g), len(a.Public()))
		}
		a.Wipe()
		a.Wipe()
		if _, err := a.Shared(b.Public()); err == nil || errors.Is(err, ErrPublicValue) {
			t.Errorf("%s: after Wipe: %v", DHName(g), err)
		}
	}
}

// RFC 8247 section 2.4: groups 1 and 22 MUST NOT be there; 2, 5, 23 and 24 SHOULD NOT.
func TestTrap_8247_3_WeakGroupsAreAbsent(t *testing.T) {
	for g := range wire.GroupID(100) {
		switch g {
		case 14, 15, 16, 19, 20, 21, 31:
			continue
		}
		if _, err := NewKeyExchange(g, new(counting)); err == nil || Supported(g) || PublicLen(g) != 0 {
			t.Errorf("%s (%d) is there", DHName(g), g)
		}
	}
}

// RFC 7296 section 3.4, RFC 5903 section 7, RFC 8031 section 2; CVE-2023-41913.
func TestTrap_7296_33_KELength(t *testing.T) {
	want := map[wire.GroupID]int{14: 256, 15: 384, 16: 512, 19: 64, 20: 96, 21: 132, 31: 32}
	for _, g := range Groups() {
		k, err := NewKeyExchange(g, &counting{n: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(k.Public()) != want[g] {
			t.Errorf("%s: public value of %d octets", DHName(g), len(k.Public()))
		}
		good := k.Public()
		for _, bad := range [][]byte{nil, good[1:], good[:len(good)-1], append([]byte{0}, good...), append([]byte{4}, good...), append(bytes.Clone(good), 0), bytes.Repeat(good, 2)} {
			if _, err := k.Shared(bad); !errors.Is(err, ErrPublicValue) {
				t.Errorf("%s: %d octets: %v", DHName(g), len(bad), err)
			}
		}
		if s, err := k.Shared(good); err != nil || s.Len() == 0 {
			t.Errorf("%s: unusable after bad values: %v", DHName(g), err)
		}
	}
}

// RFC 7296 sections 2.14 and 3.4: public value and shared secret are padded on the left to the prime's length.
func TestTrap_7296_33_MODPPadding(t *testing.T) {
	p, _ := new(big.Int).SetString(modp2048, 16)
	x := bytes.Repeat([]byte{0x5a}, 32)
	k := fixed(t, wire.GroupMODP2048, x)
	x[0] |= 0x80
	e := new(big.Int).SetBytes(x)
	if want := new(big.Int).Exp(big.NewInt(2), e, p).FillBytes(make([]byte, 256)); !bytes.Equal(k.Public(), want) {
		t.Errorf("public value %x, want %x", k.Public(), want)
	}
	// A peer's value whose secret begins with zero octets: its e-th power is small. Take the e-th root of a small number, e inverted modulo the
	// order q of the subgroup. 4 is a square, hence in the subgroup.
	q := new(big.Int).Rsh(p, 1)
	root := new(big.Int).Exp(big.NewInt(4), new(big.Int).ModInverse(e, q), p)
	s, err := k.Shared(root.FillBytes(make([]byte, 256)))
	if want := append(make([]byte, 255), 4); err != nil || !bytes.Equal(s.Bytes(), want) {
		t.Errorf("shared secret %x, %v", s.Bytes(), err)
	}
	// And a public value that is itself short.
	s, err = k.Shared(append(make([]byte, 255), 3))
	if want := new(big.Int).Exp(big.NewInt(3), e, p).FillBytes(make([]byte, 256)); err != nil || !bytes.Equal(s.Bytes(), want) {
		t.Errorf("shared secret %x, %v, want %x", s.Bytes(), err, want)
	}
}

// RFC 6989 section 2.1: 1 < r < p-1.
func TestTrap_6989_1_MODPValues(t *testing.T) {
	for g, prime := range map[wire.GroupID]string{wire.GroupMODP2048: modp2048, wire.GroupMODP3072: modp3072, wire.GroupMODP4096: modp4096} {
		p, _ := new(big.Int).SetString(prime, 16)
		k := fixed(t, g, bytes.Repeat([]byte{1}, 64))
		at := func(n int64) []byte { // p + n
			return new(big.Int).Add(p, big.NewInt(n)).FillBytes(make([]byte, PublicLen(g)))
		}
		small := func(n byte) []byte { return append(make([]byte, PublicLen(g)-1), n) }
		for what, r := range map[string][]byte{
			"0": small(0), "1": small(1), "p-1": at(-1), "p": at(0), "p+1": at(1), "p+2": at(2), "2^n-1": bytes.Repeat([]byte{0xff}, PublicLen(g)),
		} {
			if s, err := k.Shared(r); !errors.Is(err, ErrPublicValue) || s.Len() != 0 {
				t.Errorf("%s: %s is accepted: %v", DHName(g), what, err)
			}
		}
		for what, r := range map[string][]byte{"2": small(2), "p-2": at(-2)} {
			if _, err := k.Shared(r); err != nil {
				t.Errorf("%s: %s is refused: %v", DHName(g), what, err)
			}
		}
	}
}

func TestVectorsMODPPrimes(t *testing.T) {
	ours := map[wire.GroupID]string{wire.GroupMODP2048: modp2048, wire.GroupMODP3072: modp3072, wire.GroupMODP4096: modp4096}
	n := 0
	for _, c := range cases[struct {
		Group     wire.GroupID
		Bits      int
		Generator int
		Prime     string
		Len       int `json:"ke_data_len"`
	}](t, "modp_primes.json") {
		prime, ok := ours[c.Group]
		if ok != Supported(c.Group) {
			t.Errorf("%s is supported: %v", DHName(c.Group), !ok)
		}
		if !ok {
			continue
		}
		n++
		if prime != c.Prime || c.Generator != 2 || PublicLen(c.Group) != c.Len {
			t.Errorf("%s: another prime, generator or length", DHName(c.Group))
		}
		// What modp.go says of them: safe primes, and 2 generates the subgroup of order q.
		p, _ := new(big.Int).SetString(prime, 16)
		q := new(big.Int).Rsh(p, 1)
		if new(big.Int).Exp(big.NewInt(2), q, p).Cmp(big.NewInt(1)) != 0 {
			t.Errorf("%s: 2 does not generate the subgroup of order q", DHName(c.Group))
		}
	}
	if n != 3 {
		t.Errorf("%d primes were compared", n)
	}
}

func TestVectorsECP(t *testing.T) {
	n := 0
	for _, c := range cases[struct {
		ID    string
		Group wire.GroupID
		PrivI octets `json:"priv_i"`
		PrivR octets `json:"priv_r"`
		PubI  octets `json:"pub_i"`
		PubR  octets `json:"pub_r"`
		KEi   octets `json:"ke_payload_i"`
		X     octets `json:"shared_x"`
	}](t, "ecp_groups.json") {
		if !Supported(c.Group) { // Brainpool
			continue
		}
		n++
		i, r := fixed(t, c.Group, c.PrivI), fixed(t, c.Group, c.PrivR)
		if !bytes.Equal(i.Public(), c.PubI) || !bytes.Equal(r.Public(), c.PubR) || !bytes.Equal(i.Public(), c.KEi[8:]) {
			t.Errorf("%s: public values %x, %x", c.ID, i.Public(), r.Public())
		}
		for k, peer := range map[*KeyExchange][]byte{i: c.PubR, r: c.PubI} {
			if s, err := k.Shared(peer); err != nil || !bytes.Equal(s.Bytes(), c.X) {
				t.Errorf("%s: shared secret %x, %v, want %x", c.ID, s.Bytes(), err, c.X)
			}
		}
	}
	if n != 3 {
		t.Errorf("%d groups were used", n)
	}
}

// RFC 6989 section 2.3: a point off the curve, or with coordinates beyond the field, is refused.
func TestVectorsECPPublicValues(t *testing.T) {
	refused := 0
	for _, c := range cases[struct {
		ID, Comment string
		Group       wire.GroupID
		Priv        octets
		Peer        octets `json:"peer_ke_data"`
		Shared      octets
		Reject      bool `json:"must_be_rejected"`
	}](t, "ecdh_peer_public_checks.json") {
		private := new(big.Int).SetBytes(c.Priv).FillBytes(make([]byte, PublicLen(c.Group)/2)) // some have a zero octet too many
		s, err := fixed(t, c.Group, private).Shared(c.Peer)
		switch {
		case c.Reject && (!errors.Is(err, ErrPublicValue) || s.Len() != 0):
			t.Errorf("%s (%s) is accepted: %v", c.ID, c.Comment, err)
		case !c.Reject && (err != nil || !bytes.Equal(s.Bytes(), c.Shared)):
			t.Errorf("%s (%s): %x, %v, want %x", c.ID, c.Comment, s.Bytes(), err, c.Shared)
		}
		if c.Reject {
			refused++
		}
	}
	if refused < 40 {
		t.Errorf("only %d values had to be refused", refused)
	}
}

// RFC 8031 section 3.2: the top bit is masked and values beyond the field are accepted; a result of all zeros is not.
func TestTrap_6989_3_X25519(t *testing.T) {
	refused, used := 0, 0
	for _, c := range cases[struct {
		ID, Comment string
		Group       wire.GroupID
		PrivI       octets `json:"priv_i"`
		PrivR       octets `json:"priv_r"`
		PubI        octets `json:"pub_i"`
		PubR        octets `json:"pub_r"`
		Priv        octets
		Peer        octets `json:"peer_pub"`
		Shared      octets
		Reject      bool `json:"must_be_rejected_for_ike"`
	}](t, "x25519_x448.json") {
		if c.Group != wire.GroupX25519 {
			continue
		}
		used++
		if c.PrivI != nil {
			i, r := fixed(t, c.Group, c.PrivI), fixed(t, c.Group, c.PrivR)
			if !bytes.Equal(i.Public(), c.PubI) || !bytes.Equal(r.Public(), c.PubR) {
				t.Errorf("%s: public values %x, %x", c.ID, i.Public(), r.Public())
			}
			c.Priv, c.Peer = c.PrivI, c.PubR
		}
		s, err := fixed(t, c.Group, c.Priv).Shared(c.Peer)
		switch {
		case c.Reject && (!errors.Is(err, ErrPublicValue) || s.Len() != 0):
			t.Errorf("%s (%s) is accepted: %v", c.ID, c.Comment, err)
		case !c.Reject && (err != nil || !bytes.Equal(s.Bytes(), c.Shared)):
			t.Errorf("%s (%s): %x, %v, want %x", c.ID, c.Comment, s.Bytes(), err, c.Shared)
		}
		if c.Reject {
			refused++
		}
	}
	if used < 30 || refused < 10 {
		t.Errorf("%d vectors were used, %d had to be refused", used, refused)
	}
}

// A scalar outside [1, n-1] is drawn again, and a source that gives nothing else ends in an error and not in a loop.
func TestECPDraws(t *testing.T) {
	for _, g := range []wire.GroupID{wire.GroupECP256, wire.GroupECP384, wire.GroupECP521} {
		n := PublicLen(g) / 2
		good := append(make([]byte, n-1), 5)
		want := fixed(t, g, good).Public()
		for _, bad := range []byte{0, 0xff} {
			got, err := NewKeyExchange(g, io.MultiReader(bytes.NewReader(bytes.Repeat([]byte{bad}, 3*n)), bytes.NewReader(good)))
			if err != nil || !bytes.Equal(got.Public(), want) {
				t.Errorf("%s: after draws of %x: %v", DHName(g), bad, err)
			}
			if _, err := NewKeyExchange(g, repeat(bad)); err == nil || !strings.Contains(err.Error(), "random source") {
				t.Errorf("%s: from a source of %x: %v", DHName(g), bad, err)
			}
		}
	}
}

// repeat is a random source that is broken.
type repeat byte

func (r repeat) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r)
	}
	return len(b), nil
}

func TestDrawFails(t *testing.T) {
	for _, g := range Groups() {
		if _, err := NewKeyExchange(g, bytes.NewReader(make([]byte, 31))); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: a source that ends: %v", DHName(g), err)
		}
	}
	// MODP is never degenerate, even then.
	for _, g := range []wire.GroupID{wire.GroupMODP2048, wire.GroupMODP3072, wire.GroupMODP4096} {
		k, err := NewKeyExchange(g, repeat(0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Shared(k.Public()); err != nil {
			t.Errorf("%s: %v", DHName(g), err)
		}
	}
}

// The octets drawn for a private MODP value are gone after Wipe.
func TestWipeMODP(t *testing.T) {
	k := fixed(t, wire.GroupMODP2048, bytes.Repeat([]byte{9}, 32))
	m := k.private.(*modpPrivate)
	k.Wipe()
	if !bytes.Equal(m.exponent, make([]byte, 32)) {
		t.Error("the exponent is still there")
	}
}

// The exponents are at least twice as long as the group's strength (112, 128, 152 bits: NIST SP 800-57 part 1; RFC 7919 sections A.1 to A.3 ask for 225, 275 and 325 bits).
func TestMODPExponents(t *testing.T) {
	for g, bits := range map[wire.GroupID]int{wire.GroupMODP2048: 225, wire.GroupMODP3072: 275, wire.GroupMODP4096: 325} {
		k := fixed(t, g, bytes.Repeat([]byte{1}, 64))
		if n := 8 * len(k.private.(*modpPrivate).exponent); n < bits {
			t.Errorf("%s: %d bits", DHName(g), n)
		}
	}
}

func BenchmarkKeyExchange(b *testing.B) {
	for _, g := range Groups() {
		rand := &counting{n: 1}
		peer, err := NewKeyExchange(g, rand)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(DHName(g)+"/new", func(b *testing.B) {
			for b.Loop() {
				if _, err := NewKeyExchange(g, rand); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(DHName(g)+"/shared", func(b *testing.B) {
			k, err := NewKeyExchange(g, rand)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := k.Shared(peer.Public()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
