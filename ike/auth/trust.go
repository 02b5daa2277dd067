package auth

import (
	"crypto/sha1"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/ike/wire"
)

// Trust is what a connection accepts as proof of its peer's identity. The zero value accepts nothing. It does not change once it is made.
type Trust struct {
	Roots         []*x509.Certificate // CAs; no others are trusted, the host's least of all
	Intermediates []*x509.Certificate // that a peer may leave out
	Pinned        []*x509.Certificate // end entities, accepted for the one identity that the connection wants
	Keys          []*PublicKey        // raw public keys, likewise
	Revocation    RevocationMode
}

// Check says what of a configuration can never work: a root that is no CA, a key that proves nothing.
func (t *Trust) Check() error {
	for _, c := range slices.Concat(t.Roots, t.Intermediates) {
		switch err := checkKey(c.PublicKey); {
		case err != nil:
			return fmt.Errorf("the CA %s has %w", Label(c), err)
		case c.Version == 3 && !c.IsCA:
			return fmt.Errorf("%s is no CA: the certificate of the peer itself stands in %s, that of its CA in %s", Label(c), SettingCert, SettingCA)
		case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
			return fmt.Errorf("the CA %s may not sign certificates: its keyUsage lacks keyCertSign", Label(c))
		}
	}
	for _, c := range t.Pinned {
		if err := checkKey(c.PublicKey); err != nil {
			return fmt.Errorf("the certificate of %s has %w", Label(c), err)
		}
	}
	return nil
}

// maxRequests bounds the CAs that we name: 20 octets each.
const maxRequests = 64

// Requests are the CERTREQ payloads (RFC 7296 section 3.7; RFC 7670 section 3 for raw keys, RFC 4806 section 3.1 for OCSP). They ask: a peer that sends
// something else is judged by what it sends.
func (t *Trust) Requests() []wire.Payload {
	var ps []wire.Payload
	var list []byte
	for _, c := range slices.Concat(t.Roots, t.Intermediates) {
		if h := keyHash(c); len(list) < maxRequests*sha1.Size && !lists(list, h) {
			list = append(list, h[:]...)
		}
	}
	if len(list) > 0 {
		ps = append(ps, &wire.CertReq{Encoding: wire.CertX509Signature, Authorities: list})
		if t.Revocation != RevocationOff {
			ps = append(ps, &wire.CertReq{Encoding: wire.CertOCSPContent})
		}
	}
	if len(t.Keys) > 0 {
		ps = append(ps, &wire.CertReq{Encoding: wire.CertRawPublicKey})
	}
	return ps
}

// Claim is what a peer sent, and what its connection wants.
type Claim struct {
	Certs     []*wire.Cert // in the order of the message
	ID        Identity
	Want      Pattern // the zero Pattern: any identity that is proved
	Responder bool    // the peer is the responder of the IKE SA
	At        time.Time
	Proofs    Revocations // CRLs and OCSP responses at hand; those among Certs are found without being named here
}

// Evidence is an accepted proof that a key belongs to an identity. AUTH is still to be verified with that key.
type Evidence struct {
	Identity Identity            // as claimed; a DN in the certificate's own octets
	Keys     []*PublicKey        // with which AUTH may be verified: one, or all that are configured when the peer did not say which
	Chain    []*x509.Certificate // end entity first, root last; nil for a raw key
	How      string              // for a report: "certificate of CN=gw-b, issued by CN=Example CA"
	Links    []Link              // revocation of each certificate but the root
	Ask      []Source            // what to fetch before Verify is called again
	Notes    []string            // what was ignored or is not as it should be
}

// Verify judges certificates and identity. Its work is bounded (DESIGN.md); it belongs in a job. On FaultUnknown the Evidence comes too, with what to fetch; on
// every other fault it is nil. With revocation = "soft" and something to Ask the caller may fetch it and call again, or not.
func (t *Trust) Verify(c Claim) (*Evidence, *Fault) {
	if !c.Want.Matches(c.ID) {
		return nil, &Fault{
			Code:    FaultUnwanted,
			Why:     fmt.Sprintf("the peer says it is %v, we want %v", c.ID, c.Want),
			Hint:    fmt.Sprintf("%s must be %q, or the peer must claim another identity", SettingID, c.ID),
			Setting: SettingID,
		}
	}
	p, f := present(c.Certs)
	if f != nil {
		return nil, f
	}
	e, f := t.judge(p, &c)
	if f != nil {
		f.Detail = strings.Join(slices.DeleteFunc([]string{c.sides(p.leaf), f.Detail, strings.Join(p.notes, "; ")}, func(s string) bool { return s == "" }), "; ")
		return nil, f
	}
	e.Notes = p.notes
	f = t.revocation(e, p, &c)
	if f != nil && f.Code != FaultUnknown {
		return nil, f
	}
	return e, f
}

