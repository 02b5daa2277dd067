package ledger

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func outSlot(src, dst string) xfrm.Slot {
	return xfrm.Slot{Direction: xfrm.Out, Selector: xfrm.Selector{Src: prefix(src), Dst: prefix(dst)}}
}

func said(dst string, spi uint32) xfrm.SAID {
	return xfrm.SAID{Dst: netip.MustParseAddr(dst), SPI: spi, Proto: xfrm.ProtoESP}
}

func protect(at xfrm.Slot, rank xfrm.Rank, spi uint32) xfrm.Claim {
	return xfrm.Claim{Slot: at, Action: xfrm.Protect, Rank: rank, Template: xfrm.Template{
		Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("198.51.100.7"), SPI: spi}}
}

func block(at xfrm.Slot) xfrm.Claim {
	return xfrm.Claim{Slot: at, Action: xfrm.Block, Rank: xfrm.RankBlock}
}

func addOut(spi uint32) xfrm.SA {
	return xfrm.SA{ID: said("198.51.100.7", spi), Src: netip.MustParseAddr("192.0.2.1"), Direction: xfrm.Out}
}

func names(ops []xfrm.Op) []string {
	var list []string
	for _, op := range ops {
		s := xfrm.OpName(op)
		if put, ok := op.(xfrm.PutPolicy); ok {
			s += fmt.Sprintf(" action %d SPI %d", put.Policy.Action, put.Policy.Template.SPI)
		}
		list = append(list, s)
	}
	return list
}

func want(t *testing.T, ops []xfrm.Op, lines ...string) {
	t.Helper()
	if got := names(ops); !reflect.DeepEqual(got, lines) {
		t.Fatalf("ops:\n got %q\nwant %q", got, lines)
	}
}

// book plans and commits.
func book(t *testing.T, l *Ledger, owner xfrm.Owner, b xfrm.Batch) []xfrm.Op {
	t.Helper()
	p, err := l.Plan(owner, b)
	if err != nil {
		t.Fatalf("plan of %s: %v", owner, err)
	}
	l.Commit(p)
	return p.Ops
}

var lan = outSlot("10.1.0.0/16", "10.2.0.0/16")

const (
	putLAN    = "put policy 10.1.0.0/16 -> 10.2.0.0/16"
	removeLAN = "remove policy 10.1.0.0/16 -> 10.2.0.0/16"
	sa1       = "SA ESP SPI 00000001 to 198.51.100.7"
	sa2       = "SA ESP SPI 00000002 to 198.51.100.7"
)

// The life of a child over a block and a trap: each change is one update, and the slot is never empty between.
func TestChildOverTrapOverBlock(t *testing.T) {
	l := New()
	want(t, book(t, l, "conn:b", xfrm.Batch{Claims: []xfrm.Claim{block(lan)}}), putLAN+" action 1 SPI 0")
	want(t, book(t, l, "conn:b", xfrm.Batch{Lineage: "b/lan", Claims: []xfrm.Claim{protect(lan, xfrm.RankTrap, 0)}}), putLAN+" action 0 SPI 0")
	want(t, book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{addOut(1)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 1)}}),
		"add "+sa1, putLAN+" action 0 SPI 1")
	// Rekey: the new child claims, later the old one releases.
	want(t, book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{addOut(2)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 2)}}),
		"add "+sa2, putLAN+" action 0 SPI 2")
	want(t, book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Release: []xfrm.Slot{lan}, Remove: []xfrm.SAID{said("198.51.100.7", 1)}}),
		"remove "+sa1)
	want(t, l.Finish("ike:1"), putLAN+" action 0 SPI 0", "remove "+sa2)
	want(t, book(t, l, "conn:b", xfrm.Batch{Lineage: "b/lan", Release: []xfrm.Slot{lan}}), putLAN+" action 1 SPI 0")
	want(t, book(t, l, "conn:b", xfrm.Batch{Release: []xfrm.Slot{lan}}), removeLAN)
	if c, s := l.Size(); c+s+len(l.owners)+len(l.slots) != 0 {
		t.Fatalf("left over: %d claims, %d SAs, owners %v", c, s, l.owners)
	}
}

