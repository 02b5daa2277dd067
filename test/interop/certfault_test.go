//go:build interop

package interop

import (
	"crypto/x509"
	"embed"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cygnet/test/rig"
)

// rewrite has the words in testdata replaced by those of today.
var rewrite = flag.Bool("rewrite", false, "write what people read into testdata, instead of comparing")

//go:embed testdata/certificates
var words embed.FS

// Where the WAN answers to whoever asks about revocations.
const (
	wanCRL  = "http://192.0.2.254:8000/example.crl"
	wanOCSP = "http://192.0.2.254:8001"
	wanDead = "http://192.0.2.254:8002"
)

// certFault is what is wrong with the peer's certificate, or with asking about it.
type certFault struct {
	subject string
	keys    string // further keys of cygnet's connection
	accept  bool   // it is no fault
	byPeer  string // it is the peer who refuses us; what Libreswan says of it as initiator
	// theirs makes the peer's proof, and starts what is asked.
	theirs func(a *authority, s *stage, name string) *rig.Proof
	libre  func(a *authority, s *stage, name string) *rig.Proof // where Libreswan needs another
	// twist changes the tunnel as one end is told it.
	twist func(a *authority, s *stage, ours, theirs *rig.Tunnel)
}

var certFaults = []certFault{
	{subject: "revoked, by a CRL in a file", theirs: func(a *authority, s *stage, name string) *rig.Proof {
		p := a.proof(s, a.root, "P-256", name)
		p.CRL = a.crl(s, p.Cert)
		return p
	}},
	{subject: "revoked, by a CRL that is fetched", theirs: func(a *authority, s *stage, name string) *rig.Proof {
		p := a.asked(s, name, wanCRL, "")
		s.serve(a.crl(s, p.Cert))
		return p
	}},
	{subject: "revoked, by OCSP", theirs: func(a *authority, s *stage, name string) *rig.Proof {
		p := a.asked(s, name, "", wanOCSP)
		a.responder(s, nil, []*x509.Certificate{p.Cert})
		return p
	}},
	{subject: "strict, a dead responder", keys: "revocation = \"strict\"\n", theirs: func(a *authority, s *stage, name string) *rig.Proof {
		return a.asked(s, name, "", wanDead)
	}},
	{subject: "soft, a dead responder", accept: true, theirs: func(a *authority, s *stage, name string) *rig.Proof {
		return a.asked(s, name, "", wanDead)
	}},
	{subject: "strict, good by OCSP", keys: "revocation = \"strict\"\n", accept: true, theirs: func(a *authority, s *stage, name string) *rig.Proof {
		p := a.asked(s, name, "", wanOCSP)
		a.responder(s, []*x509.Certificate{p.Cert}, nil)
		return p
	}},
	{subject: "strict, good by a CRL that is fetched", keys: "revocation = \"strict\"\n", accept: true, theirs: func(a *authority, s *stage, name string) *rig.Proof {
		p := a.asked(s, name, wanCRL, "")
		s.serve(a.crl(s))
		return p
	}},
	{subject: "expired", theirs: expires(-time.Hour), libre: expires(libreExpiry)},
	{subject: "another name", theirs: func(a *authority, s *stage, name string) *rig.Proof {
		return a.issue(s, a.root, rig.Leaf{CN: name, Names: []string{"old-" + name}, Key: a.key(s, "P-256", name)})
	}},
	{subject: "an unknown CA", theirs: func(a *authority, s *stage, name string) *rig.Proof {
		other, err := rig.NewCA("Other Root", "P-256", nil)
		s.must(err)
		p := a.proof(s, other, "P-256", name)
		p.Sends, p.Trust = p.Trust, []*x509.Certificate{a.root.Cert}
		return p
	}},
	{subject: "no intermediate CA", theirs: func(a *authority, s *stage, name string) *rig.Proof {
		p := a.proof(s, a.sub, "P-256", name)
		p.Sends = nil
		return p
	}},
	{subject: "a PSK where a certificate is wanted", theirs: good, twist: func(_ *authority, _ *stage, _, theirs *rig.Tunnel) { theirs.LocalProof = nil }},
	{subject: "a certificate where the PSK is wanted", theirs: good, twist: func(_ *authority, _ *stage, ours, _ *rig.Tunnel) { ours.RemoteProof = nil }},
	{subject: "the peer does not know our CA", byPeer: "SEC_ERROR_UNKNOWN_ISSUER", theirs: good, twist: func(a *authority, s *stage, _, theirs *rig.Tunnel) {
		other, err := rig.NewCA("Other Root", "P-256", nil)
		s.must(err)
		theirs.RemoteProof = &rig.Proof{Cert: theirs.RemoteProof.Cert, Libre: theirs.RemoteProof.Libre, Trust: []*x509.Certificate{other.Cert}}
	}},
	{subject: "the peer has another public key of ours", byPeer: "authentication failed: ", theirs: good, twist: func(a *authority, s *stage, ours, theirs *rig.Tunnel) {
		ours.LocalProof = &rig.Proof{Key: a.key(s, "RSA 2048", ours.LocalID)}
		theirs.RemoteProof = &rig.Proof{Key: a.key(s, "RSA 2048", "somebody else"), Libre: "rsa"}
	}},
}

