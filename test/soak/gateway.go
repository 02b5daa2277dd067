package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"cygnet/ike/control"
	"cygnet/test/rig"
)

// gateway is one end of a row's tunnel.
type gateway struct {
	name   string
	end    rig.Told
	daemon *rig.Daemon
	own    *rig.CygnetEnd // nil: a peer

	mu      sync.Mutex
	samples []sample
}

// sample is what a daemon holds at a moment.
type sample struct {
	at         time.Time
	resident   int64 // octets
	files      int
	goroutines int // of cygnetd
	ike, child int // SAs, also those on their way out
	cpu        time.Duration
}

// measure takes a sample.
func (g *gateway) measure() error {
	s := sample{at: time.Now()}
	var err error
	if s.resident, err = g.daemon.Resident(); err != nil {
		return err
	}
	if s.cpu, err = g.daemon.CPU(); err != nil {
		return err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.daemon.PID()))
	if err != nil {
		return err
	}
	s.files = len(files)
	if g.own != nil {
		err = s.status(g.own)
	} else {
		var shown rig.Shown
		shown, err = g.end.Shown()
		s.ike, s.child = len(shown.IKE), len(shown.Children)
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.samples = append(g.samples, s)
	return nil
}

// status adds what ikectl shows.
func (s *sample) status(c *rig.CygnetEnd) error {
	var st control.Status
	if err := c.Status(&st); err != nil {
		return err
	}
	s.goroutines = int(st.Counters["goroutines"])
	for _, conn := range st.Connections {
		s.ike += len(conn.IKE)
		for _, sa := range conn.IKE {
			s.child += len(sa.Children)
		}
	}
	return nil
}

// standing is what it shows, without IKE SAs that are closing: the answer to a Delete may be lost, and strongSwan does not give it again.
func (g *gateway) standing() (rig.Shown, error) {
	if g.own != nil {
		return g.own.Standing()
	}
	return g.end.Shown()
}

func (g *gateway) last() sample {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.samples) == 0 {
		return sample{}
	}
	return g.samples[len(g.samples)-1]
}

// growth is a quantity in the first quarter of a run and in the last.
type growth struct {
	what        string
	first, last int64 // medians
	allowed     int64
}

func (g growth) String() string {
	if g.what == "RSS" {
		return fmt.Sprintf("RSS %.1f > %.1f MiB", float64(g.first)/(1<<20), float64(g.last)/(1<<20))
	}
	return fmt.Sprintf("%s %d > %d", g.what, g.first, g.last)
}

func (g growth) leaks() bool { return g.last > g.first+g.allowed }

// While it is warm no more of the receive buffers is touched for the first time: some 17 MiB, as ever deeper bursts come (seen in 90 s).
const (
	warm    = 2 * time.Minute
	buffers = 24 << 20
)

// growths compares the quarters. What is allowed on top is noise: Go's heap breathes between two collections, and an SA has its successor beside it for some seconds.
// A run of ten minutes and more is looked at when it is warm; a shorter one may also fill its buffers.
func growths(samples []sample) []growth {
	var filling int64 = buffers
	if n := len(samples); n > 0 && samples[n-1].at.Sub(samples[0].at) >= 5*warm-printEvery {
		start := samples[0].at.Add(warm)
		samples = slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.at.Before(start) })
		filling = 0
	}
	quarter := max(len(samples)/4, 1)
	if len(samples) < 4 {
		return nil
	}
	begin, end := samples[:quarter], samples[len(samples)-quarter:]
	var list []growth
	for _, q := range []struct {
		what    string
		of      func(sample) int64
		allowed func(first int64) int64
	}{
		{"RSS", func(s sample) int64 { return s.resident }, func(first int64) int64 { return first/4 + 2<<20 + filling }},
		{"fds", func(s sample) int64 { return int64(s.files) }, func(int64) int64 { return 2 }},
		{"goroutines", func(s sample) int64 { return int64(s.goroutines) }, func(int64) int64 { return 4 }},
		{"IKE SAs", func(s sample) int64 { return int64(s.ike) }, func(int64) int64 { return 1 }},
		{"children", func(s sample) int64 { return int64(s.child) }, func(int64) int64 { return 1 }},
	} {
		first := median(begin, q.of)
		list = append(list, growth{q.what, first, median(end, q.of), q.allowed(first)})
	}
	return list
}

func median(samples []sample, of func(sample) int64) int64 {
	var list []int64
	for _, s := range samples {
		list = append(list, of(s))
	}
	slices.Sort(list)
	return list[len(list)/2]
}
