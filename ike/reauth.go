package ike

import (
	"encoding/binary"
	"math"
	"time"

	"cygnet/ike/wire"
)

// Reauthentication is a new IKE SA from scratch, which the directory opens beside this one (RFC 7296 section 2.8.3); this one is deleted once
// its children are up there. AUTH_LIFETIME (RFC 4478) tells the initiator when the responder wants it.

// reauthSoonest: a peer cannot make us authenticate more often than that.
const reauthSoonest = 10 * time.Second

// startReauth begins the time until the peer must prove itself again. A responder tells the initiator and gives it until then; only if it does
// not act the responder does.
func (sa *SA) startReauth() {
	sa.life.proved, sa.life.initiated = sa.now, sa.initiator
	l := sa.conn.Lifetime
	if l.Reauth <= 0 {
		return
	}
	sa.life.reauthOver = sa.now.Add(l.Reauth + l.Over)
	if sa.initiator {
		sa.life.reauth = sa.now.Add(sa.sooner(l.Reauth, l.Jitter))
	} else {
		sa.life.reauth = sa.now.Add(l.Reauth + l.Over/4)
	}
}

// authLifetime is the notify of a responder that limits the lifetime, or nothing.
func (sa *SA) authLifetime() []wire.Payload {
	if sa.conn.Lifetime.Reauth <= 0 {
		return nil
	}
	seconds := min(sa.conn.Lifetime.Reauth/time.Second, math.MaxUint32)
	return []wire.Payload{wire.NewNotify(wire.NotifyAuthLifetime, binary.BigEndian.AppendUint32(nil, uint32(seconds)))}
}

// heedAuthLifetime: the responder wants us to authenticate anew in time; 0 is now (RFC 4478 section 2). What we want ourselves may be sooner.
func (sa *SA) heedAuthLifetime(ps []wire.Payload) {
	n, ok := wire.FindNotify(ps, wire.NotifyAuthLifetime)
	if !ok || len(n.Data) != 4 || !sa.life.initiated || sa.phase.name() != phaseEstablished {
		return
	}
	span := time.Duration(binary.BigEndian.Uint32(n.Data)) * time.Second
	at := sa.now
	if span > 0 {
		at = at.Add(sa.sooner(span-span/10, span/10))
	}
	at = max(at, sa.life.proved.Add(reauthSoonest))
	if sa.life.reauth == 0 || at.Before(sa.life.reauth) {
		sa.life.reauth = at
	}
	sa.ignored("the peer wants us to authenticate anew within %s (AUTH_LIFETIME)", duration(span))
}

// reauthenticate asks for an IKE SA beside this one.
func (sa *SA) reauthenticate(why string) {
	sa.report(Report{Code: CodeReauth, Text: "authenticating anew: " + why})
	sa.out.Add(Reauthenticate{Connection: sa.conn.Name, Why: why})
}

func deleteIKE() wire.Payload { return &wire.Delete{Protocol: wire.ProtoIKE} }
