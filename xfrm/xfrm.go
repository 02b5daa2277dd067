// Package xfrm is the vocabulary and the seam between the IKE machines and the data planes: SAs, policies,
// selectors, operations, events and the Driver that carries them out. It is pure and builds everywhere.
//
// Sources: RFC 4301 (architecture), RFC 4303 (ESP), RFC 3948 (ESP in UDP).
package xfrm

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"cygnet/xfrm/alg"
)

// SAID names an SA as a receiver finds it: destination, SPI, protocol (RFC 4301 section 4.1).
type SAID struct {
	Dst   netip.Addr
	SPI   uint32
	Proto uint8 // IP protocol number: 50 (ESP)
}

func (id SAID) String() string { return fmt.Sprintf("ESP SPI %08x to %s", id.SPI, id.Dst) }

// ProtoESP is the IP protocol number of ESP.
const ProtoESP = 50

// Direction of an SA or policy as this host sees it.
type Direction uint8

const (
	In  Direction = 1 // from the peer; a policy In covers traffic to this host and forwarded traffic
	Out Direction = 2
)

// Mode of an SA.
type Mode uint8

const (
	Tunnel    Mode = 0
	Transport Mode = 1
)

// Suite is what protects the packets of an SA.
type Suite struct {
	Encr    alg.Encr
	KeyBits int       // length of the encryption key in bits, without salt
	Integ   alg.Integ // IntegNone with an AEAD cipher
	ESN     bool
}

// Encap is UDP encapsulation (RFC 3948): the outer ports, seen from the sender of the SA's packets.
type Encap struct{ SrcPort, DstPort uint16 }

// SA is one direction of a Child SA.
type SA struct {
	ID        SAID
	Src       netip.Addr // outer source
	Direction Direction
	Mode      Mode
	ReqID     uint32 // set by the ledger from the batch's lineage
	Suite     Suite
	EncrKey   alg.Secret // key | salt
	IntegKey  alg.Secret // empty with AEAD
	Replay    uint32     // anti-replay window in packets; inbound only
	Encap     *Encap     // nil: plain ESP
	HideDSCP  bool       // do not copy DSCP to the outer header (RFC 4301 section 5.1.2.1); outbound only
	Selectors []Selector // what may travel in it, Src being the packet's source
	// Hard lifetimes; zero is none. The machine ends an SA itself before these; they are the safety net.
	HardPackets, HardBytes uint64
	SoftPackets, SoftBytes uint64
}

// Selector matches packets (RFC 4301 section 4.4.1.1). Prefixes are masked; ports are inclusive ranges.
type Selector struct {
	Src, Dst           netip.Prefix
	Proto              uint8 // 0: any
	SrcPorts, DstPorts Ports
}

// Ports is an inclusive range. The zero value means any port, as {0, 65535} does. For ICMP the range holds type<<8|code
// (RFC 7296 section 3.13.1). OPAQUE is {65535, 0}.
type Ports struct{ First, Last uint16 }

// Slot is the identity of a policy in the kernel: two policies with one slot replace each other.
type Slot struct {
	Direction Direction
	Selector  Selector
	Mark      uint32
	IfID      uint32
}

// Action of a policy.
type PolicyAction uint8

const (
	Protect PolicyAction = iota // by the Template's SA, else the packet is dropped (and Acquire is raised when outbound)
	Block
	Pass
)

// Template says which SA protects a policy's packets.
type Template struct {
	Src, Dst netip.Addr // outer
	Mode     Mode
	ReqID    uint32
	SPI      uint32 // outbound SPI now in use; a hint for the userspace driver, the kernel driver matches by ReqID
}

// Policy fills a Slot.
type Policy struct {
	Slot     Slot
	Action   PolicyAction
	Template Template // with Protect
	Priority uint32   // smaller wins; see Slot.Priority in the ledger: narrower selectors come first
}

// Op is one change of the data plane.
type Op interface{ op() }

type (
	AddSA    struct{ SA SA }
	UpdateSA struct { // encapsulation ports of an SA that has encapsulation
		ID    SAID
		Encap Encap
	}
	MoveSA struct { // outer addresses, keeping replay state
		ID       SAID
		Src, Dst netip.Addr
		Encap    *Encap
	}
	RemoveSA     struct{ ID SAID } // an SA that is not there is not an error
	PutPolicy    struct{ Policy Policy }
	RemovePolicy struct{ Slot Slot } // a slot that is empty is not an error
)

func (AddSA) op()        {}
func (UpdateSA) op()     {}
func (MoveSA) op()       {}
func (RemoveSA) op()     {}
func (PutPolicy) op()    {}
func (RemovePolicy) op() {}

// OpError says which operation failed; the ones before it stay done. Err may wrap ErrExists.
type OpError struct {
	Index int
	Op    Op
	Err   error
}

func (e *OpError) Error() string { return fmt.Sprintf("%s: %v", OpName(e.Op), e.Err) }
func (e *OpError) Unwrap() error { return e.Err }

// ErrExists is wrapped by the OpError of an AddSA whose SAID is taken.
var ErrExists = errString("SA exists already")

// TakenError refuses a claim on a slot that a Child SA of another peer has.
type TakenError struct {
	Slot Slot
	Peer string
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("traffic %v -> %v belongs to %s, which is connected: two peers cannot have one inner address", e.Slot.Selector.Src, e.Slot.Selector.Dst, e.Peer)
}

// HeldError is the ErrExists of an SAID that is booked here for another owner: nothing of the batch was applied.
type HeldError struct{ Owner Owner }

