package ike

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// story lists what a person sees without -v.
func (h *host) story() []string {
	var lines []string
	for _, r := range h.reports {
		if !r.Code.Detail() {
			lines = append(lines, r.Text)
		}
	}
	return lines
}

func TestStory(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	want := []string{
		"IKE_SA_INIT sent to 198.51.100.7:500",
		"peer chose AES-GCM-256, SHA2-256, ECP-256; no NAT on the path",
		"peer proved gw-b.example (PSK)",
		"up in 45 ms: 10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel",
	}
	if got := n.a.story(); !slices.Equal(got, want) {
		t.Errorf("story\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, h := range []*host{n.a, n.b} {
		if len(h.claims) != 1 || h.claims[0].Initiated != (i == 0) || h.claims[0].InitialContact {
			t.Errorf("%s: claims %+v", h.name, h.claims)
		}
		s := h.sa.Status()
		if !h.sa.Established() || s.Phase != "established" || s.Suite != "AES-GCM-256, SHA2-256, ECP-256" || len(s.Children) != 1 || !s.Children[0].Up {
			t.Errorf("%s: status %+v", h.name, s)
		}
	}
	if a, b := n.a.sa.Status(), n.b.sa.Status(); a.RemoteID != b.LocalID || a.LocalID != b.RemoteID || a.SPIi != b.SPIi || a.SPIr != b.SPIr ||
		a.Children[0].SPIIn != b.Children[0].SPIOut || a.Children[0].SPIOut != b.Children[0].SPIIn || n.a.sa.PeerSPI() != n.b.config.SPI {
		t.Errorf("the two sides differ:\n%+v\n%+v", a, b)
	}
}

// with replaces the proposals of both sides.
func with(ike, esp string) setup {
	change := func(s string) string {
		if ike != "" {
			s = strings.Replace(s, "aes256gcm16-prfsha256-ecp256", ike, 1)
		}
		if esp != "" {
			s += fmt.Sprintf("esp = %q\n", esp)
		}
		return s
	}
	return setup{a: change(gwA), b: change(gwB)}
}

func TestSuites(t *testing.T) {
	for _, c := range []struct{ ike, esp, chosen, child string }{
		{"aes256-sha256-modp2048", "aes256-sha256", "AES-CBC-256, SHA2-256, MODP-2048", "ESP AES-CBC-256 with SHA2-256"},
		{"aes128-sha384-ecp384", "aes128gcm16", "AES-CBC-128, SHA2-384, ECP-384", "ESP AES-GCM-128"},
		{"aes192-sha512-ecp521", "aes256-sha512", "AES-CBC-192, SHA2-512, ECP-521", "ESP AES-CBC-256 with SHA2-512"},
		{"chacha20poly1305-prfsha512-x25519", "chacha20poly1305", "ChaCha20-Poly1305, SHA2-512, X25519", "ESP ChaCha20-Poly1305"},
		{"aes128gcm16-prfsha384-modp3072", "aes256gcm16-noesn", "AES-GCM-128, SHA2-384, MODP-3072", "ESP AES-GCM-256"},
		{"aes256-sha1-modp2048", "aes128-sha1", "AES-CBC-256, SHA1, MODP-2048", "ESP AES-CBC-128 with SHA1"},
	} {
		t.Run(c.ike, func(t *testing.T) {
			n := newPair(t, with(c.ike, c.esp))
			n.up()
			n.a.wants(CodeChosen, c.chosen)
			n.a.wants(CodeChildUp, c.child)
		})
	}
}

// TestDefaults: two connections without a proposal line.
func TestDefaults(t *testing.T) {
	plain := func(s string) string {
		return strings.Replace(s, "ike    = \"aes256gcm16-prfsha256-ecp256\"\n", "", 1)
	}
	n := newPair(t, setup{a: plain(gwA), b: plain(gwB)})
	n.up()
	n.a.wants(CodeChosen, "AES-GCM-256, SHA2-256, X25519")
	for _, s := range n.a.plane.sas {
		if !s.Suite.ESN || s.Mode != xfrm.Tunnel || s.Encap != nil || s.Direction == xfrm.In && s.Replay != 128 {
			t.Errorf("SA %+v", s)
		}
	}
}

// TestInstallOrder: the inbound SA comes before the outbound one, and the answer leaves after both (RFC 7296 section 2.8).
func TestInstallOrder(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for _, h := range []*host{n.a, n.b} {
		in := slices.IndexFunc(h.plane.ops, func(s string) bool { return strings.Contains(s, "add SA") && strings.Contains(s, h.ownAddr()) })
		out := slices.IndexFunc(h.plane.ops, func(s string) bool { return strings.Contains(s, "add SA") && !strings.Contains(s, h.ownAddr()) })
		if in < 0 || out < in {
			t.Errorf("%s: %v", h.name, h.plane.ops)
		}
	}
}

func (h *host) ownAddr() string {
	if h == h.net.a {
		return addrA.String()
	}
	return addrB.String()
}

// TestLoss loses each datagram of the initial exchanges, of a child's creation, of its deletion and of the IKE SA's, once and in pairs;
// others are duplicated or come late. All must end as it would have without.
func TestLoss(t *testing.T) {
	for _, fault := range []string{"lose", "double", "late", "swap"} {
		for i := range 12 {
			for j := i; j < 12; j++ {
				if fault != "lose" && j > i {
					break
				}
				t.Run(fmt.Sprintf("%s/%d,%d", fault, i, j), func(t *testing.T) { life(t, fault, i, j) })
			}
		}
	}
}

// life runs one IKE SA from its first packet to its last.
func life(t *testing.T, fault string, faults ...int) {
	n := newPair(t, setup{a: gwA + dmz("10.3.0.0/16", "10.2.0.0/16"), b: gwB + strings.ReplaceAll(dmz("10.2.0.0/16", "10.3.0.0/16"), "site-b", "site-a")})
	count := -1
	n.hook = func(d datagram) []datagram {
		count++
		if !slices.Contains(faults, count) {
			return []datagram{d}
		}
		switch fault {
		case "lose":
			return nil
		case "double":
			return []datagram{d, d}
		}
		delay := 50 * time.Millisecond
		if fault == "late" {
			delay = 9 * time.Second // after the sender has repeated it
		}
		n.after(delay, func() { n.deliver(d) })
		return nil
	}
	n.a.step(Initiate{Children: []string{"lan"}})
	both := func(k int) func() bool {
		return func() bool { return n.a.children() == k && n.b.children() == k }
	}
	if !n.run(3*time.Minute, both(1)) {
		n.dump()
		t.Fatal("not up")
	}
	n.a.step(RaiseChild{Child: "dmz"})
	if !n.run(3*time.Minute, both(2)) {
		n.dump()
		t.Fatal("no second child")
	}
	n.paired()
	n.b.step(Lower{Child: "dmz"})
	if !n.run(3*time.Minute, both(1)) {
		n.dump()
		t.Fatal("the second child is still there")
	}
	n.paired()
	n.b.step(Lower{Why: "test over"})
	if !n.run(5*time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil }) {
		n.dump()
		t.Fatal("not finished")
	}
	n.empty()
}

