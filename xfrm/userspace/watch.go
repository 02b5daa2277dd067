package userspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// watchEvery is how long a change of ours by somebody else can stand unnoticed where the kernel does not tell of it.
	watchEvery = time.Second
	// watchShare is the part of a CPU that comparing may take: a comparison is followed by that many times its own length of rest.
	watchShare = 20
	// warnAgain is how often the same loss is told.
	warnAgain = time.Minute
)

// watch compares the host with what was made of it, when the kernel tells of a change and every second, and repairs it (repair.go).
type watch struct {
	d       *Driver
	netns   *os.File // in which the driver was opened
	notices *os.File // of the kernel
	changed chan struct{}
	quit    chan struct{}
	told    map[string]time.Time
}

func (d *Driver) startWatch() error {
	w := &watch{d: d, changed: make(chan struct{}, 1), quit: make(chan struct{}), told: map[string]time.Time{}}
	var err error
	if w.netns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	if w.notices, err = openNotices(); err != nil {
		w.netns.Close()
		return fmt.Errorf("listen to the kernel's notices of routes: %w", err)
	}
	d.watch = w
	d.watching.Go(w.listen)
	d.watching.Go(w.run)
	return nil
}

func (w *watch) stop() {
	close(w.quit)
	w.notices.Close()
	w.d.watching.Wait()
	w.netns.Close()
}

func (w *watch) run() {
	// The settings of a device, and a new device, are of the thread's namespace. A thread that had to change it is never given back.
	runtime.LockOSThread()
	moved, err := enter(w.netns)
	if err != nil {
		w.warn(fmt.Errorf("what others change of our routes and rules is not repaired: %w", err))
		return
	}
	if !moved {
		defer runtime.UnlockOSThread()
	}
	for {
		began := time.Now()
		w.look()
		w.d.learnPaths(began.Unix())
		rest := watchShare * time.Since(began)
		if !w.pause(rest, nil) || !w.pause(max(0, watchEvery-rest), w.changed) {
			return
		}
	}
}

// pause waits for a time or until woken. It is false at the end.
func (w *watch) pause(d time.Duration, woken <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.quit:
		return false
	case <-t.C:
	case <-woken:
	}
	return true
}

func (w *watch) look() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	lost, err := w.d.repair(ctx)
	for _, line := range lost {
		w.warn(errors.New(line))
	}
	if err != nil {
		w.warn(fmt.Errorf("repair of what others changed of our routes and rules: %w", err))
	}
}

func (w *watch) warn(err error) {
	now, text := time.Now(), err.Error()
	for old, at := range w.told {
		if now.Sub(at) >= warnAgain {
			delete(w.told, old)
		}
	}
	if _, told := w.told[text]; told || w.d.config.Warn == nil {
		return
	}
	w.told[text] = now
	w.d.config.Warn(err)
}

// enter moves the calling thread to a network namespace, if it is in another.
func enter(ns *os.File) (moved bool, err error) {
	now, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return false, err
	}
	want, err := ns.Stat()
	if err != nil || os.SameFile(now, want) {
		return false, err
	}
	return true, unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
}

// openNotices is a socket that gets what happens to links, addresses, routes and rules.
func openNotices() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	groups := uint32(0)
	for _, g := range []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE} {
		groups |= 1 << (g - 1)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// listen ends when the socket is closed. Notices that did not fit into it are an error that is followed by a look.
func (w *watch) listen() {
	buf := make([]byte, 1<<16)
	for {
		n, err := w.notices.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err == nil && !touches(buf[:n]) {
			continue
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) && !w.pause(watchEvery, nil) {
			return
		}
	}
}

// touches reports whether one of the messages may be about what is ours.
func touches(b []byte) bool {
	for len(b) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return false
		}
		body := b[unix.NLMSG_HDRLEN:size]
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_NEWLINK, unix.RTM_DELLINK:
			return true
		case unix.RTM_DELROUTE:
			if _, ours := decodeRoute(body); ours {
				return true
			}
		case unix.RTM_DELRULE:
			if _, ours := decodeRule(body); ours {
				return true
			}
		}
		b = b[min(align4(size), len(b)):]
	}
	return false
}
