package ike

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"cygnet/ike/wire"
)

// TestNATHashVectors: hashes of real packets. Where the packet came from the address that was hashed, ours is the same; where a NAT or a
// pretended one lies between, it is not, and detectNAT says so on the side that the notify is about.
func TestNATHashVectors(t *testing.T) {
	b, err := os.ReadFile("../test/vectors/nat_detection.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Count int
		Cases []struct {
			ID    string
			SPIi  string `json:"spi_i"`
			SPIr  string `json:"spi_r"`
			Which string
			IP    netip.Addr
			Port  uint16
			Hash  string `json:"hash_on_wire"`
			Match bool
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 68 || len(file.Cases) != file.Count {
		t.Fatalf("%d cases, the file says %d, 68 are known", len(file.Cases), file.Count)
	}
	for _, c := range file.Cases {
		i, errI := strconv.ParseUint(c.SPIi, 16, 64)
		r, errR := strconv.ParseUint(c.SPIr, 16, 64)
		onWire, errH := hex.DecodeString(c.Hash)
		if errI != nil || errR != nil || errH != nil {
			t.Fatal(c.ID, errI, errR, errH)
		}
		h := wire.Header{SPIi: wire.SPI(i), SPIr: wire.SPI(r)}
		at := netip.AddrPortFrom(c.IP, c.Port)
		if got := bytes.Equal(natHash(h.SPIi, h.SPIr, at), onWire); got != c.Match {
			t.Errorf("%s: hash of %v: same is %v, want %v", c.ID, at, got, c.Match)
		}

		var n nat
		switch c.Which {
		case "NAT_DETECTION_SOURCE_IP":
			n, _ = detectNAT(h, []wire.Payload{wire.NewNotify(wire.NotifyNATDetectionSourceIP, onWire)}, Path{Remote: at})
		case "NAT_DETECTION_DESTINATION_IP":
			n, _ = detectNAT(h, []wire.Payload{wire.NewNotify(wire.NotifyNATDetectionDestinationIP, onWire)}, Path{Local: at})
		default:
			t.Fatalf("%s: %q", c.ID, c.Which)
		}
		source := c.Which == "NAT_DETECTION_SOURCE_IP"
		if n.remote != (source && !c.Match) || n.local != (!source && !c.Match) {
			t.Errorf("%s: NAT at the peer %v, at ours %v", c.ID, n.remote, n.local)
		}
	}
}
