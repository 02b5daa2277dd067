package rig

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// End is one gateway of a tunnel, whoever wrote it.
type End interface {
	// Up initiates the tunnel and waits until this end says that it is up.
	Up() error
	// Down takes the tunnel down, with Delete to the peer.
	Down() error
	// SA is the Child SA as this end shows it.
	SA() (SA, error)
	// Stop ends the daemon and returns its log.
	Stop() string
}

// SA is a Child SA in the words of the field, as its owner shows it.
type SA struct {
	SPIIn, SPIOut     uint32
	Suite             string // "AES_CBC-256/HMAC_SHA2_256_128", "AES_GCM_16-256", "CHACHA20_POLY1305-256"
	Local, Remote     string // traffic selectors
	BytesIn, BytesOut uint64
}

// Tunnel says what a tunnel of a row is, in neutral terms; each End writes its own configuration from it.
type Tunnel struct {
	Local, Remote     netip.Addr // outer, as this gateway sees them; Remote may be invalid: any
	LocalID, RemoteID string
	LocalTS, RemoteTS []string
	PSK               string // of the ends that have no other proof
	LocalProof        *Proof // of this end, RemoteProof of the other; nil: the PSK
	RemoteProof       *Proof
	Suite             Suite
	Encap             bool   // ESP in UDP in any case
	RemoteName        string // in place of Remote, for cygnet alone
	Cygnet, Swan      string // further keys of the connection, in the words of each
	CygnetChild       string // further keys of the child "lan", in the words of each
	SwanChild         string
	Libre             string  // further keys of Libreswan's connection, each line indented
	Rekey             int     // the child is rekeyed by this gateway after so many seconds, and may live for a minute; 0: as it likes
	SwanDaemon        string  // further keys of charon itself
	SwanRemote        string  // further keys of strongSwan's section "remote"
	SwanRoot          string  // the path of test/lab/peers-root, for its strongSwan in place of this machine's
	Plain             bool    // Libreswan alone: never ESP in UDP
	More              []Child // beside "lan", which the fields above describe
}

// Child is one more child of a Tunnel.
type Child struct {
	Name              string
	LocalTS, RemoteTS string
	ESP               string
	Group             string // of its own key exchange; "" is none
}

// Mirror is the same tunnel seen from the other gateway.
func (t Tunnel) Mirror() Tunnel {
	t.Local, t.Remote = t.Remote, t.Local
	t.LocalID, t.RemoteID = t.RemoteID, t.LocalID
	t.LocalTS, t.RemoteTS = t.RemoteTS, t.LocalTS
	t.LocalProof, t.RemoteProof = t.RemoteProof, t.LocalProof
	t.More = slices.Clone(t.More)
	for i := range t.More {
		c := &t.More[i]
		c.LocalTS, c.RemoteTS = c.RemoteTS, c.LocalTS
	}
	return t
}

// Suite of a row: the words of cygnet and strongSwan, those of Libreswan, and what an SA must show.
type Suite struct {
	Name     string
	IKE, ESP string
	LibreIKE string
	LibreESP string
	IkedIKE  string
	IkedESP  string
	SA       string
}

// The suites of the interoperability rows.
var (
	CBC    = Suite{Name: "AES-256-CBC/SHA2-256/MODP-2048", IKE: "aes256-sha256-modp2048", ESP: "aes256-sha256", LibreIKE: "aes256-sha2_256-modp2048", LibreESP: "aes256-sha2_256", SA: "AES_CBC-256/HMAC_SHA2_256_128"}
	GCM    = Suite{Name: "AES-256-GCM/ECP-256", IKE: "aes256gcm16-prfsha256-ecp256", ESP: "aes256gcm16", LibreIKE: "aes_gcm256-sha2_256-dh19", LibreESP: "aes_gcm256", SA: "AES_GCM_16-256"}
	ChaCha = Suite{Name: "ChaCha20-Poly1305/X25519", IKE: "chacha20poly1305-prfsha256-x25519", ESP: "chacha20poly1305", LibreIKE: "chacha20_poly1305-sha2_256-dh31", LibreESP: "chacha20_poly1305", SA: "CHACHA20_POLY1305-256"}
	SHA1   = Suite{Name: "AES-256-CBC/SHA1/DH14", IKE: "aes256-sha1-modp2048", ESP: "aes256-sha1", LibreIKE: "aes256-sha1-modp2048", LibreESP: "aes256-sha1",
		IkedIKE: "enc aes-256 prf hmac-sha1 auth hmac-sha1 group modp2048", IkedESP: "enc aes-256 auth hmac-sha1", SA: "AES_CBC-256/HMAC_SHA1_96"}
	SHA512 = Suite{Name: "AES-256-CBC/SHA2-512/MODP-2048", IKE: "aes256-sha256-modp2048", ESP: "aes256-sha512",
		IkedIKE: "enc aes-256 prf hmac-sha2-256 auth hmac-sha2-256 group modp2048", IkedESP: "enc aes-256 auth hmac-sha2-512", SA: "AES_CBC-256/HMAC_SHA2_512_256"}
)

