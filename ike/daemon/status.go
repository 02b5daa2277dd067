package daemon

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/control"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// view is a connection's machines at one moment, without those that have ended and only repeat their last answer.
type view struct{ machines []ike.Status }

func (v *view) add(m ike.Status) {
	if !lingers(m) {
		v.machines = append(v.machines, m)
	}
}

// lingers: a machine that refused its peer, say, answers repeated requests for a while. It holds nothing and nobody waits for it.
func lingers(m ike.Status) bool { return m.Phase == "closing" && len(m.Children) == 0 }

// machines lists all machines of all shards, the oldest first.
func (d *Daemon) machines() ([]ike.Status, error) {
	lists := make(chan []ike.Status, len(d.loops))
	if err := d.inShards(func(s *shard.Shard) { lists <- s.Status() }); err != nil {
		return nil, err
	}
	var all []ike.Status
	for range d.loops {
		all = append(all, <-lists...)
	}
	slices.SortStableFunc(all, func(a, b ike.Status) int { return cmp.Compare(a.Since, b.Since) })
	return all, nil
}

func (d *Daemon) view(connection string) (v view, err error) {
	all, err := d.machines()
	for _, m := range all {
		if m.Connection == connection {
			v.add(m)
		}
	}
	return v, err
}

// child finds a child that is up; the newest if a rekey has made two.
func (v view) child(name string) (found ike.ChildStatus) {
	for _, m := range v.machines {
		for _, c := range m.Children {
			if c.Name == name && c.Up && c.Since >= found.Since {
				found = c
			}
		}
	}
	return found
}

func (v view) missing(children []string) (names []string) {
	for _, name := range children {
		if !v.child(name).Up {
			names = append(names, name)
		}
	}
	return names
}

func (v view) up(children []string) bool { return len(v.missing(children)) == 0 && len(v.machines) > 0 }

// gone: no machine at all, or without the child.
func (v view) gone(child string) bool {
	if child == "" {
		return len(v.machines) == 0
	}
	return !v.child(child).Up
}

// describe is a child on one line: "10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel".
func (d *Daemon) describe(c ike.ChildStatus) string {
	esp := "ESP " + c.Suite
	if c.Encap {
		esp += " in UDP"
	}
	text := fmt.Sprintf("%s <-> %s, %s, %s", strings.Join(c.Local, ", "), strings.Join(c.Remote, ", "), esp, d.caps.Name)
	if c.Narrowed != "" {
		text += "; " + c.Narrowed
	}
	return text
}

// statusOf is what the directory says of a connection.
func statusOf(dir *directory.Directory, connection string) (found directory.ConnStatus) {
	for _, s := range dir.Status() {
		if s.Name == connection {
			found = s
		}
	}
	return found
}

// nextTry is "in 8s", or empty when none is planned.
func (d *Daemon) nextTry(connection string) (text string) {
	d.inDirectory(func(dir *directory.Directory) { text = inTime(statusOf(dir, connection).NextTry) })
	return text
}

func inTime(at ike.Time) string {
	if at == 0 {
		return ""
	}
	return "in " + max(at.Sub(bootTime()), 0).Round(time.Second).String()
}

