package rig

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// GRO has a veth device of a namespace merge what arrives for at most a time in nanoseconds, as network cards do (generic receive offload), so that
// sockets with UDP_GRO are given several datagrams at once.
func (n NS) GRO(device string, within int) error {
	err := n.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		value := struct{ cmd, data uint32 }{unix.ETHTOOL_SGRO, 1}
		request := struct { // struct ifreq of <linux/if.h>
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&value)}
		copy(request.name[:unix.IFNAMSIZ-1], device)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("GRO of %s in %s: %w", device, n, err)
	}
	_, err = n.Output("sh", "-c", fmt.Sprintf("echo %d > /sys/class/net/%s/gro_flush_timeout", within, device))
	return err
}
