package kernel

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// The requests as linux/xfrm.h lays them out, written by hand for a little-endian machine. "00*16" repeats an octet,
// # begins a comment.

var repeat = regexp.MustCompile(`^([0-9a-f]{2})\*([0-9]+)$`)

func octets(t testing.TB, text string) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for _, w := range strings.Fields(line) {
			if m := repeat.FindStringSubmatch(w); m != nil {
				n, _ := strconv.Atoi(m[2])
				w = strings.Repeat(m[1], n)
			}
			b, err := hex.DecodeString(w)
			if err != nil {
				t.Fatalf("golden text %q: %v", w, err)
			}
			out = append(out, b...)
		}
	}
	return out
}

func same(t *testing.T, r *request, err error, golden string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	got, want := r.seal(7), octets(t, golden)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("differs at octet %d (%#x) of %d, want %d\ngot  % x\nwant % x", i, i, len(got), len(want), got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}

func key(first byte, n int) alg.Secret {
	b := make([]byte, n)
	for i := range b {
		b[i] = first
	}
	return alg.NewSecret(b)
}

func ip(s string) netip.Addr       { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func gcmIn() *xfrm.SA {
	return &xfrm.SA{
		ID: xfrm.SAID{Dst: ip("192.0.2.1"), SPI: 0xc1020304, Proto: 50}, Src: ip("198.51.100.7"),
		Direction: xfrm.In, Mode: xfrm.Tunnel, ReqID: 0x43590001, Replay: 64,
		Suite:   xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 128},
		EncrKey: key(0x11, 20), Encap: &xfrm.Encap{SrcPort: 4500, DstPort: 4501},
		SoftPackets: 1, HardBytes: 0x100000000,
	}
}

func TestGoldenNewSAInboundAEAD(t *testing.T) {
	r, err := dialect{direction: true}.newSA(gcmIn(), 0)
	same(t, r, err, `
a0 01 00 00  10 00  05 00  07 00 00 00  00*4   # nlmsghdr: 416 octets, XFRM_MSG_NEWSA, REQUEST|ACK
# xfrm_usersa_info
00*16 00*16                                    # selector: any destination, any source
00 00 00 00  00 00 00 00                       #   ports and masks
00 00  00 00  00 00*3  00*4 00*4               #   no family (AF_UNSPEC), prefix lengths, protocol, ifindex, user
c0 00 02 01 00*12  c1 02 03 04  32 00*3        # id: destination, SPI in network order, ESP
c6 33 64 07 00*12                              # source
ff*8                                           # soft bytes: none
00 00 00 00 01 00 00 00                        # hard bytes: 2^32
01 00*7                                        # soft packets: 1
ff*8                                           # hard packets: none
00*32                                          # seconds
00*32  00*12  00*4                             # current lifetime, stats, seq
01 00 59 43                                    # reqid
02 00  01  00  20  00*7                        # AF_INET, tunnel, no old window, flag AF_UNSPEC
# XFRMA_ALG_AEAD: rfc4106(gcm(aes)), 160 bits of key and salt, 128 bits of ICV
60 00 12 00
72 66 63 34 31 30 36 28 67 63 6d 28 61 65 73 29 29 00*47
a0 00 00 00  80 00 00 00  11*20
# XFRMA_REPLAY_ESN_VAL: 2 words of bitmap, no numbers yet, window 64
24 00 17 00  02 00 00 00  00*16  40 00 00 00  00*8
# XFRMA_ENCAP: espinudp, ports in network order, no original address
1c 00 04 00  02 00  11 94  11 95  00 00  00*16
08 00 20 00  01 00 00 00                       # XFRMA_MTIMER_THRESH
05 00 21 00  01 00*3                           # XFRMA_SA_DIR: in
`)
}

func TestGoldenNewSAOutboundCBC(t *testing.T) {
	sa := &xfrm.SA{
		ID: xfrm.SAID{Dst: ip("2001:db8::7"), SPI: 0x00000100, Proto: 50}, Src: ip("2001:db8::1"),
		Direction: xfrm.Out, Mode: xfrm.Transport, ReqID: 0x43590002, Replay: 64, // of no meaning outbound
		Suite:   xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.IntegSHA256_128, ESN: true},
		EncrKey: key(0x22, 32), IntegKey: key(0x33, 32),
	}
	head := func(octets string) string {
		return octets + ` 10 00  05 00  07 00 00 00  00*4
00*16 00*16  00*8  0a 00  00 00  00 00*3  00*4 00*4    # selector: any, of the outer family
20 01 0d b8 00*11 07  00 00 01 00  32 00*3
20 01 0d b8 00*11 01
ff*32 00*32                                            # no limits
00*32  00*12  00*4
02 00 59 43
0a 00  00  00  80  00*7                                # AF_INET6, transport, flag ESN
# XFRMA_ALG_CRYPT: cbc(aes), 256 bits
68 00 02 00  63 62 63 28 61 65 73 29 00*56  00 01 00 00  22*32
# XFRMA_ALG_AUTH_TRUNC: hmac(sha256), 256 bits of key, 128 bits of ICV
6c 00 14 00  68 6d 61 63 28 73 68 61 32 35 36 29 00*52  00 01 00 00  80 00 00 00  33*32
`
	}
	r, err := dialect{direction: true}.newSA(sa, 0)
	same(t, r, err, head(`e8 01 00 00`)+`
1c 00 17 00  00*24                                     # XFRMA_REPLAY_ESN_VAL: no window, no bitmap (Linux 6.10)
05 00 21 00  02 00*3                                   # XFRMA_SA_DIR: out
`)
	r, err = dialect{}.newSA(sa, 0)
	same(t, r, err, head(`e4 01 00 00`)+`
20 00 17 00  01 00 00 00  00*16  20 00 00 00  00*4     # without directions ESN needs a window
`)
}

