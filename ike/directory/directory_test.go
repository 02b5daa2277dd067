package directory

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

const fqdn wire.IDType = 2

func id(name string) auth.Identity { return auth.Identity{Type: fqdn, Data: name} }

func ts(s string) []policy.TS {
	p := netip.MustParsePrefix(s)
	last := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		last[i/8] |= 1 << (7 - i%8)
	}
	return []policy.TS{{Start: p.Addr(), End: netip.AddrFrom4(last), Ports: xfrm.Ports{First: 0, Last: 65535}}}
}

// site is a connection of two children, lan and dmz.
func site(name string, start policy.Start) *policy.Connection {
	return &policy.Connection{
		Name: name, Start: start, Drop: start != policy.StartManual,
		Local:  policy.End{Address: netip.MustParseAddr("192.0.2.1"), ID: id("gw-a.example")},
		Remote: policy.End{Address: netip.MustParseAddr("198.51.100.7"), ID: id("gw-b.example")},
		Children: []*policy.Child{
			{Name: "lan", Local: ts("10.1.0.0/16"), Remote: ts("10.2.0.0/16")},
			{Name: "dmz", Local: ts("10.1.0.0/16"), Remote: ts("10.3.0.0/16")},
		},
	}
}

// say describes an action in one line; claims by their batch.
func say(a Action) string {
	switch a := a.(type) {
	case Start:
		s := strings.TrimSpace("start " + a.Connection + " " + strings.Join(a.Children, ","))
		if !a.InitialContact {
			s += " not alone"
		}
		return s
	case Tell:
		switch ev := a.Event.(type) {
		case ike.Lower:
			s := fmt.Sprintf("%d: lower", uint64(a.SPI))
			if ev.Child != "" {
				s += " " + ev.Child
			}
			if ev.Silent {
				s += " silently"
			}
			if ev.Carried {
				s += ", carried by another"
			}
			return s
		case ike.Probe:
			return fmt.Sprintf("%d: probe, carried by another: %v", uint64(a.SPI), ev.Carried)
		case ike.RaiseChild:
			return fmt.Sprintf("%d: raise %s", uint64(a.SPI), ev.Child)
		case ike.Reconfigure:
			return fmt.Sprintf("%d: %d children", uint64(a.SPI), len(ev.Connection.Children))
		}
	case Claims:
		s := fmt.Sprintf("%s [%s]", a.Owner, a.Batch.Lineage)
		for _, c := range a.Batch.Claims {
			s += fmt.Sprintf(" +%s %s", map[xfrm.PolicyAction]string{xfrm.Block: "block", xfrm.Protect: "trap"}[c.Action], slotName(c.Slot))
		}
		for _, at := range a.Batch.Release {
			s += " -" + slotName(at)
		}
		return s
	case Release:
		return "release " + string(a.Owner)
	case Close:
		return fmt.Sprintf("%s closed: %v", a.Connection, a.Closed)
	case Report:
		return "report " + string(a.Code)
	}
	return fmt.Sprintf("%#v", a)
}

func slotName(s xfrm.Slot) string {
	return fmt.Sprintf("%s:%v>%v", map[xfrm.Direction]string{xfrm.In: "in", xfrm.Out: "out"}[s.Direction], s.Selector.Src, s.Selector.Dst)
}

// story drives a directory and compares what it says.
type story struct {
	*Directory
	t   *testing.T
	now ike.Time
}

func newStory(t *testing.T, conns ...*policy.Connection) *story {
	s := &story{New(half{}), t, ike.Time(time.Hour)}
	s.Step(s.now, Load{&policy.Snapshot{Connections: conns}}, new([]Action))
	return s
}

// half is a random source that always says one half: no jitter.
type half struct{}

func (half) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 0x80 * byte((i+1)%2)
	}
	return len(b), nil
}

func (s *story) do(ev Event, want ...string) {
	s.t.Helper()
	var out []Action
	s.Step(s.now, ev, &out)
	var got []string
	for _, a := range out {
		got = append(got, say(a))
	}
	if !slices.Equal(got, want) {
		s.t.Fatalf("%T %+v:\n got %q\nwant %q", ev, ev, got, want)
	}
}

