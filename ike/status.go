package ike

import (
	"net/netip"
	"slices"
	"strings"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// Status describes the machine; it holds no secret.
func (sa *SA) Status() Status {
	i, r := sa.spis()
	s := Status{
		Phase: string(sa.phase.name()), Initiated: sa.initiator, SPIi: i, SPIr: r, Path: sa.path,
		NATLocal: sa.nat.local, NATRemote: sa.nat.remote, Since: sa.since,
	}
	if sa.finished {
		s.Phase = string(phaseFinished)
	}
	if sa.up != 0 {
		s.Since = sa.up
		s.RemoteID = sa.peer.String()
	}
	if sa.suite != (suite.IKE{}) {
		s.Suite = sa.suite.String()
	}
	if sa.conn != nil {
		s.Connection, s.LocalID = sa.conn.Name, sa.conn.Local.ID.String()
		if s.RemoteID == "" && known(sa.conn.Remote.ID) {
			s.RemoteID = sa.conn.Remote.ID.String()
		}
	}
	for _, c := range sa.children {
		s.Children = append(s.Children, c.status())
	}
	return s
}

func (c *child) status() ChildStatus {
	return ChildStatus{
		Name: c.config.Name, Up: c.up, SPIIn: c.spiIn, SPIOut: c.spiOut, Suite: espName(c.suite), Mode: "tunnel", Encap: c.encap,
		Local: texts(c.local), Remote: texts(c.remote), In: c.inID(), Out: c.outID(), ReqID: c.reqid, Since: c.since,
	}
}

// offerText names what we offer, for a person who compares it with the peer: "AES-GCM-256, AES-GCM-128 / SHA2-256 / X25519; ...".
func offerText(ps []wire.Proposal) string {
	var all []string
	for _, p := range ps {
		var kinds []string
		for _, t := range []wire.TransformType{wire.TransformEncr, wire.TransformInteg, wire.TransformPRF, wire.TransformKE} {
			var names []string
			for _, tr := range p.Transforms {
				if name := transformName(tr); tr.Type == t && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				kinds = append(kinds, strings.Join(names, ", "))
			}
		}
		all = append(all, strings.Join(kinds, " / "))
	}
	return strings.Join(all, "; ")
}

func transformName(t wire.Transform) string {
	switch t.Type {
	case wire.TransformEncr:
		return alg.Describe(alg.Encr(t.ID), int(t.KeyBits))
	case wire.TransformInteg:
		return alg.DescribeMAC(alg.Integ(t.ID))
	case wire.TransformPRF:
		return "PRF " + suite.PRFName(wire.PRFID(t.ID))
	case wire.TransformKE:
		if wire.GroupID(t.ID) == wire.GroupNone {
			return "no key exchange"
		}
		return suite.DHName(wire.GroupID(t.ID))
	}
	return ""
}

// packetTS is the selector of one packet's side.
func packetTS(addr netip.Addr, proto uint8, ports xfrm.Ports) policy.TS {
	if ports == (xfrm.Ports{}) {
		ports = xfrm.Ports{Last: 65535}
	}
	return policy.TS{Start: addr, End: addr, Proto: proto, Ports: ports}
}
