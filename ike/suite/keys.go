package suite

import (
	"encoding/binary"
	"errors"
	"fmt"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// Keys of an IKE SA (RFC 7296 section 2.14).
type Keys struct {
	Suite                     IKE
	D, Ai, Ar, Ei, Er, Pi, Pr alg.Secret
}

// Derive makes the keys of a new IKE SA.
func Derive(s IKE, shared alg.Secret, ni, nr []byte, spii, spir wire.SPI) (*Keys, error) {
	if err := s.check(shared); err != nil {
		return nil, err
	}
	// SKEYSEED = prf(Ni | Nr, g^ir). HMAC takes a key of any length: the first octets of each nonce concern other PRFs alone.
	nonces := append(append(make([]byte, 0, len(ni)+len(nr)), ni...), nr...)
	return expand(s, PRF(s.PRF, nonces, shared.Bytes()), ni, nr, spii, spir)
}

// DeriveRekey makes the keys of an IKE SA that replaces old (RFC 7296 section 2.18): SKEYSEED = prf(SK_d (old), g^ir (new) | Ni | Nr) with
// the PRF of the old IKE SA, all else with that of the new. The SPIs are those of the SA payloads.
func (old *Keys) DeriveRekey(s IKE, shared alg.Secret, ni, nr []byte, spii, spir wire.SPI) (*Keys, error) {
	if err := s.check(shared); err != nil {
		return nil, err
	}
	if err := old.alive(); err != nil {
		return nil, err
	}
	return expand(s, PRF(old.Suite.PRF, old.D.Bytes(), shared.Bytes(), ni, nr), ni, nr, spii, spir)
}

// check refuses what would make keys that nobody should have.
func (s IKE) check(shared alg.Secret) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if shared.Len() == 0 {
		return errors.New("keys of an IKE SA: no shared secret")
	}
	return nil
}

// alive refuses keys that were wiped or never made: SK_d of all zeros would be known to everyone.
func (k *Keys) alive() error {
	var bits byte
	for _, b := range k.D.Bytes() {
		bits |= b
	}
	if bits == 0 {
		return errors.New("the keys of the IKE SA are gone")
	}
	return nil
}

// expand cuts prf+(SKEYSEED, Ni | Nr | SPIi | SPIr) into keys, in the order of RFC 7296 section 2.14. It wipes skeyseed.
func expand(s IKE, skeyseed, ni, nr []byte, spii, spir wire.SPI) (*Keys, error) {
	defer clear(skeyseed)
	encr, integ, err := alg.KeyLens(s.Encr, s.KeyBits, s.Integ)
	if err != nil {
		return nil, err
	}
	var spis [16]byte
	binary.BigEndian.PutUint64(spis[:8], uint64(spii))
	binary.BigEndian.PutUint64(spis[8:], uint64(spir))
	d := PRFLen(s.PRF)
	mat, err := prfPlus(s.PRF, skeyseed, 3*d+2*integ+2*encr, ni, nr, spis[:])
	if err != nil {
		return nil, err
	}
	k := &Keys{Suite: s}
	cut(mat, part{&k.D, d}, part{&k.Ai, integ}, part{&k.Ar, integ}, part{&k.Ei, encr}, part{&k.Er, encr}, part{&k.Pi, d}, part{&k.Pr, d})
	return k, nil
}

// Wipe forgets all keys.
func (k *Keys) Wipe() {
	for _, s := range []alg.Secret{k.D, k.Ai, k.Ar, k.Ei, k.Er, k.Pi, k.Pr} {
		s.Wipe()
	}
}

// ChildKeys holds the keys of a Child SA pair, each direction encryption (with salt) and integrity.
type ChildKeys struct{ EncrI2R, IntegI2R, EncrR2I, IntegR2I alg.Secret }

// Child makes KEYMAT (RFC 7296 section 2.17). shared is empty without PFS. encrLen (key + salt) and integLen are in octets.
// I2R is from the initiator of the exchange that made the child.
func (k *Keys) Child(shared alg.Secret, ni, nr []byte, encrLen, integLen int) (*ChildKeys, error) {
	if err := k.alive(); err != nil {
		return nil, err
	}
	if encrLen < 0 || integLen < 0 || encrLen > 1024 || integLen > 1024 {
		return nil, fmt.Errorf("keying material of %d and %d octets", encrLen, integLen)
	}
	mat, err := prfPlus(k.Suite.PRF, k.D.Bytes(), 2*(encrLen+integLen), shared.Bytes(), ni, nr)
	if err != nil {
		return nil, err
	}
	c := new(ChildKeys)
	cut(mat, part{&c.EncrI2R, encrLen}, part{&c.IntegI2R, integLen}, part{&c.EncrR2I, encrLen}, part{&c.IntegR2I, integLen})
	return c, nil
}

// Wipe forgets the keys, also where a data plane still shares their octets.
func (c *ChildKeys) Wipe() {
	for _, s := range []alg.Secret{c.EncrI2R, c.IntegI2R, c.EncrR2I, c.IntegR2I} {
		s.Wipe()
	}
}

// part says where the next octets of keying material go.
type part struct {
	to  *alg.Secret
	len int
}

// cut hands out mat in order. Each secret owns its own stretch of it.
func cut(mat []byte, parts ...part) {
	for _, p := range parts {
		*p.to = alg.NewSecret(mat[:p.len:p.len])
		mat = mat[p.len:]
	}
}
