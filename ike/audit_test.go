package ike

import (
	"fmt"
	"strings"
	"testing"

	"cygnet/ike/suite"
	"cygnet/xfrm/alg"
)

// This file looks at every machine of every test after every turn: nothing that is due is forgotten, and no key outlives its use.

// due is something that a machine must be woken for.
type due struct {
	what string
	at   Time
}

// dues lists what a machine waits for, each from the field that holds it.
func dues(sa *SA) (list []due) {
	add := func(what string, at Time, ok bool) {
		if ok {
			list = append(list, due{what, at})
		}
	}
	at, ok := sa.phase.deadline()
	add("the end of the phase", at, ok)
	add("a repeat", sa.requests.due, sa.requests.waiting())
	at, ok = sa.initDue()
	add("an unproved refusal", at, ok)
	at, ok = sa.keepaliveDue()
	add("a keepalive", at, ok)
	at, ok = sa.livenessDue()
	add("liveness", at, ok)
	at, ok = sa.endDue()
	add("an end that waits for a rekey", at, ok)
	if sa.contact != nil {
		add("an installation that waits", sa.contact.at, true)
	}
	for _, p := range sa.postponed {
		add("postponed "+p.x.name(), p.at, true)
	}
	for _, f := range sa.fading {
		add("an inbound SA of a child that is gone", f.at, true)
	}
	established := sa.phase.name() == phaseEstablished
	for _, c := range sa.children {
		add("the outbound SA of a child", c.outboundDue, c.outboundDue != 0 && c.in == installed && c.out == absent && !c.deleting)
		add("the end of a surplus child", c.surplus, c.surplus != 0)
		add("the rekey of a child", c.rekeyAt, c.rekeyAt != 0 && established && !c.deleting)
		add("the end of a child", c.endAt, c.endAt != 0 && established && !c.deleting)
	}
	if l := sa.life; established {
		add("the end of a heir that did not inherit", sa.next.pending, sa.next.pending != 0)
		heir := sa.next.pending != 0 // has no lifetime of its own yet
		add("the rekey of the IKE SA", l.rekey, l.rekey != 0 && !heir)
		add("the end of the IKE SA", l.over, l.over != 0 && !heir)
		add("reauthentication", l.reauth, l.reauth != 0 && !heir)
		add("the end without reauthentication", l.reauthOver, l.reauthOver != 0 && !heir)
	}
	return list
}

// audit looks at a machine after a turn.
func (h *host) audit(sa *SA) {
	h.t.Helper()
	if sa.finished {
		return
	}
	deadline, ok := sa.Deadline()
	for _, d := range dues(sa) {
		if !ok || deadline > d.at {
			h.t.Errorf("%s: %s is due at %v, the deadline is %v (%v)", h.name, d.what, d.at, deadline, ok)
		}
	}
	h.net.keepIKE(sa.keys)
	h.net.keepPlain(sa.requests.message)
	h.net.keepPlain(sa.responses.answer)
	h.net.keepParts(sa.requests.parts.parts)
	h.net.keepParts(sa.responses.parts.parts)
	for _, c := range sa.children {
		if c.keys == nil {
			continue
		}
		h.net.keepChild(c.keys)
		if c.out == installed && !wiped(childSecrets(c.keys)...) {
			h.t.Errorf("%s: both SAs of child %s are installed and its keys are still here", h.name, c.spiText())
		}
	}
}

// kept is key material that was seen, by the pointer or the octets that hold it.
type kept struct {
	ike      map[*suite.Keys]bool
	child    map[*suite.ChildKeys]bool
	halves   map[*suite.KeyExchange]bool
	secrets  []alg.Secret // that came without a holder
	plain    map[*byte][]byte
	machines map[*SA]bool
}

func (n *network) keepIKE(k *suite.Keys) {
	if k != nil {
		n.kept.ike[k] = true
	}
}

func (n *network) keepChild(k *suite.ChildKeys) { n.kept.child[k] = true }

// keepPlain notes what a message says before it is encrypted.
func (n *network) keepPlain(m *outgoing) {
	if m != nil && len(m.plain) > 0 {
		n.kept.plain[&m.plain[0]] = m.plain
	}
}

// keepParts notes what the fragments say that wait for others.
func (n *network) keepParts(parts [][]byte) {
	for _, p := range parts {
		if len(p) > 0 {
			n.kept.plain[&p[0]] = p
		}
	}
}

// keepResult notes the secrets that a job hands to a machine.
func (n *network) keepResult(result any) {
	pair := func(k keyPair) {
		if k.kx != nil {
			n.kept.halves[k.kx] = true
		}
		n.kept.secrets = append(n.kept.secrets, k.shared)
	}
	switch k := result.(type) {
	case keyPair:
		pair(k)
	case *rekeyKeys:
		pair(k.keyPair)
		n.keepIKE(k.keys)
	}
}

// audited has the end of a test end all machines, after which no key that was ever seen may be left.
func (n *network) audited() {
	n.kept = kept{map[*suite.Keys]bool{}, map[*suite.ChildKeys]bool{}, map[*suite.KeyExchange]bool{}, nil, map[*byte][]byte{}, map[*SA]bool{}}
	t, ok := n.t.(*testing.T)
	if !ok {
		return
	}
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		for sa := range n.kept.machines {
			var out Actions
			sa.Step(n.now, Lower{Silent: true}, &out)
			if !sa.finished {
				t.Errorf("a machine that is %s goes on after a silent end", sa.phase.name())
			}
		}
		if left := n.kept.left(); len(left) > 0 {
			t.Errorf("all machines have ended and these keys are left: %s", strings.Join(left, ", "))
		}
	})
}

// left describes what was not wiped.
func (k kept) left() (list []string) {
	for x := range k.ike {
		if !wiped(x.D, x.Ai, x.Ar, x.Ei, x.Er, x.Pi, x.Pr) {
			list = append(list, "keys of an IKE SA")
		}
	}
	for x := range k.child {
		if !wiped(childSecrets(x)...) {
			list = append(list, "keys of a child")
		}
	}
	for x := range k.halves {
		if _, err := x.Shared(nil); err == nil || !strings.Contains(err.Error(), "gone") {
			list = append(list, fmt.Sprintf("a private value of group %d", x.Group()))
		}
	}
	if !wiped(k.secrets...) {
		list = append(list, "a shared secret")
	}
	for _, b := range k.plain {
		if !wiped(alg.NewSecret(b)) {
			list = append(list, "what a message says")
		}
	}
	return list
}

func childSecrets(k *suite.ChildKeys) []alg.Secret {
	return []alg.Secret{k.EncrI2R, k.IntegI2R, k.EncrR2I, k.IntegR2I}
}

// wiped reports whether all octets are zero.
func wiped(secrets ...alg.Secret) bool {
	for _, s := range secrets {
		for _, b := range s.Bytes() {
			if b != 0 {
				return false
			}
		}
	}
	return true
}
