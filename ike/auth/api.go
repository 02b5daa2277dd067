// Package auth holds identities and the proofs of them: the signed octets and the shared-key AUTH of RFC 7296 section 2.15.
package auth

import (
	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// Identity is an IKE identity (RFC 7296 section 3.5).
type Identity struct {
	Type wire.IDType
	Data string // octets of the identification data
}

// ParseIdentity reads the words users know: an IP address, "name.example" or "@name.example" (FQDN), "user@example" (RFC822),
// "keyid:text" or "keyid:0x..." (KEY_ID), or an explicit "fqdn:", "rfc822:", "ipv4:", "ipv6:".
func ParseIdentity(s string) (Identity, error) { panic("contract") }

// FromPayload checks the lengths that the type demands.
func FromPayload(p *wire.ID) (Identity, error) { panic("contract") }

// Payload builds the ID payload.
func (id Identity) Payload(responder bool) *wire.ID { panic("contract") }

// String is printable and bounded, also for identities that a peer sent.
func (id Identity) String() string { panic("contract") }

// Equal compares types and data; FQDN and RFC822 domains without regard to case.
func (id Identity) Equal(o Identity) bool { panic("contract") }

// SharedKeyMAC computes AUTH for a pre-shared key: prf(prf(PSK, "Key Pad for IKEv2"), message | nonce | prf(skp, idBody)).
// message is the signer's own IKE_SA_INIT message as it was on the wire, nonce the other side's, idBody the signer's ID body.
func SharedKeyMAC(prf wire.PRFID, psk alg.Secret, message, nonce []byte, skp alg.Secret, idBody []byte) []byte {
	panic("contract")
}

var _ = suite.PRF
