package main

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cygnet/ike/control"
	"cygnet/test/rig"
)

// espSize is the size of the IPv4 packet that carries an inner packet as ESP in UDP (RFC 4303 section 2, RFC 3948 section 2.1): headers of IP, UDP and ESP, IV,
// inner packet, padding with its length and the next header, ICV.
func espSize(s rig.Suite, inner int) int {
	iv, block, icv := 8, 4, 16 // AES-GCM
	if s.SA == rig.CBC.SA {
		iv, block, icv = 16, 16, 16
	}
	return 20 + 8 + 8 + iv + (inner+2+block-1)/block*block + icv
}

// hop is a part of a way on which packets may vanish: through a gateway.
type hop struct {
	where   string
	gateway *gateway
	lost    int // those that came to it and did not leave it
}

// hops are the parts of a flow's way. What the WAN dropped, and what it made so late that a replay window must not take it, is none of theirs.
func (r *row) hops(f *flow) []hop {
	there, back, near, far := r.passing.AB, r.passing.BA, r.a, r.b
	if f.way == backward {
		there, back, near, far = back, there, far, near
	}
	out := there.ESP[espSize(r.suite, f.inner)]
	sent := int(f.sent) - f.refused
	if !f.kind.ping {
		return []hop{{"from the LAN to the WAN", near, sent - out.Came}, {"from the WAN to the LAN", far, out.Passed - f.got}}
	}
	answer := back.ESP[espSize(r.suite, f.inner)]
	return []hop{{"from the LAN to the WAN", near, sent - out.Came}, {"between request and answer", far, out.Passed - answer.Came},
		{"from the WAN to the LAN", near, answer.Passed - f.got}}
}

// overtaken is how many of a flow the WAN has delivered after later ones.
func (r *row) overtaken(f *flow) int {
	if f.way == backward {
		return r.passing.BA.ESP[espSize(r.suite, f.inner)].Overtaken
	}
	return r.passing.AB.ESP[espSize(r.suite, f.inner)].Overtaken
}

// judge looks at all that has been counted.
func (r *row) judge() {
	for _, f := range r.flows {
		r.judgeFlow(f)
	}
	for _, t := range r.transfers {
		for _, err := range t.failed {
			r.find("TCP %s: %v", t.way, err)
		}
		if t.good == 0 {
			r.find("TCP %s: no transfer has ended well", t.way)
		}
	}
	for source, n := range r.passing.Clear {
		if g := r.sender(source); g.own == nil {
			r.note("%s sent %d packets of %s in clear", g.name, n, source)
		} else {
			r.find("%s sent %d packets of %s in clear, the first on the WAN: %v", g.name, n, source, r.passing.First)
		}
	}
	for what, n := range r.passing.Strange {
		r.note("%d packets on the WAN that are neither IKE nor ESP: %s", n, what)
	}
	r.judgeWAN()
	for _, g := range r.gateways() {
		r.judgeGateway(g)
	}
	for _, o := range r.operators {
		r.judgeOperator(o)
	}
}

// sender is the gateway on whose side an address is.
func (r *row) sender(source string) *gateway {
	a, err := netip.ParseAddr(source)
	if b := r.topo.B; err == nil && (b.LAN4.Contains(a) || b.LAN6.Contains(a) || a == b.WAN4) {
		return r.b
	}
	return r.a
}

// judgeWAN: a WAN on which nothing happens shows nothing.
func (r *row) judgeWAN() {
	for way, d := range map[string]rig.Direction{forward: r.passing.AB, backward: r.passing.BA} {
		if s := d.Sum(); s.Dropped == 0 || s.Reordered == 0 || s.Duplicates == 0 {
			r.find("the WAN has done nothing %s: %+v", way, s)
		}
	}
	for name, ns := range map[string]rig.NS{"host A": r.topo.A.Host, "host B": r.topo.B.Host, r.a.name: r.topo.A.Gateway, r.b.name: r.topo.B.Gateway} {
		n, err := ns.LostAtSockets()
		switch peers := r.peer && name != r.own().name && !strings.HasPrefix(name, "host"); {
		case err != nil:
			r.find("%s: %v", name, err)
		case n > 0 && peers:
			r.note("%d datagrams came to a full socket of %s", n, name)
		case n > 0:
			r.find("%d datagrams came to a full socket of %s", n, name)
		}
	}
}

