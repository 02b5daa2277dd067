//go:build interop

package interop

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/test/rig"
)

// TestUserspaceLoad: with more half-open IKE SAs than the threshold every newcomer is asked for a cookie (RFC 7296 section 2.6), and a real
// peer comes up all the same.
func TestUserspaceLoad(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	line{peer: "strongSwan userspace", role: "responds", subject: "COOKIE under load", path: "IPv4"}.run(t, func(s *stage) string {
		x := tunnel(s.Topology, rig.CBC, false, false)
		y := tunnelB(s.Topology, x)
		y.Remote = netip.Addr{} // anyone may call
		s.own(s.B, y, rig.CygnetOptions{Dataplane: "userspace"})
		swan := s.swan(s.A, x, "userspace")

		// Each from an address of its own: what one address may have half open is limited too.
		_, err := s.A.Gateway.Output("ip", "route", "add", "local", "192.0.2.64/26", "dev", "lo")
		s.must(err)
		_, err = s.A.Gateway.Output("ip", "route", "add", "local", "192.0.2.128/26", "dev", "lo")
		s.must(err)
		answers := map[string]int{}
		s.must(s.A.Gateway.Do(func() error {
			for i := range 128 {
				answer, err := knock(netip.AddrFrom4([4]byte{192, 0, 2, byte(64 + i)}), s.B.WAN4)
				if err != nil {
					return err
				}
				answers[answer]++
			}
			return nil
		}))
		s.want(answers["SA"] == policy.DefaultCookieThreshold && answers["COOKIE"] == 128-policy.DefaultCookieThreshold,
			"answers to 128 strangers: %v, wanted %d of them without COOKIE", answers, policy.DefaultCookieThreshold)
		s.must(swan.Up())
		s.must(rig.Ping(s.A.Host, s.B.Host4))
		asked := swan.Said("parsed IKE_SA_INIT response 0 [ N(COOKIE) ]")
		s.want(len(asked) == 1, "strongSwan was not asked for a cookie once: %s", strings.Join(asked, "\n"))
		return fmt.Sprintf("%d strangers were answered with SA, %d and strongSwan with COOKIE", answers["SA"], answers["COOKIE"])
	})
}

// knock sends an IKE_SA_INIT request from an address and names the payload of the answer.
func knock(from, to netip.Addr) (string, error) {
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 500)))
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	request, err := stranger()
	if err != nil {
		return "", err
	}
	if _, err := c.Write(request); err != nil {
		return "", err
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		return "", err
	}
	m, err := wire.Decode(b[:n])
	if err != nil {
		return "", err
	}
	for _, p := range m.Payloads {
		switch p := p.(type) {
		case *wire.SA:
			return "SA", nil
		case *wire.Notify:
			if p.Kind == wire.NotifyCookie {
				return "COOKIE", nil
			}
		}
	}
	return fmt.Sprint(m.Payloads), nil
}

// stranger is an IKE_SA_INIT request for AES-256-CBC, HMAC-SHA2-256 and MODP-2048, whose sender will not go on.
func stranger() ([]byte, error) {
	random := make([]byte, 8+32)
	rand.Read(random)
	m := wire.Message{
		Header: wire.Header{SPIi: wire.SPI(binary.BigEndian.Uint64(random)), MajorVersion: 2, Exchange: wire.IKESAInit, Flags: wire.FlagInitiator},
		Payloads: []wire.Payload{
			&wire.SA{Proposals: []wire.Proposal{{Number: 1, Protocol: wire.ProtoIKE, Transforms: []wire.Transform{
				{Type: 1, ID: 12, KeyBits: 256}, {Type: 2, ID: 5}, {Type: 3, ID: 12}, {Type: 4, ID: 14},
			}}}},
			&wire.KE{Group: wire.GroupMODP2048, Data: bytes.Repeat([]byte{0x55}, 256)},
			&wire.Nonce{Data: random[8:]},
		},
	}
	return m.Encode()
}