func (e *HeldError) Error() string {
	return ErrExists.Error() + ": held by " + strconv.Quote(string(e.Owner))
}
func (e *HeldError) Unwrap() error { return ErrExists }

type errString string

func (e errString) Error() string { return string(e) }

// OpName describes an operation without any key.
func OpName(op Op) string {
	switch o := op.(type) {
	case AddSA:
		return "add SA " + o.SA.ID.String()
	case UpdateSA:
		return "update SA " + o.ID.String()
	case MoveSA:
		return "move SA " + o.ID.String()
	case RemoveSA:
		return "remove SA " + o.ID.String()
	case PutPolicy:
		return fmt.Sprintf("put policy %v -> %v", o.Policy.Slot.Selector.Src, o.Policy.Slot.Selector.Dst)
	case RemovePolicy:
		return fmt.Sprintf("remove policy %v -> %v", o.Slot.Selector.Src, o.Slot.Selector.Dst)
	}
	return fmt.Sprintf("%T", op)
}

// Usage of an SA.
type Usage struct {
	Bytes, Packets uint64
	LastUse        int64  // seconds since the epoch, 0 when never used or unknown
	ReplayDrops    uint64 // replayed or too old
	IntegrityDrops uint64
	Sequence       uint64 // last sequence number sent (out) or highest seen (in)
}

// State is what a data plane holds of ours. Keys are not part of it.
type State struct {
	SAs      []SA
	Policies []Policy
}

// Event comes from the data plane.
type Event interface{ event() }

type (
	// Acquire: a packet matched a Protect policy that has no SA.
	Acquire struct {
		ReqID    uint32
		Selector Selector // of the packet
	}
	Expire struct {
		ID   SAID
		Hard bool
	}
	// FirstUse: an inbound SA has received its first authenticated packets.
	FirstUse struct{ ID SAID }
	// Mapping: authenticated packets of an encapsulated SA now come from another address or port.
	Mapping struct {
		ID   SAID
		From netip.AddrPort
	}
	// Gap: events were lost; repair by Dump.
	Gap struct{}
)

func (Acquire) event()  {}
func (Expire) event()   {}
func (FirstUse) event() {}
func (Mapping) event()  {}
func (Gap) event()      {}

// Capabilities were found by really adding and removing an SA per algorithm.
type Capabilities struct {
	Name      string // "kernel" or "userspace"
	Why       string // why this data plane and not the other, for the operator
	Encr      map[alg.Encr]bool
	Integ     map[alg.Integ]bool
	ESN       bool
	PlainESP  bool   // ESP without UDP can be sent and received
	NATT      bool   // UDP encapsulation can be sent and received
	Offloads  string // userspace: what the kernel takes off this data plane's hands, for the operator
	MustEncap bool   // prefers UDP encapsulation even without NAT (userspace): a NAT is then pretended by the IKE machine
}

// Driver is a data plane. Apply is safe for concurrent use.
type Driver interface {
	Capabilities() Capabilities
	// Apply carries out ops in order. An error is an *OpError.
	Apply(ctx context.Context, ops []Op) error
	Usage(ctx context.Context, id SAID) (Usage, error)
	UsageAll(ctx context.Context, yield func(SAID, Usage) bool) error
	Dump(ctx context.Context) (State, error)
	Events() <-chan Event
	// Close releases the driver's own resources. What is installed for `drop` connections outlives it (fail closed).
	Close() error
}

// Owner names whoever holds SAs and claims: one IKE SA, or a connection's trap or block.
type Owner string

// Claim asks that a slot be filled. Of several claims on one slot the highest Rank decides; among equal ranks the latest.
type Claim struct {
	Slot     Slot
	Action   PolicyAction
	Template Template // ReqID is set by the ledger from the batch's lineage
	Rank     Rank
	// Peer names the authenticated peer for whom a Child SA claims: while one holds a slot no other gets it. Two clients with one inner address are
	// not mixed (RFC 3948 section 5.1), and nobody takes another's address away. Empty: no such claim.
	Peer string
}

// Rank orders the claims on one slot.
type Rank uint8

const (
	RankBlock Rank = 1 // a connection's block (when_down = "drop") or bypass
	RankTrap  Rank = 2 // a connection's trap (start = "traffic")
	RankNext  Rank = 3 // a Child SA that leaves sending to an older one for a moment, where there is one
	RankChild Rank = 4 // a Child SA
)

// Batch is what one step of a machine asks of the data plane, all or nothing: when an op fails the ledger undoes the
// ones before it. Order: Add, then Claims, then Release, then Remove.
type Batch struct {
	Lineage string // child config x peer instance: one reqid for its whole life, over rekeys
	Add     []SA
	Claims  []Claim
	Release []Slot // claims of this owner and lineage
	Remove  []SAID
	Update  []Op // UpdateSA and MoveSA
}

// Burst is a batch of ESP packets of one UDP or raw ESP path. Packets start at the SPI. The one that sends a Burst may
// not keep the slices after it returns. A receiver may change the octets, and keep them until the next burst of its loop without More returns.
type Burst struct {
	Local, Remote netip.AddrPort // port 0: plain ESP (IP protocol 50)
	Packets       [][]byte
	TOS           uint8 // traffic class of the outer packets: DSCP and ECN (RFC 6040)
	// Run: the packets have one length, of which the last may fall short, and lie one behind the other, within the capacity of the first: they can be
	// sent as one.
	Run bool
	// More: another burst of the same receive loop follows at once, so that what is made of this one may wait for it. A burst without packets only
	// ends the waiting.
	More bool
}
