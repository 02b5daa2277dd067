package policy

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// FuzzParse: no TOML makes Parse panic; a configuration without errors is complete and parses the same again; each problem has a place in the
// file.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.toml")
	more, _ := filepath.Glob("testdata/*/*.toml")
	for _, name := range append(files, more...) {
		if data, err := os.ReadFile(name); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		sources := []Source{{"x.toml", data}}
		s, problems := Parse(sources, testFiles)
		if (s == nil) != Fatal(problems) {
			t.Fatal("a snapshot in spite of problems, or none without")
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, p := range problems {
			if p.File != "x.toml" || p.Line < 0 || p.Line > lines || p.Code == "" || p.Text == "" {
				t.Errorf("%+v in %d lines", p, lines)
			}
		}
		if s == nil {
			return
		}
		for _, c := range s.Connections {
			if c.PSK.Len() == 0 || len(c.IKE) == 0 || len(c.Children) == 0 || c.Local.ID.Type == 0 || c.Remote.ID.Type == 0 {
				t.Errorf("connection %s is not complete", c.Name)
			}
			if _, _, m := ChooseIKE([]*Connection{c}, OfferIKE(c)); m != nil {
				t.Errorf("%s does not agree with itself: %v", c.Name, m)
			}
			for _, ch := range c.Children {
				if n := len(Selectors(ch.Local, ch.Remote)); n == 0 || n > maxSelectors {
					t.Errorf("%s/%s has %d selectors", c.Name, ch.Name, n)
				}
				if _, m := ChooseESP(ch, OfferESP(ch, 256, true, allCaps()), true, 0, allCaps()); m != nil {
					t.Errorf("%s/%s does not agree with itself: %v", c.Name, ch.Name, m)
				}
			}
		}
		if again, _ := Parse(sources, testFiles); again.Text() != s.Text() {
			t.Error("two readings differ")
		}
	})
}

// FuzzProposalWords: what is accepted has every type that its protocol needs, nothing that we refuse, and agrees with itself.
func FuzzProposalWords(f *testing.F) {
	for _, s := range []string{"aes256-sha256-modp2048", "aes_gcm256-sha2_512;dh19,aes256+aes128-sha2_256;modp2048", "chacha20poly1305-prfsha384-x25519!", "aes", "-", ",", "3des-md5", "null", "aes256gcm16-esn-noesn-ecp521"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, proto := range []wire.ProtocolID{wire.ProtoIKE, wire.ProtoESP} {
			ps, _, wrong := readProposals(text, proto)
			if len(ps) == 0 && !slices.ContainsFunc(wrong, func(w trouble) bool { return !w.warning }) {
				t.Errorf("%q is neither read nor refused", text)
			}
			if len(ps) > wire.MaxProposals {
				t.Errorf("%d proposals", len(ps))
			}
			for i, p := range ps {
				p.Number = uint8(i + 1)
				if proto == wire.ProtoESP {
					p.SPI = []byte{1, 2, 3, 4}
				}
				m, flaw := newMenu(p)
				if flaw != "" {
					t.Errorf("%q gives a proposal with a flaw: %s", text, flaw)
				}
				types := []wire.TransformType{wire.TransformESN}
				if proto == wire.ProtoIKE {
					types = []wire.TransformType{wire.TransformPRF, wire.TransformKE}
				}
				if _, lacking := m.agree(m, types...); len(lacking) > 0 {
					t.Errorf("%q does not agree with itself: %v", text, lacking)
				}
				for _, x := range p.Transforms {
					if a, ok := lookUp(x); !ok || a.Refuse != "" || len(p.Transforms) > wire.MaxTransforms {
						t.Errorf("%q gives %v", text, x)
					}
				}
			}
		}
	})
}

// selectorsFrom makes selectors of octets, 13 to each.
func selectorsFrom(b []byte) (out []wire.TrafficSelector) {
	for len(b) >= 13 && len(out) < wire.MaxSelectors {
		w := wire.TrafficSelector{TSType: wire.TSIPv4AddrRange, Protocol: b[0] & 0x11, StartPort: binary.BigEndian.Uint16(b[1:]), EndPort: binary.BigEndian.Uint16(b[3:]),
			Start: netip.AddrFrom4([4]byte(b[5:9])), End: netip.AddrFrom4([4]byte(b[9:13]))}
		if b[0]&2 != 0 {
			w.StartPort, w.EndPort = 0, 65535
		}
		if b[0]&4 != 0 {
			w.TSType = wire.TSIPv6AddrRange
			w.Start, w.End = netip.AddrFrom16([16]byte{0: b[5], 1: b[6], 15: b[7]}), netip.AddrFrom16([16]byte{0: b[9], 1: b[10], 15: b[11]})
		}
		out, b = append(out, w), b[13:]
	}
	return out
}

