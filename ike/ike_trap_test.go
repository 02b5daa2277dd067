package ike

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// rekeyOffer is a rekey of the IKE SA made by hand.
func (h *host) rekeyOffer(spi wire.SPI) (ps []wire.Payload, kx *suite.KeyExchange) {
	h.t.Helper()
	offer := policy.OfferIKE(h.sa.conn)
	for i := range offer {
		offer[i].SPI = binary.BigEndian.AppendUint64(nil, uint64(spi))
	}
	kx, err := suite.NewKeyExchange(wire.GroupECP256, h.config.Rand)
	if err != nil {
		h.t.Fatal(err)
	}
	return []wire.Payload{&wire.SA{Proposals: offer}, &wire.Nonce{Data: bytes.Repeat([]byte{7}, 32)}, &wire.KE{Group: wire.GroupECP256, Data: kx.Public()}}, kx
}

// watch notes the headers of all messages.
func (n *network) headers() *[]wire.Header {
	var seen []wire.Header
	n.hook = func(d datagram) []datagram {
		if h, err := wire.ParseHeader(d.data); err == nil {
			seen = append(seen, h)
		}
		return []datagram{d}
	}
	return &seen
}

// TestTrap_7296_08_MessageIDs: after a rekey the first request of both sides has ID 0; the old IKE SA counts on.
func TestTrap_7296_08_MessageIDs(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	old := n.a.sa.Status()
	seen := n.headers()
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	n.a.step(RaiseChild{Child: "dmz"})
	n.run(time.Second, nil)
	n.b.step(Lower{Child: "dmz"})
	n.run(time.Second, nil)
	var got []uint32
	for _, h := range *seen {
		if h.Response() {
			continue
		}
		if old.SPIi == h.SPIi {
			got = append(got, 1000+h.MessageID)
		} else {
			got = append(got, h.MessageID)
		}
	}
	// IKE_SA_INIT 0 and IKE_AUTH 1 before; then the rekey and the Delete on the old; then one of each side on the new.
	if want := []uint32{1002, 1003, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("IDs %v, want %v", got, want)
	}
}

// TestTrap_7296_12_WindowAfterRekey: the window is 1 again: of two things that are wanted the second waits.
func TestTrap_7296_12_WindowAfterRekey(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	seen := n.headers()
	n.a.step(RaiseChild{Child: "dmz"})
	n.a.step(Rekey{Child: "lan"})
	n.b.step(Rekey{Child: "lan"})
	n.run(time.Minute, nil)
	open := map[bool]int{}
	for _, h := range *seen {
		switch {
		case !h.Response():
			if open[h.Initiator()]++; open[h.Initiator()] > 1 {
				t.Errorf("request %d before the answer to the one before it", h.MessageID)
			}
		default:
			open[!h.Initiator()]--
		}
	}
	n.one(2)
}

// TestTrap_7296_32_RekeyWithoutKeyExchange: NONE is never offered nor accepted, and KEi is always there.
func TestTrap_7296_32_RekeyWithoutKeyExchange(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.tamper(func(o *opened) bool {
		if o.is(wire.CreateChildSA, false) {
			sa, _ := wire.Find[*wire.SA](o.ps)
			ke, ok := wire.Find[*wire.KE](o.ps)
			if !ok || ke.Group == wire.GroupNone || policy.OffersGroup(sa.Proposals, wire.GroupNone) {
				t.Errorf("offered %v", sa.Proposals)
			}
			for _, p := range sa.Proposals {
				if p.Protocol != wire.ProtoIKE || len(p.SPI) != 8 {
					t.Errorf("proposal %+v", p)
				}
			}
		}
		return false
	})
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	n.one(1)
	n.hook = nil
	before := n.b.sa
	ps, _ := n.a.rekeyOffer(1)
	sa := ps[0].(*wire.SA)
	for i, tr := range sa.Proposals[0].Transforms {
		if tr.Type == wire.TransformKE {
			sa.Proposals[0].Transforms[i].ID = uint16(wire.GroupNone)
		}
	}
	if answer := n.a.ask(wire.CreateChildSA, ps...); !notified(answer, wire.NotifyNoProposalChosen) || n.b.sa != before {
		t.Errorf("NONE: %v", answer)
	}
	ps, _ = n.a.rekeyOffer(1)
	if answer := n.a.ask(wire.CreateChildSA, ps[:2]...); !notified(answer, wire.NotifyInvalidSyntax) || n.b.finish == nil {
		t.Errorf("without KE: %v", answer)
	}
}

