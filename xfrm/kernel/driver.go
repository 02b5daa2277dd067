// Package kernel is the data plane in the Linux kernel (XFRM): a driver that puts SAs and policies into its tables over
// netlink and reads its notices. It decides nothing: what to install, and who owns it, is the ledger's and the machines'.
//
// Sources: RFC 4301, RFC 4303, RFC 3948; linux/xfrm.h and net/xfrm of Linux 6.1 to 7.2.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cygnet/xfrm"
	"cygnet/xfrm/netcfg"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Config of a driver.
type Config struct {
	// Host sets the routes that lead packets to the policies; nil: the driver opens its own. Whoever owns it calls its Sweep
	// when the data plane is repaired after a start.
	Host *netcfg.Host
	// Warn hears what went wrong without making an operation fail: a route that could not be set. May be nil; must not block.
	Warn func(error)
}

// FirstUsePackets as SoftPackets of an inbound SA asks for a FirstUse. The kernel counts a packet after it has looked at the
// limit, so the event comes with the second packet.
const FirstUsePackets = 1

// Driver is the kernel's data plane in one network namespace: that of the thread that called Open. It is safe for
// concurrent use.
type Driver struct {
	caps    xfrm.Capabilities
	dialect dialect
	socket  *socket
	monitor *monitor
	warn    func(error)
	births  births

	// spd is held while policies and their routes change together, and while Dump reads the one and sets the other.
	spd    sync.Mutex
	routes *routes
}

var _ xfrm.Driver = (*Driver)(nil)

// Open probes the kernel and opens a driver. It fails, with words for the operator, when the kernel has no ESP.
func Open(ctx context.Context, c Config) (*Driver, error) {
	d, err := open(c)
	if err != nil {
		return nil, err
	}
	if d.caps, d.dialect, err = probe(ctx, d.socket); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// open opens a driver without looking at what the kernel can do.
func open(c Config) (*Driver, error) {
	d := &Driver{warn: c.Warn}
	if d.warn == nil {
		d.warn = func(error) {}
	}
	var err error
	if d.socket, err = openSocket(); err != nil {
		return nil, err
	}
	if d.routes, err = openRoutes(c.Host); err != nil {
		d.socket.close()
		return nil, err
	}
	if d.monitor, err = openMonitor(); err != nil {
		d.socket.close()
		d.routes.close()
		return nil, err
	}
	go d.monitor.run()
	return d, nil
}

// Capabilities were found when the driver was opened.
func (d *Driver) Capabilities() xfrm.Capabilities { return d.caps }

// Events is closed by Close.
func (d *Driver) Events() <-chan xfrm.Event { return d.monitor.events }

// Close releases the sockets. SAs, policies and routes stay as they are; the kernel's notes of ACQUIREs go, and none come when nobody listens.
func (d *Driver) Close() error {
	d.monitor.close()
	d.routes.close()
	return errors.Join(d.removeLarval(context.Background()), d.socket.close())
}

// Apply carries out ops in order. An error is an *xfrm.OpError.
func (d *Driver) Apply(ctx context.Context, ops []xfrm.Op) error {
	for i, op := range ops {
		err := ctx.Err()
		if err == nil {
			err = d.apply(ctx, op)
		}
		if err != nil {
			return &xfrm.OpError{Index: i, Op: op, Err: err}
		}
	}
	return nil
}

func (d *Driver) apply(ctx context.Context, op xfrm.Op) error {
	switch o := op.(type) {
	case xfrm.AddSA:
		return d.addSA(&o.SA)
	case xfrm.UpdateSA:
		return d.updateSA(o)
	case xfrm.MoveSA:
		return d.moveSA(o)
	case xfrm.RemoveSA:
		return unless(d.socket.do(delSA(o.ID), nil), unix.ESRCH)
	case xfrm.PutPolicy:
		return d.putPolicy(ctx, &o.Policy)
	case xfrm.RemovePolicy:
		return d.removePolicy(ctx, o.Slot)
	}
	return fmt.Errorf("operation %T is not known", op)
}

// unless passes err on unless it is fine.
func unless(err, fine error) error {
	if errors.Is(err, fine) {
		return nil
	}
	return err
}

func (d *Driver) addSA(sa *xfrm.SA) error {
	r, err := d.dialect.newSA(sa, 0)
	if err != nil {
		return err
	}
	if sa.Direction == xfrm.Out {
		r.attr(nl.XFRMA_LTIME_VAL, born(d.births.next(sa.ReqID, uint64(time.Now().Unix()))))
	}
	if err = d.socket.do(r, nil); errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%w: %v", xfrm.ErrExists, err)
	}
	return explain(err)
}

