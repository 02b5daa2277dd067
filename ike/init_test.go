package ike

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// unprotected builds what a stranger can send to the initiator: an IKE_SA_INIT response without keys.
func (n *network) unprotected(spir wire.SPI, ps ...wire.Payload) {
	h := wire.Header{SPIi: n.a.config.SPI, SPIr: spir, MajorVersion: 2, Exchange: wire.IKESAInit, Flags: wire.FlagResponse}
	n.transmit(datagram{n.a.sa.path.Remote, n.a.sa.path.Local, encode(n.t, &wire.Message{Header: h, Payloads: ps})})
}

// inits lists the initiator's IKE_SA_INIT requests.
func (n *network) inits() (list []*wire.Message) {
	for _, s := range n.a.sends {
		if m, err := wire.Decode(s.Data); err == nil && m.Exchange == wire.IKESAInit {
			list = append(list, m)
		}
	}
	return list
}

// demandCookies makes the responder ask for its cookie until it is there.
func (n *network) demandCookies(cookie string) {
	n.b.accept = func(p Packet) bool {
		m, _ := wire.Decode(p.Data)
		if c, ok := m.Payloads[0].(*wire.Notify); ok && c.Kind == wire.NotifyCookie && string(c.Data) == cookie {
			return true
		}
		n.unprotected(0, wire.NewNotify(wire.NotifyCookie, []byte(cookie)))
		return false
	}
}

// TestTrap_7296_19_Cookie: the request comes again with the cookie first, all else unchanged; IKE_AUTH covers that one (trap 24).
func TestTrap_7296_19_Cookie(t *testing.T) {
	n := newPair(t, setup{})
	n.demandCookies("crumbs")
	n.up()
	list := n.inits()
	if len(list) != 2 {
		t.Fatalf("%d IKE_SA_INIT requests", len(list))
	}
	first, second := list[0], list[1]
	rest := &wire.Message{Header: second.Header, Payloads: second.Payloads[1:]}
	if !bytes.Equal(encode(t, first), encode(t, rest)) || second.SPIr != 0 || second.MessageID != 0 {
		t.Error("with the cookie more changed than the cookie")
	}
}

// TestTrap_7296_22_CookieWithInvalidKE mixes both in both orders (RFC 7296 section 2.6.1).
func TestTrap_7296_22_CookieWithInvalidKE(t *testing.T) {
	a := strings.Replace(gwA, "aes256gcm16-prfsha256-ecp256", "aes256gcm16-prfsha256-x25519-ecp256", 1)
	for _, order := range []string{"cookie, group", "group, cookie", "cookie, group, another cookie"} {
		n := newPair(t, setup{a: a})
		switch order {
		case "cookie, group":
			n.demandCookies("one")
		case "group, cookie":
			n.b.accept = func(p Packet) bool {
				m, _ := wire.Decode(p.Data)
				if ke, _ := wire.Find[*wire.KE](m.Payloads); ke.Group != wire.GroupECP256 {
					return true
				}
				n.demandCookies("two")
				return n.b.accept(p)
			}
		default:
			n.b.accept = func(p Packet) bool {
				m, _ := wire.Decode(p.Data)
				n.demandCookies("one")
				if ke, _ := wire.Find[*wire.KE](m.Payloads); ke.Group == wire.GroupECP256 {
					n.demandCookies("two")
				}
				f := n.b.accept
				defer func(outer func(Packet) bool) { n.b.accept = outer }(n.b.accept)
				ok := f(p)
				return ok
			}
		}
		n.up()
		n.a.wants(CodeChosen, "ECP-256")
		list := n.inits()
		last := list[len(list)-1]
		if first, ok := last.Payloads[0].(*wire.Notify); !ok || first.Kind != wire.NotifyCookie {
			t.Errorf("%s: the last request holds no cookie", order)
		}
	}
}

// TestTrap_7296_22_CookieLoop: a peer that asks for ever new cookies is not followed for ever.
func TestTrap_7296_22_CookieLoop(t *testing.T) {
	n := newPair(t, setup{})
	count := byte(0)
	n.b.accept = func(Packet) bool {
		count++
		n.unprotected(0, wire.NewNotify(wire.NotifyCookie, []byte{count}))
		return false
	}
	n.a.step(Initiate{})
	n.run(10*time.Minute, func() bool { return n.a.finish != nil })
	if n.a.finish == nil || len(n.inits()) > 6+maxCookies {
		t.Errorf("%d requests, finish %v", len(n.inits()), n.a.finish)
	}
}

