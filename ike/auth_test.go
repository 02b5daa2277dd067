package ike

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// fails initiates and waits until the initiator has given up.
func (n *network) fails() {
	n.t.Helper()
	n.a.step(Initiate{})
	n.run(5*time.Minute, func() bool { return n.a.finish != nil })
	if n.a.finish == nil || n.a.children() != 0 || n.b.children() != 0 {
		n.dump()
		n.t.Fatal("it did not fail")
	}
	n.empty()
}

// TestSameFace: from outside an unknown identity, a wrong key, another identity asked for and EAP look the same; each operator is told.
func TestSameFace(t *testing.T) {
	cases := []struct {
		name   string
		setup  setup
		change func(o *opened) bool
		a, b   Code
		say    []string
	}{
		{"wrong PSK", setup{pskB: pskText + " not"}, nil, CodeAuthFailed, CodeAuthFailed,
			[]string{"192.0.2.1:4500 does not prove gw-a.example: its PSK differs from that of connection site-a", "conn.d/test.toml:4: psk.file: secrets/site-a"}},
		{"unknown identity", setup{a: strings.Replace(gwA, "gw-a.example", "gw-x.example", 1)}, nil, CodeAuthFailed, CodeBadIdentity,
			[]string{"the peer says it is gw-x.example; site-a wants gw-a.example", "conn.d/test.toml:3"}},
		{"other identity asked", setup{a: strings.Replace(gwA, "gw-b.example", "gw-y.example", 1)}, nil, CodeAuthFailed, CodeBadIdentity,
			[]string{"the peer asks for gw-y.example here; site-a says that we are gw-b.example", "conn.d/test.toml:2"}},
		{"swapped ids", setup{a: strings.NewReplacer("gw-a.example", "gw-b.example", "gw-b.example", "gw-a.example").Replace(gwA)}, nil, CodeAuthFailed, CodeBadIdentity,
			[]string{"the peer says it is gw-b.example, which is our own id in site-a", "exchange conn.d/test.toml:2: local.id and conn.d/test.toml:3: remote.id here, or the two on the peer"}},
		{"EAP", setup{}, func(o *opened) bool { o.drop(wire.PayloadAuth); return true }, CodeAuthFailed, CodeAuthFailed,
			[]string{"wants to authenticate by EAP, connection site-a wants a pre-shared key"}},
		{"signature", setup{}, func(o *opened) bool {
			a, _ := wire.Find[*wire.Auth](o.ps)
			a.Method = wire.AuthDigitalSignature
			return true
		}, CodeAuthFailed, CodeAuthFailed, []string{"(method 14)"}},
		{"malformed identity", setup{}, func(o *opened) bool {
			o.ps[0] = wire.NewID(false, wire.IDIPv4Addr, []byte{1, 2, 3})
			return true
		}, CodeAuthFailed, CodeBadIdentity, []string{"malformed identity"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := newPair(t, c.setup)
			var answers [][]wire.Payload
			n.tamper(func(o *opened) bool {
				if o.is(wire.IKEAuth, true) {
					answers = append(answers, o.ps)
				}
				return c.change != nil && o.is(wire.IKEAuth, false) && c.change(o)
			})
			n.fails()
			if len(answers) != 1 || !notified(answers[0], wire.NotifyAuthenticationFailed) {
				t.Errorf("answers %v", answers)
			}
			n.a.wants(c.a, "198.51.100.7:4500 refuses us (AUTHENTICATION_FAILED)", "local.id", "remote.id", "psk.file")
			n.b.wants(c.b, c.say...)
			if !n.a.finish.Retry || n.b.sa.Established() || len(n.b.claims) != 0 {
				t.Errorf("finish %+v, claims %v", n.a.finish, n.b.claims)
			}
			n.run(time.Minute, func() bool { return n.b.finish != nil })
			if n.b.finish == nil {
				t.Error("the responder does not forget")
			}
		})
	}
}

// drop takes payloads of a type out of a message.
func (o *opened) drop(t wire.PayloadType) {
	var kept []wire.Payload
	for _, p := range o.ps {
		if p.Type() != t {
			kept = append(kept, p)
		}
	}
	o.ps = kept
}

// TestTrap_CVE_2_RefusalRepeated: the refusal is lost; the repeat of the request gets the same one.
func TestTrap_CVE_2_RefusalRepeated(t *testing.T) {
	n := newPair(t, setup{pskB: pskText + " not"})
	lost := false
	n.hook = func(d datagram) []datagram {
		if m, _ := wire.Decode(d.data); m.Exchange == wire.IKEAuth && m.Response() && !lost {
			lost = true
			return nil
		}
		return []datagram{d}
	}
	n.fails()
	n.a.wants(CodeAuthFailed, "refuses us")
	if k := len(n.b.sends); !bytes.Equal(n.b.sends[k-1].Data, n.b.sends[k-2].Data) {
		t.Error("two refusals")
	}
}

