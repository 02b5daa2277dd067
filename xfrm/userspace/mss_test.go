package userspace

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// tcpPacket with flags, options (padded to words with no-operations) and a good checksum.
func tcpPacket(v6 bool, flags byte, options ...byte) (p []byte, at int) {
	for len(options)%4 != 0 {
		options = append(options, tcpOptionNone)
	}
	p, at = udp4("10.1.0.5", "10.2.0.9", 1024, 80, 12+len(options)), 20
	if v6 {
		p, at = udp6("fd01::5", "fd02::9", 1024, 80, 12+len(options)), 40
		p[6] = protoTCP
	} else {
		p[9] = protoTCP
	}
	clear(p[at+4 : at+20])
	p[at+12], p[at+13] = byte(20+len(options))/4<<4, flags
	copy(p[at+20:], options)
	binary.BigEndian.PutUint16(p[at+16:], ^uint16(tcpSum(p, at)))
	return p, at
}

func tcpSum(p []byte, at int) sum {
	addresses := p[12:20]
	if at == 40 {
		addresses = p[8:40]
	}
	return pseudo(addresses, protoTCP, len(p)-at).add(p[at:])
}

func TestClampMSS(t *testing.T) {
	const syn, ack = tcpSYN, 0x10
	for _, c := range []struct {
		name    string
		flags   byte
		options []byte
		want    [2]uint16 // for IPv4 and IPv6 at an MTU of 1400; 0: as it was
	}{
		{"SYN", syn, []byte{2, 4, 0x05, 0xb4}, [2]uint16{1360, 1340}},
		{"SYN and ACK", syn | ack, []byte{2, 4, 0x05, 0xb4}, [2]uint16{1360, 1340}},
		{"no SYN", ack, []byte{2, 4, 0x05, 0xb4}, [2]uint16{}},
		{"never raised", syn, []byte{2, 4, 0x02, 0x18}, [2]uint16{}},
		{"equal for IPv4", syn, []byte{2, 4, 0x05, 0x50}, [2]uint16{0, 1340}},
		{"at an odd place", syn, []byte{1, 2, 4, 0xff, 0xff}, [2]uint16{1360, 1340}},
		{"after others", syn, []byte{3, 3, 7, 4, 2, 2, 4, 0x23, 0x00, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8}, [2]uint16{1360, 1340}},
		{"after the end", syn, []byte{0, 2, 4, 0x05, 0xb4}, [2]uint16{}},
		{"length 0", syn, []byte{3, 0, 2, 4, 0x05, 0xb4}, [2]uint16{}},
		{"length 1", syn, []byte{3, 1, 2, 4, 0x05, 0xb4}, [2]uint16{}},
		{"beyond the options", syn, []byte{1, 1, 2, 5, 0x05, 0xb4, 1, 99}, [2]uint16{}},
		{"another length", syn, []byte{2, 3, 0x05}, [2]uint16{}},
		{"none", syn, nil, [2]uint16{}},
	} {
		for v, v6 := range []bool{false, true} {
			p, at := tcpPacket(v6, c.flags, c.options...)
			before := bytes.Clone(p)
			if tcpSum(p, at) != 0xffff {
				t.Fatal("the test's own checksum is wrong")
			}
			f, ok := parse(p)
			if !ok || f.upper != at {
				t.Fatalf("TCP begins at %d, not %d", at, f.upper)
			}
			clampMSS(p, f.upper, 1400)
			if tcpSum(p, at) != 0xffff {
				t.Errorf("%s: the checksum is wrong", c.name)
			}
			if c.want[v] == 0 {
				if !bytes.Equal(p, before) {
					t.Errorf("%s: changed", c.name)
				}
				continue
			}
			if !bytes.Contains(p[at+20:], append([]byte{2, 4}, binary.BigEndian.AppendUint16(nil, c.want[v])...)) {
				t.Errorf("%s: options are %x", c.name, p[at+20:])
			}
		}
	}
}

func FuzzClampMSS(f *testing.F) {
	for _, v6 := range []bool{false, true} {
		p, _ := tcpPacket(v6, tcpSYN, 2, 4, 0x05, 0xb4, 4, 2)
		f.Add(p, 1400)
		p, _ = tcpPacket(v6, tcpSYN, 3, 3, 7, 2, 4, 0xff, 0xff)
		f.Add(p, 60)
	}
	f.Fuzz(func(t *testing.T, p []byte, mtu int) {
		fl, ok := parse(p)
		if !ok || fl.proto != protoTCP || !fl.ports || len(p) > maxPacket {
			return
		}
		before := bytes.Clone(p)
		whole := len(p) - fl.upper
		sumBefore := sum(0).add(p[fl.upper:])
		clampMSS(p, fl.upper, mtu)
		if !bytes.Equal(p[:fl.upper], before[:fl.upper]) {
			t.Fatal("an IP header was changed")
		}
		// Where a segment was right it is right: its sum stays. 0 and 0xffff are one number.
		if after := sum(0).add(p[fl.upper:]); whole >= tcpHeaderLen && after%0xffff != sumBefore%0xffff {
			t.Fatalf("sum %04x, was %04x", after, sumBefore)
		}
	})
}
