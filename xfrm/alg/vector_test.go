package alg

import (
	"bytes"
	"crypto/cipher"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// octets is hexadecimal in a vector file.
type octets []byte

func (o *octets) UnmarshalText(b []byte) (err error) {
	*o, err = hex.DecodeString(string(b))
	return err
}

// vectors reads the cases of a file of test/vectors.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "test", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []T }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatalf("%s has no cases", name)
	}
	return file.Cases
}

func TestVectorsAESCBC(t *testing.T) {
	for _, c := range vectors[struct {
		ID                  string
		Key, IV             octets
		Plaintext           octets
		PlaintextWithTailer octets `json:"plaintext_with_trailer"`
		Ciphertext          octets
	}](t, "aes_cbc_rfc3602.json") {
		checkCBC(t, c.ID, c.Key, c.IV, append(c.Plaintext, c.PlaintextWithTailer...), c.Ciphertext)
	}
}

func checkCBC(t *testing.T, id string, key, iv, plaintext, ciphertext []byte) {
	t.Helper()
	b, err := NewBlock(EncrAESCBC, NewSecret(key))
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	got := make([]byte, len(plaintext))
	cipher.NewCBCEncrypter(b, iv).CryptBlocks(got, plaintext)
	if !bytes.Equal(got, ciphertext) {
		t.Errorf("%s: ciphertext %x, want %x", id, got, ciphertext)
	}
}

// Encrypt-then-MAC: the HMAC covers aad | ciphertext, where aad ends with the IV.
func TestVectorsCBCHMAC(t *testing.T) {
	for _, c := range vectors[struct {
		ID, Hash   string
		AuthKey    octets `json:"auth_key"`
		EncKey     octets `json:"enc_key"`
		IV, AAD    octets
		Plaintext  octets
		Ciphertext octets
		ICV        octets `json:"icv_untruncated"`
	}](t, "authenc_aes_cbc_hmac.json") {
		checkCBC(t, c.ID, c.EncKey, c.IV, c.Plaintext, c.Ciphertext)
		checkHMAC(t, c.ID, c.Hash, c.AuthKey, append(c.AAD, c.Ciphertext...), c.ICV)
	}
}

var integByHash = map[string]Integ{"sha1": IntegSHA1_96, "sha256": IntegSHA256_128, "sha384": IntegSHA384_192, "sha512": IntegSHA512_256}

// checkHMAC compares as many octets as want has, at least the ICV. Keys of other lengths than the algorithm's are not for NewHMAC.
func checkHMAC(t *testing.T, id, hash string, key, data, want []byte) bool {
	t.Helper()
	m, ok := MACByID(integByHash[hash])
	if !ok || len(key) != m.Key {
		return false
	}
	h, err := NewHMAC(m.ID, NewSecret(key))
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	h.Write(data)
	if got := h.Sum(nil); len(want) < m.ICV || !bytes.Equal(got[:len(want)], want) {
		t.Errorf("%s: %s %x, want %x", id, hash, got, want)
	}
	return true
}

func TestVectorsHMACSHA2(t *testing.T) {
	n := 0
	for _, c := range vectors[struct {
		ID        string
		Key, Data octets
		MAC       map[string]octets
	}](t, "hmac_sha2_rfc4868.json") {
		for name, hash := range map[string]string{"auth_sha256_128": "sha256", "auth_sha384_192": "sha384", "auth_sha512_256": "sha512"} {
			if want, ok := c.MAC[name]; ok && checkHMAC(t, c.ID, hash, c.Key, c.Data, want) {
				n++
			}
		}
	}
	if n == 0 {
		t.Error("no vector was used")
	}
}

func TestVectorsAEAD(t *testing.T) {
	type packet struct {
		ID                   string
		Key, Salt, IV, AAD   octets
		Plaintext            octets
		PlaintextWithTrailer octets `json:"plaintext_with_trailer"`
		Ciphertext, ICV      octets
		Packet               octets // IP header of 20 octets, SPI, sequence number, IV, ciphertext, ICV
		Message              octets
	}
	check := func(id Encr, c packet, plaintext, sealed []byte) {
		t.Helper()
		a, err := NewAEAD(id, NewSecret(append(append([]byte(nil), c.Key...), c.Salt...)))
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		if got := a.Seal(nil, c.IV, plaintext, c.AAD); !bytes.Equal(got, sealed) {
			t.Errorf("%s: sealed %x, want %x", c.ID, got, sealed)
		}
		if got, err := a.Open(nil, c.IV, sealed, c.AAD); err != nil || !bytes.Equal(got, plaintext) {
			t.Errorf("%s: opened %x, %v, want %x", c.ID, got, err, plaintext)
		}
		for i := range sealed {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1
			if _, err := a.Open(nil, c.IV, bad, c.AAD); err == nil {
				t.Errorf("%s: opens with octet %d changed", c.ID, i)
			}
		}
	}
	for _, name := range []string{"aead_aes_gcm_rfc4106_raw.json", "esp_aes_gcm_mcgrew.json"} {
		for _, c := range vectors[packet](t, name) {
			check(EncrAESGCM16, c, c.Plaintext, append(c.Ciphertext, c.ICV...))
		}
	}
	for _, c := range vectors[packet](t, "chacha20poly1305_rfc7634.json") {
		if c.Message == nil { // the IKE message is for ike/suite
			check(EncrChaCha20Poly1305, c, c.PlaintextWithTrailer, c.Packet[20+16:])
		}
	}
}