// TestIKERekeyBadRequests: what is wrong with a peer's rekey, and what it hears.
func TestIKERekeyBadRequests(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(ps []wire.Payload)
		want  wire.NotifyType
		fatal bool
	}{
		"SPI zero":   {func(ps []wire.Payload) { clear(ps[0].(*wire.SA).Proposals[0].SPI) }, wire.NotifyNoProposalChosen, false},
		"no SPI":     {func(ps []wire.Payload) { ps[0].(*wire.SA).Proposals[0].SPI = nil }, wire.NotifyNoProposalChosen, false},
		"group":      {func(ps []wire.Payload) { ps[2].(*wire.KE).Group = wire.GroupECP384 }, wire.NotifyInvalidKEPayload, false},
		"public key": {func(ps []wire.Payload) { clear(ps[2].(*wire.KE).Data) }, wire.NotifyInvalidSyntax, true},
		"nonce":      {func(ps []wire.Payload) { ps[1].(*wire.Nonce).Data = make([]byte, 16)[:16] }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPair(t, setup{})
			n.up()
			ps, _ := n.a.rekeyOffer(0x99)
			c.spoil(ps)
			answer := n.a.ask(wire.CreateChildSA, ps...)
			switch {
			case c.want == 0:
				if !has(answer, wire.PayloadSA) {
					t.Errorf("answer %v", answer)
				}
			case !notified(answer, c.want) || (n.b.finish != nil) != c.fatal:
				t.Errorf("answer %v, finish %v", answer, n.b.finish)
			}
		})
	}
}

// TestTrap_7296_38_SKEYSEED: the old PRF makes SKEYSEED of the old SK_d, the new PRF the rest, with the SPIs of the SA payloads. The test computes it
// by itself, from its own half of the exchange.
func TestTrap_7296_38_SKEYSEED(t *testing.T) {
	n := newPair(t, with("aes256gcm16-prfsha256-ecp256", ""))
	n.up()
	old := n.a.sa.keys
	// The peer now prefers another PRF: as a rekey would find it after a change of configuration.
	proposals, err := policyWords("aes256-sha512-prfsha512-ecp256")
	if err != nil {
		t.Fatal(err)
	}
	n.b.sa.conn.IKE = proposals
	n.a.sa.conn.IKE = proposals
	ps, kx := n.a.rekeyOffer(0x0102030405060708)
	answer := n.a.ask(wire.CreateChildSA, ps...)
	sa, _ := wire.Find[*wire.SA](answer)
	ke, _ := wire.Find[*wire.KE](answer)
	nr, _ := wire.Find[*wire.Nonce](answer)
	if sa == nil || ke == nil || nr == nil {
		t.Fatalf("answer %v", answer)
	}
	shared, err := kx.Shared(ke.Data)
	if err != nil {
		t.Fatal(err)
	}
	ni := bytes.Repeat([]byte{7}, 32)
	theirs := binary.BigEndian.Uint64(sa.Proposals[0].SPI)
	seed := suite.PRF(wire.PRFHMACSHA256, old.D.Bytes(), shared.Bytes(), ni, nr.Data)
	var spis [16]byte
	binary.BigEndian.PutUint64(spis[:8], 0x0102030405060708)
	binary.BigEndian.PutUint64(spis[8:], theirs)
	// The first octets of prf+: T1 = prf(SKEYSEED, Ni | Nr | SPIi | SPIr | 0x01), which is SK_d with HMAC-SHA-512.
	want := suite.PRF(wire.PRFHMACSHA512, seed, ni, nr.Data, spis[:], []byte{1})
	if got := n.b.sa.keys; !bytes.Equal(got.D.Bytes(), want) || got.Suite.PRF != wire.PRFHMACSHA512 || n.b.sa.config.SPI != wire.SPI(theirs) {
		t.Errorf("SK_d differs; suite %v", got.Suite)
	}
}

