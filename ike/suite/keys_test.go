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
