package esp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

const vectors = "../../test/vectors"

// octets are hexadecimal in JSON.
type octets []byte

func (o *octets) UnmarshalText(b []byte) (err error) {
	*o, err = hex.DecodeString(string(b))
	return err
}

func load(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func secret(parts ...[]byte) alg.Secret { return alg.NewSecret(bytes.Join(parts, nil)) }

func word(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// receiver of a packet whose numbers have come so far that seq is next.
func receiver(t testing.TB, sa xfrm.SA, seq uint64) *Inbound {
	t.Helper()
	in, err := NewInbound(sa)
	if err != nil {
		t.Fatal(err)
	}
	in.window.top = seq - 1
	return in
}

// sealWith seals inner as packet number seq with the IV of a vector, which a sender would never choose itself.
func sealWith(t testing.TB, sa xfrm.SA, seq uint64, iv, plaintext []byte) []byte {
	t.Helper()
	l, err := layoutOf(sa.Suite)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTransform(&sa, l)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, headerLen+len(iv)+len(plaintext)+l.icv)
	for k := range 4 {
		p[k], p[4+k] = byte(sa.ID.SPI>>(24-8*k)), byte(seq>>(24-8*k))
	}
	copy(p[headerLen:], iv)
	copy(p[headerLen+len(iv):], plaintext)
	tr.seal(p, p[headerLen+len(iv):len(p)-l.icv], headerLen+len(iv), len(p)-l.icv, seq)
	return p
}

// The packets of draft-mcgrew-gcm-test-01, with 32 and 64 bit sequence numbers.
func TestVectorsAESGCM(t *testing.T) {
	var file struct {
		Cases []struct {
			ID                           string
			Key, Salt, IV, SPI           octets
			Plaintext, Packet, Inner     octets
			ESN                          bool
			Seq                          uint64
			NextHeader                   uint8 `json:"next_header"`
			PaddingIsMonotonic, Verified bool
		}
	}
	load(t, "esp_aes_gcm_mcgrew.json", &file)
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range file.Cases {
		sa := xfrm.SA{
			ID:      xfrm.SAID{SPI: word(c.SPI)},
			Suite:   xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 8 * len(c.Key), ESN: c.ESN},
			EncrKey: secret(c.Key, c.Salt),
		}
		if got := sealWith(t, sa, c.Seq, c.IV, c.Plaintext); !bytes.Equal(got, c.Packet) {
			t.Errorf("%s: sealed\n%x, want\n%x", c.ID, got, []byte(c.Packet))
		}
		data, next, r := receiver(t, sa, c.Seq).Open(bytes.Clone(c.Packet))
		if r != Accepted || next != c.NextHeader || !bytes.Equal(data, c.Inner) {
			t.Errorf("%s: opened as %v next header %d\n%x, want\n%x", c.ID, r, next, data, []byte(c.Inner))
		}
	}
}

func TestVectorsChaCha20Poly1305(t *testing.T) {
	var file struct {
		Cases []struct {
			ID                      string
			Key, Salt, IV, SPI      octets
			Seq                     uint64
			Inner                   octets `json:"inner_packet"`
			Plaintext               octets `json:"plaintext_with_trailer"`
			Packet, Keymat, Message octets
		}
	}
	load(t, "chacha20poly1305_rfc7634.json", &file)
	seen := 0
	for _, c := range file.Cases {
		if c.Packet == nil {
			continue // the IKE message
		}
		seen++
		sa := xfrm.SA{
			ID:      xfrm.SAID{SPI: word(c.SPI)},
			Suite:   xfrm.Suite{Encr: alg.EncrChaCha20Poly1305, KeyBits: 256},
			EncrKey: secret(c.Keymat),
		}
		packet := c.Packet[20:] // behind the outer IPv4 header
		if got := sealWith(t, sa, c.Seq, c.IV, c.Plaintext); !bytes.Equal(got, packet) {
			t.Errorf("%s: sealed\n%x, want\n%x", c.ID, got, packet)
		}
		data, next, r := receiver(t, sa, c.Seq).Open(bytes.Clone(packet))
		if r != Accepted || next != NextIPv4 || !bytes.Equal(data, c.Inner) {
			t.Errorf("%s: opened as %v next header %d\n%x", c.ID, r, next, data)
		}
	}
	if seen == 0 {
		t.Fatal("no cases")
	}
}

