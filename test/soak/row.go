package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cygnet/test/rig"
)

// How often the gateways renew keys of themselves, in seconds.
const (
	childRekey = 20
	ikeRekey   = 60
)

// window is that of cygnet's replay protection, its default.
const window = 128

// merge is how long the gateways' cards wait for more to merge, in nanoseconds.
const merge = 200_000

// badWAN is what the packets of both rows meet.
func badWAN(o options) rig.Impairment {
	return rig.Impairment{Seed: o.seed, Loss: 0.01, Reorder: 0.02, Duplicate: 0.005, Straggle: 0.0005, Depth: 24, Window: window, IKE: o.ike,
		Delay: 10 * time.Millisecond, Patience: 200 * time.Millisecond}
}

// row is a pair of gateways, what runs between them, and what was found.
type row struct {
	name, title string
	suite       rig.Suite
	peer        bool // one of the two is strongSwan

	options
	topo      *rig.Topology
	wan       *rig.Impair
	a, b      *gateway
	operators []*operator
	flows     []*flow
	transfers []*transfers
	began     time.Time
	quit      chan struct{} // ends the traffic

	passing  rig.Passing
	findings []string // what is wrong
	notes    []string // what is worth knowing
	err      error    // the row could not be run to its end
}

func ownRow() *row {
	return &row{name: "own", title: "cygnet userspace and cygnet userspace, AES-256-GCM", suite: rig.GCM}
}

func swanRow() *row {
	return &row{name: "swan", title: "cygnet userspace and strongSwan kernel-libipsec, AES-256-CBC/SHA2-256", suite: rig.CBC, peer: true}
}

func (r *row) gateways() []*gateway { return []*gateway{r.a, r.b} }

// own is the first of the two that is cygnet.
func (r *row) own() *gateway {
	if r.a.own != nil {
		return r.a
	}
	return r.b
}

// find notes what is wrong.
func (r *row) find(format string, a ...any) {
	r.findings = append(r.findings, fmt.Sprintf(format, a...))
}

// note notes what is worth knowing.
func (r *row) note(format string, a ...any) { r.notes = append(r.notes, fmt.Sprintf(format, a...)) }

// run builds the row, lets it run, and judges.
func (r *row) run(ctx context.Context, o options, dir string) (err error) {
	r.options = o
	if r.topo, err = rig.NewTopology(fmt.Sprintf("cyg-soak-%d-%s", os.Getpid(), r.name), rig.Options{}); err != nil {
		return err
	}
	defer r.topo.Remove()
	for _, ns := range []rig.NS{r.topo.A.Gateway, r.topo.B.Gateway} {
		if err = ns.GRO("wan", merge); err != nil {
			return err
		}
	}
	if r.wan, err = r.topo.Impair(r.planted(badWAN(o))); err != nil {
		return err
	}
	defer r.wan.Stop()
	defer func() { err = errors.Join(err, r.stop(dir)) }()
	if err = r.start(dir); err != nil {
		return err
	}
	if err = r.traffic(); err != nil {
		return err
	}
	defer r.closeTraffic()
	if err = r.last(ctx); err != nil {
		return err
	}
	r.settle()
	r.judge()
	return r.end()
}

// tunnel of the row as A sees it.
func (r *row) tunnel() rig.Tunnel {
	t := r.topo
	return rig.Tunnel{
		Local: t.A.WAN4, Remote: t.B.WAN4, LocalID: "gw-a.example", RemoteID: "gw-b.example",
		LocalTS: []string{t.A.LAN4.String(), t.A.LAN6.String()}, RemoteTS: []string{t.B.LAN4.String(), t.B.LAN6.String()},
		PSK: "correct horse battery staple", Suite: r.suite, Rekey: childRekey, CygnetChild: r.plantedChild(),
		Cygnet: fmt.Sprintf("rekey_time = \"%ds\"\nrand_time = \"%ds\"\nover_time = \"1m\"\n", ikeRekey, ikeRekey/6),
		Swan:   fmt.Sprintf("rekey_time = %ds\n    rand_time = %ds\n    over_time = 60s", ikeRekey, ikeRekey/6),
	}
}

// start brings the tunnel up, B's gateway first. The peer has either place, by the seed: it initiates or responds.
func (r *row) start(dir string) (err error) {
	x := r.tunnel()
	swanAtA := r.peer && r.seed%2 == 0
	if r.b, err = r.gateway("B", r.topo.B.Gateway, filepath.Join(dir, "b"), x.Mirror(), r.peer && !swanAtA); err != nil {
		return err
	}
	if r.a, err = r.gateway("A", r.topo.A.Gateway, filepath.Join(dir, "a"), x, swanAtA); err != nil {
		return err
	}
	for _, g := range r.gateways() {
		if g.own == nil {
			continue
		}
		o, err := startOperator(g.own)
		if err != nil {
			return err
		}
		r.operators = append(r.operators, o)
	}
	if err := r.a.end.Up(); err != nil {
		return err
	}
	if !rig.Until(10*time.Second, func() bool { _, err = r.b.end.SA(); return err == nil }) { // a moment later than A
		return fmt.Errorf("%s: %w", r.b.name, err)
	}
	return nil
}