// libreExpiry is how long the certificate lives that Libreswan shows us once it has expired: it loads none that has.
const libreExpiry = 15 * time.Second

// expires is a certificate that has expired, or will soon.
func expires(in time.Duration) func(*authority, *stage, string) *rig.Proof {
	return func(a *authority, s *stage, name string) *rig.Proof {
		return a.issue(s, a.root, rig.Leaf{CN: "of " + name, Names: []string{name}, Key: a.key(s, "P-256", name), NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().Add(in)})
	}
}

// good is a certificate with nothing wrong.
func good(a *authority, s *stage, name string) *rig.Proof { return a.proof(s, a.root, "P-256", name) }

// asked is a certificate of the root that names where to ask about it.
func (a *authority) asked(s *stage, name, crl, ocsp string) *rig.Proof {
	return a.issue(s, a.root, rig.Leaf{CN: "of " + name, Names: []string{name}, Key: a.key(s, "P-256", name), CRL: crl, OCSP: ocsp})
}

func (a *authority) crl(s *stage, revoked ...*x509.Certificate) []byte {
	list, err := a.root.CRL(revoked...)
	s.must(err)
	return list
}

// serve has the WAN give out a CRL.
func (s *stage) serve(crl []byte) {
	stop, err := s.WAN.Serve(":8000", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/example.crl" {
			http.NotFound(w, q)
			return
		}
		w.Write(crl)
	}))
	s.must(err)
	s.keep(ender{stop: func() string { stop(); return "" }})
}

// responder has the WAN answer OCSP.
func (a *authority) responder(s *stage, good, revoked []*x509.Certificate) {
	signer := a.issue(s, a.root, rig.Leaf{CN: "OCSP", Names: []string{"ocsp.example"}, Key: a.key(s, "P-256", "OCSP"), Signer: true})
	d, err := rig.StartOCSP(s.WAN, filepath.Join(s.dir, "ocsp"), 8001, a.root, signer, good, revoked)
	s.must(err)
	s.keep(ender{stop: func() string { d.Signal(syscall.SIGKILL); return d.Log.String() }})
}

// ender is what is stopped after a try beside the ends.
type ender struct {
	rig.End
	stop func() string
}

func (e ender) Stop() string { return e.stop() }

// fault is a row of a peer that we refuse, or that refuses us, with what people read of it, or that we take all the same.
func (a *authority) fault(t *testing.T, peer, plane string, initiate bool, c certFault) {
	line{peer: peer + " " + plane, role: role(initiate), subject: c.subject, path: "IPv4"}.run(t, func(s *stage) string {
		x := tunnel(s.Topology, rig.GCM, false, false)
		y := tunnelB(s.Topology, x)
		ours, theirs := &x, &y
		if !initiate {
			ours, theirs = &y, &x
		}
		ours.Cygnet = c.keys
		unheard := peer == "Libreswan" && !initiate && c.byPeer != ""
		if unheard {
			ours.Cygnet += quick
		}
		ours.LocalProof = a.proof(s, a.root, "P-256", ours.LocalID) // the peer is told of no other CA
		if peer == "Libreswan" && c.libre != nil {
			ours.RemoteProof = c.libre(a, s, theirs.LocalID)
		} else {
			ours.RemoteProof = c.theirs(a, s, theirs.LocalID)
		}
		theirs.LocalProof, theirs.RemoteProof = ours.RemoteProof, ours.LocalProof
		if c.twist != nil {
			c.twist(a, s, ours, theirs)
		}
		own, _, other := s.twoTold(peer, x, y, initiate, rig.CygnetOptions{Dataplane: plane})
		if c.libre != nil {
			rig.Until(libreExpiry, func() bool { return time.Now().After(ours.RemoteProof.Cert.NotAfter) })
		}
		text, up := "", false
		if initiate {
			out, code := own.Ikectl("up", "s2s", "--timeout", "20s")
			text, up = fmt.Sprintf("$ ikectl up s2s\n%s[exit %d]\n\n", out, code), code == 0
		} else {
			up = other.Up() == nil
		}
		s.want(up == c.accept, "up is %v, wanted %v:\n%s", up, c.accept, text)
		evidence := "up, data"
		if c.accept {
			s.must(rig.Ping(s.A.Host, s.B.Host4))
		} else {
			evidence = s.refused(other, c.refusal(peer, initiate))
		}
		if unheard {
			s.want(rig.Until(quiet, func() bool { v, err := own.Shown(); return err == nil && len(v.IKE) == 0 }), "we have not found out that the peer is gone")
		}
		text += "log\n" + complaints(own.Log.String())
		if !c.accept {
			status, _ := own.Ikectl("status", "s2s")
			text += "\n$ ikectl status s2s\n" + status
		}
		name := strings.NewReplacer(" ", "-", ",", "").Replace(role(initiate) + "-" + c.subject)
		if text = masked(text); plane == "userspace" {
			s.read(name, text, asIs)
		} else if unheard {
			s.read(name+"-Libreswan", text, planeless)
		} else {
			s.read(name, text, planeless)
		}
		return evidence
	})
}

