package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"cygnet/ike"
	"cygnet/ike/transport"
)

const (
	lookupTime  = 10 * time.Second
	lookupQueue = 256 // names that wait
	lookupSlots = 8   // names that are asked for at once
)

// resolver asks for names and source addresses outside the loops.
type resolver struct {
	slots chan struct{}
	queue chan struct{}
	ctx   context.Context
	stop  context.CancelFunc
}

func newResolver() *resolver {
	ctx, stop := context.WithCancel(context.Background())
	return &resolver{make(chan struct{}, lookupSlots), make(chan struct{}, lookupQueue), ctx, stop}
}

// ask answers once, later, from another goroutine.
func (r *resolver) ask(a ike.Resolve, answer func(ike.ResolveDone)) {
	select {
	case r.queue <- struct{}{}:
	default:
		answer(ike.ResolveDone{Token: a.Token, Err: errors.New("too many names wait for their addresses")})
		return
	}
	go func() {
		defer func() { <-r.queue }()
		r.slots <- struct{}{}
		defer func() { <-r.slots }()
		done := r.resolve(a)
		done.Token = a.Token
		answer(done)
	}()
}

func (r *resolver) resolve(a ike.Resolve) (done ike.ResolveDone) {
	remotes := []netip.Addr{a.Remote.Unmap()}
	if !a.Remote.IsValid() {
		if remotes, done.Err = r.lookup(a.Name); done.Err != nil {
			return done
		}
	}
	if a.Local.IsValid() {
		done.Local = a.Local.Unmap()
		for _, remote := range remotes {
			if remote.Is4() == done.Local.Is4() {
				done.Remote = append(done.Remote, remote)
			}
		}
		if len(done.Remote) == 0 {
			done.Err = fmt.Errorf("the local address %s and the peer's %s are of different families", done.Local, remotes[0])
		}
		return done
	}
	// The first address to which the host has a route; the others follow in the resolver's order (RFC 6724), those of its family only.
	var firstErr error
	for i, remote := range remotes {
		local, err := transport.SourceFor(remote)
		if err != nil {
			firstErr = errors.Join(firstErr, err)
			continue
		}
		done.Local = local
		for _, other := range remotes[i:] {
			if other.Is4() == local.Is4() {
				done.Remote = append(done.Remote, other)
			}
		}
		return done
	}
	done.Err = firstErr
	return done
}

func (r *resolver) lookup(name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(r.ctx, lookupTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, err
	}
	var usable []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); !a.IsUnspecified() && !a.IsMulticast() {
			usable = append(usable, a)
		}
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("%s has no usable address", name)
	}
	return usable, nil
}
