package suite

import (
	"bytes"
	"testing"

	"cygnet/ike/wire"
)

var prfByName = map[string]wire.PRFID{
	"HMAC_SHA1": wire.PRFHMACSHA1, "HMAC_SHA2_256": wire.PRFHMACSHA256, "HMAC_SHA2_384": wire.PRFHMACSHA384, "HMAC_SHA2_512": wire.PRFHMACSHA512,
	"sha256": wire.PRFHMACSHA256, "sha384": wire.PRFHMACSHA384, "sha512": wire.PRFHMACSHA512,
	"prf_sha256": wire.PRFHMACSHA256, "prf_sha384": wire.PRFHMACSHA384, "prf_sha512": wire.PRFHMACSHA512,
}

func TestVectorsPRF(t *testing.T) {
	n := 0
	for _, name := range []string{"hmac_sha2_rfc4231.json", "hmac_sha2_rfc4868.json"} {
		for _, c := range cases[struct {
			ID        string
			Key, Data octets
			MAC       map[string]octets
		}](t, name) {
			for prf, want := range c.MAC {
				id, ok := prfByName[prf]
				if !ok { // SHA-224 and truncated integrity
					continue
				}
				n++
				if got := PRF(id, c.Key, c.Data); !bytes.Equal(got[:len(want)], want) { // one vector is published truncated
					t.Errorf("%s: %s %x, want %x", c.ID, prf, got, want)
				}
			}
		}
	}
	for _, c := range cases[struct {
		ID, PRF        string
		Key, Data, Out octets
	}](t, "prf_misc.json") {
		if id, ok := prfByName[c.PRF]; ok { // not AES-XCBC
			n++
			if got := PRF(id, c.Key, c.Data); !bytes.Equal(got, c.Out) {
				t.Errorf("%s: %x, want %x", c.ID, got, c.Out)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d vectors were used", n)
	}
}

func TestPRFJoinsData(t *testing.T) {
	a := PRF(wire.PRFHMACSHA256, []byte("key"), []byte("sw"), nil, []byte("an"))
	if b := PRF(wire.PRFHMACSHA256, []byte("key"), []byte("swan")); !bytes.Equal(a, b) {
		t.Errorf("%x and %x", a, b)
	}
}

func TestPRFLen(t *testing.T) {
	want := map[wire.PRFID]int{wire.PRFHMACSHA1: 20, wire.PRFHMACSHA256: 32, wire.PRFHMACSHA384: 48, wire.PRFHMACSHA512: 64}
	if len(PRFs()) != len(want) {
		t.Errorf("PRFs() = %v", PRFs())
	}
	for _, id := range PRFs() {
		if PRFLen(id) != want[id] || len(PRF(id, nil)) != want[id] {
			t.Errorf("%s has %d octets, want %d", PRFName(id), PRFLen(id), want[id])
		}
	}
	// MD5 and Tiger must not be there (RFC 8247 section 2.2); the AES ones are not.
	for _, id := range []wire.PRFID{0, wire.PRFHMACMD5, wire.PRFHMACTiger, wire.PRFAES128XCBC, wire.PRFAES128CMAC, 9, 65535} {
		if PRFLen(id) != 0 {
			t.Errorf("PRF %s has %d octets", PRFName(id), PRFLen(id))
		}
	}
}

// RFC 7296 section 2.13: the counter is one octet, from 1; keys are cut across the borders of blocks.
func TestTrap_7296_34_PRFPlusCounter(t *testing.T) {
	for _, id := range PRFs() {
		n := PRFLen(id)
		key, seed := []byte("key"), []byte("seed")
		all, err := prfPlus(id, key, 255*n, seed)
		if err != nil {
			t.Fatal(err)
		}
		var last []byte
		for i := 1; i <= 255; i++ {
			last = PRF(id, key, last, seed, []byte{byte(i)})
			if got := all[(i-1)*n : i*n]; !bytes.Equal(got, last) {
				t.Fatalf("%s: block %d is %x, want %x", PRFName(id), i, got, last)
			}
		}
		if _, err := prfPlus(id, key, 255*n+1, seed); err == nil {
			t.Errorf("%s: a 256th block", PRFName(id))
		}
		for _, m := range []int{0, 1, n - 1, n, n + 1, 3*n + 7} {
			if got, err := prfPlus(id, key, m, seed); err != nil || !bytes.Equal(got, all[:m]) {
				t.Errorf("%s: %d octets: %x, %v", PRFName(id), m, got, err)
			}
		}
	}
	if _, err := prfPlus(wire.PRFHMACSHA256, nil, -1); err == nil {
		t.Error("a negative length is accepted")
	}
	if _, err := prfPlus(wire.PRFHMACMD5, nil, 1); err == nil {
		t.Error("MD5 is accepted")
	}
}
