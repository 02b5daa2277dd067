package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process runs in a namespace.
type Process struct {
	cmd  *exec.Cmd
	log  output
	dead chan struct{}
}

// output keeps the last part of what a process prints, to be read while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const outputKept = 64 << 10 // octets

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b.Len() > outputKept {
		o.b.Next(o.b.Len() - outputKept/2)
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Start starts a command in the namespace. It ends with this process, however that ends.
func (n *Namespace) Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, dead: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// Pdeathsig follows the thread that started the process, so this one stays as long as the process does.
		runtime.LockOSThread()
		err := n.enter()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			cmd.Wait()
			close(p.dead)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s in %s: %w", cmd.Path, n.Name, err)
	}
	return p, nil
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is what it printed lately.
func (p *Process) Output() string { return p.log.String() }

// Dead says whether it has ended.
func (p *Process) Dead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// Stop ends the process, by force after 5 s.
func (p *Process) Stop() {
	syscall.Kill(-p.PID(), syscall.SIGTERM)
	select {
	case <-p.dead:
	case <-time.After(5 * time.Second):
		syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.dead
	}
}

// until polls f until it is true, or d has passed, or ctx is done.
func until(ctx context.Context, d time.Duration, f func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for !f() {
		if pause(ctx, 20*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// tick is the unit of times in /proc, 1/100 s on every Linux.
const tick = 10 * time.Millisecond

// CPU is the time that processes have computed, for themselves and in the kernel.
func CPU(pids ...int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(b), ") ") // the name in parentheses may hold anything
		f := strings.Fields(rest)
		if len(f) < 13 {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
		}
		for _, v := range f[11:13] { // utime, stime
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// machineCPU is the time that all processors together have worked.
func machineCPU() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, errors.New("/proc/stat does not begin with a line cpu")
	}
	var sum time.Duration
	for i, v := range f[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if i != 3 && i != 4 && i != 7 {
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// Load is the machine's load average of the last minute.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	f, _, _ := strings.Cut(string(b), " ")
	return f
}
