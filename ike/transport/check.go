package transport

// Check opens the UDP sockets and closes them again: before anything is changed on the host it finds out who holds a port. The errors are those
// of Open.
func Check(port, nattPort uint16) error {
	t := &Transport{config: Config{Port: port, NATTPort: nattPort}}
	defer t.Close()
	return t.open()
}