func TestReplayStateForm(t *testing.T) {
	for _, c := range []struct {
		dir           xfrm.Direction
		esn, newer    bool
		window        uint32
		legacy        uint8
		words, bigger int // -1: the old form
	}{
		{xfrm.In, false, true, 0, 0, -1, 0},
		{xfrm.In, false, true, 32, 32, -1, 0},
		{xfrm.In, false, true, 33, 0, 2, 33},
		{xfrm.In, false, true, 1024, 0, 32, 1024},
		{xfrm.In, true, true, 0, 0, 1, 32}, // no ESN without anti-replay (RFC 4303 section 3.3.3)
		{xfrm.In, true, true, 4096, 0, 128, 4096},
		{xfrm.Out, false, true, 1024, 0, -1, 0},
		{xfrm.Out, true, true, 1024, 0, 0, 0},
		{xfrm.Out, true, false, 1024, 0, 1, 32},
	} {
		sa := gcmIn()
		sa.Direction, sa.Suite.ESN, sa.Replay = c.dir, c.esn, c.window
		r, err := dialect{direction: c.newer}.newSA(sa, 0)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSA(r.b[16:])
		if err != nil {
			t.Fatal(err)
		}
		v, there := s.attrs[23]
		words := -1
		if there {
			words = int(v[0])
		}
		if s.info.ReplayWindow != c.legacy || words != c.words || there && s.replay().window != uint32(c.bigger) || there && len(v) != 24+4*words {
			t.Errorf("%+v: old window %d, words %d, state %+v", c, s.info.ReplayWindow, words, s.replay())
		}
	}
}

func TestGoldenOneSA(t *testing.T) {
	id := xfrm.SAID{Dst: ip("192.0.2.1"), SPI: 0xc1020304, Proto: 50}
	body := ` c0 00 02 01 00*12  c1 02 03 04  02 00  32  00`
	same(t, delSA(id), nil, `28 00 00 00  11 00  05 00  07 00 00 00  00*4`+body)
	same(t, getSA(id), nil, `28 00 00 00  12 00  01 00  07 00 00 00  00*4`+body)
	same(t, listSAs(), nil, `18 00 00 00  12 00  01 03  07 00 00 00  00*4  05 00 19 00 32 00*3`)
	same(t, listPolicies(), nil, `10 00 00 00  15 00  01 03  07 00 00 00  00*4`)
}

func sitePolicy() *xfrm.Policy {
	return &xfrm.Policy{
		Slot: xfrm.Slot{
			Direction: xfrm.Out, Mark: 0x2a, IfID: 7,
			Selector: xfrm.Selector{Src: prefix("10.1.0.0/16"), Dst: prefix("10.2.0.0/16"), Proto: 6, DstPorts: xfrm.Ports{First: 443, Last: 443}},
		},
		Template: xfrm.Template{Src: ip("2001:db8::1"), Dst: ip("2001:db8::7"), ReqID: 0x43590001, SPI: 0xc1020304},
		Priority: 0x00100123,
	}
}

