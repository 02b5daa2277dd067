package rig

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const charon = "/usr/lib/ipsec/charon"

// Swan is Debian's strongSwan in a namespace, with its own /run.
type Swan struct {
	*Daemon
	dir    string
	tunnel Tunnel
	kernel bool
}

// HaveSwan says why strongSwan cannot be started here, or nil.
func HaveSwan() error {
	for _, f := range []string{charon, "/usr/sbin/swanctl", "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so"} {
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("strongSwan: %w (packages strongswan-charon strongswan-swanctl libcharon-extra-plugins)", err)
		}
	}
	return nil
}

// StartSwan starts charon with one connection "s2s" and its child "lan". kernel chooses the kernel's ESP, else the plug-in kernel-libipsec.
func StartSwan(ns NS, dir string, t Tunnel, kernel bool) (*Swan, error) {
	if err := HaveSwan(); err != nil {
		return nil, err
	}
	s := &Swan{dir: dir, tunnel: t, kernel: kernel}
	libipsec := "kernel-libipsec "
	if kernel {
		libipsec = ""
	}
	local, remote, signs, credentials := swanProofs(t)
	if t.SwanRemote != "" {
		remote += "\n      " + t.SwanRemote
	}
	if t.SwanRoot != "" {
		libipsec += "revocation curl "
	}
	files := Config{
		"strongswan.conf": fmt.Sprintf(`charon {
  load = openssl aes aesni sha1 sha2 hmac gcm chapoly kdf drbg random nonce curve25519 gmp pem pkcs1 pkcs8 x509 pubkey constraints %skernel-netlink socket-default vici
  install_routes = yes
  %s
  %s
  make_before_break = yes
  plugins {
    vici {
      socket = %s
    }
  }
  filelog {
    l {
      path = %s
      default = 1
      flush_line = yes
    }
  }
}
`, libipsec, t.SwanDaemon, signs, s.uri(), filepath.Join(dir, "charon.log")),
		"swanctl.conf": s.config(local, remote),
	}.with(credentials)
	if err := files.Write(dir); err != nil {
		return nil, err
	}
	os.Remove(filepath.Join(dir, "vici")) // of one that was killed
	cmd := ns.Command("sh", "-c", "mount -t tmpfs tmpfs /run && exec "+charon)
	if t.SwanRoot != "" { // its environment is empty, and its /run its own
		cmd = ns.Command(t.SwanRoot, "--exec", "env", "STRONGSWAN_CONF="+filepath.Join(dir, "strongswan.conf"), "PATH=/usr/sbin:/usr/bin", "charon-systemd")
		cmd.Dir = dir
	}
	cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+filepath.Join(dir, "strongswan.conf"))
	var err error
	if s.Daemon, err = start(ns, cmd); err != nil {
		return nil, err
	}
	listens := func() bool { // the socket's file is there a moment before
		c, err := net.Dial("unix", filepath.Join(dir, "vici"))
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	if !Until(10*time.Second, func() bool { return listens() || s.Dead() }) || s.Dead() {
		return nil, fmt.Errorf("charon did not start:\n%s", s.Stop())
	}
	if out, err := s.swanctl("--load-all", "--file", filepath.Join(dir, "swanctl.conf")); err != nil {
		return nil, fmt.Errorf("%w\n%s\n%s", err, out, s.Stop())
	}
	return s, nil
}

func (s *Swan) uri() string { return "unix://" + filepath.Join(s.dir, "vici") }

func (s *Swan) config(local, remote string) string {
	encap := "no"
	if s.tunnel.Encap {
		encap = "yes"
	}
	life := "" // strongSwan's own: an hour
	if s.tunnel.Rekey > 0 {
		life = fmt.Sprintf("        rekey_time = %ds\n        rand_time = 0s\n        life_time = 60s\n", s.tunnel.Rekey)
	}
	if t := s.tunnel.SwanChild; t != "" {
		life += "        " + t + "\n"
	}
	more := ""
	for _, c := range s.tunnel.More {
		esp := c.ESP
		if c.Group != "" {
			esp += "-" + c.Group
		}
		more += fmt.Sprintf("      %s {\n        local_ts = %s\n        remote_ts = %s\n        esp_proposals = %s\n      }\n", c.Name, c.LocalTS, c.RemoteTS, esp)
	}
	return fmt.Sprintf(`connections {
  s2s {
    version = 2
    local_addrs = %s
    remote_addrs = %s
    proposals = %s
    encap = %s
    %s
    local {
      %s
      id = "%s"
    }
    remote {
      %s
      id = "%s"
    }
    children {
      lan {
        local_ts = %s
        remote_ts = %s
        esp_proposals = %s
%s      }
%s    }
  }
}
secrets {
  ike-1 {
    secret = "%s"
  }
}
`, s.tunnel.Local, outer(s.tunnel.Remote), s.tunnel.Suite.IKE, encap, s.tunnel.Swan, local, s.tunnel.LocalID, remote, s.tunnel.RemoteID,
		strings.Join(s.tunnel.LocalTS, ","), strings.Join(s.tunnel.RemoteTS, ","), s.tunnel.Suite.ESP, life, more, s.tunnel.PSK)
}

