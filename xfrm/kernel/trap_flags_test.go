package kernel

import (
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
