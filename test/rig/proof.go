package rig

import (
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
)

// cygnetProofs are the further words of "local" and "remote", the line of the PSK, and the files behind them, in cygnet's configuration.
func cygnetProofs(t Tunnel) (local, remote, psk string, files Config) {
	files = Config{}
	if t.LocalProof == nil || t.RemoteProof == nil {
		psk = "psk = { file = \"secrets/s2s\" }\n"
		files["secrets/s2s"] = t.PSK + "\n"
	}
	if p := t.LocalProof; p != nil {
		local = `, key = { file = "secrets/own.key" }`
		files["secrets/own.key"] = KeyPEM(p.Key)
		if p.Cert != nil {
			local += `, cert = "certs/own.pem"`
			files["certs/own.pem"] = CertPEM(p.Cert) + CertPEM(p.Sends...)
		}
		if p.PKCS1 {
			psk += "rsa = \"pkcs1\"\n"
		}
	}
	if p := t.RemoteProof; p != nil {
		if p.Cert == nil {
			remote = `, public_key = "certs/peer.pub"`
			files["certs/peer.pub"] = PublicPEM(p.Key)
		} else {
			remote = `, ca = "ca/peer.pem"`
			files["ca/peer.pem"] = CertPEM(p.Trust...)
		}
		if p.CRL != nil {
			remote += `, crl = "ca/peer.crl"`
			files["ca/peer.crl"] = string(p.CRL)
		}
	}
	return local, remote, psk, files
}

// swanProofs are the lines of "local" and "remote" and the files behind them, in strongSwan's configuration, and the keys of its daemon.
func swanProofs(t Tunnel) (local, remote, daemon string, files Config) {
	files = Config{}
	local, remote = "auth = psk", "auth = psk"
	if p := t.LocalProof; p != nil {
		files["private/own.pem"] = KeyPEM(p.Key)
		if p.Cert == nil {
			local = "auth = pubkey\n      pubkeys = own.pem"
			files["pubkey/own.pem"] = PublicPEM(p.Key)
		} else {
			local = "auth = pubkey\n      certs = own.pem"
			files["x509/own.pem"] = CertPEM(p.Cert)
		}
		for i, c := range p.Sends {
			files[fmt.Sprintf("x509ca/sends-%d.pem", i)] = CertPEM(c)
		}
		daemon = "rsa_pss = " + map[bool]string{true: "no", false: "yes"}[p.PKCS1]
	}
	if p := t.RemoteProof; p != nil {
		remote = "auth = pubkey"
		if p.Cert == nil {
			remote += "\n      pubkeys = peer.pem"
			files["pubkey/peer.pem"] = PublicPEM(p.Key)
		}
		for i, c := range p.Trust {
			files[fmt.Sprintf("x509ca/trust-%d.pem", i)] = CertPEM(c)
		}
	}
	return local, remote, daemon, files
}

// libreProofs are the lines of Libreswan's connection, the files behind them, and the commands that bring those into its NSS database.
func libreProofs(t Tunnel) (conn, commands string, files Config) {
	files = Config{}
	const nss = "-d sql:/var/lib/ipsec/nss"
	var run []string
	method := func(p *Proof) string {
		switch {
		case p == nil:
			return "secret"
		case p.Libre != "rsa":
			return p.Libre
		case p.PKCS1:
			return "rsasig"
		}
		return "rsa-sha2"
	}
	if p := t.LocalProof; p != nil {
		conn += "  leftcert=own\n  leftsendcert=always\n  sendca=all\n"
		files["etc/ipsec.d/own.pem"] = CertPEM(p.Cert) + CertPEM(p.Sends...)
		files["etc/ipsec.d/own.key"] = KeyPEM(p.Key)
		run = append(run, "openssl pkcs12 -export -name own -passout pass:x -in /etc/ipsec.d/own.pem -inkey /etc/ipsec.d/own.key -out /tmp-own.p12",
			"pk12util -i /tmp-own.p12 "+nss+" -W x")
		for i, c := range p.Sends {
			files[fmt.Sprintf("etc/ipsec.d/sends-%d.pem", i)] = CertPEM(c)
			run = append(run, fmt.Sprintf("certutil -A -n sends-%d -t ,, -a -i /etc/ipsec.d/sends-%d.pem %s", i, i, nss))
		}
	}
	if p := t.RemoteProof; p != nil {
		if p.Cert == nil {
			conn += "  rightrsasigkey=0s" + rsaKey(p.Key) + "\n"
		}
		for i, c := range p.Trust {
			files[fmt.Sprintf("etc/ipsec.d/trust-%d.pem", i)] = CertPEM(c)
			run = append(run, fmt.Sprintf("certutil -A -n trust-%d -t CT,C,C -a -i /etc/ipsec.d/trust-%d.pem %s", i, i, nss))
		}
	}
	if ours, theirs := method(t.LocalProof), method(t.RemoteProof); ours == theirs {
		conn += "  authby=" + ours + "\n"
	} else {
		conn += "  leftauth=" + strings.Replace(ours, "rsa-sha2", "rsasig", 1) + "\n  rightauth=" + strings.Replace(theirs, "rsa-sha2", "rsasig", 1) + "\n"
	}
	return conn, strings.Join(append(run, ""), " && "), files
}

// rsaKey is the public half of an RSA key as RFC 3110 section 2 has it, in base 64.
func rsaKey(key crypto.Signer) string {
	k := key.Public().(*rsa.PublicKey)
	e := big.NewInt(int64(k.E)).Bytes()
	return base64.StdEncoding.EncodeToString(slices.Concat([]byte{byte(len(e))}, e, k.N.Bytes()))
}

// with adds the files of another configuration.
func (c Config) with(more Config) Config {
	for name, content := range more {
		c[name] = content
	}
	return c
}

// Said returns the lines of pluto's log so far that hold a text.
func (l *Libreswan) Said(text string) (lines []string) {
	log, _ := os.ReadFile(l.log)
	for _, line := range strings.Split(string(log), "\n") {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Serials are the serial numbers of the certificates that strongSwan knows, its own and those that came from peers, in hexadecimal digits.
func (s *Swan) Serials() (list []string, err error) {
	out, err := s.swanctl("--list-certs", "--type", "x509")
	for _, l := range strings.Split(out, "\n") {
		if key, value, _ := strings.Cut(strings.TrimSpace(l), ":"); key == "serial" {
			list = append(list, strings.TrimLeft(strings.ReplaceAll(strings.TrimSpace(value), ":", ""), "0"))
		}
	}
	return list, err
}
