package directory

import (
	"testing"
	"time"

	"cygnet/policy"
)

// TestPathsEndPauses: a change of the host's network ends the pause of what is wanted, and begins nothing else.
func TestPathsEndPauses(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	for n := range 5 {
		s.do(Opened{"b", 1})
		s.finished(1, true, "report retry")
		if n < 4 {
			s.wait(time.Second<<n, "start b")
		}
	}
	s.do(Paths{}, "report retry", "start b")
	s.do(Paths{}) // the attempt is on its way
	s.do(Opened{"b", 2})
	s.finished(2, true, "report retry")
	if st := s.Status()[0]; st.NextTry != s.now.Add(time.Second) {
		t.Errorf("the next pause is not the first: %+v", st)
	}
	s = newStory(t, site("b", policy.StartManual))
	s.do(Paths{})
}
