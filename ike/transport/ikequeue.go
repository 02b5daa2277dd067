package transport

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// openIKEQueue gives the IKE messages on the NAT traversal port a socket, and so a receive buffer, of their own: the buffer of the first socket is full
// when more ESP comes than can be opened, and of what comes then most is lost. A peer's liveness check must not be. The kernel asks a program
// which of two sockets with one port (SO_REUSEPORT) gets a datagram. Both are read in the same way, since a datagram can come by the other one all the
// same: merged behind ESP of the same sender, or before the program was there. IKE messages leave by the second too: they do not wait for ESP that has
// filled the send buffer of the first.
//
// The first was bound without SO_REUSEPORT, so that a port which another process holds is an error, whatever that one has set; and since it is set on
// none before it is bound, a second daemon finds the port in use. Who sets it can only join the two as the same user, which the kernel asks.
func (t *Transport) openIKEQueue(first *udpSocket) {
	s := &udpSocket{family: first.family, port: first.port, natt: true}
	if err := t.openBeside(first, s); err != nil {
		t.note(fmt.Sprintf("IKE and ESP share a receive buffer: overload with ESP can end IKE SAs (%v)", cause(err)))
		return
	}
	t.udp = append(t.udp, s)
	first.queue = s
}

func (t *Transport) openBeside(first, s *udpSocket) error {
	share := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }
	conn, err := first.conn.SyscallConn()
	if err != nil {
		return err
	}
	if err := controlled(share)("", "", conn); err != nil {
		return err
	}
	also := func(fd int) error {
		receiveMany(fd) // the kernel asks either of the two before it merges
		return share(fd)
	}
	if err := t.bind(s, also); err != nil {
		return err
	}
	if err := controlled(chooseSocket)("", "", conn); err != nil {
		s.conn.Close()
		return err
	}
	return nil
}

// chooseSocket attaches the program: 1, the second socket of the group, for what starts with the non-ESP marker, else 0. What has no four octets is 0,
// too: a load beyond the end ends the program so.
func chooseSocket(fd int) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the first word after the UDP header
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}
