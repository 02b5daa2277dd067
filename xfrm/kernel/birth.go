package kernel

import (
	"maps"
	"sync"

	"github.com/vishvananda/netlink/nl"
)

// births dates the outbound SAs. Of those with one reqid the kernel sends on the one that was added last, by a clock of whole seconds that may also be set
// back; among those of one second it takes whichever stands first in a hash chain, and that order turns when the table grows (net/xfrm/xfrm_state.c:
// xfrm_state_look_at, xfrm_hash_transfer). So each SA is dated later than its predecessor: what is sent on the old one after the peer has deleted it is lost.
type births struct {
	mu   sync.Mutex
	last map[uint32]uint64 // by reqid, in seconds
	kept uint64            // when those that are past were dropped last
}

// many is how many dates are kept before those are dropped that are past, which no longer matter.
const many = 64

// next is the date of an SA that is added now.
func (b *births) next(reqid uint32, now uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := now
	if last, ok := b.last[reqid]; ok {
		at = max(now, last+1)
	}
	if b.last == nil {
		b.last = map[uint32]uint64{}
	}
	if len(b.last) >= many && b.kept != now {
		b.kept = now
		maps.DeleteFunc(b.last, func(_ uint32, last uint64) bool { return last < now })
	}
	b.last[reqid] = at
	return at
}

// born is the attribute that dates an SA.
func born(at uint64) []byte { return (&nl.XfrmLifetimeCur{AddTime: at}).Serialize() }
