package ike

import (
	"slices"
	"testing"

	"cygnet/ike/wire"
)

// opened is a message as its receiver reads it.
type opened struct {
	wire.Header
	from *host
	ps   []wire.Payload
}

func (o *opened) is(t wire.ExchangeType, response bool) bool {
	return o.Exchange == t && o.Response() == response
}

// tamper lets a test change the payloads of messages on the wire, also of protected ones: that is what a peer with keys can do.
func (n *network) tamper(change func(o *opened) bool) {
	n.hook = func(d datagram) []datagram {
		m, err := wire.Decode(d.data)
		if err != nil {
			return []datagram{d}
		}
		from, to := n.rewire(d.from.Addr()), n.rewire(d.to.Addr())
		o := &opened{Header: m.Header, from: from, ps: m.Payloads}
		if m.Exchange == wire.IKESAInit {
			if change(o) {
				d.data = encode(n.t, &wire.Message{Header: o.Header, Payloads: o.ps})
			}
			return []datagram{d}
		}
		if to == nil || to.sa == nil {
			return []datagram{d}
		}
		receiver, sender := to.machine(receiverSPI(m.Header)), from.machine(senderSPI(m.Header))
		if receiver.protect == nil {
			return []datagram{d}
		}
		sk, ok := m.Payloads[len(m.Payloads)-1].(*wire.SK)
		if !ok {
			return []datagram{d}
		}
		plain, err := receiver.protect.Open(d.data, sk)
		if err != nil {
			return []datagram{d}
		}
		if o.ps, err = wire.ParsePayloads(sk.First, plain); err != nil {
			n.t.Fatal(err)
		}
		if change(o) && sender.protect != nil {
			if d.data, err = sender.sealWhole(o.Header, o.ps); err != nil {
				n.t.Fatal(err)
			}
		}
		return []datagram{d}
	}
}

func encode(t testing.TB, m *wire.Message) []byte {
	t.Helper()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sealWhole makes one datagram of a message, however large.
func (sa *SA) sealWhole(h wire.Header, ps []wire.Payload) ([]byte, error) {
	first, plain, err := wire.AppendPayloads(nil, ps)
	if err != nil {
		return nil, err
	}
	return sa.protect.Seal(h, first, plain, sa.config.Rand)
}

// seal protects payloads with the host's keys.
func (h *host) seal(hdr wire.Header, ps []wire.Payload) []byte {
	h.t.Helper()
	data, err := h.sa.sealWhole(hdr, ps)
	if err != nil {
		h.t.Fatal(err)
	}
	return data
}

// ask sends a request with these payloads, made by hand, with the next message ID of the host; the host's machine knows nothing of it
// but the ID. It returns the answer's payloads, nil when none came.
func (h *host) ask(t wire.ExchangeType, ps ...wire.Payload) []wire.Payload {
	h.t.Helper()
	hdr := h.sa.header(t, false, uint32(h.sa.requests.next))
	h.sa.requests.next++
	return h.exchange(h.seal(hdr, ps))
}

// exchange sends octets to the other side and returns the payloads of what it answers.
func (h *host) exchange(data []byte) (answer []wire.Payload) {
	h.t.Helper()
	n := h.net
	other := n.a
	if h == n.a {
		other = n.b
	}
	before := len(other.sends)
	n.transmit(datagram{h.sa.path.Local, h.sa.path.Remote, data})
	n.run(n.delay*5, nil)
	for _, s := range other.sends[before:] {
		m, err := wire.Decode(s.Data)
		if err != nil || !m.Response() {
			continue
		}
		if sk, ok := m.Payloads[len(m.Payloads)-1].(*wire.SK); ok && h.sa.protect != nil {
			plain, err := h.sa.protect.Open(s.Data, sk)
			if err != nil {
				h.t.Fatal(err)
			}
			if answer, err = wire.ParsePayloads(sk.First, plain); err != nil {
				h.t.Fatal(err)
			}
			return slices.Clip(append([]wire.Payload{}, answer...))
		}
		return m.Payloads
	}
	return nil
}

// notified reports whether the only thing in an answer is this notify.
func notified(ps []wire.Payload, kind wire.NotifyType) bool {
	return len(ps) == 1 && len(notifies(ps, kind)) == 1
}
