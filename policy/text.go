package policy

import (
	"fmt"
	"strings"
)

// Text is the whole configuration with its defaults in canonical words, without secrets. Two snapshots of equal Text differ in their secrets at
// most.
func (s *Snapshot) Text() string {
	var b strings.Builder
	d := s.Daemon
	fmt.Fprintf(&b, "daemon: data plane %s, log %s, ports %d and %d, MTU %d, cookies from %d half-open SAs\n", d.Dataplane, d.LogLevel, d.Port, d.NATTPort, d.MTU, d.CookieThreshold)
	for _, c := range s.Connections {
		b.WriteString(c.Text())
	}
	return b.String()
}

// Text is the connection with its defaults in canonical words, without its secret and without where it stands.
func (c *Connection) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "connection %s\n", c.Name)
	fmt.Fprintf(&b, "  local   %s, %s\n", c.Local.addressText(), c.Local.identityText())
	fmt.Fprintf(&b, "  remote  %s port %d, %s\n", c.Remote.addressText(), c.Remote.Port, c.Remote.identityText())
	fmt.Fprintf(&b, "  proof   %s\n", c.proofText())
	down := "pass"
	if c.Drop {
		down = "drop"
	}
	fmt.Fprintf(&b, "  start   %s, when down %s, encapsulation %s\n", c.Start, down, c.Encap)
	fmt.Fprintf(&b, "  large   %s\n", c.Fragments.text())
	if !c.MOBIKE {
		b.WriteString("  path    stays as it is: no MOBIKE\n")
	}
	l := c.Liveness
	fmt.Fprintf(&b, "  alive   asked after %s, %d tries, timeout %s x %g; NAT keepalive %s\n", l.Idle, l.Tries, l.Timeout, l.Factor, c.NATKeepalive)
	fmt.Fprintf(&b, "  life    %s\n", c.Lifetime.text())
	for _, p := range c.IKE {
		fmt.Fprintf(&b, "  ike     %s\n", describeOne(p))
	}
	for _, ch := range c.Children {
		b.WriteString(ch.Text())
	}
	return b.String()
}

// Text is the child with its defaults in canonical words.
func (ch *Child) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  child %s\n", ch.Name)
	for _, side := range []struct {
		name string
		list []TS
	}{{"local", ch.Local}, {"remote", ch.Remote}} {
		for _, t := range side.list {
			fmt.Fprintf(&b, "    %-7s %s\n", side.name, t)
		}
	}
	for _, p := range ch.ESP {
		fmt.Fprintf(&b, "    esp     %s\n", describeOne(p))
	}
	pfs := names(groupTransforms(ch.PFS))
	if pfs == "" {
		pfs = "not asked for"
	}
	fmt.Fprintf(&b, "    pfs     %s\n    replay  %d\n    life    %s\n", pfs, ch.Replay, ch.Lifetime.text())
	if ch.HideDSCP {
		b.WriteString("    dscp    not copied\n")
	}
	return b.String()
}

func (e End) addressText() string {
	switch {
	case e.Address.IsValid():
		return e.Address.String()
	case e.Name != "":
		return e.Name
	}
	return "%any"
}

// Same says whether a reload leaves the connection as it is, secret included. Where it stands in its file does not count.
func (c *Connection) Same(o *Connection) bool {
	return c.Text() == o.Text() && c.PSK.Equal(o.PSK) && c.SameProofs(o)
}

func (l IKELifetime) text() string {
	var parts []string
	if l.Rekey > 0 {
		parts = append(parts, "rekeyed after "+brief(l.Rekey))
	}
	if l.Reauth > 0 {
		parts = append(parts, "authenticated anew after "+brief(l.Reauth))
	}
	if parts == nil {
		return "as long as the peer likes"
	}
	return fmt.Sprintf("%s, less up to %s at random, over %s later", strings.Join(parts, ", "), brief(l.Jitter), brief(l.Over))
}

func (l ChildLifetime) text() string {
	var parts []string
	if l.Rekey > 0 {
		parts = append(parts, fmt.Sprintf("rekeyed after %s, less up to %s at random", brief(l.Rekey), brief(l.Jitter)))
	}
	for _, x := range []struct {
		soft, hard uint64
		unit       string
	}{{l.Bytes, l.HardBytes, "octets"}, {l.Packets, l.HardPackets, "packets"}} {
		if x.soft > 0 {
			parts = append(parts, fmt.Sprintf("rekeyed after %d %s", x.soft, x.unit))
		}
		if x.hard > 0 {
			parts = append(parts, fmt.Sprintf("over after %d %s", x.hard, x.unit))
		}
	}
	if l.Hard > 0 {
		parts = append(parts, "over after "+brief(l.Hard))
	}
	if parts == nil {
		return "as long as the peer and its algorithms allow"
	}
	return strings.Join(parts, ", ")
}
