package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/ike/auth"
)

// TestAllowed: no address of this host or its link is dialled, in whatever form.
func TestAllowed(t *testing.T) {
	own := func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("2001:db8:b::7")}, nil
	}
	for address, want := range map[string]bool{
		"192.0.2.1:80": true, "10.1.2.3:80": true, "[2001:db8::1]:80": true, "[fd00::1]:80": true, "100.64.0.1:80": true,
		"127.0.0.1:80": false, "127.9.9.9:80": false, "[::1]:80": false, "[::ffff:127.0.0.1]:80": false, "0.0.0.0:80": false, "0.0.0.1:80": false, "[::]:80": false,
		"169.254.169.254:80": false, "[fe80::1]:80": false, "[fe80::1%eth0]:80": false, "224.0.0.1:80": false, "[ff02::1]:80": false, "240.0.0.1:80": false, "255.255.255.255:80": false,
		"name:80": false,
		// the gateway's own, outer and inner
		"198.51.100.7:80": false, "10.2.0.1:80": false, "[2001:db8:b::7]:80": false, "[::ffff:198.51.100.7]:80": false, "198.51.100.8:80": true, "[2001:db8:b::8]:80": true,
		// IPv4 in IPv6
		"[::127.0.0.1]:80": false, "[::ffff:0:7f00:1]:80": false, "[fec0::1]:80": false,
		"[64:ff9b::127.0.0.1]:80": false, "[64:ff9b::169.254.169.254]:80": false, "[64:ff9b::198.51.100.7]:80": false, "[64:ff9b::10.2.0.1]:80": false, "[64:ff9b::10.9.9.9]:80": false,
		"[64:ff9b::192.168.1.1]:80": false, "[64:ff9b::0.0.0.0]:80": false, "[64:ff9b::192.0.2.1]:80": true,
		"[64:ff9b:1::127.0.0.1]:80": false, "[64:ff9b:1:7f00:0:100::]:80": false, "[64:ff9b:2::1]:80": true,
		"[2002:7f00:1::1]:80": false, "[2002:c633:6407::1]:80": false, "[2001:0:4136:e378:8000:63bf:80ff:fffe]:80": false,
	} {
		if err := allowed(address, own); (err == nil) != want {
			t.Errorf("%s: %v, wanted allowed: %v", address, err, want)
		}
	}
	if err := allowed("192.0.2.1:80", func() ([]netip.Addr, error) { return nil, errors.New("no netlink") }); err == nil {
		t.Error("dialled without knowing the addresses of this host")
	}
}

// TestOwnAddressIsNotAsked: by a real dial to an address of an interface of this host.
func TestOwnAddressIsNotAsked(t *testing.T) {
	own, err := ownAddresses()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, a := range own {
		if a.IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, 0).String())
		if err != nil {
			continue // as one that is still being looked for a duplicate
		}
		s := httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%v was asked", a) })}}
		s.Start()
		_, results := New(time.Now).Fetch(context.Background(), []auth.Source{{Kind: auth.SourceCRL, URL: s.URL}})
		s.Close()
		if err := results[0].Err; err == nil || !strings.Contains(err.Error(), "is one of this host") {
			t.Errorf("%v: %v", a, err)
		}
		asked++
	}
	if asked == 0 {
		t.Skip("this host has no address to listen on")
	}
}
