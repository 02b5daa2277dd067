package ike

import (
	"testing"
	"time"

	"cygnet/ike/wire"
)

// TestTrap_3948_2_Ports: ESP in UDP travels between the ports that IKE uses, also when the NAT changes them.
func TestTrap_3948_2_Ports(t *testing.T) {
	n, base := natA(t, setup{still: true})
	n.up()
	check := func() {
		t.Helper()
		for _, h := range []*host{n.a, n.b} {
			p := h.sa.path
			if len(h.plane.sas) != 2 {
				t.Fatalf("%s: %d SAs", h.name, len(h.plane.sas))
			}
			for id, s := range h.plane.sas {
				src, dst := p.Local.Port(), p.Remote.Port()
				if id.Dst == p.Local.Addr() {
					src, dst = dst, src
				}
				if s.Encap == nil || s.Encap.SrcPort != src || s.Encap.DstPort != dst {
					t.Errorf("%s: %v in UDP %+v, IKE uses %d -> %d", h.name, id, s.Encap, src, dst)
				}
			}
		}
	}
	check()
	*base = 31000
	n.a.ask(wire.Informational) // from a new port
	n.run(time.Second, nil)
	if n.b.sa.path.Remote.Port() != 35500 {
		t.Fatalf("b did not follow: %v", n.b.sa.path)
	}
	check()
}

// TestTrap_3948_4_Keepalive: behind a NAT no 20 s pass without a datagram, in silence and with requests in between; the other side sends none.
func TestTrap_3948_4_Keepalive(t *testing.T) {
	n, _ := natA(t, setup{})
	n.up()
	n.a.usage, n.b.usage = UsageDone{Inbound: 1}, UsageDone{Inbound: 1} // no liveness checks
	sent := n.now
	alive, messages := n.a.alive, len(n.a.sends)
	for second := range 200 {
		n.run(time.Second, nil)
		if n.a.alive != alive || len(n.a.sends) != messages {
			alive, messages, sent = n.a.alive, len(n.a.sends), n.now
		}
		if quiet := n.now.Sub(sent); quiet > 20*time.Second {
			t.Fatalf("%v without a datagram", quiet)
		}
		if second < 60 && second%13 == 0 {
			n.a.step(Probe{})
		}
	}
	if n.b.alive != 0 || alive == 0 {
		t.Errorf("keepalives: a %d, b %d", alive, n.b.alive)
	}
}
