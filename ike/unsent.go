package ike

import (
	"fmt"
)

// SendFault says why the host did not send a message.
type SendFault uint8

const (
	SendRefused  SendFault = iota // by a firewall, by a full queue: it may pass
	SendNoSource                  // the source address is none of the host's
	SendNoRoute
	SendTooLarge // the path does not take so large a datagram
)

// onSendFailed: as long as nothing was heard of the peer, an attempt that cannot succeed ends at once. Later a loss is a loss, whoever causes it;
// only a host that was away has then not asked its peer in vain.
func (sa *SA) onSendFailed(e SendFailed) {
	if e.Fault == SendTooLarge && sa.tooLarge() {
		return
	}
	if sa.requests.waiting() && e.Path == sa.path && e.Fault != SendTooLarge {
		sa.requests.unsent++
	}
	x, ok := sa.requests.current.(*initExchange)
	if !ok || x.busy || x.refusal != nil || e.Path != sa.path || !sa.requests.waiting() {
		return
	}
	r := &Refusal{Stage: x.name(), Code: CodeNotSent}
	switch e.Fault {
	case SendNoSource:
		r.Why = fmt.Sprintf("cannot send from %v: it is no address of this host", e.Local.Addr())
		if sa.conn.Local.Address.IsValid() {
			r.Why += " (" + where(sa.conn, "local.address", "local") + ")"
			r.Hint = "give local an address of this host, or leave its address out"
		}
	case SendNoRoute:
		r.Why = fmt.Sprintf("cannot send from %v: no route to %v", e.Local.Addr(), e.Remote.Addr())
		r.Hint = fmt.Sprintf("see: ip route get %v", e.Remote.Addr())
	default:
		sa.report(Report{Code: CodeSent, Text: fmt.Sprintf("not sent: %v", e.Err), Hint: "does a firewall of this host forbid it?"})
		return
	}
	x.onFailure(sa, r)
}