// TestInitiatorRejects: the responder's proof or identity is wrong; it is told in an INFORMATIONAL and drops what it had (trap 63). A Delete is in it too, for peers that heed
// nothing else there.
func TestInitiatorRejects(t *testing.T) {
	cases := []struct {
		name   string
		change func(o *opened)
		code   Code
		say    []string
	}{
		{"proof", func(o *opened) { a, _ := wire.Find[*wire.Auth](o.ps); a.Data[3] ^= 1 }, CodeAuthFailed, []string{"the peer does not prove gw-b.example: its PSK differs", "conn.d/test.toml:4: psk.file"}},
		{"short proof", func(o *opened) { a, _ := wire.Find[*wire.Auth](o.ps); a.Data = a.Data[:5] }, CodeAuthFailed, nil},
		{"method", func(o *opened) { a, _ := wire.Find[*wire.Auth](o.ps); a.Method = 1 }, CodeAuthFailed, []string{"by a signature (method 1), connection site-b wants a pre-shared key"}},
		{"identity", func(o *opened) { o.ps[0] = wire.NewID(true, wire.IDFQDN, []byte("gw-z.example")) }, CodeBadIdentity,
			[]string{"the peer says it is gw-z.example, we want gw-b.example", `conn.d/test.toml:3: remote.id must be "gw-z.example"`}},
		{"our own identity", func(o *opened) { o.ps[0] = wire.NewID(true, wire.IDFQDN, []byte("gw-a.example")) }, CodeBadIdentity,
			[]string{"the peer says it is gw-a.example, which is our own id", "exchange conn.d/test.toml:2: local.id and conn.d/test.toml:3: remote.id here"}},
		{"no proof", func(o *opened) { o.drop(wire.PayloadAuth) }, CodeProtocol, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := newPair(t, setup{})
			var told []wire.Payload
			n.tamper(func(o *opened) bool {
				if o.is(wire.Informational, false) {
					told = o.ps
				}
				if !o.is(wire.IKEAuth, true) {
					return false
				}
				c.change(o)
				return true
			})
			n.a.step(Initiate{})
			n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
			if d, ok := wire.Find[*wire.Delete](told); !ok || d.Protocol != wire.ProtoIKE || len(told) != 2 || len(notifies(told, wire.NotifyAuthenticationFailed)) != 1 {
				t.Errorf("the peer is told %v", told)
			}
			n.a.wants(c.code, c.say...)
			if n.a.finish == nil || n.b.finish == nil || len(n.a.claims) != 0 {
				n.dump()
				t.Fatal("not over")
			}
			n.b.wants(CodeAuthFailed, "the peer does not accept our proof of gw-b.example")
			n.empty()
		})
	}
}

// TestTrap_7296_50_ChildFails: AUTH counts although the child fails; the IKE SA stays, without child, and a child can be raised later.
func TestTrap_7296_50_ChildFails(t *testing.T) {
	for _, c := range []struct {
		name string
		b    string
		code Code
		a, r []string
	}{
		{"selectors", strings.Replace(gwB, "10.1.0.0/16", "10.9.0.0/16", 1), CodeNoSelectors,
			[]string{"the peer does not accept our selectors (TS_UNACCEPTABLE): 10.1.0.0/16 <-> 10.2.0.0/16", "child.lan.local"}, []string{"10.9.0.0/16"}},
		{"proposals", gwB + "esp = \"aes256-sha512\"\n", CodeNoProposal,
			[]string{"the peer accepts none of our ESP proposals (NO_PROPOSAL_CHOSEN); we offer AES-GCM-256"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := gwA
			if c.name == "proposals" {
				a += "esp = \"aes256gcm16\"\n"
			}
			n := newPair(t, setup{a: a, b: c.b})
			n.a.step(Initiate{})
			n.run(10*time.Second, nil)
			n.a.wants(CodeAuthenticated)
			n.a.wants(c.code, c.a...)
			n.b.wants(c.code, c.r...)
			if !n.a.sa.Established() || !n.b.sa.Established() || n.a.said(c.code).Child != "lan" {
				t.Fatal("the IKE SA is not up")
			}
			n.empty()
			n.a.step(RaiseChild{Child: "lan"})
			n.run(10*time.Second, nil)
			if !n.a.sa.Established() {
				t.Error("the second refusal ended the IKE SA")
			}
			n.b.step(Lower{})
			n.run(10*time.Second, func() bool { return n.a.finish != nil && n.b.finish != nil })
			n.a.wants(CodeClosed, "closed by the peer")
		})
	}
}

// TestTrap_7296_97_AuthMalformed: an unknown critical payload or a missing one gets only that error, and AUTH is not looked at.
func TestTrap_7296_97_AuthMalformed(t *testing.T) {
	for kind, change := range map[wire.NotifyType]func(o *opened){
		wire.NotifyUnsupportedCriticalPayload: func(o *opened) { o.ps = append(o.ps, &wire.Unknown{PayloadType: 200, Critical: true}) },
		wire.NotifyInvalidSyntax:              func(o *opened) { o.drop(wire.PayloadTSi) },
	} {
		n := newPair(t, setup{})
		var answers [][]wire.Payload
		n.tamper(func(o *opened) bool {
			if o.is(wire.IKEAuth, true) {
				answers = append(answers, o.ps)
			}
			if !o.is(wire.IKEAuth, false) {
				return false
			}
			change(o)
			return true
		})
		n.fails()
		if len(answers) != 1 || !notified(answers[0], kind) {
			t.Errorf("answers %v, want %v", answers, kind)
		}
		if kind == wire.NotifyUnsupportedCriticalPayload {
			if n, _ := wire.FindNotify(answers[0], kind); !bytes.Equal(n.Data, []byte{200}) {
				t.Errorf("data %v", n.Data)
			}
		}
	}
}