// A lower rank that comes later does not displace a higher one.
func TestRankBeatsAge(t *testing.T) {
	l := New()
	book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 1)}})
	want(t, book(t, l, "conn:b", xfrm.Batch{Claims: []xfrm.Claim{block(lan)}}))
}

// A child that is rekeyed on an IKE SA which is being replaced stays behind that of the new IKE SA: what it sends would be lost when the old IKE SA goes.
func TestRekeyKeepsItsPlace(t *testing.T) {
	l := New()
	claim := func(owner xfrm.Owner, rank xfrm.Rank, spi uint32, release ...xfrm.Slot) []xfrm.Op {
		return book(t, l, owner, xfrm.Batch{Lineage: "b/lan", Claims: []xfrm.Claim{protect(lan, rank, spi)}, Release: release})
	}
	claim("ike:old", xfrm.RankChild, 1)
	want(t, claim("ike:new", xfrm.RankChild, 2), putLAN+" action 0 SPI 2")
	want(t, claim("ike:old", xfrm.RankChild, 3))
	want(t, claim("ike:old", xfrm.RankChild, 4, lan))
	l.Transfer("ike:old", "ike:heir")
	want(t, claim("ike:heir", xfrm.RankChild, 5, lan))
	want(t, claim("ike:new", xfrm.RankChild, 6, lan), putLAN+" action 0 SPI 6")
	// One that has stood back steps forward all the same.
	claim("ike:next", xfrm.RankNext, 7)
	want(t, claim("ike:next", xfrm.RankChild, 7, lan), putLAN+" action 0 SPI 7")
	want(t, l.Finish("ike:next"), putLAN+" action 0 SPI 6")
	want(t, l.Finish("ike:new"), putLAN+" action 0 SPI 5")
}

// When the new child of a rekey is the one that goes (it lost a collision), the release ends its claim and not the old one's.
func TestReleaseMeansTheRemovedSA(t *testing.T) {
	l := New()
	for spi := uint32(1); spi <= 2; spi++ {
		book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{addOut(spi)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, spi)}})
	}
	want(t, book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Release: []xfrm.Slot{lan}, Remove: []xfrm.SAID{said("198.51.100.7", 2)}}),
		putLAN+" action 0 SPI 1", "remove "+sa2)
}

func TestOneSlotHasOneSpelling(t *testing.T) {
	l := New()
	any := lan
	any.Selector.SrcPorts = xfrm.Ports{First: 0, Last: 65535}
	unmasked := outSlot("10.1.2.3/16", "10.2.3.4/16")
	book(t, l, "a", xfrm.Batch{Claims: []xfrm.Claim{block(lan)}})
	want(t, book(t, l, "b", xfrm.Batch{Claims: []xfrm.Claim{block(any), block(unmasked)}}))
	book(t, l, "b", xfrm.Batch{Release: []xfrm.Slot{unmasked, lan}})
	want(t, l.Finish("a"), removeLAN)
}

func TestOthersAreLeftAlone(t *testing.T) {
	l := New()
	book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{addOut(1)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 1)}})
	want(t, book(t, l, "ike:2", xfrm.Batch{Lineage: "b/lan", Release: []xfrm.Slot{lan}, Remove: []xfrm.SAID{said("198.51.100.7", 1)}}))
	want(t, book(t, l, "ike:1", xfrm.Batch{Lineage: "b/dmz", Release: []xfrm.Slot{lan}}))
	if _, err := l.Plan("ike:2", xfrm.Batch{Update: []xfrm.Op{xfrm.MoveSA{ID: said("198.51.100.7", 1)}}}); err == nil {
		t.Fatal("moved another owner's SA")
	}
}

