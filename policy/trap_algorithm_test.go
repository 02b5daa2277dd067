package policy

import (
	"testing"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// transformIDs are all that are assigned, and some beyond.
func transformIDs() (ids []uint16) {
	for id := range uint16(1100) {
		ids = append(ids, id)
	}
	return append(ids, 32768, 65280, 65534, 65535)
}

// TestTrap_8247_5_ESP: what RFC 8221 demands of ESP can be configured and is taken (but NULL, which protects nothing secret); what it forbids is not there.
func TestTrap_8247_5_ESP(t *testing.T) {
	for _, words := range []string{"aes256gcm16", "aes128gcm16", "chacha20poly1305", "aes128-sha256", "aes256-sha256"} {
		ch := conn(t, "", words, "").Children[0]
		if _, m := ChooseESP(ch, offer(t, words, wire.ProtoESP), false, 0, allCaps()); m != nil {
			t.Errorf("%s: %+v", words, m)
		}
	}
	for _, words := range []string{"null-sha256", "null", "des-sha256", "3des-sha256", "blowfish128-sha256", "aes128-md5"} {
		if ps, _, wrong := readProposals(words, wire.ProtoESP); len(wrong) == 0 {
			t.Errorf("%s can be configured: %v", words, ps)
		}
	}
}

// TestTrap_8247_6_NoIntegrity: a cipher that does not authenticate is never without integrity, and NULL never there: offered, chosen or configured.
func TestTrap_8247_6_NoIntegrity(t *testing.T) {
	for _, c := range alg.Ciphers() {
		for _, bits := range c.KeyBits {
			if _, _, err := alg.KeyLens(c.ID, bits, alg.IntegNone); (err == nil) != c.AEAD() {
				t.Errorf("%s without integrity: %v", c.Label, err)
			}
		}
	}
	for _, cipher := range []wire.Transform{encr(wire.EncrAESCBC, 128), encr(wire.EncrAESCBC, 256), encr(wire.EncrNull, 0)} {
		for _, none := range [][]wire.Transform{{cipher, esn(wire.ESNNo)}, {cipher, integ(wire.IntegNone), esn(wire.ESNNo)}} {
			if got, ok := takesESP(t, false, espOf(none...)); ok {
				t.Errorf("%v is taken: %+v", none, got)
			}
		}
	}
	for _, words := range []string{"aes128", "null"} {
		if ps, _, wrong := readProposals(words, wire.ProtoESP); len(wrong) == 0 {
			for _, p := range ps {
				if !hasType(p, wire.TransformInteg) {
					t.Errorf("%s is offered without integrity: %v", words, p)
				}
			}
		}
	}
}

// TestTrap_4303_12_ReplayIsNeverOff: there is no configuration without anti-replay, so that extended numbers may be negotiated at will.
func TestTrap_4303_12_ReplayIsNeverOff(t *testing.T) {
	for words, ok := range map[string]bool{"0": false, "1": false, "31": false, "32": true, "4096": true, "4097": false, "-1": false} {
		s, problems := Parse([]Source{{"conn.d/site-b.toml", []byte(siteB + "replay_window = " + words + "\n")}}, secrets(longKey))
		if (s != nil) != ok {
			t.Errorf("replay_window = %s: %v", words, problems)
		}
		if s != nil && s.Connections[0].Children[0].Replay < 32 {
			t.Errorf("replay_window = %s is %d", words, s.Connections[0].Children[0].Replay)
		}
	}
	if w := conn(t, "", "", "").Children[0].Replay; w < 64 {
		t.Errorf("the default is %d", w)
	}
}

func hasType(p wire.Proposal, typ wire.TransformType) bool {
	for _, x := range p.Transforms {
		if x.Type == typ {
			return true
		}
	}
	return false
}

// TestCVE_2016_3071_EveryTransform: each ID in each slot: what is chosen is implemented, and the rest of the offer is still tried.
func TestCVE_2016_3071_EveryTransform(t *testing.T) {
	ours := []*Connection{conn(t, "", "", "")}
	good := ikeOf(classicIKE()...)
	good.Number = 2
	chosen := 0
	for typ := wire.TransformType(1); typ <= 13; typ++ {
		for _, id := range transformIDs() {
			for _, bits := range []uint16{0, 256} {
				p := ikeOf(with(classicIKE(), wire.Transform{Type: typ, ID: id, KeyBits: bits})...)
				got, s, m := ChooseIKE(ours, []wire.Proposal{p, good})
				if m != nil {
					t.Fatalf("type %d, ID %d of %d bits: the good proposal is not tried: %+v", typ, id, bits, m)
				}
				if err := s.Validate(); err != nil || !suite.Supported(s.Group) {
					t.Errorf("type %d, ID %d of %d bits: %v is chosen: %v", typ, id, bits, s, err)
				}
				if got.Number == 1 {
					chosen++
				}
			}
		}
	}
	if chosen == 0 {
		t.Error("never chosen")
	}
}

// TestCVE_2024_3652_Combinations: each cipher with each integrity algorithm and key length, 0 and absent ones included: a choice always has keys.
func TestCVE_2024_3652_Combinations(t *testing.T) {
	ch := conn(t, "", "", "").Children[0]
	for e := range uint16(34) {
		for i := range uint16(16) {
			for _, bits := range []uint16{0, 1, 128, 256} {
				for _, ts := range [][]wire.Transform{{encr(e, bits), integ(i), esn(wire.ESNNo)}, {encr(e, bits), esn(wire.ESNNo)}} {
					got, m := ChooseESP(ch, []wire.Proposal{espOf(ts...)}, false, 0, allCaps())
					if m != nil {
						continue
					}
					if n, _ := SuiteLens(got.Suite); n == 0 {
						t.Errorf("%v is chosen and has no keys: %+v", ts, got)
					}
					if _, _, err := alg.KeyLens(got.Suite.Encr, got.Suite.KeyBits, got.Suite.Integ); err != nil || got.Suite.Encr != alg.Encr(e) {
						t.Errorf("%v: %+v is chosen: %v", ts, got, err)
					}
				}
			}
		}
	}
}
