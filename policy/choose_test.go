package policy

import (
	"slices"
	"strings"
	"testing"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// conn makes a connection of one child out of the words for ike and esp; "" means the defaults.
func conn(t testing.TB, ike, esp, pfs string) *Connection {
	t.Helper()
	text := strings.Replace(siteB, "\n\n", "\nike = \""+ike+"\"\n\n", 1) + "esp = \"" + esp + "\"\npfs = \"" + pfs + "\"\n"
	for _, empty := range []string{"ike", "esp", "pfs"} {
		text = strings.Replace(text, empty+" = \"\"\n", "", 1)
	}
	s, problems := Parse([]Source{{"conn.d/site-b.toml", []byte(text)}}, secrets(longKey))
	if s == nil {
		t.Fatal(problems)
	}
	return s.Connections[0]
}

// offer makes what a peer sends out of words, in IKE_SA_INIT, or for ESP with an SPI.
func offer(t testing.TB, text string, proto wire.ProtocolID) []wire.Proposal {
	t.Helper()
	ps, pfs, wrong := readProposals(text, proto)
	for _, w := range wrong {
		if !w.warning {
			t.Fatal(w.text)
		}
	}
	for i := range ps {
		ps[i].Number = uint8(i + 1)
		if proto == wire.ProtoESP {
			ps[i].SPI = []byte{0xc0, 0xff, 0xee, 0x01}
			ps[i].Transforms = append(ps[i].Transforms, groupTransforms(pfs)...)
		}
	}
	return ps
}

func allCaps() xfrm.Capabilities {
	c := xfrm.Capabilities{Name: "test", Encr: map[alg.Encr]bool{}, Integ: map[alg.Integ]bool{}, ESN: true, PlainESP: true, NATT: true}
	for _, x := range alg.Ciphers() {
		c.Encr[x.ID] = true
	}
	for _, x := range alg.MACs() {
		c.Integ[x.ID] = true
	}
	return c
}

func TestChooseIKE(t *testing.T) {
	for _, c := range []struct {
		name, ours, theirs string
		suite              string // what is chosen
		number             uint8
		text, hint         string // of the mismatch
	}{
		{"defaults on both sides", "", "aes256gcm16-chacha20poly1305-prfsha256-x25519-modp2048, aes256-sha256-x25519", "AES-GCM-256, SHA2-256, X25519", 1, "", ""},
		{"any peer of this century", "", "aes128-sha1-modp2048, aes256-sha256-modp2048", "AES-CBC-256, SHA2-256, MODP-2048", 2, "", ""},
		{"our order decides about ciphers", "aes256gcm16-aes128gcm16-prfsha256-ecp256", "aes128gcm16-aes256gcm16-prfsha256-ecp256", "AES-GCM-256, SHA2-256, ECP-256", 1, "", ""},
		{"our order decides about groups", "aes256-sha256-ecp384-ecp256", "aes256-sha256-ecp256-ecp384", "AES-CBC-256, SHA2-256, ECP-384", 1, "", ""},
		{"our order decides about proposals", "aes256-sha256-modp2048, aes256gcm16-prfsha256-modp2048", "aes256gcm16-prfsha256-modp2048, aes256-sha256-modp2048", "AES-CBC-256, SHA2-256, MODP-2048", 2, "", ""},
		{"SHA-1 where it is written", "aes256-sha1-modp2048", "aes256-sha1-modp2048", "AES-CBC-256, SHA1, MODP-2048", 1, "", ""},
		{"SHA-1 where it is not", "", "aes256-sha1-modp2048", "", 0,
			"the peer offers no integrity of ours: theirs SHA1; ours SHA2-256, SHA2-384, SHA2-512, and no PRF of ours: theirs SHA1; ours SHA2-256, SHA2-384, SHA2-512",
			`conn.d/site-b.toml:1: ike = "aes256-sha1-modp2048" accepts what the peer offers`},
		{"no cipher in common", "aes256gcm16-prfsha256-x25519", "aes256-sha256-x25519", "", 0, "the peer offers no encryption of ours: theirs AES-CBC-256; ours AES-GCM-256",
			`conn.d/site-b.toml:7: ike = "aes256-sha256-x25519" accepts what the peer offers`},
		{"no group in common", "aes256-sha256-x25519-ecp256", "aes256-sha256-modp4096", "", 0, "the peer offers no group of ours: theirs MODP-4096; ours X25519, ECP-256",
			`conn.d/site-b.toml:7: ike = "aes256-sha256-modp4096" accepts what the peer offers`},
		{"key lengths are different algorithms", "aes256-sha256-ecp256", "aes128-sha256-ecp256", "", 0, "no encryption of ours: theirs AES-CBC-128; ours AES-CBC-256", `ike = "aes128-sha256-ecp256"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			us := conn(t, c.ours, "", "")
			offered := offer(t, c.theirs, wire.ProtoIKE)
			p, s, m := ChooseIKE([]*Connection{us}, offered)
			if c.suite == "" {
				if m == nil || m.Notify != wire.NotifyNoProposalChosen || !strings.Contains(m.Text, c.text) || !strings.Contains(m.Hint, c.hint) {
					t.Fatalf("%+v", m)
				}
				return
			}
			if m != nil || s.String() != c.suite || p.Number != c.number {
				t.Fatalf("%v, proposal %d, %v", s, p.Number, m)
			}
			if !us.AllowsIKE(s) {
				t.Error("what was chosen is not allowed")
			}
			if got, m := CheckIKE(offered, []wire.Proposal{p}); m != nil || got != s {
				t.Errorf("the peer takes our answer for %v, %v", got, m)
			}
		})
	}
}

// TestChooseIKEWeakPeer: a peer that has nothing we would ever accept is told apart from a configuration that could be changed.
func TestChooseIKEWeakPeer(t *testing.T) {
	weak := []wire.Proposal{proposal(wire.ProtoIKE, cbcCiphers(256), transforms(wire.TransformPRF, 5), transforms(wire.TransformInteg, 12), groupTransforms([]wire.GroupID{wire.GroupMODP1024}))}
	_, _, m := ChooseIKE([]*Connection{conn(t, "", "", "")}, weak)
	if m == nil || !strings.Contains(m.Text, "the peer offers no group of ours: theirs MODP-1024; ours X25519, ECP-256") || !strings.Contains(m.Hint, "change the peer") {
		t.Errorf("%+v", m)
	}
	_, _, m = ChooseIKE([]*Connection{conn(t, "", "", "")}, nil)
	if m == nil || m.Text != "the peer sent no proposal" {
		t.Errorf("%+v", m)
	}
	_, _, m = ChooseIKE(nil, weak)
	if m == nil || m.Notify != wire.NotifyNoProposalChosen {
		t.Errorf("%+v", m)
	}
}

func TestChooseIKESecondCandidate(t *testing.T) {
	a, b := conn(t, "aes256-sha256-ecp256", "", ""), conn(t, "aes256-sha512-modp2048", "", "")
	_, s, m := ChooseIKE([]*Connection{a, b}, offer(t, "aes256-sha512-modp2048", wire.ProtoIKE))
	if m != nil || s.String() != "AES-CBC-256, SHA2-512, MODP-2048" {
		t.Fatal(s, m)
	}
	if a.AllowsIKE(s) || !b.AllowsIKE(s) {
		t.Error("AllowsIKE does not tell the candidates apart")
	}
	if b.AllowsIKE(suite.IKE{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.IntegSHA256_128, PRF: s.PRF, Group: s.Group}) {
		t.Error("AllowsIKE overlooks the integrity algorithm")
	}
}

func TestOfferIKE(t *testing.T) {
	c := conn(t, "", "", "")
	ps := OfferIKE(c)
	if len(ps) != 2 || ps[0].Number != 1 || ps[1].Number != 2 || FirstGroup(ps) != wire.GroupX25519 {
		t.Fatalf("%+v", ps)
	}
	want := []wire.Transform{{Type: wire.TransformEncr, ID: wire.EncrAESCBC, KeyBits: 256}, {Type: wire.TransformPRF, ID: uint16(wire.PRFHMACSHA256)},
		{Type: wire.TransformInteg, ID: wire.IntegSHA256_128}, group(wire.GroupMODP2048)}
	for _, x := range want {
		if !slices.Contains(ps[1].Transforms, x) {
			t.Errorf("the defaults lack %v", x)
		}
	}
	for _, p := range ps {
		for _, x := range p.Transforms {
			if x.Word() == "SHA1" || x.Type == wire.TransformKE && !suite.Supported(wire.GroupID(x.ID)) {
				t.Errorf("the defaults hold %v", x)
			}
		}
	}
	ps[0].Transforms[0].ID = 99
	if c.IKE[0].Transforms[0].ID == 99 {
		t.Error("an offer shares memory with the snapshot")
	}
	if !OffersGroup(ps, wire.GroupECP384) || OffersGroup(ps, wire.GroupMODP1024) {
		t.Error("OffersGroup")
	}
}

func TestChooseESP(t *testing.T) {
	noGCM, noESN := allCaps(), allCaps()
	delete(noGCM.Encr, alg.EncrAESGCM16)
	noESN.ESN = false
	for _, c := range []struct {
		name, esp, pfs, theirs string
		create                 bool
		ke                     wire.GroupID
		caps                   xfrm.Capabilities
		encr                   string
		esn                    bool
		group                  wire.GroupID
		text, hint             string
	}{
		{name: "AEAD first", theirs: "aes256-sha256, aes256gcm16", encr: "AES-GCM-256", esn: true},
		{name: "classic", theirs: "aes128-sha512", encr: "AES-CBC-128", esn: true},
		{name: "ESN preferred", theirs: "aes256gcm16-noesn-esn", encr: "AES-GCM-256", esn: true},
		{name: "no ESN offered", theirs: "aes256gcm16-noesn", encr: "AES-GCM-256"},
		{name: "data plane without ESN", theirs: "aes256gcm16-esn-noesn", caps: noESN, encr: "AES-GCM-256"},
		{name: "data plane without GCM", theirs: "aes256gcm16, aes256-sha256", caps: noGCM, encr: "AES-CBC-256", esn: true},
		{name: "data plane lacks all", esp: "aes256gcm16", theirs: "aes256gcm16", caps: noGCM, text: "the test data plane can do none of the ESP algorithms", hint: "conn.d/site-b.toml:11"},
		{name: "groups in IKE_AUTH are as if absent", theirs: "aes256gcm16-modp2048", encr: "AES-GCM-256", esn: true},
		{name: "PFS preferred", theirs: "aes256gcm16-ecp256-x25519-modpnone", create: true, encr: "AES-GCM-256", esn: true, group: wire.GroupX25519},
		{name: "the group of the KE payload saves a round trip", theirs: "aes256gcm16-ecp256-x25519", create: true, ke: wire.GroupECP256, encr: "AES-GCM-256", esn: true, group: wire.GroupECP256},
		{name: "KE payload of a group not offered", theirs: "aes256gcm16-x25519", create: true, ke: wire.GroupECP256, encr: "AES-GCM-256", esn: true, group: wire.GroupX25519},
		{name: "PFS preferred, peer without", theirs: "aes256gcm16", create: true, encr: "AES-GCM-256", esn: true},
		{name: "PFS demanded, peer without", pfs: "yes", theirs: "aes256gcm16", create: true, text: "the peer offers no group of ours: theirs none; ours X25519",
			hint: `conn.d/site-b.toml:11: pfs = "no" accepts`},
		{name: "PFS demanded, peer with NONE too", pfs: "ecp256", theirs: "aes256gcm16-modpnone-ecp256", create: true, encr: "AES-GCM-256", esn: true, group: wire.GroupECP256},
		{name: "PFS of another group", pfs: "ecp256", theirs: "aes256gcm16-modp2048", create: true, text: "no group of ours: theirs MODP-2048; ours ECP-256", hint: `conn.d/site-b.toml:11: pfs = "modp2048"`},
		{name: "no PFS, peer leaves the choice", pfs: "no", theirs: "aes256gcm16-modp2048-modpnone", create: true, ke: wire.GroupMODP2048, encr: "AES-GCM-256", esn: true, group: wire.GroupMODP2048},
		{name: "no PFS, peer demands it", pfs: "no", theirs: "aes256gcm16-modp2048", create: true, ke: wire.GroupMODP2048, encr: "AES-GCM-256", esn: true, group: wire.GroupMODP2048},
		{name: "no PFS", pfs: "no", theirs: "aes256gcm16", create: true, encr: "AES-GCM-256", esn: true},
		{name: "nothing in common", esp: "aes256gcm16", theirs: "aes256-sha256", text: "the peer offers no encryption of ours: theirs AES-CBC-256; ours AES-GCM-256",
			hint: `conn.d/site-b.toml:11: esp = "aes256-sha256" accepts`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.caps.Encr == nil {
				c.caps = allCaps()
			}
			ch := conn(t, "", c.esp, c.pfs).Children[0]
			offered := offer(t, c.theirs, wire.ProtoESP)
			got, m := ChooseESP(ch, offered, c.create, c.ke, c.caps)
			if c.encr == "" {
				if m == nil || !strings.Contains(m.Text, c.text) || !strings.Contains(m.Hint, c.hint) {
					t.Fatalf("%+v", m)
				}
				return
			}
			if m != nil {
				t.Fatalf("%+v", m)
			}
			if d := alg.Describe(got.Suite.Encr, got.Suite.KeyBits); d != c.encr || got.Suite.ESN != c.esn || got.Group != c.group || got.SPI != 0xc0ffee01 {
				t.Errorf("%s %+v", d, got)
			}
			if encr, _ := SuiteLens(got.Suite); encr == 0 {
				t.Error("the suite has no keys")
			}
			if c.create {
				if back, m := CheckESP(offered, []wire.Proposal{got.Proposal}); m != nil || back.Suite != got.Suite || back.Group != got.Group {
					t.Errorf("the peer takes our answer for %+v, %v", back, m)
				}
			}
		})
	}
}

func TestOfferESP(t *testing.T) {
	ch := conn(t, "", "", "").Children[0]
	for _, p := range OfferESP(ch, 0x01020304, false, allCaps()) {
		if espSPI(p) != 0x01020304 || p.Protocol != wire.ProtoESP || slices.ContainsFunc(p.Transforms, func(x wire.Transform) bool { return x.Type == wire.TransformKE }) {
			t.Errorf("%+v", p)
		}
	}
	ps := OfferESP(ch, 0x01020304, true, allCaps())
	if len(ps) != 2 || FirstGroup(ps) != wire.GroupX25519 || !OffersGroup(ps, wire.GroupNone) {
		t.Errorf("%+v", ps)
	}
	caps := allCaps()
	clear(caps.Integ)
	if ps := OfferESP(ch, 0x01020304, false, caps); len(ps) != 1 || !isAEAD(ps[0].Transforms[0]) {
		t.Errorf("a data plane without integrity algorithms is offered %s", describe(ps))
	}
	if ps := OfferESP(ch, 0x01020304, false, xfrm.Capabilities{}); len(ps) != 0 {
		t.Errorf("a data plane without anything is offered %s", describe(ps))
	}
}

func TestSuiteLens(t *testing.T) {
	for _, c := range []struct {
		s           xfrm.Suite
		encr, integ int
	}{
		{xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 256}, 36, 0},
		{xfrm.Suite{Encr: alg.EncrChaCha20Poly1305, KeyBits: 256}, 36, 0},
		{xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 128, Integ: alg.IntegSHA256_128}, 16, 32},
		{xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.IntegSHA1_96}, 32, 20},
		{xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 256}, 0, 0},
		{xfrm.Suite{}, 0, 0},
	} {
		if e, i := SuiteLens(c.s); e != c.encr || i != c.integ {
			t.Errorf("%+v: %d and %d octets", c.s, e, i)
		}
	}
}

// TestChooseIKEWhatAllAllow: before the peer's identity is known, a suite that each candidate allows is chosen before one that only the first does.
func TestChooseIKEWhatAllAllow(t *testing.T) {
	a, b := conn(t, "aes256gcm16-prfsha256-ecp256, aes256-sha256-modp2048", "", ""), conn(t, "aes256-sha256-modp2048", "", "")
	offered := offer(t, "aes256gcm16-prfsha256-ecp256, aes256-sha256-modp2048", wire.ProtoIKE)
	for _, cands := range [][]*Connection{{a, b}, {b, a}} {
		p, s, m := ChooseIKE(cands, offered)
		if m != nil || p.Number != 2 || !b.AllowsIKE(s) || !a.AllowsIKE(s) {
			t.Errorf("proposal %d, %v, %+v", p.Number, s, m)
		}
	}
	if _, s, _ := ChooseIKE([]*Connection{a}, offered); s.String() != "AES-GCM-256, SHA2-256, ECP-256" {
		t.Errorf("alone the first choice is %v", s)
	}
}