// ESPSuites are all ESP suites, for rows of own against own.
var ESPSuites = []Suite{
	CBC, GCM, ChaCha, SHA1,
	{Name: "AES-128-CBC/SHA2-256/MODP-3072", IKE: "aes128-sha256-modp3072", ESP: "aes128-sha256", SA: "AES_CBC-128/HMAC_SHA2_256_128"},
	{Name: "AES-192-CBC/SHA2-384/ECP-384", IKE: "aes192-sha384-ecp384", ESP: "aes192-sha384", SA: "AES_CBC-192/HMAC_SHA2_384_192"},
	{Name: "AES-256-CBC/SHA2-512/ECP-521", IKE: "aes256-sha512-ecp521", ESP: "aes256-sha512", SA: "AES_CBC-256/HMAC_SHA2_512_256"},
	{Name: "AES-128-GCM/X25519", IKE: "aes128gcm16-prfsha256-x25519", ESP: "aes128gcm16", SA: "AES_GCM_16-128"},
	{Name: "AES-192-GCM/MODP-4096", IKE: "aes192gcm16-prfsha512-modp4096", ESP: "aes192gcm16", SA: "AES_GCM_16-192"},
}

// XfrmSAs reads the kernel's SAs of a namespace by "ip xfrm state": the outer destination tells the direction. BytesIn and BytesOut
// are the lifetime counters of the two SAs, the selectors are those of the outbound policy.
func XfrmSAs(ns NS, local netip.Addr) (SA, error) {
	out, err := ns.Output("ip", "-s", "xfrm", "state")
	if err != nil {
		return SA{}, err
	}
	var sa SA
	for _, block := range regexp.MustCompile(`(?m)^src `).Split(out, -1) {
		if !strings.Contains(block, "proto esp") {
			continue
		}
		spi := hex32(find(block, `spi 0x([0-9a-f]+)`))
		bytes, _ := strconv.ParseUint(find(block, `lifetime current:\s+(\d+)\(bytes\)`), 10, 64)
		if strings.HasPrefix(find(block, `dst (\S+)`), local.String()) {
			sa.SPIIn, sa.BytesIn = spi, bytes
		} else {
			sa.SPIOut, sa.BytesOut = spi, bytes
			sa.Suite = kernelSuite(block)
		}
	}
	if sa.SPIIn == 0 || sa.SPIOut == 0 {
		return sa, fmt.Errorf("no pair of ESP SAs in %s:\n%s", ns, redactKeys(out))
	}
	policies, err := ns.Output("ip", "xfrm", "policy")
	if err != nil {
		return sa, err
	}
	m := regexp.MustCompile(`src (\S+) dst (\S+) *\n\tdir out [^\n]*\n(?:\t[^\n]*\n)*?\ttmpl src [^\n]*\n\t\tproto esp`).FindStringSubmatch(policies)
	if m == nil {
		return sa, fmt.Errorf("no outbound ESP policy in %s:\n%s", ns, policies)
	}
	sa.Local, sa.Remote = m[1], m[2]
	return sa, nil
}

// among: a policy has one of the selectors that a child has.
func among(selectors, one string) bool { return slices.Contains(strings.Fields(selectors), one) }

func redactKeys(s string) string {
	return regexp.MustCompile(`0x[0-9a-f]{32,}`).ReplaceAllString(s, "[key]")
}

// kernelSuite names the suite of one block of "ip xfrm state".
func kernelSuite(block string) string {
	if m := regexp.MustCompile(`aead (\S+) 0x([0-9a-f]+)`).FindStringSubmatch(block); m != nil {
		bits := (len(m[2])/2 - 4) * 8
		return map[string]string{"rfc4106(gcm(aes))": "AES_GCM_16", "rfc7539esp(chacha20,poly1305)": "CHACHA20_POLY1305"}[m[1]] + fmt.Sprintf("-%d", bits)
	}
	key := find(block, `enc cbc\(aes\) 0x([0-9a-f]+)`)
	integ := map[string]string{
		"hmac(sha1) 96": "HMAC_SHA1_96", "hmac(sha256) 128": "HMAC_SHA2_256_128",
		"hmac(sha384) 192": "HMAC_SHA2_384_192", "hmac(sha512) 256": "HMAC_SHA2_512_256",
	}[find(block, `auth-trunc (\S+) `)+" "+find(block, `auth-trunc \S+ \S+ (?:\(\d+ bits\) )?(\d+)`)]
	return fmt.Sprintf("AES_CBC-%d/%s", len(key)*4, integ)
}

// find returns the first group of a pattern, or "".
func find(s, pattern string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

func hex32(s string) uint32 {
	n, _ := strconv.ParseUint(s, 16, 32)
	return uint32(n)
}
