package transport

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"cygnet/xfrm"
)

// Plain ESP over loopback. Raw sockets see all of the host's ESP, so the test looks for its own packets.
func TestPlainESP(t *testing.T) {
	n := new(node)
	c := n.config()
	c.Port, c.NATTPort, c.PlainESP = freePort(t), freePort(t), true
	tr, err := Open(c)
	if errors.Is(err, os.ErrPermission) && !strings.Contains(os.Getenv("REQUIRE"), "root") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for _, a := range loopbacks(t) {
		p := netip.AddrPortFrom(a, 0)
		want := message(0x5a, 60)
		want[0] = byte(c.Port)
		if err := tr.SendESP(&xfrm.Burst{Local: p, Remote: p, Packets: [][]byte{
			{0, 0, 0, 0, 0, 0, 0, 1, 9, 9, 9, 9}, // SPI 0 is never on the wire
			{1, 2, 3},
			want,
		}}); err != nil {
			t.Fatal(err)
		}
		for end := time.After(deadline); ; {
			var got xfrm.Burst
			select {
			case got = <-n.esp:
			case <-end:
				t.Fatalf("%v: nothing received", a)
			}
			if len(got.Packets[0]) < 8 || bytes.HasPrefix(got.Packets[0], make([]byte, 4)) {
				t.Fatalf("%v: %x was delivered", a, got.Packets[0])
			}
			if !bytes.Equal(got.Packets[0], want) {
				continue
			}
			if got.Local != p || got.Remote != p {
				t.Errorf("burst %v <- %v, want %v", got.Local, got.Remote, p)
			}
			break
		}
	}
}

// What source writes is what destination reads: the two structures are the same in both directions.
func TestPacketInformation(t *testing.T) {
	for _, a := range []string{"192.0.2.1", "2001:db8::1", "fe80::1"} {
		want := netip.MustParseAddr(a)
		zone := ""
		if want.IsLinkLocalUnicast() {
			zone = "eth0"
		}
		var c controls
		c.source(want)
		if got := parseControl(c.bytes(), zone).local; got != want.WithZone(zone) {
			t.Errorf("%v: read %v", want, got)
		}
	}
	var c controls
	c.source(netip.IPv4Unspecified())
	c.source(netip.Addr{})
	if len(c.bytes()) != 0 {
		t.Error("packet information without an address")
	}
	if a := parseControl(nil, ""); a.local.IsValid() {
		t.Error("an address out of nothing")
	}
}

func TestHolder(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(dir+"/"+name[:lastSlash(name)], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
	put("net/udp", head+" 1: 00000000:1194 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4242 2 x 0\nrubbish\n")
	put("net/udp6", head+" 2: 00000000000000000000000000000000:01F4 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4343 2 x 0\n")
	put("77/comm", "evil\x1b[31m\n")
	put("78/comm", "charon\n")
	put("self/comm", "x\n")
	for name, target := range map[string]string{"77/fd/3": "socket:[4242]", "78/fd/9": "socket:[4343]", "78/fd/1": "pipe:[4242]"} {
		os.MkdirAll(dir+"/"+name[:lastSlash(name)], 0o755)
		if err := os.Symlink(target, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	for port, want := range map[uint16]string{500: "charon (pid 78)", 4500: `evil\x1b[31m (pid 77)`} {
		if p, ok := holder(dir, port); !ok || p.String() != want {
			t.Errorf("port %d: %q, %v; want %q", port, p, ok, want)
		}
	}
	if p, ok := holder(dir, 501); ok {
		t.Errorf("port 501: %v", p)
	}
	if p, ok := holder(dir+"/none", 500); ok {
		t.Errorf("no /proc: %v", p)
	}
}

func lastSlash(s string) int { return bytes.LastIndexByte([]byte(s), '/') }