// TestTrap_7296_21_InvalidKE: the corrected request has the full list again; a group that was not offered or just used is ignored.
func TestTrap_7296_21_InvalidKE(t *testing.T) {
	n := newPair(t, setup{a: strings.Replace(gwA, "prfsha256-ecp256", "prfsha256-modp2048-ecp256", 1)})
	asked := 0
	n.b.accept = func(p Packet) bool {
		if asked++; asked == 1 {
			n.unprotected(0, wire.NewNotify(wire.NotifyInvalidKEPayload, []byte{0, 14})) // just used
			n.unprotected(0, wire.NewNotify(wire.NotifyInvalidKEPayload, []byte{0, 31})) // not offered
			n.unprotected(0, wire.NewNotify(wire.NotifyInvalidKEPayload, []byte{19}))    // malformed
			n.unprotected(0, wire.NewNotify(wire.NotifyInvalidKEPayload, []byte{0, 0}))  // NONE
		}
		return true
	}
	n.up()
	list := n.inits()
	sa0, _ := wire.Find[*wire.SA](list[0].Payloads)
	sa1, _ := wire.Find[*wire.SA](list[len(list)-1].Payloads)
	ke, _ := wire.Find[*wire.KE](list[len(list)-1].Payloads)
	if len(list) != 2 || len(sa0.Proposals[0].Transforms) != len(sa1.Proposals[0].Transforms) || ke.Group != wire.GroupECP256 {
		t.Errorf("%d requests, last with group %d", len(list), ke.Group)
	}
}

// TestForgedInvalidKE: a forged INVALID_KE_PAYLOAD leads away from the only group that the peer accepts, and the true one leads back.
func TestForgedInvalidKE(t *testing.T) {
	n := newPair(t, setup{a: strings.Replace(gwA, "-ecp256", "-ecp256-x25519", 1)})
	first := true
	n.b.accept = func(Packet) bool {
		if first {
			first = false
			n.unprotected(0, wire.NewNotify(wire.NotifyInvalidKEPayload, []byte{0, 31}))
			return false
		}
		return true
	}
	n.up()
	want := []string{"the peer wants X25519 in place of ECP-256", "the peer wants ECP-256 in place of X25519"}
	if got := n.a.texts(CodeIgnored); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	n.a.wants(CodeChosen, "ECP-256")
}

// TestInvalidKELoop: two who contradict each other about the group are not followed for ever (RFC 7296 section 2.6).
func TestInvalidKELoop(t *testing.T) {
	n := newPair(t, setup{a: strings.Replace(gwA, "-ecp256", "-ecp256-x25519", 1)})
	n.b.accept = func(p Packet) bool {
		m, _ := wire.Decode(p.Data)
		ke, _ := wire.Find[*wire.KE](m.Payloads)
		n.unprotected(0, wire.NewNotify(wire.NotifyInvalidKEPayload, []byte{0, byte(wire.GroupECP256 + wire.GroupX25519 - ke.Group)}))
		return false
	}
	n.a.step(Initiate{})
	n.run(2*time.Minute, func() bool { return n.a.finish != nil })
	if n.a.finish == nil || len(n.a.texts(CodeIgnored)) < maxGroups || len(n.inits()) > maxGroups+3 {
		t.Errorf("%d requests, finish %v", len(n.inits()), n.a.finish)
	}
	n.a.wants(CodePeerError, "198.51.100.7:500 wants a key of ECP-256 (INVALID_KE_PAYLOAD) after keys of ECP-256, X25519, ECP-256, X25519: it contradicts itself")
}

// TestTrap_7296_23_ErrorNotBelieved: a forged refusal that comes before the true answer does not end the attempt.
func TestTrap_7296_23_ErrorNotBelieved(t *testing.T) {
	n := newPair(t, setup{})
	first := true
	n.b.accept = func(Packet) bool {
		if first {
			first = false
			n.unprotected(0, wire.NewNotify(wire.NotifyNoProposalChosen, nil))
			n.unprotected(0, wire.NewNotify(wire.NotifyAuthenticationFailed, nil))
			n.unprotected(0, wire.NewNotify(40000, nil))
			return false
		}
		return true
	}
	n.up()
}

