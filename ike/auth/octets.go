package auth

import (
	"slices"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// SignedOctets are InitiatorSignedOctets or ResponderSignedOctets (RFC 7296 section 2.15): message | nonce | prf(skp, idBody). message is the
// signer's own IKE_SA_INIT message as it was on the wire, nonce the other side's, idBody the signer's ID body. The result is a copy, which may
// leave for a job.
func SignedOctets(prf wire.PRFID, message, nonce []byte, skp alg.Secret, idBody []byte) []byte {
	return slices.Concat(message, nonce, suite.PRF(prf, skp.Bytes(), idBody))
}
