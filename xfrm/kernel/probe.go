package kernel

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"

	"golang.org/x/sys/unix"
)

// Probe finds out what the kernel's data plane can do in this network namespace, by really adding and removing an SA for
// each algorithm. The error says in plain words why it cannot be used at all.
func Probe(ctx context.Context) (xfrm.Capabilities, error) {
	s, err := openSocket()
	if err != nil {
		return xfrm.Capabilities{}, err
	}
	defer s.close()
	caps, _, err := probe(ctx, s)
	return caps, err
}

// probeSeconds is the hard lifetime of a probe's SA, should the process die before it removes it.
const probeSeconds = 5

func probe(ctx context.Context, s *socket) (xfrm.Capabilities, dialect, error) {
	p := &prober{socket: s}
	caps := xfrm.Capabilities{Name: "kernel", Encr: map[alg.Encr]bool{}, Integ: map[alg.Integ]bool{}}
	p.dialect.direction = p.directions()
	var first error
	for _, suite := range suites() {
		if err := ctx.Err(); err != nil {
			return xfrm.Capabilities{}, dialect{}, err
		}
		switch err := p.try(xfrm.SA{Suite: suite}); {
		case err == nil:
			caps.PlainESP = true
			caps.Encr[suite.Encr] = true
			if suite.Integ != alg.IntegNone {
				caps.Integ[suite.Integ] = true
			}
		case errors.Is(err, unix.EPROTONOSUPPORT):
			return xfrm.Capabilities{}, dialect{}, fmt.Errorf("the kernel has no ESP (is module esp4 missing or blacklisted?): %w", err)
		case errors.Is(err, unix.EPERM):
			return xfrm.Capabilities{}, dialect{}, fmt.Errorf("the kernel refuses SAs: CAP_NET_ADMIN is needed: %w", err)
		case first == nil:
			first = fmt.Errorf("%s: %w", describe(suite), err)
		}
	}
	if len(caps.Encr) == 0 {
		return xfrm.Capabilities{}, dialect{}, fmt.Errorf("the kernel has ESP but refuses every algorithm: %w", first)
	}
	suite := firstOf(caps)
	caps.NATT = p.try(xfrm.SA{Suite: suite, Encap: &xfrm.Encap{SrcPort: 4500, DstPort: 4500}}) == nil
	withESN := suite
	withESN.ESN = true
	caps.ESN = p.try(xfrm.SA{Suite: withESN, Replay: 128}) == nil
	v6 := p.try(xfrm.SA{Suite: suite, Src: netip.IPv6Loopback(), ID: xfrm.SAID{Dst: netip.IPv6Loopback()}})
	caps.Why = why(caps, v6)
	return caps, p.dialect, nil
}

// suites are the ciphers at each key length, those without own integrity with each MAC.
func suites() []xfrm.Suite {
	var out []xfrm.Suite
	for _, c := range alg.Ciphers() {
		macs := []alg.Integ{alg.IntegNone}
		if !c.AEAD() {
			macs = nil
			for _, m := range alg.MACs() {
				macs = append(macs, m.ID)
			}
		}
		for _, bits := range c.KeyBits {
			for _, m := range macs {
				out = append(out, xfrm.Suite{Encr: c.ID, KeyBits: bits, Integ: m})
			}
		}
	}
	return out
}

func firstOf(caps xfrm.Capabilities) xfrm.Suite {
	for _, s := range suites() {
		if caps.Encr[s.Encr] && (s.Integ == alg.IntegNone || caps.Integ[s.Integ]) {
			return s
		}
	}
	return xfrm.Suite{}
}

func describe(s xfrm.Suite) string {
	if s.Integ == alg.IntegNone {
		return alg.Describe(s.Encr, s.KeyBits)
	}
	return alg.Describe(s.Encr, s.KeyBits) + " with " + alg.DescribeMAC(s.Integ)
}

// why is the operator's line: what the kernel does, and what it lacks.
func why(caps xfrm.Capabilities, v6 error) string {
	var lacks []string
	for _, c := range alg.Ciphers() {
		if !caps.Encr[c.ID] {
			lacks = append(lacks, c.Name)
		}
	}
	for _, m := range alg.MACs() {
		if !caps.Integ[m.ID] {
			lacks = append(lacks, m.Name)
		}
	}
	for _, x := range []struct {
		has  bool
		name string
	}{{caps.ESN, "extended sequence numbers"}, {caps.NATT, "UDP encapsulation"}, {v6 == nil, "ESP over IPv6"}} {
		if !x.has {
			lacks = append(lacks, x.name)
		}
	}
	if len(lacks) == 0 {
		return "the kernel has ESP"
	}
	return "the kernel has ESP, without " + strings.Join(lacks, ", ")
}

// prober adds SAs to the loopback address and removes them at once.
type prober struct {
	socket  *socket
	dialect dialect
}

// try adds an inbound SA like sa with made-up keys. Its reqid is none of ours, so it shows up in no Dump.
func (p *prober) try(sa xfrm.SA) error {
	_, err := p.tryWith(sa, nil)
	return err
}

// tryWith also looks at the SA while it is there.
func (p *prober) tryWith(sa xfrm.SA, look func(sastate)) (xfrm.SAID, error) {
	if !sa.Src.IsValid() {
		sa.Src = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		sa.ID.Dst = sa.Src
	}
	sa.ID.Proto, sa.Direction = xfrm.ProtoESP, xfrm.In
	encr, integ, err := alg.KeyLens(sa.Suite.Encr, sa.Suite.KeyBits, sa.Suite.Integ)
	if err != nil {
		return sa.ID, err
	}
	sa.EncrKey, sa.IntegKey = random(encr), random(integ)
	defer sa.EncrKey.Wipe()
	defer sa.IntegKey.Wipe()
	for try := 0; ; try++ {
		sa.ID.SPI = binary.BigEndian.Uint32(random(4).Bytes()) | 0x80000000
		r, err := p.dialect.newSA(&sa, probeSeconds)
		if err != nil {
			return sa.ID, err
		}
		if err = p.socket.do(r, nil); errors.Is(err, unix.EEXIST) && try < 3 {
			continue
		} else if err != nil {
			return sa.ID, err
		}
		if look != nil {
			err = p.socket.do(getSA(sa.ID), func(_ uint16, content []byte) error {
				s, err := parseSA(content)
				if err == nil {
					look(s)
				}
				return err
			})
		}
		return sa.ID, errors.Join(err, p.socket.do(delSA(sa.ID), nil))
	}
}

func random(n int) alg.Secret {
	b := make([]byte, n)
	rand.Read(b)
	return alg.NewSecret(b)
}

// directions finds out whether the kernel keeps an SA's direction: older kernels take the attribute and forget it.
func (p *prober) directions() (kept bool) {
	for _, suite := range suites() {
		with := prober{socket: p.socket, dialect: dialect{direction: true}}
		if _, err := with.tryWith(xfrm.SA{Suite: suite}, func(s sastate) { kept = s.direction() == xfrm.In }); err == nil {
			return kept
		}
	}
	return false
}
