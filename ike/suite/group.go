package suite

import (
	"crypto/ecdh"
	"io"

	"cygnet/ike/wire"
)

// method describes a key exchange method (IANA transform type 4).
type method struct {
	id     wire.GroupID
	public int // octets of key exchange data
	draw   func(rand io.Reader) (private, []byte, error)
}

// methods lists what is implemented, in order of preference. MODP groups under 2048 bits and those of RFC 5114 are not
// (RFC 8247 section 2.4).
func methods() []method {
	return []method{
		{wire.GroupX25519, 32, newX25519},
		{wire.GroupECP256, 64, ecp(ecdh.P256(), 256)},
		{wire.GroupECP384, 96, ecp(ecdh.P384(), 384)},
		{wire.GroupECP521, 132, ecp(ecdh.P521(), 521)},
		{wire.GroupMODP2048, 256, modp(modp2048, 256)},
		{wire.GroupMODP3072, 384, modp(modp3072, 320)},
		{wire.GroupMODP4096, 512, modp(modp4096, 384)},
	}
}

func ecp(curve ecdh.Curve, bits int) func(io.Reader) (private, []byte, error) {
	return func(rand io.Reader) (private, []byte, error) { return newECP(curve, bits, rand) }
}

func modp(prime string, exponent int) func(io.Reader) (private, []byte, error) {
	return func(rand io.Reader) (private, []byte, error) { return newMODP(prime, exponent, rand) }
}

func methodByID(g wire.GroupID) (method, bool) {
	for _, m := range methods() {
		if m.id == g {
			return m, true
		}
	}
	return method{}, false
}

// Groups lists the key exchange methods that are implemented, in order of preference.
func Groups() []wire.GroupID {
	var ids []wire.GroupID
	for _, m := range methods() {
		ids = append(ids, m.id)
	}
	return ids
}

// Supported reports whether a key exchange method is implemented.
func Supported(g wire.GroupID) bool {
	_, ok := methodByID(g)
	return ok
}

// PublicLen is the length in octets of the key exchange data of g; 0 when g is not implemented. A KE payload of another length
// can be refused before any work is done for it.
func PublicLen(g wire.GroupID) int {
	m, _ := methodByID(g)
	return m.public
}

// DHName names a key exchange method as people read it, also one that is not implemented: "MODP-2048", "ECP-256", "X25519".
func DHName(g wire.GroupID) string { return g.Word() }
