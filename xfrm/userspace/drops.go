package userspace

import (
	"sync/atomic"

	"cygnet/xfrm/esp"
)

// Drops counts the packets that went no further, since New.
type Drops struct {
	// Outbound, from the TUN.
	Offload  uint64 // what the TUN said of the packet contradicts it
	NoPolicy uint64 // no policy matches, or no IP packet
	Blocked  uint64 // the policy says so
	NoSA     uint64 // Acquire was raised for it
	TooBig   uint64 // for the SA's path, and not to be fragmented; its sender was told
	Sealing  uint64 // sequence numbers or lifetime used up, or SA removed
	Sending  uint64 // bursts that could not be sent in full

	// Inbound, from the peer.
	UnknownSPI uint64 // no such SA (RFC 4301 section 5.2)
	Expired    uint64 // the SA's hard lifetime is over
	Selectors  uint64 // authenticated, but not what the SA may carry (RFC 4301 section 5.2)
	ECN        uint64 // congestion was marked on the way of a packet that cannot say so (RFC 6040 section 4.2)
	Writing    uint64 // the TUN did not take it
	Opening    [esp.Reasons]uint64
}

type dropCounters struct {
	offload, noPolicy, blocked, noSA, tooBig, sealing, sending atomic.Uint64
	unknownSPI, expired, selectors, ecn, writing               atomic.Uint64
	opening                                                    [esp.Reasons]atomic.Uint64
}

// Drops reads the counters.
func (d *Driver) Drops() Drops {
	c := &d.drops
	out := Drops{
		Offload: c.offload.Load(), NoPolicy: c.noPolicy.Load(), Blocked: c.blocked.Load(),
		NoSA: c.noSA.Load(), TooBig: c.tooBig.Load(), Sealing: c.sealing.Load(), Sending: c.sending.Load(),
		UnknownSPI: c.unknownSPI.Load(), Expired: c.expired.Load(), Selectors: c.selectors.Load(), ECN: c.ecn.Load(), Writing: c.writing.Load(),
	}
	for r := range c.opening {
		out.Opening[r] = c.opening[r].Load()
	}
	return out
}
