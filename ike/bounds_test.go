package ike

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// This file holds every bound at its exact edge: as often as allowed, and not once more.

// TestInstallTries: an SPI that is always taken is drawn three times in all, by either end, and then the person hears why.
func TestInstallTries(t *testing.T) {
	for _, side := range []string{"a", "b"} {
		n := newPair(t, setup{})
		h := n.a
		if side == "b" {
			h = n.b
		}
		tries := map[xfrm.SAID]bool{}
		h.plane.fail = func(op xfrm.Op) error {
			if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.In {
				tries[add.SA.ID] = true
				return xfrm.ErrExists
			}
			return nil
		}
		n.a.step(Initiate{})
		n.run(time.Minute, nil)
		if len(tries) != maxInstalls {
			t.Errorf("%s drew %d SPIs, want %d", side, len(tries), maxInstalls)
		}
		h.wants(CodeDataplane, "the data plane refused: ", "SA exists already")
		n.empty()
	}
}

// TestContactTries: an installation that waits for an older IKE SA of the peer to go waits five times 100 ms, and not for ever.
func TestContactTries(t *testing.T) {
	n := newPair(t, setup{})
	n.a.config.InitialContact = true
	n.a.sa = NewInitiator(n.a.config, n.a.config.Snapshot.Connections[0])
	var times []Time
	n.b.plane.fail = func(op xfrm.Op) error {
		if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.Out {
			times = append(times, n.now)
			return &xfrm.HeldError{}
		}
		return nil
	}
	n.a.step(Initiate{})
	n.run(10*time.Second, nil)
	if len(times) != contactTries {
		t.Fatalf("%d tries, want %d", len(times), contactTries)
	}
	for i, at := range times[1:] {
		if pause := at.Sub(times[i]); pause < contactDelay || pause > contactDelay+10*time.Millisecond {
			t.Errorf("try %d came after %v", i+2, pause)
		}
	}
	n.b.wants(CodeDataplane, "the data plane refused: ")
}

// TestContactEndsFirst: the machine ends while an installation waits.
func TestContactEndsFirst(t *testing.T) {
	n := newPair(t, setup{})
	n.a.config.InitialContact = true
	n.a.sa = NewInitiator(n.a.config, n.a.config.Snapshot.Connections[0])
	n.b.plane.fail = func(op xfrm.Op) error {
		if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.Out {
			return &xfrm.HeldError{}
		}
		return nil
	}
	n.a.step(Initiate{})
	if !n.run(10*time.Second, func() bool { return n.b.sa != nil && n.b.sa.contact != nil }) {
		t.Fatal("nothing waits")
	}
	n.b.step(Lower{})
	n.run(time.Minute, nil)
	if n.b.finish == nil {
		t.Error("b goes on")
	}
	n.empty()
}

// groups of the machines' offers, more than will ever be tried.
const manyGroups = "ecp256-ecp384-ecp521-x25519-modp2048-modp3072"

// spoilGroups has each answer to a CREATE_CHILD_SA replaced by INVALID_KE_PAYLOAD for a group that was not tried yet.
func (n *network) spoilGroups() (tried *[]wire.GroupID) {
	tried = new([]wire.GroupID)
	n.tamper(func(o *opened) bool {
		if ke, ok := wire.Find[*wire.KE](o.ps); ok && o.is(wire.CreateChildSA, false) && !slices.Contains(*tried, ke.Group) {
			*tried = append(*tried, ke.Group)
		}
		if !o.is(wire.CreateChildSA, true) {
			return false
		}
		o.ps = []wire.Payload{otherGroup(*tried)}
		return true
	})
	return tried
}

// wantOtherGroups is a peer that answers each IKE_SA_INIT request by INVALID_KE_PAYLOAD for a group that was not tried yet.
func (n *network) wantOtherGroups() (tried *[]wire.GroupID) {
	tried = new([]wire.GroupID)
	n.hook = func(d datagram) []datagram {
		m, err := wire.Decode(d.data)
		if err != nil || d.from.Addr() != addrA {
			return nil
		}
		ke, _ := wire.Find[*wire.KE](m.Payloads)
		if !slices.Contains(*tried, ke.Group) {
			*tried = append(*tried, ke.Group)
		}
		h := m.Header
		h.Flags = wire.FlagResponse
		return []datagram{{apB, apA, encode(n.t, &wire.Message{Header: h, Payloads: []wire.Payload{otherGroup(*tried)}})}}
	}
	return tried
}

