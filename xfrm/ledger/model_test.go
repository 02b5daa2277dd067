package ledger

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"cygnet/xfrm"
)

// plane is a data plane reduced to what it holds.
type plane struct {
	sas      map[xfrm.SAID]bool
	policies map[xfrm.Slot]xfrm.Policy
	adds     int
	removes  int
}

func (p *plane) apply(t *testing.T, op xfrm.Op) {
	t.Helper()
	switch o := op.(type) {
	case xfrm.AddSA:
		if p.sas[o.SA.ID] {
			t.Fatalf("%s: there already", xfrm.OpName(op))
		}
		p.sas[o.SA.ID] = true
		p.adds++
	case xfrm.RemoveSA:
		if !p.sas[o.ID] {
			t.Fatalf("%s: not there", xfrm.OpName(op))
		}
		delete(p.sas, o.ID)
		p.removes++
	case xfrm.MoveSA:
		to := xfrm.SAID{Dst: o.Dst, SPI: o.ID.SPI, Proto: o.ID.Proto}
		if !p.sas[o.ID] || p.sas[to] && to != o.ID {
			t.Fatalf("%s to %v: cannot", xfrm.OpName(op), to)
		}
		delete(p.sas, o.ID)
		p.sas[to] = true
	case xfrm.PutPolicy:
		if old, ok := p.policies[o.Policy.Slot]; ok && old == o.Policy {
			t.Fatalf("%s: no change", xfrm.OpName(op))
		}
		p.policies[o.Policy.Slot] = o.Policy
	case xfrm.RemovePolicy:
		if _, ok := p.policies[o.Slot]; !ok {
			t.Fatalf("%s: empty slot", xfrm.OpName(op))
		}
		delete(p.policies, o.Slot)
	}
}

// model is the specification in its plainest form: lists searched from end to end.
type model struct {
	claims []modelClaim
	sas    []modelSA
	reqids map[string]uint32
	seq    int
}

type modelClaim struct {
	owner      xfrm.Owner
	lineage    string
	c          xfrm.Claim
	place, seq int
}

// before: a stands before b in their slot.
func (a modelClaim) before(b modelClaim) bool {
	return cmp.Or(cmp.Compare(a.c.Rank, b.c.Rank), cmp.Compare(a.place, b.place), cmp.Compare(a.seq, b.seq)) > 0
}

type modelSA struct {
	owner xfrm.Owner
	id    xfrm.SAID
}

func (m *model) clone() *model {
	return &model{slices.Clone(m.claims), slices.Clone(m.sas), m.reqids, m.seq}
}

func (m *model) book(owner xfrm.Owner, b xfrm.Batch, reqid uint32) {
	for _, s := range b.Add {
		m.sas = append(m.sas, modelSA{owner, s.ID})
	}
	for _, c := range b.Claims {
		if c.Action == xfrm.Protect {
			c.Template.ReqID = reqid
		}
		m.seq++
		fresh := modelClaim{owner, b.Lineage, c, m.seq, m.seq}
		place := 0
		for _, old := range m.claims {
			if old.owner == owner && old.lineage == b.Lineage && old.c.Slot == c.Slot && old.c.Rank == c.Rank {
				place = max(place, old.place)
			}
		}
		if place != 0 {
			fresh.place = place
		}
		m.claims = append(m.claims, fresh)
	}
	for _, at := range b.Release {
		m.release(owner, b, at)
	}
	for _, op := range b.Update {
		mv := op.(xfrm.MoveSA)
		for i := range m.sas {
			if m.sas[i].id == mv.ID {
				m.sas[i].id.Dst = mv.Dst
				break
			}
		}
	}
	m.sas = slices.DeleteFunc(m.sas, func(s modelSA) bool { return s.owner == owner && slices.Contains(b.Remove, s.id) })
}

func (m *model) release(owner xfrm.Owner, b xfrm.Batch, at xfrm.Slot) {
	mine := func(c modelClaim) bool { return c.owner == owner && c.lineage == b.Lineage && c.c.Slot == at }
	best := -1
	for i, c := range m.claims { // prefer the last in precedence that names a removed SA, as the ledger looks from the first
		if !mine(c) {
			continue
		}
		named := slices.ContainsFunc(b.Remove, func(id xfrm.SAID) bool { return id.SPI == c.c.Template.SPI && id.Dst == c.c.Template.Dst })
		if named && (best < 0 || c.before(m.claims[best])) {
			best = i
		}
	}
	if best < 0 {
		best = slices.IndexFunc(m.claims, mine)
	}
	if best >= 0 {
		m.claims = slices.Delete(m.claims, best, best+1)
	}
}

