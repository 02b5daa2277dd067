//go:build interop

package interop

import (
	"cmp"
	"crypto"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"cygnet/ike/control"
	"cygnet/test/rig"
)

// authority is the root and the CAs below it that issue what the rows need. Each end knows the root, and of the two others its own alone: the other must be sent.
type authority struct {
	root, sub, peers *rig.CA
	mu               sync.Mutex
	keys             map[string]crypto.Signer
}

// newAuthority makes a root with an RSA key and two CAs below it with ECDSA keys.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	root, err := rig.NewCA("Root", "RSA 2048", nil)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := rig.NewCA("Sub", "P-256", root)
	if err != nil {
		t.Fatal(err)
	}
	peers, err := rig.NewCA("Sub of peers", "P-384", root)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{root: root, sub: sub, peers: peers, keys: map[string]crypto.Signer{}}
}

// key is the key of an owner, made once: RSA keys take their time.
func (a *authority) key(s *stage, kind rig.KeyKind, owner string) crypto.Signer {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := string(kind) + owner
	if a.keys[name] == nil {
		k, err := rig.NewKey(kind)
		s.must(err)
		a.keys[name] = k
	}
	return a.keys[name]
}

// proof is a certificate for a name, issued by ca.
func (a *authority) proof(s *stage, ca *rig.CA, kind rig.KeyKind, name string) *rig.Proof {
	return a.issue(s, ca, rig.Leaf{CN: "of " + name, Names: []string{name}, Key: a.key(s, kind, name)})
}

func (a *authority) issue(s *stage, ca *rig.CA, l rig.Leaf) *rig.Proof {
	p, err := ca.Issue(l)
	s.must(err)
	return p
}

// proofs is what the two ends of a row have, and by which words each end shows what it saw.
type proofs struct {
	subject     string
	ours        rig.KeyKind // "": the PSK
	theirs      rig.KeyKind
	pkcs1       bool
	raw         bool
	oursShown   string // in the peer's log, strongSwan's or Libreswan's words: a part of a line
	theirsShown string // in our status
	initiator   string // the same where the peer initiates, if it is another then
	cannot      string // why we refuse the peer as initiator, in our words: what it does then is wrong
	dn          bool   // the identities are the certificates' subjects
	own         string // further keys of cygnet's connection, of strongSwan's, and of its daemon
	swan        string
	libre       string // Libreswan's method, in place of the one that fits the key
	daemon      string
	hears       [2]string // in strongSwan's log where we initiate, and where we respond
}

var swanProofs = []proofs{
	{subject: "RSA-PSS", ours: "RSA 2048", theirs: "RSA 2048", oursShown: "RSA_EMSA_PSS_SHA2_512", theirsShown: "RSA-PSS with SHA2-256"},
	{subject: "RSA-PKCS1", ours: "RSA 3072", theirs: "RSA 3072", pkcs1: true, oursShown: "RSA_EMSA_PKCS1_SHA2_512", theirsShown: "RSA PKCS #1 v1.5 with SHA2-256"},
	{subject: "ECDSA P-256", ours: "P-256", theirs: "P-256", oursShown: "ECDSA_WITH_SHA256_DER", theirsShown: "ECDSA with SHA2-256"},
	{subject: "ECDSA P-384", ours: "P-384", theirs: "P-384", oursShown: "ECDSA_WITH_SHA384_DER", theirsShown: "ECDSA with SHA2-384"},
	{subject: "Ed25519", ours: "Ed25519", theirs: "Ed25519", oursShown: "ED25519", theirsShown: "Ed25519"},
	{subject: "certificate, PSK back", ours: "P-256", theirs: "", oursShown: "ECDSA_WITH_SHA256_DER", theirsShown: "PSK"},
	{subject: "PSK, certificate back", ours: "", theirs: "RSA 2048", oursShown: "pre-shared key", theirsShown: "RSA-PSS with SHA2-256"},
	{subject: "raw RSA keys", ours: "RSA 2048", theirs: "RSA 2048", raw: true, oursShown: "RSA_EMSA_PSS_SHA2_512", theirsShown: "RSA-PSS with SHA2-256"},
	{subject: "raw Ed25519 keys", ours: "Ed25519", theirs: "Ed25519", raw: true, oursShown: "ED25519", theirsShown: "Ed25519"},
	{subject: "send_cert = ifasked", ours: "P-256", theirs: "P-256", swan: "send_cert = ifasked", oursShown: "ECDSA_WITH_SHA256_DER", theirsShown: "ECDSA with SHA2-256",
		hears: [2]string{"received cert request for \"C=CH, O=Example, CN=Root\"", "received cert request for \"C=CH, O=Example, CN=Root\""}},
	{subject: "send_certreq = no", ours: "P-256", theirs: "P-256", swan: "send_certreq = no", oursShown: "ECDSA_WITH_SHA256_DER", theirsShown: "ECDSA with SHA2-256",
		hears: [2]string{"received end entity cert \"C=CH, O=Example, CN=of gw-a.example\"", "received end entity cert \"C=CH, O=Example, CN=of gw-b.example\""}},
	{subject: "distinguished names", ours: "P-256", theirs: "P-256", dn: true, oursShown: "'C=CH, O=Example, CN=of gw-", theirsShown: "ECDSA with SHA2-256"},
	{subject: "ECDSA before RFC 7427", ours: "P-256", theirs: "P-384", daemon: "signature_authentication = no", oursShown: "ECDSA-256 signature", theirsShown: "ECDSA with SHA2-384"},
	{subject: "RSA with SHA-1", ours: "RSA 2048", theirs: "RSA 2048", own: "sha1_signatures = \"yes\"\n", daemon: "signature_authentication = no", oursShown: "RSA signature", theirsShown: "SHA-1"},
}

