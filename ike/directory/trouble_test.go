package directory

import (
	"slices"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/policy"
)

func (s *story) only() ConnStatus { s.t.Helper(); return s.Status()[0] }

// TestErrorsGoWithTheirCause: an error is forgotten when the IKE SA is up, when the child is up, and when the configuration changed.
func TestErrorsGoWithTheirCause(t *testing.T) {
	s := newStory(t)
	b := site("b", policy.StartBoot)
	b.Drop = false
	s.do(Load{&policy.Snapshot{Connections: []*policy.Connection{b}}}, "start b")
	s.do(Opened{"b", 1})
	s.do(Finished{1, ike.Finish{Connection: "b", Code: ike.CodeNoAnswer, Text: "no answer", Retry: true}}, "report retry")
	if st := s.only(); st.LastErr.Text != "no answer" {
		t.Errorf("%+v", st)
	}
	s.wait(time.Second, "start b")
	s.do(Opened{"b", 2})
	s.claimed(2, true, false)
	if st := s.only(); st.LastErr.Text != "" {
		t.Errorf("the IKE SA is up, and yet: %s", st.LastErr.Text)
	}
	s.do(ChildUp{SPI: 2, Child: "lan"})
	s.do(ChildFailed{SPI: 2, Child: "dmz", Text: "the peer does not accept our selectors"})
	s.do(ChildFailed{SPI: 9, Child: "lan", Text: "of an unknown IKE SA"})
	s.do(ChildFailed{SPI: 2, Child: "nonsense", Text: "of an unknown child"})
	want := []ChildTrouble{{"dmz", Note{s.now, "the peer does not accept our selectors"}, s.now.Add(raiseGrace)}}
	if st := s.only(); !slices.Equal(st.Children, want) {
		t.Errorf("children %+v, want %+v", st.Children, want)
	}
	s.do(ChildUp{SPI: 2, Child: "dmz"})
	if st := s.only(); len(st.Children) != 0 {
		t.Errorf("dmz is up: %+v", st.Children)
	}
	s.do(ChildFailed{SPI: 2, Child: "lan", Text: "was not rekeyed"})
	if st := s.only(); !slices.Equal(st.Children, []ChildTrouble{{Name: "lan", LastErr: Note{s.now, "was not rekeyed"}}}) {
		t.Errorf("children %+v", st.Children)
	}
	changed := site("b", policy.StartBoot)
	changed.Drop, changed.Remote.Port = false, 4500
	s.do(Load{&policy.Snapshot{Connections: []*policy.Connection{changed}}}, "2: lower", "start b not alone")
	if st := s.only(); len(st.Children) != 0 || st.LastErr.Text != "" {
		t.Errorf("errors of the former configuration: %+v", st)
	}
}

// TestClosedIsNoError: the peer may take down what it began.
func TestClosedIsNoError(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.claimed(1, false, false)
	s.do(ChildUp{SPI: 1, Child: "lan"})
	s.do(Finished{1, ike.Finish{Connection: "b", Code: ike.CodeClosed, Text: "closed by the peer", Retry: true}})
	if st := s.only(); st.LastErr.Text != "" || st.Last != "closed by the peer" {
		t.Errorf("%+v", st)
	}
	s.do(CallerRefused{"b", ike.CodeAuthFailed, "198.51.100.7:500 does not prove gw-b.example"})
	s.do(CallerRefused{"unknown", ike.CodeAuthFailed, "x"})
	if st := s.only(); st.Refused != (Note{s.now, "198.51.100.7:500 does not prove gw-b.example"}) {
		t.Errorf("%+v", st.Refused)
	}
	s.claimed(2, false, false)
	if st := s.only(); st.Last != "" || st.Refused.At == 0 {
		t.Errorf("%+v", st)
	}
}

// with is b with further children.
func with(start policy.Start, more ...string) *policy.Connection {
	b := site("b", start)
	b.Drop = false
	for i, name := range more {
		b.Children = slices.Insert(b.Children, i, &policy.Child{Name: name, Local: ts("10.1.0.0/16"), Remote: ts("10.9.0.0/16")})
	}
	return b
}

