package wiretap

import (
	"fmt"
	"io"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// This file is for peers that have keys and do not keep to the RFC.

// SealOctets is Seal for a plaintext of any kind, whose first payload is said to be of type first.
func (t *Tap) SealOctets(h wire.Header, first wire.PayloadType, plain []byte, rand io.Reader) ([]byte, error) {
	s := t.sessions[[2]wire.SPI{h.SPIi, h.SPIr}]
	if s == nil {
		return nil, fmt.Errorf("the keys of IKE SA %016x/%016x are unknown", uint64(h.SPIi), uint64(h.SPIr))
	}
	if h.Initiator() { // who opens the responder's messages seals as the initiator
		return s.fromR.Seal(h, first, plain, rand)
	}
	return s.fromI.Seal(h, first, plain, rand)
}

// Prove computes the AUTH data of the sender that the header names, over the IKE_SA_INIT messages as they were on the wire.
func (t *Tap) Prove(h wire.Header, psk alg.Secret, idBody []byte) ([]byte, bool) {
	s := t.sessions[[2]wire.SPI{h.SPIi, h.SPIr}]
	if s == nil || s.initI == nil {
		return nil, false
	}
	prf := s.keys.Suite.PRF
	if h.Initiator() {
		return auth.SharedKeyMAC(prf, psk, s.initI, s.nr, s.keys.Pi, idBody), true
	}
	return auth.SharedKeyMAC(prf, psk, s.initR, s.ni, s.keys.Pr, idBody), true
}