// TestNoProposal: both sides tell their operator what was offered and what was wanted.
func TestNoProposal(t *testing.T) {
	n := newPair(t, setup{a: strings.Replace(gwA, "aes256gcm16-prfsha256-ecp256", "aes128-sha256-modp3072", 1)})
	start := n.now
	n.a.step(Initiate{})
	n.run(2*time.Minute, func() bool { return n.a.finish != nil })
	n.a.wants(CodeNoProposal, "198.51.100.7:500 accepts none of our IKE proposals (NO_PROPOSAL_CHOSEN)", "AES-CBC-128 / SHA2-256 / PRF SHA2-256 / MODP-3072", "conn.d/test.toml:5: ike",
		"an address that they do not know: theirs of us must be 192.0.2.1")
	n.b.wants(CodeNoProposal, "192.0.2.1:500: the peer offers", "MODP-3072", "AES-GCM-256", "conn.d/test.toml:5")
	if d := n.now.Sub(start); d < 3*time.Second || d > 6*time.Second || len(n.inits()) < 3 {
		t.Errorf("gave up after %v and %d requests", d, len(n.inits()))
	}
}

// TestNoConnection: a stranger hears NO_PROPOSAL_CHOSEN, the operator why.
func TestNoConnection(t *testing.T) {
	n := newPair(t, setup{b: strings.Replace(gwB, "192.0.2.1", "192.0.2.99", 1)})
	n.a.step(Initiate{})
	n.run(2*time.Minute, func() bool { return n.a.finish != nil })
	n.b.wants(CodeNoProposal, "no connection for 198.51.100.7 <-> 192.0.2.1", "site-a expects the peer at 192.0.2.99")
	if from := n.b.said(CodeNoProposal).From; from != addrA {
		t.Errorf("a report about a stranger is from %v", from)
	}
	if n.a.said(CodeNoProposal).From.IsValid() {
		t.Error("a report about our own attempt is said to be about a stranger")
	}
}

// TestTrap_6989_1_BadPublicValue: values of small order are dropped in IKE_SA_INIT, by both sides.
func TestTrap_6989_1_BadPublicValue(t *testing.T) {
	for _, response := range []bool{false, true} {
		n := newPair(t, with("aes256-sha256-modp2048", ""))
		spoilt := 0
		n.tamper(func(o *opened) bool {
			ke, ok := wire.Find[*wire.KE](o.ps)
			if o.Exchange != wire.IKESAInit || o.Response() != response || !ok || spoilt > 0 {
				return false
			}
			spoilt++
			ke.Data = append(make([]byte, 255), 1) // 1
			return true
		})
		n.up() // the repeat is not spoilt
		if spoilt != 1 {
			t.Errorf("response %v: spoilt %d", response, spoilt)
		}
	}
}

// TestTrap_7296_33_KELength: a value of the wrong length is refused before it is computed with.
func TestTrap_7296_33_KELength(t *testing.T) {
	for _, length := range []int{1, 63, 65, 300} {
		n := newPair(t, setup{})
		once := true
		n.tamper(func(o *opened) bool {
			ke, ok := wire.Find[*wire.KE](o.ps)
			if !o.is(wire.IKESAInit, false) || !ok || !once {
				return false
			}
			once = false
			ke.Data = make([]byte, length)
			return true
		})
		n.a.step(Initiate{})
		n.run(500*time.Millisecond, nil)
		if len(n.b.sends) != 0 {
			t.Errorf("a KE of %d octets was answered", length)
		}
	}
}

// TestTrap_7296_1_SPIs: a request with an SPIr, or without SPIi, is dropped.
func TestTrap_7296_1_SPIs(t *testing.T) {
	for _, change := range []func(*wire.Header){
		func(h *wire.Header) { h.SPIr = 5 }, func(h *wire.Header) { h.SPIi = 0 }, func(h *wire.Header) { h.MessageID = 1 },
		func(h *wire.Header) { h.Flags = 0 },
	} {
		n := newPair(t, setup{})
		n.tamper(func(o *opened) bool { change(&o.Header); return o.is(wire.IKESAInit, false) })
		n.a.step(Initiate{})
		n.run(500*time.Millisecond, nil)
		if len(n.b.sends) != 0 {
			t.Error("answered")
		}
	}
}

// TestTrap_7296_11_InitRepeat: a repeat gets the same octets, until IKE_AUTH has come; another packet with the same SPI does not.
func TestTrap_7296_11_InitRepeat(t *testing.T) {
	n := newPair(t, setup{})
	n.hook = func(d datagram) []datagram {
		if m, _ := wire.Decode(d.data); m.Exchange == wire.IKEAuth {
			return nil
		}
		return []datagram{d}
	}
	n.a.step(Initiate{})
	n.run(500*time.Millisecond, nil)
	again := func(data []byte) int {
		before := len(n.b.sends)
		n.b.step(Packet{Path{n.b.sa.path.Local, n.b.sa.path.Remote}, data})
		return len(n.b.sends) - before
	}
	request := n.a.sends[0].Data
	if again(request) != 1 || !bytes.Equal(n.b.sends[0].Data, n.b.sends[1].Data) {
		t.Error("the repeat was not answered alike")
	}
	other := bytes.Clone(request)
	other[len(other)-1] ^= 1
	if again(other) != 0 {
		t.Error("another request was answered")
	}
	n.hook = nil
	n.run(time.Minute, func() bool { return n.b.children() == 1 })
	if again(request) != 0 {
		t.Error("answered after IKE_AUTH")
	}
}

