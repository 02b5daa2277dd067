package transport

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// process that holds a port.
type process struct {
	name string
	pid  int
}

func (p process) String() string { return fmt.Sprintf("%s (pid %d)", p.name, p.pid) }

// holder finds who has bound a UDP port in this network namespace: port -> inode in proc/net/udp and udp6, inode -> descriptor
// in proc/PID/fd. It finds nothing where /proc hides other users' descriptors.
func holder(proc string, port uint16) (process, bool) {
	links := map[string]bool{}
	for _, table := range []string{"net/udp", "net/udp6"} {
		for _, inode := range inodes(filepath.Join(proc, table), port) {
			links["socket:["+inode+"]"] = true
		}
	}
	if len(links) == 0 {
		return process{}, false
	}
	entries, _ := os.ReadDir(proc)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
		for _, fd := range fds {
			if target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil && links[target] {
				return process{name: comm(dir), pid: pid}, true
			}
		}
	}
	return process{}, false
}

// inodes of the sockets that are bound to port, from a table like /proc/net/udp: "sl local_address rem_address st tx:rx tr:when retrnsmt
// uid timeout inode ...", the address as hex:hex.
func inodes(table string, port uint16) []string {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	var found []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[9] != "0" {
			found = append(found, fields[9])
		}
	}
	return found
}

// comm is the process's name; what is not printable in it is quoted, for it is the process's own choice.
func comm(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, "comm"))
	quoted := strconv.QuoteToASCII(strings.TrimSuffix(string(b), "\n"))
	return quoted[1 : len(quoted)-1]
}
