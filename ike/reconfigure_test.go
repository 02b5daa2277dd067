package ike

import (
	"strings"
	"testing"
	"time"
)

// TestReconfigure: an IKE SA learns of a further child, which comes up beside the one that was there. A rekey of the IKE SA takes it along.
func TestReconfigure(t *testing.T) {
	voice := func(text, local, remote string) string {
		name := text[strings.Index(text, ".")+1 : strings.Index(text, "]")]
		return text + "\n[connection." + name + ".child.voice]\nlocal = [\"" + local + "\"]\nremote = [\"" + remote + "\"]\n"
	}
	n := newPair(t, setup{})
	n.up()
	lan := n.a.sa.children[0]
	n.a.step(Reconfigure{snapshot(t, voice(gwA, "10.8.0.0/16", "10.9.0.0/16"), pskText).Connections[0]})
	n.a.step(RaiseChild{Child: "voice"})
	n.run(time.Second, nil)
	n.a.wants(CodeNoSelectors, "does not accept our selectors") // the other side does not know it yet
	n.b.step(Reconfigure{snapshot(t, voice(gwB, "10.9.0.0/16", "10.8.0.0/16"), pskText).Connections[0]})
	n.a.step(RaiseChild{Child: "lan"})
	n.a.step(RaiseChild{Child: "voice"})
	n.run(time.Second, nil)
	if n.a.children() != 2 || n.b.children() != 2 || n.a.sa.children[0] != lan || !lan.up {
		n.dump()
		t.Fatalf("children: a %d, b %d", n.a.children(), n.b.children())
	}
	n.paired()
	n.a.step(Rekey{IKE: true})
	n.run(5*time.Second, nil)
	if cfg := n.a.sa.childConfig("voice"); cfg == nil || len(n.a.others) != 0 {
		t.Errorf("after the rekey of the IKE SA: voice %v, %d machines", cfg, 1+len(n.a.others))
	}
	n.paired()
}

// TestCallerIsNamed: a refused caller is told of at the connection that it wanted, if that can be known.
func TestCallerIsNamed(t *testing.T) {
	for name, s := range map[string]setup{
		"PSK":      {pskB: "another secret, not the same 4712"},
		"identity": {a: strings.Replace(gwA, `id = "gw-a.example"`, `id = "gw-x.example"`, 1)},
		"proposal": {a: strings.Replace(gwA, "ecp256", "ecp384", 1)},
	} {
		n := newPair(t, s)
		n.a.step(Initiate{})
		n.run(time.Minute, func() bool { return n.a.finish != nil })
		found := false
		for _, r := range n.b.reports {
			found = found || r.Caller == "site-a" && r.Connection == "" && r.Code.Failure()
		}
		if !found {
			n.dump()
			t.Errorf("%s: the caller is not named", name)
		}
	}
}
