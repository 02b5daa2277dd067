package ledger

import (
	"testing"

	"cygnet/xfrm"
)

// carrying is a Child SA pair of a lineage with its claims: odd SPIs receive, even ones send.
func carrying(lineage string, in, out uint32) xfrm.Batch {
	back := xfrm.Selector{Src: lan.Selector.Dst, Dst: lan.Selector.Src}
	s := addOut(in)
	s.Direction, s.Selectors = xfrm.In, []xfrm.Selector{back}
	at := xfrm.Slot{Direction: xfrm.In, Selector: back}
	return xfrm.Batch{Lineage: lineage, Add: []xfrm.SA{s, addOut(out)}, Claims: []xfrm.Claim{protect(lan, xfrm.RankChild, out), protect(at, xfrm.RankChild, in)}}
}

// Of an owner that ends the inbound SA stays for a while where another owner carries its traffic, and everything else goes.
func TestOutlive(t *testing.T) {
	l := New()
	book(t, l, "ike:1", carrying("b/lan", 1, 2))
	book(t, l, "ike:2", carrying("b/lan", 3, 4))
	left := l.Outlive("ike:1")
	if len(left) != 1 || left[0] != said("198.51.100.7", 1) {
		t.Fatalf("left %v", left)
	}
	want(t, l.Finish("ike:1"), "remove "+sa2)
	if claims, sas := l.Holds("ike:1"); claims+sas != 0 {
		t.Errorf("the owner still holds %d claims and %d SAs", claims, sas)
	}
	if ops, lost := l.Diff(xfrm.State{SAs: []xfrm.SA{{ID: left[0], ReqID: ReqIDFirst}}}); len(lost) != 1 || lost[0] != "ike:2" {
		t.Errorf("a repair gives %v, lost %v", names(ops), lost)
	}
	want(t, l.Fade(said("198.51.100.7", 3), left[0]), "remove "+sa1) // what has an owner stays
	want(t, l.Fade(left...))
	if claims, sas := l.Size(); claims != 2 || sas != 2 {
		t.Errorf("%d claims and %d SAs", claims, sas)
	}
}

// Nobody else has the child, or only a trap, or another lineage's claim stands there: all goes at once.
func TestOutliveAlone(t *testing.T) {
	trap := xfrm.Batch{Lineage: "b/lan", Claims: []xfrm.Claim{protect(xfrm.Slot{Direction: xfrm.In, Selector: xfrm.Selector{Src: lan.Selector.Dst, Dst: lan.Selector.Src}}, xfrm.RankTrap, 0)}}
	for name, other := range map[string]xfrm.Batch{"nothing": {}, "a trap": trap, "another lineage": carrying("c/lan", 3, 4)} {
		l := New()
		book(t, l, "ike:1", carrying("b/lan", 1, 2))
		book(t, l, "other", other)
		if left := l.Outlive("ike:1"); left != nil {
			t.Errorf("%s: left %v", name, left)
		}
		if left := l.Outlive("ike:9"); left != nil {
			t.Errorf("a stranger left %v", left)
		}
		l.Finish("ike:1")
		if _, ok := l.OwnerOf(said("198.51.100.7", 1)); ok {
			t.Errorf("%s: the SA is still known", name)
		}
	}
}

// When the daemon stops, nothing is waited for.
func TestFadeAll(t *testing.T) {
	l := New()
	for i := range uint32(3) {
		book(t, l, xfrm.Owner([]string{"ike:1", "ike:2", "ike:3"}[i]), carrying("b/lan", 2*i+1, 2*i+2))
	}
	l.Outlive("ike:1")
	l.Finish("ike:1")
	l.Outlive("ike:2")
	l.Finish("ike:2")
	l.Outlive("ike:3")
	l.Finish("ike:3")
	want(t, l.Fade(), "remove "+sa1, "remove SA ESP SPI 00000003 to 198.51.100.7")
	if claims, sas := l.Size(); claims+sas+len(l.owners) != 0 {
		t.Errorf("%d claims, %d SAs, owners %v", claims, sas, l.owners)
	}
}
