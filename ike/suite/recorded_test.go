package suite

import (
	"bytes"
	"encoding/binary"
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// psk is the recorded initiator's side of a whole exchange, with every secret.
type psk struct {
	Ni, Nr octets
	SPIi   octets `json:"spi_i"`
	SPIr   octets `json:"spi_r"`
	GIR    octets `json:"g_ir"`
	Keys   struct {
		Skeyseed octets
		D        octets `json:"sk_d"`
		Ai       octets `json:"sk_ai"`
		Ar       octets `json:"sk_ar"`
		Ei       octets `json:"sk_ei"`
		Er       octets `json:"sk_er"`
		Pi       octets `json:"sk_pi"`
		Pr       octets `json:"sk_pr"`
	}
	ChildKeys struct {
		EncrI  octets `json:"encr_i"`
		IntegI octets `json:"integ_i"`
		EncrR  octets `json:"encr_r"`
		IntegR octets `json:"integ_r"`
	} `json:"child_keys"`
	AuthRequest   octets `json:"ike_auth_request"`
	AuthIV        octets `json:"ike_auth_iv"`
	AuthPlaintext octets `json:"ike_auth_plaintext"`
	Informational octets
}

var recordedSuite = IKE{Encr: alg.EncrAESCBC, KeyBits: 128, Integ: alg.IntegSHA1_96, PRF: wire.PRFHMACSHA1, Group: wire.GroupMODP1024}

func recorded(t testing.TB) (psk, *Keys) {
	t.Helper()
	x := load[psk](t, "captures/aosp-psk-exchange.json")
	k, err := Derive(recordedSuite, secret(x.GIR), x.Ni, x.Nr, spi(x.SPIi), spi(x.SPIr))
	if err != nil {
		t.Fatal(err)
	}
	return x, k
}

func TestRecordedKeySchedule(t *testing.T) {
	x, k := recorded(t)
	if got := PRF(wire.PRFHMACSHA1, append(bytes.Clone(x.Ni), x.Nr...), x.GIR); !bytes.Equal(got, x.Keys.Skeyseed) {
		t.Errorf("SKEYSEED %x, want %x", got, x.Keys.Skeyseed)
	}
	child, err := k.Child(alg.Secret{}, x.Ni, x.Nr, 16, 20)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		got  alg.Secret
		want octets
	}{
		"SK_d": {k.D, x.Keys.D}, "SK_ai": {k.Ai, x.Keys.Ai}, "SK_ar": {k.Ar, x.Keys.Ar}, "SK_ei": {k.Ei, x.Keys.Ei}, "SK_er": {k.Er, x.Keys.Er},
		"SK_pi": {k.Pi, x.Keys.Pi}, "SK_pr": {k.Pr, x.Keys.Pr},
		"encryption I to R": {child.EncrI2R, x.ChildKeys.EncrI}, "integrity I to R": {child.IntegI2R, x.ChildKeys.IntegI},
		"encryption R to I": {child.EncrR2I, x.ChildKeys.EncrR}, "integrity R to I": {child.IntegR2I, x.ChildKeys.IntegR},
	} {
		if !bytes.Equal(c.got.Bytes(), c.want) {
			t.Errorf("%s %x, want %x", what, c.got.Bytes(), c.want)
		}
	}
}

func TestRecordedMessages(t *testing.T) {
	x, k := recorded(t)
	i, err1 := NewProtector(k, true)
	r, err2 := NewProtector(k, false)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	m, sk := decodeSK(t, x.AuthRequest)
	if got, err := r.Open(x.AuthRequest, sk); err != nil || !bytes.Equal(got, x.AuthPlaintext) {
		t.Errorf("IKE_AUTH: %x, %v, want %x", got, err, x.AuthPlaintext)
	}
	if got, err := i.Seal(m.Header, sk.First, x.AuthPlaintext, bytes.NewReader(x.AuthIV)); err != nil || !bytes.Equal(got, x.AuthRequest) {
		t.Errorf("IKE_AUTH sealed: %x, %v, want %x", got, err, x.AuthRequest)
	}
	_, sk = decodeSK(t, x.Informational)
	if _, err := r.Open(x.Informational, sk); err != nil {
		t.Errorf("INFORMATIONAL: %v", err)
	}
}

func decodeSK(t testing.TB, msg []byte) (*wire.Message, *wire.SK) {
	t.Helper()
	m, err := wire.Decode(msg)
	if err != nil {
		t.Fatal(err)
	}
	sk, ok := m.Payloads[len(m.Payloads)-1].(*wire.SK)
	if !ok {
		t.Fatalf("the message ends in %T", m.Payloads[len(m.Payloads)-1])
	}
	return m, sk
}

