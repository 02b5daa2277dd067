package ike

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"net/netip"
	"slices"

	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// unmapped has IPv4 addresses as such: SAs and hashes are made of them.
func (p Path) unmapped() Path {
	return Path{
		Local:  netip.AddrPortFrom(p.Local.Addr().Unmap(), p.Local.Port()),
		Remote: netip.AddrPortFrom(p.Remote.Addr().Unmap(), p.Remote.Port()),
	}
}

// nat is what NAT detection found (RFC 7296 section 2.23).
type nat struct {
	local  bool // we are behind NAT
	remote bool // the peer is, or pretends to be
	asked  bool // of remote: the peer pretends, in the way in which we do
	faked  bool // we pretend to be, so that ESP travels in UDP
}

// encap reports whether ESP travels in UDP: both sides MUST when a NAT is there.
func (n nat) encap() bool { return n.local || n.remote || n.faked }

// String is for the line that reports the chosen suite.
func (n nat) String() string {
	switch {
	case n.local && n.remote && !n.asked:
		return "both sides are behind NAT"
	case n.local:
		return "we are behind NAT"
	case n.remote && n.asked:
		return "no NAT on the path, the peer asks for ESP in UDP"
	case n.remote:
		return "the peer is behind NAT, or asks for ESP in UDP"
	}
	return "no NAT on the path"
}

// natText is the NAT's words with the reason for ESP in UDP that lies here.
func (sa *SA) natText() string {
	switch {
	case !sa.nat.faked:
		return sa.nat.String()
	case sa.config.Caps.MustEncap:
		return sa.nat.String() + "; ESP in UDP (" + sa.config.Caps.Name + " data plane)"
	}
	return sa.nat.String() + "; ESP in UDP (encapsulation = always)"
}

// natWord says who is behind NAT, for programs: "unknown" is a peer that is, or only asks for ESP in UDP. A port that is none of its own
// proves that there is one.
func (sa *SA) natWord() string {
	port := sa.path.Remote.Port()
	own := port == policy.DefaultPort || port == policy.DefaultNATTPort || sa.conn != nil && port == sa.conn.Remote.Port
	remote := sa.nat.remote && !sa.nat.asked
	switch {
	case sa.nat.local && remote && !own:
		return "both"
	case sa.nat.local:
		return "local"
	case remote && own:
		return "unknown"
	case remote:
		return "remote"
	}
	return "none"
}

// natHash is the data of a NAT_DETECTION notify: SHA-1 of the SPIs of this header, address and port.
func natHash(i, r wire.SPI, at netip.AddrPort) []byte {
	h := sha1.New()
	var spis [16]byte
	binary.BigEndian.PutUint64(spis[:8], uint64(i))
	binary.BigEndian.PutUint64(spis[8:], uint64(r))
	h.Write(spis[:])
	h.Write(at.Addr().Unmap().AsSlice())
	var port [2]byte
	binary.BigEndian.PutUint16(port[:], at.Port())
	h.Write(port[:])
	return h.Sum(nil)
}

// natPayloads builds both notifies for a message that goes along path. To pretend a NAT the source is hashed with port 0, which no
// packet comes from.
func natPayloads(i, r wire.SPI, path Path, fake bool) []wire.Payload {
	src := path.Local
	if fake {
		src = netip.AddrPortFrom(src.Addr(), 0)
	}
	return []wire.Payload{
		wire.NewNotify(wire.NotifyNATDetectionSourceIP, natHash(i, r, src)),
		wire.NewNotify(wire.NotifyNATDetectionDestinationIP, natHash(i, r, path.Remote)),
	}
}

// detectNAT compares the notifies of a message with where it came from and arrived. Of several sources one match suffices.
// supported is false when the peer sent none: then it does not do NAT traversal.
func detectNAT(h wire.Header, ps []wire.Payload, path Path) (n nat, supported bool) {
	sources := notifies(ps, wire.NotifyNATDetectionSourceIP)
	destinations := notifies(ps, wire.NotifyNATDetectionDestinationIP)
	n.remote = len(sources) > 0 && !matches(sources, natHash(h.SPIi, h.SPIr, path.Remote))
	n.asked = n.remote && matches(sources, natHash(h.SPIi, h.SPIr, netip.AddrPortFrom(path.Remote.Addr(), 0)))
	n.local = len(destinations) > 0 && !matches(destinations, natHash(h.SPIi, h.SPIr, path.Local))
	return n, len(sources) > 0 && len(destinations) > 0
}

func matches(list []*wire.Notify, want []byte) bool {
	return slices.ContainsFunc(list, func(n *wire.Notify) bool { return bytes.Equal(n.Data, want) })
}

// wantsEncap reports whether a connection's ESP is to travel in UDP without need. Of several that it may be, one that wants it decides.
func (sa *SA) wantsEncap(conns ...*policy.Connection) bool {
	says := func(e policy.Encapsulation) bool {
		return slices.ContainsFunc(conns, func(c *policy.Connection) bool { return c.Encap == e })
	}
	return says(policy.EncapAlways) || sa.config.Caps.MustEncap && !says(policy.EncapNever)
}

