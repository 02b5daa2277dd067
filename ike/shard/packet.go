package shard

import (
	"cygnet/ike"
	"cygnet/ike/wire"
)

// packet finds the machine of a packet by SPIs alone, not by its source address (RFC 7296 section 2.6).
func (s *Shard) packet(now ike.Time, p ike.Packet, out *[]Action) {
	h, err := wire.ParseHeader(p.Data)
	switch {
	case err != nil:
		s.count(BadHeader)
	case h.MajorVersion < 2:
		s.count(OldVersion) // IKEv1 is answered with nothing (RFC 9395)
	case h.MajorVersion > 2:
		s.count(NewVersion)
		s.refuse(now, p, h, wire.NotifyInvalidMajorVersion, out)
	case h.SPIi == 0:
		s.count(BadSPI) // a one-way INVALID_SPI of RFC 7296 section 1.5 is not acted upon
	case h.Exchange == wire.IKESAInit && !h.Response():
		if h.SPIr != 0 || !h.Initiator() || h.MessageID != 0 {
			s.count(BadSPI) // RFC 7296 section 3.1
			return
		}
		s.initRequest(now, h, p, out)
	default:
		s.deliver(now, h, p, out)
	}
}

func (s *Shard) deliver(now ike.Time, h wire.Header, p ike.Packet, out *[]Action) {
	m := s.machines[ourSPI(h)]
	if m == nil || !m.answersTo(h) {
		if m == nil && s.recite(now, h, p, out) {
			return
		}
		s.count(UnknownSPI)
		if h.NextPayload == wire.PayloadSK || h.NextPayload == wire.PayloadSKF { // else it may be a one-way INVALID_SPI, which is never answered (section 1.5)
			s.refuse(now, p, h, wire.NotifyInvalidIKESPI, out)
		}
		return
	}
	s.turn(now, m, p, out)
}

// answersTo compares the other SPI. An IKE_SA_INIT response is the machine's to judge: a forged one may have come first.
func (m *machine) answersTo(h wire.Header) bool {
	known := m.peer.PeerSPI()
	return known == 0 || known == peerSPI(h) || h.Exchange == wire.IKESAInit
}

// refuse sends an unprotected notify to a request, never to a response (RFC 7296 section 2.21.4), few per source and in all.
func (s *Shard) refuse(now ike.Time, p ike.Packet, h wire.Header, kind wire.NotifyType, out *[]Action) {
	if h.Response() {
		return
	}
	if !s.notifies.allow(now, sourceOf(p.Remote.Addr())) {
		s.count(NotifyHeldBack)
		return
	}
	if s.answer(p.Path, h, &wire.Notify{Kind: kind}, len(p.Data), out) {
		s.count(NotifySent)
	}
}

// answer sends an unprotected response that keeps no state: SPIs, message ID and exchange type are copied, the version is ours (RFC 7296
// section 1.5). It never sends more octets than came.
func (s *Shard) answer(path ike.Path, h wire.Header, n *wire.Notify, came int, out *[]Action) bool {
	msg := wire.Message{
		Header: wire.Header{SPIi: h.SPIi, SPIr: h.SPIr, MajorVersion: 2, Exchange: h.Exchange, MessageID: h.MessageID,
			Flags: wire.FlagResponse | h.Flags&wire.FlagInitiator ^ wire.FlagInitiator},
		Payloads: []wire.Payload{n},
	}
	data, err := msg.Encode()
	if err != nil || len(data) > came {
		s.count(Amplification)
		return false
	}
	*out = append(*out, Action{0, ike.Send{Path: path, Data: data}})
	return true
}