// otherGroup is INVALID_KE_PAYLOAD for the first group that is not among those that were tried.
func otherGroup(tried []wire.GroupID) wire.Payload {
	for _, g := range []wire.GroupID{wire.GroupECP256, wire.GroupECP384, wire.GroupECP521, wire.GroupX25519, wire.GroupMODP2048, wire.GroupMODP3072} {
		if !slices.Contains(tried, g) {
			return wire.NewNotify(wire.NotifyInvalidKEPayload, []byte{byte(g >> 8), byte(g)})
		}
	}
	panic("all were tried")
}

// TestGroupTries: a peer that always wants another group is followed four times in all, in each exchange that has a key.
func TestGroupTries(t *testing.T) {
	many := setup{
		a: strings.Replace(gwA, "aes256gcm16-prfsha256-ecp256", "aes256gcm16-prfsha256-"+manyGroups, 1) + `esp = "aes256gcm16-` + manyGroups + "\"\n",
		b: strings.Replace(gwB, "aes256gcm16-prfsha256-ecp256", "aes256gcm16-prfsha256-"+manyGroups, 1) + `esp = "aes256gcm16-` + manyGroups + "\"\n",
	}
	t.Run("IKE_SA_INIT", func(t *testing.T) {
		n := newPair(t, many)
		tried := n.wantOtherGroups()
		n.a.step(Initiate{})
		n.run(2*time.Minute, func() bool { return n.a.finish != nil })
		if len(*tried) != maxGroups {
			t.Errorf("tried %v", *tried)
		}
		n.a.wants(CodePeerError, "198.51.100.7:500 wants a key of MODP-2048 (INVALID_KE_PAYLOAD) after keys of ECP-256, ECP-384, ECP-521, X25519: ")
		n.a.wants(CodeIgnored, "the peer wants ECP-384 in place of ECP-256")
	})
	t.Run("child", func(t *testing.T) {
		n := newPair(t, many)
		n.up()
		tried := n.spoilGroups()
		n.a.step(Rekey{})
		n.run(time.Second, nil)
		if len(*tried) != maxGroups {
			t.Errorf("tried %v", *tried)
		}
		n.a.wants(CodePeerError, "not rekeyed: the peer refuses the child: INVALID_KE_PAYLOAD; the old keys stay in use")
	})
	t.Run("IKE SA", func(t *testing.T) {
		n := newPair(t, many)
		n.up()
		tried := n.spoilGroups()
		n.a.rekeyIKE()
		n.run(time.Second, nil)
		if len(*tried) != maxGroups {
			t.Errorf("tried %v", *tried)
		}
		n.a.wants(CodePeerError, "the peer refuses to rekey the IKE SA: INVALID_KE_PAYLOAD")
	})
}

// TestCookieTries: three cookies are brought back, a fourth is not; one is 1 to 64 octets long (RFC 7296 section 2.6).
func TestCookieTries(t *testing.T) {
	for _, length := range []int{0, 1, 64, 65} {
		n := newPair(t, setup{})
		asked := 0
		n.hook = func(d datagram) []datagram {
			m, err := wire.Decode(d.data)
			if err != nil || d.from.Addr() != addrA || m.Exchange != wire.IKESAInit {
				return nil
			}
			if _, found := wire.FindNotify(m.Payloads, wire.NotifyCookie); found || asked == 0 {
				asked++
			}
			cookie := make([]byte, length)
			if length > 0 {
				cookie[0] = byte(asked)
			}
			h := m.Header
			h.Flags = wire.FlagResponse
			return []datagram{{apB, apA, encode(t, &wire.Message{Header: h, Payloads: []wire.Payload{wire.NewNotify(wire.NotifyCookie, cookie)}})}}
		}
		n.a.step(Initiate{})
		n.run(500*time.Millisecond, nil)
		want := 1 + maxCookies
		if length < 1 || length > 64 {
			want = 1
		}
		if asked != want {
			t.Errorf("cookies of %d octets: asked %d times, want %d", length, asked, want)
		}
		n.a.wants(CodeIgnored, fmt.Sprintf("a COOKIE of %d octets from 198.51.100.7:500", length))
	}
}

