package esp

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// Outbound seals the packets of one SA.
type Outbound struct {
	layout
	spi       uint32
	seq       uint64 // of the last packet sent
	last      uint64 // the last there is
	transform transform
	ivs       *ivSource // CBC only
}

// NewOutbound makes the sender's side of an SA. The keys are copied. rand is read once, for ciphers whose IV must be unpredictable.
func NewOutbound(sa xfrm.SA, rand io.Reader) (*Outbound, error) {
	if sa.ID.SPI < 256 { // RFC 4303 section 2.1: 0 is for local use, 1..255 are reserved
		return nil, fmt.Errorf("%s: SPIs below 256 are reserved", sa.ID)
	}
	l, err := layoutOf(sa.Suite)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sa.ID, err)
	}
	o := &Outbound{layout: l, spi: sa.ID.SPI, last: math.MaxUint32}
	if l.esn {
		o.last = math.MaxUint64
	}
	if o.transform, err = newTransform(&sa, l); err != nil {
		return nil, err
	}
	if sa.Suite.Integ != alg.IntegNone {
		if o.ivs, err = newIVSource(rand); err != nil {
			return nil, fmt.Errorf("%s: %w", sa.ID, err)
		}
	}
	return o, nil
}

// Seal appends the ESP packet that carries inner to dst. It allocates only when dst lacks Len(len(inner)) octets of capacity. inner has TrailerRoom
// octets of capacity behind it, where the trailer is put for the moment, so that the cipher moves the packet and nothing is copied; what was there is
// restored. None of that overlaps the room behind dst. The error is ErrSequence or ErrWiped; dst is then returned as it was.
func (o *Outbound) Seal(dst, inner []byte, nextHeader uint8) ([]byte, error) {
	start := len(dst)
	dst, err := o.begin(dst, len(inner))
	if err != nil {
		return dst, err
	}
	p := dst[start:]
	ivEnd, end := headerLen+o.iv, len(p)-o.icv
	plain := inner[:end-ivEnd]
	trailer := plain[len(inner):]
	var before [TrailerRoom]byte
	copy(before[:], trailer)
	putTrailer(trailer, nextHeader)
	o.transform.seal(p, plain, ivEnd, end, o.seq)
	copy(trailer, before[:])
	return dst, nil
}

// TrailerRoom is the most that padding, pad length and next header take.
const TrailerRoom = aes.BlockSize - 1 + trailerLen

// begin takes the next sequence number and appends room for the packet that carries n octets, with its header and IV, to dst.
func (o *Outbound) begin(dst []byte, n int) ([]byte, error) {
	if o.transform == nil {
		return dst, ErrWiped
	}
	if o.seq == o.last {
		return dst, ErrSequence
	}
	o.seq++
	start, size := len(dst), o.sealed(n)
	dst = slices.Grow(dst, size)[:start+size]
	p := dst[start:]
	binary.BigEndian.PutUint32(p, o.spi)
	binary.BigEndian.PutUint32(p[4:], uint32(o.seq))
	iv := p[headerLen : headerLen+o.iv]
	if o.ivs != nil {
		o.ivs.next(iv)
	} else {
		// The sequence number never repeats under a key, so neither does the nonce (RFC 4106 section 3.1).
		binary.BigEndian.PutUint64(iv, o.seq)
	}
	return dst, nil
}

// putTrailer fills b with padding 1, 2, 3..., its length and the next header (RFC 4303 section 2.4).
func putTrailer(b []byte, nextHeader uint8) {
	pad := len(b) - trailerLen
	for i := range pad {
		b[i] = byte(i + 1)
	}
	b[pad], b[pad+1] = byte(pad), nextHeader
}

// Len is the length of the ESP packet that carries n octets.
func (o *Outbound) Len(n int) int { return o.sealed(n) }

// Sequence is the number of the last packet sealed; 0 before the first.
func (o *Outbound) Sequence() uint64 { return o.seq }

// Wipe takes the SA out of use. The cipher's own copies of the keys are left to the garbage collector.
func (o *Outbound) Wipe() { o.transform, o.ivs = nil, nil }

// ivSource draws unpredictable IVs (RFC 3602 section 3) from AES-256-CTR under a key of its own, which costs no system call and no
// allocation.
type ivSource struct{ stream cipher.Stream }

func newIVSource(rand io.Reader) (*ivSource, error) {
	var seed [32 + aes.BlockSize]byte
	defer clear(seed[:])
	if _, err := io.ReadFull(rand, seed[:]); err != nil {
		return nil, fmt.Errorf("seed the IVs: %w", err)
	}
	block, err := aes.NewCipher(seed[:32])
	if err != nil {
		return nil, err
	}
	return &ivSource{cipher.NewCTR(block, seed[32:])}, nil
}

func (s *ivSource) next(iv []byte) {
	clear(iv)
	s.stream.XORKeyStream(iv, iv)
}
