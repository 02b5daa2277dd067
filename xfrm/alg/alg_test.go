package alg

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	for _, c := range Ciphers() {
		got, ok := CipherByID(c.ID)
		if !ok || got.Name != c.Name {
			t.Errorf("CipherByID(%d) = %v, %v", c.ID, got, ok)
		}
		if c.FixedKey != (len(c.KeyBits) == 1) {
			t.Errorf("%s: FixedKey %v with key lengths %v", c.Label, c.FixedKey, c.KeyBits)
		}
		for i := 1; i < len(c.KeyBits); i++ {
			if c.KeyBits[i] >= c.KeyBits[i-1] {
				t.Errorf("%s: key lengths %v are not strongest first", c.Label, c.KeyBits)
			}
		}
	}
	for _, m := range MACs() {
		if got, ok := MACByID(m.ID); !ok || got != m {
			t.Errorf("MACByID(%d) = %v, %v", m.ID, got, ok)
		}
	}
}

func TestCiphers(t *testing.T) {
	want := map[Encr]string{ // salt, IV, block in octets, ICV in bits
		EncrAESCBC:           "aes 0 16 16 0 cbc(aes)",
		EncrAESGCM16:         "aes-gcm16 4 8 1 128 rfc4106(gcm(aes))",
		EncrChaCha20Poly1305: "chacha20poly1305 4 8 1 128 rfc7539esp(chacha20,poly1305)",
	}
	for _, c := range Ciphers() {
		if got := fmt.Sprintln(c.Name, c.Salt, c.IV, c.Block, c.ICVBits(), c.Kernel); got != want[c.ID]+"\n" {
			t.Errorf("%s, want %s", got, want[c.ID])
		}
	}
	if len(want) != len(Ciphers()) {
		t.Errorf("%d ciphers", len(Ciphers()))
	}
}

// Nobody who changes what he was given changes the table.
func TestTableIsNotShared(t *testing.T) {
	c, _ := CipherByID(EncrAESCBC)
	c.KeyBits[0] = 40
	Ciphers()[0].KeyBits[0] = 40
	MACs()[0].Key = 1
	if _, _, err := KeyLens(EncrAESCBC, 256, IntegSHA256_128); err != nil {
		t.Error(err)
	}
	if _, _, err := KeyLens(EncrAESCBC, 40, IntegSHA256_128); err == nil {
		t.Error("a key of 40 bits is accepted")
	}
}

// RFC 8247 section 2.1 and RFC 8221: what must not be there is not there.
func TestTrap_8247_2_WeakIsAbsent(t *testing.T) {
	for _, e := range []Encr{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 30, 31} { // DES, 3DES, Blowfish, NULL and such; implicit IV is not for IKE
		if _, ok := CipherByID(e); ok {
			t.Errorf("encryption %d is there", e)
		}
	}
	for _, i := range []Integ{0, 1, 3, 4, 6, 7} { // NONE, MD5, DES-MAC, KPDK-MD5, MD5-128, SHA1-160
		if _, ok := MACByID(i); ok {
			t.Errorf("integrity %d is there", i)
		}
	}
}

// RFC 4868 sections 2.1.1 and 2.3: key and ICV lengths are these and no other.
func TestTrap_8247_7_HMACLengths(t *testing.T) {
	want := map[Integ]string{
		IntegSHA1_96:    "20 12 96 hmac(sha1)",
		IntegSHA256_128: "32 16 128 hmac(sha256)",
		IntegSHA384_192: "48 24 192 hmac(sha384)",
		IntegSHA512_256: "64 32 256 hmac(sha512)",
	}
	for id, w := range want {
		m, ok := MACByID(id)
		if got := fmt.Sprint(m.Key, m.ICV, m.TruncBits(), " ", m.Kernel); !ok || got != w {
			t.Errorf("integrity %d: %s, want %s", id, got, w)
		}
		for _, n := range []int{0, m.Key - 1, m.Key + 1} {
			if _, err := NewHMAC(id, NewSecret(make([]byte, n))); err == nil {
				t.Errorf("%s accepts a key of %d octets", m.Label, n)
			}
		}
	}
}