// withSA asks for one SA and hands it to use, which must not keep it.
func (d *Driver) withSA(id xfrm.SAID, use func(sastate) error) error {
	err := d.socket.do(getSA(id), func(_ uint16, content []byte) error {
		s, err := parseSA(content)
		if err != nil {
			return err
		}
		return use(s)
	})
	if errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("the kernel has no such SA: %w", err)
	}
	return err
}

func (d *Driver) updateSA(o xfrm.UpdateSA) error {
	var r *request
	err := d.withSA(o.ID, func(s sastate) (err error) {
		r, err = s.updateSA(o.Encap)
		return err
	})
	if err != nil {
		return err
	}
	return explain(d.socket.do(r, nil))
}

// moveSA reads the SA, removes it and adds it anew, because the kernel has addresses in an SA's identity. An inbound packet
// that comes in between is lost, and one that came after the reading could be replayed once.
func (d *Driver) moveSA(o xfrm.MoveSA) error {
	var moved, back *request
	err := d.withSA(o.ID, func(s sastate) (err error) {
		dir := s.direction()
		if moved, err = s.moveSA(dir, o.Src, o.Dst, o.Encap); err != nil {
			return err
		}
		back, err = s.moveSA(dir, addressOf(s.info.Saddr, s.info.Family), o.ID.Dst, s.encap())
		return err
	})
	if moved != nil {
		defer moved.wipe()
	}
	if back != nil {
		defer back.wipe()
	}
	if err != nil {
		return err
	}
	if err := d.socket.do(delSA(o.ID), nil); err != nil {
		return err
	}
	if err = d.socket.do(moved, nil); err == nil {
		return nil
	}
	if undo := d.socket.do(back, nil); undo != nil {
		return fmt.Errorf("%w; and it could not be put back: %v", explain(err), undo)
	}
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%w: %v", xfrm.ErrExists, err)
	}
	return explain(err)
}

// putPolicy fills a slot. If a later piece fails the earlier ones stay: a policy too many closes, one too few opens.
func (d *Driver) putPolicy(ctx context.Context, p *xfrm.Policy) error {
	requests, err := putPolicy(p)
	if err != nil {
		return err
	}
	d.spd.Lock()
	defer d.spd.Unlock()
	for _, r := range requests {
		if err := d.socket.do(r, nil); err != nil {
			return explain(err)
		}
	}
	if err := d.routes.follow(ctx, p); err != nil {
		d.warn(err)
	}
	return nil
}

func (d *Driver) removePolicy(ctx context.Context, s xfrm.Slot) error {
	requests, err := removePolicy(s)
	if err != nil {
		return err
	}
	d.spd.Lock()
	defer d.spd.Unlock()
	for _, r := range requests {
		if err := unless(d.socket.do(r, nil), unix.ENOENT); err != nil {
			return err
		}
	}
	if err := d.routes.leave(ctx, s); err != nil {
		d.warn(err)
	}
	return nil
}

// explain adds what to look at to the errors that people meet.
func explain(err error) error {
	hint := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPROTONOSUPPORT):
		hint = "the kernel refuses ESP (modules esp4, esp6)"
	case errors.Is(err, unix.ENOSYS):
		hint = "the kernel lacks the algorithm (see /proc/crypto)"
	case errors.Is(err, unix.EPERM):
		hint = "CAP_NET_ADMIN is needed"
	default:
		return err
	}
	return fmt.Errorf("%s: %w", hint, err)
}
