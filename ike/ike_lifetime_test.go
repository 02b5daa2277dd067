package ike

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// lives is a pair whose connections have further keys: "rekey_time = "10m"".
func lives(a, b string) setup {
	put := func(s, keys string) string { return strings.Replace(s, "\n\n", "\n"+keys+"\n\n", 1) }
	return setup{a: put(gwA, a), b: put(gwB, b)}
}

// reports counts those of a code.
func (h *host) reportsOf(code Code) (count int) {
	for _, r := range h.reports {
		if r.Code == code {
			count++
		}
	}
	return count
}

// TestIKELifetime: the IKE SA is rekeyed in time, again and again, a tenth earlier at most, and by the side whose time is shorter.
func TestIKELifetime(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{`rekey_time = "10m"`, `rekey_time = "0"`},
		{`rekey_time = "0"`, `rekey_time = "10m"`},
		{`rekey_time = "10m"`, `rekey_time = "10m"`},
		{`rekey_time = "20m"`, `rekey_time = "10m"`},
	} {
		t.Run(c.a+c.b, func(t *testing.T) {
			n := newPair(t, lives(c.a, c.b))
			n.up()
			n.run(8*time.Minute, nil)
			if got := n.a.reportsOf(CodeIKERekeyed); got != 0 {
				t.Errorf("%d rekeys in eight minutes", got)
			}
			n.run(53*time.Minute, nil)
			n.one(1)
			if got := n.a.reportsOf(CodeIKERekeyed); got < 5 || got > 7 {
				t.Errorf("%d rekeys in an hour", got)
			}
		})
	}
}

// TestIKELifetimeOver: a rekey that the peer refuses is tried again and told; when the hard limit comes the IKE SA is closed and built anew.
func TestIKELifetimeOver(t *testing.T) {
	n := newPair(t, lives(`rekey_time = "10m"`, `rekey_time = "0"`))
	n.up()
	tries := 0
	n.tamper(func(o *opened) bool {
		if o.is(wire.CreateChildSA, true) {
			tries++
			o.ps = []wire.Payload{wire.NewNotify(wire.NotifyNoProposalChosen, nil)}
			return true
		}
		if sa, ok := wire.Find[*wire.SA](o.ps); ok && o.is(wire.CreateChildSA, false) { // b does not understand it
			sa.Proposals[0].Transforms[0].ID = 999
			return true
		}
		return false
	})
	start := n.now
	n.run(30*time.Minute, func() bool { return n.a.finish != nil })
	n.a.wants(CodeNoProposal, "accepts none of our proposals for a rekey", "conn.d/test.toml")
	n.a.wants(CodeExpired, "could not be rekeyed")
	if got := n.now.Sub(start).Round(10 * time.Second); n.a.finish == nil || !n.a.finish.Retry || n.a.finish.Code != CodeExpired || got != 11*time.Minute {
		t.Errorf("after %v: %v", got, n.a.finish)
	}
	if tries < 3 || tries > 60 {
		t.Errorf("%d tries", tries)
	}
	n.run(time.Minute, func() bool { return n.b.finish != nil })
	n.empty()
}

// TestIKERekeyGroup: the peer's group is not our first one: one more round, and the right one at once the next time.
func TestIKERekeyGroup(t *testing.T) {
	n := newPair(t, setup{a: strings.Replace(gwA, "ecp256", "ecp384-ecp256", 1)})
	n.up()
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	n.one(1)
	if s := n.a.sa.Status(); !strings.Contains(s.Suite, "ECP-256") {
		t.Errorf("suite %s", s.Suite)
	}
}

