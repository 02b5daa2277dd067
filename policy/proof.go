package policy

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// Files reads what a configuration names. When an error is a *SecretError, its words are the problem's.
type Files struct {
	Secret func(path string) (alg.Secret, error) // keys, closed to others
	Public func(path string) ([]byte, error)     // certificates, public keys, CRLs
}

// Proof is by what an end of a connection proves its identity. The zero value is the pre-shared key.
type Proof struct {
	Credential *auth.Credential // of the local end: certificates and key
	Trust      *auth.Trust      // of the remote end: CAs, certificates and keys that are believed
	CRLs       []*x509.RevocationList
	Files      []string // all that were read, as they were written
	text       string   // for Text
}

// Signatures are the choices about signatures of a connection.
type Signatures struct {
	PKCS1 bool // we sign with RSASSA-PKCS1-v1_5 instead of RSASSA-PSS (RFC 7427)
	SHA1  bool // SHA-1 is accepted and made where the peer knows nothing better: authentication method 1 of RFC 7296
}

// Wants says whether the end is meant to have an identity.
func (e End) Wants(id auth.Identity) bool {
	if e.ID.Type != 0 {
		return e.ID.Equal(id)
	}
	return e.Match.Matches(id)
}

// Wanted is what Wants accepts, as a pattern.
func (e End) Wanted() auth.Pattern {
	if e.ID.Type != 0 {
		return auth.ExactPattern(e.ID)
	}
	return e.Match
}

// identityText is the id as it was meant.
func (e End) identityText() string {
	if e.ID.Type == 0 && e.Match != (auth.Pattern{}) {
		return e.Match.String()
	}
	return e.ID.String()
}

// ReadFiles are the files behind the connection's proofs, as they were written.
func (c *Connection) ReadFiles() (files []string) {
	if c.PSKFile != "" {
		files = append(files, c.PSKFile)
	}
	return append(append(files, c.Local.Proof.Files...), c.Remote.Proof.Files...)
}

// credential reads the certificates and key by which we prove ourselves.
func (r *reader) credential(t *table) (p Proof) {
	const example = `cert = "certs/gw-a.pem", key = { file = "secrets/gw-a.key" }`
	certs, certFiles := r.certificates(t, "cert", "certs/gw-a.pem")
	_, certGiven := t.rows["cert"]
	if v, there := t.get("key"); there {
		if _, text := v.(string); text { // never shown: it may be the key itself
			t.problem("key", "wrong-type", `put it into a file of root's with mode 0600, and here key = { file = "secrets/gw-a.key" }`, "key in %s is a string; secrets do not stand in the configuration", t.path)
			return p
		}
	}
	k := t.table("key", `key = { file = "secrets/gw-a.key" }`)
	if k == nil {
		if _, there := t.rows["key"]; certGiven && !there {
			t.problem("cert", "missing-key", "add "+example, "%s has a certificate and no key", t.path)
		}
		return p
	}
	file, ok := k.text("file", "secrets/gw-a.key")
	if _, there := k.rows["file"]; !there {
		k.missing("file", `add file = "secrets/gw-a.key"`)
	}
	k.done()
	if !ok {
		return p
	}
	p.Files = append(certFiles, file)
	p.text = "key in " + file
	if len(certFiles) > 0 {
		p.text = "certificate in " + strings.Join(certFiles, ", ") + ", " + p.text
	}
	key := r.privateKey(k, file)
	if key == nil || certGiven && certs == nil {
		return p
	}
	c, err := auth.NewCredential(key, certs)
	if err != nil {
		t.problem("key", "bad-key", "name the key that belongs to the certificate", "%s: %v", t.path, err)
		return p
	}
	p.Credential = c
	return p
}

func (r *reader) privateKey(t *table, path string) *auth.PrivateKey {
	raw, err := r.files.Secret(path)
	if err != nil {
		t.reportSecret(unreadable(err, "secret-unreadable"))
		return nil
	}
	defer raw.Wipe()
	key, err := auth.ParsePrivateKey(raw.Bytes())
	if err != nil {
		t.problem("file", "bad-key", "it must hold one private key as PEM: RSA, ECDSA (P-256, P-384 or P-521) or Ed25519, without a passphrase", "%s: %s: %v", t.path, path, err)
		return nil
	}
	return key
}

// unreadable gives the words for a file that could not be read; fallback is the code where the reader has none.
func unreadable(err error, fallback string) trouble {
	var se *SecretError
	if errors.As(err, &se) {
		return trouble{code: se.Code, text: se.Text, hint: se.Hint}
	}
	return trouble{code: fallback, text: err.Error(), hint: "see that the file is there and that root can read it"}
}

