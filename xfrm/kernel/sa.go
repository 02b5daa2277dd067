package kernel

import (
	"encoding/binary"
	"fmt"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// dialect is what this kernel understands beyond the basics.
type dialect struct {
	direction bool // XFRMA_SA_DIR: an SA is for one direction only (Linux 6.10)
}

const (
	espInUDP = 2 // UDP_ENCAP_ESPINUDP

	// mappingInterval is how many seconds the kernel stays quiet about a peer whose new address it has reported
	// (XFRMA_MTIMER_THRESH); without it each packet is reported until the SA is updated.
	mappingInterval = 1

	legacyWindow = 32   // the widest replay window of the old replay state
	widestWindow = 4096 // XFRMA_REPLAY_ESN_MAX
)

// newSA is the request that adds sa. hardSeconds 0: without a limit in time.
func (d dialect) newSA(sa *xfrm.SA, hardSeconds uint64) (*request, error) {
	if err := checkSA(sa); err != nil {
		return nil, err
	}
	info := nl.XfrmUsersaInfo{
		Id:     nl.XfrmId{Daddr: address(sa.ID.Dst), Spi: htonl(sa.ID.SPI), Proto: sa.ID.Proto},
		Saddr:  address(sa.Src),
		Lft:    lifetimes(sa, hardSeconds),
		Reqid:  sa.ReqID,
		Family: family(sa.ID.Dst),
		Mode:   modeNumber(sa.Mode),
	}
	if sa.Mode == xfrm.Tunnel {
		// The selector stays empty and of no family: without this flag the kernel gives it the outer family and drops
		// inner packets of the other one. What may travel is checked by the policies (RFC 4301 section 5.2).
		info.Flags |= nl.XFRM_STATE_AF_UNSPEC
	} else {
		info.Sel.Family = info.Family
	}
	esn, err := d.replay(sa, &info)
	if err != nil {
		return nil, err
	}
	r := newRequest(nl.XFRM_MSG_NEWSA, unix.NLM_F_ACK).body(info.Serialize())
	if err := addAlgorithms(r, sa); err != nil {
		r.wipe()
		return nil, err
	}
	if esn != nil {
		r.attr(nl.XFRMA_REPLAY_ESN_VAL, esn)
	}
	if sa.Encap != nil {
		e := encapTemplate(*sa.Encap)
		r.attr(nl.XFRMA_ENCAP, e.Serialize())
		if sa.Direction == xfrm.In {
			r.attr32(nl.XFRMA_MTIMER_THRESH, mappingInterval)
		}
	}
	if sa.HideDSCP {
		r.attr32(nl.XFRMA_SA_EXTRA_FLAGS, nl.XFRM_SA_XFLAG_DONT_ENCAP_DSCP)
	}
	if d.direction {
		r.attr8(nl.XFRMA_SA_DIR, uint8(sa.Direction))
	}
	return r, nil
}

func checkSA(sa *xfrm.SA) error {
	switch {
	case !sa.ID.Dst.IsValid() || !sa.Src.IsValid() || sa.ID.Dst.Is4() != sa.Src.Is4():
		return fmt.Errorf("outer addresses %v -> %v: both must be of one address family", sa.Src, sa.ID.Dst)
	case sa.ID.Proto != xfrm.ProtoESP:
		return fmt.Errorf("IP protocol %d: only ESP (%d) is handled", sa.ID.Proto, xfrm.ProtoESP)
	case sa.Direction != xfrm.In && sa.Direction != xfrm.Out:
		return fmt.Errorf("direction %d: neither in nor out", sa.Direction)
	case sa.Mode != xfrm.Tunnel && sa.Mode != xfrm.Transport:
		return fmt.Errorf("mode %d: neither tunnel nor transport", sa.Mode)
	}
	encr, integ, err := alg.KeyLens(sa.Suite.Encr, sa.Suite.KeyBits, sa.Suite.Integ)
	if err != nil {
		return err
	}
	if sa.EncrKey.Len() != encr || sa.IntegKey.Len() != integ {
		return fmt.Errorf("keys of %d and %d octets, but %s takes %d and %d",
			sa.EncrKey.Len(), sa.IntegKey.Len(), alg.Describe(sa.Suite.Encr, sa.Suite.KeyBits), encr, integ)
	}
	return nil
}

// replay chooses the replay state: the old one (in info) for windows up to 32 packets without ESN, else the returned
// ESN state, which the kernel also takes without ESN for the sake of its wider window.
func (d dialect) replay(sa *xfrm.SA, info *nl.XfrmUsersaInfo) ([]byte, error) {
	window := sa.Replay
	if window > widestWindow {
		return nil, fmt.Errorf("replay window of %d packets: the kernel has at most %d", window, widestWindow)
	}
	if sa.Suite.ESN {
		info.Flags |= nl.XFRM_STATE_ESN
	}
	if sa.Direction == xfrm.Out {
		window = 0
	}
	if !sa.Suite.ESN && window <= legacyWindow {
		info.ReplayWindow = uint8(window)
		return nil, nil
	}
	// An outbound SA has no window: since Linux 6.10 one with a direction must not, before that one with ESN must.
	if sa.Suite.ESN && (sa.Direction == xfrm.In || !d.direction) {
		window = max(window, legacyWindow)
	}
	return replayState(0, 0, window, nil), nil
}

// replayState is a struct xfrm_replay_state_esn; bitmap may be nil (all zero).
func replayState(sent, seen uint64, window uint32, bitmap []byte) []byte {
	words := (window + 31) / 32
	b := make([]byte, 24+4*words)
	for i, v := range []uint32{words, uint32(sent), uint32(seen), uint32(sent >> 32), uint32(seen >> 32), window} {
		binary.NativeEndian.PutUint32(b[4*i:], v)
	}
	copy(b[24:], bitmap)
	return b
}

// lifetimes: the kernel's infinity is all ones, ours is zero.
func lifetimes(sa *xfrm.SA, hardSeconds uint64) nl.XfrmLifetimeCfg {
	inf := func(v uint64) uint64 {
		if v == 0 {
			return nl.XFRM_INF
		}
		return v
	}
	return nl.XfrmLifetimeCfg{
		SoftByteLimit: inf(sa.SoftBytes), HardByteLimit: inf(sa.HardBytes),
		SoftPacketLimit: inf(sa.SoftPackets), HardPacketLimit: inf(sa.HardPackets),
		HardAddExpiresSeconds: hardSeconds, // in seconds zero is infinity
	}
}

// addAlgorithms appends the algorithms with their keys straight from the secrets to the request.
func addAlgorithms(r *request, sa *xfrm.SA) error {
	cipher, ok := alg.CipherByID(sa.Suite.Encr)
	if !ok {
		return fmt.Errorf("encryption algorithm %d is not known", sa.Suite.Encr)
	}
	key := sa.EncrKey.Bytes()
	if cipher.AEAD() {
		r.attr(nl.XFRMA_ALG_AEAD, algorithm(cipher.Kernel, 8*len(key), cipher.ICVBits()), key)
		return nil
	}
	mac, ok := alg.MACByID(sa.Suite.Integ)
	if !ok {
		return fmt.Errorf("integrity algorithm %d is not known", sa.Suite.Integ)
	}
	r.attr(nl.XFRMA_ALG_CRYPT, algorithm(cipher.Kernel, 8*len(key)), key)
	// With the length of the ICV: the kernel's own default for HMAC-SHA2-256 is 96 bits, a draft's (RFC 4868 has 128).
	key = sa.IntegKey.Bytes()
	r.attr(nl.XFRMA_ALG_AUTH_TRUNC, algorithm(mac.Kernel, 8*len(key), mac.TruncBits()), key)
	return nil
}

// algorithmName is the length of a name in struct xfrm_algo.
const algorithmName = 64

// algorithm is the head of a struct xfrm_algo, xfrm_algo_auth or xfrm_algo_aead: name, then numbers of bits.
func algorithm(name string, numbers ...int) []byte {
	b := make([]byte, algorithmName, algorithmName+8)
	copy(b[:algorithmName-1], name)
	for _, n := range numbers {
		b = binary.NativeEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// The kernel's numbers of the modes are not ours.
const modeTransport, modeTunnel = 0, 1

func modeNumber(m xfrm.Mode) uint8 {
	if m == xfrm.Transport {
		return modeTransport
	}
	return modeTunnel
}

func modeOf(number uint8) xfrm.Mode {
	if number == modeTransport {
		return xfrm.Transport
	}
	return xfrm.Tunnel
}

func encapTemplate(e xfrm.Encap) nl.XfrmEncapTmpl {
	return nl.XfrmEncapTmpl{EncapType: espInUDP, EncapSport: htons(e.SrcPort), EncapDport: htons(e.DstPort)}
}

// saID is the body of a request about one SA.
func saID(id xfrm.SAID) []byte {
	x := nl.XfrmUsersaId{Daddr: address(id.Dst), Spi: htonl(id.SPI), Family: family(id.Dst), Proto: id.Proto}
	return append([]byte(nil), x.Serialize()...)
}

func delSA(id xfrm.SAID) *request {
	return newRequest(nl.XFRM_MSG_DELSA, unix.NLM_F_ACK).body(saID(id))
}

func getSA(id xfrm.SAID) *request { return newRequest(nl.XFRM_MSG_GETSA, 0).body(saID(id)) }

// listSAs asks for all ESP SAs.
func listSAs() *request {
	return newRequest(nl.XFRM_MSG_GETSA, unix.NLM_F_DUMP).attr8(nl.XFRMA_PROTO, xfrm.ProtoESP)
}
