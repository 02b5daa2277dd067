package main

import (
	"strings"
	"testing"
	"time"

	"cygnet/ike/control"
	"cygnet/test/rig"
)

// TestESPSizes: no kind of numbered packets has the size of another, nor that of a TCP segment, whatever the suite.
func TestESPSizes(t *testing.T) {
	for _, s := range []rig.Suite{rig.GCM, rig.CBC} {
		taken := map[int]string{}
		for inner := 52; inner <= 40+segment; inner++ {
			taken[espSize(s, inner)] = "TCP"
		}
		for _, k := range kinds {
			for _, inner := range []int{k.innerA, k.innerB} {
				size := espSize(s, inner)
				if was := taken[size]; was != "" && was != k.name {
					t.Errorf("%s: %s of %d octets is as large as %s", s.Name, k.name, inner, was)
				}
				taken[size] = k.name
			}
		}
	}
	// Seen on the wire: UDP with 64 octets of data.
	if got := espSize(rig.GCM, 92); got != 20+8+8+8+96+16 {
		t.Errorf("AES-GCM: %d", got)
	}
	if got := espSize(rig.CBC, 92); got != 20+8+8+16+96+16 {
		t.Errorf("AES-CBC: %d", got)
	}
}

// flowOf has sent n and received all but the given ones.
func flowOf(n uint32, missing ...uint32) *flow {
	f := &flow{kind: kinds[0], way: forward, inner: kinds[0].innerA}
	f.sent = n
	for i := range n {
		gone := false
		for _, m := range missing {
			gone = gone || m == i
		}
		if !gone {
			f.take(i, true)
		}
	}
	return f
}

// judged is what a row finds of one flow, of which the WAN tells fates.
func judged(f *flow, fates rig.Fates, peer bool) []string {
	r := ownRow()
	r.a = &gateway{name: "A", own: &rig.CygnetEnd{}}
	r.b = &gateway{name: "B", own: &rig.CygnetEnd{}}
	if peer {
		r.b.own = nil
	}
	size := espSize(r.suite, f.inner)
	r.passing = rig.Passing{AB: rig.Direction{ESP: map[int]rig.Fates{size: fates}}}
	r.judgeFlow(f)
	return r.findings
}

// TestJudgeFlow: each thing that must not be is found, and what the WAN has done is not.
func TestJudgeFlow(t *testing.T) {
	twice := flowOf(10)
	twice.take(3, true)
	broken := flowOf(10)
	broken.take(3, false)
	behind := flowOf(10, 2)
	behind.take(2, true)
	for name, c := range map[string]struct {
		flow  *flow
		fates rig.Fates
		peer  bool
		want  string // "" is none
	}{
		"nothing lost":              {flowOf(10), rig.Fates{Came: 10, Passed: 10}, false, ""},
		"dropped and late":          {flowOf(10, 4, 7), rig.Fates{Came: 10, Passed: 8, Dropped: 1, Late: 1}, false, ""},
		"lost by B":                 {flowOf(10, 4, 7), rig.Fates{Came: 10, Passed: 9, Dropped: 1}, false, "B lost 1 from the WAN"},
		"lost by a peer":            {flowOf(10, 4, 7), rig.Fates{Came: 10, Passed: 9, Dropped: 1}, true, ""},
		"lost by A":                 {flowOf(10, 4), rig.Fates{Came: 9, Passed: 9}, true, "A lost 1 from the LAN"},
		"late, and yet delivered":   {flowOf(10), rig.Fates{Came: 10, Passed: 9, Late: 1}, true, "1 more"},
		"twice":                     {twice, rig.Fates{Came: 10, Passed: 10}, false, "delivered twice"},
		"other content":             {broken, rig.Fates{Came: 10, Passed: 10}, false, "other content"},
		"reordered by the WAN":      {behind, rig.Fates{Came: 10, Passed: 10, Overtaken: 1}, false, ""},
		"reordered":                 {behind, rig.Fates{Came: 10, Passed: 10}, false, "1 were delivered after later ones"},
		"nothing arrives, as asked": {flowOf(1, 0), rig.Fates{Came: 1, Dropped: 1}, false, "nothing has arrived"},
	} {
		got := strings.Join(judged(c.flow, c.fates, c.peer), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, wanted %q", name, got, c.want)
		}
	}
}

// TestGrowth: what grows without end is a leak, what breathes is not.
func TestGrowth(t *testing.T) {
	leaking := map[string]func(i int, s *sample){
		"RSS":        func(i int, s *sample) { s.resident += int64(i) << 19 },
		"fds":        func(i int, s *sample) { s.files += i / 4 },
		"goroutines": func(i int, s *sample) { s.goroutines += i / 2 },
		"IKE SAs":    func(i int, s *sample) { s.ike += i / 8 },
		"children":   func(i int, s *sample) { s.child += i / 8 },
		"":           func(i int, s *sample) { s.resident += int64(i%5) << 19; s.files += i % 2; s.child += i % 2 },
	}
	for what, grow := range leaking {
		var samples []sample
		for i := range 40 {
			s := sample{at: time.Unix(int64(i)*60, 0), resident: 20 << 20, files: 20, goroutines: 30, ike: 1, child: 1}
			grow(i, &s)
			samples = append(samples, s)
		}
		found := ""
		for _, g := range growths(samples) {
			if g.leaks() {
				found += g.what
			}
		}
		if found != what {
			t.Errorf("a leak of %q: found %q", what, found)
		}
	}
}

// TestTroubles: a status that is as it should be has none, and each thing that is not is one.
func TestTroubles(t *testing.T) {
	for want, change := range map[string]func(*control.Connection){
		"":                   func(*control.Connection) {},
		"state down":         func(c *control.Connection) { c.State = "down" },
		"missing [lan]":      func(c *control.Connection) { c.Missing = []string{"lan"} },
		"last error \"x\"":   func(c *control.Connection) { c.LastErr = "x" },
		"not one IKE SA":     func(c *control.Connection) { c.IKE = append(c.IKE, c.IKE[0]) },
		"IKE SA closing":     func(c *control.Connection) { c.IKE[0].Phase = "closing" },
		"child opening":      func(c *control.Connection) { c.IKE[0].Children[0].State = "opening" },
		"sent 3 times":       func(c *control.Connection) { c.IKE[0].Sent = 3 },
		"failed authenticat": func(c *control.Connection) { c.IKE[0].Children[0].IntegrityDrops = 5 },
	} {
		c := control.Connection{State: "up", IKE: []control.IKESA{{Phase: "established", Children: []control.Child{{State: "up", IntegrityDrops: 2}}}}}
		change(&c)
		got := strings.Join(troubles(control.Status{Connections: []control.Connection{c}}, 2), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q, wanted %q", got, want)
		}
	}
}

// TestChecksum is RFC 1071's example.
func TestChecksum(t *testing.T) {
	if got := checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != ^uint16(0xddf2) {
		t.Errorf("%04x", got)
	}
}
