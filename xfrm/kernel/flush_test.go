package kernel

import (
	"strings"
	"testing"

	"cygnet/xfrm"
)

// TestFlush: all of ours goes, whoever left it there and however it is cut into pieces; others' policies stay.
func TestFlush(t *testing.T) {
	g := gateway(t)
	d := g.driver(t, Config{})
	for _, p := range everyKind() {
		g.must(t, func() error { return d.Apply(t.Context(), []xfrm.Op{xfrm.PutPolicy{Policy: p}}) })
	}
	for _, guard := range []string{ // as the userspace data plane sets them
		"dir in src 10.9.0.0/16 dst 10.8.0.0/16 proto tcp sport 443 action block priority 1048700",
		"dir fwd src ::/0 dst ::/0 proto ipv6-icmp type 135 action allow priority 1048576",
		"dir in src ::/0 dst ::/0 mark 17241 mask 0xffffffff action allow priority 1048576",
	} {
		g.ip(t, "xfrm policy add "+guard)
	}
	g.ip(t, "xfrm policy add dir in src 10.5.0.0/16 dst 10.6.0.0/16 action block priority 5")
	var removed []string
	g.must(t, func() (err error) {
		removed, err = Flush(t.Context())
		return err
	})
	text := strings.Join(removed, "\n")
	for _, want := range []string{"policy out protect 10.1.0.0/16 -> 10.2.0.0/16", "policy fwd protect ", "policy in block 10.9.0.0/16 -> 10.8.0.0/16 protocol 6", "policy in pass ::/0 -> ::/0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not among\n%s", want, text)
		}
	}
	left := g.ip(t, "xfrm policy")
	if strings.Count(left, "priority") != 1 || !strings.Contains(left, "src 10.5.0.0/16 dst 10.6.0.0/16") {
		t.Errorf("left:\n%s", left)
	}
	g.must(t, func() (err error) {
		removed, err = Flush(t.Context())
		return err
	})
	if len(removed) != 0 {
		t.Errorf("again: %v", removed)
	}
}

// TestFlushSAs: SAs go by our range of reqids.
func TestFlushSAs(t *testing.T) {
	s := newSite(t)
	s.up(t, child{}.defaults())
	var removed []string
	s.a.must(t, func() (err error) {
		removed, err = Flush(t.Context())
		return err
	})
	if text := strings.Join(removed, "\n"); strings.Count(text, "SA ") != 2 {
		t.Errorf("removed:\n%s", text)
	}
	if left := s.a.ip(t, "xfrm state"); left != "" {
		t.Errorf("left:\n%s", left)
	}
}
