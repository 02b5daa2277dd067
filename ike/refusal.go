package ike

import (
	"errors"
	"fmt"
	"slices"

	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// Refusal is a failure of an exchange. It is made once, where the fault is found; the machine alone decides what the peer hears, what
// the operator hears, and what is closed.
type Refusal struct {
	Notify   wire.NotifyType // what the peer hears; 0: nothing
	Protocol wire.ProtocolID // of the notify, with SPI
	SPI      []byte
	Data     []byte
	Stage    string // exchange: "IKE_AUTH"
	Code     Code
	Why      string // one line for the operator, with both sides' values
	Hint     string // what to change
	Detail   string
	Caller   string // the connection whose peer an unknown caller wanted to be
	Fatal    bool   // the IKE SA ends with it, without a Delete (RFC 7296 section 2.21.3)
}

func (r *Refusal) Error() string { return r.Stage + ": " + r.Why }

// notify is the payload that tells the peer.
func (r *Refusal) notify() *wire.Notify {
	return &wire.Notify{Kind: r.Notify, Protocol: r.Protocol, SPI: r.SPI, Data: r.Data}
}

// invalidSyntax is a protected message that is badly formed; both sides drop the IKE SA without a Delete.
func invalidSyntax(stage, format string, args ...any) *Refusal {
	return &Refusal{
		Notify: wire.NotifyInvalidSyntax, Stage: stage, Code: CodeProtocol, Fatal: true,
		Why: fmt.Sprintf("the peer sent a malformed %s: %s", stage, fmt.Sprintf(format, args...)),
	}
}

// unsupportedCritical: RFC 7296 section 2.5.
func unsupportedCritical(stage string, t wire.PayloadType) *Refusal {
	return &Refusal{
		Notify: wire.NotifyUnsupportedCriticalPayload, Data: []byte{byte(t)}, Stage: stage, Code: CodeProtocol,
		Why: fmt.Sprintf("the peer's %s demands that we understand payload type %d, which we do not", stage, t),
	}
}

// temporary is the answer to what does not fit our present state (RFC 7296 section 2.25).
func temporary(stage, why string) *Refusal {
	return &Refusal{Notify: wire.NotifyTemporaryFailure, Stage: stage, Code: CodeIgnored, Why: why}
}

// mismatch makes a Refusal of a negotiation that failed.
func mismatch(stage string, code Code, m *policy.Mismatch) *Refusal {
	r := &Refusal{Notify: m.Notify, Stage: stage, Code: code, Why: m.Text, Hint: m.Hint}
	if m.Ours != "" || m.Theirs != "" {
		r.Detail = fmt.Sprintf("ours: %s; theirs: %s", m.Ours, m.Theirs)
	}
	return r
}

// errInstall is the text of a data plane's refusal.
func errInstall(stage string, err error) *Refusal {
	if taken := (*xfrm.TakenError)(nil); errors.As(err, &taken) {
		return &Refusal{Notify: wire.NotifyTSUnacceptable, Stage: stage, Code: CodeNoSelectors, Why: taken.Error(), Hint: "give each peer addresses of its own"}
	}
	return &Refusal{
		Notify: wire.NotifyTemporaryFailure, Stage: stage, Code: CodeDataplane,
		Why: fmt.Sprintf("the data plane refused: %v", err),
	}
}

// where is the line of the configuration that a hint is about.
func where(c *policy.Connection, keys ...string) string { return c.Where(keys...) }

// errorNotify finds the first error notify of a message.
func errorNotify(ps []wire.Payload) *wire.Notify {
	for _, n := range wire.All[*wire.Notify](ps) {
		if n.Kind.IsError() {
			return n
		}
	}
	return nil
}

// notifies lists the notifies of one type.
func notifies(ps []wire.Payload, kind wire.NotifyType) []*wire.Notify {
	return slices.DeleteFunc(wire.All[*wire.Notify](ps), func(n *wire.Notify) bool { return n.Kind != kind })
}

// callerOf names the connection that a refused caller wanted: the one that it named, or the only one that its address allows.
func callerOf(conn *policy.Connection, candidates []*policy.Connection) string {
	switch {
	case conn != nil:
		return conn.Name
	case len(candidates) == 1:
		return candidates[0].Name
	}
	return ""
}

var errNoRandomness = errors.New("no randomness")
