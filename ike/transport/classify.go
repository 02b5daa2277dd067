package transport

import (
	"encoding/binary"
	"sync/atomic"
)

const (
	markerLen    = 4  // octets of the non-ESP marker, all zero (RFC 3948 section 2.2)
	ikeHeaderLen = 28 // RFC 7296 section 3.1
	espHeaderLen = 8  // SPI and sequence number (RFC 4303 section 2)
	keepalive    = 0xff
)

// kind of a datagram.
type kind uint8

const (
	kindNone      kind = iota // too short to be anything, or SPI 0 (not reachable: that is the marker)
	kindKeepalive             // RFC 3948 section 2.3: ignored, proves no life (section 4)
	kindIKE
	kindESP
)

// classify tells what a datagram holds and where it starts. On the NAT traversal port four zero octets come before IKE (RFC 3948
// section 2.2); on the IKE port everything is IKE.
func classify(natt bool, b []byte) (kind, []byte) {
	switch {
	case len(b) == 1 && b[0] == keepalive:
		return kindKeepalive, nil
	case !natt:
		return enough(kindIKE, b, ikeHeaderLen)
	case len(b) < markerLen:
		return kindNone, nil
	case binary.BigEndian.Uint32(b) == 0:
		return enough(kindIKE, b[markerLen:], ikeHeaderLen)
	}
	return enough(kindESP, b, espHeaderLen)
}

func enough(k kind, b []byte, least int) (kind, []byte) {
	if len(b) < least {
		return kindNone, nil
	}
	return k, b
}

type counters struct{ short, esp, errors atomic.Uint64 }

// Drops counts datagrams that went nowhere, since Open.
type Drops struct {
	Short  uint64 // no IKE message and no ESP packet is that short
	ESP    uint64 // ESP although Config.ESP is nil
	Errors uint64 // failed reads
}

// Drops reads the counters.
func (t *Transport) Drops() Drops {
	return Drops{t.dropped.short.Load(), t.dropped.esp.Load(), t.dropped.errors.Load()}
}
