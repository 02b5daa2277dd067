package ike

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cygnet/ike/auth"
	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// install says where one direction of a child stands. The two are apart: a rekeyed child receives before it sends.
type install uint8

const (
	absent install = iota
	installing
	installed
)

// child is a Child SA pair.
type child struct {
	config        *policy.Child
	spiIn, spiOut uint32
	suite         xfrm.Suite
	local, remote []policy.TS
	path          Path // that its SAs have
	placed        Path // that the data plane has confirmed
	encap         bool
	peer          string           // who is at the other end
	keys          *suite.ChildKeys // until both SAs are installed; I2R is from the initiator of its exchange
	initiated     bool             // we are that initiator
	in, out       install
	up            bool
	deleting      bool // our Delete is on its way
	gone          bool // removed: answers about it come late
	since         Time
	narrowed      string // what the peer made of our selectors, for people; empty: it took them whole
	begun         Time   // when its CREATE_CHILD_SA began; 0: it came with the IKE SA
	reqid         uint32
	replaces      *child         // the one that it rekeys, until that is gone
	surplus       Time           // when it is deleted because the peer raised an equal one; 0: it is not
	behind        Time           // until when at the latest an older instance of another IKE SA may send in its place; 0: no longer
	outboundDue   Time           // when the outbound SA of a rekeyed child is installed at the latest
	rekeys        *child         // the one that it was made to replace, gone or not
	nonce         []byte         // the lower one of its CREATE_CHILD_SA
	group         wire.GroupID   // of its key exchange
	redundant     bool           // another successor of the same child stays (collision.go)
	awaitsUse     bool           // the soft limit of its inbound SA tells the first use, and no more
	peerRekeys    int            // requests of the peer to rekey it that are being worked on
	rekeyAt       Time           // when it is rekeyed next; 0: never
	endAt         Time           // its hard limit; 0: none
	tries         int            // of a rekey
	busySince     Time           // first TEMPORARY_FAILURE of a rekey
	answer        []wire.Payload // of a responder: SA, Nr, KEr, TSi, TSr
}

func (c *child) inID() xfrm.SAID {
	return xfrm.SAID{Dst: c.path.Local.Addr(), SPI: c.spiIn, Proto: xfrm.ProtoESP}
}

func (c *child) outID() xfrm.SAID {
	return xfrm.SAID{Dst: c.path.Remote.Addr(), SPI: c.spiOut, Proto: xfrm.ProtoESP}
}

// Lineage names a child's configuration with one peer: one reqid for its whole life, its trap included, and never shared by two peers.
func Lineage(connection, child string, peer auth.Identity) string {
	return connection + "/" + child + "/" + peerName(peer)
}

// lineage: where the configuration names the peer its spelling counts, as the trap knows no other.
func (sa *SA) lineage(c *child) string {
	peer := sa.conn.Remote.ID
	if !known(peer) {
		peer = sa.peer
	}
	return Lineage(sa.conn.Name, c.config.Name, peer)
}

// peerName is printable and different for different identities: what String may cut or escape is told apart by a hash.
func peerName(id auth.Identity) string {
	text := id.String()
	if parsed, err := auth.ParseIdentity(text); err == nil && parsed == id {
		return text
	}
	sum := sha256.Sum256(append([]byte{byte(id.Type)}, id.Data...))
	return fmt.Sprintf("%s#%x", text, sum[:8])
}