func TestDuplicateSAID(t *testing.T) {
	l := New()
	book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{addOut(1)}})
	for i, b := range []xfrm.Batch{
		{Lineage: "c/lan", Add: []xfrm.SA{addOut(2), addOut(1)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 1)}},
		{Lineage: "c/lan", Add: []xfrm.SA{addOut(2), addOut(2)}},
	} {
		_, err := l.Plan("ike:2", b)
		var oe *xfrm.OpError
		if !errors.Is(err, xfrm.ErrExists) || !errors.As(err, &oe) || oe.Index != 1 {
			t.Fatalf("error %v", err)
		}
		var held *xfrm.HeldError
		if errors.As(err, &held) != (i == 0) || i == 0 && held.Owner != "ike:1" {
			t.Errorf("batch %d: who holds it is not told: %v", i, err)
		}
	}
	if c, s := l.Holds("ike:2"); c+s != 0 {
		t.Fatalf("a refused batch left %d claims and %d SAs", c, s)
	}
	if owner, _ := l.OwnerOf(said("198.51.100.7", 1)); owner != "ike:1" {
		t.Fatalf("owner is now %q", owner)
	}
}

func TestRefusedBatches(t *testing.T) {
	l := New()
	book(t, l, "a", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{addOut(1), addOut(2)}})
	here, there := said("198.51.100.7", 1), netip.MustParseAddr("198.51.100.8")
	for name, b := range map[string]xfrm.Batch{
		"SA without lineage":       {Add: []xfrm.SA{addOut(3)}},
		"protect without lineage":  {Claims: []xfrm.Claim{protect(lan, xfrm.RankTrap, 0)}},
		"policy among the updates": {Update: []xfrm.Op{xfrm.RemovePolicy{Slot: lan}}},
		"ports without encap":      {Update: []xfrm.Op{xfrm.UpdateSA{ID: here}}},
		"update of a moved name":   {Update: []xfrm.Op{xfrm.MoveSA{ID: here, Dst: there}, xfrm.MoveSA{ID: here, Dst: here.Dst}}},
		"move onto another":        {Update: []xfrm.Op{xfrm.MoveSA{ID: said("198.51.100.7", 9), Dst: here.Dst}}},
	} {
		if _, err := l.Plan("a", b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := l.Plan("a", xfrm.Batch{}); err != nil {
		t.Fatalf("after refusals: %v", err)
	}
	if _, err := l.Plan("a", xfrm.Batch{}); err == nil {
		t.Error("a second plan before the first was committed")
	}
}

func TestRollbackRestoresContents(t *testing.T) {
	l := New()
	encap := &xfrm.Encap{SrcPort: 4500, DstPort: 4500}
	old := addOut(1)
	old.Encap = encap
	book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{old}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 1)}})
	dmz := outSlot("10.1.0.0/16", "10.3.0.0/16")
	moved := netip.MustParseAddr("198.51.100.99")
	p, err := l.Plan("ike:1", xfrm.Batch{
		Lineage: "b/lan",
		Add:     []xfrm.SA{addOut(2)},
		Claims:  []xfrm.Claim{protect(lan, xfrm.RankChild, 2), protect(dmz, xfrm.RankChild, 2)},
		Update:  []xfrm.Op{xfrm.MoveSA{ID: old.ID, Src: old.Src, Dst: moved, Encap: &xfrm.Encap{SrcPort: 4500, DstPort: 7}}},
		Release: []xfrm.Slot{lan},
		Remove:  []xfrm.SAID{said("198.51.100.99", 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, p.Ops, "add "+sa2, putLAN+" action 0 SPI 2", "put policy 10.1.0.0/16 -> 10.3.0.0/16 action 0 SPI 2", "move "+sa1,
		"remove SA ESP SPI 00000001 to 198.51.100.99")
	undo := l.Rollback(p, 4)
	want(t, undo, "move SA ESP SPI 00000001 to 198.51.100.99", "remove policy 10.1.0.0/16 -> 10.3.0.0/16", putLAN+" action 0 SPI 1", "remove "+sa2)
	if back := undo[0].(xfrm.MoveSA); back.Dst != old.ID.Dst || back.Src != old.Src || *back.Encap != *encap {
		t.Errorf("moved back to %+v", back)
	}
	if owner, ok := l.OwnerOf(old.ID); !ok || owner != "ike:1" {
		t.Error("the old SA is forgotten")
	}
	want(t, l.Finish("ike:1"), removeLAN, "remove "+sa1)
}

func TestUpdatePorts(t *testing.T) {
	l := New()
	s := addOut(1)
	s.Encap = &xfrm.Encap{SrcPort: 4500, DstPort: 4500}
	book(t, l, "ike:1", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{s}})
	p, err := l.Plan("ike:1", xfrm.Batch{Update: []xfrm.Op{xfrm.UpdateSA{ID: s.ID, Encap: xfrm.Encap{SrcPort: 4500, DstPort: 9}}}})
	if err != nil {
		t.Fatal(err)
	}
	back := l.Rollback(p, 1)
	if len(back) != 1 || back[0].(xfrm.UpdateSA).Encap.DstPort != 4500 {
		t.Fatalf("undo %v", back)
	}
	held := s
	held.ReqID, held.Encap = ReqIDFirst, &xfrm.Encap{SrcPort: 4500, DstPort: 9}
	ops, lost := l.Diff(xfrm.State{SAs: []xfrm.SA{held}})
	want(t, ops, "update "+sa1)
	if lost != nil {
		t.Fatalf("lost %v", lost)
	}
}

func TestTransfer(t *testing.T) {
	l := New()
	book(t, l, "ike:1", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{addOut(1)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 1)}})
	l.Transfer("ike:1", "ike:2")
	want(t, l.Finish("ike:1"))
	if owner, _ := l.OwnerOf(said("198.51.100.7", 1)); owner != "ike:2" {
		t.Fatalf("owner %q", owner)
	}
	want(t, book(t, l, "ike:2", xfrm.Batch{Lineage: "b/lan", Release: []xfrm.Slot{lan}}), removeLAN)
	want(t, l.Finish("ike:2"), "remove "+sa1)
}