func (r *row) judgeFlow(f *flow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.got == 0 {
		r.find("%s: nothing has arrived of %d", f, f.sent)
	}
	if f.refused > 0 {
		r.find("%s: the host could not send %d: %v", f, f.refused, f.lastErr)
	}
	if f.duplicates > 0 {
		r.find("%s: %d were delivered twice", f, f.duplicates)
	}
	if f.broken > 0 {
		r.find("%s: %d arrived with other content than was sent", f, f.broken)
	}
	whole := !f.kind.ping // those of pings are of two ways
	for _, h := range r.hops(f) {
		whole = whole && h.lost == 0
		switch {
		case h.lost == 0:
		case h.lost > 0 && h.gateway.own == nil: // it was handed over by the WAN, or did not come to it
			r.note("%s: %s lost %d %s", f, h.gateway.name, h.lost, h.where)
		case h.lost > 0:
			r.find("%s: %s lost %d %s", f, h.gateway.name, h.lost, h.where)
		default:
			r.find("%s: %d more than there were left %s %s", f, -h.lost, h.gateway.name, h.where)
		}
	}
	if n := r.overtaken(f); f.overtaken != n && whole { // else one of the lost may be one of them
		r.find("%s: %d were delivered after later ones, and the WAN has reordered %d", f, f.overtaken, n)
	}
}

// judgeGateway: what a daemon holds does not grow, and at the end it shows one child without a word of trouble.
func (r *row) judgeGateway(g *gateway) {
	var list []string
	for _, q := range growths(g.samples) {
		list = append(list, q.String())
		if q.leaks() {
			if g.own == nil {
				r.note("%s grows: %v", g.name, q)
			} else {
				r.find("%s leaks: %v, more than %d", g.name, q, q.allowed)
			}
		}
	}
	r.note("%s, first quarter > last quarter: %s", g.name, strings.Join(list, ", "))
	if g.own == nil {
		return
	}
	late := r.passing.BA
	if g == r.b {
		late = r.passing.AB
	}
	for _, text := range atRest(g.own, uint64(late.Sum().Late)) {
		r.find("ikectl status of %s: %s", g.name, text)
	}
	r.judgeDrops(g, late.Sum())
}

// judgeDrops: a gateway has dropped what the WAN has sent twice or too late, for that reason, and nothing else.
func (r *row) judgeDrops(g *gateway, came rig.Fates) {
	var st control.Status
	if err := g.own.Status(&st); err != nil {
		r.find("%s: %v", g.name, err)
		return
	}
	var drops []string
	replayed := 0
	for _, name := range slices.Sorted(maps.Keys(st.Counters)) {
		n := st.Counters[name]
		switch {
		case !strings.HasPrefix(name, "dropped-"):
			continue
		case name == "dropped-in-replayed", name == "dropped-in-integrity": // the latter are late: see troubles
			replayed += int(n)
		case name == "dropped-out-no-policy": // what the kernel itself sends on a device that it has found: neighbour discovery
		default:
			r.find("%s has dropped what it should not: %s %d", g.name, name, n)
		}
		drops = append(drops, fmt.Sprintf("%s %d", name, n))
	}
	if want := came.Duplicates + came.Late; replayed != want {
		r.find("%s has dropped %d as replayed or not authentic; %d came twice and %d late", g.name, replayed, came.Duplicates, came.Late)
	}
	r.note("%s counts %s", g.name, strings.Join(drops, ", "))
}

// atRest are the troubles that stay when keys that are just being renewed have had the time for it, also on this WAN.
func atRest(own *rig.CygnetEnd, late uint64) (list []string) {
	rig.Until(time.Minute, func() bool {
		var st control.Status
		if err := own.Status(&st); err != nil {
			list = []string{err.Error()}
			return false
		}
		list = troubles(st, late)
		return len(list) == 0
	})
	return list
}

// troubles are what is not as it should be in the status of a tunnel that is up. With extended sequence numbers a packet from before the replay window is taken
// for one of the next 2^32, and fails authentication (RFC 4303 appendix A2.2): so many may be late.
func troubles(st control.Status, late uint64) (list []string) {
	say := func(format string, a ...any) { list = append(list, fmt.Sprintf(format, a...)) }
	if len(st.Connections) != 1 {
		return []string{fmt.Sprintf("%d connections", len(st.Connections))}
	}
	c := st.Connections[0]
	if c.State != "up" || len(c.Missing) > 0 || len(c.NotUp) > 0 || c.LastErr != "" || len(c.Refused) > 0 || len(c.RefusedChild) > 0 {
		say("state %s, missing %v, not up %v, last error %q, refused %v %v", c.State, c.Missing, c.NotUp, c.LastErr, c.Refused, c.RefusedChild)
	}
	standing := slices.DeleteFunc(slices.Clone(c.IKE), func(sa control.IKESA) bool { return sa.Phase == "closing" && len(sa.Children) == 0 })
	if len(standing) != 1 || len(standing[0].Children) != 1 {
		say("not one IKE SA with one child: %+v", c.IKE)
		return list
	}
	sa := standing[0]
	child := sa.Children[0]
	if sa.Phase != "established" || child.State != "up" || child.LastErr != "" || sa.Sent > 1 {
		say("IKE SA %s, child %s, last error %q, a request sent %d times", sa.Phase, child.State, child.LastErr, sa.Sent)
	}
	if child.IntegrityDrops > late {
		say("%d packets failed authentication, and %d were late", child.IntegrityDrops, late)
	}
	return list
}