// TestChildAdded: the IKE SA stays and raises it; a file that is only moved about is no change.
func TestChildAdded(t *testing.T) {
	one := func(c *policy.Connection) Load { return Load{&policy.Snapshot{Connections: []*policy.Connection{c}}} }
	said := func(s *story, want ...Change) {
		t.Helper()
		if !slices.Equal(s.Changes(), want) {
			t.Errorf("changes %+v, want %+v", s.Changes(), want)
		}
	}
	s := newStory(t)
	s.do(one(with(policy.StartBoot)), "start b")
	said(s, Change{"b", "added"})
	s.do(Opened{"b", 1})
	s.claimed(1, true, false)
	s.do(ChildUp{SPI: 1, Child: "lan"})
	s.do(ChildUp{SPI: 1, Child: "dmz"})
	s.do(one(with(policy.StartBoot, "voice")), "1: 3 children", "1: raise voice")
	said(s, Change{"b", "child voice added"})
	s.do(one(with(policy.StartBoot, "voice")))
	said(s)
	s.do(one(with(policy.StartBoot)), "1: lower", "start b not alone")
	said(s, Change{"b", "changed: it is rebuilt"})

	// One that the peer began: the peer raises it, or the operator.
	s = newStory(t, with(policy.StartManual))
	s.claimed(1, false, false)
	s.do(one(with(policy.StartManual, "voice", "video")), "1: 4 children")
	said(s, Change{"b", "children voice, video added; to bring it up here: ikectl up b"})
	s.do(one(with(policy.StartManual)), "1: lower")
	said(s, Change{"b", "changed: it went down; to bring it up: ikectl up b"})
	s.do(Load{&policy.Snapshot{}})
	said(s, Change{"b", "removed"})

	// A reload while an attempt is on its way: the child follows; the peer's attempt that began before is told too.
	s = newStory(t)
	s.do(one(with(policy.StartBoot)), "start b")
	s.do(Opened{"b", 1})
	s.do(one(with(policy.StartBoot, "voice")), "1: 3 children")
	s.claimed(1, true, false, "1: raise voice")
	s.do(Claimed{2, ike.Claim{Connection: "b", Config: with(policy.StartBoot), Peer: id("gw-b.example")}}, "2: 3 children")
}

// TestTurnedAwayUntilUp: that the peer was turned away is told until the operator lets it in; what else callers were refused for is not his doing, and stays.
func TestTurnedAwayUntilUp(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	stranger := Note{s.now, "198.51.100.7:500 does not prove gw-b.example"}
	s.do(CallerRefused{"b", ike.CodeAuthFailed, stranger.Text})
	s.do(Down{Connection: "b"}, "b closed: true")
	s.now = s.now.Add(time.Second)
	s.claimed(1, false, false, "report turned-away", "1: lower")
	if st := s.only(); st.Refused != (Note{s.now, "gw-b.example asks for it, but it was taken down here; to let it in: ikectl up b"}) {
		t.Errorf("%+v", st.Refused)
	}
	s.do(Up{Connection: "b", Children: []string{"lan"}}, "b closed: false", "start b lan not alone")
	if st := s.only(); st.Refused != stranger {
		t.Errorf("after up: %+v", st.Refused)
	}
}

// TestMachineTurnsAway: the machines refuse the peer of what is closed; what they say of it is told until the operator lets the peer in, and not after.
func TestMachineTurnsAway(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	refused := CallerRefused{"b", ike.CodeTurnedAway, "gw-b.example asks for connection b and is refused: it was taken down here"}
	s.do(Down{Connection: "b"}, "b closed: true")
	s.do(refused)
	if st := s.only(); st.Refused != (Note{s.now, refused.Text + "; to let it in: ikectl up b"}) {
		t.Errorf("%+v", st.Refused)
	}
	s.do(Up{Connection: "b"}, "b closed: false", "start b")
	s.do(refused) // late
	if st := s.only(); st.Refused != (Note{}) {
		t.Errorf("after up: %+v", st.Refused)
	}
	s.do(Down{Connection: "b"}, "b closed: true")
	s.do(load(), "b closed: false") // who has the name next is another
}
