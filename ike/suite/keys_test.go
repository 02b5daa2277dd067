package suite

import (
	"bytes"
	"encoding/binary"
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

type kdfCase struct {
	ID, PRF        string
	GIR            octets `json:"g_ir"`
	GIRNew         octets `json:"g_ir_new"`
	Nonces         octets `json:"nonces_ni_nr"`
	Ni, Nr         octets
	SPIi           octets `json:"spi_i"`
	SPIr           octets `json:"spi_r"`
	Key            octets
	Seed           octets `json:"prf_plus_seed"`
	Out            octets `json:"prf_plus_out"`
	Skeyseed       octets
	SkeyseedRekey  octets `json:"skeyseed_rekey"`
	ChildKeymat    octets `json:"child_keymat_no_pfs"`
	ChildKeymatPFS octets `json:"child_keymat_pfs"`
}

func secret(b []byte) alg.Secret { return alg.NewSecret(bytes.Clone(b)) }

func spi(b []byte) wire.SPI { return wire.SPI(binary.BigEndian.Uint64(b)) }

// join puts the keys together again in the order of RFC 7296 section 2.14.
func join(k *Keys) []byte {
	var b []byte
	for _, s := range []alg.Secret{k.D, k.Ai, k.Ar, k.Ei, k.Er, k.Pi, k.Pr} {
		b = append(b, s.Bytes()...)
	}
	return b
}

// cbc128 is a suite of the PRF whose keys are cut from the fewest octets.
func cbc128(prf wire.PRFID) IKE {
	return IKE{Encr: alg.EncrAESCBC, KeyBits: 128, Integ: alg.IntegSHA1_96, PRF: prf, Group: wire.GroupMODP2048}
}

func TestVectorsKDF(t *testing.T) {
	n := 0
	for _, c := range cases[kdfCase](t, "ikev2_kdf.json") {
		prf := prfByName[c.PRF]
		switch {
		case c.Key != nil: // prf+ alone
			got, err := prfPlus(prf, c.Key, len(c.Out), c.Seed)
			if err != nil || !bytes.Equal(got, c.Out) {
				t.Errorf("%s: prf+ %x, %v, want %x", c.ID, got, err, c.Out)
			}
		default:
			if c.Nonces != nil {
				c.Ni, c.Nr = c.Nonces[:len(c.Nonces)/2], c.Nonces[len(c.Nonces)/2:]
			}
			k, err := Derive(cbc128(prf), secret(c.GIR), c.Ni, c.Nr, spi(c.SPIi), spi(c.SPIr))
			if err != nil {
				t.Fatalf("%s: %v", c.ID, err)
			}
			got := join(k)
			if m := min(len(got), len(c.Out)); m < 100 || !bytes.Equal(got[:m], c.Out[:m]) {
				t.Errorf("%s: keys %x, want %x", c.ID, got, c.Out)
			}
			if c.ChildKeymat != nil {
				checkFurtherKeys(t, c, k)
			}
		}
		n++
	}
	if n != 8 {
		t.Errorf("%d vectors were used", n)
	}
}

func checkFurtherKeys(t *testing.T, c kdfCase, k *Keys) {
	t.Helper()
	for _, x := range []struct {
		what   string
		shared alg.Secret
		want   []byte
	}{{"without PFS", alg.Secret{}, c.ChildKeymat}, {"with PFS", secret(c.GIRNew), c.ChildKeymatPFS}} {
		ck, err := k.Child(x.shared, c.Ni, c.Nr, 36, len(x.want)/2-36)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, s := range []alg.Secret{ck.EncrI2R, ck.IntegI2R, ck.EncrR2I, ck.IntegR2I} {
			got = append(got, s.Bytes()...)
		}
		if !bytes.Equal(got, x.want) {
			t.Errorf("%s: child keys %s %x, want %x", c.ID, x.what, got, x.want)
		}
	}
	next, err := k.DeriveRekey(cbc128(k.Suite.PRF), secret(c.GIRNew), c.Ni, c.Nr, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	want, err := prfPlus(k.Suite.PRF, c.SkeyseedRekey, len(join(next)), c.Ni, c.Nr, []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2})
	if err != nil || !bytes.Equal(join(next), want) {
		t.Errorf("%s: keys after the rekey %x, want %x (%v)", c.ID, join(next), want, err)
	}
}

// RFC 7296 section 2.14, RFC 5282 section 7.1, RFC 7634 section 3: the order of keys and their lengths.
func TestTrap_7296_35_KeyOrder(t *testing.T) {
	ni, nr := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 16)
	for _, s := range suites() {
		for _, s.PRF = range PRFs() {
			k, err := Derive(s, secret([]byte("shared")), ni, nr, 3, 4)
			if err != nil {
				t.Fatal(err)
			}
			seed := append(append(bytes.Clone(ni), nr...), 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4)
			mat, err := prfPlus(s.PRF, PRF(s.PRF, seed[:48], []byte("shared")), len(join(k)), seed)
			if err != nil || !bytes.Equal(join(k), mat) {
				t.Errorf("%s: keys are not cut in order", s)
			}
			encr, integ := s.KeyBits/8+4, 0
			if s.Integ != alg.IntegNone {
				m, _ := alg.MACByID(s.Integ)
				encr, integ = s.KeyBits/8, m.Key
			}
			for _, x := range []struct {
				s    alg.Secret
				want int
			}{{k.D, PRFLen(s.PRF)}, {k.Pi, PRFLen(s.PRF)}, {k.Pr, PRFLen(s.PRF)}, {k.Ei, encr}, {k.Er, encr}, {k.Ai, integ}, {k.Ar, integ}} {
				if x.s.Len() != x.want {
					t.Errorf("%s: a key of %d octets, want %d", s, x.s.Len(), x.want)
				}
			}
		}
	}
}

