package kernel

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"cygnet/xfrm"

	"github.com/vishvananda/netlink/nl"
)

// Notices as the kernel sends them, by hand: see golden_test.go.

const (
	noticeSA = ` # xfrm_usersa_info: selector, id, source
00*56  20 01 0d b8 00*12  c1 02 03 04  32 00*3  fd 00 00 07 00*12
ff*16  01 00*7  ff*8  00*32  00*32  00*12  00*4   # soft packets: 1
01 00 59 43  0a 00  01  00  20  00*7
`
	noticeExpire  = `f8 00 00 00  18 00  00 00  00*8` + noticeSA
	noticeMapping = `
50 00 00 00  26 00  00 00  00*8
c0 00 02 01 00*12  c1 02 03 04  02 00  32  00    # xfrm_usersa_id
01 00 59 43  c6 33 64 07 00*12  c6 33 64 08 00*12  11 94  c3 50
`
	noticeAcquire = `
74 01 00 00  17 00  00 00  00*8
c6 33 64 07 00*12 00*4 32 00*3  c0 00 02 01 00*12 # id, saddr
0a 02 00 09 00*12  0a 01 00 01 00*12              # selector of the packet: ICMP type 8, code 0
00 00 ff ff  00 08 ff ff  02 00  20 20  01 00*3  00*4 00*4
00*168                                            # the policy
ff*12  01 00 00 00                                # algorithms, seq
44 00 05 00                                       # XFRMA_TMPL
c6 33 64 07 00*12 00*4 32 00*3  02 00 00 00  c0 00 02 01 00*12  01 00 59 43  01 00 00 00  ff*12
05 00 10 00  00 00*3                              # XFRMA_POLICY_TYPE
`
)

