package ike

import (
	"cygnet/ike/suite"
)

// Status describes the machine; it holds no secret.
func (sa *SA) Status() Status {
	i, r := sa.spis()
	s := Status{
		Phase: string(sa.phase.name()), Initiated: sa.initiator, SPIi: i, SPIr: r, Path: sa.path,
		NATLocal: sa.nat.local, NATRemote: sa.nat.remote, NAT: sa.natWord(), Since: sa.since, LastHeard: sa.lastHeard,
	}
	s.MOBIKE = sa.mobility.agreed
	s.Fragmentation, s.FragmentSize = sa.fragmentStatus()
	if sa.finished {
		s.Phase = string(phaseFinished)
	}
	if sa.requests.waiting() {
		s.Sent, s.Tries = sa.requests.sent, sa.requests.plan.tries
	}
	if sa.phase.name() == phaseEstablished {
		s.RekeyAt, s.ReauthAt = sa.life.rekey, sa.life.reauth
	}
	if sa.up != 0 {
		s.Since = sa.up
		s.RemoteID, s.Proof = sa.peer.String(), sa.proved
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
		Local: texts(c.local), Remote: texts(c.remote), Narrowed: c.narrowed, In: c.inID(), Out: c.outID(), ReqID: c.reqid, Since: c.since, RekeyAt: c.rekeyAt,
	}
}
