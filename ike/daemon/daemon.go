// Package daemon is cygnetd without its command line, and the only package where goroutines meet. One goroutine runs each shard of IKE SAs, one the
// directory, one the ledger and the data plane; a bounded pool computes; the transport's loops receive. They speak through mailboxes and
// bounded channels, and none of them waits for another: see loop.go, directory.go, dataplane.go, jobs.go.
//
// It decides nothing about the protocol: what is asked by an action is carried out, and answered by an event.
package daemon

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"cygnet/ike/control"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/transport"
	"cygnet/policy"
	"cygnet/policy/load"
	"cygnet/xfrm"
	"cygnet/xfrm/doctor"
	"cygnet/xfrm/netcfg"
)

// Config of a daemon.
type Config struct {
	ConfigDir string // "/etc/cygnet"
	Socket    string // of the control API; control.DefaultSocket when empty
	TUNName   string // of the userspace data plane
	tunMTU    int    // likewise, in octets; the configuration says it
	Version   string
	Log       *logrus.Logger
	// FixedLogLevel: the level of Log was given by the caller and the configuration's does not apply.
	FixedLogLevel bool
	// Ready is called once, with a line for people, when connections can be made. May be nil.
	Ready func(string)
}

// Daemon is one cygnetd.
type Daemon struct {
	config   Config
	log      *logrus.Logger
	choose   chooser
	host     doctor.Host
	snapshot atomic.Pointer[policy.Snapshot]
	running  policy.Daemon // the [daemon] table that was in force at the start
	reload   sync.Mutex
	disk     disk
	clock    clock
	quiet    time.Duration // after so long without a packet of the peer, up asks it first

	caps      xfrm.Capabilities
	hashKey   [16]byte
	transport *transport.Transport
	loops     []*loop
	directory *directoryLoop
	plane     *plane
	pool      *pool
	resolver  *resolver
	inquirer  *inquirer
	hub       *hub
	counters  counters
	sendNote  sendNote
	strangers strangers

	stopping  chan struct{} // closed first: waits of clients end
	quit      chan struct{} // closed when all IKE SAs have ended: shards and directory end
	planeQuit chan struct{} // closed last: the data plane's goroutine ends
	parts     sync.WaitGroup
}

// counters of what belongs to no shard.
type counters struct{ malformed, sendErrors, strangeAcquires atomic.Uint64 }

// New reads the configuration. Without a Daemon the problems say why; else they are warnings.
func New(c Config) (*Daemon, []policy.Problem) {
	snap, problems := load.Dir(c.ConfigDir)
	if snap == nil {
		return nil, problems
	}
	if c.Socket == "" {
		c.Socket = control.DefaultSocket
	}
	d := &Daemon{
		config: c, log: c.Log, choose: choose, host: doctor.This(), running: snap.Daemon, hub: newHub(), quiet: quietAfter,
		stopping: make(chan struct{}), quit: make(chan struct{}), planeQuit: make(chan struct{}),
	}
	d.snapshot.Store(snap)
	d.disk.accept(load.StampOf(c.ConfigDir, snap))
	d.applyLogLevel(snap)
	return d, problems
}

