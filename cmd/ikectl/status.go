package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/ike/control"
	"cygnet/policy"
)

func setupStatus(c *command) func(context.Context) error {
	return func(ctx context.Context) error {
		name := ""
		if len(c.args) > 0 {
			var err error
			if name, err = c.oneName("name of a connection"); err != nil {
				return err
			}
		}
		st, err := c.client().Status(ctx)
		if err != nil {
			return err
		}
		if name != "" {
			if err := only(st, name); err != nil {
				return err
			}
		}
		if c.json {
			c.printJSON(st)
			return nil
		}
		c.printStatus(st)
		return nil
	}
}

// only leaves the named connection.
func only(st *control.Status, name string) error {
	i := slices.IndexFunc(st.Connections, func(c control.Connection) bool { return c.Name == name })
	if i >= 0 {
		st.Connections = st.Connections[i : i+1]
		return nil
	}
	var known policy.Snapshot
	for _, conn := range st.Connections {
		known.Connections = append(known.Connections, &policy.Connection{Name: conn.Name})
	}
	hint := "see: ikectl status"
	if near := known.Near(name); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return control.Fail(control.CodeUnknownConnection, fmt.Sprintf("there is no connection %q", name), hint)
}

func (c *command) printStatus(st *control.Status) {
	fmt.Fprintf(c.out, "cygnetd %s, data plane %s", printable(st.Version), printable(st.Dataplane))
	why := printable(st.Why)
	if why != "" {
		fmt.Fprintf(c.out, " (%s)", brief(why))
	}
	fmt.Fprintln(c.out)
	if c.verbose && why != brief(why) {
		fmt.Fprintf(c.out, "  data plane: %s\n", why)
	}
	if st.Config != "" {
		fmt.Fprintf(c.out, "  note: %s\n", printable(st.Config))
	}
	if len(st.Connections) == 0 {
		fmt.Fprintln(c.out, "no connection is configured")
	}
	for _, conn := range st.Connections {
		fmt.Fprintln(c.out)
		c.printConnection(&conn)
	}
	if c.verbose && len(st.Counters) > 0 {
		c.printCounters(st.Counters)
	}
}

// brief is a reason without its causes, which follow a colon, a semicolon or stand in brackets.
func brief(why string) string {
	end := len(why)
	for _, mark := range []string{": ", "; ", " ("} {
		if i := strings.Index(why, mark); i > 0 {
			end = min(end, i)
		}
	}
	return why[:end]
}

func (c *command) printConnection(conn *control.Connection) {
	fmt.Fprintf(c.out, "%s: %s", printable(conn.Name), conn.State)
	var about []string
	switch {
	case conn.State == "up" && conn.Wanted == "down" && begunByPeer(conn):
		about = append(about, "begun by the peer")
	case conn.Wanted != "" && conn.Wanted != conn.State:
		about = append(about, "wanted "+conn.Wanted)
	}
	about = append(about, "start "+conn.Start)
	if conn.WhenDown != "" {
		about = append(about, conn.WhenDown+" when down")
	}
	fmt.Fprintf(c.out, " (%s)\n", strings.Join(about, ", "))
	if len(conn.IKE) == 0 && conn.Peer != "" {
		c.row("peer", conn.Peer)
	}
	if conn.LastErr != "" {
		c.row("error", ago(conn.ErrAge, conn.LastErr))
	}
	if conn.NextTry != "" {
		c.row("next try", conn.NextTry)
	}
	if conn.LastEnd != "" {
		c.row("last", conn.LastEnd)
	}
	if conn.Closed {
		c.row("closed", "taken down here, so that the peer is refused too; to let it in: ikectl up "+conn.Name)
	}
	for _, r := range conn.Refused {
		c.row("refused", fmt.Sprintf("%s ago: %s", age(r.Seconds), r.Text))
	}
	for _, sa := range conn.IKE {
		c.printIKE(&sa)
	}
	if t := conn.Traffic; t != trafficOfNow(conn) {
		c.row("traffic", fmt.Sprintf("in %s, %d packets, out %s, %d packets, under all keys", octets(t.BytesIn), t.PacketsIn, octets(t.BytesOut), t.PacketsOut))
	}
	if len(conn.Missing) > 0 && len(conn.IKE) > 0 {
		c.row("not up", "child "+strings.Join(conn.Missing, ", "))
	}
	for _, ch := range conn.NotUp {
		text := ago(ch.ErrAge, ch.LastErr)
		if ch.NextTry != "" {
			text = strings.TrimPrefix(text+"; next try "+ch.NextTry, "; ")
		}
		c.row("  "+ch.Name, text)
	}
	for _, r := range conn.RefusedChild {
		c.row("  refused", fmt.Sprintf("%s ago, the peer's request: %s", age(r.Seconds), r.Text))
	}
}

// ago puts the age of an error before it, where the daemon tells it.
func ago(seconds int64, text string) string {
	if seconds == 0 || text == "" {
		return text
	}
	return age(seconds) + " ago: " + text
}

func begunByPeer(conn *control.Connection) bool {
	return !slices.ContainsFunc(conn.IKE, func(sa control.IKESA) bool { return sa.Initiator })
}

// natWords are for people: only a NAT at our end is known for sure.
func natWords(nat string) string {
	if nat == "unknown" {
		return "none, or the peer's"
	}
	return nat
}