// RFC 7296 section 2.14: SKEYSEED takes the nonces whole with an HMAC, however long they are; only PRFs of fixed key length, which are not there, cut them.
func TestTrap_7296_36_WholeNonces(t *testing.T) {
	for _, id := range []wire.PRFID{wire.PRFAES128XCBC, wire.PRFAES128CMAC} {
		if _, err := Derive(cbc128(id), secret([]byte("x")), make([]byte, 16), make([]byte, 16), 1, 2); err == nil {
			t.Errorf("PRF %s is there: its nonces are cut to 8 octets each", PRFName(id))
		}
	}
	seen := make(map[string]bool)
	for _, n := range []int{16, 32, 64, 128, 256} {
		for at := range n {
			ni := make([]byte, n)
			ni[at] = 1
			k, err := Derive(cbc128(wire.PRFHMACSHA256), secret([]byte("x")), ni, make([]byte, 256), 1, 2)
			if err != nil {
				t.Fatal(err)
			}
			if key := string(k.D.Bytes()); seen[key] {
				t.Errorf("octet %d of a nonce of %d does not count", at, n)
			} else {
				seen[key] = true
			}
		}
	}
}

// RFC 7296 section 2.18: SKEYSEED by the old PRF with the old SK_d, prf+ by the new.
func TestTrap_7296_38_RekeyPRFs(t *testing.T) {
	ni, nr, shared := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32), []byte("new shared secret")
	for _, oldPRF := range PRFs() {
		old, err := Derive(cbc128(oldPRF), secret([]byte("x")), make([]byte, 16), make([]byte, 16), 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, newPRF := range PRFs() {
			k, err := old.DeriveRekey(cbc128(newPRF), secret(shared), ni, nr, 3, 4)
			if err != nil {
				t.Fatal(err)
			}
			seed := PRF(oldPRF, old.D.Bytes(), shared, ni, nr)
			want, err := prfPlus(newPRF, seed, len(join(k)), ni, nr, []byte{0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4})
			if err != nil || !bytes.Equal(join(k), want) {
				t.Errorf("%s to %s: other keys", PRFName(oldPRF), PRFName(newPRF))
			}
			if k.Suite != cbc128(newPRF) {
				t.Errorf("the new keys are of %s", k.Suite)
			}
		}
	}
}

