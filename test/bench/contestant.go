package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"cygnet/test/rig"
	"cygnet/xfrm/bench"
)

// contestant is one tunnel in a network of its own. All are there for the whole run, and idle but in their turns.
type contestant struct {
	name    string
	short   string // in the names of namespaces and files
	begin   func(ctx context.Context, o options, c *contestant) error
	peer    bool // no ratio that gates needs it
	network *bench.Network
	pids    []int // of the gateways' processes
	version string
	ends    []func()
}

func (c *contestant) start(ctx context.Context, o options) error {
	var err error
	if c.network, err = bench.NewNetwork(c.short, 1500, 1500); err != nil {
		return err
	}
	return c.begin(ctx, o, c)
}

func (c *contestant) stop() {
	slices.Reverse(c.ends)
	for _, f := range c.ends {
		f()
	}
	if c.network != nil {
		c.network.Close()
	}
}

// Names of the contestants.
const (
	gcm       = "cygnet AES-256-GCM"
	chacha    = "cygnet ChaCha20-Poly1305"
	cbc       = "cygnet AES-256-CBC, SHA2-256"
	null      = "cygnet without cryptography"
	wireguard = "wireguard-go"
	libipsec  = "strongSwan kernel-libipsec, GCM"
	libCBC    = "strongSwan kernel-libipsec, CBC"
	openvpn   = "OpenVPN AES-256-GCM"
	plain     = "plain forwarding"
)

func contestants(o options) []*contestant {
	all := []*contestant{
		{name: gcm, short: "gcm", begin: cygnet("aes256gcm16")},
		{name: chacha, short: "chacha", begin: cygnet("chacha20poly1305")},
		{name: cbc, short: "cbc", begin: cygnet("aes256-sha256")},
		{name: null, short: "null", begin: cygnet("aes256gcm16", "-tags", "nullcrypto")},
		{name: wireguard, short: "wg", begin: startWireGuard},
		{name: libipsec, short: "lib", begin: swan(rig.GCM), peer: true},
		{name: libCBC, short: "libcbc", begin: swan(rig.CBC), peer: true},
		{name: openvpn, short: "ovpn", begin: startOpenVPN, peer: true},
		{name: plain, short: "plain", begin: startPlain, peer: true},
	}
	return slices.DeleteFunc(all, func(c *contestant) bool {
		return o.smoke && c.peer || o.only != "" && !slices.Contains(strings.Split(o.only, ","), c.short)
	})
}

func startPlain(ctx context.Context, _ options, c *contestant) error {
	c.version = "the kernel, no tunnel"
	return errors.Join(c.network.Forward(), c.network.Carries(ctx))
}

// cygnet starts a tunnel of cygnet's userspace data plane.
func cygnet(esp string, flags ...string) func(context.Context, options, *contestant) error {
	return func(ctx context.Context, o options, c *contestant) error {
		program, err := build(o, "cygnetd"+strings.Join(flags, ""), "./cmd/cygnetd", flags...)
		if err != nil {
			return err
		}
		t, err := bench.StartCygnet(ctx, c.network, bench.TunnelOptions{Cygnetd: program, Dataplane: "userspace", ESP: esp})
		if err != nil {
			return err
		}
		c.pids, c.version = t.PIDs(), "esp = "+esp
		c.ends = append(c.ends, t.Stop)
		return nil
	}
}
