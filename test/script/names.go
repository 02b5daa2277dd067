package script

import (
	"encoding/binary"
	"fmt"
	"strings"

	"cygnet/ike/wire"
	"cygnet/test/wiretap"
)

// names gives SPIs short and stable names, in the order in which they are first said: I1, I2 ... to IKE SAs; a1, a2 ... to the SPIs of child SAs on which
// a receives, b1, b2 ... to those of b.
type names struct {
	ike   map[wire.SPI]string // by SPIi
	child map[uint32]string
	count map[string]int
	texts []string // pairs of hexadecimal digits and name, for replace
}

func newNames() *names {
	return &names{ike: make(map[wire.SPI]string), child: make(map[uint32]string), count: make(map[string]int)}
}

func (n *names) next(prefix string) string {
	n.count[prefix]++
	return fmt.Sprintf("%s%d", prefix, n.count[prefix])
}

// ofIKE is the name of the IKE SA with this SPI of its initiator.
func (n *names) ofIKE(spi wire.SPI) string {
	if n.ike[spi] == "" {
		n.ike[spi] = n.next("I")
		n.texts = append(n.texts, fmt.Sprintf("%016x", uint64(spi)), n.ike[spi])
	}
	return n.ike[spi]
}

// ofChild is the name of an SPI that its receiver chose.
func (n *names) ofChild(receiver string, spi uint32) string {
	if n.child[spi] == "" {
		n.child[spi] = n.next(receiver)
		n.texts = append(n.texts, fmt.Sprintf("%08x", spi), n.child[spi])
	}
	return n.child[spi]
}

// replace puts names into a text where it has SPIs in hexadecimal digits.
func (n *names) replace(s string) string { return strings.NewReplacer(n.texts...).Replace(s) }

// message is one in the words of RFC 7296: "I1 CREATE_CHILD_SA request 2 {N(REKEY_SA a1) SA(a2) Ni TSi TSr}". Braces mean SK. The last
// fragment (RFC 7383) shows what all hold together.
func (n *names) message(from, to string, m wiretap.Message) string {
	kind, role := "request", "i"
	if m.Response() {
		kind, role = "response", "r"
	}
	var list []string
	for _, p := range m.Payloads {
		list = append(list, n.payload(from, to, role, m.Response(), p))
	}
	inside := strings.Join(list, " ")
	if m.Problem != "" {
		inside = m.Problem
	}
	switch {
	case m.Fragment > 0 && !m.Whole:
		inside = fmt.Sprintf("fragment %d of %d", m.Fragment, m.Total)
	case m.Fragment > 0:
		inside = fmt.Sprintf("fragment %d of %d {%s}", m.Fragment, m.Total, inside)
	case m.Protected:
		inside = "{" + inside + "}"
	}
	return strings.TrimRight(fmt.Sprintf("%s %s %s %d %s", n.ofIKE(m.SPIi), m.Exchange, kind, m.MessageID, inside), " ")
}

func (n *names) payload(from, to, role string, response bool, p wire.Payload) string {
	switch p := p.(type) {
	case *wire.Notify:
		if spi, ok := p.ChildSPI(); ok {
			who := from
			if p.Kind == wire.NotifyChildSANotFound { // the SPI of the request comes back (RFC 7296 section 2.25)
				who = to
			}
			return fmt.Sprintf("N(%v %s)", p.Kind, n.ofChild(who, spi))
		}
		return fmt.Sprintf("N(%v)", p.Kind)
	case *wire.Delete:
		if p.Protocol == wire.ProtoIKE {
			return "D(IKE)"
		}
		list := []string{"D"}
		for _, spi := range p.SPIs {
			list = append(list, n.ofChild(from, spi))
		}
		return strings.Replace(strings.Join(list, " "), " ", "(", 1) + ")"
	case *wire.SA:
		return n.sa(from, response, p)
	case *wire.KE:
		return "KE" + role
	case *wire.Nonce:
		return "N" + role
	}
	return p.Type().String()
}

// sa names what the sender will receive on, if the payload says it.
func (n *names) sa(from string, response bool, p *wire.SA) string {
	if len(p.Proposals) == 0 {
		return "SA"
	}
	switch spi := p.Proposals[0].SPI; {
	case len(spi) == 4:
		return fmt.Sprintf("SA(%s)", n.ofChild(from, binary.BigEndian.Uint32(spi)))
	case len(spi) == 8 && !response:
		return fmt.Sprintf("SA(%s)", n.ofIKE(wire.SPI(binary.BigEndian.Uint64(spi))))
	}
	return "SA"
}
