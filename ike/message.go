package ike

import (
	"fmt"
	"slices"

	"cygnet/ike/wire"
)

// message is one that has been opened, checked by its rule and stripped of payloads that do not belong to it.
type message struct {
	wire.Header
	payloads []wire.Payload
	rule     *rule
	path     Path
	raw      []byte // as it was on the wire
}

// stage is the exchange's name for people.
func stage(t wire.ExchangeType) string {
	switch t {
	case wire.IKESAInit:
		return "IKE_SA_INIT"
	case wire.IKEAuth:
		return "IKE_AUTH"
	case wire.CreateChildSA:
		return "CREATE_CHILD_SA"
	case wire.Informational:
		return "INFORMATIONAL"
	}
	return fmt.Sprintf("exchange %d", t)
}

// onPacket sorts an IKE message. What is wrong with an unprotected one is dropped in silence (RFC 7296 section 2.21).
func (sa *SA) onPacket(p Packet) {
	p.Path = p.Path.unmapped()
	m, err := wire.Decode(p.Data)
	switch {
	case err != nil:
		sa.noise("a datagram from %v is no IKE message: %v", p.Remote, err)
		if ph, ok := sa.phase.(*opening); ok && !sa.initiator && ph.limit == 0 { // it was to make this machine: nothing is kept for strangers
			sa.finish(CodeIgnored, "a malformed IKE_SA_INIT request", false)
		}
	case m.Exchange == wire.IKESAInit:
		sa.onInit(p, m)
	case sa.protect == nil || !sa.isOurs(m.Header):
		sa.noise("a %s from %v that belongs to no key of ours", stage(m.Exchange), p.Remote)
	case m.Response():
		sa.onResponse(p, m)
	default:
		sa.onRequest(p, m)
	}
}

// isOurs checks the SPIs, and that the sender's Initiator flag is the peer's (RFC 7296 section 3.1).
func (sa *SA) isOurs(h wire.Header) bool {
	i, r := sa.spis()
	return h.SPIi == i && h.SPIr == r && h.Initiator() != sa.initiator
}

// onResponse handles a protected response.
func (sa *SA) onResponse(p Packet, m *wire.Message) {
	if !sa.requests.answers(m.Header) {
		return // late, repeated or forged (RFC 7296 section 2.1)
	}
	c, ok := sa.reveal(&sa.requests.parts, p, m)
	if !ok {
		sa.disowned(p, m)
		return
	}
	sa.heard(p.Path)
	x := sa.requests.current
	sa.requests.answered()
	msg, r := sa.check(p, m.Header, c)
	if r != nil {
		x.onFailure(sa, r)
		return
	}
	x.onResponse(sa, msg)
}

// onRequest handles a protected request: inside the window, authentic, well formed.
func (sa *SA) onRequest(p Packet, m *wire.Message) {
	if sa.responses.answeredLast(m.Header) {
		sa.onRepeat(p, m)
		return
	}
	if !sa.responses.fresh(m.Header) || !sa.expects(m.Exchange) {
		return // RFC 7296 section 2.3: neither processed nor answered
	}
	c, ok := sa.reveal(&sa.responses.parts, p, m)
	if !ok {
		return
	}
	sa.heard(p.Path)
	sa.reached(sa.now)
	sa.responses.take(m.Header, p.Path, c.digest)
	if c.largest > 0 {
		sa.heedSize(c.largest)
	}
	msg, r := sa.check(p, m.Header, c)
	if r != nil {
		sa.refuse(r)
		return
	}
	sa.peerWentOn(msg)
	switch m.Exchange {
	case wire.IKEAuth:
		sa.onAuthRequest(msg)
	case wire.CreateChildSA:
		sa.onCreateRequest(msg)
	case wire.Informational:
		sa.onInfoRequest(msg)
	}
}

// expects: before IKE_AUTH is complete nothing else is processed (RFC 7296 section 1.4), and nothing unknown ever.
func (sa *SA) expects(t wire.ExchangeType) bool {
	switch sa.phase.name() {
	case phaseAuthenticating:
		return t == wire.IKEAuth && !sa.initiator
	case phaseEstablished, phaseClosing:
		return sa.up != 0 && (t == wire.CreateChildSA || t == wire.Informational)
	}
	return false
}