// judgeOperator: no command failed, no failure was told, and keys were renewed as often as configured.
func (r *row) judgeOperator(o *operator) {
	child, ikeSA := o.rekeys()
	if n := r.seconds/(childRekey*3/2) - 1; child < n {
		r.find("%d rekeys of the child were told in %d s, wanted %d at least", child, r.seconds, n)
	}
	if n := r.seconds/(ikeRekey*3/2) - 1; ikeSA < n {
		r.find("%d rekeys of the IKE SA were told in %d s, wanted %d at least", ikeSA, r.seconds, n)
	}
	o.mu.Lock()
	r.findings = append(r.findings, o.bad...)
	o.mu.Unlock()
	r.note("%s", o)
}

// figures is the line of every ten seconds.
func (r *row) figures() string {
	p, err := r.wan.Passing()
	if err != nil {
		return fmt.Sprintf("%-4s %v", r.name, err)
	}
	way := func(d rig.Direction) string {
		s := d.Sum()
		return fmt.Sprintf("%d ESP -%d ~%d x%d late %d", s.Came, s.Dropped, s.Reordered, s.Duplicates, s.Late)
	}
	var lost []string
	for _, f := range r.flows {
		lost = append(lost, fmt.Sprintf("%d", f.lost()))
	}
	var tcp []string
	for _, t := range r.transfers {
		t.mu.Lock()
		tcp = append(tcp, fmt.Sprintf("%d", t.good))
		t.mu.Unlock()
	}
	var ends []string
	for _, g := range r.gateways() {
		s := g.last()
		ends = append(ends, fmt.Sprintf("%.1f MiB %d fds %d go %d+%d SAs %.1f s CPU", float64(s.resident)/(1<<20), s.files, s.goroutines, s.ike, s.child, s.cpu.Seconds()))
	}
	child, ikeSA := r.operators[0].rekeys()
	return fmt.Sprintf("%-4s %4.0f s  A>B %s | B>A %s | missing %s | TCP %s | rekeys %d+%d | %s", r.name, time.Since(r.began).Seconds(), way(p.AB), way(p.BA),
		strings.Join(lost, " "), strings.Join(tcp, "+"), child, ikeSA, strings.Join(ends, " | "))
}

// table is what is printed at the end.
func (r *row) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.name, r.title)
	for _, f := range r.flows {
		fates := r.passing.AB.ESP[espSize(r.suite, f.inner)]
		if f.way == backward {
			fates = r.passing.BA.ESP[espSize(r.suite, f.inner)]
		}
		fmt.Fprintf(&b, "  %-15s %6d sent, %6d arrived, %4d missing; the WAN dropped %d, reordered %d, repeated %d, %d beyond the window; at most %d behind another\n",
			f, f.sent, f.got, int(f.sent)-f.got, fates.Dropped, fates.Reordered, fates.Duplicates, fates.Late, f.latest)
	}
	for _, t := range r.transfers {
		fmt.Fprintf(&b, "  TCP %-8s %6d transfers, %.1f MB with equal SHA-256, slowest %.1f s\n", t.way, t.good, float64(t.octets)/1e6, t.slowest.Seconds())
	}
	for way, d := range map[string]rig.Direction{forward: r.passing.AB, backward: r.passing.BA} {
		s := d.Sum()
		r.note("WAN %s: ESP %d came, %d dropped, %d reordered, %d repeated, %d late; IKE %d came, %d dropped, %d reordered, %d repeated",
			way, s.Came, s.Dropped, s.Reordered, s.Duplicates, s.Late, d.IKE.Came, d.IKE.Dropped, d.IKE.Reordered, d.IKE.Duplicates)
	}
	slices.Sort(r.notes)
	for _, n := range r.notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	for _, f := range r.findings {
		fmt.Fprintf(&b, "  WRONG: %s\n", f)
	}
	if r.err != nil {
		fmt.Fprintf(&b, "  WRONG: %v\n", r.err)
	}
	return b.String()
}
