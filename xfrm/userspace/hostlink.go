package userspace

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// hostLink is the TUN as a device of the host: what of it lies outside the file that packets go through. It asks by a socket and so stays in the
// network namespace in which it was opened, but for its settings in /proc/sys, which are those of the calling thread.
type hostLink struct {
	name    string
	socket  int
	index   uint32
	program int // that marks what comes out; -1: none
}

func openLink(name string) (*hostLink, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket to ask for device %s: %w", name, err)
	}
	return &hostLink{name: name, socket: fd, program: -1}, nil
}

// look returns the index of the device that has the name now, 0 when there is none, and whether it is up.
func (l *hostLink) look() (index uint32, up bool, err error) {
	ifr, err := unix.NewIfreq(l.name)
	if err != nil {
		return 0, false, err
	}
	if err := unix.IoctlIfreq(l.socket, unix.SIOCGIFFLAGS, ifr); err != nil {
		return 0, false, ignoreNoDevice(err)
	}
	up = ifr.Uint16()&unix.IFF_UP != 0
	if err := unix.IoctlIfreq(l.socket, unix.SIOCGIFINDEX, ifr); err != nil {
		return 0, false, ignoreNoDevice(err)
	}
	return ifr.Uint32(), up, nil
}

func ignoreNoDevice(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// mark replaces the program on the device by one on the device of now.
func (l *hostLink) mark() error {
	fd, err := markInner(l.index)
	if err != nil {
		return err
	}
	if l.program >= 0 {
		unix.Close(l.program)
	}
	l.program = fd
	return nil
}

func (l *hostLink) close() error {
	var err error
	if l.program >= 0 {
		err = unix.Close(l.program)
	}
	return errors.Join(err, unix.Close(l.socket))
}

// exempt keeps the guards off what comes out of the TUN and, of IPv4, what goes into it. changed is false when the settings were so already. A
// kernel without IPv6 has no such setting for it.
func (l *hostLink) exempt() (changed bool, err error) {
	for _, setting := range []string{"ipv4/conf/" + l.name + "/disable_policy", "ipv4/conf/" + l.name + "/disable_xfrm", "ipv6/conf/" + l.name + "/disable_policy"} {
		path := "/proc/sys/net/" + setting
		now, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && setting[3] == '6' {
			continue
		}
		if err == nil && bytes.Equal(bytes.TrimSpace(now), []byte("1")) {
			continue
		}
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}
