package userspace

import (
	"bytes"
	"testing"
)

// goodHeader reports whether the checksum of an IPv4 header is right.
func goodHeader(p []byte) bool { return sum(0).add(p[:int(p[0]&15)*4]) == 0xffff }

// withClass is a packet of a traffic class with a good checksum.
func withClass(v6 bool, class byte) []byte {
	if v6 {
		p := udp6("fd01::5", "fd02::9", 7, 53, 4)
		p[0], p[1], p[3] = 0x60|class>>4, class<<4|0x0a, 0xbc // and a flow label
		return p
	}
	p := udp4("10.1.0.5", "10.2.0.9", 7, 53, 4)
	p[1] = class
	c := sum(0).add(p[:20]).checksum()
	p[10], p[11] = byte(c>>8), byte(c)
	return p
}

// RFC 6040 section 4.2, figure 4: all combinations, in the figure's order of rows and columns.
func TestTrap_6040_1_Egress(t *testing.T) {
	order := [4]uint8{notECT, ect0, ect1, ce}
	const drop = 99
	want := [4][4]uint8{
		{notECT, notECT, notECT, drop},
		{ect0, ect0, ect1, ce},
		{ect1, ect1, ect1, ce},
		{ce, ce, ce, ce},
	}
	odd := map[[2]uint8]bool{{notECT, ect0}: true, {notECT, ect1}: true, {ect1, ect0}: true, {ce, ect1}: true}
	for row, inner := range order {
		for column, outer := range order {
			for _, v6 := range []bool{false, true} {
				for _, dscp := range []uint8{0, 46 << 2, 63 << 2} {
					p := withClass(v6, dscp|inner)
					before := bytes.Clone(p)
					verdict := receiveECN(p, 11<<2|outer) // an outer DSCP of its own
					if want[row][column] == drop {
						if verdict != ecnDrop || !bytes.Equal(p, before) {
							t.Errorf("inner %d, outer %d: verdict %d", inner, outer, verdict)
						}
						continue
					}
					if got := trafficClass(p); got != dscp|want[row][column] {
						t.Errorf("inner %d, outer %d: class %02x, want %02x", inner, outer, got, dscp|want[row][column])
					}
					if (verdict == ecnOdd) != odd[[2]uint8{inner, outer}] || verdict == ecnDrop {
						t.Errorf("inner %d, outer %d: verdict %d", inner, outer, verdict)
					}
					if !v6 && !goodHeader(p) {
						t.Errorf("inner %d, outer %d: the header's checksum is wrong", inner, outer)
					}
					p[0], p[1] = before[0], before[1]
					if !v6 {
						copy(p[10:12], before[10:12])
					}
					if !bytes.Equal(p, before) {
						t.Errorf("inner %d, outer %d: more was changed than the class", inner, outer)
					}
				}
			}
		}
	}
}

// RFC 6040 section 4.1, normal mode: the ECN field is copied outward, whatever it is. RFC 4301 section 5.1.2.1: so is DSCP, unless it is hidden.
func TestTrap_6040_2_Ingress(t *testing.T) {
	for class := range 256 {
		for _, v6 := range []bool{false, true} {
			c := trafficClass(withClass(v6, byte(class)))
			if got := outerClass(c, false); got != byte(class) {
				t.Errorf("class %02x goes out as %02x", class, got)
			}
			if got := outerClass(c, true); got != byte(class)&3 {
				t.Errorf("class %02x goes out as %02x where DSCP is hidden", class, got)
			}
		}
	}
}