func (m *model) finish(owner xfrm.Owner) {
	m.claims = slices.DeleteFunc(m.claims, func(c modelClaim) bool { return c.owner == owner })
	m.sas = slices.DeleteFunc(m.sas, func(s modelSA) bool { return s.owner == owner })
}

func (m *model) policies() map[xfrm.Slot]xfrm.Policy {
	top := make(map[xfrm.Slot]modelClaim)
	for _, c := range m.claims {
		if old, ok := top[c.c.Slot]; !ok || c.before(old) {
			top[c.c.Slot] = c
		}
	}
	ps := make(map[xfrm.Slot]xfrm.Policy)
	for at, first := range top {
		c := first.c
		p := xfrm.Policy{Slot: at, Action: c.Action, Priority: Priority(at.Selector)}
		if c.Action == xfrm.Protect {
			p.Template = c.Template
		}
		ps[at] = p
	}
	return ps
}

func (m *model) ids() map[xfrm.SAID]bool {
	ids := make(map[xfrm.SAID]bool)
	for _, s := range m.sas {
		ids[s.id] = true
	}
	return ids
}

// run drives a ledger, a plane and the model together.
type run struct {
	t     *testing.T
	rng   *rand.Rand
	l     *Ledger
	p     *plane
	m     *model
	spi   uint32
	trace []string
}

var slotsOfModel = func() []xfrm.Slot {
	var list []xfrm.Slot
	for i := range 5 {
		at := canonical(outSlot(fmt.Sprintf("10.%d.0.0/16", i), "10.99.0.0/16"))
		list = append(list, at)
		at.Direction = xfrm.In
		list = append(list, at)
	}
	return list
}()

func (r *run) batch(owner xfrm.Owner) xfrm.Batch {
	pick := func() xfrm.Slot { return slotsOfModel[r.rng.IntN(len(slotsOfModel))] }
	b := xfrm.Batch{Lineage: fmt.Sprint("child", r.rng.IntN(3))}
	for range r.rng.IntN(3) {
		r.spi++
		b.Add = append(b.Add, addOut(r.spi))
	}
	for range r.rng.IntN(4) {
		if r.rng.IntN(4) == 0 {
			b.Claims = append(b.Claims, block(pick()))
		} else {
			b.Claims = append(b.Claims, protect(pick(), xfrm.Rank(2+r.rng.IntN(2)), r.spi))
		}
	}
	for range r.rng.IntN(4) {
		b.Release = append(b.Release, pick())
	}
	for _, s := range r.m.sas {
		switch x := r.rng.IntN(10); {
		case x < 3:
			b.Remove = append(b.Remove, s.id)
		case x == 3 && s.owner == owner:
			to := said(fmt.Sprintf("198.51.100.%d", 1+r.rng.IntN(250)), s.id.SPI)
			b.Update = append(b.Update, xfrm.MoveSA{ID: s.id, Src: s.id.Dst, Dst: to.Dst})
		}
	}
	return b
}

// apply carries out ops and watches, after each, that every slot claimed before and after the batch has a policy.
func (r *run) apply(ops []xfrm.Op, before, after map[xfrm.Slot]xfrm.Policy) {
	for _, op := range ops {
		r.trace = append(r.trace, "  "+xfrm.OpName(op))
		r.p.apply(r.t, op)
		for at := range before {
			if _, still := after[at]; !still {
				continue
			}
			if _, ok := r.p.policies[at]; !ok {
				r.t.Fatalf("after %s: %v is claimed and has no policy\n%v", xfrm.OpName(op), at, r.trace)
			}
		}
	}
}

func (r *run) step() {
	owner := xfrm.Owner(fmt.Sprint("owner", r.rng.IntN(4)))
	before := r.m.policies()
	if r.rng.IntN(12) == 0 {
		r.trace = append(r.trace, "finish "+string(owner))
		r.m.finish(owner)
		r.apply(r.l.Finish(owner), before, r.m.policies())
		return
	}
	if r.rng.IntN(20) == 0 {
		r.transfer(owner, xfrm.Owner(fmt.Sprint("owner", r.rng.IntN(4))))
		return
	}
	b := r.batch(owner)
	plan, err := r.l.Plan(owner, b)
	if err != nil {
		r.t.Fatal(err)
	}
	r.checkReqID(b.Lineage, plan.ReqID)
	r.trace = append(r.trace, fmt.Sprintf("%s: %d ops", owner, len(plan.Ops)))
	next := r.m.clone()
	next.book(owner, b, plan.ReqID)
	keys := slices.IndexFunc(plan.Ops, func(op xfrm.Op) bool { _, rm := op.(xfrm.RemoveSA); return rm })
	if keys < 0 {
		keys = len(plan.Ops)
	}
	if fail := r.rng.IntN(len(plan.Ops) + 1); r.rng.IntN(3) == 0 && fail < len(plan.Ops) && fail <= keys {
		r.apply(plan.Ops[:fail], before, next.policies())
		r.apply(r.l.Rollback(plan, fail), before, before)
		return
	}
	r.apply(plan.Ops, before, next.policies())
	r.l.Commit(plan)
	r.m = next
}

