package kernel

import (
	"context"
	"errors"
	"fmt"

	"cygnet/xfrm"

	"golang.org/x/sys/unix"
)

// dumpTries is how often a dump is begun again because the table changed under it.
const dumpTries = 5

// dump lists a table; again from the beginning (after reset) when it changed meanwhile.
func (d *Driver) dump(ctx context.Context, ask func() *request, reset func(), each func(content []byte) error) error {
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		reset()
		err := d.socket.do(ask(), func(_ uint16, content []byte) error { return each(content) })
		interrupted := errors.Is(err, errInterrupted) || errors.Is(err, unix.EINTR)
		if !interrupted || try == dumpTries {
			return err
		}
	}
}

// dumpSAs hands each SA of ours to use, which must not keep it.
func (d *Driver) dumpSAs(ctx context.Context, reset func(), use func(sastate)) error {
	err := d.dump(ctx, listSAs, reset, func(content []byte) error {
		s, err := parseSA(content)
		if err == nil && s.ours() {
			use(s)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list the kernel's SAs: %w", err)
	}
	return nil
}

// Usage of one SA.
func (d *Driver) Usage(ctx context.Context, id xfrm.SAID) (u xfrm.Usage, err error) {
	if err := ctx.Err(); err != nil {
		return u, err
	}
	err = d.withSA(id, func(s sastate) error {
		u = s.usage(s.direction())
		return nil
	})
	if err != nil {
		return xfrm.Usage{}, fmt.Errorf("usage of %v: %w", id, err)
	}
	return u, nil
}

// UsageAll yields the usage of every SA of ours, by one dump.
func (d *Driver) UsageAll(ctx context.Context, yield func(xfrm.SAID, xfrm.Usage) bool) error {
	type row struct {
		id xfrm.SAID
		u  xfrm.Usage
	}
	var rows []row
	err := d.dumpSAs(ctx, func() { rows = rows[:0] }, func(s sastate) {
		rows = append(rows, row{s.id(), s.usage(s.direction())})
	})
	if err != nil {
		return err
	}
	for _, r := range rows { // only now, when the socket is free: yield may use the driver
		if !yield(r.id, r.u) {
			break
		}
	}
	return nil
}

// Dump lists the SAs of our reqid range and the policies of our reqid range or priority band, each In once for the
// kernel's in and fwd. The routes of the policies are taken over: a Sweep of the host keeps them. ACQUIREs that were raised before are
// forgotten, so that the next packet raises them anew.
func (d *Driver) Dump(ctx context.Context) (xfrm.State, error) {
	if err := d.removeLarval(ctx); err != nil {
		return xfrm.State{}, err
	}
	var state xfrm.State
	err := d.dumpSAs(ctx, func() { state.SAs = nil }, func(s sastate) { state.SAs = append(state.SAs, s.sa()) })
	if err != nil {
		return xfrm.State{}, err
	}
	if state.Policies, err = d.dumpPolicies(ctx); err != nil {
		return xfrm.State{}, err
	}
	fillDirections(state)
	return state, nil
}

func (d *Driver) dumpPolicies(ctx context.Context) ([]xfrm.Policy, error) {
	d.spd.Lock()
	defer d.spd.Unlock()
	var table spd
	err := d.dump(ctx, listPolicies, func() { table = spd{} }, func(content []byte) error {
		p, _, ours, err := parsePolicy(content)
		if err == nil && ours {
			table.add(p)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the kernel's policies: %w", err)
	}
	policies := table.policies()
	for i := range policies {
		if err := d.routes.follow(ctx, &policies[i]); err != nil {
			d.warn(err)
		}
	}
	return policies, nil
}

// fillDirections finds the direction of SAs of a kernel that was not told (before Linux 6.10) by the templates that ask
// for them.
func fillDirections(state xfrm.State) {
	type end struct {
		reqid    uint32
		src, dst any
	}
	templates := map[end]xfrm.Direction{}
	for _, p := range state.Policies {
		if t := p.Template; p.Action == xfrm.Protect {
			templates[end{t.ReqID, t.Src, t.Dst}] = p.Slot.Direction
		}
	}
	for i := range state.SAs {
		sa := &state.SAs[i]
		if sa.Direction == 0 {
			sa.Direction = templates[end{sa.ReqID, sa.Src, sa.ID.Dst}]
		}
		if sa.Direction == xfrm.Out {
			sa.Replay = 0 // some kernels want one outbound too; it has no meaning
		}
	}
}