// equip gives the tunnel, as cygnet sees it, the proofs of a row.
func (a *authority) equip(s *stage, x rig.Tunnel, c proofs) rig.Tunnel {
	make := func(ca *rig.CA, kind rig.KeyKind, name string) *rig.Proof {
		switch {
		case kind == "":
			return nil
		case c.raw:
			return &rig.Proof{Key: a.key(s, kind, name)}
		}
		p := a.proof(s, ca, kind, name)
		p.PKCS1, p.Libre = c.pkcs1, cmp.Or(c.libre, p.Libre)
		return p
	}
	x.LocalProof, x.RemoteProof = make(a.sub, c.ours, x.LocalID), make(a.peers, c.theirs, x.RemoteID)
	if c.dn {
		x.LocalID, x.RemoteID = "C=CH, O=Example, CN=of "+x.LocalID, "C=CH, O=Example, CN=of "+x.RemoteID
	}
	return x
}

// cert is a row of proofs: up, with data, and both ends name the scheme that is meant.
func (a *authority) cert(t *testing.T, peer, plane string, initiate bool, c proofs) {
	line{peer: peer + " " + plane, role: role(initiate), subject: c.subject, path: "IPv4"}.run(t, func(s *stage) string {
		x := tunnel(s.Topology, rig.GCM, false, false)
		if !initiate {
			x = tunnelB(s.Topology, x)
		}
		x.Cygnet, x.Swan, x.SwanDaemon = c.own, c.swan, c.daemon
		x = a.equip(s, x, c)
		if !initiate {
			x = x.Mirror()
		}
		own, us, other := s.two(peer, x, initiate, rig.CygnetOptions{Dataplane: plane})
		up, at := us.Renewer, [2]rig.End{us, other}
		if !initiate {
			up, at = other.Renewer, [2]rig.End{other, us}
		}
		err := up.Up()
		if c.cannot != "" && !initiate {
			s.want(err != nil && strings.Contains(own.Log.String(), c.cannot), "up is %v, and we do not say %q", err == nil, c.cannot)
			return peer + " cannot: " + c.cannot
		}
		s.must(err)
		_, err = rig.Prove(s.Topology, at[0], at[1], x)
		s.must(err)
		said := heard(other, c.oursShown)
		s.want(said != "", "%s does not say that we proved ourselves by %s", peer, c.oursShown)
		if swan, ok := other.Renewer.(*rig.Swan); ok {
			hears := c.hears[map[bool]int{true: 0, false: 1}[initiate]]
			s.want(hears == "" || len(swan.Said(hears)) > 0, "strongSwan does not say: %s", hears)
		}
		proved := s.proof(own)
		shown := c.theirsShown
		if !initiate {
			shown = cmp.Or(c.initiator, shown)
		}
		s.want(strings.Contains(proved, shown), "we do not say %q: %s", shown, proved)
		s.must(up.Down())
		s.must(rig.Gone(us))
		s.must(rig.Gone(other))
		return fmt.Sprintf("we: %s; the peer: %s", proved, said)
	})
}