// wait moves to the deadline, which must be that far away.
func (s *story) wait(d time.Duration, want ...string) {
	s.t.Helper()
	at, ok := s.Deadline()
	if !ok || at != s.now.Add(d) {
		s.t.Fatalf("deadline in %v (%v), want %v", at.Sub(s.now), ok, d)
	}
	s.now = at
	s.do(Wake{}, want...)
}

func (s *story) claimed(spi wire.SPI, initiated, contact bool, want ...string) {
	s.t.Helper()
	s.do(Claimed{spi, ike.Claim{Connection: "b", Peer: id("gw-b.example"), Initiated: initiated, InitialContact: contact}}, want...)
}

func (s *story) up(spi wire.SPI, child string, want ...string) {
	s.t.Helper()
	s.do(ChildUp{spi, "b", child}, want...)
}

func (s *story) finished(spi wire.SPI, retry bool, want ...string) {
	s.t.Helper()
	s.do(Finished{spi, ike.Finish{Connection: "b", Code: ike.CodeNoAnswer, Text: "no answer", Retry: retry}}, want...)
}

// established brings a connection up on an IKE SA that we start, and lets its success count.
func (s *story) established(spi wire.SPI) {
	s.t.Helper()
	s.do(Opened{"b", spi})
	s.claimed(spi, true, false)
	for _, ch := range s.find("b").bringing {
		s.do(ChildUp{spi, "b", ch})
	}
	s.now = s.now.Add(time.Minute)
}

func (s *story) status(wanted string, serving ...wire.SPI) {
	s.t.Helper()
	st := s.Status()[0]
	if st.Wanted != wanted || !slices.Equal(st.Serving, serving) {
		s.t.Fatalf("status %+v, want %s by %v", st, wanted, serving)
	}
}

const blocks = "conn:b [] +block out:10.1.0.0/16>10.2.0.0/16 +block in:10.2.0.0/16>10.1.0.0/16 " +
	"+block out:10.1.0.0/16>10.3.0.0/16 +block in:10.3.0.0/16>10.1.0.0/16"

func load(conns ...*policy.Connection) Load { return Load{&policy.Snapshot{Connections: conns}} }

func TestLoadClaims(t *testing.T) {
	boot, traffic, manual := site("b", policy.StartBoot), site("b", policy.StartTraffic), site("b", policy.StartManual)
	pass := site("b", policy.StartTraffic)
	pass.Drop = false
	traps := []string{"conn:b [b/lan/gw-b.example] +trap out:10.1.0.0/16>10.2.0.0/16", "conn:b [b/dmz/gw-b.example] +trap out:10.1.0.0/16>10.3.0.0/16"}
	newStory(t).do(load(boot), blocks, "start b")
	newStory(t).do(load(traffic), blocks, traps[0], traps[1])
	newStory(t).do(load(pass), traps...)
	newStory(t).do(load(manual))
}

func TestTrapTemplate(t *testing.T) {
	for _, c := range []struct {
		local, remote, src, dst string
	}{
		{"192.0.2.1", "198.51.100.7", "192.0.2.1", "198.51.100.7"},
		{"", "198.51.100.7", "0.0.0.0", "198.51.100.7"},
		{"", "2001:db8::7", "::", "2001:db8::7"},
		{"2001:db8::1", "", "2001:db8::1", "::"},
		{"", "", "0.0.0.0", "0.0.0.0"},
	} {
		conn := site("b", policy.StartTraffic)
		conn.Local.Address, _ = netip.ParseAddr(c.local)
		conn.Remote.Address, _ = netip.ParseAddr(c.remote)
		claims := (&connection{Connection: conn}).trap(conn.Children[0])
		if got := claims[0].Template; got.Src.String() != c.src || got.Dst.String() != c.dst || claims[0].Rank != xfrm.RankTrap {
			t.Errorf("%+v: template %+v", c, got)
		}
	}
}