// RFC 7296 section 2.17: KEYMAT from SK_d, with the new secret in front; initiator to responder first, encryption before integrity.
func TestTrap_7296_39_Keymat(t *testing.T) {
	ni, nr, shared := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32), []byte("new shared secret")
	for _, prf := range PRFs() {
		k, err := Derive(cbc128(prf), secret([]byte("x")), make([]byte, 16), make([]byte, 16), 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, pfs := range [][]byte{nil, shared} {
			c, err := k.Child(secret(pfs), ni, nr, 36, 11)
			if err != nil {
				t.Fatal(err)
			}
			mat, err := prfPlus(prf, k.D.Bytes(), 94, pfs, ni, nr)
			if err != nil || !bytes.Equal(c.EncrI2R.Bytes(), mat[:36]) || !bytes.Equal(c.IntegI2R.Bytes(), mat[36:47]) ||
				!bytes.Equal(c.EncrR2I.Bytes(), mat[47:83]) || !bytes.Equal(c.IntegR2I.Bytes(), mat[83:]) {
				t.Errorf("PRF %s, PFS %v: keys are not cut in order", PRFName(prf), pfs != nil)
			}
		}
		for _, n := range [][2]int{{-1, 0}, {0, -1}, {1 << 62, 0}, {1025, 0}, {0, 1025}} {
			if _, err := k.Child(alg.Secret{}, ni, nr, n[0], n[1]); err == nil {
				t.Errorf("keying material of %v octets", n)
			}
		}
	}
}

// Keys that anybody could compute are not made.
func TestDeriveRefuses(t *testing.T) {
	n := make([]byte, 16)
	for what, s := range map[string]IKE{
		"3DES":                   {Encr: 3, Integ: alg.IntegSHA1_96, PRF: wire.PRFHMACSHA256},
		"AES-CBC of 64 bits":     {Encr: alg.EncrAESCBC, KeyBits: 64, Integ: alg.IntegSHA1_96, PRF: wire.PRFHMACSHA256},
		"AES-CBC alone":          {Encr: alg.EncrAESCBC, KeyBits: 256, PRF: wire.PRFHMACSHA256},
		"AES-GCM with integrity": {Encr: alg.EncrAESGCM16, KeyBits: 256, Integ: alg.IntegSHA1_96, PRF: wire.PRFHMACSHA256},
		"MD5":                    {Encr: alg.EncrAESGCM16, KeyBits: 256, PRF: wire.PRFHMACMD5},
		"nothing":                {},
	} {
		if _, err := Derive(s, secret([]byte("x")), n, n, 1, 2); err == nil || s.Validate() == nil {
			t.Errorf("keys of %s are made", what)
		}
	}
	good := cbc128(wire.PRFHMACSHA256)
	if _, err := Derive(good, alg.Secret{}, n, n, 1, 2); err == nil {
		t.Error("keys without a shared secret are made")
	}
	k, err := Derive(good, secret([]byte("x")), n, n, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.DeriveRekey(good, alg.Secret{}, n, n, 1, 2); err == nil {
		t.Error("keys of a rekey without a shared secret are made")
	}
	if _, err := k.DeriveRekey(IKE{}, secret([]byte("x")), n, n, 1, 2); err == nil {
		t.Error("keys of a rekey to nothing are made")
	}
}

// RFC 7296 section 2.12: closed is forgotten, and what is forgotten makes no keys.
func TestWipe(t *testing.T) {
	n := make([]byte, 16)
	k, err := Derive(cbc128(wire.PRFHMACSHA256), secret([]byte("x")), n, n, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.Child(alg.Secret{}, n, n, 32, 32)
	if err != nil {
		t.Fatal(err)
	}
	c.Wipe()
	for _, s := range []alg.Secret{c.EncrI2R, c.IntegI2R, c.EncrR2I, c.IntegR2I} {
		if s.Len() != 32 || !bytes.Equal(s.Bytes(), make([]byte, 32)) {
			t.Error("a child's key is left")
		}
	}
	k.Wipe()
	if all := join(k); !bytes.Equal(all, make([]byte, len(all))) {
		t.Errorf("a key is left: %x", all)
	}
	if _, err := k.Child(alg.Secret{}, n, n, 32, 32); err == nil {
		t.Error("child keys are made from a wiped SK_d")
	}
	if _, err := k.DeriveRekey(k.Suite, secret([]byte("x")), n, n, 3, 4); err == nil {
		t.Error("keys of a rekey are made from a wiped SK_d")
	}
	if _, err := new(Keys).Child(alg.Secret{}, n, n, 32, 32); err == nil {
		t.Error("child keys are made from no keys")
	}
}