// fragmentWords say whether large IKE messages travel in fragments (RFC 7383).
func fragmentWords(sa *control.IKESA) string {
	switch sa.Fragmentation {
	case "used":
		return fmt.Sprintf("in use, at most %d octets", sa.FragmentSize)
	case "agreed":
		return fmt.Sprintf("agreed, for messages above %d octets", sa.FragmentSize)
	}
	return "not agreed: large IKE messages need fragments of IP"
}

// trafficOfNow is that of the children that are there.
func trafficOfNow(conn *control.Connection) (t control.Traffic) {
	for _, sa := range conn.IKE {
		for _, ch := range sa.Children {
			t.BytesIn, t.BytesOut = t.BytesIn+ch.BytesIn, t.BytesOut+ch.BytesOut
			t.PacketsIn, t.PacketsOut = t.PacketsIn+ch.PacketsIn, t.PacketsOut+ch.PacketsOut
		}
	}
	return t
}

func (c *command) printIKE(sa *control.IKESA) {
	role := "responder"
	if sa.Initiator {
		role = "initiator"
	}
	c.row("IKE SA", fmt.Sprintf("%s for %s, %s", sa.Phase, age(sa.Seconds), role))
	w := max(len(sa.Local), len(sa.Remote))
	c.row("  local", fmt.Sprintf("%-*s  %s", w, sa.Local, sa.LocalID))
	c.row("  remote", fmt.Sprintf("%-*s  %s", w, sa.Remote, sa.RemoteID))
	if sa.Proof != "" {
		c.row("  proof", sa.Proof)
	}
	if sa.Suite != "" {
		c.row("  suite", sa.Suite)
	}
	c.row("  SPIs", sa.SPIi+" initiator, "+sa.SPIr+" responder")
	c.row("  NAT", natWords(sa.NAT))
	if sa.Fragmentation == "used" || c.verbose && sa.Fragmentation != "" {
		c.row("  fragment", fragmentWords(sa))
	}
	if c.verbose && sa.MOBIKE {
		c.row("  MOBIKE", "agreed: the tunnel goes along when an address changes")
	}
	if sa.Sent > 0 {
		c.row("  waits", waits(sa))
	}
	if due := renewal(sa); due != "" {
		c.row("  rekey", due)
	}
	for _, ch := range sa.Children {
		c.printChild(&ch)
	}
}

// waits says how patiently: "no answer (3 of 6)".
func waits(sa *control.IKESA) string {
	if sa.Sent == 1 {
		return fmt.Sprintf("for an answer (sent once, %d times at most)", sa.Tries)
	}
	return fmt.Sprintf("no answer (%d of %d)", sa.Sent, sa.Tries)
}

// renewal says when this side renews an IKE SA.
func renewal(sa *control.IKESA) string {
	var due []string
	if sa.RekeyIn > 0 {
		due = append(due, "in "+age(sa.RekeyIn))
	}
	if sa.ReauthIn > 0 {
		due = append(due, "authentication anew in "+age(sa.ReauthIn))
	}
	return strings.Join(due, ", ")
}

func (c *command) printChild(ch *control.Child) {
	c.row("child", fmt.Sprintf("%s %s for %s", ch.Name, ch.State, age(ch.Seconds)))
	c.row("  local", strings.Join(ch.Local, ", "))
	c.row("  remote", strings.Join(ch.Remote, ", "))
	suite := "ESP " + ch.Suite
	if ch.Encap == "udp" {
		suite += " in UDP"
	}
	c.row("  suite", suite)
	inBytes, outBytes := octets(ch.BytesIn), octets(ch.BytesOut)
	wb, wp := max(len(inBytes), len(outBytes)), len(fmt.Sprint(max(ch.PacketsIn, ch.PacketsOut)))
	in := fmt.Sprintf("%-8s  %*s  %*d packets", ch.SPIIn, wb, inBytes, wp, ch.PacketsIn)
	if ch.ReplayDrops+ch.IntegrityDrops > 0 {
		in += fmt.Sprintf("; dropped: %d replayed, %d damaged", ch.ReplayDrops, ch.IntegrityDrops)
	}
	c.row("  in", in)
	c.row("  out", fmt.Sprintf("%-8s  %*s  %*d packets", ch.SPIOut, wb, outBytes, wp, ch.PacketsOut))
	if ch.LastIn < 0 {
		c.row("  last in", "never")
	} else {
		c.row("  last in", age(ch.LastIn)+" ago")
	}
	if ch.RekeyIn > 0 {
		c.row("  rekey", "in "+age(ch.RekeyIn))
	}
	if ch.LastErr != "" {
		c.row("  error", ch.LastErr)
	}
}

func (c *command) printCounters(m map[string]uint64) {
	names := make([]string, 0, len(m))
	w := 0
	for n := range m {
		names = append(names, n)
		w = max(w, len(n))
	}
	slices.Sort(names)
	fmt.Fprintln(c.out, "\ncounters")
	for _, n := range names {
		fmt.Fprintf(c.out, "  %-*s  %d\n", w, printable(n), m[n])
	}
}

// row prints a name and a value in two columns.
func (c *command) row(name, value string) {
	fmt.Fprintf(c.out, "  %-10s  %s\n", name, printable(value))
}

func age(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }

// octets in the unit that leaves few digits.
func octets(n uint64) string {
	const step = 1 << 10
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f, i := float64(n), 0
	for f >= step && i < len(units)-1 {
		f, i = f/step, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