func TestBootComesBack(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.established(1)
	s.status("up", 1)
	s.finished(1, true, "report retry")
	s.wait(time.Second, "start b")
	s.established(2)
	s.status("up", 2)
}

func TestBackoff(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	for i, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		spi := wire.SPI(i + 1)
		s.do(Opened{"b", spi})
		s.finished(spi, true, "report retry")
		if st := s.Status()[0]; st.Tries != i+1 || st.LastErr.Text != "no answer" || st.NextTry != s.now.Add(pause*time.Second) {
			t.Fatalf("status %+v", st)
		}
		s.wait(pause*time.Second, "start b")
	}
	// Success starts over, but not when it did not last.
	s.do(Opened{"b", 10})
	s.claimed(10, true, false)
	s.up(10, "lan")
	s.finished(10, true, "report retry")
	s.wait(60*time.Second, "start b")
	s.established(11)
	s.finished(11, true, "report retry")
	s.wait(time.Second, "start b")
	// What will not pass by itself is tried again slowly all the same: the peer's side may be the one that is changed.
	s.do(Opened{"b", 12})
	s.finished(12, false, "report retry")
	s.wait(60*time.Second, "start b")
}

func TestJitterStaysWithinAQuarter(t *testing.T) {
	d := turn{Directory: New(rand.NewChaCha8([32]byte{1}))}
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		p := d.pause(3)
		low, high = min(low, p), max(high, p)
	}
	if low < 3*time.Second || high >= 5*time.Second || high-low < time.Second {
		t.Errorf("pauses of 4 s between %v and %v", low, high)
	}
	if p := (turn{Directory: New(bytes.NewReader(nil))}).pause(1 << 20); p != time.Minute {
		t.Errorf("without randomness %v", p)
	}
}

func TestShardThatCannotOpen(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.finished(0, true, "report retry")
	s.wait(time.Second, "start b")
}

func TestTraffic(t *testing.T) {
	s := newStory(t, site("b", policy.StartTraffic))
	s.status("trap")
	lan, dmz := Acquire{Connection: "b", Child: "lan"}, Acquire{Connection: "b", Child: "dmz"}
	s.do(Acquire{Connection: "x", Child: "lan"})
	s.do(Acquire{Connection: "b", Child: "x"})
	s.do(lan, "start b lan")
	s.do(lan)
	s.do(Opened{"b", 1})
	s.do(lan)
	s.do(dmz) // waits for the IKE SA
	s.claimed(1, true, false, "1: raise dmz")
	s.do(dmz)
	s.up(1, "lan")
	s.up(1, "dmz")
	s.do(lan)
	s.do(ChildDown{1, "b", "lan"})
	s.do(lan, "1: raise lan")
	s.do(lan)
	s.now = s.now.Add(raiseAgain)
	s.do(lan, "1: raise lan")
	s.finished(1, true) // was up for long enough: the next packet starts at once
	s.do(lan, "start b lan")
	s.do(Opened{"b", 2})
	s.finished(2, true)
	s.do(dmz) // in the pause after a failure
	s.wait(time.Second, "start b dmz")
}

func TestPacketDuringAttemptIsTriedAgain(t *testing.T) {
	s := newStory(t, site("b", policy.StartTraffic))
	s.do(Acquire{Connection: "b", Child: "lan"}, "start b lan")
	s.do(Opened{"b", 1})
	s.do(Acquire{Connection: "b", Child: "lan"})
	s.finished(1, true, "report retry")
	s.wait(time.Second, "start b lan")
}

func TestManual(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.do(Acquire{Connection: "b", Child: "lan"})
	s.do(Up{"x", nil}, "report unknown")
	s.do(Up{"b", []string{"x"}}, "report unknown")
	s.do(Down{"x", ""}, "report unknown")
	s.do(Down{"b", "x"}, "report unknown")
	s.status("down")
	s.do(Up{"b", []string{"lan"}}, "start b lan")
	s.do(Up{"b", []string{"lan"}})
	s.do(Up{"b", []string{"dmz"}})
	s.do(Opened{"b", 1})
	s.claimed(1, true, false, "1: raise dmz")
	s.up(1, "lan")
	s.up(1, "dmz")
	s.do(Up{"b", nil})
	s.do(Down{"b", ""}, "b closed: true", "1: lower")
	s.status("down")
	s.finished(1, false)
	if _, ok := s.Deadline(); ok {
		t.Error("something is planned after down")
	}
}