// TestIKERekeyBadAnswers: what cannot be used as an answer ends the IKE SA, and is built anew.
func TestIKERekeyBadAnswers(t *testing.T) {
	for name, spoil := range map[string]func(ps []wire.Payload) []wire.Payload{
		"SPI zero":   func(ps []wire.Payload) []wire.Payload { clear(ps[0].(*wire.SA).Proposals[0].SPI); return ps },
		"no SPI":     func(ps []wire.Payload) []wire.Payload { ps[0].(*wire.SA).Proposals[0].SPI = nil; return ps },
		"group":      func(ps []wire.Payload) []wire.Payload { ps[2].(*wire.KE).Group = wire.GroupECP384; return ps },
		"public key": func(ps []wire.Payload) []wire.Payload { clear(ps[2].(*wire.KE).Data); return ps },
		"transform": func(ps []wire.Payload) []wire.Payload {
			ps[0].(*wire.SA).Proposals[0].Transforms[0].KeyBits = 128
			return ps
		},
		"no KE": func(ps []wire.Payload) []wire.Payload { return ps[:2] },
		"child": func(ps []wire.Payload) []wire.Payload {
			sa := &wire.SA{Proposals: []wire.Proposal{{Number: 1, Protocol: wire.ProtoESP, SPI: []byte{1, 2, 3, 4}, Transforms: []wire.Transform{{Type: wire.TransformESN}}}}}
			ts := policy.WireTS([]policy.TS{packetTS(addrA, 0, xfrm.Ports{})})
			return []wire.Payload{sa, ps[1], &wire.TS{Selectors: ts}, &wire.TS{Responder: true, Selectors: ts}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPair(t, setup{})
			n.up()
			n.tamper(func(o *opened) bool {
				if o.is(wire.CreateChildSA, true) {
					o.ps = spoil(o.ps)
					return true
				}
				return false
			})
			n.a.rekeyIKE()
			n.run(5*time.Minute, func() bool { return n.a.finish != nil })
			if n.a.finish == nil || !n.a.finish.Retry {
				t.Errorf("finish %v", n.a.finish)
			}
			n.run(10*time.Minute, nil)
			if len(n.a.others)+len(n.b.others) > 0 || n.b.finish == nil {
				t.Errorf("a has %d further, b %d, finish %v", len(n.a.others), len(n.b.others), n.b.finish)
			}
		})
	}
}

// TestIKELowerDuringRekey: a rekey that is on its way does not hold up the end, nor does it leave the peer with anything.
func TestIKELowerDuringRekey(t *testing.T) {
	for _, who := range []string{"a", "b"} {
		for _, d := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 13 * time.Millisecond, 18 * time.Millisecond, 25 * time.Millisecond, 40 * time.Millisecond} {
			t.Run(fmt.Sprint(who, d), func(t *testing.T) {
				n := newPair(t, setup{})
				n.up()
				n.a.rekeyIKE()
				n.run(d, nil)
				start := n.now
				n.side(who).step(Lower{})
				n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
				if got := n.now.Sub(start); got > 2*time.Second { // a Delete may come before its receiver has computed the keys of the new IKE SA
					t.Errorf("it took %v", got)
				}
				n.run(5*time.Minute, nil)
				n.empty()
				if len(n.a.others)+len(n.b.others) > 0 {
					t.Error("an IKE SA is left")
				}
			})
		}
	}
}

// TestIKELowerDuringRekeyUnanswered: when the rekey gets no answer the end waits five seconds for it.
func TestIKELowerDuringRekeyUnanswered(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.hook = func(datagram) []datagram { return nil }
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	start := n.now
	n.a.step(Lower{})
	n.a.step(Lower{})
	n.run(time.Minute, func() bool { return n.a.finish != nil })
	if got := n.now.Sub(start); n.a.finish == nil || n.a.finish.Retry || got > 12*time.Second {
		t.Errorf("after %v: %v", got, n.a.finish)
	}
}

// TestIKERekeyWaitsForBatch: children are handed over when the data plane has answered, not in between.
func TestIKERekeyWaitsForBatch(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for _, who := range []string{"a", "b"} {
		h := n.side(who)
		n.a.rekeyIKE()
		n.run(12*time.Millisecond, nil) // the request has arrived
		if who == "a" {
			n.run(12*time.Millisecond, nil)
		}
		c := h.sa.children[0]
		h.sa.next.batches++ // a batch is on its way
		sa := h.sa
		n.run(time.Second, nil)
		if h.sa != sa || len(sa.children) != 1 || sa.children[0] != c {
			t.Fatalf("%s: handed over with a batch on its way", who)
		}
		sa.next.batches--
		n.run(10*time.Second, nil)
		n.one(1)
	}
}

// TestReauth: the IKE SA asks in time for another beside it, and again when that does not come, and ends at the limit.
func TestReauth(t *testing.T) {
	n := newPair(t, lives(`reauth_time = "1h"`, ""))
	n.up()
	start := n.now
	n.run(2*time.Hour, func() bool { return len(n.a.reauth) > 0 })
	if got := n.now.Sub(start); got < 54*time.Minute || got > time.Hour || n.a.reauth[0].Connection != "site-b" {
		t.Errorf("after %v: %+v", got, n.a.reauth)
	}
	n.a.wants(CodeReauth, "authenticating anew")
	n.run(time.Hour, func() bool { return n.a.finish != nil })
	if got := n.now.Sub(start).Round(10 * time.Second); n.a.finish == nil || n.a.finish.Code != CodeExpired || !n.a.finish.Retry || got != 66*time.Minute || len(n.a.reauth) < 4 {
		t.Errorf("after %v, %d times asked: %v", got, len(n.a.reauth), n.a.finish)
	}
}

