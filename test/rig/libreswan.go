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

// Libreswan runs from a folder of unpacked packages (test/lab/peers-root), since it cannot be installed beside strongSwan.
type Libreswan struct {
	*Daemon
	tunnel Tunnel
	log    string
}

// StartLibreswan starts pluto with one connection "s2s". peersRoot is the path of test/lab/peers-root.
func StartLibreswan(ns NS, dir, peersRoot string, t Tunnel) (*Libreswan, error) {
	l := &Libreswan{tunnel: t, log: filepath.Join(dir, "pluto.log")}
	encapsulation := "auto"
	if t.Plain {
		encapsulation = "no" // it sends no NAT detection either
	}
	proofs, load, credentials := libreProofs(t)
	if err := (Config{
		"etc/ipsec.conf": fmt.Sprintf(`config setup
  logfile=%s
conn s2s
  ikev2=insist
  left=%s
  leftid=@%s
  leftsubnet=%s
  right=%s
  rightid=@%s
  rightsubnet=%s
  ike=%s
  esp=%s
  pfs=no
  encapsulation=%s
  auto=ignore
%s%s`, l.log, t.Local, t.LocalID, t.LocalTS[0], outer(t.Remote), t.RemoteID, t.RemoteTS[0], t.Suite.LibreIKE, t.Suite.LibreESP, encapsulation, proofs, t.Libre),
		"etc/ipsec.secrets": fmt.Sprintf("@%s @%s : PSK %q\n", t.LocalID, t.RemoteID, t.PSK),
	}).with(credentials).Write(dir); err != nil {
		return nil, err
	}
	cmd := ns.Command(peersRoot, "--exec", "bash", "-c",
		"mkdir -p /run/pluto /var/lib/ipsec/nss && ipsec initnss && "+load+"exec /usr/libexec/ipsec/pluto --nofork --config /etc/ipsec.conf")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PEERS_ETC="+filepath.Join(dir, "etc"))
	var err error
	if l.Daemon, err = start(ns, cmd); err != nil {
		return nil, err
	}
	if !Until(30*time.Second, func() bool {
		_, err := l.ipsec("whack", "--status")
		return err == nil || l.Dead()
	}) || l.Dead() {
		return nil, fmt.Errorf("pluto did not start:\n%s", l.Stop())
	}
	if out, err := l.ipsec("add", "s2s"); err != nil {
		return nil, fmt.Errorf("%w\n%s\n%s", err, out, l.Stop())
	}
	return l, nil
}

// ipsec runs Libreswan's tool inside the daemon's own root folder and namespaces.
func (l *Libreswan) ipsec(arg ...string) (string, error) {
	return output(exec.Command("timeout", append([]string{"40", "nsenter", "-t", strconv.Itoa(l.PID()), "-m", "-n", "-r", "-W/",
		"env", "PATH=/usr/sbin:/usr/bin", "ipsec"}, arg...)...))
}

// Up implements End.
func (l *Libreswan) Up() error {
	out, err := l.ipsec("up", "s2s")
	if err == nil && !strings.Contains(out, "established") {
		err = fmt.Errorf("ipsec up: %s", out)
	}
	return err
}

// Down implements End.
func (l *Libreswan) Down() error {
	_, err := l.ipsec("down", "s2s")
	return err
}

// SA implements End: the kernel's SAs, once Libreswan itself shows them.
func (l *Libreswan) SA() (SA, error) {
	out, err := l.ipsec("trafficstatus")
	if err != nil {
		return SA{}, err
	}
	if !strings.Contains(out, "s2s") {
		return SA{}, fmt.Errorf("Libreswan shows no child: %s", out)
	}
	return XfrmSAs(l.NS, l.tunnel.Local)
}

// Stop implements End.
func (l *Libreswan) Stop() string {
	l.Signal(syscall.SIGTERM)
	log, _ := os.ReadFile(l.log)
	return l.Log.String() + string(log)
}

var _ End = (*Libreswan)(nil)
