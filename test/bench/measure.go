package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cygnet/xfrm/bench"
)

// figure is what is measured of a contestant.
type figure string

const (
	tcp1    figure = "TCP, 1 stream, Gbit/s"
	tcp4    figure = "TCP, 4 streams, Gbit/s"
	perCPU  figure = "TCP, Gbit per gateway CPU second"
	pps     figure = "64-octet UDP, packets/s"
	ppsCPU  figure = "64-octet UDP, packets per gateway CPU second"
	rttIdle figure = "idle round trip, us"

	lookupNs figure = "policy look-up, ns" // its contestants are numbers of children
)

// results of all rounds: figure -> contestant -> one value a round.
type results map[figure]map[string][]float64

func (r results) add(f figure, c *contestant, v float64) {
	if r[f] == nil {
		r[f] = make(map[string][]float64)
	}
	r[f][c.name] = append(r[f][c.name], v)
}

// print shows what a round has measured of a contestant so far.
func (r results) print(c *contestant, round int) {
	fmt.Printf("  %s:", c.name)
	for _, f := range figures() {
		if v := r[f][c.name]; len(v) > round {
			fmt.Printf(" %s %s;", f, short(v[round]))
		}
	}
	fmt.Println()
}

// median of an unordered list; 0 when it is empty.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// ratio is the median of the rounds' ratios of one contestant to another: what one round measures lies close together in time.
func (r results) ratio(f figure, a, b string) float64 {
	var list []float64
	for i, v := range r[f][a] {
		if i < len(r[f][b]) && r[f][b][i] > 0 {
			list = append(list, v/r[f][b][i])
		}
	}
	return median(list)
}

// lookupCase is the contestant of lookupNs with n children.
func lookupCase(n int) string { return fmt.Sprintf("%d children", n) }

const warm = 200 * time.Millisecond

// udpSize is the payload of the small packets, which with the headers of IPv4 and UDP have 64 octets.
const udpSize = 64 - 28

func measure(ctx context.Context, o options, all []*contestant) (results, error) {
	r := make(results)
	for round := range o.rounds {
		fmt.Printf("round %d, load %s\n", round+1, bench.Load())
		for _, step := range []func(context.Context, options, *contestant, results) error{oneStream, fourStreams, smallPackets, idle} {
			for _, c := range all {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				if err := step(ctx, o, c, r); err != nil {
					return nil, fmt.Errorf("%s, round %d: %w", c.name, round+1, err)
				}
			}
		}
		for _, c := range all {
			if o.verbose {
				r.print(c, round)
			}
		}
	}
	return r, nil
}

func oneStream(ctx context.Context, o options, c *contestant, r results) error {
	s, err := tcp(ctx, o, c, 1)
	if err != nil {
		return err
	}
	r.add(tcp1, c, s.Bits()/1e9)
	if s.CPU > 0 {
		r.add(perCPU, c, 8*float64(s.Octets)/1e9/s.CPU.Seconds())
	}
	return nil
}

func fourStreams(ctx context.Context, o options, c *contestant, r results) error {
	if o.smoke {
		return nil
	}
	s, err := tcp(ctx, o, c, 4)
	if err == nil {
		r.add(tcp4, c, s.Bits()/1e9)
	}
	return err
}

func tcp(ctx context.Context, o options, c *contestant, streams int) (bench.Sample, error) {
	f, err := bench.StartTCP(c.network.ClientA, c.network.ClientB, bench.ClientB, streams, 0)
	if err != nil {
		return bench.Sample{}, err
	}
	return bench.Watch(ctx, f, warm, o.each, c.pids...)
}

func smallPackets(ctx context.Context, o options, c *contestant, r results) error {
	f, err := bench.StartUDP(c.network.ClientA, c.network.ClientB, bench.ClientB, udpSize, 0)
	if err != nil {
		return err
	}
	s, err := bench.Watch(ctx, f, warm, o.each, c.pids...)
	if err != nil {
		return err
	}
	r.add(pps, c, s.PPS())
	if s.CPU > 0 {
		r.add(ppsCPU, c, float64(s.Packets)/s.CPU.Seconds())
	}
	return nil
}

func idle(ctx context.Context, o options, c *contestant, r results) error {
	if o.smoke {
		return nil
	}
	rtt, err := bench.Echo(c.network.ClientA, bench.ClientB, 64, 40, 5*time.Millisecond)
	if err == nil {
		r.add(rttIdle, c, float64(rtt.Median.Nanoseconds())/1e3)
	}
	return err
}