func TestGoldenNotices(t *testing.T) {
	sa := xfrm.SAID{Dst: ip("2001:db8::"), SPI: 0xc1020304, Proto: 50} // its octets after the fourth are zero: still IPv6
	mapping := xfrm.Mapping{ID: xfrm.SAID{Dst: ip("192.0.2.1"), SPI: 0xc1020304, Proto: 50}, From: netip.MustParseAddrPort("198.51.100.8:50000")}
	ping := xfrm.Acquire{ReqID: 0x43590001, Selector: xfrm.Selector{
		Src: prefix("10.1.0.1/32"), Dst: prefix("10.2.0.9/32"), Proto: 1,
		SrcPorts: xfrm.Ports{First: 8 << 8, Last: 8 << 8}, DstPorts: xfrm.Ports{First: 8 << 8, Last: 8 << 8},
	}}
	for name, c := range map[string]struct {
		text string
		want []xfrm.Event
	}{
		"soft limit of one packet": {noticeExpire + `00 00*7`, []xfrm.Event{xfrm.FirstUse{ID: sa}}},
		"another soft limit":       {strings.Replace(noticeExpire, "01 00*7", "02 00*7", 1) + `00 00*7`, []xfrm.Event{xfrm.Expire{ID: sa}}},
		"hard limit":               {noticeExpire + `01 00*7`, []xfrm.Event{xfrm.Expire{ID: sa, Hard: true}}},
		"expiry of another's SA":   {strings.Replace(noticeExpire, "01 00 59 43", "01 00 60 43", 1) + `00 00*7`, nil},
		"expiry of an ACQUIRE":     {strings.Replace(noticeExpire, "c1 02 03 04", "00*4", 1) + `01 00*7`, nil},
		"mapping":                  {noticeMapping, []xfrm.Event{mapping}},
		"mapping of another's SA":  {strings.Replace(noticeMapping, "01 00 59 43", "01 00 00 00", 1), nil},
		"acquire":                  {noticeAcquire, []xfrm.Event{ping}},
		"acquire of another's":     {strings.Replace(noticeAcquire, "01 00 59 43", "01 00 58 43", 1), nil},
		"several":                  {noticeMapping + noticeAcquire + noticeMapping, []xfrm.Event{mapping, ping, mapping}},
		"policy expiry":            {`b8 00 00 00  1b 00  00 00  00*8  00*168`, nil},
	} {
		if got := notices(octets(t, c.text)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func FuzzNotices(f *testing.F) {
	for _, s := range []string{noticeExpire + `00 00*7`, noticeMapping, noticeAcquire} {
		f.Add(octets(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { notices(b) })
}

// FuzzTables reads the kernel's SAs and policies.
func FuzzTables(f *testing.F) {
	r, err := dialect{direction: true}.newSA(gcmIn(), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(r.b[16:])
	for _, p := range everyKind() {
		list, err := putPolicy(&p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(list[0].b[16:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseSA(b); err == nil {
			s.sa()
			s.usage(s.direction())
			if r, err := s.updateSA(xfrm.Encap{SrcPort: 1, DstPort: 2}); err == nil {
				r.wipe()
			}
			if r, err := s.moveSA(s.direction(), ip("192.0.2.1"), ip("192.0.2.2"), nil); err == nil {
				r.wipe()
			}
		}
		if p, _, ours, err := parsePolicy(b); err == nil && ours {
			var table spd
			table.add(p)
			table.policies()
		}
	})
}

// What UPDSA and a move send, from an SA as the kernel shows it.
func TestSuccessorKeepsWhatItMust(t *testing.T) {
	sa := gcmIn()
	sa.Suite.ESN = true
	r, err := dialect{direction: true}.newSA(sa, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.attr(nl.XFRMA_LASTUSED, make([]byte, 8)) // must not go back
	s, err := parseSA(r.b[16:])
	if err != nil {
		t.Fatal(err)
	}
	s.info.Curlft = nl.XfrmLifetimeCur{Bytes: 1000, Packets: 10}
	s.info.Stats.Replay = 3
	copy(s.attrs[nl.XFRMA_REPLAY_ESN_VAL], replayState(0, 1<<32|77, 64, []byte{1, 2, 3, 4, 5, 6, 7, 8}))

	update, err := s.updateSA(xfrm.Encap{SrcPort: 5, DstPort: 6})
	if err != nil {
		t.Fatal(err)
	}
	move, err := s.moveSA(xfrm.In, ip("2001:db8::7"), ip("2001:db8::1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r     *request
		kind  byte
		encap *xfrm.Encap
		dst   string
	}{{update, nl.XFRM_MSG_UPDSA, &xfrm.Encap{SrcPort: 5, DstPort: 6}, "192.0.2.1"}, {move, nl.XFRM_MSG_NEWSA, nil, "2001:db8::1"}} {
		got, err := parseSA(c.r.b[16:])
		if err != nil || c.r.b[4] != c.kind {
			t.Fatalf("type %#x, %v", c.r.b[4], err)
		}
		want := s.sa()
		want.ID.Dst, want.Encap, want.SoftPackets = ip(c.dst), c.encap, 0 // its soft limit has been reported
		if c.encap == nil {
			want.Src = ip("2001:db8::7")
		}
		if !reflect.DeepEqual(got.sa(), want) {
			t.Errorf("%#x: %+v\nwant %+v", c.kind, got.sa(), want)
		}
		if !bytes.Equal(got.attrs[nl.XFRMA_ALG_AEAD], s.attrs[nl.XFRMA_ALG_AEAD]) || got.attrs[nl.XFRMA_LASTUSED] != nil {
			t.Errorf("%#x: algorithm or last use", c.kind)
		}
		if r := got.replay(); r.seen != 1<<32|77 || !bytes.Equal(r.bitmap, []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
			t.Errorf("%#x: replay state %+v", c.kind, r)
		}
		if got.info.Stats != (nl.XfrmStats{}) || got.info.Curlft != (nl.XfrmLifetimeCur{}) {
			t.Errorf("%#x: counters in the fixed part", c.kind)
		}
		if mt := got.attrs[nl.XFRMA_MTIMER_THRESH]; (mt != nil) != (c.encap != nil) {
			t.Errorf("%#x: MTIMER_THRESH %x, which only an encapsulated SA may have", c.kind, mt)
		}
	}
	if got, _ := parseSA(move.b[16:]); !bytes.Equal(got.attrs[nl.XFRMA_LTIME_VAL], s.info.Curlft.Serialize()) {
		t.Error("the move loses the counters")
	}
}

// A sequence number is never used twice: a moved outbound SA skips some, and one near its end has none left.
func TestMoveSkipsSequenceNumbers(t *testing.T) {
	for _, c := range []struct {
		esn        bool
		sent, want uint64
	}{
		{false, 0, 0}, {false, 10, 10 + sequenceGap}, {false, 1<<32 - 10, 1<<32 - 1},
		{true, 10, 10 + sequenceGap}, {true, 1<<32 - 10, 1<<32 - 10 + sequenceGap},
	} {
		sa := gcmIn()
		sa.Direction, sa.Suite.ESN = xfrm.Out, c.esn
		r, err := dialect{direction: true}.newSA(sa, 0)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := parseSA(r.b[16:])
		if c.esn {
			copy(s.attrs[nl.XFRMA_REPLAY_ESN_VAL], replayState(c.sent, 0, 0, nil))
		} else {
			s.attrs[nl.XFRMA_REPLAY_VAL] = append(binary.NativeEndian.AppendUint32(nil, uint32(c.sent)), make([]byte, 8)...)
		}
		moved, err := s.moveSA(xfrm.Out, ip("192.0.2.1"), ip("192.0.2.2"), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := parseSA(moved.b[16:])
		if got.replay().sent != c.want {
			t.Errorf("%+v: %d", c, got.replay().sent)
		}
	}
}
