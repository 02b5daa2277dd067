package policy

import "fmt"

// protocol is an IP protocol with the word for it (IANA "Assigned Internet Protocol Numbers").
type protocol struct {
	Number uint8
	Name   string
}

func protocols() []protocol {
	return []protocol{
		{1, "icmp"}, {2, "igmp"}, {4, "ipip"}, {6, "tcp"}, {17, "udp"}, {33, "dccp"}, {41, "ipv6"}, {47, "gre"}, {50, "esp"}, {51, "ah"},
		{58, "icmpv6"}, {58, "ipv6-icmp"}, {89, "ospf"}, {103, "pim"}, {112, "vrrp"}, {115, "l2tp"}, {132, "sctp"}, {136, "udplite"},
	}
}

// protoName is a protocol as people read it: "tcp", or its number.
func protoName(n uint8) string {
	for _, p := range protocols() {
		if p.Number == n {
			return p.Name
		}
	}
	return fmt.Sprint(n)
}
