package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cygnet/ike"
	"cygnet/ike/control"
	"cygnet/test/rig"
)

// operator is a person at a cygnet: "ikectl monitor" runs all the time, "ikectl status", "ikectl rekey" and "ikectl reload" (of what is in force) now and then.
type operator struct {
	own     *rig.CygnetEnd
	monitor *exec.Cmd
	watched sync.WaitGroup

	mu      sync.Mutex
	codes   map[string]int // lines of the monitor
	bad     []string       // those of failures, and commands that failed
	done    map[string]int // commands
	ending  bool           // what is told from now on is our own end
	slowest time.Duration  // of a rekey
}

const (
	operatorRest = 13 * time.Second // between two commands, on average
	maxBad       = 20               // of a kind that are kept in words
)

func startOperator(own *rig.CygnetEnd) (*operator, error) {
	o := &operator{own: own, codes: map[string]int{}, done: map[string]int{}}
	o.monitor = exec.Command(filepath.Join(own.Bin, "ikectl"), "--socket", filepath.Join(own.Dir, "control.sock"), "monitor", "--json")
	o.monitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := o.monitor.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := o.monitor.Start(); err != nil {
		return nil, err
	}
	o.watched.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			o.hear(lines.Bytes())
		}
	})
	return o, nil
}

// hear takes a line of the monitor.
func (o *operator) hear(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ending {
		return
	}
	var l control.Line
	if err := json.Unmarshal(b, &l); err != nil {
		o.note("ikectl monitor: %v: %s", err, b)
		return
	}
	o.codes[l.Code]++
	if l.Level == control.LevelError || l.Code == control.CodeGap || l.Code == string(ike.CodeChildDown) || l.Done {
		o.note("ikectl monitor: %s %s %s: %s", l.Time, l.SPI, l.Code, l.Text)
	}
}

// note keeps what is wrong. The caller has the lock.
func (o *operator) note(format string, a ...any) {
	if len(o.bad) < maxBad {
		o.bad = append(o.bad, fmt.Sprintf(format, a...))
	}
}

// work gives commands until the context ends.
func (o *operator) work(ctx context.Context, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	commands := [][]string{{"status"}, {"rekey", "s2s"}, {"status", "-v"}, {"rekey", "s2s", "--child", "lan"}, {"status", "s2s"}, {"rekey", "s2s", "--ike"}, {"reload"}}
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(operatorRest/2 + time.Duration(rng.Int64N(int64(operatorRest)))):
		}
		o.command(commands[rng.IntN(len(commands))])
	}
}

func (o *operator) command(arg []string) {
	begun := time.Now()
	out, code := o.own.Ikectl(arg...)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done[strings.Join(arg, " ")]++
	if arg[0] == "rekey" {
		o.slowest = max(o.slowest, time.Since(begun))
	}
	if code != 0 {
		o.note("ikectl %s: exit %d after %.1f s: %s", strings.Join(arg, " "), code, time.Since(begun).Seconds(), strings.TrimSpace(out))
	}
}

// end says that the tunnel is about to be taken down, and ends the monitor as Ctrl-C does.
func (o *operator) end() error {
	o.mu.Lock()
	o.ending = true
	o.mu.Unlock()
	o.monitor.Process.Signal(syscall.SIGINT)
	o.watched.Wait()
	o.monitor.Wait()
	if code := o.monitor.ProcessState.ExitCode(); code != control.ExitInterrupted {
		return fmt.Errorf("ikectl monitor ended with exit code %d, wanted %d", code, control.ExitInterrupted)
	}
	return nil
}

// rekeys counts those that the monitor has told of.
func (o *operator) rekeys() (child, ikeSA int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.codes[string(ike.CodeRekeyed)], o.codes[string(ike.CodeIKERekeyed)]
}

func (o *operator) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []string
	for _, c := range slices.Sorted(maps.Keys(o.done)) {
		list = append(list, fmt.Sprintf("%d ikectl %s", o.done[c], c))
	}
	var heard []string
	for _, c := range slices.Sorted(maps.Keys(o.codes)) {
		heard = append(heard, fmt.Sprintf("%d %s", o.codes[c], c))
	}
	return fmt.Sprintf("%s; slowest rekey %.1f s; the monitor told %s", strings.Join(list, ", "), o.slowest.Seconds(), strings.Join(heard, ", "))
}