// policyWords reads proposals as a configuration has them.
func policyWords(ike string) ([]wire.Proposal, error) {
	text := strings.Replace(gwA, "aes256gcm16-prfsha256-ecp256", ike, 1)
	s, problems := policy.Parse([]policy.Source{{Name: "x.toml", Data: []byte(text)}}, policy.Files{Secret: func(string) (alg.Secret, error) { return alg.NewSecret([]byte(pskText)), nil }})
	if s == nil {
		return nil, fmt.Errorf("%v", problems)
	}
	return s.Connections[0].IKE, nil
}

// TestTrap_7296_54_IKERekeyCollision: the exchange with the lowest nonce loses, whosever it is; who made it deletes it; the other's initiator deletes the old
// IKE SA; the survivor has all children.
func TestTrap_7296_54_IKERekeyCollision(t *testing.T) {
	for name, lowest := range map[string]struct {
		by       string
		response bool
		loser    string
	}{"Ni of a": {"a", false, "a"}, "Nr of a": {"a", true, "b"}, "Ni of b": {"b", false, "b"}, "Nr of b": {"b", true, "a"}} {
		t.Run(name, func(t *testing.T) {
			n := newPair(t, two(""))
			n.up()
			n.run(10*time.Second, nil)
			zero := 1
			if lowest.response {
				zero = 2
			}
			for _, h := range []*host{n.a, n.b} {
				nonces := &nonceReader{r: h.config.Rand}
				if h.name == lowest.by {
					nonces.zero = zero
				}
				h.sa.config.Rand = nonces
			}
			n.a.rekeyIKE()
			n.b.rekeyIKE()
			n.quiet()
			n.one(2)
			if got := n.a.sa.initiator; got == (lowest.loser == "a") {
				t.Errorf("a is initiator: %v, but %s's exchange has the lowest nonce", got, lowest.loser)
			}
		})
	}
}

// nonceReader makes one of the nonces zero: of what is drawn in 32 octets the first is Ni and what follows is for Nr.
type nonceReader struct {
	r           io.Reader
	zero, count int
}

func (n *nonceReader) Read(b []byte) (int, error) {
	got, err := n.r.Read(b)
	if len(b) == nonceLen {
		if n.count++; n.count == n.zero || n.zero == 2 && n.count > 2 {
			clear(b)
		}
	}
	return got, err
}

// TestTrap_7296_54_AlreadyRekeyed: the request of a rekey that comes when the IKE SA is replaced gets TEMPORARY_FAILURE; who hears the Delete forgets its own
// rekey, and does not send it again.
func TestTrap_7296_54_AlreadyRekeyed(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	var late []datagram
	requests := 0
	n.hook = func(d datagram) []datagram {
		h, _ := wire.ParseHeader(d.data)
		if h.Exchange == wire.CreateChildSA && !h.Response() && d.from.Addr() == addrB {
			requests++
			late = append(late, d) // b's rekey does not arrive in time
			return nil
		}
		return []datagram{d}
	}
	n.b.rekeyIKE()
	n.run(5*time.Millisecond, nil)
	old := n.b.sa
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	n.hook = nil
	if requests != 1 || !old.finished {
		t.Errorf("%d requests, old finished: %v", requests, old.finished)
	}
	n.quiet()
	n.one(1)
	if !n.a.sa.initiator {
		t.Error("b's rekey has won")
	}
	// The same late request while a still waits for the answer to its Delete:
	n = newPair(t, setup{})
	n.up()
	held := false
	n.hook = func(d datagram) []datagram {
		h, _ := wire.ParseHeader(d.data)
		if h.Exchange == wire.Informational && !h.Response() && !held {
			held = true
			return nil
		}
		return []datagram{d}
	}
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	previous := n.b.others[0]
	ps, _ := n.b.rekeyOffer(5)
	h := previous.header(wire.CreateChildSA, false, uint32(previous.requests.next))
	data, err := previous.sealWhole(h, ps)
	if err != nil {
		t.Fatal(err)
	}
	before := len(n.a.sends)
	n.transmit(datagram{apB, apA, data})
	n.run(50*time.Millisecond, nil)
	answer := n.a.sends[before]
	m, _ := wire.Decode(answer.Data)
	plain, err := previous.protect.Open(answer.Data, m.Payloads[0].(*wire.SK))
	if err != nil {
		t.Fatal(err)
	}
	if ps, _ := wire.ParsePayloads(m.Payloads[0].(*wire.SK).First, plain); !notified(ps, wire.NotifyTemporaryFailure) {
		t.Errorf("answer %v", ps)
	}
}