// sides are the three things that must agree.
func (c *Claim) sides(leaf *x509.Certificate) string {
	s := fmt.Sprintf("the peer claims: %v; the connection wants: %v", c.ID, c.Want)
	if leaf != nil {
		s = fmt.Sprintf("the certificate proves: %s; %s", namesText(leaf), s)
	}
	return s
}

// judge finds the way in which a peer proves itself: by a pinned certificate, by a key that is configured, by a chain.
func (t *Trust) judge(p *presented, c *Claim) (*Evidence, *Fault) {
	switch {
	case p.leaf == nil && p.key == nil:
		return t.unsent(p, c)
	case p.leaf == nil || p.key != nil && len(t.Roots)+len(t.Pinned) == 0:
		return t.rawKey(p.key, c)
	case slices.ContainsFunc(t.Pinned, p.leaf.Equal):
		return pinned(p.leaf, c)
	}
	key, err := newPublicKey(p.leaf.PublicKey)
	if err != nil { // present has looked at it
		return nil, &Fault{Code: FaultKey, Why: "the peer's certificate has " + err.Error()}
	}
	if slices.ContainsFunc(t.Keys, key.Equal) { // a certificate around the key that is configured says nothing more
		return t.rawKey(key, c)
	}
	if len(t.Roots) == 0 {
		return nil, t.stranger(issueText(p.leaf, key))
	}
	chain, f := t.verifyChain(p, c.Responder, c.At)
	if f != nil {
		return nil, f
	}
	id, ok := proves(p.leaf, c.ID)
	if !ok {
		why, hint := unproven(p.leaf, c.ID)
		return nil, &Fault{Code: FaultIdentity, Why: why, Hint: hint, Detail: chainText(chain, ""), Setting: SettingID}
	}
	return &Evidence{Identity: id, Keys: []*PublicKey{key}, Chain: chain, How: fmt.Sprintf("certificate of %s, issued by %s", Label(p.leaf), dnText(p.leaf.RawIssuer))}, nil
}

// pinned: the operator put this very certificate beside one identity. Under a pattern it proves what stands in it.
func pinned(leaf *x509.Certificate, c *Claim) (*Evidence, *Fault) {
	if f := dated(leaf, "certificate of", c.At); f != nil {
		return nil, f
	}
	key, err := newPublicKey(leaf.PublicKey)
	if err != nil {
		return nil, &Fault{Code: FaultKey, Why: "the peer's certificate has " + err.Error(), Setting: SettingCert}
	}
	id := c.ID
	if _, exact := c.Want.Exact(); !exact {
		var ok bool
		if id, ok = proves(leaf, c.ID); !ok {
			why, _ := unproven(leaf, c.ID)
			return nil, &Fault{Code: FaultIdentity, Why: why, Hint: fmt.Sprintf("a single identity in %s binds it to the certificate", SettingID), Setting: SettingID}
		}
	}
	return &Evidence{Identity: id, Keys: []*PublicKey{key}, Chain: []*x509.Certificate{leaf},
		How: fmt.Sprintf("certificate of %s, which is configured here", Label(leaf))}, nil
}

// rawKey: the operator put this key beside one identity; by itself it proves none.
func (t *Trust) rawKey(key *PublicKey, c *Claim) (*Evidence, *Fault) {
	if !slices.ContainsFunc(t.Keys, key.Equal) {
		return nil, t.stranger(key.String())
	}
	if f := c.single("the raw public key"); f != nil {
		return nil, f
	}
	return &Evidence{Identity: c.ID, Keys: []*PublicKey{key}, How: fmt.Sprintf("raw public key, %v", key)}, nil
}

// single: what proves no identity by itself is bound to one by the configuration.
func (c *Claim) single(what string) *Fault {
	if _, exact := c.Want.Exact(); exact {
		return nil
	}
	return &Fault{Code: FaultIdentity, Why: fmt.Sprintf("%s proves no identity by itself, and the connection wants %v", what, c.Want),
		Hint: fmt.Sprintf("write the one identity of this peer into %s", SettingID), Setting: SettingID}
}

