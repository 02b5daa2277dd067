package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Request says what "ikectl bench" measures.
type Request struct {
	Cygnetd    string   // path of the program
	Dataplanes []string // "userspace", "kernel"
	Suites     []string // ESP proposals in the words of the configuration
	MTUs       []int    // of inner packets, octets
	Each       time.Duration
}

// Result is one line of the table.
type Result struct {
	Dataplane string  `json:"dataplane"` // "none" for the same links without encryption
	Suite     string  `json:"suite,omitempty"`
	MTU       int     `json:"mtu"`
	Test      string  `json:"test"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	// Lost is the share of UDP packets that did not arrive, in percent.
	Lost *float64 `json:"lost_percent,omitempty"`
	// Generator is what the generator itself does over the same links without encryption, in Unit. A value above 0.8 of it is LimitedByGenerator: the tunnel
	// can do more.
	Generator          float64 `json:"generator,omitempty"`
	LimitedByGenerator bool    `json:"limited_by_generator,omitempty"`
	// CPU of the processes of both gateways and of the whole machine, in percent of one processor.
	CPU     *float64 `json:"gateways_cpu_percent,omitempty"`
	Machine *float64 `json:"machine_cpu_percent,omitempty"`
}

// generatorShare of the generator's own rate is where a figure says more about the generator than about the tunnel.
const generatorShare = 0.8

// outerRoom is how much longer than the inner packets those on the WAN may be, in octets: enough for each suite in UDP and IPv4.
const outerRoom = 100

// test is one line for each tunnel.
type test struct {
	name, unit string
	run        func(context.Context, *subject) (Result, error)
	// generator is what the generator does by itself; nil where it is never the limit.
	generator func(context.Context, *subject) (Result, error)
}

// subject is what is measured: a network with a tunnel, or with none.
type subject struct {
	network *Network
	pids    []int
	mtu     int
	each    time.Duration
	plain   *subject // the same links without a tunnel; nil there
}

const (
	smallWindow = 64 << 10 // octets of socket buffer
	lossLimit   = 0.005
	warmUp      = 200 * time.Millisecond
)

// tests in the order of the table.
func tests(mtu int) []test {
	list := []test{
		{"TCP, windows of 64 KiB", "Gbit/s", func(ctx context.Context, s *subject) (Result, error) { return s.tcp(ctx, smallWindow) }, nil},
		{"TCP, large windows", "Gbit/s", func(ctx context.Context, s *subject) (Result, error) { return s.tcp(ctx, 0) }, nil},
		{"UDP, full size, as fast as it can be sent", "Gbit/s", flood, flood},
		{"UDP, full size, under 0.5 % loss", "Gbit/s", lossless, flood},
	}
	for _, size := range []int{64, 128} {
		run := func(ctx context.Context, s *subject) (Result, error) { return s.packets(ctx, size) }
		list = append(list, test{fmt.Sprintf("UDP, %d octets", size), "packets/s", run, run})
	}
	for _, size := range []int{50, 100, 500, 1000, 1400} {
		if size <= mtu {
			list = append(list, test{fmt.Sprintf("ping, %d octets", size), "", func(ctx context.Context, s *subject) (Result, error) { return s.ping(size) }, nil})
		}
	}
	return list
}

// Run measures all that a request names, first the links without encryption, and calls each with every line when it is known, and skip with what
// cannot be measured here and why. It ends early, with an error, when ctx does.
func Run(ctx context.Context, r Request, each func(Result), skip func(string, error)) error {
	if err := Sweep(); err != nil {
		return err
	}
	skip = once(skip)
	for _, mtu := range r.MTUs {
		if err := r.withMTU(ctx, mtu, each, skip); err != nil {
			return err
		}
	}
	return nil
}

// once calls skip only with reasons that it was not called with yet: the kernel lacks ESP for every suite and MTU.
func once(skip func(string, error)) func(string, error) {
	told := make(map[string]bool)
	return func(what string, why error) {
		if !told[why.Error()] {
			told[why.Error()] = true
			skip(what, why)
		}
	}
}

func (r *Request) withMTU(ctx context.Context, mtu int, each func(Result), skip func(string, error)) error {
	w, err := NewNetwork("plain", mtu, mtu)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Forward(); err != nil {
		return err
	}
	plain := &subject{network: w, mtu: mtu, each: r.Each}
	if err := plain.all(ctx, Result{Dataplane: "none", MTU: mtu}, each); err != nil {
		return err
	}
	for _, dataplane := range r.Dataplanes {
		for _, esp := range r.Suites {
			err := r.tunnel(ctx, plain, dataplane, esp, each)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				skip(fmt.Sprintf("%s, %s, MTU %d", dataplane, esp, mtu), err)
			}
		}
	}
	return nil
}

func (r *Request) tunnel(ctx context.Context, plain *subject, dataplane, esp string, each func(Result)) error {
	w, err := NewNetwork("tun", plain.mtu+outerRoom, plain.mtu)
	if err != nil {
		return err
	}
	defer w.Close()
	t, err := StartCygnet(ctx, w, TunnelOptions{Cygnetd: r.Cygnetd, Dataplane: dataplane, ESP: esp, MTU: plain.mtu})
	if err != nil {
		return err
	}
	defer t.Stop()
	s := &subject{network: w, pids: t.PIDs(), mtu: plain.mtu, each: r.Each, plain: plain}
	return s.all(ctx, Result{Dataplane: dataplane, Suite: esp, MTU: plain.mtu}, each)
}

// all runs the tests in turn.
func (s *subject) all(ctx context.Context, head Result, each func(Result)) error {
	for _, t := range tests(s.mtu) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		res, err := t.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		res.Dataplane, res.Suite, res.MTU, res.Test, res.Unit = head.Dataplane, head.Suite, head.MTU, t.name, cmp.Or(res.Unit, t.unit)
		if t.generator != nil && s.plain != nil { // right after, as the machine may have become busier since the last time
			alone, err := t.generator(ctx, s.plain)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			res.Generator = alone.Value
			res.LimitedByGenerator = res.Value > generatorShare*alone.Value
		}
		each(res)
	}
	return nil
}

// result of a sample; value is in the test's unit.
func (s *subject) result(a Sample, value float64) Result {
	percent := func(d time.Duration) *float64 { v := 100 * d.Seconds() / a.Elapsed.Seconds(); return &v }
	r := Result{Value: value, Machine: percent(a.Machine)}
	if s.pids != nil {
		r.CPU = percent(a.CPU)
	}
	return r
}

func (s *subject) tcp(ctx context.Context, window int) (Result, error) {
	f, err := StartTCP(s.network.ClientA, s.network.ClientB, ClientB, 1, window)
	if err != nil {
		return Result{}, err
	}
	a, err := Watch(ctx, f, warmUp, s.each, s.pids...)
	if err != nil {
		return Result{}, err
	}
	return s.result(a, a.Bits()/1e9), nil
}

// udp sends datagrams that make IP packets of size octets.
func (s *subject) udp(ctx context.Context, size int, pps float64, warm, d time.Duration) (Sample, error) {
	f, err := StartUDP(s.network.ClientA, s.network.ClientB, ClientB, size-udpHeaders, pps)
	if err != nil {
		return Sample{}, err
	}
	return Watch(ctx, f, warm, d, s.pids...)
}

// lossy is the result of a sample of UDP, with its loss.
func (s *subject) lossy(a Sample, value float64) Result {
	r, lost := s.result(a, value), 100*a.Lost
	r.Lost = &lost
	return r
}

func flood(ctx context.Context, s *subject) (Result, error) {
	a, err := s.udp(ctx, s.mtu, 0, warmUp, s.each)
	if err != nil {
		return Result{}, err
	}
	return s.lossy(a, a.Bits()/1e9), nil
}

func (s *subject) packets(ctx context.Context, size int) (Result, error) {
	a, err := s.udp(ctx, size, 0, warmUp, s.each)
	if err != nil {
		return Result{}, err
	}
	return s.lossy(a, a.PPS()), nil
}

// searchSteps halve the interval between a rate that is carried and one that is not, down to 1/64 of the first.
const searchSteps = 6

// lossless finds the highest rate of full-size packets of which less than lossLimit is lost, between nothing and what can be sent.
func lossless(ctx context.Context, s *subject) (Result, error) {
	trial := max(s.each/2, 100*time.Millisecond)
	a, err := s.udp(ctx, s.mtu, 0, 0, trial)
	if err != nil {
		return Result{}, err
	}
	if a.Lost < lossLimit {
		return s.lossy(a, a.Bits()/1e9), nil
	}
	var best Result
	low, high := 0.0, float64(a.Sent)/a.Elapsed.Seconds()
	for range searchSteps {
		rate := (low + high) / 2
		a, err := s.udp(ctx, s.mtu, rate, 0, trial)
		if err != nil {
			return Result{}, err
		}
		if a.Lost < lossLimit {
			low, best = rate, s.lossy(a, a.Bits()/1e9)
		} else {
			high = rate
		}
	}
	return best, nil
}

const (
	pings     = 50
	pingPause = 2 * time.Millisecond
)

// ping is the round trip's median, with a tunnel what it adds to that of the links.
func (s *subject) ping(size int) (Result, error) {
	rtt, err := Echo(s.network.ClientA, ClientB, size, pings, pingPause)
	if err != nil {
		return Result{}, err
	}
	r := Result{Unit: "us"}
	r.Value = float64(rtt.Median.Nanoseconds()) / 1e3
	if s.plain != nil {
		alone, err := s.plain.ping(size)
		if err != nil {
			return Result{}, err
		}
		r.Unit = "us added"
		r.Value -= alone.Value
	}
	return r, nil
}
