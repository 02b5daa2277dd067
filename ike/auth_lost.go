package ike

import (
	"fmt"
	"strings"

	"cygnet/policy"
)

// IKE_SA_INIT goes through and IKE_AUTH never does: its messages are larger, and may take another port. Small answers pass a firewall or NAT that drops
// the fragments of large ones. This file names what was seen of that.

// authLost is an initiator's guess, the likelier reason first.
func (sa *SA) authLost() string {
	var causes []string
	m := sa.requests.message
	largest := 0
	for _, data := range m.datagrams {
		largest = max(largest, len(data)+sa.overhead(sa.path))
	}
	switch n := len(m.datagrams); {
	case sa.requests.parts.collecting():
		return fmt.Sprintf("of its answer %s came, the others never", sa.requests.parts.text())
	case n > 1:
		causes = append(causes, fmt.Sprintf("some of its %d fragments of up to %d octets", n, largest))
	case largest > policy.SmallestIPv4:
		causes = append(causes, fmt.Sprintf("its datagram of %d octets is too large", largest))
	}
	if sa.fragments.agreed {
		causes = append(causes, fmt.Sprintf("UDP %d is closed", sa.path.Remote.Port()))
	} else {
		causes = append(causes, fmt.Sprintf("UDP %d is closed", sa.path.Remote.Port()), "the answer is large and comes in fragments of IP, which a firewall drops")
	}
	return strings.Join(causes, ", or ")
}

func (sa *SA) authLostHint() string {
	hint := fmt.Sprintf("open UDP %d both ways in the firewalls on the path", sa.path.Remote.Port())
	switch {
	case sa.fragments.agreed:
	case sa.conn.Fragments.Off:
		hint += fmt.Sprintf(`, for fragments of IP too, or write fragmentation = "yes" (%s)`, where(sa.conn, "fragmentation"))
	default:
		hint += ", for fragments of IP too, or allow IKE fragmentation on the peer (strongSwan, Libreswan: fragmentation = yes)"
	}
	return hint
}

// halfOpen is a responder's: an IKE_SA_INIT request was answered, and nothing has followed.
func (sa *SA) halfOpen() *Refusal {
	r := &Refusal{Code: CodeNoAnswer, Stage: "IKE_AUTH", Why: fmt.Sprintf("half-open: %v began IKE_SA_INIT, and no IKE_AUTH of it came in %s", sa.path.Remote, duration(halfOpenLimit))}
	if f := &sa.responses.parts; f.collecting() {
		r.Why = fmt.Sprintf("half-open: %v began IKE_SA_INIT, and of its IKE_AUTH only %s came in %s", sa.path.Remote, f.text(), duration(halfOpenLimit))
	}
	_, natt := sa.ports()
	r.Hint = fmt.Sprintf("if it is no scanner: is UDP %d open to here, and do large packets pass, in fragments of IP if need be?", natt)
	return r
}
