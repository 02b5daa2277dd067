package auth

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

type octets []byte

func (o *octets) UnmarshalText(b []byte) (err error) {
	*o, err = hex.DecodeString(string(b))
	return err
}

// exchange is a recorded exchange with every secret.
type exchange struct {
	Nr      octets
	PSK     octets
	IDi     octets `json:"id_i_body"`
	Auth    octets `json:"auth_i"`
	Request octets `json:"ike_sa_init_request"`
	Keys    struct {
		Pi octets `json:"sk_pi"`
	}
}

func recorded(t testing.TB) exchange {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "test", "vectors", "captures", "aosp-psk-exchange.json"))
	if err != nil {
		t.Fatal(err)
	}
	var x exchange
	if err := json.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	return x
}

func secret(b []byte) alg.Secret { return alg.NewSecret(bytes.Clone(b)) }

// RFC 7296 section 2.15: AUTH over the message as it was on the wire, the peer's nonce, the ID body.
func TestTrap_7296_40_SignedOctets(t *testing.T) {
	x := recorded(t)
	mac := func(message, nonce, pi, id []byte) []byte {
		return SharedKeyMAC(wire.PRFHMACSHA1, secret(x.PSK), message, nonce, secret(pi), id)
	}
	if got := mac(x.Request, x.Nr, x.Keys.Pi, x.IDi); !bytes.Equal(got, x.Auth) {
		t.Fatalf("AUTH %x, want %x", got, x.Auth)
	}
	// RESERVED of the ID payload is covered, as is each other octet.
	for at := range x.IDi {
		id := bytes.Clone(x.IDi)
		id[at] ^= 1
		if bytes.Equal(mac(x.Request, x.Nr, x.Keys.Pi, id), x.Auth) {
			t.Errorf("octet %d of the ID body is not covered", at)
		}
	}
	marked := append([]byte{0, 0, 0, 0}, x.Request...)
	if bytes.Equal(mac(marked, x.Nr, x.Keys.Pi, x.IDi), x.Auth) {
		t.Error("the non-ESP marker changes nothing")
	}
}

// RFC 7296 section 2.15: 17 ASCII characters without terminator pad the key; a shared secret of 64 octets and more is taken as it is.
func TestTrap_7296_41_KeyPad(t *testing.T) {
	if len(keyPad) != 17 {
		t.Errorf("the key pad has %d octets", len(keyPad))
	}
	x := recorded(t)
	for _, n := range []int{1, 63, 64, 65, 128, 300} {
		psk := bytes.Repeat([]byte{'k'}, n)
		a := SharedKeyMAC(wire.PRFHMACSHA256, secret(psk), x.Request, x.Nr, secret(x.Keys.Pi), x.IDi)
		psk[n-1]++ // no octet is cut off
		b := SharedKeyMAC(wire.PRFHMACSHA256, secret(psk), x.Request, x.Nr, secret(x.Keys.Pi), x.IDi)
		if len(a) != 32 || bytes.Equal(a, b) {
			t.Errorf("a shared secret of %d octets: %x and %x", n, a, b)
		}
	}
}

func TestVerifySharedKey(t *testing.T) {
	x := recorded(t)
	verify := func(psk, auth []byte) bool {
		return VerifySharedKey(wire.PRFHMACSHA1, secret(psk), x.Request, x.Nr, secret(x.Keys.Pi), x.IDi, auth)
	}
	if !verify(x.PSK, x.Auth) {
		t.Error("the recorded AUTH is refused")
	}
	for at := range x.Auth {
		bad := bytes.Clone(x.Auth)
		bad[at] ^= 0x80
		if verify(x.PSK, bad) {
			t.Errorf("AUTH with octet %d changed is accepted", at)
		}
	}
	for n := range len(x.Auth) {
		if verify(x.PSK, x.Auth[:n]) {
			t.Errorf("the first %d octets of AUTH are accepted", n)
		}
	}
	if verify(x.PSK, append(bytes.Clone(x.Auth), 0)) || verify(x.PSK, nil) {
		t.Error("AUTH of other length is accepted")
	}
	if verify([]byte("juniper12"), x.Auth) {
		t.Error("another PSK is accepted")
	}
	// No PSK is no way in, although the peer can compute what it would give.
	empty := SharedKeyMAC(wire.PRFHMACSHA1, alg.Secret{}, x.Request, x.Nr, secret(x.Keys.Pi), x.IDi)
	if verify(nil, empty) {
		t.Error("an empty PSK authenticates")
	}
}
