package daemon

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/transport"
)

// TestJobClasses: with one worker held, jobs come in the order of their classes and not of their arrival.
func TestJobClasses(t *testing.T) {
	p := newPool(func(bool) {})
	hold, held := make(chan struct{}), sync.WaitGroup{}
	n := poolWorkers()
	held.Add(n)
	for range n {
		p.add(ike.JobEstablished, job{func() any { held.Done(); <-hold; return nil }, func(any) {}})
	}
	held.Wait()
	var mu sync.Mutex
	var order []ike.JobClass
	add := func(c ike.JobClass) {
		p.add(c, job{func() any { mu.Lock(); order = append(order, c); mu.Unlock(); return nil }, func(any) {}})
	}
	for _, c := range []ike.JobClass{ike.JobInit, ike.JobInit, ike.JobAuth, ike.JobEstablished, ike.JobAuth} {
		add(c)
	}
	// The queue is what the order comes from; the workers run side by side.
	for {
		p.mu.Lock()
		empty := len(p.queues[0])+len(p.queues[1])+len(p.queues[2]) == 0
		p.mu.Unlock()
		if empty {
			break
		}
		j, _ := p.next()
		j.run()
	}
	want := []ike.JobClass{ike.JobEstablished, ike.JobAuth, ike.JobAuth, ike.JobInit, ike.JobInit}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	close(hold)
	p.close()
}

// TestJobBound: a full INIT class drops and counts, says so once, and is relieved when it is short again.
func TestJobBound(t *testing.T) {
	var mu sync.Mutex
	var told []bool
	p := newPool(func(full bool) { mu.Lock(); told = append(told, full); mu.Unlock() })
	hold := make(chan struct{})
	for range poolWorkers() + jobBounds[ike.JobInit] + 10 {
		p.add(ike.JobInit, job{func() any { <-hold; return nil }, func(any) {}})
	}
	if p.dropped[ike.JobInit].Load() == 0 {
		t.Error("nothing was dropped")
	}
	if !p.add(ike.JobEstablished, job{func() any { return nil }, func(any) {}}) {
		t.Error("a full INIT class kept an established IKE SA out")
	}
	close(hold)
	p.close()
	if !slices.Equal(told, []bool{true, false}) {
		t.Errorf("told %v", told)
	}
	if p.add(ike.JobAuth, job{}) {
		t.Error("a closed pool took a job")
	}
}

// TestJobRefused: where a class is full, an IKE SA that is up hears at once that nothing comes of its job; others do not.
func TestJobRefused(t *testing.T) {
	p := newPool(func(bool) {})
	p.close() // takes nothing more
	for class, want := range map[ike.JobClass]int{ike.JobEstablished: 1, ike.JobAuth: 0, ike.JobInit: 0} {
		l := newLoop(&Daemon{pool: p}, nil)
		l.do(7, ike.Job{Token: 9, Class: class, Run: func() any { t.Error("run"); return nil }})
		mail := l.box.take(nil)
		if len(mail) != want || want > 0 && mail[0] != any(shard.ForSA{SPI: 7, Event: ike.JobDone{Token: 9}}) {
			t.Errorf("class %d: %+v", class, mail)
		}
	}
}

// TestJobPanic: a panic in a computation is a result that no machine takes for a success.
func TestJobPanic(t *testing.T) {
	p := newPool(func(bool) {})
	got := make(chan any, 1)
	p.add(ike.JobAuth, job{func() any { panic("bug") }, func(r any) { got <- r }})
	if r, ok := (<-got).(jobPanic); !ok || r.reason != "bug" {
		t.Errorf("got %v", r)
	}
	p.close()
}

func TestMailboxKeepsOrder(t *testing.T) {
	m := newMailbox[int]()
	go func() {
		for i := range 1000 {
			m.put(i)
		}
	}()
	var got, list []int
	for len(got) < 1000 {
		<-m.signal
		list = m.take(list)
		got = append(got, list...)
	}
	if !slices.IsSorted(got) {
		t.Error("out of order")
	}
}

// TestHubNeverWaits: a watcher that does not read loses news, which is counted, and holds up nobody.
func TestHubNeverWaits(t *testing.T) {
	h := newHub()
	w := h.watch("x")
	for range watcherQueue + 7 {
		h.publish(news{report: ike.Report{Connection: "x"}})
		h.publish(news{report: ike.Report{Connection: "y"}})
	}
	if len(w.news) != watcherQueue || w.lost.Load() != 7 {
		t.Errorf("%d kept, %d lost", len(w.news), w.lost.Load())
	}
	w.stop()
	h.publish(news{report: ike.Report{Connection: "x"}})
}