// gateway starts the daemon of a site.
func (r *row) gateway(at string, ns rig.NS, dir string, x rig.Tunnel, swan bool) (*gateway, error) {
	if swan {
		s, err := rig.StartSwan(ns, dir, x, false)
		if err != nil {
			return nil, err
		}
		return &gateway{name: "strongSwan at " + at, end: s, daemon: s.Daemon}, nil
	}
	c, err := rig.StartCygnetEnd(ns, r.bin, dir, x, rig.CygnetOptions{Dataplane: "userspace"})
	if err != nil {
		return nil, err
	}
	return &gateway{name: "cygnet at " + at, end: c, daemon: c.Daemon, own: c}, nil
}

// noResets keeps a host from answering what comes late to a connection that is closed: a reset has 40 octets, and with AES-CBC's padding the size of a small datagram.
const noResets = "add table inet soak; add chain inet soak out { type filter hook output priority 0; }; add rule inet soak out tcp flags & rst == rst drop"

// traffic starts it both ways.
func (r *row) traffic() error {
	r.quit = make(chan struct{})
	for _, host := range []rig.NS{r.topo.A.Host, r.topo.B.Host} {
		if _, err := host.Output("nft", noResets); err != nil {
			return err
		}
	}
	for i, way := range []string{forward, backward} {
		from, to := r.topo.A, r.topo.B
		if way == backward {
			from, to = to, from
		}
		for _, k := range kinds {
			f, err := openFlow(k, way, from, to, uint16(i+1))
			if err != nil {
				return err
			}
			r.flows = append(r.flows, f)
		}
		for _, at := range []netip.Addr{to.Host4, to.Host6} {
			t, err := openTransfers(way, from, to, at)
			if err != nil {
				return err
			}
			r.transfers = append(r.transfers, t)
		}
	}
	r.plantedTraffic()
	r.began = time.Now()
	for _, f := range r.flows {
		f.start(r.quit)
	}
	for i, t := range r.transfers {
		t.start(r.quit, r.seed+uint64(i))
	}
	return nil
}

func (r *row) closeTraffic() {
	for _, f := range r.flows {
		f.close()
	}
	for _, t := range r.transfers {
		t.listener.Close()
	}
}

// Intervals of figures and of samples.
const printEvery = 10 * time.Second

func (r *row) sampleEvery() time.Duration {
	if r.seconds < 300 {
		return 2 * time.Second
	}
	return 5 * time.Second
}

// last lets it run for the time wanted, or until the context ends, and then ends the traffic and the operators.
func (r *row) last(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.seconds)*time.Second)
	defer cancel()
	for i, o := range r.operators {
		go o.work(ctx, r.seed+uint64(i))
	}
	r.plantedMeanwhile(ctx)
	sample, figures := time.NewTicker(r.sampleEvery()), time.NewTicker(printEvery)
	defer sample.Stop()
	defer figures.Stop()
	for {
		select {
		case <-ctx.Done():
			close(r.quit)
			for _, f := range r.flows {
				f.sending.Wait()
			}
			for _, t := range r.transfers {
				t.sending.Wait()
			}
			return nil
		case <-sample.C:
			for _, g := range r.gateways() {
				if err := g.measure(); err != nil {
					return fmt.Errorf("%s: %w\n%s", g.name, err, tail(g.daemon.Log.String()))
				}
			}
		case <-figures.C:
			fmt.Println(r.figures())
		}
	}
}

// tail is the end of a log.
func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// settle waits until nothing is on its way any more: what the WAN still holds, and keys that are being renewed.
func (r *row) settle() {
	quiet := time.Now()
	if !rig.Until(30*time.Second, func() bool {
		if !r.wan.Idle() {
			quiet = time.Now()
		}
		return time.Since(quiet) > time.Second
	}) {
		r.find("the WAN has been carrying packets for 30 s after the traffic ended")
	}
	if err := r.agree(); err != nil {
		r.find("after the traffic: %v", err)
	}
	var err error
	if r.passing, err = r.wan.Passing(); err != nil {
		r.find("%v", err)
	}
}

// agree waits until both ends show one IKE SA and one pair of SAs, the same ones.
func (r *row) agree() (err error) {
	rig.Until(time.Minute, func() bool { // a rekey, its messages sent again, and strongSwan's five seconds with the old child
		x, errA := r.a.standing()
		y, errB := r.b.standing()
		if err = errors.Join(errA, errB); err == nil {
			err = rig.Same(x, y)
		}
		return err == nil
	})
	return err
}

// end takes the tunnel down and looks what is left.
func (r *row) end() error {
	for _, o := range r.operators {
		if err := o.end(); err != nil {
			r.find("%v", err)
		}
	}
	if err := r.own().end.Down(); err != nil {
		return err
	}
	for _, g := range r.gateways() {
		if err := rig.Gone(g.end); err != nil {
			r.find("after ikectl down, %s: %v", g.name, err)
		}
	}
	return nil
}

// stop ends the daemons, keeps their logs and looks what they left.
func (r *row) stop(dir string) error {
	var errs []error
	for name, g := range map[string]*gateway{"a": r.a, "b": r.b} {
		if g == nil {
			continue
		}
		died := g.daemon.Dead()
		log := g.end.Stop()
		errs = append(errs, os.WriteFile(filepath.Join(dir, name+".log"), []byte(log), 0o600))
		if died {
			r.find("%s died:\n%s", g.name, tail(log))
		}
		if g.own == nil {
			continue
		}
		if left, err := rig.Leftovers(g.daemon.NS); err != nil || left != "" {
			r.find("%s left %s (%v)", g.name, left, err)
		}
	}
	return errors.Join(errs...)
}
