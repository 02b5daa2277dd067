package ike

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// Payloads by short names, for the tables below.
func payload(name string) wire.Payload {
	switch name {
	case "SA":
		return &wire.SA{Proposals: []wire.Proposal{{Number: 1, Protocol: wire.ProtoESP, SPI: []byte{1, 2, 3, 4}}}}
	case "SAike":
		return &wire.SA{Proposals: []wire.Proposal{{Number: 1, Protocol: wire.ProtoIKE}}}
	case "KE":
		return &wire.KE{Group: 19}
	case "N":
		return &wire.Nonce{Data: make([]byte, 32)}
	case "IDi":
		return wire.NewID(false, wire.IDFQDN, []byte("a"))
	case "IDr":
		return wire.NewID(true, wire.IDFQDN, []byte("b"))
	case "AUTH":
		return &wire.Auth{Method: wire.AuthSharedKey}
	case "TSi":
		return &wire.TS{}
	case "TSr":
		return &wire.TS{Responder: true}
	case "D":
		return &wire.Delete{Protocol: wire.ProtoIKE}
	case "CP":
		return &wire.CP{CfgType: wire.CfgRequest}
	case "EAP":
		return &wire.EAP{}
	case "V":
		return &wire.VendorID{}
	case "status":
		return wire.NewNotify(wire.NotifyNATDetectionSourceIP, nil)
	case "error":
		return wire.NewNotify(wire.NotifyTSUnacceptable, nil)
	case "cookie":
		return wire.NewNotify(wire.NotifyCookie, []byte("c"))
	case "REKEY":
		return wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, 0x1234)
	case "unknown":
		return &wire.Unknown{PayloadType: 200}
	}
	panic(name)
}

func payloads(names string) (ps []wire.Payload) {
	for _, n := range strings.Fields(names) {
		ps = append(ps, payload(n))
	}
	return ps
}

// ruleCases has for each row messages that fit and messages that do not: those are no message of this row, or one with an error.
var ruleCases = map[string]struct{ good, bad []string }{
	"init-request":        {[]string{"SAike KE N", "V N status KE SAike status unknown"}, []string{"KE N", "SAike N", "SAike KE", "SAike KE N N", "SAike SAike KE N", ""}},
	"init-cookie":         {[]string{"cookie", "cookie V"}, []string{"status", "cookie SAike KE N"}},
	"init-error":          {[]string{"error", "status error"}, []string{"status", "cookie error"}},
	"init-response":       {[]string{"SAike KE N", "SAike KE N status status V"}, []string{"SAike KE", "KE N", "SAike N", "SAike KE KE N", "error SAike KE N"}},
	"auth-request":        {[]string{"IDi AUTH SA TSi TSr", "IDi status IDr AUTH SA TSi TSr CP", "IDi SA TSi TSr"}, []string{"AUTH SA TSi TSr", "IDi AUTH TSi TSr", "IDi AUTH SA TSr", "IDi AUTH SA TSi", "IDi IDi AUTH SA TSi TSr", "IDi AUTH AUTH SA TSi TSr"}},
	"auth-error":          {[]string{"error"}, []string{"status", "IDr AUTH error"}},
	"auth-response":       {[]string{"IDr AUTH SA TSi TSr", "IDr AUTH error", "IDr AUTH SA TSi TSr EAP"}, []string{"IDr SA TSi TSr", "AUTH SA TSi TSr", "IDr IDr AUTH", "error", ""}},
	"rekey-ike-request":   {[]string{"SAike N KE", "SAike N KE CP"}, []string{"SAike N", "SAike KE", "SAike N KE KE", "SA N KE"}},
	"rekey-child-request": {[]string{"REKEY SA N TSi TSr", "REKEY SA N KE TSi TSr CP"}, []string{"REKEY N TSi TSr", "REKEY SA TSi TSr", "REKEY SA N TSr", "REKEY SA N TSi", "REKEY SA N N TSi TSr", "SA N TSi TSr"}},
	"child-request":       {[]string{"SA N TSi TSr", "SA N KE TSi TSr status V"}, []string{"N TSi TSr", "SA TSi TSr", "SA N TSr", "SA N TSi", "SA N KE KE TSi TSr", "SA N TSi TSi TSr"}},
	"create-error":        {[]string{"error", "error V"}, []string{"status", "error SA N TSi TSr"}},
	"rekey-ike-response":  {[]string{"SAike N KE", "SAike N KE status V CP", "error SAike N KE"}, []string{"SAike N", "SAike KE", "SAike N KE KE", "SA N KE", "error"}},
	"child-response":      {[]string{"SA N TSi TSr", "SA N KE TSi TSr status", "error SA N TSi TSr"}, []string{"SA N", "N TSi TSr", "SA TSi TSr", "SA N TSi TSr TSr", "error", ""}},
	"info-request":        {[]string{"", "D", "status D D error", "CP"}, []string{"CP CP"}},
	"info-response":       {[]string{"", "D", "status", "KE"}, []string{"CP CP"}},
}

