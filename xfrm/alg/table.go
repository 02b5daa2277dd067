package alg

import "fmt"

// Ciphers lists the encryption algorithms that are implemented, in order of preference. The result is the caller's own.
func Ciphers() []Cipher {
	return []Cipher{
		{ // RFC 4106, RFC 5282
			ID: EncrAESGCM16, Name: "aes-gcm16", Label: "AES-GCM", KeyBits: []int{256, 192, 128},
			Salt: 4, IV: 8, Block: 1, ICV: 16, Kernel: "rfc4106(gcm(aes))",
		},
		{ // RFC 7634: the one key length is never an attribute (section 4)
			ID: EncrChaCha20Poly1305, Name: "chacha20poly1305", Label: "ChaCha20-Poly1305", KeyBits: []int{256}, FixedKey: true,
			Salt: 4, IV: 8, Block: 1, ICV: 16, Kernel: "rfc7539esp(chacha20,poly1305)",
		},
		{ // RFC 3602
			ID: EncrAESCBC, Name: "aes", Label: "AES-CBC", KeyBits: []int{256, 192, 128},
			IV: 16, Block: 16, Kernel: "cbc(aes)",
		},
	}
}

// MACs lists the integrity algorithms that are implemented, in order of preference. The result is the caller's own.
func MACs() []MAC {
	return []MAC{
		{ID: IntegSHA256_128, Name: "sha256", Label: "SHA2-256", Key: 32, ICV: 16, Kernel: "hmac(sha256)"}, // RFC 4868 section 2.1.1
		{ID: IntegSHA384_192, Name: "sha384", Label: "SHA2-384", Key: 48, ICV: 24, Kernel: "hmac(sha384)"},
		{ID: IntegSHA512_256, Name: "sha512", Label: "SHA2-512", Key: 64, ICV: 32, Kernel: "hmac(sha512)"},
		{ID: IntegSHA1_96, Name: "sha1", Label: "SHA1", Key: 20, ICV: 12, Kernel: "hmac(sha1)"}, // RFC 2404
	}
}

// CipherByID finds the descriptor of an encryption algorithm; false when it is not implemented.
func CipherByID(id Encr) (Cipher, bool) {
	for _, c := range Ciphers() {
		if c.ID == id {
			return c, true
		}
	}
	return Cipher{}, false
}

// MACByID finds the descriptor of an integrity algorithm; false when it is not implemented, and for IntegNone.
func MACByID(id Integ) (MAC, bool) {
	for _, m := range MACs() {
		if m.ID == id {
			return m, true
		}
	}
	return MAC{}, false
}

// keyBits returns the key length in bits that stands for bits: algorithms of one key length accept 0, the absence of the
// Key Length attribute; all others demand it (RFC 7296 section 3.3.5).
func (c *Cipher) keyBits(bits int) (int, error) {
	if c.FixedKey && bits == 0 {
		return c.KeyBits[0], nil
	}
	for _, b := range c.KeyBits {
		if b == bits {
			return b, nil
		}
	}
	return 0, fmt.Errorf("%s with a key of %d bits: it has keys of %v bits", c.Label, bits, c.KeyBits)
}

// KeyLens returns the octets of keying material that one direction of an SA takes: encryption key with its salt, and integrity
// key. keyBits is the Key Length attribute, without salt; 0 is right only for an algorithm of fixed key length. A cipher that does not
// authenticate needs an integrity algorithm (RFC 8221 section 4) and an AEAD must not have one (RFC 5282 section 8).
func KeyLens(e Encr, keyBits int, i Integ) (encr, integ int, err error) {
	c, ok := CipherByID(e)
	if !ok {
		return 0, 0, fmt.Errorf("encryption algorithm %d is not implemented", e)
	}
	bits, err := c.keyBits(keyBits)
	if err != nil {
		return 0, 0, err
	}
	encr = bits/8 + c.Salt
	switch m, ok := MACByID(i); {
	case c.AEAD() && i != IntegNone:
		return 0, 0, fmt.Errorf("%s with integrity algorithm %d: it authenticates by itself and takes none", c.Label, i)
	case c.AEAD():
		return encr, 0, nil
	case i == IntegNone:
		return 0, 0, fmt.Errorf("%s without an integrity algorithm: it does not authenticate by itself", c.Label)
	case !ok:
		return 0, 0, fmt.Errorf("integrity algorithm %d is not implemented", i)
	default:
		return encr, m.Key, nil
	}
}

// Describe names a cipher with its key length as people read it: "AES-GCM-256", "ChaCha20-Poly1305"; "encryption 3" when it is not
// implemented.
func Describe(e Encr, keyBits int) string {
	c, ok := CipherByID(e)
	switch {
	case !ok:
		return fmt.Sprintf("encryption %d", e)
	case c.FixedKey:
		return c.Label
	default:
		return fmt.Sprintf("%s-%d", c.Label, keyBits)
	}
}

// DescribeMAC names an integrity algorithm as people read it: "SHA2-256"; "integrity 1" when it is not implemented.
func DescribeMAC(i Integ) string {
	if m, ok := MACByID(i); ok {
		return m.Label
	}
	return fmt.Sprintf("integrity %d", i)
}
