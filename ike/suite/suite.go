// Package suite turns negotiated transforms into keys and protected messages: prf and prf+, the key schedule of RFC 7296
// sections 2.13 to 2.18, the key exchange methods, sealing and opening of SK and SKF payloads. It draws randomness only
// from the reader it is given and does no I/O.
package suite

import (
	"fmt"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// IKE is the suite of an IKE SA.
type IKE struct {
	Encr    alg.Encr
	KeyBits int
	Integ   alg.Integ // IntegNone with AEAD
	PRF     wire.PRFID
	Group   wire.GroupID
}

// String is like "AES-GCM-256, SHA2-256, MODP-2048". The hash is that of the PRF and, where there is one, of the integrity algorithm;
// when the two differ both are named.
func (s IKE) String() string {
	encr, prf, dh := alg.Describe(s.Encr, s.KeyBits), PRFName(s.PRF), DHName(s.Group)
	if s.Integ != alg.IntegNone {
		if integ := wire.IntegWord(uint16(s.Integ)); integ != prf {
			return fmt.Sprintf("%s, integrity %s, PRF %s, %s", encr, integ, prf, dh)
		}
	}
	return fmt.Sprintf("%s, %s, %s", encr, prf, dh)
}

// Validate reports whether the transforms are implemented and fit together. It does not look at Group, which a rekey may do without
// here: KeyExchange has its own say.
func (s IKE) Validate() error {
	if _, _, err := alg.KeyLens(s.Encr, s.KeyBits, s.Integ); err != nil {
		return err
	}
	if PRFLen(s.PRF) == 0 {
		return fmt.Errorf("PRF %s is not implemented", PRFName(s.PRF))
	}
	return nil
}
