package kernel

import (
	"encoding/binary"
	"testing"

	"cygnet/xfrm"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// RFC 7296 section 2.24: the kernel treats ECN in tunnels as RFC 4301 section 5.1.2 says, unless a flag of the SA forbids it.
func TestTrap_7296_71_ECN(t *testing.T) {
	for _, direction := range []xfrm.Direction{xfrm.In, xfrm.Out} {
		sa := gcmIn()
		sa.Direction = direction
		r, err := dialect{direction: true}.newSA(sa, 0)
		if err != nil {
			t.Fatal(err)
		}
		info := nl.DeserializeXfrmUsersaInfo(r.seal(1)[unix.NLMSG_HDRLEN:])
		const decapDSCP = 1 << 1 // XFRM_STATE_DECAP_DSCP: the outer DSCP would be copied in, which RFC 4301 forbids
		if info.Mode != modeNumber(xfrm.Tunnel) || info.Flags&(nl.XFRM_STATE_NOECN|decapDSCP) != 0 {
			t.Errorf("direction %v: mode %d, flags %#x", direction, info.Mode, info.Flags)
		}
	}
}

// RFC 4303 section 3.3.3: extended sequence numbers only with anti-replay, also where nobody asked for a window.
func TestTrap_4303_12_ESNWithWindow(t *testing.T) {
	for _, window := range []uint32{0, 1, 32, 4096} {
		sa := gcmIn()
		sa.Suite.ESN, sa.Replay = true, window
		var info nl.XfrmUsersaInfo
		state, err := dialect{direction: true}.replay(sa, &info)
		if err != nil {
			t.Fatal(err)
		}
		// The window stands behind the length of the bitmap and four numbers (struct xfrm_replay_state_esn).
		if got := binary.NativeEndian.Uint32(state[20:]); info.Flags&nl.XFRM_STATE_ESN == 0 || got < 32 || got < window {
			t.Errorf("a window of %d becomes %d, flags %#x", window, got, info.Flags)
		}
	}
}