func (r *run) transfer(from, to xfrm.Owner) {
	r.l.Transfer(from, to)
	for i := range r.m.claims {
		if r.m.claims[i].owner == from {
			r.m.claims[i].owner = to
		}
	}
	for i := range r.m.sas {
		if r.m.sas[i].owner == from {
			r.m.sas[i].owner = to
		}
	}
}

func (r *run) checkReqID(lineage string, id uint32) {
	if id == 0 {
		return
	}
	if old, ok := r.m.reqids[lineage]; ok && old != id {
		r.t.Fatalf("%s had reqid %#x, now %#x", lineage, old, id)
	}
	for name, other := range r.m.reqids {
		if name != lineage && other == id {
			r.t.Fatalf("%s and %s share reqid %#x", name, lineage, id)
		}
	}
	r.m.reqids[lineage] = id
}

func (r *run) compare() {
	if got, want := r.p.policies, r.m.policies(); !reflect.DeepEqual(got, want) {
		r.t.Fatalf("policies\n got %v\nwant %v\n%v", got, want, r.trace)
	}
	if got, want := r.p.sas, r.m.ids(); !reflect.DeepEqual(got, want) {
		r.t.Fatalf("SAs\n got %v\nwant %v\n%v", got, want, r.trace)
	}
	for _, s := range r.m.sas {
		if owner, ok := r.l.OwnerOf(s.id); !ok || owner != s.owner {
			r.t.Fatalf("owner of %v is %q, want %q", s.id, owner, s.owner)
		}
	}
	if claims, sas := r.l.Size(); claims != len(r.m.claims) || sas != len(r.m.sas) {
		r.t.Fatalf("%d claims and %d SAs, want %d and %d", claims, sas, len(r.m.claims), len(r.m.sas))
	}
}

// state is the plane as a Dump would show it.
func (r *run) state() xfrm.State {
	var s xfrm.State
	for id := range r.p.sas {
		s.SAs = append(s.SAs, xfrm.SA{ID: id, ReqID: ReqIDFirst})
	}
	for _, p := range r.p.policies {
		s.Policies = append(s.Policies, p)
	}
	return s
}

// repair loses and invents policies, then lets Diff make it right.
func (r *run) repair() {
	before := r.m.policies()
	if len(slotsOfModel) > 0 {
		at := slotsOfModel[r.rng.IntN(len(slotsOfModel))]
		delete(r.p.policies, at)
		delete(before, at)
		stray := canonical(outSlot("172.16.0.0/12", "10.99.0.0/16"))
		r.p.policies[stray] = xfrm.Policy{Slot: stray, Action: xfrm.Block, Priority: PriorityFirst}
		id := said("203.0.113.1", r.rng.Uint32())
		r.p.sas[id] = true
	}
	ops, lost := r.l.Diff(r.state())
	if len(lost) != 0 {
		r.t.Fatalf("lost %v", lost)
	}
	r.apply(ops, before, r.m.policies())
	r.p.removes-- // the stray was never added
	if ops, _ := r.l.Diff(r.state()); len(ops) != 0 {
		r.t.Fatalf("a second look still wants %v", names(ops))
	}
}

func TestAgainstModel(t *testing.T) {
	for seed := range uint64(150) {
		r := &run{t: t, rng: rand.New(rand.NewPCG(seed, 1)), l: New(),
			p: &plane{sas: map[xfrm.SAID]bool{}, policies: map[xfrm.Slot]xfrm.Policy{}},
			m: &model{reqids: map[string]uint32{}}}
		for range 60 {
			r.step()
			r.compare()
			if r.rng.IntN(30) == 0 {
				r.repair()
				r.compare()
			}
		}
		for i := range 4 {
			owner := xfrm.Owner(fmt.Sprint("owner", i))
			before := r.m.policies()
			r.m.finish(owner)
			r.apply(r.l.Finish(owner), before, r.m.policies())
		}
		r.compare()
		if len(r.p.policies)+len(r.p.sas)+len(r.l.owners) != 0 || r.p.adds != r.p.removes {
			t.Fatalf("seed %d: left %v %v %v; %d SAs added, %d removed", seed, r.p.policies, r.p.sas, r.l.owners, r.p.adds, r.p.removes)
		}
	}
}
