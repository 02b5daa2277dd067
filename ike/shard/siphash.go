package shard

import (
	"encoding/binary"
	"math/bits"
)

// sipHash is SipHash-2-4 (Aumasson, Bernstein, 2012) of b. A keyed hash, so that nobody outside can choose SPIs that all land on one shard;
// hash/maphash would do but for its key, which cannot be handed over to the next process.
func sipHash(key [16]byte, b []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	v := sipState{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		v.absorb(binary.LittleEndian.Uint64(b))
	}
	for i, x := range b {
		last |= uint64(x) << (8 * i)
	}
	v.absorb(last)
	v.c ^= 0xff
	for range 4 {
		v.round()
	}
	return v.a ^ v.b ^ v.c ^ v.d
}

type sipState struct{ a, b, c, d uint64 }

func (v *sipState) absorb(m uint64) {
	v.d ^= m
	v.round()
	v.round()
	v.a ^= m
}

func (v *sipState) round() {
	v.a += v.b
	v.b = bits.RotateLeft64(v.b, 13) ^ v.a
	v.a = bits.RotateLeft64(v.a, 32)
	v.c += v.d
	v.d = bits.RotateLeft64(v.d, 16) ^ v.c
	v.a += v.d
	v.d = bits.RotateLeft64(v.d, 21) ^ v.a
	v.c += v.b
	v.b = bits.RotateLeft64(v.b, 17) ^ v.c
	v.c = bits.RotateLeft64(v.c, 32)
}
