package userspace

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// innerMark is the firewall mark of what comes out of the TUN. The kernel exempts a device's packets from policies by a setting of the device, but
// for IPv6 packets to this host itself it asks the device of the address instead; those are exempt by their mark.
const innerMark = Mark + 1

// markInner puts innerMark on all that a device receives: the smallest of programs on its ingress (TCX, Linux 6.6). The descriptor keeps it there.
func markInner(device uint32) (fd int, err error) {
	const (
		movImmediate = 0xb7 // r = value
		storeWord    = 0x63 // *(u32 *)(r + offset) = r
		exit         = 0x95
		offMark      = 8          // in struct __sk_buff
		next         = 0xffffffff // TCX_NEXT: the verdict is left to others
	)
	program := instruction(movImmediate, 2, 0, 0, innerMark)
	program = append(program, instruction(storeWord, 1, 2, offMark, 0)...)
	program = append(program, instruction(movImmediate, 0, 0, 0, next)...)
	program = append(program, instruction(exit, 0, 0, 0, 0)...)
	prog, err := loadProgram(program)
	if err != nil {
		return -1, fmt.Errorf("load a program for device %d: %w", device, err)
	}
	defer unix.Close(prog)
	attr := struct{ prog, target, attach, flags uint32 }{uint32(prog), device, unix.BPF_TCX_INGRESS, 0}
	fd, err = bpf(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return -1, fmt.Errorf("attach a program to device %d: %w", device, err)
	}
	return fd, nil
}

func instruction(op, dst, src byte, offset uint16, value uint32) []byte {
	registers := dst | src<<4
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 { // big endian hosts have the nibbles the other way round
		registers = dst<<4 | src
	}
	b := []byte{op, registers}
	b = binary.NativeEndian.AppendUint16(b, offset)
	return binary.NativeEndian.AppendUint32(b, value)
}

func loadProgram(program []byte) (fd int, err error) {
	license := []byte("Apache-2.0\x00") // it calls nothing that asks
	var pins runtime.Pinner             // the kernel gets addresses as numbers
	defer pins.Unpin()
	pins.Pin(&program[0])
	pins.Pin(&license[0])
	attr := struct {
		kind, count           uint32
		instructions, license uint64
		logLevel, logSize     uint32
		log                   uint64
		kernelVersion, flags  uint32
		name                  [16]byte
	}{
		kind: unix.BPF_PROG_TYPE_SCHED_CLS, count: uint32(len(program) / 8),
		instructions: uint64(uintptr(unsafe.Pointer(&program[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	copy(attr.name[:], "cygnet_inner")
	fd, err = bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return fd, err
}

func bpf(command int, attr unsafe.Pointer, size uintptr) (fd int, err error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}