// A failure that only the operator can mend ends a manual attempt; one that may pass does not.
func TestManualGivesUp(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.do(Up{"b", nil}, "start b")
	s.do(Opened{"b", 1})
	s.finished(1, true, "report retry")
	s.wait(time.Second, "start b")
	s.do(Opened{"b", 2})
	s.finished(2, false)
	s.status("down")
}

// An Up that comes during an attempt is answered by an attempt of its own, once: the failure may be of before the operator changed something.
func TestUpDuringAttempt(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.do(Up{"b", nil}, "start b")
	s.do(Opened{"b", 1})
	s.do(Up{"b", nil})
	s.finished(1, false, "report retry")
	s.wait(time.Second, "start b")
	s.do(Up{"b", nil}) // before the attempt has its IKE SA
	s.do(Opened{"b", 2})
	s.finished(2, false, "report retry")
	s.wait(time.Second, "start b")
	s.do(Opened{"b", 3})
	s.finished(3, false)
	s.status("down")

	s.do(Up{"b", nil}, "start b")
	s.do(Opened{"b", 4})
	s.do(Up{"b", nil})
	s.claimed(4, true, false) // it has done what Up asked for
	s.finished(4, false)
	s.status("down")
}

// What was up and is refused now, as when the peer's operator takes it down, is tried again: nobody is there to hear of the refusal.
func TestUpThatWasUpIsTriedAgain(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.do(Up{"b", nil}, "start b")
	s.do(Opened{"b", 1})
	s.claimed(1, true, false)
	s.up(1, "lan")
	s.up(1, "dmz")
	s.finished(1, true, "report retry")
	s.wait(time.Second, "start b")
	s.do(Opened{"b", 2})
	s.finished(2, false, "report retry")
	s.status("up")
	s.do(Up{"b", nil}, "start b") // now somebody is
	s.do(Opened{"b", 3})
	s.finished(3, false)
	s.status("down")
}

func TestManualDropBlocksOnlyWhileUp(t *testing.T) {
	conn := site("b", policy.StartManual)
	conn.Drop = true
	s := newStory(t, conn)
	s.do(Up{"b", nil}, blocks, "start b")
	s.do(Opened{"b", 1})
	s.do(Down{"b", ""}, "b closed: true", "1: lower", strings.NewReplacer("+block ", "-").Replace(blocks))
}

func TestDownOfTrafficReleasesTheTrapOnly(t *testing.T) {
	s := newStory(t, site("b", policy.StartTraffic))
	s.do(Down{"b", ""}, "b closed: true", "conn:b [b/lan/gw-b.example] -out:10.1.0.0/16>10.2.0.0/16", "conn:b [b/dmz/gw-b.example] -out:10.1.0.0/16>10.3.0.0/16")
	s.do(Acquire{Connection: "b", Child: "lan"})
	s.do(Up{"b", nil}, "b closed: false", "conn:b [b/lan/gw-b.example] +trap out:10.1.0.0/16>10.2.0.0/16", "conn:b [b/dmz/gw-b.example] +trap out:10.1.0.0/16>10.3.0.0/16", "start b")
}

func TestDownBeforeOpened(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(Down{"b", ""}, "b closed: true")
	s.do(Opened{"b", 1}, "1: lower")
	s.finished(1, false)
	s.do(Up{"b", nil}, "b closed: false", "start b")
	s.do(Down{"b", ""}, "b closed: true")
	s.do(Up{"b", nil}, "b closed: false") // the first start is still on its way
	s.do(Opened{"b", 2}, "2: lower", "start b not alone")
}

