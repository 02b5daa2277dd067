package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Log is a daemon's output, safe to read while the daemon runs.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Daemon is a process in a namespace.
type Daemon struct {
	NS   NS
	Log  *Log
	cmd  *exec.Cmd
	dead chan struct{}
}

// start runs a command and watches its end.
func start(ns NS, cmd *exec.Cmd) (*Daemon, error) {
	d := &Daemon{NS: ns, Log: &Log{}, cmd: cmd, dead: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = d.Log, d.Log
	// Its own process group, so that what it started ends with it, and an end with us, should we die.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// Pdeathsig follows the thread that started the process, so this one stays as long as the process does.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(d.dead)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return d, nil
}

// PID is the daemon's process. ("ip netns exec" replaces itself by the command.)
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Dead reports whether the process has ended.
func (d *Daemon) Dead() bool {
	select {
	case <-d.dead:
		return true
	default:
		return false
	}
}

// Signal sends a signal and waits until the process has ended, at most 10 s; then it is killed.
func (d *Daemon) Signal(s syscall.Signal) error {
	syscall.Kill(-d.PID(), s)
	select {
	case <-d.dead:
		return nil
	case <-time.After(10 * time.Second):
		syscall.Kill(-d.PID(), syscall.SIGKILL)
		<-d.dead
		return fmt.Errorf("pid %d did not end within 10 s of %v:\n%s", d.PID(), s, d.Log)
	}
}

// Cygnet is a cygnetd with its own configuration folder and control socket.
type Cygnet struct {
	*Daemon
	Bin, Dir string // folder of cygnetd and ikectl; folder of the configuration
}

// Config is the content of a configuration folder: path -> content. Files under "secrets/" get mode 0600.
type Config map[string]string

// Write puts the files into dir.
func (c Config) Write(dir string) error {
	for name, content := range c {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "secrets/") {
			mode = 0o600
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			return err
		}
	}
	return nil
}

// StartCygnet starts cygnetd in a namespace and waits until it says that it is ready.
func StartCygnet(ns NS, bin, dir string, flags ...string) (*Cygnet, error) {
	args := append([]string{"netns", "exec", string(ns), filepath.Join(bin, "cygnetd"), "--config", dir, "--socket", filepath.Join(dir, "control.sock")}, flags...)
	d, err := start(ns, exec.Command("ip", args...))
	if err != nil {
		return nil, err
	}
	Until(15*time.Second, func() bool { return d.Dead() || strings.Contains(d.Log.String(), "cygnetd ready") })
	if d.Dead() || !strings.Contains(d.Log.String(), "cygnetd ready") {
		d.Signal(syscall.SIGKILL)
		return nil, fmt.Errorf("cygnetd in %s is not ready:\n%s", ns, d.Log)
	}
	return &Cygnet{d, bin, dir}, nil
}

// Ikectl runs ikectl against this daemon and returns its output and exit code.
func (c *Cygnet) Ikectl(arg ...string) (string, int) {
	cmd := exec.Command(filepath.Join(c.Bin, "ikectl"), append([]string{"--socket", filepath.Join(c.Dir, "control.sock")}, arg...)...) // which is in no network namespace
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return fmt.Sprintf("%s%v", out, err), -1
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Status is ikectl status --json, decoded into v (a *control.Status).
func (c *Cygnet) Status(v any) error {
	out, code := c.Ikectl("status", "--json")
	if code != 0 {
		return fmt.Errorf("ikectl status: exit %d: %s", code, out)
	}
	return json.Unmarshal([]byte(out), v)
}

// Freeze stops the process where it stands, as the suspend of its host does, until thaw is called.
func (d *Daemon) Freeze() (thaw func(), err error) {
	thaw = func() { syscall.Kill(-d.PID(), syscall.SIGCONT) }
	return thaw, syscall.Kill(-d.PID(), syscall.SIGSTOP)
}
