package userspace

// admit holds a packet, or the segments of one, against what the path of an SA carries: TCP is told by its SYN, others by an error. It is false for what
// is too big.
func (l *lane) admit(s *sa, p []byte, f *flow) bool {
	if at := synAt(p); at > 0 && !f.fragment {
		clampMSS(p, at, l.d.limitOf(s))
	}
	limit := int(s.limit.Load())
	if limit == 0 || fits(p, l.segments.longest(), limit) {
		return true
	}
	if l.told.pass(l.now, tooBigRate) {
		if m := tooBig(l.icmp[:], p, f, limit); m != nil && l.dev.write(vnet{}, [][]byte{m}) != nil {
			l.d.drops.writing.Add(1)
		}
	}
	return false
}

// arrived finishes an inner packet that an SA may carry and that came in an outer one of traffic class outer. It is false for what goes no further.
func (d *Driver) arrived(s *sa, p []byte, outer uint8) bool {
	switch receiveECN(p, outer) {
	case ecnDrop:
		d.drops.ecn.Add(1)
		return false
	case ecnOdd:
		d.oddECN.Add(1)
	}
	if at := synAt(p); at > 0 {
		clampMSS(p, at, d.limitOf(s))
	}
	return true
}

// synAt is where the TCP header of a SYN begins in an IP packet; 0 for all else. Only one that follows the IP header itself is looked for.
func synAt(p []byte) int {
	at := 40
	switch {
	case p[0]>>4 == 6 && p[6] == protoTCP:
	case p[0]>>4 == 4 && p[9] == protoTCP && p[6]&0x1f|p[7] == 0:
		at = int(p[0]&15) * 4
	default:
		return 0
	}
	if len(p) < at+tcpHeaderLen || p[at+13]&tcpSYN == 0 {
		return 0
	}
	return at
}
