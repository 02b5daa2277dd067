package main

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cygnet/xfrm/bench"
)

// wireguardVersion is the newest at the time when the ratios to reach were set.
const wireguardVersion = "v0.0.0-20260522210424-ecfc5a8d5446"

// wireguardGo builds wireguard-go into the cache: it is no dependency of this module.
func wireguardGo(o options) (string, error) {
	dir := filepath.Join(o.cache, wireguardVersion)
	program := filepath.Join(dir, "wireguard")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	cmd := exec.Command("go", "install", "golang.zx2c4.com/wireguard@"+wireguardVersion)
	cmd.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build wireguard-go: %w\n%s", err, out)
	}
	return program, nil
}

func startWireGuard(ctx context.Context, o options, c *contestant) error {
	program, err := wireguardGo(o)
	if err != nil {
		return err
	}
	a, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	b, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	w := c.network
	pa, err := wireguardEnd(c, program, w.GatewayA, a, b.PublicKey(), bench.GatewayB, bench.LANB)
	if err != nil {
		return err
	}
	pb, err := wireguardEnd(c, program, w.GatewayB, b, a.PublicKey(), bench.GatewayA, bench.LANA)
	if err != nil {
		return err
	}
	c.pids, c.version = []int{pa.PID(), pb.PID()}, wireguardVersion
	return w.Carries(ctx, pa, pb)
}

// wireguardEnd starts wireguard-go in a gateway and configures it by its socket.
func wireguardEnd(c *contestant, program string, n *bench.Namespace, own *ecdh.PrivateKey, peer *ecdh.PublicKey, endpoint netip.Addr, lan netip.Prefix) (*bench.Process, error) {
	// The socket's folder is fixed, so the name of the link must be this run's and this end's own.
	name := fmt.Sprintf("wg%d%s", os.Getpid(), n.Name[len(n.Name)-1:])
	p, err := n.Start(exec.Command(program, "-f", name))
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, p.Stop)
	socket := filepath.Join("/var/run/wireguard", name+".sock")
	deadline := time.Now().Add(10 * time.Second)
	var conn net.Conn
	for conn, err = net.Dial("unix", socket); err != nil; conn, err = net.Dial("unix", socket) {
		if p.Dead() || time.Now().After(deadline) {
			return nil, fmt.Errorf("%w\n%s", err, p.Output())
		}
		time.Sleep(20 * time.Millisecond)
	}
	defer conn.Close()
	conn.SetDeadline(deadline)
	fmt.Fprintf(conn, "set=1\nprivate_key=%s\nlisten_port=51820\npublic_key=%s\nendpoint=%s\nallowed_ip=%s\n\n",
		hex.EncodeToString(own.Bytes()), hex.EncodeToString(peer.Bytes()), netip.AddrPortFrom(endpoint, 51820), lan)
	answer := make([]byte, 64)
	k, err := conn.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:k]), "errno=0") {
		return nil, fmt.Errorf("wireguard-go refused its configuration: %q %w", answer[:k], err)
	}
	return p, errors.Join(n.Configure(name, innerMTU), n.Route(lan, netip.Addr{}, name))
}