// TestTrap_7296_5_UnknownNotCritical: skipped everywhere; so is a Vendor ID (trap 103) and an unknown status notify (trap 61).
func TestTrap_7296_5_UnknownNotCritical(t *testing.T) {
	n := newPair(t, setup{})
	n.tamper(func(o *opened) bool {
		o.ps = append([]wire.Payload{&wire.Unknown{PayloadType: 201, Body: []byte("?")}, &wire.VendorID{Data: []byte("x")}, wire.NewNotify(60000, nil)}, o.ps...)
		return o.Exchange != wire.IKESAInit // that is covered by AUTH
	})
	n.up()
	n.b.step(Lower{})
	n.run(10*time.Second, func() bool { return n.a.finish != nil && n.b.finish != nil })
	n.empty()
}

// TestTrap_7296_6_AnyOrder: payloads of protected messages in reverse order.
func TestTrap_7296_6_AnyOrder(t *testing.T) {
	n := newPair(t, setup{})
	n.tamper(func(o *opened) bool {
		for i, j := 0, len(o.ps)-1; i < j; i, j = i+1, j-1 {
			o.ps[i], o.ps[j] = o.ps[j], o.ps[i]
		}
		return o.Exchange != wire.IKESAInit
	})
	n.up()
}

// TestTrap_7296_17_InitialContact is sent when the configuration of the machine says so, and told with the claim after AUTH.
func TestTrap_7296_17_InitialContact(t *testing.T) {
	n := newPair(t, setup{})
	n.a.config.InitialContact = true
	n.a.sa = NewInitiator(n.a.config, n.a.config.Snapshot.Connections[0])
	n.up()
	if len(n.b.claims) != 1 || !n.b.claims[0].InitialContact || n.b.claims[0].Peer.String() != "gw-a.example" {
		t.Errorf("claims %+v", n.b.claims)
	}
}

// TestTrap_7296_84_SuiteOfAnotherConnection: what another candidate allows is not enough once the identity is known.
func TestTrap_7296_84_SuiteOfAnotherConnection(t *testing.T) {
	other := strings.NewReplacer("site-a", "weak", "gw-a.example", "gw-w.example", "aes256gcm16-prfsha256-ecp256", "aes128-sha256-modp2048").Replace(gwB)
	other = strings.Replace(other, "10.1.0.0/16", "10.7.0.0/16", 1)
	n := newPair(t, setup{a: strings.Replace(gwA, "aes256gcm16-prfsha256-ecp256", "aes128-sha256-modp2048", 1), b: gwB + other})
	n.fails()
	n.a.wants(CodeAuthFailed, "refuses us")
	n.b.wants(CodeNoProposal, "AES-CBC-128", "connection site-a does not allow it")
}

// TestTrap_7296_75_BeforeAuth: other exchanges are not processed before IKE_AUTH is complete.
func TestTrap_7296_75_BeforeAuth(t *testing.T) {
	n := newPair(t, setup{})
	n.hook = func(d datagram) []datagram {
		if m, _ := wire.Decode(d.data); m.Exchange == wire.IKEAuth {
			return nil
		}
		return []datagram{d}
	}
	n.a.step(Initiate{})
	n.run(500*time.Millisecond, nil)
	for _, typ := range []wire.ExchangeType{wire.CreateChildSA, wire.Informational, 99} {
		h := n.a.sa.header(typ, false, 1)
		before := len(n.b.sends)
		n.b.step(Packet{Path{n.b.sa.path.Local, n.b.sa.path.Remote}, n.a.seal(h, []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}})})
		if len(n.b.sends) != before || n.b.finish != nil {
			t.Errorf("exchange %d was processed", typ)
		}
	}
	n.hook = nil
	n.run(time.Minute, func() bool { return n.a.children() == 1 && n.b.children() == 1 })
	n.paired()
}

// TestKeysWiped: with Finish all keys are gone (RFC 7296 section 2.12).
func TestKeysWiped(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	keys := *n.a.sa.keys
	n.a.step(Lower{Silent: true})
	for _, k := range []alg.Secret{keys.D, keys.Ei, keys.Er, keys.Pi, keys.Pr} {
		if !bytes.Equal(k.Bytes(), make([]byte, k.Len())) {
			t.Error("a key is still there")
		}
	}
	if n.a.finish == nil || n.a.finish.Retry || len(n.a.sends) != 2 {
		t.Errorf("finish %+v, %d sendings", n.a.finish, len(n.a.sends))
	}
	n.a.wants(CodeChildDown, "down: closed as asked")
}
