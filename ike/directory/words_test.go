package directory

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/policy"
)

var update = flag.Bool("update", false, "write testdata/words.txt anew from what happens now")

// tale is a story that is written down whole: each event, what is done about it, and how things stand after it.
type tale struct {
	*Directory
	now ike.Time
	b   strings.Builder
	was string // how things stood
}

func newTale(conns ...*policy.Connection) *tale {
	s := &tale{Directory: New(half{}), now: ike.Time(time.Hour)}
	s.load(conns...)
	return s
}

func (s *tale) load(conns ...*policy.Connection) *tale {
	s.do("load", Load{&policy.Snapshot{Connections: conns}})
	for _, c := range s.Changes() {
		fmt.Fprintf(&s.b, "    %s: %s\n", c.Connection, c.Text)
	}
	return s
}

func (s *tale) do(what string, ev Event) *tale {
	fmt.Fprintf(&s.b, "  %s\n", what)
	var out []Action
	s.Step(s.now, ev, &out)
	for _, a := range out {
		fmt.Fprintf(&s.b, "    %s\n", spoken(a))
	}
	is := s.standing()
	if is != s.was {
		fmt.Fprintf(&s.b, "    = %s\n", is)
	}
	s.was = is
	return s
}

// wait moves to the next deadline.
func (s *tale) wait() *tale {
	at, ok := s.Deadline()
	if !ok {
		fmt.Fprintln(&s.b, "  nothing to wait for")
		return s
	}
	d := at.Sub(s.now)
	s.now = at
	return s.do(fmt.Sprintf("%v later", d), Wake{})
}

func (s *tale) later(d time.Duration) *tale { s.now = s.now.Add(d); return s }

func (s *tale) opened(spi wire.SPI) *tale {
	return s.do(fmt.Sprintf("opened %d", spi), Opened{"b", spi})
}

func (s *tale) claimed(spi wire.SPI, ours, contact bool) *tale {
	what := fmt.Sprintf("claimed %d", spi)
	if contact {
		what += " with INITIAL_CONTACT"
	}
	return s.do(what, Claimed{spi, ike.Claim{Connection: "b", Peer: id("gw-b.example"), Initiated: ours, InitialContact: contact}})
}

func (s *tale) up(spi wire.SPI, children ...string) *tale {
	for _, child := range children {
		s.do(fmt.Sprintf("%s up on %d", child, spi), ChildUp{spi, "b", child})
	}
	return s
}

func (s *tale) down(spi wire.SPI, child string) *tale {
	return s.do(fmt.Sprintf("%s down on %d", child, spi), ChildDown{spi, "b", child})
}

func (s *tale) finished(spi wire.SPI, code ike.Code, text string, retry bool) *tale {
	return s.do(fmt.Sprintf("%d ends: %s", spi, code), Finished{spi, ike.Finish{Connection: "b", Code: code, Text: text, Retry: retry}})
}

// begun is a connection that we brought up on IKE SA 1 long ago.
func begun(start policy.Start) *tale {
	return newTale(site("b", start)).do("up", Up{Connection: "b"}).opened(1).claimed(1, true, false).up(1, "lan", "dmz").later(time.Hour)
}

// spoken is an action with all its words.
func spoken(a Action) string {
	s := say(a)
	switch a := a.(type) {
	case Tell:
		if l, ok := a.Event.(ike.Lower); ok {
			s += ": " + l.Why
		}
	case Report:
		s = fmt.Sprintf("%s %s %s: %s", a.Connection, a.Child, a.Code, a.Text)
		if a.Hint != "" {
			s += " | hint: " + a.Hint
		}
	}
	return s
}

// standing is how all connections stand, and when something is due.
func (s *tale) standing() string {
	var list []string
	note := func(name string, n Note) string {
		if n.At == 0 {
			return ""
		}
		return fmt.Sprintf(", %s: %s", name, n.Text)
	}
	for _, c := range s.Status() {
		text := fmt.Sprintf("%s wanted %s", c.Name, c.Wanted)
		if c.Closed {
			text += ", closed"
		}
		if len(c.Serving) > 0 {
			text += fmt.Sprintf(", served by %d", c.Serving)
		}
		if c.Tries > 0 {
			text += fmt.Sprintf(", %d tries", c.Tries)
		}
		if c.NextTry != 0 {
			text += fmt.Sprintf(", again in %v", c.NextTry.Sub(s.now))
		}
		text += note("error", c.LastErr) + note("asked", c.Asked) + note("refused", c.Refused)
		if c.Last != "" {
			text += ", last: " + c.Last
		}
		for _, ch := range c.Children {
			text += fmt.Sprintf(", child %s", ch.Name) + note("error", ch.LastErr)
			if ch.NextTry != 0 {
				text += fmt.Sprintf(" again in %v", ch.NextTry.Sub(s.now))
			}
		}
		list = append(list, text)
	}
	if at, ok := s.Deadline(); ok {
		list = append(list, fmt.Sprintf("due in %v", at.Sub(s.now)))
	}
	return strings.Join(list, "; ")
}

