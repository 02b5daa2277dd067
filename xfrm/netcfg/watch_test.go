package netcfg

import (
	"testing"
	"time"
)

// TestWatch: a new address is told; a route of ours is not; after Close the channel is closed.
func TestWatch(t *testing.T) {
	h := inNamespace(t)
	w, err := NewWatch()
	if err != nil {
		t.Fatal(err)
	}
	wait := func(what string) bool {
		t.Helper()
		select {
		case _, open := <-w.Changed():
			return open
		case <-time.After(5 * time.Second):
			t.Fatalf("nothing was told of %s", what)
		}
		return false
	}
	ip(t, "link add watched type veth peer name seen")
	ip(t, "link set seen up")
	ip(t, "link set watched up")
	ip(t, "addr add 192.0.2.9/24 dev watched")
	wait("an address")
	for drained := false; !drained; {
		select {
		case <-w.Changed():
		case <-time.After(300 * time.Millisecond):
			drained = true
		}
	}
	set(t, h, "x", Desired{Routes: []Route{{Dst: p("10.9.0.0/16"), Link: "watched"}}})
	select {
	case <-w.Changed():
		t.Error("our own route was told")
	case <-time.After(300 * time.Millisecond):
	}
	ip(t, "link set watched down")
	wait("a link")
	w.Close()
	for wait("the end") {
	}
}

// TestMattersTakesAnything: no notice, however cut, is read past its end.
func TestMattersTakesAnything(t *testing.T) {
	whole := []byte{36, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 16, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0, 8, 0, 1, 0, 10, 9, 0, 0}
	if !matters(whole) {
		t.Error("a route is nothing")
	}
	for n := range whole {
		if matters(whole[:n]) {
			t.Errorf("%d octets of it are something", n)
		}
	}
}