func TestKeyLens(t *testing.T) {
	for _, c := range []struct {
		e           Encr
		bits        int
		i           Integ
		encr, integ int
		err         string
	}{
		{EncrAESCBC, 128, IntegSHA1_96, 16, 20, ""},
		{EncrAESCBC, 192, IntegSHA384_192, 24, 48, ""},
		{EncrAESCBC, 256, IntegSHA512_256, 32, 64, ""},
		{EncrAESGCM16, 128, IntegNone, 20, 0, ""}, // RFC 5282 section 7.1: key | 4 octets of salt
		{EncrAESGCM16, 256, IntegNone, 36, 0, ""},
		{EncrChaCha20Poly1305, 0, IntegNone, 36, 0, ""}, // RFC 7634 section 2
		{EncrChaCha20Poly1305, 256, IntegNone, 36, 0, ""},
		{EncrChaCha20Poly1305, 128, IntegNone, 0, 0, "128 bits"},
		{EncrAESCBC, 0, IntegSHA256_128, 0, 0, "0 bits"}, // RFC 7296 section 3.3.5: the attribute must be there
		{EncrAESCBC, 255, IntegSHA256_128, 0, 0, "255 bits"},
		{EncrAESCBC, -128, IntegSHA256_128, 0, 0, "-128 bits"},
		{EncrAESCBC, 256, IntegNone, 0, 0, "without an integrity algorithm"},
		{EncrAESCBC, 256, 1, 0, 0, "integrity algorithm 1 is not implemented"},
		{EncrAESGCM16, 256, IntegSHA256_128, 0, 0, "takes none"},
		{EncrAESGCM16, 256, 1, 0, 0, "takes none"},
		{3, 0, IntegSHA256_128, 0, 0, "encryption algorithm 3 is not implemented"},
	} {
		encr, integ, err := KeyLens(c.e, c.bits, c.i)
		if encr != c.encr || integ != c.integ || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("KeyLens(%d, %d, %d) = %d, %d, %v; want %d, %d, %q", c.e, c.bits, c.i, encr, integ, err, c.encr, c.integ, c.err)
		}
	}
}

func TestDescribe(t *testing.T) {
	for want, got := range map[string]string{
		"AES-GCM-256":       Describe(EncrAESGCM16, 256),
		"AES-CBC-128":       Describe(EncrAESCBC, 128),
		"ChaCha20-Poly1305": Describe(EncrChaCha20Poly1305, 0),
		"encryption 3":      Describe(3, 0),
		"SHA2-256":          DescribeMAC(IntegSHA256_128),
		"integrity 1":       DescribeMAC(1),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPrimitivesRefuseKeys(t *testing.T) {
	for n := range 70 {
		_, gcm := NewAEAD(EncrAESGCM16, NewSecret(make([]byte, n)))
		if ok := n == 20 || n == 28 || n == 36; ok != (gcm == nil) {
			t.Errorf("AES-GCM with %d octets: %v", n, gcm)
		}
		_, chacha := NewAEAD(EncrChaCha20Poly1305, NewSecret(make([]byte, n)))
		if ok := n == 36; ok != (chacha == nil) {
			t.Errorf("ChaCha20-Poly1305 with %d octets: %v", n, chacha)
		}
		_, cbc := NewBlock(EncrAESCBC, NewSecret(make([]byte, n)))
		if ok := n == 16 || n == 24 || n == 32; ok != (cbc == nil) {
			t.Errorf("AES-CBC with %d octets: %v", n, cbc)
		}
	}
	if _, err := NewAEAD(EncrAESCBC, NewSecret(make([]byte, 36))); err == nil {
		t.Error("AES-CBC is taken for an AEAD")
	}
	if _, err := NewBlock(EncrAESGCM16, NewSecret(make([]byte, 32))); err == nil {
		t.Error("AES-GCM is taken for a block cipher")
	}
	if _, err := NewHMAC(IntegNone, Secret{}); err == nil {
		t.Error("no integrity algorithm is taken for one")
	}
}

// The key may be wiped as soon as the primitive is made.
func TestPrimitivesCopyKeys(t *testing.T) {
	for _, id := range []Encr{EncrAESGCM16, EncrChaCha20Poly1305} {
		key := bytes.Repeat([]byte{7}, 36)
		a, err := NewAEAD(id, NewSecret(key))
		if err != nil {
			t.Fatal(err)
		}
		iv := make([]byte, 8)
		before := a.Seal(nil, iv, []byte("swan"), nil)
		clear(key)
		if after := a.Seal(nil, iv, []byte("swan"), nil); !bytes.Equal(before, after) {
			t.Errorf("encryption %d still depends on the caller's key", id)
		}
	}
}

func TestAEADAllocatesNothing(t *testing.T) {
	for _, id := range []Encr{EncrAESGCM16, EncrChaCha20Poly1305} {
		a, err := NewAEAD(id, NewSecret(make([]byte, 36)))
		if err != nil {
			t.Fatal(err)
		}
		iv, aad := make([]byte, 8), make([]byte, 32)
		plain, sealed, opened := make([]byte, 100), make([]byte, 0, 116), make([]byte, 0, 100)
		if n := testing.AllocsPerRun(100, func() {
			sealed = a.Seal(sealed[:0], iv, plain, aad)
			if _, err := a.Open(opened[:0], iv, sealed, aad); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("encryption %d: %v allocations", id, n)
		}
	}
}

func TestSecretPrintsNothing(t *testing.T) {
	s := NewSecret([]byte("swan"))
	for _, f := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(f, s) + fmt.Sprintf(f, struct{ K Secret }{s}) + fmt.Sprintf(f, &s); strings.Contains(got, "swan") || strings.Contains(got, "7377") || strings.Contains(got, "115") {
			t.Errorf("%s prints %s", f, got)
		}
	}
	s.Wipe()
	if !bytes.Equal(s.Bytes(), make([]byte, 4)) {
		t.Error("Wipe leaves octets")
	}
}
