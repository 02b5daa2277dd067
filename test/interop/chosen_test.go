//go:build interop

package interop

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"cygnet/ike/control"
	"cygnet/test/rig"
)

func TestUserspaceChosen(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	chosenRows(t, "userspace")
}

func TestKernelChosen(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	chosenRows(t, "kernel")
}

// chosenRows: of several connections for peers at any address, and one for this very address, the responder takes that of the peer's
// identity: each has its own PSK and selectors.
func chosenRows(t *testing.T, plane string) {
	need(t, "peers", rig.HaveSwan())
	line{peer: "strongSwan " + plane, role: "responds", subject: "chosen by identity, peers %any", path: "IPv4"}.run(t, func(s *stage) string {
		peers := map[string]rig.Tunnel{}
		config := rig.Config{}
		for name, local := range map[string]string{"one": "10.1.0.0/16", "two": "10.1.0.0/17", "fixed": "10.1.0.0/18"} {
			x := tunnel(s.Topology, rig.CBC, false, false)
			x.LocalID, x.PSK, x.LocalTS = name+".example", "the long secret of "+name, []string{local}
			peers[name] = x
			y := tunnelB(s.Topology, x)
			if name != "fixed" {
				y.Remote = netip.Addr{}
			}
			for file, content := range rig.CygnetConfig(y, rig.CygnetOptions{Dataplane: plane}) {
				config[strings.ReplaceAll(file, "s2s", name)] = strings.ReplaceAll(content, "s2s", name)
			}
		}
		dir := s.folder()
		s.must(config.Write(dir))
		c, err := rig.StartCygnet(s.B.Gateway, bin, dir)
		s.must(err)
		own := &rig.CygnetEnd{Cygnet: c}
		s.keep(own)
		var evidence []string
		for _, name := range []string{"two", "one", "fixed"} {
			swan := s.swan(s.A, peers[name], plane)
			s.must(swan.Up())
			ev, err := rig.Prove(s.Topology, swan, own, peers[name])
			s.must(err)
			s.want(upConnection(s, c) == name, "connection %q is up, wanted %q", upConnection(s, c), name)
			evidence = append(evidence, fmt.Sprintf("%s.example: %s, SPI %08x", name, ev.A.Local, ev.A.SPIIn))
			s.must(swan.Down())
			s.must(rig.Gone(own))
			swan.Stop()
		}
		return strings.Join(evidence, "; ")
	})
}

// upConnection names the connections that have an IKE SA.
func upConnection(s *stage, c *rig.Cygnet) string {
	var st control.Status
	s.must(c.Status(&st))
	var up []string
	for _, conn := range st.Connections {
		if len(conn.IKE) > 0 {
			up = append(up, conn.Name)
		}
	}
	return strings.Join(up, " ")
}
