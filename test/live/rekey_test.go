package live

import (
	"strings"
	"testing"
	"time"

	"cygnet/test/rig"
)

// TestRekeyLossless: while pings flood both ways, both gateways rekey the child every second, at times both at once. No packet is lost.
func TestRekeyLossless(t *testing.T) {
	topo := topology(t)
	x := tunnel(topo)
	x.Rekey = 1
	b := startEnd(t, topo.B.Gateway, x.Mirror())
	a := startEnd(t, topo.A.Gateway, x)
	if err := a.Up(); err != nil {
		t.Fatal(err)
	}
	stopA, err := rig.Flood(topo.A.Host, topo.B.Host, topo.B.Host4)
	if err != nil {
		t.Fatal(err)
	}
	stopB, err := rig.Flood(topo.B.Host, topo.A.Host, topo.A.Host4)
	if err != nil {
		t.Fatal(err)
	}
	const wanted = 10
	rekeys := func(e *rig.CygnetEnd) int { return strings.Count(e.Log.String(), "code=child-rekeyed") }
	enough := rig.Until(40*time.Second, func() bool { return rekeys(a) >= wanted && rekeys(b) >= wanted })
	for _, stop := range []func() (string, error){stopA, stopB} {
		if text, err := stop(); err != nil {
			t.Error(err)
		} else {
			t.Log(text)
		}
	}
	t.Logf("%d rekeys at A, %d at B", rekeys(a), rekeys(b))
	if !enough {
		t.Errorf("fewer than %d rekeys", wanted)
	}
	if text := a.Log.String() + b.Log.String(); strings.Contains(text, "child-down") {
		t.Error("a child went down in between")
	}
}
