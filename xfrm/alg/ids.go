// Package alg is the leaf under both planes: secrets, and the descriptors of the algorithms that an SA can use.
// It knows sizes and names; it does no I/O and holds no state.
//
// Sources: IANA "Internet Key Exchange Version 2 (IKEv2) Parameters", RFC 3602, RFC 4106, RFC 4868, RFC 7634.
package alg

// Encr is an IANA IKEv2 Encryption Algorithm Transform ID (transform type 1).
type Encr uint16

// Integ is an IANA IKEv2 Integrity Algorithm Transform ID (transform type 3).
type Integ uint16

const (
	EncrAESCBC           Encr = 12 // RFC 3602
	EncrAESGCM16         Encr = 20 // RFC 4106
	EncrChaCha20Poly1305 Encr = 28 // RFC 7634

	IntegNone       Integ = 0
	IntegSHA1_96    Integ = 2  // RFC 2404
	IntegSHA256_128 Integ = 12 // RFC 4868
	IntegSHA384_192 Integ = 13
	IntegSHA512_256 Integ = 14
)

// Cipher describes an encryption algorithm. Sizes are in octets unless named otherwise.
type Cipher struct {
	ID       Encr
	Name     string // as in a configuration file without the key length: "aes", "aes-gcm16", "chacha20poly1305"
	Label    string // as people read it, without the key length: "AES-GCM"
	KeyBits  []int  // allowed key lengths in bits, strongest first
	FixedKey bool   // the key length is not sent as an attribute (RFC 7296 section 3.3.5)
	Salt     int    // octets of salt that follow the key in KEYMAT
	IV       int    // octets of IV in each packet
	Block    int    // alignment of the plaintext
	ICV      int    // octets of ICV when AEAD, else 0
	Kernel   string // Linux crypto API name: "cbc(aes)", "rfc4106(gcm(aes))", "rfc7539esp(chacha20,poly1305)"
}

// AEAD reports whether the cipher authenticates by itself.
func (c *Cipher) AEAD() bool { return c.ICV > 0 }

// MAC describes an integrity algorithm. Sizes are in octets.
type MAC struct {
	ID     Integ
	Name   string // as in a configuration file: "sha256"
	Label  string // as people read it: "SHA2-256"
	Key    int
	ICV    int    // octets sent
	Kernel string // Linux crypto API name: "hmac(sha256)"
}

// TruncBits is the length of the ICV in bits. The kernel must be told it: its own default for SHA2-256 is the 96 bits of an old
// draft (RFC 8221 section 6).
func (m *MAC) TruncBits() int { return 8 * m.ICV }

// ICVBits is the length of an AEAD's ICV in bits, as the kernel wants it.
func (c *Cipher) ICVBits() int { return 8 * c.ICV }
