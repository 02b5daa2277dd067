package suite

import (
	"crypto/cipher"
	"crypto/hmac"
	"errors"
	"fmt"
	"hash"
	"io"

	"cygnet/xfrm/alg"
)

// cbcTransform encrypts with AES-CBC, then authenticates with HMAC the whole message from the IKE header through the Pad Length, in its
// encrypted form and with its final lengths (RFC 7296 section 3.14).
type cbcTransform struct {
	encrypt, decrypt cbcMode
	mac              hash.Hash
	icv              int
	sum              [64]byte // scratch for the MAC, as long as the longest hash
}

// cbcMode is a block mode of the standard library that takes a new IV, so that it is made once for a key and not for each message.
type cbcMode interface {
	cipher.BlockMode
	SetIV([]byte)
}

const cbcBlock = 16

func newCBC(id alg.Encr, key alg.Secret, integ alg.Integ, integKey alg.Secret) (transform, error) {
	block, err := alg.NewBlock(id, key)
	if err != nil {
		return nil, err
	}
	mac, err := alg.NewHMAC(integ, integKey)
	if err != nil {
		return nil, err
	}
	m, _ := alg.MACByID(integ)
	c := &cbcTransform{mac: mac, icv: m.ICV}
	var zero [cbcBlock]byte
	var ok1, ok2 bool
	c.encrypt, ok1 = cipher.NewCBCEncrypter(block, zero[:]).(cbcMode)
	c.decrypt, ok2 = cipher.NewCBCDecrypter(block, zero[:]).(cbcMode)
	if !ok1 || !ok2 {
		return nil, errors.New("crypto/cipher has no CBC mode that takes a new IV")
	}
	return c, nil
}

// bodyLen counts IV, plaintext with Pad Length up to a whole block, ICV.
func (c *cbcTransform) bodyLen(n int) int {
	return cbcBlock + (n/cbcBlock+1)*cbcBlock + c.icv
}

func (c *cbcTransform) seal(head, plaintext []byte, rand io.Reader) ([]byte, error) {
	content := len(head) + cbcBlock
	msg := head[:content]
	iv := msg[len(head):]
	if _, err := io.ReadFull(rand, iv); err != nil { // unpredictable (RFC 7296 section 3.14)
		return nil, fmt.Errorf("draw an initialization vector: %w", err)
	}
	msg = append(msg, plaintext...)
	pad := cbcBlock - 1 - len(plaintext)%cbcBlock
	for range pad {
		msg = append(msg, 0)
	}
	msg = append(msg, byte(pad))
	c.encrypt.SetIV(iv)
	c.encrypt.CryptBlocks(msg[content:], msg[content:])
	return append(msg, c.tag(msg)...), nil
}

func (c *cbcTransform) open(msg []byte, body int) []byte {
	end := len(msg) - c.icv
	n := end - body - cbcBlock
	if n < cbcBlock || n%cbcBlock != 0 {
		return nil
	}
	if !hmac.Equal(c.tag(msg[:end]), msg[end:]) { // before anything of the content is looked at
		return nil
	}
	plaintext := make([]byte, n)
	c.decrypt.SetIV(msg[body : body+cbcBlock])
	c.decrypt.CryptBlocks(plaintext, msg[body+cbcBlock:end])
	return unpad(plaintext)
}

// tag computes the ICV over b into the scratch.
func (c *cbcTransform) tag(b []byte) []byte {
	c.mac.Reset()
	c.mac.Write(b)
	return c.mac.Sum(c.sum[:0])[:c.icv]
}
