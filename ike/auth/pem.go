package auth

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// ParseCertificates reads all certificates of a PEM file, or one in DER, in the order of the file. A private key beside them is passed over, so
// that a file may hold both.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	if isDER(data) {
		c, err := x509.ParseCertificate(data)
		if err != nil {
			return nil, fmt.Errorf("the file is not PEM, and as DER it is no certificate: %s", text(err.Error()))
		}
		return []*x509.Certificate{c}, nil
	}
	var certs []*x509.Certificate
	var others []string
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "CERTIFICATE":
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("certificate %d of the file cannot be read: %s", len(certs)+1, text(err.Error()))
			}
			certs = append(certs, c)
		case block.Type == "TRUSTED CERTIFICATE":
			return nil, errors.New("the file is in OpenSSL's TRUSTED format; convert it with: openssl x509 -in FILE -out NEWFILE")
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			clear(block.Bytes)
			fallthrough
		default:
			others = append(others, block.Type)
		}
	}
	switch {
	case len(certs) > 0:
		return certs, nil
	case len(others) > 0:
		return nil, fmt.Errorf(`the file holds %s but no certificate, which begins with "-----BEGIN CERTIFICATE-----"`, listBlocks(others))
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty")
	}
	return nil, errors.New(`no PEM block; a certificate begins with "-----BEGIN CERTIFICATE-----" (a .p12 file is converted with: openssl pkcs12 -in FILE -nodes)`)
}

// ParseCRLs reads the CRLs of a file, PEM or DER.
func ParseCRLs(data []byte) ([]*x509.RevocationList, error) {
	if isDER(data) {
		l, err := x509.ParseRevocationList(data)
		if err != nil {
			return nil, fmt.Errorf("the file is not PEM, and as DER it is no CRL: %s", text(err.Error()))
		}
		return []*x509.RevocationList{l}, nil
	}
	var lists []*x509.RevocationList
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf(`a %s block is no CRL, which begins with "-----BEGIN X509 CRL-----"`, text(block.Type))
		}
		l, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("CRL %d of the file cannot be read: %s", len(lists)+1, text(err.Error()))
		}
		lists = append(lists, l)
	}
	if len(lists) == 0 {
		return nil, errors.New(`no PEM block; a CRL begins with "-----BEGIN X509 CRL-----"`)
	}
	return lists, nil
}

// isDER reports whether a file begins as a SEQUENCE of more than 127 octets, which no text does.
func isDER(data []byte) bool { return len(data) > 2 && data[0] == 0x30 && data[1] >= 0x81 }
