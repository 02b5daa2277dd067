package rig

import (
	"fmt"
	"regexp"
	"sort"
	"strings"

	"cygnet/ike/control"
)

// volatile are the parts of a dump that differ between two equal states: SPIs, keys, numbers that the kernel gives.
var volatile = []*regexp.Regexp{
	regexp.MustCompile(`spi 0x[0-9a-f]+(\(\d+\))?`),
	regexp.MustCompile(`0x[0-9a-f]{32,}( \(\d+ bits\))?`),
	regexp.MustCompile(`reqid \d+(\(0x[0-9a-f]+\))?`),
	regexp.MustCompile(`(?m)^\d+: `),
	regexp.MustCompile(`qlen \d+`),
}

// counters are whole lines of "ip xfrm state" that count.
var counters = regexp.MustCompile(`(?m)^\s+(anti-replay|seq|[0-9a-f]{8} |lastused|replay-window).*\n`)

// Dump is the state of a gateway's data plane in a form that can be compared: SAs, policies, routes of ours, TUN devices, and what ikectl shows
// of each child; SPIs, keys and counters left out.
func (c *Cygnet) Dump() (string, error) {
	var b strings.Builder
	for _, cmd := range []string{"ip xfrm state", "ip xfrm policy", "ip route show table all proto 67", "ip -6 route show table all proto 67", "ip -o link show type tun", "ip rule"} {
		f := strings.Fields(cmd)
		out, err := c.NS.Output(f[0], f[1:]...)
		if err != nil {
			return "", err
		}
		out = counters.ReplaceAllString(out, "")
		for _, v := range volatile {
			out = v.ReplaceAllString(out, "")
		}
		fmt.Fprintf(&b, "# %s\n%s\n", cmd, sortBlocks(out))
	}
	var st control.Status
	if err := c.Status(&st); err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "# ikectl status\ndata plane %s\n", st.Dataplane)
	for _, conn := range st.Connections {
		fmt.Fprintf(&b, "%s %s wanted %s\n", conn.Name, conn.State, conn.Wanted)
		for _, ike := range conn.IKE {
			fmt.Fprintf(&b, "  %s %s %s %s %s %s NAT %s\n", ike.Phase, ike.Local, ike.Remote, ike.LocalID, ike.RemoteID, ike.Suite, ike.NAT)
			for _, ch := range ike.Children {
				fmt.Fprintf(&b, "    %s %s %s %s %v %v\n", ch.Name, ch.State, ch.Suite, ch.Encap, ch.Local, ch.Remote)
			}
		}
	}
	return b.String(), nil
}

// sortBlocks orders the entries of an "ip" dump, each of which starts in the first column.
func sortBlocks(s string) string {
	var blocks []string
	for _, l := range strings.SplitAfter(s, "\n") {
		if len(blocks) > 0 && (strings.HasPrefix(l, "\t") || strings.HasPrefix(l, " ")) {
			blocks[len(blocks)-1] += l
		} else if strings.TrimSpace(l) != "" {
			blocks = append(blocks, l)
		}
	}
	sort.Strings(blocks)
	return strings.Join(blocks, "")
}