func TestSAsOldestFirst(t *testing.T) {
	l := New()
	book(t, l, "ike:1", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{addOut(3), addOut(1), addOut(2)}})
	if got := l.SAs("ike:1"); len(got) != 3 || got[0].SPI != 3 || got[1].SPI != 1 || got[2].SPI != 2 {
		t.Errorf("%v", got)
	}
	if l.SAs("ike:2") != nil {
		t.Error("an owner of nothing")
	}
}

func TestNoKeysKept(t *testing.T) {
	l := New()
	s := addOut(1)
	s.EncrKey, s.IntegKey = alg.NewSecret([]byte{1}), alg.NewSecret([]byte{2})
	ops := book(t, l, "ike:1", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{s}})
	if ops[0].(xfrm.AddSA).SA.EncrKey.Len() != 1 {
		t.Error("the driver would not get the key")
	}
	if kept := l.sas[s.ID]; kept.EncrKey.Len()+kept.IntegKey.Len() != 0 {
		t.Error("the ledger kept a key")
	}
}

func TestReqIDs(t *testing.T) {
	l := New()
	p, _ := l.Plan("ike:1", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{addOut(1)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 1)}})
	l.Commit(p)
	if id := p.Ops[0].(xfrm.AddSA).SA.ReqID; id != p.ReqID || p.Ops[1].(xfrm.PutPolicy).Policy.Template.ReqID != id || !ourReqID(id) {
		t.Fatalf("reqid %#x of the plan is not in its ops %+v", p.ReqID, p.Ops)
	}
	if name, _ := l.Lineage(p.ReqID); name != "b/lan" {
		t.Fatalf("lineage %q", name)
	}
	l.Finish("ike:1")
	other, _ := l.Plan("ike:2", xfrm.Batch{Lineage: "c/lan", Add: []xfrm.SA{addOut(1)}})
	l.Commit(other)
	again, _ := l.Plan("ike:3", xfrm.Batch{Lineage: "b/lan", Add: []xfrm.SA{addOut(2)}})
	if again.ReqID != p.ReqID || other.ReqID == p.ReqID {
		t.Fatalf("first %#x, another lineage %#x, the first again %#x", p.ReqID, other.ReqID, again.ReqID)
	}
}