// TestRules: each row takes what fits it, in each of its phases and no other, and nothing else.
func TestRules(t *testing.T) {
	all := []phaseName{phaseOpening, phaseAuthenticating, phaseEstablished, phaseClosing}
	for _, row := range rules() {
		cases := ruleCases[row.name]
		h := wire.Header{Exchange: row.exchange}
		if row.response {
			h.Flags = wire.FlagResponse
		}
		takes := func(phase phaseName, names string) error {
			ps := payloads(names)
			got := ruleFor(h, phase, ps)
			if got == nil || got.name != row.name {
				return fmt.Errorf("not this row")
			}
			_, _, err := got.apply(ps)
			return err
		}
		for _, phase := range all {
			for _, good := range cases.good {
				if err := takes(phase, good); (err == nil) != slices.Contains(row.phases, phase) {
					t.Errorf("%s, %s: %q: %v", row.name, phase, good, err)
				}
			}
		}
		for _, bad := range cases.bad {
			if takes(row.phases[0], bad) == nil {
				t.Errorf("%s: %q is taken", row.name, bad)
			}
		}
		other := h
		other.Flags ^= wire.FlagResponse
		if got := ruleFor(other, row.phases[0], payloads(cases.good[0])); got != nil && got.name == row.name {
			t.Errorf("%s: the other direction is taken", row.name)
		}
	}
}

// TestRulesCounted: each row has both kinds of cases, a story of its own, and no case is without a row.
func TestRulesCounted(t *testing.T) {
	stories := map[string]bool{}
	for _, row := range rules() {
		c, ok := ruleCases[row.name]
		if !ok || len(c.good) == 0 || len(c.bad) == 0 {
			t.Errorf("row %s: %d positive, %d negative cases", row.name, len(c.good), len(c.bad))
		}
		if row.story == "" || stories[row.story] {
			t.Errorf("row %s: story %q", row.name, row.story)
		}
		stories[row.story] = true
	}
	if len(ruleCases) != len(rules()) {
		t.Errorf("%d rows, %d cases", len(rules()), len(ruleCases))
	}
}

// TestStrangePayloads are ignored and named.
func TestStrangePayloads(t *testing.T) {
	row := ruleFor(wire.Header{Exchange: wire.CreateChildSA}, phaseEstablished, payloads("SA N TSi TSr"))
	kept, strange, err := row.apply(payloads("SA EAP N TSi EAP TSr unknown IDi"))
	if err != nil || len(kept) != 4 || fmt.Sprint(strange) != fmt.Sprint([]wire.PayloadType{wire.PayloadEAP, wire.PayloadEAP, wire.PayloadIDi}) {
		t.Errorf("kept %v, strange %v, %v", kept, strange, err)
	}
}

// TestTransitions: each row of the table happens in some life, and no life has others (those give CodeInternal, which the harness refuses).
func TestTransitions(t *testing.T) {
	told := map[string]bool{}
	note := func(n *network) {
		for _, h := range []*host{n.a, n.b} {
			for _, r := range h.reports {
				if r.Code == CodePhase {
					told[r.Text] = true
				}
			}
		}
	}
	n := newPair(t, setup{}) // a whole life
	n.up()
	n.a.step(Lower{})
	n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
	note(n)
	n = newPair(t, setup{}) // both rekey the IKE SA at once
	n.up()
	n.a.rekeyIKE()
	n.b.rekeyIKE()
	n.run(time.Minute, nil)
	note(n)
	n = newPair(t, setup{pskB: "another one, and long enough"}) // refused
	n.fails()
	n.run(time.Minute, func() bool { return n.b.finish != nil })
	note(n)
	n = newPair(t, setup{}) // silence
	n.hook = func(datagram) []datagram { return nil }
	n.fails()
	note(n)
	n = newPair(t, setup{}) // the initiator refuses
	n.tamper(func(o *opened) bool {
		if a, ok := wire.Find[*wire.Auth](o.ps); ok && o.is(wire.IKEAuth, true) {
			a.Data[0] ^= 1
			return true
		}
		return false
	})
	n.a.step(Initiate{})
	n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
	note(n)
	for _, tr := range transitions() {
		if !told[tr.story] {
			t.Errorf("from %s to %s (%s) never happened", tr.from, tr.to, tr.why)
		}
	}
	if _, ok := storyOf(phaseOpening, phaseEstablished, "peer proved"); ok {
		t.Error("established without authentication")
	}
}
