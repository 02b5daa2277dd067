package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespaces is where "ip netns" looks for names.
const namespaces = "/run/netns"

// prefix of the names of all namespaces that are made here; the number of the process follows.
const prefix = "cyg-bench-"

// Namespace is a network namespace with a name that "ip netns" knows.
type Namespace struct{ Name string }

// newNamespace makes one with its loopback interface up. The name must be free.
func newNamespace(name string) (*Namespace, error) {
	if os.Geteuid() != 0 {
		return nil, ErrNotRoot
	}
	path := filepath.Join(namespaces, name)
	if err := os.MkdirAll(namespaces, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", name, err)
	}
	f.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w (in a container: start it with CAP_SYS_ADMIN and CAP_NET_ADMIN)", err)
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
	if err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("network namespace %s: %w", name, err)
	}
	return &Namespace{name}, nil
}

// ErrNotRoot says why nothing can be measured.
var ErrNotRoot = errors.New("the benchmark makes network namespaces, which needs root: run it with sudo")

// onThread calls f on a thread of its own. The thread is never unlocked: it ends with the goroutine, so that no other goroutine finds itself
// in its namespace.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// enter puts the calling thread into the namespace.
func (n *Namespace) enter() error {
	f, err := os.Open(filepath.Join(namespaces, n.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", n.Name, err)
	}
	return nil
}

// Do calls f on a thread inside the namespace. Sockets that f opens stay there.
func (n *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return f()
	})
}

// remove takes the name away; the namespace ends with the last process and socket inside.
func (n *Namespace) remove() error { return removeName(n.Name) }

func removeName(name string) error {
	path := filepath.Join(namespaces, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("network namespace %s: unmount: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sweep removes the namespaces that a run left which was killed: those whose name holds the number of a process that is no more.
func Sweep() error {
	entries, err := os.ReadDir(namespaces)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), prefix)
		pid, _, _ := strings.Cut(rest, "-")
		if !ours || pid == "" {
			continue
		}
		if _, gone := os.Stat("/proc/" + pid); errors.Is(gone, fs.ErrNotExist) {
			errs = append(errs, removeName(e.Name()))
		}
	}
	return errors.Join(append(errs, err)...)
}
