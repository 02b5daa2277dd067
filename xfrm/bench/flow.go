package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Flow is traffic that runs until it is stopped.
type Flow struct {
	octets, packets atomic.Int64 // that arrived; packets of UDP only
	sent            atomic.Int64 // packets, of UDP only
	stop            chan struct{}
	closers         []func() error
	running         sync.WaitGroup
	mu              sync.Mutex
	failed          error
}

func newFlow() *Flow { return &Flow{stop: make(chan struct{})} }

func (f *Flow) stopped() bool {
	select {
	case <-f.stop:
		return true
	default:
		return false
	}
}

// fail keeps the first error that is not the flow's end.
func (f *Flow) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.failed == nil && !f.stopped() {
		f.failed = err
	}
}

// Stop ends the flow and returns what went wrong in it.
func (f *Flow) Stop() error {
	close(f.stop)
	for _, c := range f.closers {
		c()
	}
	f.running.Wait()
	return f.failed
}

// Sample is what a flow and processes did in a time.
type Sample struct {
	Elapsed time.Duration
	Octets  int64         // of payload that arrived
	Packets int64         // that arrived, UDP
	Sent    int64         // packets, UDP
	CPU     time.Duration // of the processes
	Machine time.Duration // of all processors
	Lost    float64       // share of the packets of the flow's whole life, UDP
}

// Bits per second that arrived.
func (s *Sample) Bits() float64 { return 8 * float64(s.Octets) / s.Elapsed.Seconds() }

// PPS is packets per second that arrived.
func (s *Sample) PPS() float64 { return float64(s.Packets) / s.Elapsed.Seconds() }

// Watch lets a flow run for warm, measures it for d, and stops it; earlier, with an error, when ctx is done.
func Watch(ctx context.Context, f *Flow, warm, d time.Duration, pids ...int) (Sample, error) {
	s, err := f.watch(ctx, warm, d, pids)
	err = errors.Join(err, f.Stop())
	if sent := f.sent.Load(); sent > 0 {
		s.Lost = max(0, 1-float64(f.packets.Load())/float64(sent))
	}
	return s, err
}

func (f *Flow) watch(ctx context.Context, warm, d time.Duration, pids []int) (Sample, error) {
	if err := pause(ctx, warm); err != nil {
		return Sample{}, err
	}
	before, err := f.now(pids)
	if err != nil {
		return Sample{}, err
	}
	begun := time.Now()
	if err := pause(ctx, d); err != nil {
		return Sample{}, err
	}
	s, err := f.now(pids)
	s.Elapsed = time.Since(begun)
	s.Octets -= before.Octets
	s.Packets -= before.Packets
	s.Sent -= before.Sent
	s.CPU -= before.CPU
	s.Machine -= before.Machine
	return s, err
}

// pause returns after d, or with ctx's error when that is done.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (f *Flow) now(pids []int) (Sample, error) {
	cpu, err := CPU(pids...)
	if err != nil {
		return Sample{}, err
	}
	machine, err := machineCPU()
	return Sample{Octets: f.octets.Load(), Packets: f.packets.Load(), Sent: f.sent.Load(), CPU: cpu, Machine: machine}, err
}