func TestDownOfOneChild(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.established(1)
	s.do(Down{"b", "dmz"}, "1: lower dmz")
	s.do(ChildDown{1, "b", "dmz"})
	s.finished(1, true, "report retry")
	s.wait(time.Second, "start b lan")
	s.established(2)
	s.do(Down{"b", "lan"}, "b closed: true", "2: lower") // the last one takes the IKE SA with it
	s.status("down")
	s.finished(2, false)
	s.do(Up{"b", nil}, "b closed: false", "start b")
}

func TestPeerMustStart(t *testing.T) {
	conn := site("b", policy.StartBoot)
	conn.Remote.Address = netip.Addr{}
	s := newStory(t)
	s.do(load(conn), blocks)
	s.do(Up{"b", nil}, "report no-address")
	s.claimed(1, false, false)
	s.up(1, "lan")
	s.up(1, "dmz")
	s.status("up", 1)
	named := site("b", policy.StartBoot)
	named.Remote = policy.End{Name: "gw-b.example", ID: id("gw-b.example")}
	newStory(t).do(load(named), blocks, "start b")
}

func TestMissingChildrenAreRaised(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.claimed(1, true, false)
	s.up(1, "lan")
	s.wait(raiseGrace, "1: raise dmz")
	s.wait(raiseGrace+time.Second, "1: raise dmz")
	s.wait(raiseGrace+2*time.Second, "1: raise dmz")
	s.up(1, "dmz")
	if _, ok := s.Deadline(); ok {
		t.Error("something is planned though all is up")
	}
	s.now = s.now.Add(time.Hour)
	s.do(ChildDown{1, "b", "lan"})
	s.wait(time.Second, "1: raise lan")
	s.up(1, "lan")
	s.up(1, "lan") // a machine that is asked for a child that is up says so
	s.do(ChildDown{1, "b", "lan"})
	s.wait(time.Second, "1: raise lan")
	s.claimed(2, false, false) // as responder we leave the first word to the peer
	s.finished(1, true)
	s.wait(raiseGrace+raiseResponds, "2: raise lan", "2: raise dmz")
}

// TestMissingChildIsRaisedInTime: one IKE SA follows another more quickly than a responder waits for its peer to ask.
func TestMissingChildIsRaisedInTime(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.claimed(1, false, false)
	s.up(1, "lan")
	begun := s.now
	for spi := wire.SPI(2); spi < 5; spi++ {
		s.now = s.now.Add(9 * time.Second)
		s.claimed(spi, false, false)
		s.up(spi, "lan")
		s.finished(spi-1, false)
		if at, ok := s.Deadline(); ok && at.Sub(begun) <= raiseGrace+raiseResponds && at.Sub(s.now) < 9*time.Second {
			s.now = at
			s.do(Wake{}, fmt.Sprintf("%d: raise dmz", spi))
			return
		}
	}
	t.Error("the missing child is never asked for")
}

func TestReload(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.established(1)
	same := site("b", policy.StartBoot)
	same.Line, same.Children[0].Line = 7, 9
	s.do(load(same))
	s.do(load(site("b", policy.StartBoot)))
	if same.Line != 7 || same.Children[0].Line != 9 {
		t.Error("a snapshot was changed")
	}

	wider := site("b", policy.StartBoot)
	wider.Children[1].Remote = ts("10.4.0.0/16")
	s.do(load(wider), "conn:b [] +block out:10.1.0.0/16>10.4.0.0/16 +block in:10.4.0.0/16>10.1.0.0/16 -out:10.1.0.0/16>10.3.0.0/16 -in:10.3.0.0/16>10.1.0.0/16",
		"1: lower", "start b not alone")
	s.finished(1, false)
	s.established(2)

	s.do(load(site("a", policy.StartManual)), "2: lower", "release conn:b")
	s.do(Up{"b", nil}, "report unknown")
	s.finished(2, false)
	if n := len(s.Status()); n != 1 {
		t.Errorf("%d connections", n)
	}
	s.do(load(site("b", policy.StartBoot)), blocks, "start b")
	// Gone and back before its IKE SA has ended.
	s.do(Opened{"b", 3})
	s.do(load(), "3: lower", "release conn:b")
	s.do(load(site("b", policy.StartBoot)), blocks, "start b not alone")
	s.finished(3, false)
	s.do(Opened{"b", 4})
	s.do(load(), "4: lower", "release conn:b")
	s.finished(4, false)
	if len(s.Status())+len(s.sas) != 0 {
		t.Errorf("left over: %+v", s.Status())
	}
}