func dmz(local, remote string) string {
	return fmt.Sprintf("\n[connection.site-b.child.dmz]\nlocal = [%q]\nremote = [%q]\n", local, remote)
}

// TestSilence: each side alone gives up and says so.
func TestSilence(t *testing.T) {
	n := newPair(t, setup{})
	n.hook = func(datagram) []datagram { return nil }
	n.a.step(Initiate{})
	n.run(5*time.Minute, func() bool { return n.a.finish != nil })
	n.a.wants(CodeNoAnswer, "no answer from 198.51.100.7:500 to 6 IKE_SA_INIT in 41 s", "is UDP 500 and 4500 open", "conn.d/test.toml:3: remote.address")
	if len(n.a.sends) != 6 || n.a.finish == nil || !n.a.finish.Retry || n.a.finish.Code != CodeNoAnswer {
		t.Errorf("%d sendings, finish %+v", len(n.a.sends), n.a.finish)
	}
}

// TestHalfOpen: a responder that hears no IKE_AUTH is gone after 30 s.
func TestHalfOpen(t *testing.T) {
	n := newPair(t, setup{})
	n.hook = func(d datagram) []datagram {
		if m, _ := wire.Decode(d.data); m.Exchange == wire.IKEAuth {
			return nil
		}
		return []datagram{d}
	}
	n.a.step(Initiate{})
	start := n.now
	n.run(5*time.Minute, func() bool { return n.b.finish != nil })
	if n.b.finish == nil || n.now.Sub(start).Round(time.Second) != 30*time.Second || n.b.finish.Code != CodeNoAnswer {
		t.Errorf("after %v: %+v", n.now.Sub(start), n.b.finish)
	}
	n.run(5*time.Minute, func() bool { return n.a.finish != nil })
	n.a.wants(CodeNoAnswer, "6 IKE_AUTH in 41 s", "it answered IKE_SA_INIT, but what follows is lost on the path: UDP 4500 is closed", "open UDP 4500 both ways")
}