// open decrypts. A message whose checksum is wrong leaves no trace.
func (sa *SA) open(data []byte, m *wire.Message) (plain []byte, first wire.PayloadType, ok bool) {
	if len(m.Payloads) == 0 {
		return nil, 0, false
	}
	sk, ok := m.Payloads[len(m.Payloads)-1].(*wire.SK)
	if !ok {
		return nil, 0, false
	}
	plain, err := sa.protect.Open(data, sk)
	if err != nil {
		return nil, 0, false
	}
	return plain, sk.First, true
}

// check decodes the plaintext and applies the rules. First comes what makes the whole message void (RFC 7296 sections 2.5, 2.21.2).
func (sa *SA) check(p Packet, h wire.Header, c content) (*message, *Refusal) {
	ps, err := wire.ParsePayloads(c.first, c.plain)
	if err != nil {
		return nil, invalidSyntax(stage(h.Exchange), "%v", err)
	}
	if t, found := wire.CriticalUnknown(ps); found {
		return nil, unsupportedCritical(stage(h.Exchange), t)
	}
	row := ruleFor(h, sa.phase.name(), ps)
	if row == nil {
		return nil, invalidSyntax(stage(h.Exchange), "it does not belong here")
	}
	kept, strange, err := row.apply(ps)
	if err != nil {
		return nil, invalidSyntax(stage(h.Exchange), "%v", err)
	}
	if len(strange) > 0 {
		sa.ignored("payloads in %s that do not belong there: %v", stage(h.Exchange), strange)
	}
	return &message{Header: h, payloads: kept, rule: row, path: p.Path, raw: p.Data}, nil
}

// heard notes a fresh authentic message: the peer lives, and is where the message came from (RFC 7296 sections 2.4, 2.23).
func (sa *SA) heard(from Path) {
	sa.lastHeard = sa.now
	sa.mobility.tried, sa.mobility.renewed = nil, false
	sa.follow(from)
}

// header of a message of ours.
func (sa *SA) header(t wire.ExchangeType, response bool, id uint32) wire.Header {
	i, r := sa.spis()
	h := wire.Header{SPIi: i, SPIr: r, MajorVersion: 2, Exchange: t, MessageID: id}
	if sa.initiator {
		h.Flags |= wire.FlagInitiator
	}
	if response {
		h.Flags |= wire.FlagResponse
	}
	return h
}

// request sends a protected request of the exchange that has the window.
func (sa *SA) request(t wire.ExchangeType, plan schedule, ps ...wire.Payload) {
	h := sa.header(t, false, uint32(sa.requests.next))
	m, err := sa.seal(h, ps)
	if err != nil {
		sa.fail(&Refusal{Code: CodeInternal, Stage: stage(t), Why: fmt.Sprintf("cannot build the %s request: %v", stage(t), err)})
		return
	}
	sa.requests.launch(sa.now, m, plan)
	sa.transmit(sa.path, m)
}

// respond answers the peer's request that is being worked on.
func (sa *SA) respond(ps ...wire.Payload) {
	r := &sa.responses
	h := sa.header(r.header.Exchange, true, r.header.MessageID)
	m, err := sa.seal(h, ps)
	if err != nil {
		sa.fail(&Refusal{Code: CodeInternal, Stage: stage(h.Exchange), Why: fmt.Sprintf("cannot build the %s response: %v", stage(h.Exchange), err)})
		return
	}
	path := r.path
	r.give(m)
	sa.transmit(path, m)
}

// refuse answers the peer's request with an error. INVALID_SYNTAX, and any failure before the peer is known, ends the IKE SA without
// a Delete (RFC 7296 sections 2.21.2, 2.21.3).
func (sa *SA) refuse(r *Refusal) {
	sa.respond(r.notify())
	if sa.finished {
		return
	}
	switch {
	case sa.phase.name() == phaseAuthenticating:
		sa.linger(r)
	case r.Fatal:
		sa.fail(r)
	case r.Code == CodeIgnored:
		sa.ignored("%s", r.Why)
	default:
		sa.refused(r, "")
	}
}

// send gives octets to the transport.
func (sa *SA) send(p Path, data []byte) {
	if p == sa.path { // a repeat is answered to wherever it came from, and that keeps no mapping of the peer's path alive
		sa.lastSent = sa.now
	}
	sa.out.Add(Send{Path: p, Data: slices.Clip(data)})
}
