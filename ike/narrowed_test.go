package ike

import (
	"strings"
	"testing"
	"time"
)

// TestNarrowedIsTold: who gets less than was offered reads what, also after a rekey in the status.
func TestNarrowedIsTold(t *testing.T) {
	n := newPair(t, setup{a: strings.Replace(gwA, `local  = ["10.1.0.0/16"]`, `local  = ["10.0.0.0/15"]`, 1)})
	n.up()
	const want = "the peer narrowed local to 10.1.0.0/16 (10.0.0.0/15 was offered)"
	n.a.wants(CodeChildUp, "10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel; "+want)
	if r := n.b.said(CodeChildUp); strings.Contains(r.Text, "narrowed") {
		t.Errorf("the end that narrowed says %q", r.Text)
	}
	n.a.step(Rekey{Child: "lan"})
	n.run(time.Minute, nil)
	n.a.wants(CodeRekeyed)
	if cs := n.a.sa.Status().Children; len(cs) != 1 || cs[0].Narrowed != want {
		t.Errorf("status %+v", cs)
	}
	n.b.step(Rekey{Child: "lan"})
	n.run(time.Minute, nil)
	if cs := n.a.sa.Status().Children; n.a.rekeys() != 2 || len(cs) != 1 || cs[0].Narrowed != want {
		t.Errorf("after the peer's rekey, status %+v", cs)
	}
	n = newPair(t, setup{})
	n.up()
	if r := n.a.said(CodeChildUp); strings.Contains(r.Text, "narrowed") {
		t.Errorf("nothing was narrowed: %q", r.Text)
	}
}