// Run works until ctx ends, then lowers all IKE SAs and returns. It fails closed: policies stand before the first socket is open, and what a dead
// process left is removed only when its successor is in place.
func (d *Daemon) Run(ctx context.Context) error {
	server, err := control.Listen(d.config.Socket, backend{d}) // first: it refuses a second daemon before that touches anything
	if err != nil {
		return err
	}
	defer server.Close()
	snap := d.snapshot.Load()
	if err := transport.Check(snap.Daemon.Port, snap.Daemon.NATTPort); err != nil { // before the data plane, which knows less well who is in the way
		return err
	}
	config := d.config
	config.tunMTU = snap.Daemon.MTU
	dp, err := d.choose(ctx, snap.Daemon.Dataplane, config)
	if err != nil {
		return err
	}
	defer dp.close()
	d.caps = dp.caps
	rand.Read(d.hashKey[:]) // never fails
	d.makeParts(snap, dp.Driver)
	if err := d.protect(ctx, snap, dp); err != nil {
		return err
	}
	if d.transport, err = transport.Open(transport.Config{
		Port: snap.Daemon.Port, NATTPort: snap.Daemon.NATTPort,
		KernelESP: dp.receive == nil, PlainESP: dp.receive != nil && dp.caps.PlainESP,
		IKE: d.receive, ESP: dp.receive,
	}); err != nil {
		return err
	}
	defer d.transport.Close()
	for _, note := range d.transport.Notes() {
		d.log.Warn(note)
	}
	dp.send(d.transport)
	for _, p := range doctor.Check(d.host, snap) {
		d.logProblem(p)
	}
	if err := d.start(); err != nil {
		return err
	}
	if watch, err := netcfg.NewWatch(); err != nil {
		d.log.Warnf("changes of this host's network are not seen: %v", err)
	} else {
		defer watch.Close()
		go d.watchPaths(watch)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	d.ready(len(snap.Connections))
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	d.stop()
	return err
}

// makeParts makes everything that runs, and starts nothing.
func (d *Daemon) makeParts(snap *policy.Snapshot, driver xfrm.Driver) {
	d.inquirer = newInquirer(d.log.Warnf)
	d.inquirer.warm(snap)
	n, own := runtime.GOMAXPROCS(0), hostAddresses()
	for i := range n {
		d.loops = append(d.loops, newLoop(d, shard.New(shard.Config{
			Index: i, Count: n, HashKey: d.hashKey, Rand: rand.Reader, Snapshot: snap, Caps: d.caps, Recover: true,
			Addresses: own, Wall: time.Now, Staple: d.inquirer.staple,
		})))
	}
	d.directory = &directoryLoop{d: d, dir: directory.New(rand.Reader), box: newMailbox[any]()}
	d.plane = newPlane(d, driver)
	d.pool = newPool(d.pressure)
	d.resolver = newResolver()
}

// protect puts the traps and blocks of all connections, and then removes what an earlier process left. Nothing else runs yet, so that
// the directory and the plane are used from here. Connections that are to come up wait in the shards' mailboxes.
func (d *Daemon) protect(ctx context.Context, snap *policy.Snapshot, dp *dataplane) error {
	d.directory.turn(directory.Load{Snapshot: snap})
	d.plane.serve(nil)
	if d.plane.failed != nil {
		return fmt.Errorf("the configured selectors cannot be protected: %w", d.plane.failed)
	}
	if err := d.plane.repair(); err != nil {
		return fmt.Errorf("data plane %s: %w", d.caps.Name, err)
	}
	if err := dp.sweep(ctx); err != nil {
		d.log.Warnf("routes of an earlier process could not be removed: %v", err)
	}
	return nil
}

func (d *Daemon) start() error {
	var alarms []*alarm
	for range len(d.loops) + 1 {
		a, err := d.clock.newAlarm()
		if err != nil {
			return err
		}
		alarms = append(alarms, a)
	}
	d.parts.Go(d.plane.run)
	for i, l := range d.loops {
		d.parts.Go(func() { l.run(alarms[i]) })
	}
	d.parts.Go(func() { d.directory.run(alarms[len(d.loops)]) })
	d.parts.Go(d.watchExpiry)
	return nil
}

func (d *Daemon) ready(connections int) {
	text := fmt.Sprintf("cygnetd ready: %s, data plane %s", countText(connections, "connection"), d.caps.Name)
	if d.caps.Why != "" {
		text += " (" + d.caps.Why + ")"
	}
	if d.config.Ready != nil {
		d.config.Ready(text)
	}
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// pressure tells the shards that new IKE SAs come faster than they can be computed, or no longer.
func (d *Daemon) pressure(full bool) {
	for _, l := range d.loops {
		l.box.put(shard.Pressure{Full: full})
	}
}

// sendNote keeps a host without a route from filling the log.
type sendNote struct {
	mu   sync.Mutex
	text string
	at   time.Time
}

const sendNoteEvery = 30 * time.Second

// noteSendError counts and logs what the host did not send: the machine sees a loss and sends again.
func (d *Daemon) noteSendError(err error) {
	if err == nil {
		return
	}
	d.counters.sendErrors.Add(1)
	n := &d.sendNote
	n.mu.Lock()
	again := n.text == err.Error() && time.Since(n.at) < sendNoteEvery
	if !again {
		n.text, n.at = err.Error(), time.Now()
	}
	n.mu.Unlock()
	if !again {
		d.log.Warnf("not sent: %v", err)
	}
}
