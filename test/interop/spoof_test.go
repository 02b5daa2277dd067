//go:build interop

package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"cygnet/ike/control"
	"cygnet/ike/wire"
	"cygnet/test/rig"
)

const (
	spoofRate     = 20000   // datagrams a second that are wanted
	spoofAim      = 21000   // that are tried
	spoofSettle   = 2       // seconds after which memory is measured first
	spoofGrowth   = 8 << 20 // octets by which a daemon's memory may then grow
	spoofConnect  = 2 * time.Second
	halfOpenEnds  = wire.HalfOpen + patience
	spoofAfter    = time.Second // until the last answer has left
	spoofRekeys   = 1           // of each kind while the flood runs, at least
	spoofLost     = 100         // of so many datagrams in the tunnel one may be lost: a peer short of CPU throws away what waits for a key when the key goes
	spoofPersonal = 12          // seconds
	spoofCI       = 6
)

// spoofSeconds is how long a flood takes.
func spoofSeconds() int {
	if os.Getenv("CI") != "" {
		return spoofCI
	}
	return spoofPersonal
}

// TestUserspaceSpoofed: 20,000 datagrams a second from forged sources hinder nobody. A tunnel that is up carries every packet and keeps changing its keys,
// a peer that calls comes up as if nothing were, and no forged source gets more than came from it.
func TestUserspaceSpoofed(t *testing.T) {
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	for _, content := range []struct {
		name string
		next func(*spoofer) rig.Datagram
	}{
		{"requests", (*spoofer).requests},
		{"garbage", (*spoofer).garbage},
	} {
		t.Run(content.name, func(t *testing.T) { // one after the other: each wants the machine
			line{peer: "strongSwan userspace", role: "responds", subject: "flood of forged " + content.name, path: "IPv4"}.run(t, func(s *stage) string {
				return s.spoofed(content.next)
			})
		})
	}
}

