package suite

import (
	"bytes"
	"strings"
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// TestReasons: each error names what was found and what was wanted, in this order.
func TestReasons(t *testing.T) {
	s := cbc128(wire.PRFHMACSHA256)
	k, err := Derive(s, secret([]byte("shared")), make([]byte, 32), make([]byte, 32), 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProtector(k, true)
	if err != nil {
		t.Fatal(err)
	}
	short := *k
	short.Ei = secret(make([]byte, 15))
	wiped := *k
	wiped.D = secret(make([]byte, 32))
	tiger := s
	tiger.PRF = wire.PRFHMACTiger
	kx, err := NewKeyExchange(wire.GroupX25519, bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	fail := func(_ any, err error) string {
		if err == nil {
			return "no error"
		}
		return err.Error()
	}
	for got, want := range map[string]string{
		fail(k.Child(alg.Secret{}, nil, nil, -1, 20)):                                                    "keying material of -1 and 20 octets",
		fail(k.Child(alg.Secret{}, nil, nil, 16, 1025)):                                                  "keying material of 16 and 1025 octets",
		fail(wiped.Child(alg.Secret{}, nil, nil, 16, 20)):                                                "the keys of the IKE SA are gone",
		fail(prfPlus(wire.PRFHMACSHA256, nil, 8161)):                                                     "prf+ of 8161 octets: PRF SHA2-256 gives at most 8160",
		fail(prfPlus(wire.PRFHMACTiger, nil, 1)):                                                         "PRF PRF_HMAC_TIGER is not implemented",
		fail(nil, tiger.Validate()):                                                                      "PRF PRF_HMAC_TIGER is not implemented",
		fail(NewProtector(&short, true)):                                                                 "keys of 15 and 20 octets, " + s.String() + " wants 16 and 20",
		fail(p.SealFragment(wire.Header{}, 0, 3, 2, nil, nil)):                                           "fragment 3 of 2",
		fail(p.SealFragment(wire.Header{}, 0, 0, 2, nil, nil)):                                           "fragment 0 of 2",
		fail(NewKeyExchange(999, nil)):                                                                   "key exchange Group(999) is not implemented",
		fail(kx.Shared(make([]byte, 31))):                                                                "bad public value: 31 octets, X25519 has 32",
		fail(kx.Shared(make([]byte, 32))):                                                                "bad public value for X25519: it is a point of small order",
		fail(Derive(s, alg.Secret{}, nil, nil, 1, 2)):                                                    "keys of an IKE SA: no shared secret",
		fail(p.Seal(wire.Header{}, 0, make([]byte, wire.MaxMessage), bytes.NewReader(make([]byte, 64)))): "message of 65596 octets: at most 65535 fit",
		fail(NewKeyExchange(wire.GroupX25519, bytes.NewReader(nil))):                                     "key exchange X25519: draw a private value: EOF",
		fail(NewKeyExchange(wire.GroupECP256, bytes.NewReader(nil))):                                     "key exchange ECP-256: draw a private value: EOF",
		fail(NewKeyExchange(wire.GroupECP256, bytes.NewReader(bytes.Repeat([]byte{0xff}, 64<<10)))):      "key exchange ECP-256: draw a private value: the random source gives no valid scalar",
		fail(NewKeyExchange(wire.GroupMODP2048, bytes.NewReader(nil))):                                   "key exchange MODP-2048: draw a private value: EOF",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestPRFNotImplemented: rather no value than one that somebody could compare with.
func TestPRFNotImplemented(t *testing.T) {
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "PRF PRF_HMAC_TIGER is not implemented") {
			t.Errorf("panic %q", said)
		}
	}()
	PRF(wire.PRFHMACTiger, nil)
}

// TestExpandWipesSkeyseed: SKEYSEED is of no use once the keys are cut from it.
func TestExpandWipesSkeyseed(t *testing.T) {
	seed := bytes.Repeat([]byte{7}, 32)
	if _, err := expand(cbc128(wire.PRFHMACSHA256), seed, nil, nil, 1, 2); err != nil || !bytes.Equal(seed, make([]byte, 32)) {
		t.Errorf("SKEYSEED %x, %v", seed, err)
	}
}
