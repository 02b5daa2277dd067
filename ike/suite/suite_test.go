package suite

import (
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

func TestString(t *testing.T) {
	for want, s := range map[string]IKE{
		"AES-GCM-256, SHA2-256, MODP-2048":                   {alg.EncrAESGCM16, 256, alg.IntegNone, wire.PRFHMACSHA256, wire.GroupMODP2048},
		"AES-CBC-256, SHA2-256, MODP-2048":                   {alg.EncrAESCBC, 256, alg.IntegSHA256_128, wire.PRFHMACSHA256, wire.GroupMODP2048},
		"ChaCha20-Poly1305, SHA2-512, X25519":                {alg.EncrChaCha20Poly1305, 0, alg.IntegNone, wire.PRFHMACSHA512, wire.GroupX25519},
		"AES-CBC-128, integrity SHA1, PRF SHA2-384, ECP-521": {alg.EncrAESCBC, 128, alg.IntegSHA1_96, wire.PRFHMACSHA384, wire.GroupECP521},
		"encryption 3, integrity MD5, PRF SHA1, MODP-1024":   {3, 0, 1, wire.PRFHMACSHA1, wire.GroupMODP1024},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What RFC 8247 says MUST be there is there.
func TestTrap_8247_1_MandatoryIsThere(t *testing.T) {
	for _, s := range []IKE{
		{alg.EncrAESCBC, 128, alg.IntegSHA256_128, wire.PRFHMACSHA256, wire.GroupMODP2048},
		{alg.EncrAESCBC, 256, alg.IntegSHA256_128, wire.PRFHMACSHA256, wire.GroupMODP2048},
		{alg.EncrAESCBC, 256, alg.IntegSHA512_256, wire.PRFHMACSHA512, wire.GroupECP256},
		{alg.EncrAESGCM16, 128, alg.IntegNone, wire.PRFHMACSHA256, wire.GroupECP256},
		{alg.EncrAESGCM16, 256, alg.IntegNone, wire.PRFHMACSHA256, wire.GroupECP256},
		{alg.EncrChaCha20Poly1305, 0, alg.IntegNone, wire.PRFHMACSHA512, wire.GroupX25519},
		{alg.EncrAESCBC, 128, alg.IntegSHA1_96, wire.PRFHMACSHA1, wire.GroupMODP2048}, // MUST-: policy decides
	} {
		if err := s.Validate(); err != nil || !Supported(s.Group) {
			t.Errorf("%s: %v, group supported %v", s, err, Supported(s.Group))
		}
	}
}
