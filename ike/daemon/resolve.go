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
	find  func(ctx context.Context, network, name string) ([]netip.Addr, error)
}

func newResolver() *resolver {
	ctx, stop := context.WithCancel(context.Background())
	return &resolver{make(chan struct{}, lookupSlots), make(chan struct{}, lookupQueue), ctx, stop, net.DefaultResolver.LookupNetIP}
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
	for _, other := range a.Others {
		remotes = append(remotes, other.Unmap())
	}
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
	// Every address to which the host has a route, of both families, in the resolver's order (RFC 6724). The source is that of the first: who
	// goes on to another asks again.
	var noRoute error
	for _, remote := range remotes {
		local, err := transport.SourceFor(remote)
		if err != nil {
			noRoute = errors.Join(noRoute, err)
			continue
		}
		if len(done.Remote) == 0 {
			done.Local = local
		}
		done.Remote = append(done.Remote, remote)
	}
	if len(done.Remote) == 0 {
		done.Err = noRoute
	}
	return done
}

func (r *resolver) lookup(name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(r.ctx, lookupTime)
	defer cancel()
	found, err := r.find(ctx, "ip", name)
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
