package ike

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"

	"cygnet/ike/wire"
)

// reassemblyLimit is how long fragments of a request wait for the rest of it; a sender that repeats it does so sooner (RFC 7383 section 2.6).
const reassemblyLimit = 30 * time.Second

// content is a message without its protection.
type content struct {
	first   wire.PayloadType
	plain   []byte
	digest  [sha256.Size]byte // of the datagram by which a repeat is known: the whole message, or fragment 1
	largest int               // octets of the largest IP datagram of several fragments; 0: it came in one
}

// reassembly collects the fragments of one message. All are authentic, of one message ID, and of one set.
type reassembly struct {
	exchange wire.ExchangeType
	parts    [][]byte // by number less 1; nil: not here
	have     int
	octets   int
	until    Time // when they are dropped
	content  content
}

func (f *reassembly) collecting() bool { return len(f.parts) > 0 }

// drop forgets everything.
func (f *reassembly) drop() {
	for _, p := range f.parts {
		clear(p)
	}
	*f = reassembly{}
}

// text is "2 of 4 fragments".
func (f *reassembly) text() string { return fmt.Sprintf("%d of %d fragments", f.have, len(f.parts)) }

// fragmentOf finds the SKF payload of a message, which is the last.
func fragmentOf(m *wire.Message) *wire.SKF {
	if len(m.Payloads) == 0 {
		return nil
	}
	skf, _ := m.Payloads[len(m.Payloads)-1].(*wire.SKF)
	return skf
}

// reveal takes the protection off a message, or off a fragment; false: it is not authentic, or others are missing.
func (sa *SA) reveal(f *reassembly, p Packet, m *wire.Message) (c content, complete bool) {
	if skf := fragmentOf(m); skf != nil {
		return sa.collect(f, p, m.Exchange, skf)
	}
	c.plain, c.first, complete = sa.open(p.Data, m)
	if complete {
		c.digest = sha256.Sum256(p.Data)
		f.drop()
	}
	return c, complete
}

// collect keeps a fragment (RFC 7383 section 2.6). What costs nothing is looked at before the ICV, and nothing changes before that is right.
func (sa *SA) collect(f *reassembly, p Packet, exchange wire.ExchangeType, skf *wire.SKF) (c content, complete bool) {
	total, at := int(skf.Total), int(skf.Number)-1
	switch {
	case !sa.fragments.agreed:
		sa.noise("a fragment of %s from %v, and fragmentation was not agreed on", stage(exchange), p.Remote)
		return c, false
	case total < len(f.parts), total == len(f.parts) && f.parts[at] != nil, f.collecting() && exchange != f.exchange:
		return c, false
	}
	plain, err := sa.protect.OpenFragment(p.Data, skf)
	if err != nil {
		return c, false
	}
	if total > len(f.parts) { // the sender has cut the message anew
		f.drop()
		*f = reassembly{exchange: exchange, parts: make([][]byte, total), until: sa.now.Add(reassemblyLimit)}
	}
	if limit := sa.reassemblyOctets(); f.octets+len(plain) > limit {
		f.drop()
		sa.noise("fragments of %s from %v hold more than %d octets: dropped", stage(exchange), p.Remote, limit)
		return c, false
	}
	f.parts[at] = plain
	f.have++
	f.octets += len(plain)
	if total > 1 {
		f.content.largest = max(f.content.largest, len(p.Data)+sa.overhead(p.Path))
	}
	if skf.Number == 1 {
		f.content.first, f.content.digest = skf.First, sha256.Sum256(p.Data)
	}
	if f.have < total {
		return c, false
	}
	c = f.content
	c.plain = bytes.Join(f.parts, nil)
	f.drop()
	sa.fragments.used = true
	return c, true
}

func (sa *SA) reassemblyOctets() int {
	if sa.up == 0 {
		return wire.MaxBeforeAuth
	}
	return wire.MaxMessage
}

// reassemblyDue: fragments of a request do not wait for ever; those of an answer do so for as long as our request.
func (sa *SA) reassemblyDue() (Time, bool) {
	f := &sa.responses.parts
	return f.until, f.collecting()
}

// wakeReassembly: it is as if nothing had come (RFC 7383 section 2.6).
func (sa *SA) wakeReassembly() {
	if f := &sa.responses.parts; sa.due(sa.reassemblyDue()) {
		sa.ignored("%s: only %s came in %s", stage(f.exchange), f.text(), duration(reassemblyLimit))
		f.drop()
	}
}

// onRepeat sends the answer to the last request again: when a request that was whole is repeated bit for bit (RFC 7296 section 2.1), and when the first
// fragment of one is (RFC 7383 section 2.6.1). A first fragment that differs is of a request that was cut smaller, and so is the answer then.
func (sa *SA) onRepeat(p Packet, m *wire.Message) {
	r := &sa.responses
	skf := fragmentOf(m)
	switch same := sha256.Sum256(p.Data) == r.digest; {
	case skf != nil && skf.Number != 1:
		return
	case same:
		r.repeats++
		if size, ok := sa.smallerSize(); ok && r.repeats >= probesASize { // RFC 7383 section 2.4: the answer does not arrive
			sa.recut(r.answer, size) // and nothing else changes: anyone can repeat what he has seen
		}
	case skf == nil || !sa.fragments.agreed || m.Exchange != r.header.Exchange:
		return
	default:
		if _, err := sa.protect.OpenFragment(p.Data, skf); err != nil {
			return
		}
		r.digest = sha256.Sum256(p.Data)
		if skf.Total > 1 {
			sa.heedSize(len(p.Data) + sa.overhead(p.Path))
			sa.recut(r.answer, sa.datagramSize())
		}
	}
	sa.transmit(p.Path, r.answer)
}
