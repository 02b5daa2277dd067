package auth

import (
	"crypto/subtle"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// keyPad is 17 ASCII characters without terminator (RFC 7296 section 2.15).
const keyPad = "Key Pad for IKEv2"

// SharedKeyMAC computes AUTH for a pre-shared key: prf(prf(PSK, "Key Pad for IKEv2"), message | nonce | prf(skp, idBody)).
// message is the signer's own IKE_SA_INIT message as it was on the wire, nonce the other side's, idBody the signer's ID body.
func SharedKeyMAC(prf wire.PRFID, psk alg.Secret, message, nonce []byte, skp alg.Secret, idBody []byte) []byte {
	key := suite.PRF(prf, psk.Bytes(), []byte(keyPad))
	defer clear(key)
	return suite.PRF(prf, key, message, nonce, suite.PRF(prf, skp.Bytes(), idBody))
}

// VerifySharedKey checks the AUTH data that a peer sent, in constant time; the other arguments are the peer's, as in SharedKeyMAC.
// An empty psk stands for an identity that has none: the same work is done, so that the peer cannot tell by the time, and the
// answer is false.
func VerifySharedKey(prf wire.PRFID, psk alg.Secret, message, nonce []byte, skp alg.Secret, idBody, auth []byte) bool {
	want := SharedKeyMAC(prf, psk, message, nonce, skp, idBody)
	equal := subtle.ConstantTimeCompare(want, auth) == 1
	return equal && psk.Len() > 0
}