// public reads the files of a key, each with its parser, and returns what was read of them and their names.
func public[T any](r *reader, t *table, key, example, what string, parse func([]byte) ([]T, error)) (all []T, files []string) {
	list, _ := t.list(key, example)
	for _, e := range list {
		data, err := r.files.Public(e.text)
		if err != nil {
			t.report(e.key, unreadable(err, "unreadable"))
			continue
		}
		read, err := parse(data)
		if err != nil {
			t.problem(e.key, "bad-file", "it must hold "+what, "%s in %s: %s: %v", key, t.path, e.text, err)
			continue
		}
		all, files = append(all, read...), append(files, e.text)
	}
	return all, files
}

func (r *reader) certificates(t *table, key, example string) ([]*x509.Certificate, []string) {
	return public(r, t, key, example, "certificates as PEM", auth.ParseCertificates)
}

// trust reads what is believed of the peer: nil when its proof is the pre-shared key.
func (r *reader) trust(t *table) (p Proof) {
	ca, caFiles := r.certificates(t, "ca", "ca/example.pem")
	pinned, pinnedFiles := r.certificates(t, "cert", "certs/gw-b.pem")
	keys, keyFiles := public(r, t, "public_key", "certs/gw-b.pub", "public keys as PEM", auth.ParsePublicKeys)
	crls, crlFiles := public(r, t, "crl", "ca/example.crl", "CRLs as PEM or DER", auth.ParseCRLs)
	var parts []string
	for _, x := range []struct {
		what  string
		files []string
	}{{"CA", caFiles}, {"certificate", pinnedFiles}, {"public key", keyFiles}, {"CRL", crlFiles}} {
		if len(x.files) > 0 {
			parts = append(parts, x.what+" in "+strings.Join(x.files, ", "))
			p.Files = append(p.Files, x.files...)
		}
	}
	p.CRLs = crls
	named := false
	for _, k := range []string{"ca", "cert", "public_key"} {
		_, there := t.rows[k]
		named = named || there
	}
	if !named {
		if len(crlFiles) > 0 {
			t.problem("crl", "contradiction", `add ca = "ca/example.pem", or leave crl out`, "crl in %s without a CA", t.path)
		}
		return p
	}
	p.Trust, p.text = &auth.Trust{Pinned: pinned, Keys: keys}, cmp.Or(strings.Join(parts, "; "), "nothing")
	for _, c := range ca { // a file may hold a CA's whole chain: what is not self-issued helps to build chains, unless there is nothing else to trust
		if bytes.Equal(c.RawIssuer, c.RawSubject) {
			p.Trust.Roots = append(p.Trust.Roots, c)
		} else {
			p.Trust.Intermediates = append(p.Trust.Intermediates, c)
		}
	}
	if len(p.Trust.Roots) == 0 {
		p.Trust.Roots, p.Trust.Intermediates = p.Trust.Intermediates, nil
	}
	for _, l := range crls { // of an intermediate CA that the peer sends it may be, so that it is no error
		by := func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, l.RawIssuer) }
		if !slices.ContainsFunc(ca, by) {
			t.warning("crl", "crl-of-another", "name the CRL of the CA that issues the peers' certificates", "crl in %s: the CRL of %s is of no CA in ca, so it revokes nothing that this CA issued",
				t.path, wire.NewText([]byte(l.Issuer.String())))
		}
	}
	if err := p.Trust.Check(); err != nil {
		t.problem("ca", "bad-trust", "name a CA's certificate in ca, the peer's own in cert", "%s: %v", t.path, err)
	}
	return p
}

// signatures reads what concerns the signatures of both ends.
func (t *table) signatures() (s Signatures, m auth.RevocationMode) {
	s.PKCS1 = t.word("rsa", "pss", "pss", "pkcs1") == "pkcs1"
	s.SHA1 = t.word("sha1_signatures", "no", "no", "yes") == "yes"
	m, _ = auth.ParseRevocationMode(t.word("revocation", "soft", "strict", "soft", "off"))
	return s, m
}