// Status merges what the shards, the directory and the data plane know.
func (b backend) Status(ctx context.Context) (*control.Status, *control.Failure) {
	d := b.d
	machines, err := d.machines()
	if err != nil {
		return nil, stopping()
	}
	wanted := make(map[string]directory.ConnStatus)
	if err := d.inDirectory(func(dir *directory.Directory) {
		for _, s := range dir.Status() {
			wanted[s.Name] = s
		}
	}); err != nil {
		return nil, stopping()
	}
	usage := make(map[xfrm.SAID]xfrm.Usage)
	if err := d.plane.driver.UsageAll(ctx, func(id xfrm.SAID, u xfrm.Usage) bool { usage[id] = u; return true }); err != nil {
		d.log.Warnf("traffic counters cannot be read: %v", err)
	}
	traffic := d.plane.totals.read(usage)
	of := make(map[string][]ike.Status)
	for _, m := range machines {
		of[m.Connection] = append(of[m.Connection], m)
	}
	st := &control.Status{Version: d.config.Version, Dataplane: d.caps.Name, Why: d.caps.Why, Config: d.configNotice(), Connections: []control.Connection{}, Counters: d.counts(machines)}
	for _, conn := range d.snapshot.Load().Connections {
		c := connectionStatus(conn, of[conn.Name], wanted[conn.Name], usage)
		c.Traffic = traffic[conn.Name]
		st.Connections = append(st.Connections, c)
	}
	return st, nil
}

func connectionStatus(conn *policy.Connection, machines []ike.Status, w directory.ConnStatus, usage map[xfrm.SAID]xfrm.Usage) control.Connection {
	c := control.Connection{Name: conn.Name, Start: string(conn.Start), WhenDown: "pass", Peer: peerText(conn.Remote), Wanted: w.Wanted}
	if conn.Drop {
		c.WhenDown = "drop"
	}
	v := view{}
	for _, m := range machines {
		v.add(m)
		c.IKE = append(c.IKE, ikeStatus(m, usage))
	}
	c.Missing = v.missing(childNames(conn, ""))
	c.Closed = w.Closed
	if c.State = stateOf(conn, v, w.Wanted); c.State != "up" {
		c.LastErr, c.ErrAge, c.NextTry = w.LastErr.Text, ageOf(w.LastErr), inTime(w.NextTry)
	}
	if len(v.machines) == 0 {
		c.LastEnd = w.Last
	}
	tellChildren(&c, v, w)
	c.Refused = refusals(w.Refused)
	if len(c.Missing) > 0 {
		c.RefusedChild = refusals(w.Asked)
	}
	return c
}

// ageOf in seconds; zero where there is nothing, and at least one otherwise, since JSON leaves zeros out.
func ageOf(n directory.Note) int64 {
	if n.At == 0 {
		return 0
	}
	return max(seconds(bootTime(), n.At), 1)
}

func refusals(n directory.Note) []control.RefusedCaller {
	if n.At == 0 {
		return nil
	}
	return []control.RefusedCaller{{Seconds: seconds(bootTime(), n.At), Text: n.Text}}
}

// tellChildren puts the errors of children where the children stand: with those that are up, or among those that are not.
func tellChildren(c *control.Connection, v view, w directory.ConnStatus) {
	for _, t := range w.Children {
		if !v.child(t.Name).Up {
			if len(v.machines) > 0 {
				c.NotUp = append(c.NotUp, control.ChildDown{Name: t.Name, LastErr: t.LastErr.Text, ErrAge: ageOf(t.LastErr), NextTry: inTime(t.NextTry)})
			}
			continue
		}
		for i := range c.IKE {
			for k := range c.IKE[i].Children {
				if ch := &c.IKE[i].Children[k]; ch.Name == t.Name {
					ch.LastErr = t.LastErr.Text
				}
			}
		}
	}
}

func stateOf(conn *policy.Connection, v view, wanted string) string {
	switch {
	case len(v.machines) > 0 && len(v.missing(childNames(conn, ""))) < len(conn.Children):
		return "up"
	case len(v.machines) > 0 || wanted == "up":
		return "connecting"
	case wanted == "trap":
		return "trap"
	}
	return "down"
}

func peerText(e policy.End) string {
	switch {
	case e.Address.IsValid():
		return e.Address.String()
	case e.Name != "":
		return e.Name
	}
	return "any"
}