// unsent: no certificate came. What is configured may do.
func (t *Trust) unsent(p *presented, c *Claim) (*Evidence, *Fault) {
	var keys []*PublicKey
	for _, cert := range t.Pinned {
		if key, err := newPublicKey(cert.PublicKey); err == nil && dated(cert, "", c.At) == nil {
			keys = append(keys, key)
		}
	}
	keys = append(keys, t.Keys...)
	if len(keys) == 0 {
		return nil, &Fault{Code: FaultNone, Why: "the peer sent no certificate", Hint: "let the peer send its certificate always, with its chain", Detail: "trusted: " + labels(t.Roots)}
	}
	if f := c.single("a key that is configured here"); f != nil {
		return nil, f
	}
	return &Evidence{Identity: c.ID, Keys: keys[:min(len(keys), wire.MaxChain)], How: "a key that is configured here"}, nil
}

// stranger: what the peer has is not what is configured, and there is no CA that could speak for it.
func (t *Trust) stranger(sent string) *Fault {
	f := &Fault{Code: FaultIssuer, Why: "the peer has " + sent, Setting: SettingKey, Hint: "if the peer's key was changed on purpose, write the new one into the file"}
	switch {
	case len(t.Keys) > 0:
		f.Why += fmt.Sprintf(", we want %v", t.Keys[0])
	case len(t.Pinned) > 0:
		wanted := "the certificate of " + labels(t.Pinned)
		if key, err := newPublicKey(t.Pinned[0].PublicKey); err == nil && len(t.Pinned) == 1 {
			wanted = issueText(t.Pinned[0], key)
		}
		f.Why += ", we want " + wanted
		f.Setting, f.Hint = SettingCert, "if the peer's certificate was renewed on purpose, write the new one into the file"
	case len(t.Roots) > 0:
		f.Why += ", we want a certificate issued by " + labels(t.Roots)
		f.Setting = SettingCA
	default:
		f.Why += ", and no key, certificate or CA is configured for it"
		f.Hint, f.Setting = fmt.Sprintf("name the file with the peer's CA in %s", SettingCA), SettingCA
	}
	return f
}

// issueText tells a certificate from those of the same name, as one that was renewed is from the one before it.
func issueText(c *x509.Certificate, key *PublicKey) string {
	return fmt.Sprintf("the certificate of %s of %s with %v", Label(c), Date(c.NotBefore), key)
}

// revocation asks about each link of a chain to a root.
func (t *Trust) revocation(e *Evidence, p *presented, c *Claim) *Fault {
	if t.Revocation == RevocationOff || len(e.Chain) < 2 {
		return nil
	}
	e.Links = CheckRevocation(e.Chain, Revocations{slices.Concat(c.Proofs.CRLs, p.crls), slices.Concat(c.Proofs.OCSP, p.ocsp)}, c.At)
	var unknown *Fault
	for _, l := range e.Links {
		switch l.State {
		case LinkRevoked:
			return &Fault{Code: FaultRevoked, Why: fmt.Sprintf("the certificate of %s was revoked on %s: %s (%s of %s)", Label(l.Cert), Date(l.At), l.Why, l.By, Label(l.Issuer)),
				Hint: "the peer needs a new certificate", Detail: c.sides(e.Chain[0]) + "; " + chainText(e.Chain, "")}
		case LinkUnknown:
			e.Ask = append(e.Ask, sources(l.Cert, l.Issuer)...)
			e.Notes = append(e.Notes, fmt.Sprintf("nobody says whether the certificate of %s is revoked: %s", Label(l.Cert), l.Why))
			if t.Revocation == RevocationStrict && unknown == nil {
				unknown = &Fault{Code: FaultUnknown, Why: e.Notes[len(e.Notes)-1], Detail: c.sides(e.Chain[0]) + "; " + chainText(e.Chain, ""), Setting: SettingRevocation,
					Hint: `let a CRL or OCSP responder be reached from here, name a CRL file of that CA in crl of remote, or take revocation = "soft"`}
			}
		}
	}
	return unknown
}

// VerifySignature checks AUTH with the key that is proved.
func (e *Evidence) VerifySignature(octets []byte, proof *wire.Auth, rules SignatureRules) (scheme string, f *Fault) {
	f = &Fault{Code: FaultKey, Why: "there is no key to verify AUTH with"}
	for _, key := range e.Keys {
		if scheme, f = VerifySignature(key, octets, proof, rules); f == nil {
			return scheme, nil
		}
	}
	return scheme, f
}

// ParseRevocationMode reads "strict", "soft" or "off".
func ParseRevocationMode(s string) (RevocationMode, error) {
	for _, m := range []RevocationMode{RevocationSoft, RevocationStrict, RevocationOff} {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, errors.New(`"strict", "soft" or "off"`)
}