// capture is a session of two hosts whose SK_e and SK_a were published.
type capture struct {
	Keys struct {
		Ei octets `json:"sk_ei"`
		Er octets `json:"sk_er"`
		Ai octets `json:"sk_ai"`
		Ar octets `json:"sk_ar"`
	}
	Frames []struct {
		Message   octets `json:"payload_hex"`
		Decrypted *struct {
			IV        octets
			Plaintext octets           `json:"plaintext_hex"`
			First     wire.PayloadType `json:"first_inner_payload"`
		}
	}
}

func TestCaptures(t *testing.T) {
	for name, s := range map[string]IKE{
		"aes256cbc":   {Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.IntegSHA256_128, PRF: wire.PRFHMACSHA256},
		"aes256gcm16": {Encr: alg.EncrAESGCM16, KeyBits: 256, PRF: wire.PRFHMACSHA256},
	} {
		c := load[capture](t, "captures/wireshark-ikev2-decrypt-"+name+".json")
		k := &Keys{Suite: s, Ei: secret(c.Keys.Ei), Er: secret(c.Keys.Er), Ai: secret(c.Keys.Ai), Ar: secret(c.Keys.Ar)}
		opened := 0
		for n, f := range c.Frames {
			if f.Decrypted == nil {
				continue
			}
			m, sk := decodeSK(t, f.Message)
			own, err1 := NewProtector(k, m.Initiator())
			peer, err2 := NewProtector(k, !m.Initiator())
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if got, err := peer.Open(f.Message, sk); err != nil || !bytes.Equal(got, f.Decrypted.Plaintext) || sk.First != f.Decrypted.First {
				t.Errorf("%s frame %d: %x, %v, want %x", name, n+1, got, err, f.Decrypted.Plaintext)
			}
			if a, ok := own.out.(*aeadTransform); ok {
				a.next = binary.BigEndian.Uint64(f.Decrypted.IV)
				if got, err := own.Seal(m.Header, sk.First, f.Decrypted.Plaintext, nil); err != nil || !bytes.Equal(got, f.Message) {
					t.Errorf("%s frame %d sealed: %x, %v", name, n+1, got, err)
				}
			}
			opened++
		}
		if opened < 2 {
			t.Errorf("%s: %d messages were opened", name, opened)
		}
	}
}

func TestVectorsProtectedMessages(t *testing.T) {
	encr := map[string]alg.Encr{"AES_GCM_16": alg.EncrAESGCM16, "CHACHA20_POLY1305": alg.EncrChaCha20Poly1305}
	n := 0
	for _, c := range cases[struct {
		ID, Encr    string
		Key         octets `json:"sk_e"`
		Message, IV octets
		Plaintext   octets
		First       wire.PayloadType `json:"first_inner_payload"`
		Fragment    *struct {
			Number uint16 `json:"fragment_number"`
			Total  uint16 `json:"total_fragments"`
		}
	}](t, "ike_protected_messages.json") {
		id, ok := encr[c.Encr]
		if !ok { // 3DES is not there
			continue
		}
		n++
		k := &Keys{Suite: IKE{Encr: id, KeyBits: 8*len(c.Key) - 32, PRF: wire.PRFHMACSHA256}, Ei: secret(c.Key), Er: secret(c.Key)}
		p, err := NewProtector(k, true)
		if err != nil {
			t.Fatal(err)
		}
		p.out.(*aeadTransform).next = binary.BigEndian.Uint64(c.IV)
		m, err := wire.Decode(c.Message)
		if err != nil {
			t.Fatal(err)
		}
		var opened, sealed []byte
		switch x := m.Payloads[len(m.Payloads)-1].(type) {
		case *wire.SK:
			opened, err = p.Open(c.Message, x)
			if err == nil {
				sealed, err = p.Seal(m.Header, c.First, c.Plaintext, nil)
			}
		case *wire.SKF:
			if x.Number != c.Fragment.Number || x.Total != c.Fragment.Total {
				t.Errorf("%s: fragment %d of %d", c.ID, x.Number, x.Total)
			}
			opened, err = p.OpenFragment(c.Message, x)
			if err == nil {
				sealed, err = p.SealFragment(m.Header, c.First, x.Number, x.Total, c.Plaintext, nil)
			}
		}
		if err != nil || !bytes.Equal(opened, c.Plaintext) || !bytes.Equal(sealed, c.Message) {
			t.Errorf("%s: %v\nopened %x\n  want %x\nsealed %x\n  want %x", c.ID, err, opened, c.Plaintext, sealed, c.Message)
		}
	}
	if n != 4 {
		t.Errorf("%d messages were used", n)
	}
}
