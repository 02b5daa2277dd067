package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"cygnet/xfrm"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// kept are the attributes that a changed SA takes over from the one that is there. Not among them: what the kernel
// refuses in a request or would take for a change, and ALG_AUTH, a lesser twin of ALG_AUTH_TRUNC.
var kept = []uint16{
	nl.XFRMA_ALG_AEAD, nl.XFRMA_ALG_CRYPT, nl.XFRMA_ALG_AUTH_TRUNC, nl.XFRMA_SA_EXTRA_FLAGS, nl.XFRMA_MARK,
	nl.XFRMA_SET_MARK, nl.XFRMA_SET_MARK_MASK, nl.XFRMA_IF_ID, nl.XFRMA_MTIMER_THRESH, nl.XFRMA_SA_DIR, nl.XFRMA_SA_PCPU,
}

// successor starts a request (UPDSA or NEWSA) for an SA like s. The kernel wants it whole, with its keys.
func (s sastate) successor(kind uint16, encap *xfrm.Encap) *request {
	info := *s.info
	info.Curlft, info.Stats, info.Seq = nl.XfrmLifetimeCur{}, nl.XfrmStats{}, 0
	if info.Lft.SoftPacketLimit <= s.info.Curlft.Packets {
		info.Lft.SoftPacketLimit = nl.XFRM_INF // it has been reported
	}
	if info.Lft.SoftByteLimit <= s.info.Curlft.Bytes {
		info.Lft.SoftByteLimit = nl.XFRM_INF
	}
	r := newRequest(kind, unix.NLM_F_ACK).body(info.Serialize())
	for _, k := range kept {
		if v, ok := s.attrs[k]; ok && (k != nl.XFRMA_MTIMER_THRESH || encap != nil) {
			r.attr(k, v)
		}
	}
	if encap != nil {
		e := encapTemplate(*encap)
		r.attr(nl.XFRMA_ENCAP, e.Serialize())
	}
	return r
}

// updateSA builds the request that gives s other encapsulation ports. It is UPDSA, which leaves replay state and
// counters alone but can neither begin nor end encapsulation.
func (s sastate) updateSA(e xfrm.Encap) (*request, error) {
	if s.encap() == nil {
		return nil, errors.New("it has no UDP encapsulation, and the kernel cannot begin it on an SA that is there: move or rekey it")
	}
	r := s.successor(nl.XFRM_MSG_UPDSA, &e)
	if v, ok := s.attrs[nl.XFRMA_REPLAY_ESN_VAL]; ok { // asked for with the ESN flag, ignored otherwise
		r.attr(nl.XFRMA_REPLAY_ESN_VAL, v)
	}
	return r, nil
}

// sequenceGap is skipped by an outbound SA that moves: more than can have been sent between reading its sequence number
// and removing it. A number that is skipped is legal, one sent twice breaks the cipher (RFC 4303 section 3.3.3,
// RFC 4106 section 3.1).
const sequenceGap = 1 << 16

// moveSA builds the request that adds s anew between other addresses, with its replay state and its counters.
func (s sastate) moveSA(dir xfrm.Direction, src, dst netip.Addr, encap *xfrm.Encap) (*request, error) {
	if !src.IsValid() || !dst.IsValid() || src.Is4() != dst.Is4() {
		return nil, fmt.Errorf("outer addresses %v -> %v: both must be of one address family", src, dst)
	}
	moved := s
	info := *s.info
	moved.info = &info
	info.Id.Daddr, info.Saddr, info.Family = address(dst), address(src), family(dst)
	if info.Mode == modeTransport {
		info.Sel = nl.XfrmSelector{Family: info.Family}
	}
	r := moved.successor(nl.XFRM_MSG_NEWSA, encap)
	if encap != nil && s.encap() == nil && dir == xfrm.In {
		r.attr32(nl.XFRMA_MTIMER_THRESH, mappingInterval)
	}
	r.attr(nl.XFRMA_LTIME_VAL, s.info.Curlft.Serialize())
	c := s.replay()
	if dir != xfrm.In && c.sent > 0 {
		c.sent += sequenceGap
	}
	if s.info.Flags&nl.XFRM_STATE_ESN == 0 {
		c.sent = min(c.sent, math.MaxUint32) // then none are left, and the kernel sends no more
	}
	if _, ok := s.attrs[nl.XFRMA_REPLAY_ESN_VAL]; ok {
		r.attr(nl.XFRMA_REPLAY_ESN_VAL, replayState(c.sent, c.seen, c.window, c.bitmap))
	} else if v := s.attrs[nl.XFRMA_REPLAY_VAL]; len(v) >= nl.SizeofXfrmReplayState {
		sent := binary.NativeEndian.AppendUint32(nil, uint32(c.sent))
		r.attr(nl.XFRMA_REPLAY_VAL, sent, v[4:])
	}
	return r, nil
}
