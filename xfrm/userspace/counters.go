package userspace

import (
	"strings"

	"cygnet/xfrm/esp"
)

// Counters are the Drops under the names of the daemon's status: "dropped-out-" before the peer could have had them, "dropped-in-" of what came from it.
func (d *Driver) Counters() map[string]uint64 {
	c := d.Drops()
	m := map[string]uint64{
		"dropped-out-offload": c.Offload, "dropped-out-no-policy": c.NoPolicy, "dropped-out-blocked": c.Blocked,
		"dropped-out-no-sa": c.NoSA, "dropped-out-too-big": c.TooBig, "dropped-out-sealing": c.Sealing, "dropped-out-sending": c.Sending,
		"dropped-in-unknown-spi": c.UnknownSPI, "dropped-in-expired": c.Expired, "dropped-in-selectors": c.Selectors, "dropped-in-ecn": c.ECN, "dropped-in-writing": c.Writing,
		"odd-in-ecn": d.oddECN.Load(), // went on (RFC 6040 section 4.2)
	}
	for r := esp.Accepted + 1; r < esp.Reasons; r++ {
		m["dropped-in-"+strings.ReplaceAll(r.String(), " ", "-")] = c.Opening[r]
	}
	return m
}
