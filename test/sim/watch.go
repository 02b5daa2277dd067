package sim

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode/utf8"

	"cygnet/ike"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/xfrmfake"
)

// watch looks at all that nodes send, install and say, and knows no more than an onlooker could.
type watch struct {
	flows   map[sender]*flow
	senders map[xfrmfake.Digest]string // who has an outbound SA with these keys
	secrets map[string]string          // the first octets of each in hexadecimal, with its name
}

// sender is one IKE SA at one end.
type sender struct {
	n   *node
	spi wire.SPI
}

// flow is what a sender has sent.
type flow struct {
	requests, responses sequence
	answered            bool // the last request, as far as the sender heard
	asked               int64
	ivs                 map[[8]byte]uint64
}

// sequence is a row of messages with growing IDs.
type sequence struct {
	last int64                // -1: none
	sums map[[2]uint16]uint64 // of the last, by number and total of its fragments; 0 and 0: whole
}

// repeats notes what was sent and reports whether it is new under this ID, or has the octets that it had (RFC 7383 section 2.5.2: cut anew is another set).
func (s *sequence) repeats(id int64, k [2]uint16, sum uint64) bool {
	if id != s.last {
		s.last, s.sums = id, make(map[[2]uint16]uint64)
	}
	before, ok := s.sums[k]
	s.sums[k] = sum
	return !ok || before == sum
}

// piece is number and total of a fragment; 0 and 0: the message is whole.
func piece(h wire.Header, data []byte) (k [2]uint16) {
	if h.NextPayload == wire.PayloadSKF && len(data) >= 36 {
		k = [2]uint16{binary.BigEndian.Uint16(data[32:]), binary.BigEndian.Uint16(data[34:])}
	}
	return k
}

func newWatch() watch {
	return watch{flows: make(map[sender]*flow), senders: make(map[xfrmfake.Digest]string), secrets: make(map[string]string)}
}

func (t *watch) flow(n *node, spi wire.SPI) *flow {
	f := t.flows[sender{n, spi}]
	if f == nil {
		f = &flow{requests: sequence{last: -1}, responses: sequence{last: -1}, asked: -1, ivs: make(map[[8]byte]uint64)}
		t.flows[sender{n, spi}] = f
	}
	return f
}

func (t *watch) died(n *node) {
	for s := range t.flows {
		if s.n == n {
			delete(t.flows, s)
		}
	}
}

// sent checks the window and the IVs of what a machine sends. The shard's own answers keep no state and have none.
func (t *watch) sent(n *node, spi wire.SPI, a ike.Send) {
	if spi == 0 {
		return
	}
	h, err := wire.ParseHeader(a.Data)
	if err != nil {
		n.w.fail(Panic, "%s sends what is no IKE message: %v", n.name, err)
	}
	if h.SPIi != spi && h.SPIr != spi && h.SPIr != 0 {
		n.w.fail(Window, "%s sends under SPIs %016x/%016x, its own is %016x", n.name, uint64(h.SPIi), uint64(h.SPIr), uint64(spi))
	}
	f, sum := t.flow(n, spi), sumOf(a.Data)
	if h.Response() {
		t.response(n, f, h, piece(h, a.Data), sum)
	} else {
		t.request(n, f, h, piece(h, a.Data), sum)
	}
	at := 32
	if h.NextPayload == wire.PayloadSKF {
		n.w.saw("fragment")
		at = 36
	}
	if (h.NextPayload == wire.PayloadSK || h.NextPayload == wire.PayloadSKF) && len(a.Data) >= at+8 {
		iv := [8]byte(a.Data[at : at+8])
		if before, ok := f.ivs[iv]; ok && before != sum {
			n.w.fail(Reuse, "%s: IKE SA %016x uses IV %x for two messages, the second is %s %d", n.name, uint64(spi), iv, h.Exchange, h.MessageID)
		}
		f.ivs[iv] = sum
	}
}

func (t *watch) request(n *node, f *flow, h wire.Header, k [2]uint16, sum uint64) {
	id, s := int64(h.MessageID), &f.requests
	switch {
	case id < s.last:
		n.w.fail(Window, "%s sends request %d (%s) after %d", n.name, id, h.Exchange, s.last)
	case id > s.last+1:
		n.w.fail(Window, "%s sends request %d (%s) after %d: one is left out", n.name, id, h.Exchange, s.last)
	case id > s.last && s.last >= 0 && !f.answered:
		n.w.fail(Window, "%s sends request %d (%s) while %d is not answered", n.name, id, h.Exchange, s.last)
	}
	if id > s.last {
		f.answered = false
	}
	if !s.repeats(id, k, sum) && h.Exchange != wire.IKESAInit { // which is repeated with a cookie, or another group
		n.w.fail(Window, "%s repeats request %d (%s) with other octets", n.name, id, h.Exchange)
	}
}

func (t *watch) response(n *node, f *flow, h wire.Header, k [2]uint16, sum uint64) {
	id, s := int64(h.MessageID), &f.responses
	switch {
	case h.Exchange == wire.IKESAInit && h.SPIr == 0: // nothing was kept
		return
	case id < s.last:
		n.w.fail(Window, "%s sends response %d (%s) after %d", n.name, id, h.Exchange, s.last)
	case id > s.last+1 && s.last >= 0:
		n.w.fail(Window, "%s sends response %d (%s) after %d: one is left out", n.name, id, h.Exchange, s.last)
	case id > f.asked && h.Exchange != wire.IKESAInit:
		n.w.fail(Window, "%s answers request %d (%s), which has not come: the last was %d", n.name, id, h.Exchange, f.asked)
	}
	if !s.repeats(id, k, sum) {
		n.w.fail(Window, "%s repeats response %d (%s) with other octets", n.name, id, h.Exchange)
	}
}

