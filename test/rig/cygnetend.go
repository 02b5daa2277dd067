package rig

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"cygnet/ike/control"
)

// CygnetEnd is a cygnetd as an End of a row, with one connection "s2s" and its child "lan".
type CygnetEnd struct {
	*Cygnet
	tunnel Tunnel
}

// Options of a cygnetd in a row.
type CygnetOptions struct {
	Dataplane string // "kernel" or "userspace"
	Start     string // "manual" when empty
	Daemon    string // more lines of [daemon]
	Flags     []string
}

// StartCygnetEnd writes the configuration of t and starts cygnetd.
func StartCygnetEnd(ns NS, bin, dir string, t Tunnel, o CygnetOptions) (*CygnetEnd, error) {
	if err := CygnetConfig(t, o).Write(dir); err != nil {
		return nil, err
	}
	c, err := StartCygnet(ns, bin, dir, o.Flags...)
	if err != nil {
		return nil, err
	}
	return &CygnetEnd{c, t}, nil
}

// CygnetConfig is the configuration folder for t.
func CygnetConfig(t Tunnel, o CygnetOptions) Config {
	quote := func(l []string) string { return `["` + strings.Join(l, `", "`) + `"]` }
	encap := ""
	if t.Encap {
		encap = "encapsulation = \"always\"\n"
	}
	encap += t.Cygnet
	life := ""
	if t.Rekey > 0 {
		life = fmt.Sprintf("rekey_time = \"%ds\"\nrand_time = \"%dms\"\nlife_time = \"1m\"\n", t.Rekey, 400*t.Rekey)
	}
	life += t.CygnetChild
	if o.Start == "" {
		o.Start = "manual"
	}
	more := ""
	for _, c := range t.More {
		group := c.Group
		if group == "" {
			group = "no"
		}
		more += fmt.Sprintf("\n[connection.s2s.child.%s]\nlocal = [%q]\nremote = [%q]\nesp = %q\npfs = %q\n", c.Name, c.LocalTS, c.RemoteTS, c.ESP, group)
	}
	local, remote, psk, files := cygnetProofs(t)
	return Config{
		"cygnet.toml": fmt.Sprintf("[daemon]\ndataplane = %q\nlog = \"debug\"\n%s\n", o.Dataplane, o.Daemon),
		"conn.d/s2s.toml": fmt.Sprintf(`[connection.s2s]
local = { address = %q, id = %q%s }
remote = { address = %q, id = %q%s }
%sike = %q
start = %q
%s
[connection.s2s.child.lan]
local = %s
remote = %s
esp = %q
%s`, outer(t.Local), t.LocalID, local, cmp.Or(t.RemoteName, outer(t.Remote)), t.RemoteID, remote, psk, t.Suite.IKE, o.Start, encap, quote(t.LocalTS), quote(t.RemoteTS), t.Suite.ESP, life) + more,
	}.with(files)
}

// Up implements End.
func (c *CygnetEnd) Up() error {
	out, code := c.Ikectl("up", "s2s", "--timeout", "30s")
	if code != 0 {
		return fmt.Errorf("ikectl up: exit %d: %s", code, out)
	}
	return nil
}

// Down implements End.
func (c *CygnetEnd) Down() error {
	out, code := c.Ikectl("down", "s2s")
	if code != 0 {
		return fmt.Errorf("ikectl down: exit %d: %s", code, out)
	}
	return nil
}

// ErrNoChild says that a daemon shows no Child SA that is up.
var ErrNoChild = errors.New("no child is up")

// SA implements End, and compares with the kernel where the kernel does ESP.
func (c *CygnetEnd) SA() (SA, error) {
	var st control.Status
	if err := c.Status(&st); err != nil {
		return SA{}, err
	}
	for _, conn := range st.Connections {
		for _, ike := range conn.IKE {
			for _, ch := range ike.Children {
				if ch.State != "up" {
					continue
				}
				sa := SA{SPIIn: hex32(ch.SPIIn), SPIOut: hex32(ch.SPIOut), Local: strings.Join(ch.Local, " "), Remote: strings.Join(ch.Remote, " "),
					BytesIn: ch.BytesIn, BytesOut: ch.BytesOut}
				if st.Dataplane != "kernel" {
					sa.Suite = neutralSuite(ch.Suite)
					return sa, nil
				}
				local, err := netip.ParseAddrPort(ike.Local)
				if err != nil {
					return sa, err
				}
				k, err := XfrmSAs(c.NS, local.Addr())
				if err != nil {
					return sa, err
				}
				if k.SPIIn != sa.SPIIn || k.SPIOut != sa.SPIOut || !among(sa.Local, k.Local) || !among(sa.Remote, k.Remote) {
					return sa, fmt.Errorf("cygnet says %08x/%08x %s %s, its kernel %08x/%08x %s %s",
						sa.SPIIn, sa.SPIOut, sa.Local, sa.Remote, k.SPIIn, k.SPIOut, k.Local, k.Remote)
				}
				sa.Suite = k.Suite
				return sa, nil
			}
		}
	}
	return SA{}, ErrNoChild
}

// neutralSuite brings cygnet's words ("AES-CBC-256 with SHA2-256") to those of SA.Suite.
func neutralSuite(s string) string {
	cipher, integ, _ := strings.Cut(s, " with ")
	r := strings.NewReplacer("AES-CBC-", "AES_CBC-", "AES-GCM-", "AES_GCM_16-", "ChaCha20-Poly1305", "CHACHA20_POLY1305-256",
		"SHA1", "HMAC_SHA1_96", "SHA2-256", "HMAC_SHA2_256_128", "SHA2-384", "HMAC_SHA2_384_192", "SHA2-512", "HMAC_SHA2_512_256")
	out := r.Replace(cipher)
	if integ != "" {
		out += "/" + r.Replace(integ)
	}
	return out
}

// Stop implements End.
func (c *CygnetEnd) Stop() string {
	if !c.Dead() {
		c.Signal(syscall.SIGTERM)
	}
	return c.Log.String()
}

var _ End = (*CygnetEnd)(nil)