// proof is how the peer proved itself, by our status.
func (s *stage) proof(own *rig.CygnetEnd) (proof string) {
	var st control.Status
	s.must(own.Status(&st))
	for _, ike := range st.Connections[0].IKE {
		proof = ike.Proof
	}
	return proof
}

// heard is the line in which the peer says that it believes us, with a word of it.
func heard(peer *gateway, word string) string {
	log := peer.Renewer.(interface{ Said(string) []string })
	for _, about := range []string{"successful", "authenticated peer"} {
		for _, l := range log.Said(about) {
			if strings.Contains(l, word) && !strings.Contains(l, "(myself)") {
				return l
			}
		}
	}
	return ""
}

// spared: where time counts, every other kind is shown in one role and the rest in the other.
func spared(i int, initiate bool) bool { return hurried() && (i%2 == 0) != initiate }

// TestUserspaceCertificates: what each end proves itself by, in both roles.
func TestUserspaceCertificates(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	a := newAuthority(t)
	for i, c := range swanProofs {
		for _, initiate := range []bool{true, false} {
			if !spared(i, initiate) {
				a.cert(t, "strongSwan", "userspace", initiate, c)
			}
		}
	}
}

// libreProofs has no Ed25519, which Libreswan 5.2 does not know. Its "rsasig" is PKCS #1 v1.5 and PSS: as initiator it signs with PSS. As initiator it
// signs with ECDSA by the longest hash that both know.
var libreProofs = []proofs{
	{subject: "RSA-PSS", ours: "RSA 2048", theirs: "RSA 2048", oursShown: "RSASSA-PSS with SHA2_512", theirsShown: "RSA-PSS with SHA2-512"},
	{subject: "RSA-PKCS1", ours: "RSA 3072", theirs: "RSA 3072", pkcs1: true, oursShown: "PKCS#1 1.5 RSA with SHA2_512", theirsShown: "RSA PKCS #1 v1.5 with SHA2-512", initiator: "RSA-PSS with SHA2-512"},
	{subject: "RSA with SHA-1", ours: "RSA 2048", theirs: "RSA 2048", libre: "rsa-sha1", own: "sha1_signatures = \"yes\"\n", oursShown: "PKCS#1 1.5 RSA with SHA1 signature", theirsShown: "RSA PKCS #1 v1.5 with SHA-1"},
	{subject: "ECDSA P-256", ours: "P-256", theirs: "P-256", oursShown: "P-256 ECDSA with SHA2_256", theirsShown: "ECDSA with SHA2-256", initiator: "ECDSA with SHA2-512"},
	{subject: "ECDSA P-384", ours: "P-384", theirs: "P-384", oursShown: "P-384 ECDSA with SHA2_384", theirsShown: "ECDSA with SHA2-384", initiator: "ECDSA with SHA2-512"},
	{subject: "certificate, PSK back", ours: "P-256", theirs: "", oursShown: "P-256 ECDSA with SHA2_256", theirsShown: "PSK"},
	{subject: "RSA certificate, PSK back", ours: "RSA 2048", theirs: "", oursShown: "RSASSA-PSS with SHA2_512", theirsShown: "PSK"},
	// As an initiator that wants a PSK, Libreswan announces no hash algorithms, so that its own signature is one of before RFC 7427: RSA with SHA-1; and of ECDSA the method of P-521,
	// whatever its key.
	{subject: "PSK, certificate back", ours: "", theirs: "RSA 2048", own: "sha1_signatures = \"yes\"\n", oursShown: "authby=secret", theirsShown: "RSA-PSS with SHA2-512", initiator: "RSA PKCS #1 v1.5 with SHA-1"},
	{subject: "PSK, ECDSA certificate back", ours: "", theirs: "P-256", oursShown: "authby=secret", theirsShown: "ECDSA with SHA2-512", cannot: "the peer signs by ECDSA with P-521 (method 11), its key is ECDSA P-256"},
}

// TestKernelCertificates is the same on the kernel's ESP, and with Libreswan.
func TestKernelCertificates(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	_, err := os.Stat(peersRoot())
	need(t, "peers", err)
	a := newAuthority(t)
	for _, initiate := range []bool{true, false} {
		for i, c := range libreProofs {
			if !spared(i, initiate) {
				a.cert(t, "Libreswan", "kernel", initiate, c)
			}
		}
		for _, c := range swanProofs { // a signature does not depend on who does ESP: one in each role
			if c.subject == "RSA-PSS" && initiate || c.subject == "Ed25519" && !initiate {
				a.cert(t, "strongSwan", "kernel", initiate, c)
			}
		}
	}
}