// TestTrap_7296_55_OwnStateAndRequest is the table of RFC 7296 sections 2.25.1 and 2.25.2 as far as the IKE SA is concerned: what we do, what the peer
// asks meanwhile, what it hears.
func TestTrap_7296_55_OwnStateAndRequest(t *testing.T) {
	rekeyIKE := func(n *network) []wire.Payload { ps, _ := n.b.rekeyOffer(0x55); return ps }
	for _, c := range []struct {
		name     string
		doing    Event
		exchange wire.ExchangeType
		ask      func(n *network) []wire.Payload
		want     func(ps []wire.Payload) bool
	}{
		{"creating a child x rekey IKE", RaiseChild{Child: "dmz"}, wire.CreateChildSA, rekeyIKE, temporaryFailure},
		{"rekeying a child x rekey IKE", Rekey{Child: "lan"}, wire.CreateChildSA, rekeyIKE, temporaryFailure},
		{"closing a child x rekey IKE", Lower{Child: "lan"}, wire.CreateChildSA, rekeyIKE, temporaryFailure},
		{"closing IKE x rekey IKE", Lower{}, wire.CreateChildSA, rekeyIKE, temporaryFailure},
		{"rekeying IKE x rekey IKE", Rekey{IKE: true}, wire.CreateChildSA, rekeyIKE, func(ps []wire.Payload) bool { return has(ps, wire.PayloadSA) && has(ps, wire.PayloadKE) }},
		{"rekeying IKE x create a child", Rekey{IKE: true}, wire.CreateChildSA, func(n *network) []wire.Payload { return n.b.offer(0x4444) }, temporaryFailure},
		{"rekeying IKE x rekey a child", Rekey{IKE: true}, wire.CreateChildSA, func(n *network) []wire.Payload {
			return n.b.offer(0x4444, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, n.a.sa.children[0].spiOut))
		}, temporaryFailure},
		{"rekeying IKE x delete a child", Rekey{IKE: true}, wire.Informational, func(n *network) []wire.Payload {
			return []wire.Payload{&wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{n.a.sa.children[0].spiOut}}}
		}, func(ps []wire.Payload) bool { d, ok := wire.Find[*wire.Delete](ps); return ok && len(d.SPIs) == 1 }},
		{"rekeying IKE x close IKE", Rekey{IKE: true}, wire.Informational, func(*network) []wire.Payload {
			return []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}}
		}, func(ps []wire.Payload) bool { return len(ps) == 0 }},
		{"closing IKE x close IKE", Lower{}, wire.Informational, func(*network) []wire.Payload {
			return []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}}
		}, func(ps []wire.Payload) bool { return len(ps) == 0 }},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			n := newPair(t, two(""))
			n.a.step(Initiate{Children: []string{"lan"}})
			n.both(1)
			n.hook = func(d datagram) []datagram { // what a asks does not arrive
				if h, _ := wire.ParseHeader(d.data); d.from.Addr() == addrA && !h.Response() {
					return nil
				}
				return []datagram{d}
			}
			ask := c.ask(n)
			n.a.step(c.doing)
			n.run(5*time.Millisecond, nil)
			if answer := n.b.ask(c.exchange, ask...); !c.want(answer) {
				t.Errorf("answer %v", answer)
			}
		})
	}
}

func temporaryFailure(ps []wire.Payload) bool { return notified(ps, wire.NotifyTemporaryFailure) }