// Peers who come once must not fill the table, and a number in use is never given away.
func TestReqIDsWrap(t *testing.T) {
	r := newReqids()
	mark := uint64(0)
	take := func(name string) uint32 {
		mark++
		id, err := r.number(name, mark)
		if err != nil {
			t.Fatal(err)
		}
		r.hold(name)
		return id
	}
	kept := take("kept")
	for i := range 200_000 {
		name := fmt.Sprint("peer", i)
		if id := take(name); id == kept || !ourReqID(id) {
			t.Fatalf("%s got %#x", name, id)
		}
		mark++
		r.drop(name, mark)
	}
	if len(r.lineages) > idleMax+1 || len(r.names) != len(r.lineages) || len(r.idle) > 2*idleMax {
		t.Fatalf("%d lineages, %d numbers, %d marks", len(r.lineages), len(r.names), len(r.idle))
	}
	for i := 0; len(r.names) <= int(ReqIDLast-ReqIDFirst) || r.idles > 0; i++ {
		take(fmt.Sprint("held", i))
	}
	if _, err := r.number("one too many", mark+1); err == nil {
		t.Fatal("a number was given twice")
	}
}

func TestRekeyForYearsKeepsReqidsSmall(t *testing.T) {
	l := New()
	for i := range 3 * idleMax {
		book(t, l, "ike:1", xfrm.Batch{Lineage: "x", Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, uint32(i))}})
		book(t, l, "ike:1", xfrm.Batch{Lineage: "x", Release: []xfrm.Slot{lan}})
	}
	if n := len(l.reqids.idle); n > 2*idleMax {
		t.Fatalf("%d marks for one lineage", n)
	}
}

func TestPriorities(t *testing.T) {
	sel := func(src, dst string, proto uint8, ports xfrm.Ports) xfrm.Selector {
		return xfrm.Selector{Src: prefix(src), Dst: prefix(dst), Proto: proto, DstPorts: ports}
	}
	any := xfrm.Ports{}
	order := []xfrm.Selector{ // each lies inside the next
		sel("2001:db8::1/128", "2001:db8:1::1/128", 6, xfrm.Ports{First: 443, Last: 443}),
		sel("2001:db8::1/128", "2001:db8:1::1/128", 6, xfrm.Ports{First: 443, Last: 444}),
		sel("2001:db8::1/128", "2001:db8:1::1/128", 6, xfrm.Ports{First: 1, Last: 1023}),
		sel("2001:db8::1/128", "2001:db8:1::1/128", 6, xfrm.Ports{First: 1, Last: 65535}),
		sel("2001:db8::1/128", "2001:db8:1::1/128", 6, any),
		sel("2001:db8::1/128", "2001:db8:1::1/128", 0, any),
		sel("2001:db8::1/128", "2001:db8:1::/64", 6, xfrm.Ports{First: 443, Last: 443}),
		sel("2001:db8::/64", "2001:db8:1::/64", 0, any),
		sel("::/0", "2001:db8:1::/64", 0, any),
		sel("::/0", "::/0", 17, any),
		sel("::/0", "::/0", 0, any),
	}
	last := PriorityFirst
	for i, s := range order {
		p := Priority(s)
		if i > 0 && p <= last && !(i == 4 && p == last) { // {1, 65535} and any are 1/65536 apart
			t.Errorf("%v: priority %#x is not behind %#x", s, p, last)
		}
		if p < PriorityFirst || p > PriorityLast {
			t.Errorf("%v: priority %#x leaves the band", s, p)
		}
		last = p
	}
	if a, b := Priority(sel("0.0.0.0/0", "10.0.0.0/8", 0, any)), Priority(sel("0.0.0.0/0", "10.0.0.0/8", 0, xfrm.Ports{First: 0, Last: 65535})); a != b {
		t.Error("two spellings of any port differ")
	}
	if opaque := Priority(sel("::/0", "::/0", 0, xfrm.Ports{First: 65535, Last: 0})); opaque >= Priority(sel("::/0", "::/0", 0, any)) {
		t.Error("OPAQUE is not narrower than any")
	}
}