func TestResolve(t *testing.T) {
	r := newResolver()
	defer r.stop()
	loop, six := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("2001:db8::1")
	for name, c := range map[string]struct {
		ask     ike.Resolve
		local   netip.Addr
		failure bool
	}{
		"address":          {ike.Resolve{Remote: loop}, loop, false},
		"local given":      {ike.Resolve{Local: netip.MustParseAddr("127.0.0.9"), Remote: loop}, netip.MustParseAddr("127.0.0.9"), false},
		"families differ":  {ike.Resolve{Local: loop, Remote: six}, loop, true},
		"name":             {ike.Resolve{Name: "localhost", Local: loop}, loop, false},
		"name that is not": {ike.Resolve{Name: "nowhere.invalid"}, netip.Addr{}, true},
	} {
		c.ask.Token = 7
		got := make(chan ike.ResolveDone, 1)
		r.ask(c.ask, func(d ike.ResolveDone) { got <- d })
		select {
		case d := <-got:
			if d.Token != 7 || d.Local != c.local || (d.Err != nil) != c.failure || !c.failure && d.Remote[0] != loop {
				t.Errorf("%s: %+v", name, d)
			}
		case <-time.After(lookupTime + time.Second):
			t.Errorf("%s: no answer", name)
		}
	}
}

// TestResolveBothFamilies: with a source of any address every address of the name that can be reached is tried; a source of one family leaves
// those of its family.
func TestResolveBothFamilies(t *testing.T) {
	r := newResolver()
	defer r.stop()
	loop4, loop6 := netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()
	if _, err := transport.SourceFor(loop6); err != nil {
		t.Skip(err)
	}
	noRoute := netip.MustParseAddr("fe80::1") // of no link
	asked := 0
	r.find = func(context.Context, string, string) ([]netip.Addr, error) {
		asked++
		return []netip.Addr{noRoute, loop6, netip.AddrFrom16(loop4.As16())}, nil
	}
	for _, c := range []struct {
		local, source netip.Addr
		remotes       []netip.Addr
	}{
		{netip.Addr{}, loop6, []netip.Addr{loop6, loop4}},
		{loop6, loop6, []netip.Addr{noRoute, loop6}},
		{loop4, loop4, []netip.Addr{loop4}},
	} {
		d := r.resolve(ike.Resolve{Local: c.local, Name: "peer.example"})
		if d.Err != nil || d.Local != c.source || !slices.Equal(d.Remote, c.remotes) {
			t.Errorf("local %v: %+v", c.local, d)
		}
	}
	if d := r.resolve(ike.Resolve{Remote: noRoute, Others: []netip.Addr{loop4, loop6}}); d.Err != nil || d.Local != loop4 || !slices.Equal(d.Remote, []netip.Addr{loop4, loop6}) {
		t.Errorf("the first has no route: %+v", d)
	}
	if asked != 3 {
		t.Errorf("%d look-ups for 3 attempts", asked)
	}
	r.find = func(context.Context, string, string) ([]netip.Addr, error) { return []netip.Addr{noRoute}, nil }
	if d := r.resolve(ike.Resolve{Name: "peer.example"}); d.Err == nil || !strings.Contains(d.Err.Error(), "no route to "+noRoute.String()) {
		t.Errorf("no route: %+v", d)
	}
}

func TestSplitLineage(t *testing.T) {
	for in, want := range map[string][2]string{"a/lan/b.example": {"a", "lan"}, "a/lan": {"a", "lan"}, "a": {"a", ""}, "a/lan/x/y": {"a", "lan"}} {
		if c, ch := splitLineage(in); c != want[0] || ch != want[1] {
			t.Errorf("%s: %s, %s", in, c, ch)
		}
	}
}

func TestInTime(t *testing.T) {
	if s := inTime(0); s != "" {
		t.Errorf("nothing planned: %q", s)
	}
	if s := inTime(bootTime().Add(8*time.Second + 100*time.Millisecond)); s != "in 8s" {
		t.Errorf("got %q", s)
	}
	if s := inTime(bootTime().Add(-time.Hour)); s != "in 0s" {
		t.Errorf("overdue: %q", s)
	}
}

// TestNothingIsOpenedWhileStopping: the directory wants boot connections up again when their IKE SAs have been lowered.
func TestNothingIsOpenedWhileStopping(t *testing.T) {
	d := &Daemon{}
	d.loops = []*loop{newLoop(d, nil)}
	l := &directoryLoop{d: d}
	l.do(directory.Start{Connection: "x"})
	if n := len(d.loops[0].box.take(nil)); n != 1 {
		t.Fatalf("%d messages to the shard, want 1", n)
	}
	l.closing = true
	l.do(directory.Start{Connection: "x"})
	if n := len(d.loops[0].box.take(nil)); n != 0 {
		t.Errorf("%d messages to the shard while stopping", n)
	}
}
