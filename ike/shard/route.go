package shard

import (
	"encoding/binary"
	"errors"
	"io"

	"cygnet/ike/wire"
)

// Route returns the shard that a datagram belongs to, by header alone. remote is the sender's address without port, so that a client whose
// NAT changes the port between IKE_SA_INIT and its repeat with COOKIE meets the shard that made the cookie.
func Route(h wire.Header, remote string, count int, key [16]byte) int {
	if count <= 1 {
		return 0
	}
	if spi := ourSPI(h); spi != 0 {
		return home(spi, count, key)
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 64), uint64(h.SPIi))
	return int(sipHash(key, append(b, remote...)) % uint64(count))
}

// ourSPI: the sender is the original initiator when its flag says so, and we are then the responder (RFC 7296 section 3.1). It is 0 in
// the first request of an IKE SA.
func ourSPI(h wire.Header) wire.SPI {
	if h.Initiator() {
		return h.SPIr
	}
	return h.SPIi
}

func peerSPI(h wire.Header) wire.SPI {
	if h.Initiator() {
		return h.SPIi
	}
	return h.SPIr
}

// home is the shard of an SPI of ours.
func home(spi wire.SPI, count int, key [16]byte) int {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(spi))
	return int(sipHash(key, b[:]) % uint64(count))
}

// drawsMax is far more than chance needs even with hundreds of shards; it ends the search when Rand is broken.
const drawsMax = 1 << 16

var errNoSPI = errors.New("no IKE SPI could be drawn: the random source repeats itself")

// drawSPI draws until the SPI is at home here, so that any reader routes its packets without a shared table.
func (s *Shard) drawSPI() (wire.SPI, error) {
	var b [8]byte
	for range drawsMax {
		if _, err := io.ReadFull(s.c.Rand, b[:]); err != nil {
			return 0, err
		}
		spi := wire.SPI(binary.BigEndian.Uint64(b[:]))
		if spi != 0 && s.machines[spi] == nil && home(spi, s.c.Count, s.c.HashKey) == s.c.Index {
			return spi, nil
		}
	}
	return 0, errNoSPI
}
