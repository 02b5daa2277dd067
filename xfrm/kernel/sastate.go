package kernel

import (
	"encoding/binary"
	"strings"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"

	"github.com/vishvananda/netlink/nl"
)

// sastate is an SA as the kernel shows it. It aliases the receive buffer, keys included: nothing of it may be kept.
type sastate struct {
	info  *nl.XfrmUsersaInfo
	attrs attributes
}

func parseSA(content []byte) (sastate, error) {
	attrs, err := parseAttributes(content, nl.SizeofXfrmUsersaInfo)
	if err != nil {
		return sastate{}, err
	}
	info := *nl.DeserializeXfrmUsersaInfo(content)
	return sastate{&info, attrs}, nil
}

// The reqids and policy priorities that are ours (design: "Fail closed").
const (
	reqIDFirst, reqIDLast       = 0x43590000, 0x4359ffff // "CY"
	priorityFirst, priorityLast = 0x00100000, 0x001fffff
)

func ourReqID(id uint32) bool { return id >= reqIDFirst && id <= reqIDLast }

// ours reports whether s is a whole SA of this program's reqid range, not a larval one.
func (s sastate) ours() bool { return ourReqID(s.info.Reqid) && s.info.Id.Spi != 0 }

func (s sastate) id() xfrm.SAID {
	return xfrm.SAID{Dst: addressOf(s.info.Id.Daddr, s.info.Family), SPI: ntohl(s.info.Id.Spi), Proto: s.info.Id.Proto}
}

// direction is known when the kernel was told one (Linux 6.10).
func (s sastate) direction() xfrm.Direction {
	if v := s.attrs[nl.XFRMA_SA_DIR]; len(v) == 1 {
		return xfrm.Direction(v[0])
	}
	return 0
}

// sa is s without keys.
func (s sastate) sa() xfrm.SA {
	flags := s.attrs[nl.XFRMA_SA_EXTRA_FLAGS]
	return xfrm.SA{
		HideDSCP: len(flags) == 4 && binary.NativeEndian.Uint32(flags)&nl.XFRM_SA_XFLAG_DONT_ENCAP_DSCP != 0,
		ID:       s.id(), Src: addressOf(s.info.Saddr, s.info.Family),
		Direction: s.direction(), Mode: modeOf(s.info.Mode), ReqID: s.info.Reqid,
		Suite: s.suite(), Replay: s.replay().window, Encap: s.encap(),
		HardPackets: finite(s.info.Lft.HardPacketLimit), HardBytes: finite(s.info.Lft.HardByteLimit),
		SoftPackets: finite(s.info.Lft.SoftPacketLimit), SoftBytes: finite(s.info.Lft.SoftByteLimit),
	}
}

func finite(limit uint64) uint64 {
	if limit == nl.XFRM_INF {
		return 0
	}
	return limit
}

func (s sastate) encap() *xfrm.Encap {
	v := s.attrs[nl.XFRMA_ENCAP]
	if len(v) < nl.SizeofXfrmEncapTmpl {
		return nil
	}
	return &xfrm.Encap{SrcPort: binary.BigEndian.Uint16(v[2:]), DstPort: binary.BigEndian.Uint16(v[4:])}
}

// suite finds the algorithms by the kernel's names; what we do not know stays zero.
func (s sastate) suite() xfrm.Suite {
	suite := xfrm.Suite{ESN: s.info.Flags&nl.XFRM_STATE_ESN != 0}
	name, bits := algorithmOf(s.attrs[nl.XFRMA_ALG_AEAD])
	if name == "" {
		name, bits = algorithmOf(s.attrs[nl.XFRMA_ALG_CRYPT])
	}
	for _, c := range alg.Ciphers() {
		if c.Kernel == name {
			suite.Encr, suite.KeyBits = c.ID, bits-8*c.Salt
		}
	}
	name, _ = algorithmOf(s.attrs[nl.XFRMA_ALG_AUTH_TRUNC])
	for _, m := range alg.MACs() {
		if m.Kernel == name {
			suite.Integ = m.ID
		}
	}
	return suite
}

func algorithmOf(v []byte) (name string, keyBits int) {
	if len(v) < algorithmName+4 {
		return "", 0
	}
	name, _, _ = strings.Cut(string(v[:algorithmName]), "\x00")
	return name, int(binary.NativeEndian.Uint32(v[algorithmName:]))
}

// counters is an SA's replay state in either of the kernel's forms.
type counters struct {
	sent, seen uint64 // last sequence number
	window     uint32
	bitmap     []byte // of the ESN form; aliases the receive buffer
}

func (s sastate) replay() counters {
	if v := s.attrs[nl.XFRMA_REPLAY_ESN_VAL]; len(v) >= 24 {
		word := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(v[4*i:])) }
		return counters{sent: word(3)<<32 | word(1), seen: word(4)<<32 | word(2), window: uint32(word(5)), bitmap: v[24:]}
	}
	c := counters{window: uint32(s.info.ReplayWindow)}
	if v := s.attrs[nl.XFRMA_REPLAY_VAL]; len(v) >= nl.SizeofXfrmReplayState {
		c.sent, c.seen = uint64(binary.NativeEndian.Uint32(v)), uint64(binary.NativeEndian.Uint32(v[4:]))
	}
	return c
}

func (s sastate) usage(dir xfrm.Direction) xfrm.Usage {
	u := xfrm.Usage{
		Bytes: s.info.Curlft.Bytes, Packets: s.info.Curlft.Packets, LastUse: int64(s.info.Curlft.UseTime),
		// The kernel counts packets left of the window and packets seen before apart.
		ReplayDrops:    uint64(s.info.Stats.Replay) + uint64(s.info.Stats.ReplayWindow),
		IntegrityDrops: uint64(s.info.Stats.IntegrityFailed),
	}
	// Curlft has the first use; the last one is an attribute.
	if v := s.attrs[nl.XFRMA_LASTUSED]; len(v) >= 8 {
		u.LastUse = int64(binary.NativeEndian.Uint64(v))
	}
	// An SA moves in one direction only, so the other number is zero.
	r := s.replay()
	if u.Sequence = max(r.sent, r.seen); dir == xfrm.Out {
		u.Sequence = r.sent
	}
	return u
}