func ikeStatus(m ike.Status, usage map[xfrm.SAID]xfrm.Usage) control.IKESA {
	t := bootTime()
	sa := control.IKESA{
		SPIi: spiText(m.SPIi), SPIr: spiText(m.SPIr), Phase: m.Phase, Initiator: m.Initiated,
		Local: m.Path.Local.String(), Remote: m.Path.Remote.String(), LocalID: m.LocalID, RemoteID: m.RemoteID, Proof: m.Proof,
		Suite: m.Suite, NAT: m.NAT, Fragmentation: m.Fragmentation, FragmentSize: m.FragmentSize, MOBIKE: m.MOBIKE, Seconds: seconds(t, m.Since),
		Sent: m.Sent, Tries: m.Tries, RekeyIn: secondsTo(t, m.RekeyAt), ReauthIn: secondsTo(t, m.ReauthAt),
	}
	for _, c := range m.Children {
		sa.Children = append(sa.Children, childStatus(c, t, usage))
	}
	return sa
}

func childStatus(c ike.ChildStatus, t ike.Time, usage map[xfrm.SAID]xfrm.Usage) control.Child {
	in, out := usage[c.In], usage[c.Out]
	child := control.Child{
		Name: c.Name, State: "opening", SPIIn: fmt.Sprintf("%08x", c.SPIIn), SPIOut: fmt.Sprintf("%08x", c.SPIOut),
		Suite: c.Suite, Encap: "none", Local: c.Local, Remote: c.Remote,
		BytesIn: in.Bytes, PacketsIn: in.Packets, BytesOut: out.Bytes, PacketsOut: out.Packets,
		ReplayDrops: in.ReplayDrops, IntegrityDrops: in.IntegrityDrops, LastIn: -1, Seconds: seconds(t, c.Since), RekeyIn: secondsTo(t, c.RekeyAt),
	}
	if at := sinceEpoch(in.LastUse, t); at != 0 {
		child.LastIn = seconds(t, at)
	}
	if c.Up {
		child.State = "up"
	}
	if c.Encap {
		child.Encap = "udp"
	}
	return child
}

func seconds(t, since ike.Time) int64 {
	if since == 0 {
		return 0
	}
	return int64(max(t.Sub(since), 0) / time.Second)
}

// secondsTo what is to come, at least one; zero where nothing is.
func secondsTo(t, at ike.Time) int64 {
	if at == 0 {
		return 0
	}
	return max(int64(at.Sub(t)/time.Second), 1)
}

func spiText(spi wire.SPI) string { return fmt.Sprintf("%016x", uint64(spi)) }

// counting is a data plane that counts what it dropped, as the kernel does in /proc/net/xfrm_stat.
type counting interface{ Counters() map[string]uint64 }

// counts are the counters of all parts under their names.
func (d *Daemon) counts(machines []ike.Status) map[string]uint64 {
	m := map[string]uint64{"ike-sas": uint64(len(machines)), "goroutines": uint64(runtime.NumGoroutine())}
	add := func(name string, n uint64) {
		if n > 0 {
			m[name] += n
		}
	}
	for _, l := range d.loops {
		add("dropped-queue-full", l.dropped.Load())
	}
	for class, name := range [...]string{ike.JobEstablished: "established", ike.JobAuth: "auth", ike.JobInit: "init"} {
		add("dropped-jobs-"+name, d.pool.dropped[class].Load())
	}
	for _, m := range machines {
		if m.Phase == "opening" || m.Phase == "authenticating" {
			add("ike-sas-half-open", 1)
		}
	}
	add("malformed", d.counters.malformed.Load())
	add("send-errors", d.counters.sendErrors.Load())
	add("strange-acquires", d.counters.strangeAcquires.Load())
	if plane, ok := d.plane.driver.(counting); ok {
		for name, n := range plane.Counters() {
			add(name, n)
		}
	}
	shards := make(chan map[string]uint64, len(d.loops))
	if d.inShards(func(s *shard.Shard) { shards <- s.Counters() }) == nil {
		for range d.loops {
			for name, n := range <-shards {
				add(name, n)
			}
		}
	}
	return m
}