// childConfig finds a child of the connection.
func (sa *SA) childConfig(name string) *policy.Child {
	for _, c := range sa.conn.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (sa *SA) childByInbound(id xfrm.SAID) *child {
	return sa.findChild(func(c *child) bool { return c.in != absent && c.inID() == id })
}

func (sa *SA) childByOutbound(spi uint32) *child {
	return sa.findChild(func(c *child) bool { return c.spiOut == spi })
}

func (sa *SA) findChild(f func(*child) bool) *child {
	if i := slices.IndexFunc(sa.children, f); i >= 0 {
		return sa.children[i]
	}
	return nil
}

// drawSPI draws an inbound SPI; 0 to 255 are reserved (RFC 4303 section 2.1).
func (sa *SA) drawSPI() uint32 {
	for {
		spi := binary.BigEndian.Uint32(sa.draw(4))
		if spi >= 256 && sa.findChild(func(c *child) bool { return c.spiIn == spi }) == nil {
			return spi
		}
	}
}

// childPlan is what we offer for a child.
type childPlan struct {
	config   *policy.Child
	spi      uint32
	offered  []wire.Proposal
	tsi, tsr []wire.TrafficSelector
	// cancelled says why the child is not wanted any more; it is deleted as soon as it is there.
	cancelled string
	old       *child // that is rekeyed
}

// planChild prepares an offer; pfs adds key exchange methods. packet, of which the request is made, goes first in the selectors (RFC 7296 section 2.9).
func (sa *SA) planChild(cfg *policy.Child, pfs bool, packet *xfrm.Selector) (*childPlan, *Refusal) {
	p := &childPlan{config: cfg, spi: sa.drawSPI(), tsi: policy.WireTS(cfg.Local), tsr: policy.WireTS(cfg.Remote)}
	p.offered = policy.OfferESP(cfg, p.spi, pfs, sa.config.Caps)
	if len(p.offered) == 0 {
		return nil, &Refusal{Stage: "CREATE_CHILD_SA", Code: CodeDataplane,
			Why:  fmt.Sprintf("the %s data plane can do none of the ESP algorithms of child %s", sa.config.Caps.Name, cfg.Name),
			Hint: where(sa.conn, "child."+cfg.Name+".esp", "child."+cfg.Name)}
	}
	if r := sa.canCarry(); r != nil {
		return nil, r
	}
	if packet != nil {
		p.tsi = append(policy.WireTS([]policy.TS{packetTS(packet.Src.Addr(), packet.Proto, packet.SrcPorts)}), p.tsi...)
		p.tsr = append(policy.WireTS([]policy.TS{packetTS(packet.Dst.Addr(), packet.Proto, packet.DstPorts)}), p.tsr...)
	}
	return p, nil
}

// canCarry: with a NAT ESP must travel in UDP, without one it may have to travel plain.
func (sa *SA) canCarry() *Refusal {
	caps := sa.config.Caps
	r := &Refusal{Notify: wire.NotifyNoProposalChosen, Stage: "CREATE_CHILD_SA", Code: CodeDataplane}
	switch {
	case sa.nat.encap() && !caps.NATT:
		r.Why = fmt.Sprintf("%v, and the %s data plane cannot carry ESP in UDP", sa.nat, caps.Name)
	case !sa.nat.encap() && !caps.PlainESP:
		r.Why = fmt.Sprintf("the peer does not do NAT traversal, and the %s data plane carries ESP in UDP only", caps.Name)
	default:
		return nil
	}
	return r
}

func (p *childPlan) payloads() []wire.Payload {
	return []wire.Payload{&wire.SA{Proposals: p.offered}, &wire.TS{Selectors: p.tsi}, &wire.TS{Responder: true, Selectors: p.tsr}}
}

// deriveKeys makes KEYMAT (RFC 7296 section 2.17).
func (sa *SA) deriveKeys(c *child, shared alg.Secret, ni, nr []byte) error {
	encr, integ := policy.SuiteLens(c.suite)
	if encr == 0 {
		return errors.New("the suite has no keys")
	}
	keys, err := sa.keys.Child(shared, ni, nr, encr, integ)
	c.keys = keys
	return err
}

// childUp reports a child that is ready.
func (sa *SA) childUp(c *child) {
	if c.gone {
		return
	}
	c.up, c.since = true, sa.now
	sa.born(c)
	begun := c.begun
	if begun == 0 {
		begun = sa.since
	}
	r := Report{Child: c.config.Name, Code: CodeChildUp, Text: "up in " + duration(sa.now.Sub(begun)) + ": " + sa.childText(c), Detail: c.spiText()}
	if c.narrowed != "" {
		r.Text += "; " + c.narrowed
	}
	if c.replaces != nil {
		r.Code, r.Text = CodeRekeyed, "rekeyed: "+sa.childText(c)
	}
	sa.report(r)
	sa.noteDuplicate(c)
}

// childText is like "10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel".
func (sa *SA) childText(c *child) string {
	esp := "ESP " + espName(c.suite)
	if c.encap {
		esp += " in UDP"
	}
	return fmt.Sprintf("%s <-> %s, %s, %s", strings.Join(texts(c.local), ", "), strings.Join(texts(c.remote), ", "), esp, sa.config.Caps.Name)
}

func (c *child) spiText() string {
	return fmt.Sprintf("ESP SPIs %08x (in), %08x (out)", c.spiIn, c.spiOut)
}

// espName is like "AES-GCM-256" or "AES-CBC-256 with SHA2-256".
func espName(s xfrm.Suite) string {
	name := alg.Describe(s.Encr, s.KeyBits)
	if s.Integ != alg.IntegNone {
		name += " with " + alg.DescribeMAC(s.Integ)
	}
	return name
}

func texts(ts []policy.TS) []string {
	list := make([]string, len(ts))
	for i, t := range ts {
		list[i] = t.String()
	}
	return list
}

// packetTS is the selector of one packet's side.
func packetTS(addr netip.Addr, proto uint8, ports xfrm.Ports) policy.TS {
	if ports == (xfrm.Ports{}) {
		ports = xfrm.Ports{Last: 65535}
	}
	return policy.TS{Start: addr, End: addr, Proto: proto, Ports: ports}
}