// tales by name.
func tales() map[string]*tale {
	nameless := site("b", policy.StartManual)
	nameless.Remote.Address, nameless.File = netip.Addr{}, "conn.d/b.toml"
	port := func(start policy.Start) *policy.Connection { c := site("b", start); c.Remote.Port = 4500; return c }
	voice := func(start policy.Start, more ...string) *policy.Connection {
		c := site("b", start)
		for _, name := range more {
			c.Children = append(c.Children, &policy.Child{Name: name, Local: ts("10.1.0.0/16"), Remote: ts("10.9.0.0/16")})
		}
		return c
	}
	return map[string]*tale{
		"what is not configured": newTale(site("b", policy.StartManual)).
			do("up c", Up{Connection: "c"}).do("down c", Down{Connection: "c"}).
			do("up b voice", Up{"b", []string{"lan", "voice"}}).do("down b voice", Down{"b", "voice"}).
			do("opened 7 for c", Opened{"c", 7}).do("claimed 8 for c", Claimed{8, ike.Claim{Connection: "c", Peer: id("c")}}).
			do("5 ends", Finished{5, ike.Finish{Connection: "b"}}),
		"only the peer can begin": newTale(nameless).do("up", Up{Connection: "b"}).do("up lan", Up{"b", []string{"lan"}}).claimed(1, false, false).
			do("up", Up{Connection: "b"}).wait().wait().wait().up(1, "lan", "dmz").down(1, "dmz").wait().finished(1, ike.CodeClosed, "closed by the peer", true).wait(),
		"only the peer can begin, and is let in again": newTale(nameless).do("down lan", Down{"b", "lan"}).do("down", Down{Connection: "b"}).claimed(1, false, false).
			finished(1, ike.CodeClosed, "turned away", false).do("up lan", Up{"b", []string{"lan"}}).claimed(2, false, false).do("down dmz", Down{"b", "dmz"}).
			do("up", Up{Connection: "b"}).up(2, "lan").do("down lan", Down{"b", "lan"}).down(2, "lan").wait(),
		"boot, and nobody answers": newTale(site("b", policy.StartBoot)).opened(1).finished(1, ike.CodeNoAnswer, "no answer", true).wait().
			opened(2).finished(2, ike.CodeNoAnswer, "no answer", true).wait().opened(3).finished(3, ike.CodeAuthFailed, "wrong key", true).wait().
			do("no shard", Finished{0, ike.Finish{Connection: "b", Code: ike.CodeInternal, Text: "no shard", Retry: true}}).wait().
			opened(4).claimed(4, true, false).up(4, "lan").finished(4, ike.CodeNoAnswer, "gone", true).wait().
			opened(5).claimed(5, true, false).up(5, "lan", "dmz").later(stable).finished(5, ike.CodeNoAnswer, "gone", true).wait(),
		"manual, and it fails": newTale(site("b", policy.StartManual)).do("up lan", Up{"b", []string{"lan"}}).opened(1).
			finished(1, ike.CodeNoAnswer, "no answer", true).wait().opened(2).finished(2, ike.CodeNoProposal, "no common suite", true).wait(),
		"traffic": newTale(site("b", policy.StartTraffic)).do("packet for lan", Acquire{Connection: "b", Child: "lan"}).do("packet for dmz", Acquire{Connection: "b", Child: "dmz"}).
			opened(1).claimed(1, true, false).up(1, "lan").do("packet for dmz", Acquire{Connection: "b", Child: "dmz"}).later(raiseAgain-1).
			do("packet for dmz", Acquire{Connection: "b", Child: "dmz"}).later(1).do("packet for dmz", Acquire{Connection: "b", Child: "dmz"}).
			finished(1, ike.CodeNoAnswer, "gone", true).do("packet for lan", Acquire{Connection: "b", Child: "lan"}).wait().wait(),
		"a child does not come up": newTale(site("b", policy.StartBoot)).opened(1).claimed(1, true, false).up(1, "lan").
			do("dmz fails", ChildFailed{1, "dmz", "refused"}).wait().wait().wait().up(1, "dmz").wait().down(1, "dmz").wait().wait().
			do("down dmz", Down{"b", "dmz"}).wait().do("up dmz", Up{"b", []string{"dmz"}}),
		"the peer asks for what we have not": begun(policy.StartManual).do("refused", RequestRefused{1, "no child of ours"}).do("refused", RequestRefused{9, "unknown"}).
			do("a caller", CallerRefused{"b", ike.CodeBadIdentity, "203.0.113.1 is not the peer"}).down(1, "lan").up(1, "lan"),
		"taken down": begun(policy.StartBoot).do("down lan", Down{"b", "lan"}).down(1, "lan").do("down", Down{Connection: "b"}).do("down", Down{Connection: "b"}).
			finished(1, ike.CodeClosed, "taken down", false).claimed(2, false, false).wait().do("up", Up{Connection: "b"}).opened(3).claimed(3, true, false).up(3, "lan"),
		"taken down while it begins": newTale(site("b", policy.StartBoot)).do("down", Down{Connection: "b"}).opened(1).finished(1, ike.CodeClosed, "taken down", false),
		"no child":                   newTale(site("b", policy.StartManual)).claimed(1, false, false).wait().finished(1, ike.CodeClosed, "idle", false),
		"the peer begins anew":       begun(policy.StartBoot).claimed(2, false, true).up(2, "lan", "dmz").finished(1, ike.CodeClosed, "begun anew", false).wait(),
		"duplicates": begun(policy.StartBoot).claimed(2, false, false).up(2, "lan").wait().up(2, "dmz").wait().
			finished(2, ike.CodeClosed, "duplicate", false).wait(),
		"ours is the duplicate": newTale(func() *policy.Connection { c := site("b", policy.StartBoot); c.Local.ID = id("gw-z.example"); return c }()).
			opened(1).claimed(1, true, false).up(1, "lan", "dmz").later(time.Minute).claimed(2, false, false).up(2, "lan").wait().wait().wait().up(2, "dmz").wait().
			finished(1, ike.CodeClosed, "duplicate", false),
		"the peer's attempt comes first": newTale(func() *policy.Connection { c := site("b", policy.StartBoot); c.Local.ID = id("gw-z.example"); return c }()).
			opened(1).claimed(2, false, false).finished(1, ike.CodeClosed, "cancelled", false).up(2, "lan", "dmz").wait(),
		"our attempt takes long": newTale(site("b", policy.StartBoot)).opened(1).later(simultaneous).claimed(2, false, false),
		"our attempt is young":   newTale(site("b", policy.StartBoot)).opened(1).later(simultaneous-1).claimed(2, false, false),
		"renewed": begun(policy.StartBoot).do("anew", Reauthenticate{1}).do("anew", Reauthenticate{1}).opened(2).claimed(2, true, false).up(2, "lan").wait().up(2, "dmz").
			do("anew", Reauthenticate{1}).wait().finished(1, ike.CodeClosed, "replaced", false).wait(),
		"renewed in vain":                      begun(policy.StartBoot).do("anew", Reauthenticate{1}).opened(2).finished(2, ike.CodeNoAnswer, "no answer", true).wait(),
		"renewed without a child":              begun(policy.StartManual).down(1, "lan").down(1, "dmz").do("anew", Reauthenticate{1}),
		"rekeyed":                              begun(policy.StartBoot).do("adopted", Adopted{1, 11}).do("adopted", Adopted{5, 6}).finished(11, ike.CodeNoAnswer, "gone", true),
		"reload: removed":                      begun(policy.StartBoot).load().finished(1, ike.CodeClosed, "removed", false),
		"reload: removed and back":             begun(policy.StartBoot).load().load(site("b", policy.StartBoot)).finished(1, ike.CodeClosed, "removed", false).opened(2),
		"reload: removed while it begins":      newTale(site("b", policy.StartBoot)).load().opened(1).finished(1, ike.CodeClosed, "removed", false),
		"reload: changed, boot":                begun(policy.StartBoot).load(port(policy.StartBoot)).finished(1, ike.CodeClosed, "changed", false),
		"reload: changed, traffic":             begun(policy.StartTraffic).do("down", Down{Connection: "b"}).load(port(policy.StartTraffic)),
		"reload: changed, a trap":              newTale(site("b", policy.StartTraffic)).claimed(1, false, false).load(port(policy.StartTraffic)),
		"reload: changed, manual":              newTale(site("b", policy.StartManual)).claimed(1, false, false).load(port(policy.StartManual)),
		"reload: changed, not up":              newTale(site("b", policy.StartManual)).load(port(policy.StartManual)),
		"reload: a child more":                 begun(policy.StartBoot).load(voice(policy.StartBoot, "voice")).up(1, "voice"),
		"reload: children more, manual":        newTale(site("b", policy.StartManual)).claimed(1, false, false).load(voice(policy.StartManual, "voice", "video")),
		"reload: a child more, not up":         newTale(site("b", policy.StartManual)).load(voice(policy.StartManual, "voice")),
		"reload: a child more while it begins": newTale(site("b", policy.StartBoot)).opened(1).load(voice(policy.StartBoot, "voice")).claimed(1, true, false),
		"reload: a child less": newTale(voice(policy.StartManual, "voice")).do("up voice", Up{"b", []string{"voice"}}).do("down lan", Down{"b", "lan"}).
			load(site("b", policy.StartManual)).do("up", Up{Connection: "b"}),
		"crowded": func() *tale {
			s := newTale(site("b", policy.StartManual))
			for spi := range wire.SPI(crowdLimit + 1) {
				s.claimed(spi+1, false, false)
			}
			for spi := range wire.SPI(crowdLimit) {
				s.up(spi+2, "lan")
			}
			return s.claimed(20, false, false)
		}(),
	}
}

// TestWords writes tales down and compares them with testdata/words.txt: with -update it is written anew, to be read.
func TestWords(t *testing.T) {
	all := tales()
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s\n%s\n", name, all[name].b.String())
	}
	file := filepath.Join("testdata", "words.txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(b.String(), "\n"), strings.Split(string(text), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s:%d is not what happens now (go test ./ike/directory -run TestWords -update, then read the difference):\n got %q\nwant %q", file, i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s has %d lines, what happens now %d", file, len(want), len(got))
	}
}
