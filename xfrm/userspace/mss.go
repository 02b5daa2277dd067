package userspace

import (
	"encoding/binary"
	"math/bits"
)

const (
	tcpOptionEnd  = 0
	tcpOptionNone = 1
	tcpOptionMSS  = 2
)

// clampMSS lowers the maximum segment size that a SYN, with or without ACK, announces to what fits into packets of mtu octets: headers without
// options are counted (RFC 6691 section 2). It never raises it and adds no option. at is where the TCP header begins; its checksum is complete.
//
// What is not a whole SYN, and options that are not what their lengths say, stay as they are.
func clampMSS(p []byte, at, mtu int) {
	if len(p) < at+tcpHeaderLen || p[at+13]&tcpSYN == 0 {
		return
	}
	end := at + int(p[at+12]>>4)*4
	most := mtu - 20 - tcpHeaderLen
	if p[0]>>4 == 6 {
		most -= 20
	}
	if end > len(p) || most <= 0 {
		return
	}
	for o := at + tcpHeaderLen; o < end; {
		switch p[o] {
		case tcpOptionEnd:
			return
		case tcpOptionNone:
			o++
			continue
		}
		if end-o < 2 {
			return
		}
		n := int(p[o+1])
		if n < 2 || n > end-o {
			return
		}
		if p[o] == tcpOptionMSS && n == 4 {
			lowerMSS(p[at:], o+2-at, most)
		}
		o += n
	}
}

// lowerMSS of the value at an offset of a TCP header.
func lowerMSS(tcp []byte, offset, most int) {
	before := binary.BigEndian.Uint16(tcp[offset:])
	if int(before) <= most {
		return
	}
	after := uint16(most)
	binary.BigEndian.PutUint16(tcp[offset:], after)
	if offset%2 == 1 { // it lies across two words
		before, after = bits.ReverseBytes16(before), bits.ReverseBytes16(after)
	}
	replaced(tcp[offTCPSum:offTCPSum+2], before, after)
}