// The packets of RFC 3602 have no ICV: the cipher half of the transform alone is under test.
func TestVectorsAESCBC(t *testing.T) {
	var file struct {
		Cases []struct {
			ID         string
			Key, IV    octets
			SPI        octets
			Seq        uint64
			Plaintext  octets `json:"plaintext_with_trailer"`
			Original   octets `json:"original_packet"`
			Packet     octets
			Ciphertext octets
		}
	}
	load(t, "aes_cbc_rfc3602.json", &file)
	seen := 0
	for _, c := range file.Cases {
		if c.Packet == nil {
			continue
		}
		seen++
		sa := cbc(c.Key)
		sa.ID.SPI = word(c.SPI)
		got := sealWith(t, sa, c.Seq, c.IV, c.Plaintext)
		if want := c.Packet[20:]; !bytes.Equal(got[:len(want)], want) {
			t.Errorf("%s: sealed\n%x, want\n%x", c.ID, got[:len(want)], []byte(want))
		}
		data, _, r := receiver(t, sa, c.Seq).Open(got)
		if r != Accepted || !bytes.HasSuffix(c.Original, data) {
			t.Errorf("%s: opened as %v\n%x", c.ID, r, data)
		}
	}
	if seen != 4 {
		t.Fatalf("%d packets, want 4", seen)
	}
}

// cbc is an SA with the key given and some integrity key.
func cbc(key []byte) xfrm.SA {
	return xfrm.SA{
		ID:       xfrm.SAID{SPI: 0x1000},
		Suite:    xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 8 * len(key), Integ: alg.IntegSHA256_128},
		EncrKey:  secret(key),
		IntegKey: secret(bytes.Repeat([]byte{0x5a}, 32)),
	}
}

// Packets of other implementations, whose HMAC keys are not known: cipher, padding and inner packet are checked.
func TestCaptures(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(vectors, "captures", "tcpdump-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	aes, stripped := 0, 0
	for _, name := range names {
		var file struct {
			Frames []struct {
				Frame                       int
				Encr                        string
				Key, IV, SPI, Packet, Inner octets
				Seq                         uint64
				Plaintext                   octets `json:"plaintext_with_trailer"`
				NextHeader                  uint8  `json:"next_header"`
			}
		}
		load(t, filepath.Join("captures", filepath.Base(name)), &file)
		for _, f := range file.Frames {
			if f.Plaintext == nil {
				continue
			}
			stripped++
			data, next, r := strip(bytes.Clone(f.Plaintext))
			if r == Accepted && next == NextIPv4 {
				data, r = Datagram(data, next)
			}
			if r != Accepted || next != f.NextHeader || !bytes.Equal(data, f.Inner) {
				t.Errorf("%s frame %d: %v, next header %d\n%x", name, f.Frame, r, next, data)
			}
			if f.Encr != "AES_CBC" {
				continue
			}
			aes++
			sa := cbc(f.Key)
			sa.ID.SPI = word(f.SPI)
			got := sealWith(t, sa, f.Seq, f.IV, f.Plaintext)
			if n := headerLen + len(f.IV) + len(f.Plaintext); !bytes.Equal(got[:n], f.Packet[:n]) {
				t.Errorf("%s frame %d: sealed\n%x, want\n%x", name, f.Frame, got[:n], []byte(f.Packet[:n]))
			}
		}
	}
	if aes == 0 || stripped < 24 {
		t.Errorf("%d frames stripped, %d of them AES", stripped, aes)
	}
}
