package control

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cred is who is on the other end of a connection (SO_PEERCRED, SO_PEERGROUPS).
type cred struct {
	uid    uint32
	pid    int32
	groups []uint32
	admin  bool // a member of AdminGroup
}

// master: root, and the user that cygnetd itself runs as.
func (c cred) master() bool { return c.uid == 0 || int(c.uid) == os.Geteuid() }

// mayChange says whether the peer may do more than look.
func (c cred) mayChange() bool { return c.master() || c.admin }

func (c cred) in(group int) bool {
	return group != noGroup && slices.Contains(c.groups, uint32(group))
}

// peerCred asks the kernel; the answer was fixed when the peer connected, and cannot be forged.
func peerCred(c *net.UnixConn) (cred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return cred{}, err
	}
	var u *unix.Ucred
	var groups []uint32
	var uerr error
	if err := raw.Control(func(fd uintptr) {
		if u, uerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); uerr == nil {
			groups = peerGroups(fd)
		}
	}); err != nil {
		return cred{}, err
	}
	if uerr != nil {
		return cred{}, uerr
	}
	return cred{uid: u.Uid, pid: u.Pid, groups: append(groups, u.Gid)}, nil
}

// maxGroups of a peer that are asked for; one with more is in none of them, as far as we are concerned.
const maxGroups = 1024

// peerGroups are the supplementary groups. None are known before Linux 4.13.
func peerGroups(fd uintptr) []uint32 {
	var list [maxGroups]uint32
	size := uint32(unsafe.Sizeof(list))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS, uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 || size > uint32(unsafe.Sizeof(list)) {
		return nil
	}
	return slices.Clone(list[:size/4])
}

const noGroup = -1

// groupID of a group of this host.
func groupID(name string) int {
	g, err := user.LookupGroup(name)
	if err != nil {
		return noGroup
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return noGroup
	}
	return gid
}

// Tags of a POSIX access control list as acl(5) has them, and its version (linux/posix_acl_xattr.h).
const (
	aclVersion = 2
	aclUserObj = 0x01
	aclGrpObj  = 0x04
	aclGroup   = 0x08
	aclMask    = 0x10
	aclOther   = 0x20
	aclNoID    = 1<<32 - 1
	readWrite  = 6
)

// letGroupIn gives a second group the rights of the first. Where the file system has no such lists the members must be in both groups.
func letGroupIn(path string, gid int) error {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{aclUserObj, readWrite, aclNoID}, {aclGrpObj, readWrite, aclNoID}, {aclGroup, readWrite, uint32(gid)}, {aclMask, readWrite, aclNoID}, {aclOther, 0, aclNoID}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	if err := unix.Setxattr(path, "system.posix_acl_access", b, 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
		return &os.PathError{Op: "setxattr", Path: path, Err: err}
	}
	return nil
}