// peerStays ends our pretence when the initiator has not moved to the NAT traversal port: it does not encapsulate without need, so its ESP
// comes plain.
func (sa *SA) peerStays(path Path) {
	_, natt := sa.ports()
	if sa.nat.faked && !sa.nat.local && !sa.nat.remote && path.Local.Port() != natt {
		sa.nat.faked = false
	}
}

// ports are our own: for IKE, and for IKE and ESP in UDP.
func (sa *SA) ports() (ike, natt uint16) {
	ike, natt = policy.DefaultPort, policy.DefaultNATTPort
	if s := sa.config.Snapshot; s != nil {
		if s.Daemon.Port != 0 {
			ike = s.Daemon.Port
		}
		if s.Daemon.NATTPort != 0 {
			natt = s.Daemon.NATTPort
		}
	}
	return ike, natt
}

// firstPath is where IKE_SA_INIT goes. A peer's port of its own is taken for one of NAT traversal: those are the ports that are mapped
// to inner hosts, and an initiator may use them from the beginning (RFC 7296 section 2.23).
func (sa *SA) firstPath(local, remote netip.Addr) Path {
	port, natt := sa.ports()
	to := sa.conn.Remote.Port
	if to == 0 {
		to = policy.DefaultPort
	}
	if to != policy.DefaultPort && to != port {
		port = natt
	}
	return Path{Local: netip.AddrPortFrom(local, port), Remote: netip.AddrPortFrom(remote, to)}
}

// moveToNATT changes to the NAT traversal ports, for IKE and ESP (RFC 7296 section 2.23: the initiator MUST when a NAT is there).
func (sa *SA) moveToNATT() {
	_, natt := sa.ports()
	if sa.path.Local.Port() == natt {
		return
	}
	to := uint16(policy.DefaultNATTPort)
	if sa.path.Remote.Port() != policy.DefaultPort {
		to = natt
	}
	sa.path.Local = netip.AddrPortFrom(sa.path.Local.Addr(), natt)
	sa.path.Remote = netip.AddrPortFrom(sa.path.Remote.Addr(), to)
}

// follow moves the peer's end to where a fresh authentic message came from. Only the side that is not behind a NAT does so: one
// behind a NAT that followed could be led astray (RFC 7296 section 2.23). Until the peer is known, a responder follows the initiator
// to the port for NAT traversal.
func (sa *SA) follow(from Path) {
	switch {
	case from == sa.path:
	case sa.phase.name() == phaseAuthenticating && !sa.initiator:
		sa.path = from
	case sa.mobility.agreed: // RFC 4555 section 3.8: MUST NOT, as UPDATE_SA_ADDRESSES says it
	case sa.nat.remote && !sa.nat.local:
		sa.moveTo(from)
	}
}

// moveTo changes the path of an established IKE SA and takes the children's SAs along.
func (sa *SA) moveTo(p Path) {
	old := sa.path
	sa.path = p
	if sa.up != 0 {
		sa.out.Add(Moved{From: old, To: p})
	}
	sa.report(Report{Code: CodePhase, Text: "the peer's mapping moved from " + old.Remote.String() + " to " + p.Remote.String()})
	sa.carry()
}

// onMapping: authentic ESP comes from another address or port.
func (sa *SA) onMapping(e Mapping) {
	if sa.childByInbound(e.ID) == nil || e.From == sa.way().path.Remote {
		return
	}
	if sa.mobility.stray = sa.now; !sa.nat.remote || sa.nat.local || e.From == sa.path.Remote {
		return
	}
	if sa.remap(Path{Local: sa.path.Local, Remote: e.From}); sa.way().path.Remote == e.From { // it is where the peer is
		sa.lastHeard, sa.mobility.stray = sa.now, 0
	}
}

// keepaliveDue: RFC 3948 section 4: the side behind the NAT keeps its mapping alive when it has sent nothing.
func (sa *SA) keepaliveDue() (Time, bool) {
	if !sa.nat.local || sa.conn == nil || sa.conn.NATKeepalive <= 0 || sa.phase.name() == phaseOpening {
		return 0, false
	}
	return sa.lastSent.Add(sa.conn.NATKeepalive), true
}

func (sa *SA) wakeKeepalive() {
	if sa.due(sa.keepaliveDue()) {
		sa.lastSent = sa.now
		sa.out.Add(Keepalive{Path: sa.path})
	}
}

// encap gives the outer ports of an SA, seen from its sender.
func (sa *SA) encap(d xfrm.Direction) *xfrm.Encap {
	w := sa.way()
	if !w.nat.encap() {
		return nil
	}
	local, remote := w.path.Local.Port(), w.path.Remote.Port()
	if d == xfrm.Out {
		return &xfrm.Encap{SrcPort: local, DstPort: remote}
	}
	return &xfrm.Encap{SrcPort: remote, DstPort: local}
}