func TestReloadWhileStarting(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(load(), "release conn:b")
	s.do(Opened{"b", 1}, "1: lower")
	s.finished(1, false)
	s.do(Opened{"b", 2}, "2: lower") // of a connection that nobody knows
	s.do(Claimed{3, ike.Claim{Connection: "b"}}, "3: lower")
	if len(s.Status())+len(s.sas) != 0 {
		t.Errorf("left over: %+v", s.Status())
	}
}

// An IKE SA that began before a reload and is authenticated after it has the old configuration.
func TestReloadWhilePeerStarts(t *testing.T) {
	old, b := site("b", policy.StartManual), site("b", policy.StartManual)
	b.Encap = policy.EncapAlways
	s := newStory(t, old)
	s.do(load(b))
	claim := ike.Claim{Connection: "b", Peer: id("gw-b.example"), Config: old}
	s.do(Claimed{1, claim}, "1: lower")
	again := site("b", policy.StartManual) // read again, nothing changed
	again.Encap, again.Line = policy.EncapAlways, 7
	claim.Config = again
	s.do(Claimed{2, claim})
}

// TestNewKeysWhilePeerStarts: who began before a reload and proved itself by a key that the reload has taken away is closed; else it would stay up for as long as it likes.
func TestNewKeysWhilePeerStarts(t *testing.T) {
	trusting := func(seed string, more ...string) *policy.Connection {
		c := with(policy.StartManual, more...)
		key, err := auth.NewPrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte(seed), ed25519.SeedSize)))
		if err != nil {
			t.Fatal(err)
		}
		c.Remote.Proof.Trust = &auth.Trust{Keys: []*auth.PublicKey{key.Public()}}
		return c
	}
	for _, more := range [][]string{nil, {"voice"}} {
		before := trusting("a")
		s := newStory(t, before)
		s.do(load(trusting("b", more...)))
		s.do(Claimed{1, ike.Claim{Connection: "b", Peer: id("gw-b.example"), Config: before}}, "1: lower")
		s.do(Claimed{2, ike.Claim{Connection: "b", Peer: id("gw-b.example"), Config: trusting("b", more...)}})
	}
}

func TestOperatorsWishOutlivesReload(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(Down{"b", ""}, "b closed: true")
	s.do(Opened{"b", 1}, "1: lower")
	s.do(load(site("b", policy.StartBoot)))
	s.status("down")
	s.do(load(site("b", policy.StartTraffic)), "b closed: false", "conn:b [b/lan/gw-b.example] +trap out:10.1.0.0/16>10.2.0.0/16", "conn:b [b/dmz/gw-b.example] +trap out:10.1.0.0/16>10.3.0.0/16")
	s.status("trap")
}

// Many connections: order of names, whatever maps do.
func TestOrder(t *testing.T) {
	var conns []*policy.Connection
	var want []string
	for i := range 20 {
		c := site(fmt.Sprintf("c%02d", i), policy.StartBoot)
		c.Drop = false
		conns = append(conns, c)
		want = append(want, "start "+c.Name)
	}
	slices.Reverse(conns)
	newStory(t).do(load(conns...), want...)
}

func TestUpOfAnotherChild(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.do(Up{"b", []string{"lan"}}, "start b lan")
	s.established(1)
	s.do(Up{"b", []string{"dmz"}}, "1: raise dmz")
	s.up(1, "dmz")
	s.do(Down{"b", "dmz"}, "1: lower dmz")
	s.do(ChildDown{1, "b", "dmz"})
	s.finished(1, true, "report retry")
	s.wait(time.Second, "start b lan") // dmz was taken down
	s.established(2)
	s.do(Up{"b", nil}, "2: raise dmz")
	s.up(2, "dmz")
	s.finished(2, true, "report retry")
	s.wait(time.Second, "start b")
}