func (s *stage) spoofed(content func(*spoofer) rig.Datagram) string {
	x := tunnel(s.Topology, rig.CBC, false, false)
	y := tunnelB(s.Topology, x)
	y.Rekey, y.Cygnet = 2, "rekey_time = \"3s\"\nover_time = \"1m\"\nrand_time = \"0s\"\n"
	third, err := s.Third()
	s.must(err)
	z := tunnel(s.Topology, rig.GCM, false, false)
	z.Local, z.LocalID, z.LocalTS = third.WAN4, "gw-c.example", []string{"10.3.0.10/32"}
	s.must(anybody(s.Topology, z).Write(s.folder()))
	own := s.own(s.B, y, rig.CygnetOptions{Dataplane: "userspace"})
	swan, caller := s.swan(s.A, x, "userspace"), s.swan(third, z, "userspace")
	s.must(swan.Up())
	known, err := own.IKESA()
	s.must(err)
	pings, err := rig.Flood(s.A.Host, s.B.Host, s.B.Host4)
	s.must(err)

	before, lostBefore := s.cost(own)
	flood, err := s.Spoof(s.B.WAN4, spoofAim, content(newSpoofer(known)))
	s.must(err)
	children, ikes := rekeysOf(own)
	time.Sleep(spoofSettle * time.Second) // the measure is taken at a time, not after an event
	early, err := own.Resident()
	s.must(err)
	called := time.Now()
	s.must(caller.Up())
	took := time.Since(called)
	halfOpen := s.counter(own, "ike-sas-half-open")
	time.Sleep(time.Duration(spoofSeconds()-spoofSettle)*time.Second - took)
	late, err := own.Resident()
	s.must(err)
	s.must(flood.Halt())
	after, lost := s.cost(own)
	childrenNow, ikesNow := rekeysOf(own)
	said, pingErr := pings()
	s.must(rig.Ping(third.Host, s.B.Host4))

	halted := time.Now()
	s.want(rig.Until(halfOpenEnds, func() bool { return s.counter(own, "ike-sas-half-open") == 0 }),
		"%d half-open IKE SAs %s after the flood", s.counter(own, "ike-sas-half-open"), halfOpenEnds)
	empty := time.Since(halted) // long enough for a repeat of an answer
	last := empty - flood.Quiet()
	r := flood.Stop()

	sum := fmt.Sprintf("%d/s for %.0f s; memory %.1f MiB after %d s, %.1f at the end; half-open %d, none %.0f s after; %d child and %d IKE rekeys; %s; caller up in %d ms; octets back %.2f of all, %.2f at most; %.1f us of CPU each, %d lost at the sockets, %d at queues",
		r.Rate(), r.Took.Seconds(), mib(early), spoofSettle, mib(late), halfOpen, empty.Seconds(), childrenNow-children, ikesNow-ikes, said, took.Milliseconds(),
		float64(r.Sum[1])/float64(r.Sum[0]), r.Worst, float64((after-before).Microseconds())/float64(r.Sent), lost-lostBefore, s.counter(own, "dropped-queue-full"))
	s.want(r.Rate() >= spoofRate || r.Slept < r.Took/100, "only %d datagrams a second, although the machine could more: %s", r.Rate(), sum)
	if r.Rate() < spoofRate {
		sum = "the machine can no more: " + sum
	}
	s.want(late-early <= spoofGrowth, "memory grew by more than %d MiB: %s", spoofGrowth>>20, sum)
	s.want(childrenNow-children >= spoofRekeys && ikesNow-ikes >= spoofRekeys, "no rekey of the child or of the IKE SA: %s", sum)
	var sent, answered int
	fmt.Sscanf(said, "%d datagrams sent, %d answered", &sent, &answered)
	s.want(pingErr == nil || answered < sent && (sent-answered)*spoofLost <= sent, "%v: %s", pingErr, sum)
	s.want(took <= spoofConnect, "a peer that called waited longer than %s: %s", spoofConnect, sum)
	s.want(r.Missed == 0, "the count of answers is not whole, %d are missing: %s", r.Missed, sum)
	s.want(r.Worst <= 1 && r.More == 0, "%d forged sources got more than they sent: %s", r.More, sum)
	s.want(last <= spoofAfter, "something was sent to a forged source %s after the flood: %s", last, sum)
	_, err = own.SA()
	s.must(err)
	return sum
}

func mib(octets int64) float64 { return float64(octets) / (1 << 20) }

// cost is what a daemon has computed, and what its namespace has lost at full sockets.
func (s *stage) cost(own *rig.CygnetEnd) (cpu time.Duration, lost int64) {
	cpu, err1 := own.CPU()
	lost, err2 := own.NS.LostAtSockets()
	s.must(errors.Join(err1, err2))
	return cpu, lost
}

func (s *stage) counter(own *rig.CygnetEnd, name string) uint64 {
	var st control.Status
	s.must(own.Status(&st))
	return st.Counters[name]
}

func rekeysOf(own *rig.CygnetEnd) (children, ikes int) {
	log := own.Log.String()
	return strings.Count(log, "code=child-rekeyed"), strings.Count(log, "code=ike-rekeyed")
}

// anybody is one more connection of cygnet's at B, for a peer from anywhere: so that requests of forged sources may be meant for it. z is the peer's view.
func anybody(t *rig.Topology, z rig.Tunnel) rig.Config {
	return rig.Config{
		"secrets/c": z.PSK + "\n",
		"conn.d/c.toml": fmt.Sprintf(`[connection.c]
local = { address = %q, id = %q }
remote = { address = "%%any", id = %q }
psk = { file = "secrets/c" }
ike = "%s, %s"
[connection.c.child.lan]
local = [%q]
remote = [%q]
esp = %q
`, t.B.WAN4, z.RemoteID, z.LocalID, z.Suite.IKE, rig.CBC.IKE, z.RemoteTS[0], z.LocalTS[0], z.Suite.ESP),
	}
}

