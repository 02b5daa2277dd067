package daemon

import (
	"errors"
	"sync/atomic"

	"cygnet/ike/transport"
	"cygnet/xfrm"
)

// outlet carries ESP from the data plane to the transport, which is opened after it: traffic that comes earlier is lost, not sent in clear.
type outlet struct {
	t atomic.Pointer[transport.Transport]
}

var errNoTransport = errors.New("the sockets are not open yet")

func (o *outlet) open(t *transport.Transport) { o.t.Store(t) }

func (o *outlet) send(b *xfrm.Burst) error {
	t := o.t.Load()
	if t == nil {
		return errNoTransport
	}
	return t.SendESP(b)
}
