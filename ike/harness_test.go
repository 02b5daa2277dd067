package ike

import (
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
	"cygnet/xfrm/ledger"
)

const (
	pskText = "correct horse battery staple"

	gwA = `[connection.site-b]
local  = { address = "192.0.2.1",  id = "gw-a.example" }
remote = { address = "198.51.100.7", id = "gw-b.example" }
psk    = { file = "secrets/site-b" }
ike    = "aes256gcm16-prfsha256-ecp256"

[connection.site-b.child.lan]
local  = ["10.1.0.0/16"]
remote = ["10.2.0.0/16"]
`
	gwB = `[connection.site-a]
local  = { address = "198.51.100.7", id = "gw-b.example" }
remote = { address = "192.0.2.1",  id = "gw-a.example" }
psk    = { file = "secrets/site-a" }
ike    = "aes256gcm16-prfsha256-ecp256"

[connection.site-a.child.lan]
local  = ["10.2.0.0/16"]
remote = ["10.1.0.0/16"]
`
)

var (
	addrA = netip.MustParseAddr("192.0.2.1")
	addrB = netip.MustParseAddr("198.51.100.7")
	apA   = netip.AddrPortFrom(addrA, 500)
	apB   = netip.AddrPortFrom(addrB, 500)
)

// kernelCaps is a data plane that can do everything.
func kernelCaps() xfrm.Capabilities {
	c := xfrm.Capabilities{Name: "kernel", ESN: true, PlainESP: true, NATT: true, Encr: map[alg.Encr]bool{}, Integ: map[alg.Integ]bool{}}
	for _, x := range alg.Ciphers() {
		c.Encr[x.ID] = true
	}
	for _, x := range alg.MACs() {
		c.Integ[x.ID] = true
	}
	return c
}

