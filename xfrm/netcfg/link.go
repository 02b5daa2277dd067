package netcfg

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func (h *Host) link(name string) (netlink.Link, error) {
	l, err := h.nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	return l, nil
}

// setLink changes what differs: the sizes first, so that the link comes up with them.
func (h *Host) setLink(want Link) error {
	l, err := h.link(want.Name)
	if err != nil {
		return err
	}
	now := l.Attrs()
	if want.MTU != 0 && want.MTU != now.MTU {
		if err := h.nl.LinkSetMTU(l, want.MTU); err != nil {
			return fmt.Errorf("link %s: set MTU %d: %w", want.Name, want.MTU, err)
		}
	}
	if want.TxQueueLen != 0 && want.TxQueueLen != now.TxQLen {
		if err := h.nl.LinkSetTxQLen(l, want.TxQueueLen); err != nil {
			return fmt.Errorf("link %s: set transmit queue length %d: %w", want.Name, want.TxQueueLen, err)
		}
	}
	if want.Up && now.Flags&net.FlagUp == 0 {
		if err := h.nl.LinkSetUp(l); err != nil {
			return fmt.Errorf("link %s: set up: %w", want.Name, err)
		}
	}
	return nil
}

// addAddress reports whether the address was added; false: it was there.
func (h *Host) addAddress(a Address) (bool, error) {
	l, err := h.link(a.Link)
	if err != nil {
		return false, fmt.Errorf("address %v: %w", a.Prefix, err)
	}
	switch err := h.nl.AddrAdd(l, encodeAddress(a)); {
	case errors.Is(err, unix.EEXIST):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("add address %v to link %s: %w", a.Prefix, a.Link, err)
	}
	return true, nil
}

// removeAddress removes a; that it, or its link, is gone already is no error.
func (h *Host) removeAddress(a Address) error {
	l, err := h.link(a.Link)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err == nil {
		err = h.nl.AddrDel(l, encodeAddress(a))
	}
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove address %v from link %s: %w", a.Prefix, a.Link, err)
	}
	return nil
}

func encodeAddress(a Address) *netlink.Addr {
	n := net.IPNet{IP: a.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(a.Prefix.Bits(), a.Prefix.Addr().BitLen())}
	k := &netlink.Addr{IPNet: &n}
	if a.Prefix.Addr().Is6() {
		// The peer assigned it to us alone: usable at once, without duplicate address detection (RFC 4862 section 5.4).
		k.Flags = unix.IFA_F_NODAD
	}
	return k
}
