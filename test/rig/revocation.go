package rig

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// Serve answers HTTP in a namespace, until stop.
func (n NS) Serve(address string, h http.Handler) (stop func(), err error) {
	var l net.Listener
	if err := n.Do(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}); err != nil {
		return nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go s.Serve(l)
	return func() { s.Close() }, nil
}

// StartOCSP runs OpenSSL's OCSP responder for a CA in a namespace. Its responses are signed by signer, which the CA issued for that.
func StartOCSP(ns NS, dir string, port int, ca *CA, signer *Proof, good, revoked []*x509.Certificate) (*Daemon, error) {
	const stamp = "060102150405Z"
	var index strings.Builder
	for _, c := range good {
		fmt.Fprintf(&index, "V\t%s\t\t%X\tunknown\t/CN=%s\n", c.NotAfter.UTC().Format(stamp), c.SerialNumber, c.Subject.CommonName)
	}
	for _, c := range revoked {
		fmt.Fprintf(&index, "R\t%s\t%s,keyCompromise\t%X\tunknown\t/CN=%s\n", c.NotAfter.UTC().Format(stamp), time.Now().Add(-time.Hour).UTC().Format(stamp), c.SerialNumber, c.Subject.CommonName)
	}
	if err := (Config{"index.txt": index.String(), "ca.pem": CertPEM(ca.Cert), "signer.pem": CertPEM(signer.Cert), "secrets/signer.key": KeyPEM(signer.Key)}).Write(dir); err != nil {
		return nil, err
	}
	cmd := ns.Command("openssl", "ocsp", "-port", fmt.Sprint(port), "-index", "index.txt", "-CA", "ca.pem", "-rsigner", "signer.pem", "-rkey", filepath.Join("secrets", "signer.key"), "-nmin", "60")
	cmd.Dir = dir
	d, err := start(ns, cmd)
	if err != nil {
		return nil, err
	}
	if !Until(10*time.Second, func() bool { return strings.Contains(d.Log.String(), "aiting for OCSP") || d.Dead() }) || d.Dead() {
		return nil, fmt.Errorf("openssl ocsp did not start:\n%s", d.Log)
	}
	return d, nil
}
