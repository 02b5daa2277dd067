package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cygnet/xfrm/bench"
)

// startOpenVPN starts Debian's OpenVPN point to point, with its defaults but for MTU and cipher; without the kernel's help (DCO), which would not be userspace.
func startOpenVPN(ctx context.Context, o options, c *contestant) error {
	dir, err := os.MkdirTemp("", "bench-openvpn")
	if err != nil {
		return err
	}
	c.ends = append(c.ends, func() { os.RemoveAll(dir) })
	ownA, err := openvpnCertificate(dir, "a")
	if err != nil {
		return err
	}
	ownB, err := openvpnCertificate(dir, "b")
	if err != nil {
		return err
	}
	w := c.network
	b, err := openvpnEnd(c, w.GatewayB, dir, "b", "--tls-server", ownA, bench.GatewayA, bench.LANA)
	if err != nil {
		return err
	}
	a, err := openvpnEnd(c, w.GatewayA, dir, "a", "--tls-client", ownB, bench.GatewayB, bench.LANB)
	if err != nil {
		return err
	}
	out, _ := exec.Command("openvpn", "--version").Output()
	c.pids, c.version = []int{a.PID(), b.PID()}, strings.Join(strings.Fields(string(out))[:2], " ")
	return w.Carries(ctx, a, b)
}

func openvpnEnd(c *contestant, n *bench.Namespace, dir, name, role, peer string, remote netip.Addr, lan netip.Prefix) (*bench.Process, error) {
	p, err := n.Start(exec.Command("openvpn", "--dev", "ovpn", "--dev-type", "tun", "--proto", "udp4", "--remote", remote.String(), role, "--dh", "none",
		"--cert", filepath.Join(dir, name+".crt"), "--key", filepath.Join(dir, name+".key"), "--peer-fingerprint", peer,
		"--data-ciphers", "AES-256-GCM", "--cipher", "AES-256-GCM", "--disable-dco", "--tun-mtu", strconv.Itoa(innerMTU), "--mssfix", "0"))
	if err != nil {
		return nil, fmt.Errorf("%w (test/prepare bench installs it)", err)
	}
	c.ends = append(c.ends, p.Stop)
	for end := time.Now().Add(10 * time.Second); !n.HasLink("ovpn"); time.Sleep(20 * time.Millisecond) {
		if p.Dead() || time.Now().After(end) {
			return nil, fmt.Errorf("OpenVPN made no link:\n%s", p.Output())
		}
	}
	return p, errors.Join(n.Configure("ovpn", innerMTU), n.Route(lan, netip.Addr{}, "ovpn"))
}

// openvpnCertificate writes a self-signed certificate and its key and returns its fingerprint.
func openvpnCertificate(dir, name string) (fingerprint string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	sum := sha256.Sum256(cert)
	fingerprint = strings.ToUpper(strings.ReplaceAll(fmt.Sprintf("% x", sum[:]), " ", ":"))
	return fingerprint, errors.Join(
		os.WriteFile(path+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}
