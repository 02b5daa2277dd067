package daemon

import (
	"strings"
	"testing"

	"cygnet/ike/control"
	"cygnet/xfrm/xfrmfake"
)

func (n *node) rekey(name, child string, ike bool) (text string, f *control.Failure) {
	n.t.Helper()
	return n.stream(func(line func(control.Line)) error { return n.client.Rekey(deadline(n.t), name, child, ike, line) })
}

// TestRekey: new keys on both sides, under the same reqid; and words for what cannot be.
func TestRekey(t *testing.T) {
	sa, sb := pair(t)
	b, a := launch(t, sb, xfrmfake.New()), launch(t, sa, xfrmfake.New())
	if _, f := a.rekey("b", "", false); f == nil || f.Code != "not-up" || f.Hint != "ikectl up b" {
		t.Errorf("rekey of what is down: %+v", f)
	}
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	b.await("B up", isUp)
	before := a.status().IKE[0]
	for peer, n := range map[string]*node{"a": b, "b": a} {
		text, f := n.rekey(peer, "lan", false)
		if f != nil || !strings.Contains(text, "lan rekeyed in ") || !strings.Contains(text, "ESP AES-GCM-256, fake") {
			t.Fatalf("%v\n%s", f, text)
		}
		for _, n := range []*node{a, b} {
			n.await("one child", func(c control.Connection) bool { return len(c.IKE) == 1 && len(c.IKE[0].Children) == 1 })
		}
		after := a.status().IKE[0]
		if after.Children[0].SPIIn == before.Children[0].SPIIn || after.SPIi != before.SPIi {
			t.Errorf("before %+v, after %+v", before, after)
		}
		before = after
	}
	if text, f := a.rekey("b", "", true); f != nil || !strings.Contains(text, "IKE SA rekeyed in ") {
		t.Errorf("rekey of the IKE SA: %v\n%s", f, text)
	}
	if _, f := a.rekey("b", "dmz", false); f == nil || f.Code != control.CodeUnknownChild {
		t.Errorf("unknown child: %+v", f)
	}
	if _, f := a.rekey("c", "", true); f == nil || f.Code != control.CodeUnknownConnection {
		t.Errorf("unknown connection: %+v", f)
	}
}