// proofs reads what proves the identities once both ends are read: certificates, or the pre-shared key, or one each way.
func (r *reader) proofs(t *table, c *Connection) {
	var mode auth.RevocationMode
	c.Signatures, mode = t.signatures()
	if c.Remote.Proof.Trust != nil {
		c.Remote.Proof.Trust.Revocation = mode
		c.Remote.Proof.text += "; revocation " + mode.String()
	} else if _, given := t.rows["revocation"]; given {
		t.problem("revocation", "contradiction", `add ca = "ca/example.pem" to remote, or leave revocation out`, "revocation in %s, whose peer proves itself by a pre-shared key", t.path)
	}
	if c.Local.Proof.text == "" || c.Remote.Proof.text == "" { // the files behind it may be faulty
		local, _ := t.rows["local"].(map[string]any)
		if c.Remote.Proof.text != "" && (local["cert"] != nil || local["key"] != nil) {
			return // what is wrong with our own proof is told already: no PSK is meant to take its place
		}
		r.psk(t, c)
	} else if _, given := t.get("psk"); given {
		t.problem("psk", "contradiction", "leave psk out, or take cert and key, or ca, from the end that has none", "psk in %s is never used: both ends prove themselves by certificates or public keys", t.path)
	}
	r.proven(t, c)
}

// proven checks our own identity against our certificate, and that a peer of many names has a proof that fits.
func (r *reader) proven(t *table, c *Connection) {
	if cr := c.Local.Proof.Credential; cr != nil {
		if why := cr.Unfit(c.anywhere); why != "" {
			t.warning("local.cert", "unfit-certificate", auth.UsageHint, "local in %s: the peer will hardly accept the certificate of %s: %s", t.path, auth.Label(cr.Chain[0]), why)
		}
		if c.Local.ID.Type == 0 {
			if id, ok := cr.DefaultID(); ok {
				c.Local.ID = id
			}
		} else if id, f := cr.Prove(c.Local.ID); f != nil {
			t.problem("local.id", "id-unproven", f.Hint, "local.id in %s: %s", t.path, f.Why)
		} else {
			c.Local.ID = id
		}
	}
	tr := c.Remote.Proof.Trust
	switch {
	case !c.several:
	case tr == nil:
		t.problem("remote.id", "contradiction", "give the peer an id of its own, or let it prove itself by a certificate: ca = \"ca/example.pem\"",
			"remote.id in %s is for several peers, and whoever knows the pre-shared key could be any of them", t.path)
	case len(tr.Pinned)+len(tr.Keys) > 0:
		t.problem("remote.id", "contradiction", "write the one id that this peer has", "remote.id in %s is for several peers, but cert and public_key are one peer's", t.path)
	}
}

// Names is the proof without what stands in its files.
func (p Proof) Names() Proof { return Proof{Files: p.Files, text: p.text} }

// SameProofs says whether the certificates, keys and CRLs are those of o.
func (c *Connection) SameProofs(o *Connection) bool {
	return c.Local.Proof.same(o.Local.Proof) && c.Remote.Proof.same(o.Remote.Proof)
}

func (p Proof) same(o Proof) bool {
	if (p.Credential == nil) != (o.Credential == nil) || (p.Trust == nil) != (o.Trust == nil) {
		return false
	}
	if p.Credential != nil && (!sameCerts(p.Credential.Chain, o.Credential.Chain) || !p.Credential.Key.Public().Equal(o.Credential.Key.Public())) {
		return false
	}
	if p.Trust != nil && (p.Trust.Revocation != o.Trust.Revocation || !sameCerts(p.Trust.Roots, o.Trust.Roots) || !sameCerts(p.Trust.Intermediates, o.Trust.Intermediates) ||
		!sameCerts(p.Trust.Pinned, o.Trust.Pinned) || !slices.EqualFunc(p.Trust.Keys, o.Trust.Keys, (*auth.PublicKey).Equal)) {
		return false
	}
	return slices.EqualFunc(p.CRLs, o.CRLs, func(a, b *x509.RevocationList) bool { return bytes.Equal(a.Raw, b.Raw) })
}

func sameCerts(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, (*x509.Certificate).Equal)
}

// text is what differs from the default, for Text.
func (s Signatures) text() (t string) {
	if s.PKCS1 {
		t += "; we sign with RSA PKCS1"
	}
	if s.SHA1 {
		t += "; SHA-1 is accepted"
	}
	return t
}

// proofText is by what the two ends prove themselves, for Text.
func (c *Connection) proofText() string {
	ours, theirs := c.Local.Proof.text, c.Remote.Proof.text
	psk := "PSK in " + c.PSKFile
	if ours == "" && theirs == "" {
		return psk
	}
	return fmt.Sprintf("ours: %s; the peer's: %s%s", cmp.Or(ours, psk), cmp.Or(theirs, psk), c.Signatures.text())
}

// String says nothing of keys.
func (p Proof) String() string { return fmt.Sprintf("proof(%s)", p.text) }
