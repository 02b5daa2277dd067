package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The SPIs that ALLOCSPI may choose from: all but 0 and those reserved (RFC 4303 section 2.1).
const spiFirst, spiLast = 0x100, 0xffffffff

// larval reports whether s is the kernel's note of an ACQUIRE of ours: an SA of SPI 0 that waits to be replaced by a real one.
func (s sastate) larval() bool { return ourReqID(s.info.Reqid) && s.info.Id.Spi == 0 }

// removeLarval removes the larval SAs of ours. While there is one the kernel drops the packets that it stands for and raises no second
// ACQUIRE, for 30 s (net.core.xfrm_acq_expires): one whose ACQUIRE nobody has heard, because the process has died or the notice was lost,
// keeps a connection down that traffic is to bring up.
func (d *Driver) removeLarval(ctx context.Context) error {
	var births []*request
	err := d.dump(ctx, listSAs, func() { births = nil }, func(content []byte) error {
		s, err := parseSA(content)
		if err == nil && s.larval() {
			births = append(births, s.allocateSPI())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list the kernel's SAs: %w", err)
	}
	for _, birth := range births {
		if err := d.removeBorn(birth); err != nil {
			return fmt.Errorf("remove the note of an ACQUIRE: %w", err)
		}
	}
	return nil
}

// removeBorn gives a larval SA an SPI and removes it by that: the kernel finds an SA to delete by its SPI alone, and has no key for one
// without. One that has expired meanwhile is made for the occasion, and goes as well.
func (d *Driver) removeBorn(birth *request) error {
	var death *request
	err := d.socket.do(birth, func(_ uint16, content []byte) error {
		s, err := parseSA(content)
		if err == nil {
			death = s.marked(delSA(s.id()))
		}
		return err
	})
	if err != nil || death == nil {
		return err
	}
	return unless(d.socket.do(death, nil), unix.ESRCH)
}

// allocateSPI is the request that gives a larval SA an SPI of the kernel's choice. It is found by its sequence number.
func (s sastate) allocateSPI() *request {
	x := nl.XfrmUserSpiInfo{XfrmUsersaInfo: *s.info, Min: spiFirst, Max: spiLast}
	return s.marked(newRequest(nl.XFRM_MSG_ALLOCSPI, 0).body(x.Serialize()))
}

// marked adds what the kernel also wants to see the same before it finds s.
func (s sastate) marked(r *request) *request {
	for _, kind := range []uint16{nl.XFRMA_MARK, nl.XFRMA_IF_ID, nl.XFRMA_SA_PCPU} {
		if v, ok := s.attrs[kind]; ok {
			r.attr(kind, v)
		}
	}
	return r
}