// spoofer writes the datagrams of a flood.
type spoofer struct {
	random  *rand.ChaCha8
	request []byte
	spis    [16]byte // of an IKE SA that is up, as whoever reads along knows them
}

func newSpoofer(known string) *spoofer {
	s := &spoofer{random: rand.NewChaCha8([32]byte{1})}
	s.request, _ = stranger()
	var i, r uint64
	fmt.Sscanf(known, "%x/%x", &i, &r)
	binary.BigEndian.PutUint64(s.spis[:], i)
	binary.BigEndian.PutUint64(s.spis[8:], r)
	return s
}

// fresh writes an IKE_SA_INIT request with an SPI and a nonce of its own.
func (s *spoofer) fresh(room []byte) int {
	n := copy(room, s.request)
	s.random.Read(room[:8])
	s.random.Read(room[n-32 : n])
	return n
}

// requests are whole IKE_SA_INIT requests; the answers and cookies go to nobody.
func (s *spoofer) requests() rig.Datagram {
	return func(_ uint64, room []byte) (int, uint16, uint16) { return s.fresh(room), 500, 500 }
}

// garbage is all that else comes to the ports: no IKE, no version of IKE, IKE SAs that are not there, the one that is under a checksum that is wrong.
func (s *spoofer) garbage() rig.Datagram {
	protected := func(b []byte, spis []byte, exchange wire.ExchangeType, flags wire.Flags) int {
		const size = wire.HeaderLen + 4 + 80
		s.random.Read(b[:size])
		copy(b, spis)
		b[16], b[17], b[18], b[19] = byte(wire.PayloadSK), 2<<4, byte(exchange), byte(flags)
		binary.BigEndian.PutUint32(b[24:], size)
		b[28], b[29] = 0, 0
		binary.BigEndian.PutUint16(b[30:], size-wire.HeaderLen)
		return size
	}
	return func(n uint64, b []byte) (int, uint16, uint16) {
		switch n % 10 {
		case 0: // no IKE
			s.random.Read(b[:300])
			return 300, 500, 500
		case 1: // an IKE SA that is not there
			return protected(b, nil, wire.Informational, wire.FlagInitiator), 500, 500
		case 2:
			clear(b[:4])
			return 4 + protected(b[4:], nil, wire.IKEAuth, wire.FlagInitiator), 4500, 4500
		case 3: // the one that is
			return protected(b, s.spis[:], wire.Informational, wire.FlagInitiator), 500, 500
		case 4:
			clear(b[:4])
			return 4 + protected(b[4:], s.spis[:], wire.CreateChildSA, wire.FlagInitiator|wire.FlagResponse), 4500, 4500
		case 5: // a request that ends early
			size := s.fresh(b) - 40
			binary.BigEndian.PutUint32(b[24:], uint32(size))
			return size, 500, 500
		case 6: // other versions
			size := s.fresh(b)
			b[17] = byte(1+2*(n/10%2)) << 4
			return size, 500, 500
		case 7: // ESP in UDP
			s.random.Read(b[:120])
			b[0] |= 1
			return 120, 4500, 4500
		case 8: // next to nothing
			size := int(n / 10 % 40)
			s.random.Read(b[:size+1])
			return size, 500, uint16(500 + n/10%2*4000)
		}
		size := s.fresh(b) // a cookie of nobody's
		copy(b[wire.HeaderLen+25:], b[wire.HeaderLen:size])
		first := b[16]
		b[16] = byte(wire.PayloadNotify)
		cookie := b[wire.HeaderLen : wire.HeaderLen+25]
		s.random.Read(cookie)
		copy(cookie, []byte{first, 0, 0, 25, 0, 0, byte(wire.NotifyCookie >> 8), byte(wire.NotifyCookie & 0xff)})
		binary.BigEndian.PutUint32(b[24:], uint32(size+25))
		return size + 25, 500, 500
	}
}
