//go:build interop

package interop

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cygnet/test/rig"
)

// patience is the deadline of what a test waits for.
const patience = 10 * time.Second

// stage is what one try of a line has: its networks, a folder, and the daemons that it has started.
type stage struct {
	*rig.Topology
	dir  string
	ends []rig.End
}

// failure is what must panics with: the try is over, the test goes on.
type failure struct{ error }

// must ends the try when err is not nil.
func (s *stage) must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// want ends the try unless ok.
func (s *stage) want(ok bool, format string, a ...any) {
	if !ok {
		panic(failure{fmt.Errorf(format, a...)})
	}
}

// keep has an end stopped after the try.
func (s *stage) keep(e rig.End) { s.ends = append(s.ends, e) }

// folder of the next daemon.
func (s *stage) folder() string { return filepath.Join(s.dir, fmt.Sprint(len(s.ends))) }

// own starts cygnet at a site.
func (s *stage) own(at rig.Site, x rig.Tunnel, o rig.CygnetOptions) *rig.CygnetEnd {
	e, err := rig.StartCygnetEnd(at.Gateway, bin, s.folder(), x, o)
	s.must(err)
	s.keep(e)
	return e
}

// swan starts strongSwan at a site.
func (s *stage) swan(at rig.Site, x rig.Tunnel, plane string) *rig.Swan {
	e, err := rig.StartSwan(at.Gateway, s.folder(), x, plane == "kernel")
	s.must(err)
	s.keep(e)
	return e
}

// versus starts cygnet and strongSwan, the initiator at A: x is what A is told, y what B is told.
func (s *stage) versus(x, y rig.Tunnel, initiate bool, o rig.CygnetOptions) (own *rig.CygnetEnd, swan *rig.Swan) {
	if initiate {
		swan = s.swan(s.B, y, o.Dataplane)
		return s.own(s.A, x, o), swan
	}
	own = s.own(s.B, y, o)
	return own, s.swan(s.A, x, o.Dataplane)
}

// line is one test that adds one line to the table.
type line struct {
	peer, role string // role of cygnet: "initiates", "responds", "both"
	subject    string // the suite, or what is shown
	path       string // "IPv4", "IPv6", "NAT", ...
	nat        bool
}

func (l line) name() string {
	return strings.NewReplacer(" ", "_", "/", "+").Replace(strings.Join([]string{l.peer, l.role, l.subject, l.path}, "/"))
}

// leftOut says that a row is not run: CUT is a commit's hash, set where time has run short, and leaves a third of the rows.
func leftOut(name string) bool {
	cut := os.Getenv("CUT")
	if cut == "" {
		return false
	}
	h := fnv.New32a()
	h.Write([]byte(cut + name))
	return h.Sum32()%3 != 0
}

// run tries f, which returns its evidence. A line that fails is tried once more and is then FLAKY, with the logs of all ends shown.
func (l line) run(t *testing.T, f func(*stage) (evidence string)) {
	t.Run(l.name(), func(t *testing.T) {
		t.Parallel()
		if leftOut(l.name()) {
			record(l.peer, l.role, l.subject, l.path, "NOT RUN for time", "")
			return
		}
		result := "OK"
		evidence, log, err := l.try(t.TempDir(), f)
		if err != nil {
			t.Logf("first try: %v\n%s", err, log)
			if evidence, log, err = l.try(t.TempDir(), f); err != nil {
				result = "FAIL"
				t.Errorf("second try: %v\n%s", err, log)
			} else {
				result = "FLAKY"
			}
		}
		record(l.peer, l.role, l.subject, l.path, result, evidence)
	})
}

// tries makes the names of the networks unique: lines run beside each other.
var tries atomic.Int32

func (l line) try(dir string, f func(*stage) string) (evidence, log string, err error) {
	topo, err := rig.NewTopology(fmt.Sprintf("cyi%d-%d", os.Getpid(), tries.Add(1)), rig.Options{NATA: l.nat})
	if err != nil {
		return "", "", err
	}
	defer topo.Remove()
	s := &stage{Topology: topo, dir: dir}
	defer func() {
		p := recover()
		for i, e := range s.ends {
			log += fmt.Sprintf("---- end %d\n%s\n", i, e.Stop())
		}
		if failed, ok := p.(failure); ok {
			err = errors.Join(err, failed.error)
		} else if p != nil {
			panic(p)
		}
	}()
	return f(s), "", nil
}

// role of cygnet in a line.
func role(initiate bool) string {
	if initiate {
		return "initiates"
	}
	return "responds"
}
