package rig

import (
	"fmt"
	"strings"
	"time"
)

// Evidence of a tunnel that works, gathered from both ends and from the WAN in between.
type Evidence struct {
	A, B    SA
	Packets map[uint32]int // captured ESP packets by SPI
	Hash    string         // of the data that arrived, equal at both hosts
}

// megabyte is what each direction carries.
const megabyte = 1 << 20

// Prove checks an established tunnel: both ends show the same two SPIs, the wanted suite and mirrored selectors, data goes both ways with equal hashes, the WAN
// carries it under those SPIs, nothing of it in clear, and both ends have counted it.
func Prove(t *Topology, a, b End, x Tunnel) (Evidence, error) {
	var e Evidence
	var err error
	// The responder may still be installing when the initiator is up.
	if !Until(5*time.Second, func() bool {
		if e.A, err = a.SA(); err == nil {
			e.B, err = b.SA()
		}
		return err == nil
	}) {
		return e, err
	}
	if e.A.SPIIn != e.B.SPIOut || e.A.SPIOut != e.B.SPIIn {
		return e, fmt.Errorf("the ends show different SPIs: A %08x in %08x out, B %08x in %08x out", e.A.SPIIn, e.A.SPIOut, e.B.SPIIn, e.B.SPIOut)
	}
	if e.A.Suite != x.Suite.SA || e.B.Suite != x.Suite.SA {
		return e, fmt.Errorf("suite: A shows %s, B shows %s, wanted %s", e.A.Suite, e.B.Suite, x.Suite.SA)
	}
	local, remote := strings.Join(x.LocalTS, " "), strings.Join(x.RemoteTS, " ")
	if e.A.Local != local || e.A.Remote != remote || e.B.Local != remote || e.B.Remote != local {
		return e, fmt.Errorf("selectors: A shows %s to %s, B shows %s to %s, wanted %s to %s", e.A.Local, e.A.Remote, e.B.Local, e.B.Remote, local, remote)
	}
	hostA, hostB := t.A.Host4, t.B.Host4
	if x.LocalTS[0] == t.A.LAN6.String() {
		hostA, hostB = t.A.Host6, t.B.Host6
	}
	capture, err := t.Capture()
	if err != nil {
		return e, err
	}
	err = func() error {
		if err := Ping(t.A.Host, hostB); err != nil {
			return fmt.Errorf("from A to B: %w", err)
		}
		if err := Ping(t.B.Host, hostA); err != nil {
			return fmt.Errorf("from B to A: %w", err)
		}
		if e.Hash, err = SendHashed(t.A.Host, t.B.Host, hostB, megabyte); err != nil {
			return fmt.Errorf("from A to B: %w", err)
		}
		if _, err := SendHashed(t.B.Host, t.A.Host, hostA, megabyte); err != nil {
			return fmt.Errorf("from B to A: %w", err)
		}
		return nil
	}()
	seen := capture.Stop()
	if err != nil {
		return e, err
	}
	if clear := t.Clear(seen); len(clear) > 0 {
		return e, fmt.Errorf("%d packets in clear on the WAN, first: %s", len(clear), clear[0])
	}
	e.Packets = SPIs(seen)
	for _, spi := range []uint32{e.A.SPIIn, e.A.SPIOut} {
		if e.Packets[spi] < 100 {
			return e, fmt.Errorf("the WAN carried %d packets of SPI %08x, wanted the megabyte's: %v", e.Packets[spi], spi, e.Packets)
		}
	}
	if e.A, err = a.SA(); err != nil {
		return e, err
	}
	if e.B, err = b.SA(); err != nil {
		return e, err
	}
	for _, n := range []uint64{e.A.BytesIn, e.A.BytesOut, e.B.BytesIn, e.B.BytesOut} {
		if n < megabyte {
			return e, fmt.Errorf("an end counted less than the megabyte: A %d in %d out, B %d in %d out", e.A.BytesIn, e.A.BytesOut, e.B.BytesIn, e.B.BytesOut)
		}
	}
	return e, nil
}

// Gone waits until an end shows no child any more.
func Gone(e End) error {
	var sa SA
	if !Until(10*time.Second, func() bool {
		var err error
		sa, err = e.SA()
		return err != nil
	}) {
		return fmt.Errorf("child %08x/%08x is still there", sa.SPIIn, sa.SPIOut)
	}
	return nil
}