// TestTrap_7296_91_IKERekey: no retry at once, further ones later, and after minutes the IKE SA is closed.
func TestTrap_7296_91_IKERekey(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	var tried []Time
	n.tamper(func(o *opened) bool {
		if o.is(wire.CreateChildSA, false) {
			tried = append(tried, n.now)
		}
		if o.is(wire.CreateChildSA, true) {
			o.ps = []wire.Payload{wire.NewNotify(wire.NotifyTemporaryFailure, nil)}
			return true
		}
		return false
	})
	n.b.sa.next.pending = n.now.Add(time.Hour) // b cannot
	start := n.now
	n.a.rekeyIKE()
	n.run(10*time.Minute, func() bool { return n.a.finish != nil })
	for i := 1; i < len(tried); i++ {
		if gap := tried[i].Sub(tried[i-1]); gap < temporaryDelay || gap > time.Minute {
			t.Errorf("again after %v", gap)
		}
	}
	if n.a.finish == nil || !n.a.finish.Retry || n.now.Sub(start) < 3*time.Minute || n.now.Sub(start) > 6*time.Minute || len(tried) < 10 {
		t.Errorf("%d tries in %v, finish %v", len(tried), n.now.Sub(start), n.a.finish)
	}
	n.a.wants(CodePeerError, "out of step")
}

// TestTrap_7296_92_LastRequest: Delete is the last request on a replaced IKE SA; what was wanted meanwhile goes over the new one.
func TestTrap_7296_92_LastRequest(t *testing.T) {
	for _, who := range []string{"a", "b"} {
		n := newPair(t, two(""))
		n.a.step(Initiate{Children: []string{"lan"}})
		n.both(1)
		old := n.a.sa.Status()
		var requests []string
		n.tamper(func(o *opened) bool {
			if !o.Response() && o.SPIi == old.SPIi {
				d, isDelete := wire.Find[*wire.Delete](o.ps)
				switch {
				case isDelete && d.Protocol == wire.ProtoIKE:
					requests = append(requests, o.from.name+" delete")
				case o.Exchange == wire.CreateChildSA:
					requests = append(requests, o.from.name+" create")
				default:
					requests = append(requests, o.from.name+" other")
				}
			}
			return false
		})
		h := n.side(who)
		h.rekeyIKE()
		h.step(RaiseChild{Child: "dmz"})
		h.step(Rekey{Child: "lan"})
		n.run(time.Minute, nil)
		if want := []string{who + " create", who + " delete"}; !slices.Equal(requests, want) {
			t.Errorf("requests on the old IKE SA: %v, want %v", requests, want)
		}
		n.one(2)
	}
}

// TestTrap_7296_104_NewSKd: a child that is made or rekeyed after an IKE rekey has keys from the new SK_d, with the new PRF.
func TestTrap_7296_104_NewSKd(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	first := n.a.sa.keys.D.Clone()
	n.b.rekeyIKE()
	n.run(time.Second, nil)
	if n.a.sa.keys.D.Equal(first) {
		t.Fatal("SK_d is the old one")
	}
	n.a.step(RaiseChild{Child: "dmz"})
	n.b.step(Rekey{Child: "lan"})
	var nonces [][]byte
	n.tamper(func(o *opened) bool {
		if nonce, ok := wire.Find[*wire.Nonce](o.ps); ok {
			nonces = append(nonces, bytes.Clone(nonce.Data))
		}
		return false
	})
	n.run(time.Minute, nil)
	n.one(2)
	// Without a key exchange of its own KEYMAT = prf+(SK_d, Ni | Nr): its first octets are T1. With one they cannot be computed here, and paired has
	// compared both ends.
	n.a.step(Lower{Child: "dmz"})
	n.run(time.Second, nil)
	n.one(1)
	if len(nonces) < 4 {
		t.Errorf("%d nonces", len(nonces))
	}
}

// TestLivenessAfterIKERekey: the new IKE SA asks an idle peer, and a dead one is found out.
func TestLivenessAfterIKERekey(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	n.one(1)
	seen := n.headers()
	n.run(2*time.Minute, nil)
	if len(*seen) < 4 {
		t.Errorf("%d messages in two minutes", len(*seen))
	}
	n.one(1)
	n.hook = func(datagram) []datagram { return nil }
	n.run(5*time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
	n.empty()
	n.a.wants(CodeNoAnswer, "the peer is gone")
}
