package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// patience is the deadline of everything that is waited for.
const patience = 20 * time.Second

// Tunnel of two cygnetd.
type Tunnel struct {
	a, b *Process
	dir  string
}

// TunnelOptions of StartCygnet.
type TunnelOptions struct {
	Cygnetd   string // path of the program
	Dataplane string // "userspace" or "kernel"
	ESP       string // the one proposal, in the words of the configuration: "aes256gcm16"
	MTU       int    // of inner packets in octets, userspace; 0: cygnetd's own
}

// StartCygnet starts a cygnetd in each gateway and waits until the tunnel carries packets.
func StartCygnet(ctx context.Context, w *Network, o TunnelOptions) (*Tunnel, error) {
	dir, err := os.MkdirTemp("", "cygnet-bench")
	if err != nil {
		return nil, err
	}
	t := &Tunnel{dir: dir}
	psk := make([]byte, 32)
	rand.Read(psk)
	o.write(filepath.Join(dir, "a"), "a", "b", "boot", psk, &err)
	o.write(filepath.Join(dir, "b"), "b", "a", "manual", psk, &err)
	if err == nil {
		t.b, err = start(ctx, w.GatewayB, o.Cygnetd, filepath.Join(dir, "b"))
	}
	if err == nil {
		t.a, err = start(ctx, w.GatewayA, o.Cygnetd, filepath.Join(dir, "a"))
	}
	if err == nil {
		err = w.Carries(ctx, t.a, t.b)
	}
	if err != nil {
		t.Stop()
		return nil, err
	}
	return t, nil
}

// last lines of a log.
func last(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-12):], "\n  ")
}

// start starts cygnetd and waits until it is ready.
func start(ctx context.Context, n *Namespace, program, dir string) (*Process, error) {
	p, err := n.Start(exec.Command(program, "--config", dir, "--socket", filepath.Join(dir, "control.sock")))
	if err != nil {
		return nil, err
	}
	ready := func() bool { return strings.Contains(p.Output(), "cygnetd ready") }
	until(ctx, patience, func() bool { return p.Dead() || ready() })
	if p.Dead() || !ready() {
		p.Stop()
		return nil, fmt.Errorf("%s did not start:\n%s", program, last(p.Output()))
	}
	return p, nil
}

// write makes the configuration folder of one end.
func (o *TunnelOptions) write(dir, local, remote, begin string, psk []byte, failed *error) {
	address := map[string]string{"a": GatewayA.String(), "b": GatewayB.String()}
	lan := map[string]string{"a": LANA.String(), "b": LANB.String()}
	mtu := ""
	if o.MTU != 0 {
		mtu = fmt.Sprintf("mtu = %d\n", o.MTU)
	}
	files := map[string]string{
		"cygnet.toml": fmt.Sprintf("[daemon]\ndataplane = %q\n%s", o.Dataplane, mtu),
		"secret":      hex.EncodeToString(psk),
		"conn.d/bench.toml": fmt.Sprintf(`[connection.bench]
local = { address = %q, id = "%s.bench" }
remote = { address = %q, id = "%s.bench" }
psk = { file = "secret" }
start = %q

[connection.bench.child.lan]
local = [%q]
remote = [%q]
esp = %q
`, address[local], local, address[remote], remote, begin, lan[local], lan[remote], o.ESP),
	}
	err := os.MkdirAll(filepath.Join(dir, "conn.d"), 0o700)
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	*failed = errors.Join(*failed, err)
}

// PIDs of the two gateways' processes.
func (t *Tunnel) PIDs() []int { return []int{t.a.PID(), t.b.PID()} }

// Stop ends both cygnetd and removes their folder.
func (t *Tunnel) Stop() {
	for _, p := range []*Process{t.a, t.b} {
		if p != nil {
			p.Stop()
		}
	}
	os.RemoveAll(t.dir)
}
