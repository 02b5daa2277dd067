package shard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
)

const (
	cookieLife = 30 * time.Second // of a secret as the current one; it is accepted as the previous one for as long again
	cookieMAC  = 16               // octets
)

// cookies makes and checks the stateless cookie of RFC 7296 section 2.6: version | MAC(secret, SPIi | IPi | Ni). The version says which secret.
type cookies struct {
	rand     io.Reader
	macs     [2]hash.Hash // HMAC-SHA-256, each with its secret, by the last bit of the version; nil: not usable
	version  uint8
	rotateAt ike.Time
}

func (c *cookies) mint(now ike.Time, f *firstMessage, nonce []byte) []byte {
	if !c.rotate(now) {
		return nil
	}
	return c.mac(c.version, f, nonce)
}

// valid checks a cookie that came back.
func (c *cookies) valid(now ike.Time, got []byte, f *firstMessage, nonce []byte) bool {
	if !c.rotate(now) || len(got) != 1+cookieMAC {
		return false
	}
	version := got[0]
	if age := c.version - version; age > 1 || c.macs[version&1] == nil {
		return false
	}
	return hmac.Equal(got, c.mac(version, f, nonce))
}

// The port is not bound: a NAT may change it (RFC 9329 section 6.3).
func (c *cookies) mac(version uint8, f *firstMessage, nonce []byte) []byte {
	h := c.macs[version&1]
	h.Reset()
	addr := f.id.addr.Unmap().WithZone("").As16()
	h.Write(append(binary.BigEndian.AppendUint64(make([]byte, 0, 24), uint64(f.id.spi)), addr[:]...))
	h.Write(nonce)
	return h.Sum(append(make([]byte, 0, 1+sha256.Size), version))[:1+cookieMAC]
}

// rotate draws a new secret when the current one is old. It reports whether there is one.
func (c *cookies) rotate(now ike.Time) bool {
	if c.macs[c.version&1] != nil && now.Before(c.rotateAt) {
		return true
	}
	if !now.Before(c.rotateAt.Add(cookieLife)) { // nobody asked for long: the current one is too old even as the previous one
		c.macs[c.version&1] = nil
	}
	next, secret := c.version+1, make([]byte, sha256.Size)
	defer clear(secret)
	if _, err := io.ReadFull(c.rand, secret); err != nil {
		c.macs[next&1] = nil
		return false
	}
	c.version, c.macs[next&1], c.rotateAt = next, hmac.New(sha256.New, secret), now.Add(cookieLife)
	return true
}

// demand answers an IKE_SA_INIT request with COOKIE and keeps nothing. came is how many octets the source has sent.
func (s *Shard) demand(path ike.Path, h wire.Header, cookie []byte, came int, out *[]Action) {
	if cookie == nil {
		return
	}
	if s.answer(path, h, &wire.Notify{Kind: wire.NotifyCookie, Data: cookie}, came, out) {
		s.count(CookieSent)
	}
}

// cookieAndNonce finds COOKIE, which comes first when it is there (RFC 7296 section 2.6), and Ni. It walks the generic payload headers (section 3.2) and
// looks into nothing else; the machine decodes the message. A nil nonce: none, or a chain that is broken before it.
func cookieAndNonce(b []byte) (cookie, nonce []byte) {
	const nextPayloadOctet, genericHeader, notifyHeader = 16, 4, 4
	next, first := wire.PayloadType(b[nextPayloadOctet]), true
	for b = b[wire.HeaderLen:]; next != 0; first = false {
		if len(b) < genericHeader {
			return nil, nil
		}
		size := int(binary.BigEndian.Uint16(b[2:]))
		if size < genericHeader || size > len(b) {
			return nil, nil
		}
		body := b[genericHeader:size]
		switch {
		case next == wire.PayloadNonce && (len(body) < wire.MinNonce || len(body) > wire.MaxNonce):
			return nil, nil
		case next == wire.PayloadNonce:
			return cookie, body
		case next == wire.PayloadNotify && first && len(body) >= notifyHeader && body[1] == 0 &&
			wire.NotifyType(binary.BigEndian.Uint16(body[2:])) == wire.NotifyCookie:
			cookie = body[notifyHeader:]
		}
		next, b = wire.PayloadType(b[0]), b[size:]
	}
	return nil, nil
}
