package esp

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// transform protects the octets of one packet whose layout is fixed by then. Both kinds hold their scratch space.
type transform interface {
	// seal encrypts plain, which has end-ivEnd octets, to p[ivEnd:end] and puts the ICV behind it. plain is that part of p itself or lies apart
	// from p.
	seal(p, plain []byte, ivEnd, end int, seq uint64)
	// open checks the ICV behind p[:end], then decrypts p[ivEnd:end] in place.
	open(p []byte, ivEnd, end int, seq uint64) bool
}

func newTransform(sa *xfrm.SA, l layout) (transform, error) {
	encr, integ, err := alg.KeyLens(sa.Suite.Encr, sa.Suite.KeyBits, sa.Suite.Integ)
	if err != nil {
		return nil, err
	}
	if sa.EncrKey.Len() != encr || sa.IntegKey.Len() != integ {
		return nil, fmt.Errorf("%s: keys of %d and %d octets, want %d and %d", sa.ID, sa.EncrKey.Len(), sa.IntegKey.Len(), encr, integ)
	}
	if NullCrypto {
		return newNull(), nil
	}
	if sa.Suite.Integ == alg.IntegNone {
		a, err := alg.NewAEAD(sa.Suite.Encr, sa.EncrKey)
		if err != nil {
			return nil, err
		}
		return &combined{aead: a, layout: l}, nil
	}
	block, err := alg.NewBlock(sa.Suite.Encr, sa.EncrKey)
	if err != nil {
		return nil, err
	}
	mac, err := alg.NewHMAC(sa.Suite.Integ, sa.IntegKey)
	if err != nil {
		return nil, err
	}
	t := &separate{mac: mac, layout: l}
	zero := make([]byte, block.BlockSize())
	t.encrypt, _ = cipher.NewCBCEncrypter(block, zero).(chained)
	t.decrypt, _ = cipher.NewCBCDecrypter(block, zero).(chained)
	if t.encrypt == nil || t.decrypt == nil {
		return nil, fmt.Errorf("%s: this CBC mode cannot change its IV", sa.ID)
	}
	return t, nil
}

// combined is an AEAD: AES-GCM, ChaCha20-Poly1305.
type combined struct {
	aead *alg.AEAD
	layout
	aad [12]byte
}

// associated builds the AAD: SPI | sequence number, with ESN SPI | high | low (RFC 4106 section 5, RFC 7634 section 2.1).
func (t *combined) associated(p []byte, seq uint64) []byte {
	copy(t.aad[:4], p)
	if t.esn {
		binary.BigEndian.PutUint64(t.aad[4:], seq)
		return t.aad[:12]
	}
	copy(t.aad[4:8], p[4:8])
	return t.aad[:8]
}

func (t *combined) seal(p, plain []byte, ivEnd, _ int, seq uint64) {
	t.aead.Seal(p[ivEnd:ivEnd], p[headerLen:ivEnd], plain, t.associated(p, seq))
}

func (t *combined) open(p []byte, ivEnd, end int, seq uint64) bool {
	_, err := t.aead.Open(p[ivEnd:ivEnd], p[headerLen:ivEnd], p[ivEnd:end+t.icv], t.associated(p, seq))
	return err == nil
}

// chained is a CBC mode that is used for one packet after another.
type chained interface {
	cipher.BlockMode
	SetIV([]byte)
}

// separate is AES-CBC with an HMAC, encrypt-then-MAC.
type separate struct {
	encrypt, decrypt chained
	mac              hash.Hash
	layout
	high [4]byte
	sum  [64]byte
}

// authenticate computes the ICV over SPI to Next Header, with ESN followed by the high half of the sequence number, which is not
// sent (RFC 4303 sections 2.8 and 3.3.2.1).
func (t *separate) authenticate(p []byte, seq uint64) []byte {
	t.mac.Reset()
	t.mac.Write(p)
	if t.esn {
		binary.BigEndian.PutUint32(t.high[:], uint32(seq>>32))
		t.mac.Write(t.high[:])
	}
	return t.mac.Sum(t.sum[:0])[:t.icv]
}

func (t *separate) seal(p, plain []byte, ivEnd, end int, seq uint64) {
	t.encrypt.SetIV(p[headerLen:ivEnd])
	t.encrypt.CryptBlocks(p[ivEnd:end], plain)
	copy(p[end:], t.authenticate(p[:end], seq))
}

func (t *separate) open(p []byte, ivEnd, end int, seq uint64) bool {
	if subtle.ConstantTimeCompare(t.authenticate(p[:end], seq), p[end:end+t.icv]) != 1 {
		return false
	}
	t.decrypt.SetIV(p[headerLen:ivEnd])
	t.decrypt.CryptBlocks(p[ivEnd:end], p[ivEnd:end])
	return true
}