func TestDiffAtStart(t *testing.T) {
	l := New()
	dmz := outSlot("10.1.0.0/16", "10.3.0.0/16")
	stray := outSlot("10.1.0.0/16", "10.4.0.0/16")
	foreign := outSlot("10.1.0.0/16", "10.5.0.0/16")
	book(t, l, "conn:b", xfrm.Batch{Claims: []xfrm.Claim{block(lan), block(dmz)}})
	book(t, l, "ike:1", xfrm.Batch{Lineage: "b/vpn", Add: []xfrm.SA{addOut(1)}})
	state := xfrm.State{
		Policies: []xfrm.Policy{
			{Slot: stray, Action: xfrm.Protect, Template: xfrm.Template{ReqID: ReqIDFirst + 7}, Priority: 5},
			{Slot: foreign, Action: xfrm.Protect, Template: xfrm.Template{ReqID: 1}, Priority: PriorityFirst},
			{Slot: lan, Action: xfrm.Protect, Template: xfrm.Template{ReqID: ReqIDFirst + 8}, Priority: Priority(lan.Selector)},
			{Slot: outSlot("10.9.0.0/16", "10.5.0.0/16"), Action: xfrm.Block, Priority: PriorityLast},
			{Slot: outSlot("10.9.0.0/16", "10.6.0.0/16"), Action: xfrm.Block, Priority: PriorityLast + 1},
		},
		SAs: []xfrm.SA{
			{ID: said("198.51.100.7", 5), ReqID: ReqIDFirst + 7},
			{ID: said("198.51.100.7", 6), ReqID: 77},
		},
	}
	ops, lost := l.Diff(state)
	want(t, ops,
		putLAN+" action 1 SPI 0", "put policy 10.1.0.0/16 -> 10.3.0.0/16 action 1 SPI 0",
		"remove policy 10.1.0.0/16 -> 10.4.0.0/16", "remove policy 10.9.0.0/16 -> 10.5.0.0/16", "remove SA ESP SPI 00000005 to 198.51.100.7")
	if !reflect.DeepEqual(lost, []xfrm.Owner{"ike:1"}) {
		t.Errorf("lost %v", lost)
	}
}

// What is missing is put back in the order in which it was claimed.
func TestDiffKeepsTheOrderOfClaims(t *testing.T) {
	l := New()
	var all []string
	for i := range 16 {
		at := outSlot("10.1.0.0/16", fmt.Sprintf("10.%d.0.0/16", 2+i*7%16))
		book(t, l, xfrm.Owner(fmt.Sprint("conn:", i)), xfrm.Batch{Claims: []xfrm.Claim{block(at)}})
		all = append(all, xfrm.OpName(xfrm.PutPolicy{Policy: xfrm.Policy{Slot: at}})+" action 1 SPI 0")
	}
	ops, _ := l.Diff(xfrm.State{})
	want(t, ops, all...)
}

// Only lineages without SA and claim are forgotten, however many others come and go.
func TestHeldLineagesAreKept(t *testing.T) {
	l := New()
	many := func(round string) {
		for i := range idleMax + 10 {
			name := fmt.Sprint(round, i)
			book(t, l, "other", xfrm.Batch{Lineage: name, Add: []xfrm.SA{addOut(7)}})
			book(t, l, "other", xfrm.Batch{Lineage: name, Remove: []xfrm.SAID{addOut(7).ID}})
		}
	}
	book(t, l, "a", xfrm.Batch{Lineage: "by SA", Add: []xfrm.SA{addOut(1)}})
	book(t, l, "b", xfrm.Batch{Lineage: "by claim", Claims: []xfrm.Claim{protect(lan, xfrm.RankTrap, 0)}})
	many("first")
	for _, name := range []string{"by SA", "by claim"} {
		if id := l.reqids.known(name); id == 0 {
			t.Errorf("%s was forgotten though it is held", name)
		}
	}
	l.Finish("a")
	l.Finish("b")
	many("second")
	if len(l.reqids.lineages) != idleMax || l.reqids.known("by SA")+l.reqids.known("by claim") != 0 {
		t.Errorf("%d lineages are kept", len(l.reqids.lineages))
	}
}

