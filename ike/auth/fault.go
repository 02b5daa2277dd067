package auth

// FaultCode is a stable word for the reason why a proof of identity is refused.
type FaultCode string

const (
	FaultSignature   FaultCode = "signature"          // AUTH does not verify, or is not well formed
	FaultMethod      FaultCode = "auth-method"        // a method, a hash or parameters that we do not accept
	FaultKey         FaultCode = "key"                // a key of a kind or size that proves nothing
	FaultNone        FaultCode = "no-certificate"     // no certificate came, and there is none here
	FaultMalformed   FaultCode = "certificate"        // a certificate that cannot be read or used
	FaultIssuer      FaultCode = "issuer"             // the chain does not end at a trusted CA
	FaultDate        FaultCode = "certificate-date"   // not valid yet, or not any more
	FaultUsage       FaultCode = "certificate-usage"  // made for another use
	FaultConstraint  FaultCode = "constraint"         // a CA of the chain may not issue this
	FaultIdentity    FaultCode = "identity-unproven"  // the certificate does not prove the identity
	FaultUnwanted    FaultCode = "identity-unwanted"  // the identity is not the one that the connection wants
	FaultRevoked     FaultCode = "revoked"            // a certificate of the chain is revoked
	FaultUnknown     FaultCode = "revocation-unknown" // revocation = "strict", and nobody says that the certificate is good
	FaultOwnKey      FaultCode = "own-key"            // our own key cannot sign what the peer accepts
	FaultOwnIdentity FaultCode = "own-identity"       // our own certificate does not prove our identity
)

// The configuration keys that a Fault names as its Setting.
const (
	SettingID         = "remote.id"
	SettingCA         = "remote.ca"
	SettingCert       = "remote.cert"
	SettingKey        = "remote.public_key"
	SettingRevocation = "revocation"
	SettingSHA1       = "sha1_signatures"
	SettingLocal      = "local.cert"
	SettingLocalID    = "local.id"
)

// Fault says why a proof of identity is refused, to the operator alone: the peer hears AUTHENTICATION_FAILED whatever it is. Text that a peer
// sent is made printable.
type Fault struct {
	Code    FaultCode
	Why     string // one line with both sides' values
	Detail  string // what the certificate proves, what the peer claims, what the connection wants, the chain
	Hint    string // what to change
	Setting string // the configuration key that decides, or "" when it is the peer's side alone
}

func (f *Fault) Error() string { return f.Why }