// TestTrap_7296_58_Reauthentication: it goes without REKEY_SA and INITIAL_CONTACT; here: a machine made beside another with InitialContact unset sends neither.
func TestTrap_7296_58_Reauthentication(t *testing.T) {
	n := newPair(t, lives(`reauth_time = "1h"`, ""))
	n.tamper(func(o *opened) bool {
		if o.Exchange == wire.IKEAuth && (len(notifies(o.ps, wire.NotifyInitialContact)) > 0 || len(notifies(o.ps, wire.NotifyRekeySA)) > 0) {
			t.Error("INITIAL_CONTACT or REKEY_SA")
		}
		return false
	})
	n.up()
	n.run(2*time.Hour, func() bool { return len(n.a.reauth) > 0 })
	if !n.a.sa.Established() || n.a.children() != 1 {
		t.Error("the old IKE SA went before the new one is there")
	}
}

// TestTrap_4478_1_AuthLifetime: the responder says how long in IKE_AUTH, or later; the initiator authenticates anew in time, 0 is now; a rekey changes
// nothing about it.
func TestTrap_4478_1_AuthLifetime(t *testing.T) {
	t.Run("in IKE_AUTH", func(t *testing.T) {
		n := newPair(t, lives("", `reauth_time = "1h"`))
		seconds := uint32(0)
		n.tamper(func(o *opened) bool {
			if ns := notifies(o.ps, wire.NotifyAuthLifetime); o.is(wire.IKEAuth, true) && len(ns) == 1 && len(ns[0].Data) == 4 {
				seconds = binary.BigEndian.Uint32(ns[0].Data)
			}
			return false
		})
		n.up()
		start := n.now
		if seconds != 3600 {
			t.Errorf("AUTH_LIFETIME %d", seconds)
		}
		n.run(30*time.Minute, nil)
		n.b.rekeyIKE()
		n.run(time.Second, nil)
		n.one(1)
		n.run(2*time.Hour, func() bool { return len(n.a.reauth) > 0 })
		if got := n.now.Sub(start); got < 45*time.Minute || got > time.Hour || len(n.b.reauth) > 0 {
			t.Errorf("a asks after %v, b %d times", got, len(n.b.reauth))
		}
		// a cannot: b waits a little and acts itself, and ends the IKE SA when that leads nowhere.
		n.run(time.Hour, func() bool { return len(n.b.reauth) > 0 })
		if got := n.now.Sub(start); got < time.Hour || got > 63*time.Minute {
			t.Errorf("b asks after %v", got)
		}
		n.run(time.Hour, func() bool { return n.b.finish != nil })
		n.b.wants(CodeExpired, "not authenticated anew")
	})
	for _, c := range []struct {
		name string
		data []byte
		to   string
		want bool
	}{
		{"now", []byte{0, 0, 0, 0}, "a", true},
		{"soon", []byte{0, 0, 0, 100}, "a", true},
		{"short data", []byte{0, 0, 0}, "a", false},
		{"to the responder", []byte{0, 0, 0, 0}, "b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newPair(t, setup{})
			n.up()
			n.run(20*time.Second, nil)
			from, to := n.b, n.a
			if c.to == "b" {
				from, to = n.a, n.b
			}
			answer := from.ask(wire.Informational, wire.NewNotify(wire.NotifyAuthLifetime, c.data))
			if answer == nil || len(answer) != 0 {
				t.Errorf("answer %v", answer)
			}
			limit := time.Second
			if c.name == "soon" {
				limit = 100 * time.Second
			}
			n.run(limit, nil)
			if (len(to.reauth) > 0) != c.want {
				t.Errorf("%d requests", len(to.reauth))
			}
		})
	}
}

// TestAuthLifetimeBound: a peer that says 0 at once and ever again does not make us authenticate without end.
func TestAuthLifetimeBound(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for range 5 {
		n.b.ask(wire.Informational, wire.NewNotify(wire.NotifyAuthLifetime, make([]byte, 4)))
	}
	if len(n.a.reauth) != 0 {
		t.Error("at once")
	}
	n.run(11*time.Second, nil)
	if len(n.a.reauth) != 1 {
		t.Errorf("%d requests", len(n.a.reauth))
	}
}