func (s *Swan) swanctl(arg ...string) (string, error) {
	cmd := exec.Command("timeout", append([]string{"30", "/usr/sbin/swanctl"}, append(arg, "--uri", s.uri())...)...)
	cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+filepath.Join(s.dir, "strongswan.conf"), "SWANCTL_DIR="+s.dir)
	return output(cmd)
}

// Up implements End.
func (s *Swan) Up() error { return s.UpChild("lan") }

// Down implements End.
func (s *Swan) Down() error {
	_, err := s.swanctl("--terminate", "--ike", "s2s", "--timeout", "10")
	return err
}

// SA implements End: strongSwan's own words, and the kernel's where the kernel does ESP.
func (s *Swan) SA() (SA, error) {
	children, err := s.Children()
	if err != nil {
		return SA{}, err
	}
	if len(children) == 0 {
		return SA{}, fmt.Errorf("strongSwan shows no installed child")
	}
	sa := children[0].SA
	if !s.kernel {
		return sa, nil
	}
	local := s.tunnel.Local
	if !local.IsValid() { // it takes whichever it has
		out, err := s.ListSAs()
		if err != nil {
			return sa, err
		}
		if local, err = netip.ParseAddr(find(out, `local-host=(\S+)`)); err != nil {
			return sa, fmt.Errorf("strongSwan shows no address of its own: %w", err)
		}
	}
	k, err := XfrmSAs(s.NS, local)
	if err != nil {
		return sa, err
	}
	if k.SPIIn != sa.SPIIn || k.SPIOut != sa.SPIOut || k.Suite != sa.Suite || !among(sa.Local, k.Local) || !among(sa.Remote, k.Remote) {
		return sa, fmt.Errorf("strongSwan says %08x/%08x %s %s %s, its kernel %08x/%08x %s %s %s",
			sa.SPIIn, sa.SPIOut, sa.Suite, sa.Local, sa.Remote, k.SPIIn, k.SPIOut, k.Suite, k.Local, k.Remote)
	}
	return sa, nil
}

// SwanChild is an installed child as strongSwan shows it.
type SwanChild struct {
	SA
	Name  string
	Group string // of its own key exchange: "MODP_2048", "" when it had none
}

// Children are all installed children, in strongSwan's order.
func (s *Swan) Children() (list []SwanChild, err error) {
	out, err := s.ListSAs()
	if err != nil {
		return nil, err
	}
	for _, c := range regexp.MustCompile(`\{name=`).Split(out, -1)[1:] {
		if !strings.Contains(c, "state=INSTALLED") {
			continue
		}
		bits := find(c, `encr-keysize=(\d+)`)
		if bits == "" {
			bits = "256" // ChaCha20's key length is fixed and not shown
		}
		sa := SA{
			SPIIn: hex32(find(c, `spi-in=([0-9a-f]+)`)), SPIOut: hex32(find(c, `spi-out=([0-9a-f]+)`)),
			Suite: find(c, `encr-alg=(\w+)`) + "-" + bits,
			Local: find(c, `local-ts=\[([^\]]*)\]`), Remote: find(c, `remote-ts=\[([^\]]*)\]`),
		}
		if integ := find(c, `integ-alg=(\w+)`); integ != "" {
			sa.Suite += "/" + integ
		}
		sa.BytesIn, _ = strconv.ParseUint(find(c, `bytes-in=(\d+)`), 10, 64)
		sa.BytesOut, _ = strconv.ParseUint(find(c, `bytes-out=(\d+)`), 10, 64)
		list = append(list, SwanChild{sa, find(c, `^(\w+)`), find(c, `dh-group=(\w+)`)})
	}
	return list, nil
}

// ListSAs is what "swanctl --list-sas" shows, in its form for programs.
func (s *Swan) ListSAs() (string, error) { return s.swanctl("--list-sas", "--raw") }

// UpChild initiates one child.
func (s *Swan) UpChild(name string) error {
	_, err := s.swanctl("--initiate", "--child", name, "--timeout", "20")
	return err
}

// DownChild takes one child down, and leaves the IKE SA.
func (s *Swan) DownChild(name string) error {
	_, err := s.swanctl("--terminate", "--child", name, "--timeout", "10")
	return err
}

// Said returns the lines of charon's log so far that hold a text.
func (s *Swan) Said(text string) (lines []string) {
	log, _ := os.ReadFile(filepath.Join(s.dir, "charon.log"))
	for _, l := range strings.Split(string(log), "\n") {
		if strings.Contains(l, text) {
			lines = append(lines, l)
		}
	}
	return lines
}

// Stop implements End.
func (s *Swan) Stop() string {
	s.Signal(syscall.SIGTERM)
	log, _ := os.ReadFile(filepath.Join(s.dir, "charon.log"))
	return s.Log.String() + string(log)
}

var _ End = (*Swan)(nil)

// outer prints an address that may be missing.
func outer(a netip.Addr) string {
	if a.IsValid() {
		return a.String()
	}
	return "%any"
}