// The keys of an SA that was removed are gone: a rollback cannot bring it back, and the ledger must not believe in it.
func TestRollbackAfterRemovals(t *testing.T) {
	l := New()
	book(t, l, "a", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{addOut(1), addOut(2)}})
	p, err := l.Plan("a", xfrm.Batch{Lineage: "x", Remove: []xfrm.SAID{addOut(1).ID, addOut(2).ID}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, l.Rollback(p, 1))
	if got := l.SAs("a"); len(got) != 1 || got[0].SPI != 2 {
		t.Errorf("held: %v", got)
	}
	if l.Rollback(p, 1) != nil {
		t.Error("a second rollback did something")
	}
}

// A Dump spells things as the driver does: without the hint of an SPI, any port as zero.
func TestDiffKnowsWhatIsSame(t *testing.T) {
	l := New()
	book(t, l, "a", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{addOut(1)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, 1)}})
	held := protect(lan, xfrm.RankChild, 0)
	held.Template.ReqID = ReqIDFirst
	s := addOut(1)
	s.ReqID = ReqIDFirst
	state := xfrm.State{SAs: []xfrm.SA{s}, Policies: []xfrm.Policy{{Slot: lan, Template: held.Template, Priority: Priority(lan.Selector)}}}
	ops, _ := l.Diff(state)
	want(t, ops)
	for name, change := range map[string]func(*xfrm.Policy){
		"reqid":    func(p *xfrm.Policy) { p.Template.ReqID++ },
		"SPI":      func(p *xfrm.Policy) { p.Template.SPI = 2 },
		"address":  func(p *xfrm.Policy) { p.Template.Dst = p.Template.Src },
		"action":   func(p *xfrm.Policy) { p.Action = xfrm.Pass },
		"priority": func(p *xfrm.Policy) { p.Priority++ },
	} {
		p := state.Policies[0]
		change(&p)
		if ops, _ := l.Diff(xfrm.State{SAs: state.SAs, Policies: []xfrm.Policy{p}}); len(ops) != 1 {
			t.Errorf("another %s: %v", name, names(ops))
		}
	}
}

func TestDiffAfterMove(t *testing.T) {
	l := New()
	s := addOut(1)
	s.Encap = &xfrm.Encap{SrcPort: 4500, DstPort: 4500}
	book(t, l, "b", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{s}})
	book(t, l, "a", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{addOut(2)}})
	to := netip.MustParseAddr("198.51.100.99")
	book(t, l, "b", xfrm.Batch{Update: []xfrm.Op{xfrm.MoveSA{ID: s.ID, Src: s.Src, Dst: to, Encap: &xfrm.Encap{SrcPort: 4500, DstPort: 9}}}})
	moved := s
	moved.ID.Dst, moved.ReqID = to, ReqIDFirst
	stray := addOut(3)
	stray.ReqID = ReqIDLast
	ops, lost := l.Diff(xfrm.State{SAs: []xfrm.SA{stray, moved}})
	want(t, ops, "update SA ESP SPI 00000001 to 198.51.100.99", "remove SA ESP SPI 00000003 to 198.51.100.7")
	if !reflect.DeepEqual(lost, []xfrm.Owner{"a"}) {
		t.Errorf("lost %v", lost)
	}
	if _, lost = l.Diff(xfrm.State{}); !reflect.DeepEqual(lost, []xfrm.Owner{"a", "b"}) {
		t.Errorf("lost %v", lost)
	}
}

func TestRollbackOfAMove(t *testing.T) {
	l := New()
	s := addOut(1)
	s.Encap = &xfrm.Encap{SrcPort: 4500, DstPort: 4500}
	book(t, l, "b", xfrm.Batch{Lineage: "x", Add: []xfrm.SA{s}})
	p, err := l.Plan("b", xfrm.Batch{Update: []xfrm.Op{xfrm.MoveSA{ID: s.ID, Src: s.ID.Dst, Dst: s.Src}}})
	if err != nil {
		t.Fatal(err)
	}
	l.Rollback(p, 0)
	if kept := l.sas[s.ID]; kept == nil || kept.Src != s.Src || kept.Encap == nil {
		t.Errorf("after the rollback %+v", kept)
	}
}
