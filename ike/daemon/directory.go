package daemon

import (
	"hash/fnv"
	"time"

	"cygnet/ike/directory"
	"cygnet/ike/shard"
)

// directoryLoop is the goroutine that alone touches the directory.
type directoryLoop struct {
	d       *Daemon
	dir     *directory.Directory
	box     *mailbox[any] // directory.Event, or func(*directory.Directory)
	actions []directory.Action
	closing bool // nothing is opened any more
}

func (l *directoryLoop) run(alarm *alarm) {
	defer alarm.close()
	var mail []any
	for {
		select {
		case <-l.d.quit:
			return
		case <-l.box.signal:
			mail = l.box.take(mail)
			for _, m := range mail {
				switch m := m.(type) {
				case directory.Event:
					l.turn(m)
				case func(*directory.Directory):
					m(l.dir)
				}
			}
		case <-alarm.C:
			alarm.rang()
			l.turn(directory.Wake{})
		}
		alarm.arm(l.dir.Deadline())
	}
}

func (l *directoryLoop) turn(ev directory.Event) {
	l.dir.Step(l.d.clock.now(), ev, &l.actions)
	for i, a := range l.actions {
		l.do(a)
		l.actions[i] = nil
	}
	l.actions = l.actions[:0]
}

func (l *directoryLoop) do(action directory.Action) {
	d := l.d
	switch a := action.(type) {
	case directory.Start:
		if !l.closing {
			d.loops[d.home(a.Connection)].box.put(shard.Open{Connection: a.Connection, Children: a.Children, InitialContact: a.InitialContact})
		}
	case directory.Tell:
		d.loopOf(a.SPI).tell(a.SPI, a.Event)
	case directory.Claims:
		d.plane.box.put(claimsOf{a.Owner, a.Batch})
	case directory.Release:
		d.plane.box.put(releaseOf{a.Owner})
	case directory.Close:
		for _, s := range d.loops {
			s.box.put(shard.Close{Connection: a.Connection, Closed: a.Closed})
		}
	case directory.Report:
		if l.closing { // "next try in 8 s" would not be true
			return
		}
		d.tell(news{at: time.Now(), report: a.Report})
	default:
		d.log.Errorf("the directory asked for %T, which this daemon does not know", a)
	}
}

// home is the shard that opens a connection. Any would do; always the same one makes logs easier to read.
func (d *Daemon) home(connection string) int {
	h := fnv.New32a()
	h.Write([]byte(connection))
	return int(h.Sum32() % uint32(len(d.loops)))
}

// inDirectory runs f in the directory's loop and waits.
func (d *Daemon) inDirectory(f func(*directory.Directory)) error {
	done := make(chan struct{})
	d.directory.box.put(func(dir *directory.Directory) { f(dir); close(done) })
	select {
	case <-done:
		return nil
	case <-d.quit:
		return errStopping
	}
}
