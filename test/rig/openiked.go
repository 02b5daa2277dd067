package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// OpenIKED is Debian's build, which speaks PF_KEY to the kernel: AES-CBC with HMAC-SHA1 or HMAC-SHA2-512 is all that works for ESP.
type OpenIKED struct {
	*Daemon
	tunnel Tunnel
}

// StartOpenIKED starts iked with one policy "s2s"; active initiates at once. peersRoot is the path of test/lab/peers-root.
func StartOpenIKED(ns NS, dir, peersRoot string, t Tunnel, active bool) (*OpenIKED, error) {
	mode := "passive"
	if active {
		mode = "active"
	}
	etc := filepath.Join(dir, "etc")
	if err := (Config{
		"etc/iked.conf": fmt.Sprintf("ikev2 \"s2s\" %s esp from %s to %s local %s peer %s ikesa %s childsa %s srcid %s dstid %s psk \"%s\"\n",
			mode, t.LocalTS[0], t.RemoteTS[0], t.Local, t.Remote, t.Suite.IkedIKE, t.Suite.IkedESP, t.LocalID, t.RemoteID, t.PSK),
		"etc/iked/pubkeys/.keep": "", "etc/iked/private/.keep": "",
	}).Write(dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(etc, "iked.conf"), 0o600); err != nil {
		return nil, err
	}
	// iked wants a key pair of its own, also where it only uses a shared key.
	key := filepath.Join(etc, "iked/private/local.key")
	if _, err := output(exec.Command("openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", key)); err != nil {
		return nil, err
	}
	if _, err := output(exec.Command("openssl", "ec", "-in", key, "-pubout", "-out", filepath.Join(etc, "iked/local.pub"))); err != nil {
		return nil, err
	}
	cmd := ns.Command(peersRoot, "--exec", "iked", "-d", "-vv", "-f", "/etc/iked.conf")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PEERS_ETC="+etc)
	d, err := start(ns, cmd)
	if err != nil {
		return nil, err
	}
	o := &OpenIKED{d, t}
	if !Until(30*time.Second, func() bool { _, err := o.ikectl("show", "sa"); return err == nil || d.Dead() }) || d.Dead() {
		return nil, fmt.Errorf("iked did not start:\n%s", o.Stop())
	}
	return o, nil
}

// ikectl runs OpenIKED's tool inside the daemon's own root folder and namespaces.
func (o *OpenIKED) ikectl(arg ...string) (string, error) {
	return output(exec.Command("timeout", append([]string{"20", "nsenter", "-t", strconv.Itoa(o.PID()), "-m", "-n", "-r", "-W/",
		"env", "PATH=/usr/sbin:/usr/bin", "ikectl"}, arg...)...))
}

// Up implements End: an active policy comes up by itself.
func (o *OpenIKED) Up() error {
	if !Until(20*time.Second, func() bool { _, err := o.SA(); return err == nil }) {
		return fmt.Errorf("iked does not bring the tunnel up")
	}
	return nil
}

// Down implements End.
func (o *OpenIKED) Down() error {
	if _, err := o.ikectl("passive"); err != nil { // else an active policy comes up again
		return err
	}
	_, err := o.ikectl("reset", "sa")
	return err
}

// SA implements End: the kernel's SAs, once iked itself shows them.
func (o *OpenIKED) SA() (SA, error) {
	out, err := o.ikectl("show", "sa")
	if err != nil {
		return SA{}, err
	}
	if !strings.Contains(out, "ESP") {
		return SA{}, fmt.Errorf("iked shows no child: %s", out)
	}
	return XfrmSAs(o.NS, o.tunnel.Local)
}

// Stop implements End.
func (o *OpenIKED) Stop() string {
	o.Signal(syscall.SIGTERM)
	return o.Log.String()
}

var _ End = (*OpenIKED)(nil)