// refusal is what the peer says of AUTHENTICATION_FAILED. Libreswan 5.2 as responder names none that comes after its own proof: it heeds our Delete beside it. As initiator it sends
// none: it deletes the IKE SA, or says nothing at all, and we find out that it is gone.
func (c certFault) refusal(peer string, initiate bool) string {
	switch {
	case peer == "strongSwan":
		return "AUTH_FAILED"
	case initiate && c.byPeer == "":
		return "deleting IKE SA (established IKE SA)"
	case !initiate && c.byPeer != "":
		return c.byPeer
	}
	return "AUTHENTICATION_FAILED"
}

// refused waits until the peer has said so, and has nothing left of the tunnel. It returns what it said.
func (s *stage) refused(other *gateway, words string) string {
	var said []string
	s.want(rig.Until(patience, func() bool {
		said = other.Renewer.(interface{ Said(string) []string }).Said(words)
		return len(said) > 0
	}), "the peer's log does not say %q", words)
	if l, ok := other.Renewer.(*rig.Libreswan); ok && other.Site == s.A { // as initiator it would try again and again
		s.must(l.Down())
	}
	var left rig.Shown
	var kernel []string
	s.want(rig.Until(patience, func() bool {
		left, _ = other.Shown()
		kernel, _ = rig.KernelSPIs(other.Gateway)
		return len(left.IKE)+len(left.Children)+len(kernel) == 0
	}), "the peer still shows %v, its kernel has %v", left, kernel)
	return told(said[0]) + "; it has no SA"
}

// complaints are the lines of a log that tell more than what goes on.
func complaints(log string) (text string) {
	for l := range strings.Lines(log) {
		if regexp.MustCompile(` (warning|error) `).MatchString(l) {
			text += l
		}
	}
	return text
}

// masked hides what differs from run to run.
func masked(text string) string {
	for _, m := range [][2]string{
		{`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d\.\d+Z)?`, "DATE"}, {`serial [0-9a-f]+`, "serial N"}, {`spi=[0-9a-f]+`, "spi=N"}, {`\b[0-9a-f]{16}\b`, "HEX16"}, {`\b[0-9a-f]{8}\b`, "HEX8"},
		{`\b(\d+m)?\d+s\b`, "TIME"}, {`\b\d+(\.\d)? m?s\b`, "TIME"}, {`s2s: no answer to .*, sent again .*\n`, ""}, {`\b\d+(\.\d)? (B|KiB)\b +\d+ packets`, "N"},
	} {
		text = regexp.MustCompile(m[0]).ReplaceAllString(text, m[1])
	}
	return text
}

// read compares what people read with testdata, each as same shows it.
func (s *stage) read(name, text string, same func(string) string) {
	path := filepath.Join("testdata", "certificates", name+".txt")
	if *rewrite {
		s.must(os.MkdirAll(filepath.Dir(path), 0o755))
		s.must(os.WriteFile(path, []byte(text), 0o644))
		return
	}
	want, err := words.ReadFile(path)
	s.must(err)
	s.want(same(string(want)) == same(text), "%s differs; now:\n%s", path, text)
}

func asIs(text string) string { return text }

// planeless hides the data plane, the ports, which follow from it, and that Libreswan, refused, at once tries once more and hears the same.
func planeless(text string) string {
	for _, m := range [][2]string{
		{`data plane \w+`, "data plane P"}, {`; (no NAT on the path|the peer is behind NAT, or asks for ESP in UDP; .*)`, "; NAT"},
		{`( in UDP)?, (userspace|kernel)\n`, ", P\n"}, {`:4?500\b`, ":PORT"},
	} {
		text = regexp.MustCompile(m[0]).ReplaceAllString(text, m[1])
	}
	return strings.Join(slices.Compact(strings.SplitAfter(text, "\n")), "")
}

// TestUserspaceCertificateFaults: what is wrong with a certificate, told here in words and to the peer by AUTHENTICATION_FAILED alone.
func TestUserspaceCertificateFaults(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	a := newAuthority(t)
	for i, c := range certFaults {
		for _, initiate := range []bool{true, false} {
			if !spared(i, initiate) {
				a.fault(t, "strongSwan", "userspace", initiate, c)
			}
		}
	}
}

// TestKernelCertificateFaults is the same with Libreswan on the kernel's ESP: the words are the same but for what they tell of the data plane.
func TestKernelCertificateFaults(t *testing.T) {
	needLibreswan(t)
	a := newAuthority(t)
	for i, c := range certFaults {
		for _, initiate := range []bool{true, false} {
			if !spared(i, initiate) {
				a.fault(t, "Libreswan", "kernel", initiate, c)
			}
		}
	}
}