// TestAmplification: the answer is never longer than the request.
func TestAmplification(t *testing.T) {
	for _, s := range []setup{{}, with("aes256-sha256-modp2048", ""), with("chacha20poly1305-prfsha512-x25519", "")} {
		n := newPair(t, s)
		n.up()
		if len(n.b.sends[0].Data) > len(n.a.sends[0].Data) {
			t.Errorf("request %d octets, answer %d", len(n.a.sends[0].Data), len(n.b.sends[0].Data))
		}
		n = newPair(t, s)
		n.tamper(func(o *opened) bool { // the shortest request
			if o.is(wire.IKESAInit, false) {
				nonce, _ := wire.Find[*wire.Nonce](o.ps)
				nonce.Data = nonce.Data[:16]
				o.ps = o.ps[:3]
				return true
			}
			if o.is(wire.IKESAInit, true) {
				if got, most := len(n.b.sends[0].Data), len(n.a.sends[0].Data)-16-2*28; got > most {
					t.Errorf("request %d octets, answer %d", most, got)
				}
			}
			return false
		})
		n.a.step(Initiate{})
		n.run(time.Second, nil)
	}
}

// TestTrap_7296_37_Nonce: a nonce shorter than half the PRF's key is not used.
func TestTrap_7296_37_Nonce(t *testing.T) {
	for _, response := range []bool{false, true} {
		n := newPair(t, with("aes256-sha512-ecp256", ""))
		n.tamper(func(o *opened) bool {
			nonce, ok := wire.Find[*wire.Nonce](o.ps)
			if !ok || !o.is(wire.IKESAInit, response) {
				return false
			}
			nonce.Data = nonce.Data[:31]
			return true
		})
		n.a.step(Initiate{})
		n.run(500*time.Millisecond, nil)
		if n.a.said(CodeChosen) != nil || !response && len(n.b.sends) != 0 {
			t.Errorf("response %v: used", response)
		}
	}
}

// TestTrap_7296_25_AnswerNotOffered: a transform that we did not offer, or a second proposal, is no answer.
func TestTrap_7296_25_AnswerNotOffered(t *testing.T) {
	for name, change := range map[string]func(p *wire.SA){
		"key length": func(p *wire.SA) { p.Proposals[0].Transforms[0].KeyBits = 128 },
		"two":        func(p *wire.SA) { p.Proposals = append(p.Proposals, p.Proposals[0]) },
		"number":     func(p *wire.SA) { p.Proposals[0].Number = 7 },
		"none":       func(p *wire.SA) { p.Proposals[0].Transforms = p.Proposals[0].Transforms[1:] },
	} {
		n := newPair(t, setup{})
		n.tamper(func(o *opened) bool {
			p, ok := wire.Find[*wire.SA](o.ps)
			if !ok || !o.is(wire.IKESAInit, true) {
				return false
			}
			change(p)
			return true
		})
		n.a.step(Initiate{})
		n.run(2*time.Minute, func() bool { return n.a.finish != nil })
		if n.a.said(CodeChosen) != nil || n.a.finish == nil || n.a.finish.Code != CodeNoProposal {
			t.Errorf("%s: finish %+v", name, n.a.finish)
		}
	}
}

// TestResolve: addresses that the configuration leaves open are asked for; when the first does not answer the next is tried.
func TestResolve(t *testing.T) {
	a := strings.Replace(gwA, `address = "192.0.2.1"`, `address = "%any"`, 1)
	a = strings.Replace(a, `address = "198.51.100.7"`, `address = "gw-b.example"`, 1)
	n := newPair(t, setup{a: a})
	n.up()
	n.a.wants(CodeSent, "IKE_SA_INIT sent to 198.51.100.7:500")

	n = newPair(t, setup{a: strings.Replace(gwA, `address = "198.51.100.7"`, `address = "%any"`, 1)})
	n.a.step(Initiate{})
	n.a.wants(CodeResolve, "only the peer can begin", "conn.d/test.toml:3: remote.address")
}