// arrived notes what a genuine message means for the window of the machine that gets it.
func (t *watch) arrived(n *node, data []byte) {
	h, err := wire.ParseHeader(data)
	if err != nil {
		return
	}
	spi := h.SPIi
	if h.Initiator() {
		spi = h.SPIr
	}
	if spi == 0 {
		return
	}
	f := t.flow(n, spi)
	switch {
	case !h.Response():
		f.asked = max(f.asked, int64(h.MessageID))
	case int64(h.MessageID) == f.requests.last:
		f.answered = true
	}
}

// taken: the receiver has done with this message, whatever comes of it now.
func (t *watch) taken(n *node, data []byte) bool {
	h, err := wire.ParseHeader(data)
	if err != nil {
		return false
	}
	spi := h.SPIi
	if h.Initiator() {
		spi = h.SPIr
	}
	f := t.flow(n, spi)
	if h.Response() {
		return int64(h.MessageID) < f.requests.last
	}
	return int64(h.MessageID) <= f.responses.last
}

func sumOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// bounded: half-open IKE SAs stay near the threshold from which on cookies are demanded; a few real peers may come on top.
func (t *watch) bounded(n *node, s *shard.Shard) {
	if s.HalfOpen() > cookieThreshold+8 {
		n.w.fail(Flood, "%s: %d IKE SAs are half-open in one shard", n.name, s.HalfOpen())
	}
}

// driver: calls that break the contract, among them keys that were used before.
func (t *watch) driver(n *node) {
	if faults := n.driver.Faults(); len(faults) > 0 {
		n.w.fail(Reuse, "%s: the driver refuses what it must not be asked: %v", n.name, faults)
	}
}

// ordered: what is added comes before anything goes, so that a packet finds an SA at each instant.
func (t *watch) ordered(n *node, ops []xfrm.Op) {
	gone := false
	for _, op := range ops {
		switch op.(type) {
		case xfrm.RemoveSA, xfrm.RemovePolicy:
			gone = true
		case xfrm.AddSA, xfrm.PutPolicy:
			if gone {
				n.w.fail(Loss, "%s: %s comes after something was removed", n.name, xfrm.OpName(op))
			}
		}
	}
}

// added looks at a new SA with its keys.
func (t *watch) added(n *node, s *said, with xfrm.SA) {
	zero := true
	for _, b := range with.EncrKey.Bytes() {
		zero = zero && b == 0
	}
	if zero {
		n.w.fail(Reuse, "%s: the key of %v is all zeros", n.name, s.ID)
	}
	t.secret("ESP key", with.EncrKey.Bytes())
	if with.IntegKey.Len() > 0 {
		t.secret("ESP integrity key", with.IntegKey.Bytes())
	}
	if s.Direction == xfrm.Out {
		if who, ok := t.senders[s.keys]; ok {
			n.w.fail(Reuse, "%s: %v sends with keys that %s has sent with", n.name, s.ID, who)
		}
		t.senders[s.keys] = n.name
	}
	n.w.partner(n, s)
}

// drawn: what a machine draws in one large piece is the seed of a private value.
func (t *watch) drawn(p []byte) {
	if len(p) == 1024 {
		t.secret("private value", p)
	}
}

const secretHead = 8 // octets that tell a secret

func (t *watch) secret(name string, b []byte) {
	t.secrets[hex.EncodeToString(b[:secretHead])] = name
}

// internal says whether an internal error is a fault of the program. That a job or a look-up took too long is the simulation's doing.
func (t *watch) internal(text string) bool { return !strings.Contains(text, "took too long") }

// text looks for secrets in what people read, and for what could not be printed.
func (t *watch) text(n *node, s string) {
	if s == "" {
		return
	}
	for _, c := range n.w.conns {
		if strings.Contains(s, c.psk) {
			n.w.fail(Secrets, "%s: the PSK stands in %q", n.name, s)
		}
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		n.w.fail(Secrets, "%s: a text cannot be printed on one line: %q", n.name, s)
	}
	t.hexRuns(n, s)
	t.numberRuns(n, s)
}

// hexRuns looks at runs of hexadecimal digits, as %x prints octets.
func (t *watch) hexRuns(n *node, s string) {
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0 {
			continue
		}
		for j := start; j+2*secretHead <= i; j++ {
			t.look(n, strings.ToLower(s[j:j+2*secretHead]), s)
		}
		start = i + 1
	}
}

// numberRuns looks at lists of numbers, as %v prints octets.
func (t *watch) numberRuns(n *node, s string) {
	_, rest, ok := strings.Cut(s, "[")
	for ok {
		var b []byte
		list, _, _ := strings.Cut(rest, "]")
		for _, f := range strings.Fields(list) {
			v, err := strconv.ParseUint(f, 10, 8)
			if err != nil {
				break
			}
			b = append(b, byte(v))
		}
		for j := 0; j+secretHead <= len(b); j++ {
			t.look(n, hex.EncodeToString(b[j:j+secretHead]), s)
		}
		_, rest, ok = strings.Cut(rest, "[")
	}
}

func (t *watch) look(n *node, head, s string) {
	if name, ok := t.secrets[head]; ok {
		n.w.fail(Secrets, "%s: a secret (%s) stands in %q", n.name, name, s)
	}
}

// status looks at what the tool shows.
func (t *watch) status(n *node) {
	for _, m := range n.machines() {
		t.text(n, fmt.Sprintf("%+v", m))
	}
}