// FuzzNarrow: whatever the peer asks for, the answer is within the offer and within the child, has selectors that packets can match, holds
// the first of the offer when the child does, and is an answer that the offerer accepts.
func FuzzNarrow(f *testing.F) {
	seed := func(text string) (b []byte) {
		for _, w := range WireTS(list(f, text)) {
			b = append(b, w.Protocol|2)
			b = binary.BigEndian.AppendUint16(b, w.StartPort)
			b = binary.BigEndian.AppendUint16(b, w.EndPort)
			s, e := w.Start.As4(), w.End.As4()
			b = append(append(b, s[:]...), e[:]...)
		}
		return b
	}
	f.Add(seed("10.2.0.0/16"), seed("10.1.0.0/16"), seed("10.2.0.0/16"), seed("10.1.0.0/16"))
	f.Add(seed("10.2.0.5 0.0.0.0/0"), seed("10.1.0.5 0.0.0.0/0"), seed("10.2.0.0/16 10.9.0.0/16"), seed("10.1.0.0-10.1.0.77"))
	f.Fuzz(func(t *testing.T, i, r, remote, local []byte) {
		tsi, tsr := selectorsFrom(i), selectorsFrom(r)
		ch := &Child{Name: "x", Local: fromWire(selectorsFrom(local)), Remote: fromWire(selectorsFrom(remote))}
		got, gotI, gotR, m := Narrow(&Connection{Children: []*Child{ch}}, tsi, tsr)
		if (m == nil) != (got == ch) {
			t.Fatal("neither answer nor refusal")
		}
		offer := pair{fromWire(tsi), fromWire(tsr)}
		if m != nil {
			if m.Text == "" || m.Notify != wire.NotifyTSUnacceptable {
				t.Errorf("%+v", m)
			}
			return
		}
		if !Within(gotI, offer.i) || !Within(gotR, offer.r) {
			t.Errorf("%v <-> %v is wider than the offer %v <-> %v", gotI, gotR, offer.i, offer.r)
		}
		if !Within(gotI, ch.Remote) || !Within(gotR, ch.Local) {
			t.Errorf("%v <-> %v is wider than the child", gotI, gotR)
		}
		if n := len(Selectors(gotI, gotR)); n == 0 || n > maxSelectors || len(gotI) > wire.MaxSelectors || len(gotR) > wire.MaxSelectors {
			t.Errorf("%d selectors", n)
		}
		if _, _, m := CheckNarrowed(&Child{Local: offer.i, Remote: offer.r}, WireTS(gotI), WireTS(gotR)); m != nil {
			t.Errorf("the offerer does not accept the answer: %v", m)
		}
	})
}

// FuzzSelector: what is read is sound, and is read again from how it is written.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"10.1.0.0/16", "10.1.0.5", "10.0.0.1-10.0.0.9[tcp/443]", "::/0[icmpv6/133]", "10.1.0.0/16[icmp/3(1)]", "[", "-", "10.0.0.0/8[tcp/opaque]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ts, _, why := readSelector(text)
		if why != "" {
			return
		}
		if !ts.sound() {
			t.Errorf("%q is read as %+v", text, ts)
		}
		again, masked, why := readSelector(ts.word())
		if again != ts || masked != "" || why != "" {
			t.Errorf("%q is written %q and read as %v, %s", text, ts.word(), again, why)
		}
		for _, p := range ts.prefixes() {
			if !(TS{Start: p.Addr(), End: lastOf(p), Ports: xfrm.Ports{Last: 65535}}).within([]TS{{Start: ts.Start, End: ts.End, Ports: anyPort()}}) {
				t.Errorf("%v of %v", p, ts)
			}
		}
	})
}

// FuzzLines: the scanner of lines ends, on any text, with lines that exist.
func FuzzLines(f *testing.F) {
	f.Add("[a]\nb = { c = [1, \"x\"] }\n")
	f.Add("a = '''\n\n'''\n# b\n[[c]]\n\"d\".e = 1")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			return
		}
		for path, line := range keyLines(text) {
			if line < 1 || line > strings.Count(text, "\n")+1 {
				t.Errorf("%q at line %d", path, line)
			}
		}
	})
}