// snapshot reads a configuration with one secret for all.
func snapshot(t testing.TB, text, psk string) *policy.Snapshot {
	t.Helper()
	s, problems := policy.Parse([]policy.Source{{Name: "conn.d/test.toml", Data: []byte(text)}}, policy.Files{Public: certificateFile, Secret: func(path string) (alg.Secret, error) {
		if strings.HasSuffix(path, ".key") {
			return keyFile(path)
		}
		return alg.NewSecret([]byte(psk)), nil
	}})
	for _, p := range problems {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	return s
}

// plane is a data plane in memory behind a real ledger. fail may refuse an op.
type plane struct {
	ledger *ledger.Ledger
	sas    map[xfrm.SAID]xfrm.SA
	pols   map[xfrm.Slot]xfrm.Policy
	fail   func(xfrm.Op) error
	ops    []string
}

func newPlane() *plane {
	return &plane{ledger: ledger.New(), sas: map[xfrm.SAID]xfrm.SA{}, pols: map[xfrm.Slot]xfrm.Policy{}}
}

func (p *plane) batch(t testing.TB, owner xfrm.Owner, b xfrm.Batch) (uint32, error) {
	t.Helper()
	plan, err := p.ledger.Plan(owner, b)
	if err != nil {
		var op *xfrm.OpError
		if !errors.As(err, &op) {
			t.Errorf("the ledger refuses a batch: %v", err)
		}
		return 0, err
	}
	for i, op := range plan.Ops {
		if err := p.apply(op); err != nil {
			for _, undo := range p.ledger.Rollback(plan, i) {
				p.apply(undo)
			}
			return 0, &xfrm.OpError{Index: i, Op: op, Err: err}
		}
	}
	p.ledger.Commit(plan)
	return plan.ReqID, nil
}

func (p *plane) apply(op xfrm.Op) error {
	p.ops = append(p.ops, xfrm.OpName(op))
	if p.fail != nil {
		if err := p.fail(op); err != nil {
			return err
		}
	}
	switch o := op.(type) {
	case xfrm.AddSA:
		if _, ok := p.sas[o.SA.ID]; ok {
			return xfrm.ErrExists
		}
		p.sas[o.SA.ID] = o.SA
	case xfrm.RemoveSA:
		delete(p.sas, o.ID)
	case xfrm.UpdateSA:
		s, ok := p.sas[o.ID]
		if !ok || s.Encap == nil {
			return errors.New("no such SA")
		}
		s.Encap = &o.Encap
		p.sas[o.ID] = s
	case xfrm.MoveSA:
		s, ok := p.sas[o.ID]
		if !ok {
			return errors.New("no such SA")
		}
		delete(p.sas, o.ID)
		s.ID.Dst, s.Src, s.Encap = o.Dst, o.Src, o.Encap
		p.sas[s.ID] = s
	case xfrm.PutPolicy:
		p.pols[o.Policy.Slot] = o.Policy
	case xfrm.RemovePolicy:
		delete(p.pols, o.Slot)
	}
	return nil
}

// host is one end: a machine, its data plane and what was said.
type host struct {
	t          testing.TB
	net        *network
	name       string
	config     Config
	sa         *SA   // the machine that has the connection
	others     []*SA // that it replaced, or that have not inherited
	plane      *plane
	reports    []Report
	claims     []Claim
	reauth     []Reauthenticate
	moved      []Moved
	finish     *Finish
	sends      []Send
	alive      int // keepalives sent
	jobs       int // so far
	loses      int // the number of the job that is never answered; 0: none
	usage      UsageDone
	seen       map[sentKey][]byte // protected messages by ID: repeats must be identical
	internal   bool               // CodeInternal is expected
	lookup     []netip.Addr       // of the peer, when it is looked up
	source     netip.Addr         // towards any peer, once it is not the first; unspecified: there is none
	unroutable []netip.Addr       // to which the host has no way
	asked      []auth.Source      // about revocations
	revoked    auth.Revocations   // what is answered
	accept     func(Packet) bool  // a responder asks before it makes a machine
	heard      int                // how many reports are of no interest
	results    func(any) any      // what becomes of the results of its jobs; nil: nothing
}

type sentKey struct {
	spis     [2]wire.SPI
	id       uint32
	response bool
	fragment [2]uint16 // number and total; 0: it is whole
}

// datagram on the wire.
type datagram struct {
	from, to netip.AddrPort
	data     []byte
}

// network joins two hosts in virtual time.
type network struct {
	t      testing.TB
	now    Time
	queue  events
	seq    int
	a, b   *host
	hook   func(d datagram) []datagram // what becomes of a datagram; nil: delivered
	delay  time.Duration
	steps  int
	lied   bool
	rewire func(to netip.Addr) *host // who has an address
	kept   kept
}

type timed struct {
	at  Time
	seq int
	run func()
}

type events []timed

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(timed)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// setup of a pair.
type setup struct {
	a, b       string
	pskA, pskB string
	caps       func() xfrm.Capabilities
	capsB      func() xfrm.Capabilities
	seed       uint64
	still      bool // both do not do MOBIKE
}

func newPair(t testing.TB, s setup) *network {
	t.Helper()
	if s.a == "" {
		s.a = gwA
	}
	if s.b == "" {
		s.b = gwB
	}
	if s.still {
		s.a = strings.Replace(s.a, "psk ", "mobike = false\npsk ", 1)
		s.b = strings.Replace(s.b, "psk ", "mobike = false\npsk ", 1)
	}
	if s.pskA == "" {
		s.pskA = pskText
	}
	if s.pskB == "" {
		s.pskB = pskText
	}
	if s.caps == nil {
		s.caps = kernelCaps
	}
	if s.capsB == nil {
		s.capsB = s.caps
	}
	n := &network{t: t, now: Time(time.Hour), delay: 10 * time.Millisecond}
	n.audited()
	n.a = newHost(n, "a", 0xa, snapshot(t, s.a, s.pskA), s.caps(), s.seed)
	n.b = newHost(n, "b", 0xb, snapshot(t, s.b, s.pskB), s.capsB(), s.seed)
	n.a.sa = NewInitiator(n.a.config, n.a.config.Snapshot.Connections[0])
	n.rewire = func(to netip.Addr) *host {
		switch to {
		case addrA:
			return n.a
		case addrB:
			return n.b
		}
		return nil
	}
	return n
}

func newHost(n *network, name string, spi wire.SPI, s *policy.Snapshot, caps xfrm.Capabilities, seed uint64) *host {
	var key [32]byte
	copy(key[:], fmt.Sprintf("%s %d", name, seed))
	h := &host{
		t: n.t, net: n, name: name, plane: newPlane(), seen: map[sentKey][]byte{},
		config: Config{Rand: rand.NewChaCha8(key), Snapshot: s, Caps: caps, Wall: func() time.Time { return wall }, SPI: spi<<56 | wire.SPI(0x1122334455667788>>8)},
	}
	draws := h.config.SPI
	h.config.DrawSPI = func() wire.SPI { draws++; return draws }
	return h
}

// machines lists those that live.
func (h *host) machines() (list []*SA) {
	if h.sa != nil {
		list = append(list, h.sa)
	}
	return append(list, h.others...)
}

// machine finds the one of an SPI of ours; by default that which has the connection.
func (h *host) machine(spi wire.SPI) *SA {
	for _, sa := range h.others {
		if sa.config.SPI == spi {
			return sa
		}
	}
	return h.sa
}

// receiverSPI and senderSPI of a message.
func receiverSPI(h wire.Header) wire.SPI {
	if h.Initiator() {
		return h.SPIr
	}
	return h.SPIi
}

func senderSPI(h wire.Header) wire.SPI {
	if h.Initiator() {
		return h.SPIi
	}
	return h.SPIr
}

func (h *host) owner(sa *SA) xfrm.Owner {
	return xfrm.Owner(fmt.Sprintf("%s %016x", h.name, uint64(sa.config.SPI)))
}

// at schedules.
func (n *network) at(t Time, run func()) {
	n.seq++
	heap.Push(&n.queue, timed{t, n.seq, run})
}

func (n *network) after(d time.Duration, run func()) { n.at(n.now.Add(d), run) }

// run lets time pass until nothing is left to do before limit, or until done says so.
func (n *network) run(limit time.Duration, done func() bool) bool {
	n.t.Helper()
	end := n.now.Add(limit)
	for {
		if done != nil && done() {
			return true
		}
		n.steps++
		if n.steps > 200000 {
			n.t.Fatal("the machines do not come to rest")
		}
		next, who, which := end, (*host)(nil), (*SA)(nil)
		for _, h := range []*host{n.a, n.b} {
			for _, sa := range h.machines() {
				if at, ok := sa.Deadline(); ok && at < next {
					next, who, which = at, h, sa
				}
			}
		}
		if len(n.queue) > 0 && n.queue[0].at <= next {
			e := heap.Pop(&n.queue).(timed)
			n.now = max(n.now, e.at)
			e.run()
			continue
		}
		if who == nil {
			n.now = end
			return done == nil
		}
		n.now = max(n.now, next)
		who.turn(which, Wake{})
		if at, ok := which.Deadline(); ok && at <= n.now {
			n.t.Fatalf("%s: after Wake at %v the deadline is %v: no progress", who.name, n.now, at)
		}
	}
}

// transmit puts a datagram on the wire.
func (n *network) transmit(d datagram) {
	list := []datagram{d}
	if n.hook != nil {
		list = n.hook(d)
	}
	for _, d := range list {
		n.after(n.delay, func() { n.deliver(d) })
	}
}

func (n *network) deliver(d datagram) {
	h := n.rewire(d.to.Addr())
	if h == nil {
		return
	}
	p := Packet{Path: Path{Local: d.to, Remote: d.from}, Data: slices.Clone(d.data)}
	hdr, err := wire.ParseHeader(d.data)
	if h.sa == nil {
		if err != nil || hdr.Exchange != wire.IKESAInit || hdr.Response() || h.accept != nil && !h.accept(p) {
			return
		}
		h.sa = NewResponder(h.config)
	}
	h.turn(h.machine(receiverSPI(hdr)), p)
	if h.finish != nil && h.finish.Code == CodeIgnored { // forgotten, as a shard would
		h.sa, h.finish = nil, nil
	}
}

// step gives the machine that has the connection an event and carries out what it wants.
func (h *host) step(ev Event) {
	h.t.Helper()
	h.turn(h.sa, ev)
}

// turn does so for any machine, and then for those that it had taken in.
func (h *host) turn(sa *SA, ev Event) {
	h.t.Helper()
	var out Actions
	over := sa.finished
	sa.Step(h.net.now, ev, &out)
	h.net.kept.machines[sa] = true
	h.audit(sa)
	if over && len(out.List) > 0 {
		h.t.Errorf("%s: %T after Finish", h.name, out.List[0])
	}
	var adopted []*SA
	for i, act := range out.List {
		if a, ok := act.(Adopt); ok {
			adopted = append(adopted, a.Successor)
		}
		h.act(sa, act)
		if _, ok := act.(Finish); ok && i != len(out.List)-1 {
			h.t.Errorf("%s: Finish is not the last action", h.name)
		}
	}
	for _, heir := range adopted {
		h.turn(heir, Wake{})
	}
}

// adopt does what a shard and the ledger do.
func (h *host) adopt(sa *SA, a Adopt) {
	h.t.Helper()
	known := slices.Contains(h.machines(), a.Successor)
	if !known {
		if a.SPI != a.Successor.config.SPI || a.SPI == sa.config.SPI {
			h.t.Errorf("%s: adopts %016x under %016x", h.name, uint64(a.Successor.config.SPI), uint64(a.SPI))
		}
		h.others = append(h.others, a.Successor)
	}
	if a.Inherits {
		h.plane.ledger.Transfer(h.owner(sa), h.owner(a.Successor))
		if h.sa != sa {
			h.t.Errorf("%s: an IKE SA that has nothing is inherited from", h.name)
		}
		h.others = slices.DeleteFunc(h.others, func(x *SA) bool { return x == a.Successor })
		h.others = append(h.others, sa)
		h.sa = a.Successor
	}
}

// ended: a machine is forgotten, and what it still has is removed.
func (h *host) ended(sa *SA, f Finish) {
	h.t.Helper()
	for _, op := range h.plane.ledger.Finish(h.owner(sa)) {
		h.plane.apply(op)
	}
	if h.sa != sa {
		h.others = slices.DeleteFunc(h.others, func(x *SA) bool { return x == sa })
		return
	}
	h.finish = &f
	if c, s := h.plane.ledger.Size(); c+s != 0 && len(h.others) == 0 {
		h.t.Errorf("%s: after Finish the ledger holds %d claims and %d SAs", h.name, c, s)
	}
}

func (h *host) act(sa *SA, act Action) {
	h.t.Helper()
	back := func(ev Event) {
		if slices.Contains(h.machines(), sa) {
			h.turn(sa, ev)
		}
	}
	switch x := act.(type) {
	case Send:
		h.checkSend(x)
		h.sends = append(h.sends, x)
		h.net.transmit(datagram{x.Local, x.Remote, slices.Clone(x.Data)})
	case Keepalive:
		h.alive++
	case Job:
		if h.jobs++; h.jobs == h.loses {
			void(JobDone{x.Token, x.Run()})
			return
		}
		h.net.after(time.Millisecond, func() {
			result := x.Run()
			if h.results != nil {
				wipe(result)
				result = h.results(result)
			}
			h.net.keepResult(result)
			if back(JobDone{x.Token, result}); sa.finished {
				void(JobDone{x.Token, result}) // as Step and the shard do
			}
		})
	case Resolve:
		h.net.after(time.Millisecond, func() { back(h.resolve(x)) })
	case Inquiry:
		h.asked = append(h.asked, x.Sources...)
		done := InquiryDone{Token: x.Token, Found: h.revoked}
		for _, s := range x.Sources {
			done.Failed = append(done.Failed, s.URL+" did not help: connection refused")
		}
		h.net.after(time.Millisecond, func() { back(done) })
	case SADB:
		id, err := h.plane.batch(h.t, h.owner(sa), x.Batch)
		h.net.after(time.Millisecond, func() { back(SADBDone{x.Token, err, id}) })
	case UsageQuery:
		u := h.usage
		u.Token = x.Token
		h.net.after(time.Millisecond, func() { back(u) })
	case Claim:
		h.claims = append(h.claims, x)
	case Report:
		h.report(x)
	case Finish:
		h.ended(sa, x)
	case Adopt:
		h.adopt(sa, x)
	case Moved:
		h.moved = append(h.moved, x)
	case Reauthenticate:
		h.reauth = append(h.reauth, x)
	default:
		h.t.Errorf("%s: unknown action %T", h.name, act)
	}
}

func (h *host) resolve(r Resolve) ResolveDone {
	d := ResolveDone{Token: r.Token, Local: addrA, Remote: []netip.Addr{addrB}}
	if h.lookup != nil {
		d.Remote = h.lookup
	}
	if r.Remote.IsValid() {
		d.Remote = append([]netip.Addr{r.Remote}, r.Others...)
	}
	d.Remote = slices.DeleteFunc(slices.Clone(d.Remote), func(a netip.Addr) bool { return slices.Contains(h.unroutable, a) })
	if len(d.Remote) == 0 {
		return ResolveDone{Token: r.Token, Err: errors.New("no route")}
	}
	switch {
	case r.Local.IsValid():
		d.Local = r.Local
	case h.source.IsUnspecified():
		return ResolveDone{Token: r.Token, Err: errors.New("no route")}
	case h.source.IsValid():
		d.Local = h.source
	}
	return d
}

func (h *host) report(r Report) {
	h.t.Helper()
	for _, s := range []string{r.Text, r.Detail, r.Hint} {
		if strings.Contains(s, pskText) || strings.ContainsAny(s, "\x00\n\x1b") {
			h.t.Errorf("%s: report %q", h.name, s)
		}
	}
	if r.Code == CodeInternal && !h.internal {
		h.t.Errorf("%s: internal: %s", h.name, r.Text)
	}
	h.reports = append(h.reports, r)
}

// checkSend: a message ID in one direction has one content (RFC 7296 section 2.1), cut in one way for each number of fragments (RFC 7383 section 2.5.2).
func (h *host) checkSend(s Send) {
	h.t.Helper()
	m, err := wire.Decode(s.Data)
	if err != nil {
		h.t.Errorf("%s sent what it cannot read: %v", h.name, err)
		return
	}
	if m.Exchange == wire.IKESAInit {
		return
	}
	k := sentKey{spis: [2]wire.SPI{m.SPIi, m.SPIr}, id: m.MessageID, response: m.Response()}
	if skf := fragmentOf(m); skf != nil {
		k.fragment = [2]uint16{skf.Number, skf.Total}
	}
	if old, ok := h.seen[k]; ok && !bytes.Equal(old, s.Data) {
		h.t.Errorf("%s: message ID %d (response %v) has two contents", h.name, m.MessageID, m.Response())
	}
	h.seen[k] = s.Data
}

// up initiates and waits for the child on both sides.
func (n *network) up() {
	n.t.Helper()
	n.a.step(Initiate{})
	if !n.run(2*time.Minute, func() bool { return n.a.children() == 1 && n.b.children() == 1 }) {
		n.dump()
		n.t.Fatal("not up")
	}
	n.paired()
}

func (h *host) children() (up int) {
	if h.sa == nil {
		return 0
	}
	for _, c := range h.sa.children {
		if c.up {
			up++
		}
	}
	return up
}

// paired: each outbound SA has its inbound partner with the same keys and mirrored selectors, and nothing else is there.
func (n *network) paired() {
	n.t.Helper()
	for _, pair := range [][2]*host{{n.a, n.b}, {n.b, n.a}} {
		for id, s := range pair[0].plane.sas {
			if s.Direction != xfrm.Out {
				continue
			}
			in, ok := xfrm.SA{}, false
			for _, x := range pair[1].plane.sas {
				if x.Direction == xfrm.In && x.ID.SPI == id.SPI {
					in, ok = x, true
				}
			}
			switch {
			case !ok:
				n.t.Errorf("%s: outbound %v has no partner", pair[0].name, id)
			case !in.EncrKey.Equal(s.EncrKey) || !in.IntegKey.Equal(s.IntegKey) || in.Suite != s.Suite || in.EncrKey.Len() == 0:
				n.t.Errorf("%s: outbound %v and its partner have different keys or suites", pair[0].name, id)
			case !slices.Equal(in.Selectors, s.Selectors):
				n.t.Errorf("%s: outbound %v carries %v, its partner takes %v", pair[0].name, id, s.Selectors, in.Selectors)
			}
		}
	}
	if len(n.a.plane.sas) != len(n.b.plane.sas) || len(n.a.plane.pols) != len(n.b.plane.pols) {
		n.t.Errorf("a has %d SAs and %d policies, b %d and %d", len(n.a.plane.sas), len(n.a.plane.pols), len(n.b.plane.sas), len(n.b.plane.pols))
	}
}

// empty: nothing is left on either side.
func (n *network) empty() {
	n.t.Helper()
	for _, h := range []*host{n.a, n.b} {
		if len(h.plane.sas)+len(h.plane.pols) != 0 {
			n.t.Errorf("%s: %d SAs and %d policies are left", h.name, len(h.plane.sas), len(h.plane.pols))
		}
	}
}

// said finds a report by code.
func (h *host) said(code Code) *Report {
	for i := range h.reports {
		if h.reports[i].Code == code {
			return &h.reports[i]
		}
	}
	return nil
}

// wants checks that a report of this code holds these texts.
func (h *host) wants(code Code, parts ...string) {
	h.t.Helper()
	r := h.said(code)
	if r == nil {
		h.net.dump()
		h.t.Fatalf("%s: no report %q", h.name, code)
	}
	for _, p := range parts {
		if !strings.Contains(r.Text+" | "+r.Hint, p) {
			h.t.Errorf("%s: report %q is %q, hint %q; it does not hold %q", h.name, code, r.Text, r.Hint, p)
		}
	}
}

func (n *network) dump() {
	for _, h := range []*host{n.a, n.b} {
		for _, r := range h.reports {
			n.t.Logf("%s: %s %s %q: %s", h.name, r.Connection, r.Child, r.Code, r.Text)
		}
		if h.finish != nil {
			n.t.Logf("%s: finished %+v", h.name, *h.finish)
		}
	}
}