func TestGoldenPolicyOut(t *testing.T) {
	list, err := putPolicy(sitePolicy())
	if len(list) != 1 {
		t.Fatalf("%d requests, %v", len(list), err)
	}
	selector := `
0a 02 00*14  0a 01 00*14                       # destination, source
01 bb ff ff  00 00 00 00                       # ports and masks in network order
02 00  10 10  06 00*3  00*4 00*4               # AF_INET, /16 and /16, TCP
`
	same(t, list[0], err, `
10 01 00 00  19 00  05 00  07 00 00 00  00*4   # 272 octets, XFRM_MSG_UPDPOLICY
`+selector+`
ff*32 00*32                                    # no limits
00*32                                          # current lifetime
23 01 10 00  00*4                              # priority, index
01 00 00 00  00*4                              # out, allow, no flags, share any
# XFRMA_TMPL: outer addresses of the other family, any SPI, ESP, reqid, tunnel, required, any algorithm
44 00 05 00
20 01 0d b8 00*11 07  00*4  32 00*3
0a 00 00 00  20 01 0d b8 00*11 01
01 00 59 43  01 00 00 00  ff*12
0c 00 15 00  2a 00 00 00  ff ff ff ff          # XFRMA_MARK
08 00 1f 00  07 00 00 00                       # XFRMA_IF_ID
`)
	list, err = removePolicy(sitePolicy().Slot)
	if len(list) != 1 {
		t.Fatalf("%d requests, %v", len(list), err)
	}
	same(t, list[0], err, `
64 00 00 00  14 00  05 00  07 00 00 00  00*4   # XFRM_MSG_DELPOLICY
`+selector+`
00*4  01 00*3                                  # index, out
0c 00 15 00  2a 00 00 00  ff ff ff ff
08 00 1f 00  07 00 00 00
`)
}

func TestGoldenPolicyIn(t *testing.T) {
	p := &xfrm.Policy{
		Slot:     xfrm.Slot{Direction: xfrm.In, Selector: xfrm.Selector{Src: prefix("fd00:2::/32"), Dst: prefix("fd00:1::/32")}},
		Action:   xfrm.Block,
		Priority: 0x00100200,
	}
	list, err := putPolicy(p)
	if len(list) != 2 {
		t.Fatalf("%d requests, %v", len(list), err)
	}
	for i, dir := range []string{"00", "02"} { // in, fwd
		same(t, list[i], err, `
b8 00 00 00  19 00  05 00  07 00 00 00  00*4
fd 00 00 01 00*12  fd 00 00 02 00*12  00*8  0a 00  20 20  00 00*3  00*4 00*4
ff*32 00*32  00*32
00 02 10 00  00*4
`+dir+` 01 00 00  00*4                         # direction, block
`)
	}
	p.Action = xfrm.Pass
	list, _ = putPolicy(p)
	if got := list[0].seal(7); len(got) != 0xb8 || got[0xb1] != 0 {
		t.Errorf("pass: %x", got)
	}
}

func TestRequestIsWipedAlsoWhenItGrew(t *testing.T) {
	r := newRequest(1, 0).attr(1, []byte("key"))
	first := r.b[:cap(r.b)]
	r.attr(2, make([]byte, 2*requestRoom))
	second := r.b
	r.wipe()
	if bytes.Contains(first, []byte("key")) || bytes.Contains(second, []byte("key")) || !bytes.Equal(second, make([]byte, len(second))) {
		t.Error("a key is still there")
	}
}

func TestBadSAsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*xfrm.SA){
		"address family":   func(sa *xfrm.SA) { sa.Src = ip("2001:db8::1") },
		"only ESP":         func(sa *xfrm.SA) { sa.ID.Proto = 51 },
		"neither in nor":   func(sa *xfrm.SA) { sa.Direction = 0 },
		"neither tunnel":   func(sa *xfrm.SA) { sa.Mode = 4 },
		"keys of 19 and 0": func(sa *xfrm.SA) { sa.EncrKey = key(1, 19) },
		"keys of 20 and 4": func(sa *xfrm.SA) { sa.IntegKey = key(1, 4) },
		"at most 4096":     func(sa *xfrm.SA) { sa.Replay = 4097 },
	} {
		sa := gcmIn()
		spoil(sa)
		if r, err := (dialect{}).newSA(sa, 0); r != nil || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sa := gcmIn()
	sa.Suite.Encr = 999
	if _, err := (dialect{}).newSA(sa, 0); err == nil {
		t.Error("an unknown cipher was taken")
	}
}

// RFC 4301 section 5.1.2.1: that DSCP is not copied is an SA's property, which a change of it must not lose.
func TestHiddenDSCP(t *testing.T) {
	for _, hide := range []bool{false, true} {
		sa := gcmIn()
		sa.Direction, sa.HideDSCP = xfrm.Out, hide
		r, err := dialect{direction: true}.newSA(sa, 0)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSA(r.b[16:])
		if err != nil || s.sa().HideDSCP != hide {
			t.Errorf("hidden %v, want %v: %v", s.sa().HideDSCP, hide, err)
		}
		next, err := parseSA(s.successor(0x1a, nil).b[16:])
		if err != nil || next.sa().HideDSCP != hide {
			t.Errorf("after a change hidden %v, want %v: %v", next.sa().HideDSCP, hide, err)
		}
	}
}
