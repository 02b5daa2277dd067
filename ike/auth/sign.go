package auth

import "cygnet/ike/wire"

// SignatureRules say which signatures a connection makes and accepts.
type SignatureRules struct {
	// Hashes is nil when SIGNATURE_HASH_ALGORITHMS did not go both ways: only the methods 1, 9, 10 and 11 are left. Else it is the peer's
	// list for signing and ours for verifying.
	Hashes []wire.HashID
	SHA1   bool // the configuration allows SHA-1 with method 1; with RFC 7427 it is never accepted (RFC 8247 section 3)
	PKCS1  bool // signing with method 14: RSASSA-PKCS1-v1_5 instead of RSASSA-PSS
}

// Signed is a signature that was made.
type Signed struct {
	Auth   *wire.Auth
	Scheme string // "RSA-PSS with SHA2-512"
	Note   string // why the peer may refuse it and what to do then, or ""
}

// Sign makes AUTH over SignedOctets: RFC 7427 when the peer knows it, else methods 1, 9, 10 or 11. Nothing random goes into it: the same key and octets
// give the same signature. It belongs in a job.
func (k *PrivateKey) Sign(octets []byte, rules SignatureRules) (*Signed, *Fault) {
	return nil, &Fault{Code: FaultOwnKey, Why: "signatures are not made yet"}
}

// VerifySignature checks AUTH over the peer's SignedOctets and names the scheme, also of one that does not verify.
func VerifySignature(key *PublicKey, octets []byte, proof *wire.Auth, rules SignatureRules) (scheme string, f *Fault) {
	return "", &Fault{Code: FaultSignature, Why: "signatures are not checked yet"}
}

// IsSignature reports whether a method is one of those that VerifySignature knows.
func IsSignature(m wire.AuthMethod) bool {
	switch m {
	case wire.AuthRSASignature, wire.AuthECDSA256, wire.AuthECDSA384, wire.AuthECDSA521, wire.AuthDigitalSignature:
		return true
	}
	return false
}

// Hashes is what we list in SIGNATURE_HASH_ALGORITHMS, strongest first. Identity stands for Ed25519 (RFC 8420 section 2).
func Hashes() []wire.HashID {
	return []wire.HashID{wire.HashSHA512, wire.HashSHA384, wire.HashSHA256, wire.HashIdentity}
}

// ParseHashes reads the data of SIGNATURE_HASH_ALGORITHMS (RFC 7427 section 4). Unknown numbers come too; the result is not nil unless there is an error.
func ParseHashes(data []byte) ([]wire.HashID, error) { return nil, nil }

// AppendHashes builds the data of SIGNATURE_HASH_ALGORITHMS.
func AppendHashes(b []byte, hashes []wire.HashID) []byte { return b }