func TestUpEndsThePause(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.finished(1, true, "report retry")
	s.do(Up{"b", nil}, "start b")
	if st := s.Status()[0]; st.Tries != 0 || st.NextTry != 0 {
		t.Errorf("%+v", st)
	}
}

func TestPeerEndsThePause(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.finished(1, true, "report retry")
	s.claimed(2, false, false)
	s.up(2, "lan")
	s.up(2, "dmz")
	st := s.Status()[0]
	if st.NextTry != 0 || st.Tries != 0 || st.LastErr.Text != "" || st.Peer != id("gw-b.example") {
		t.Errorf("%+v", st)
	}
	if _, ok := s.Deadline(); ok {
		t.Error("something is planned")
	}
}

func TestDownOfATrappedChild(t *testing.T) {
	s := newStory(t, site("b", policy.StartTraffic))
	s.do(Acquire{Connection: "b", Child: "lan"}, "start b lan")
	s.do(Acquire{Connection: "b", Child: "dmz"})
	s.do(Down{"b", "dmz"}, "conn:b [b/dmz/gw-b.example] -out:10.1.0.0/16>10.3.0.0/16")
	s.do(Acquire{Connection: "b", Child: "dmz"})
	s.do(Opened{"b", 1})
	s.claimed(1, true, false) // dmz waits no longer
	s.up(1, "lan")
	s.do(Up{"b", []string{"dmz"}}, "conn:b [b/dmz/gw-b.example] +trap out:10.1.0.0/16>10.3.0.0/16", "1: raise dmz")
}

func TestUpOfTrafficThatFailsIsATrapAgain(t *testing.T) {
	conn := site("b", policy.StartManual)
	conn.Drop = true
	s := newStory(t, conn)
	s.do(Up{"b", nil}, blocks, "start b")
	s.do(Opened{"b", 1})
	s.finished(1, false, strings.NewReplacer("+block ", "-").Replace(blocks))
	s = newStory(t, site("b", policy.StartTraffic))
	s.do(Up{"b", nil}, "start b")
	s.do(Opened{"b", 1})
	s.do(Finished{1, ike.Finish{Connection: "b", Code: ike.CodeAuthFailed, Text: "refused", Retry: true}})
	s.status("trap")
}

func TestReloadForgetsUnknownChildren(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.do(Up{"b", []string{"dmz"}}, "start b dmz")
	s.do(Opened{"b", 1})
	one := site("b", policy.StartManual)
	one.Children = one.Children[:1]
	s.do(load(one), "1: lower") // nothing is left of what was asked for
	s.status("down")
	s.finished(1, false)
	s = newStory(t, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.do(Down{"b", "dmz"}, "1: lower dmz")
	boot := site("b", policy.StartBoot)
	boot.Children = boot.Children[:1]
	s.do(load(boot), "conn:b [] -out:10.1.0.0/16>10.3.0.0/16 -in:10.3.0.0/16>10.1.0.0/16", "1: lower", "start b not alone")
	s.finished(1, false)
	s.established(2)
	s.do(load(site("b", policy.StartBoot)), "conn:b [] +block out:10.1.0.0/16>10.3.0.0/16 +block in:10.3.0.0/16>10.1.0.0/16", "2: 2 children", "2: raise dmz")
}

func TestDownOfAChildLeavesTheOthers(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.do(Up{"b", nil}, "start b")
	s.do(Opened{"b", 1})
	s.do(Down{"b", "dmz"}, "1: lower dmz")
	s.claimed(1, true, false)
	s.up(1, "lan")
	s.status("up", 1)
	s = newStory(t, site("b", policy.StartManual))
	s.do(Up{"b", []string{"dmz"}}, "start b dmz")
	s.do(Opened{"b", 1})
	s.do(Down{"b", "dmz"}, "b closed: true", "1: lower")
	s.status("down")
}