// TestNonceLengths: a nonce is at least half as long as the PRF's key (RFC 7296 section 2.10), from either side and in each exchange of an IKE SA.
func TestNonceLengths(t *testing.T) {
	cut := func(n *network, x wire.ExchangeType, response bool, length int) {
		n.tamper(func(o *opened) bool {
			nonce, ok := wire.Find[*wire.Nonce](o.ps)
			if ok && o.is(x, response) {
				nonce.Data = nonce.Data[:length]
			}
			return ok && o.is(x, response)
		})
	}
	sha512 := setup{a: strings.Replace(gwA, "prfsha256", "prfsha512", 1), b: strings.Replace(gwB, "prfsha256", "prfsha512", 1)}
	for length, ok := range map[int]bool{31: false, 32: true} { // half of 64
		n := newPair(t, sha512)
		cut(n, wire.IKESAInit, false, length)
		n.a.step(Initiate{})
		n.run(500*time.Millisecond, nil)
		if (n.b.sa != nil) != ok {
			t.Errorf("Ni of %d octets: b has an IKE SA: %v", length, !ok)
		}
		n = newPair(t, sha512)
		cut(n, wire.IKESAInit, true, length)
		n.a.step(Initiate{})
		n.run(500*time.Millisecond, nil)
		if (n.a.sa.protect != nil) != ok {
			t.Errorf("Nr of %d octets: a has keys: %v", length, !ok)
		}
		n = newPair(t, sha512)
		n.up()
		cut(n, wire.CreateChildSA, false, length)
		n.a.rekeyIKE()
		n.run(time.Second, nil)
		if (n.b.said(CodeProtocol) != nil) == ok {
			t.Errorf("Ni of %d octets in a rekey: refused: %v", length, ok)
		}
		n = newPair(t, sha512)
		n.up()
		cut(n, wire.CreateChildSA, true, length)
		n.a.rekeyIKE()
		n.run(time.Second, nil)
		if r := n.a.said(CodeProtocol); (r != nil) == ok {
			t.Errorf("Nr of %d octets in a rekey: refused: %v", length, ok)
		} else if !ok && r.Text != "the peer's nonce has 31 octets, too short for the PRF" {
			t.Errorf("said %q", r.Text)
		}
	}
}

// TestChildrenBound: 8 and 4 for each configured child.
func TestChildrenBound(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for i := uint32(1); ; i++ {
		answer := n.a.ask(wire.CreateChildSA, n.a.offer(0x7000+i)...)
		if has(answer, wire.PayloadSA) {
			continue
		}
		if !notified(answer, wire.NotifyNoAdditionalSAs) || i != 12 || len(n.b.sa.children) != 12 {
			t.Errorf("request %d, with %d children: %v", i, len(n.b.sa.children), answer)
		}
		break
	}
	n.b.wants(CodePeerError, "the peer wants a further child and has 12")
}

// TestNoiseGrowsSlowly: what anyone can send is told the 1st, 2nd, 4th, 8th time.
func TestNoiseGrowsSlowly(t *testing.T) {
	n := newPair(t, setup{})
	var out Actions
	n.a.sa.out = &out
	for range 9 {
		n.a.sa.noise("%d octets", 5)
	}
	var got []string
	for _, x := range out.List {
		got = append(got, x.(Report).Text)
	}
	want := []string{}
	for _, k := range []int{1, 2, 4, 8} {
		want = append(want, fmt.Sprintf("5 octets (unauthentic messages so far: %d)", k))
	}
	if !slices.Equal(got, want) {
		t.Errorf("said %q", got)
	}
}

