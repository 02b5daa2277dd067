package policy

import "fmt"

// Fragmentation says how large IKE messages travel (RFC 7383). The zero value is the default: in fragments, where the peer takes them.
type Fragmentation struct {
	Off  bool // neither announced nor done
	Size int  // octets of the largest IP datagram that a message makes; 0: DefaultFragmentSize
}

const (
	// DefaultFragmentSize is the MTU that each IPv6 path has (RFC 8200 section 5). RFC 7383 section 2.5.1 recommends it for IPv6. IPv4 paths below
	// it are rare: on those a request that stays unanswered goes out again for SmallestIPv4.
	DefaultFragmentSize = 1280
	// SmallestIPv4 is what RFC 7383 section 2.5.1 recommends for IPv4: each IPv4 host takes such a datagram (RFC 791 section 3.1).
	SmallestIPv4 = 576
	// MinFragmentSize leaves some 100 octets of content with any algorithm.
	MinFragmentSize = 256
	maxFragmentSize = 9000 // a jumbo frame
)

// fragmentation reads how large IKE messages travel.
func (t *table) fragmentation() Fragmentation {
	f := Fragmentation{Off: t.word("fragmentation", "yes", "yes", "no") == "no"}
	f.Size = int(t.integer("fragment_size", DefaultFragmentSize, MinFragmentSize, maxFragmentSize))
	if _, given := t.rows["fragment_size"]; given && f.Off {
		t.problem("fragment_size", "contradiction", `leave fragment_size out, or write fragmentation = "yes"`, `fragment_size cannot go with fragmentation = "no"`)
	}
	return f
}

func (f Fragmentation) text() string {
	if f.Off {
		return "never in fragments"
	}
	return fmt.Sprintf("in datagrams of at most %d octets", f.Size)
}