// TestScheduleDefaults: a configuration without liveness values still has a schedule, and values that it has count.
func TestScheduleDefaults(t *testing.T) {
	usual := schedule{policy.DefaultLivenessTimeout, policy.DefaultLivenessFactor, policy.DefaultLivenessTries}
	for _, c := range []struct {
		conn *policy.Connection
		want schedule
	}{
		{nil, usual},
		{&policy.Connection{}, usual},
		{&policy.Connection{Liveness: policy.Liveness{Timeout: -1, Factor: 0.9, Tries: -1}}, usual},
		{&policy.Connection{Liveness: policy.Liveness{Timeout: 1, Factor: 1, Tries: 1}}, schedule{1, 1, 1}},
	} {
		if got := (&SA{conn: c.conn}).fullSchedule(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.conn, got, c.want)
		}
	}
}

// TestPauses: each pause between two tries at its edges.
func TestPauses(t *testing.T) {
	sa := &SA{now: Time(time.Hour)}
	for left, want := range map[time.Duration]time.Duration{
		time.Second: renewSoonest, 4 * time.Second: time.Second, 8 * time.Second: 2 * time.Second, 2 * time.Minute: 30 * time.Second, time.Hour: renewLatest,
	} {
		if got := sa.again(sa.now.Add(left)); got != want {
			t.Errorf("%v are left: again in %v, want %v", left, got, want)
		}
	}
	if got := sa.again(0); got != renewLatest {
		t.Errorf("no end: again in %v", got)
	}
	for q, want := range map[quiet]time.Duration{{}: quietLimit, {pause: time.Second}: quietLimit, {pause: 20 * time.Second}: 20 * time.Second, {pause: time.Minute}: 30 * time.Second} {
		if got := q.wait(30 * time.Second); got != want {
			t.Errorf("%v: %v, want %v", q.pause, got, want)
		}
	}
	if got := (&quiet{}).wait(time.Second); got != time.Second {
		t.Errorf("idle after 1 s: %v", got)
	}
}

// TestDurations as people read them.
func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 999 * time.Millisecond: "999 ms", time.Second: "1.0 s", 9900 * time.Millisecond: "9.9 s", 10 * time.Second: "10 s", 90 * time.Second: "90 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 10 * time.Second: "10s", time.Minute: "1m", 59*time.Minute + 30*time.Second: "59m30s", time.Hour: "1h", time.Hour + 6*time.Minute: "1h6m",
	} {
		if got := span(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
}

// TestNoRandomness ends the machine by a panic that says why, and draws nothing weaker.
func TestNoRandomness(t *testing.T) {
	n := newPair(t, setup{})
	n.a.sa.config.Rand = strings.NewReader("too short")
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, errNoRandomness) {
			t.Errorf("panic %v", err)
		}
		n.a.sa = nil
	}()
	n.a.sa.draw(10)
	t.Error("drew from nothing")
}

// TestBusyLimits: TEMPORARY_FAILURE is borne for three minutes, to the nanosecond, of a child and of the IKE SA.
func TestBusyLimits(t *testing.T) {
	for _, since := range []time.Duration{temporaryLimit - 1, temporaryLimit} {
		for _, whole := range []bool{false, true} {
			n := newPair(t, setup{})
			n.up()
			sa := n.a.sa
			var out Actions
			sa.now, sa.out = n.now, &out
			if whole {
				sa.life.busy = n.now.Add(-since)
				(&rekeyIKEExchange{}).busy(sa)
			} else {
				sa.children[0].busySince = n.now.Add(-since)
				(&createExchange{config: sa.children[0].config, old: sa.children[0]}).busy(sa)
			}
			if closing := sa.phase.name() == phaseClosing; closing != (since == temporaryLimit) {
				t.Errorf("busy for %v, IKE SA %v: closing %v", since, whole, closing)
			}
		}
	}
}

// TestHeardByTheDataPlane: the first use of an inbound SA, and ESP from a new address, are signs of life.
func TestHeardByTheDataPlane(t *testing.T) {
	n, _ := natA(t, setup{})
	n.up()
	n.run(20*time.Second, nil)
	id := n.b.sa.children[0].inID()
	n.b.step(FirstUse{ID: id})
	if n.b.sa.lastHeard != n.now {
		t.Error("not heard by its first use")
	}
	n.run(5*time.Second, nil)
	n.b.step(Mapping{ID: id, From: netip.AddrPortFrom(outer, 34500)})
	if n.b.sa.lastHeard != n.now {
		t.Error("not heard from a new port")
	}
}
