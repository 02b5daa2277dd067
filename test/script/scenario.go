// Package script plays scenarios of two gateways from readable text files: commands above a line "----", and below it everything that both did.
//
// A party is what cygnetd is without its goroutines: the production shard, directory and ledger over xfrmfake, in virtual time. Nothing is drawn
// by chance, so that a file gives the same text each time. The commands are explained in README.md; who knows RFC 7296 and not this code can read and write
// the files in testdata.
package script

import (
	"fmt"
	"slices"
	"strings"
)

// separator stands between the commands and what came of them.
const separator = "----"

// Scenario is a file.
type Scenario struct {
	Name  string
	Title string // the comment at the beginning; it cites what the scenario is about
	Steps []Step
	Want  string // below the separator
	head  string // the file up to and with the separator
}

// Step is one command.
type Step struct {
	Line  int
	Text  string
	Words []string
}

// Parse reads a scenario.
func Parse(name, text string) (*Scenario, error) {
	s := &Scenario{Name: name}
	commands, below, ok := strings.Cut(text, "\n"+separator+"\n")
	if !ok {
		commands, ok = strings.CutSuffix(strings.TrimRight(text, "\n"), "\n"+separator)
	}
	if !ok {
		commands = strings.TrimRight(text, "\n")
	}
	s.head, s.Want = commands+"\n"+separator+"\n", below
	for i, line := range strings.Split(commands, "\n") {
		comment := strings.HasPrefix(line, "#")
		if comment && len(s.Steps) == 0 {
			s.Title += strings.TrimPrefix(line, "#") + "\n"
		}
		line, _, _ = strings.Cut(line, " # ")
		if line = strings.TrimSpace(line); line == "" || comment {
			continue
		}
		s.Steps = append(s.Steps, Step{i + 1, line, strings.Fields(line)})
	}
	switch {
	case !strings.Contains(s.Title, "RFC "):
		return nil, fmt.Errorf("%s: begins with no comment that cites the RFC and section which the scenario is about", name)
	case len(s.Steps) == 0:
		return nil, fmt.Errorf("%s: has no command", name)
	}
	return s, nil
}

// File is the scenario with another outcome.
func (s *Scenario) File(got string) string { return s.head + got }

// Run plays the scenario. The text is what belongs below the separator; problems are what it must not be, whatever the file says there.
func (s *Scenario) Run() (text string, problems []string) {
	w := s.play(accident{}, s.Steps)
	return w.out.String(), w.problems
}

// Timeless: all that the scenario waits for is quiet, so that it may take longer, and no message is dealt with by hand.
func (s *Scenario) Timeless() bool {
	return !slices.ContainsFunc(s.Steps, func(x Step) bool { return x.Words[0] == "advance" || x.Words[0] == "hold" })
}

// Harmed plays the scenario while the nth message (from 1) meets with one more accident: it is lost, late or repeated. The story is another one then, but it must end
// as the scenario says. sent is how many messages there were: with a smaller one than n nothing happened.
func (s *Scenario) Harmed(what string, n int) (text string, sent int, problems []string) {
	steps := slices.DeleteFunc(slices.Clone(s.Steps), func(x Step) bool {
		return x.Words[0] == "expect" && (x.Words[1] == "seen" || x.Words[1] == "unseen")
	})
	w := s.play(accident{what, n}, steps)
	return w.out.String(), w.link.sent, w.problems
}

func (s *Scenario) play(a accident, steps []Step) *world {
	w := newWorld()
	w.link.accident = a
	for _, step := range steps {
		if err := w.do(step.Words, step.Text); err != nil {
			w.problem("%s:%d: %s: %v", s.Name, step.Line, step.Text, err)
			return w
		}
		for _, e := range w.failed {
			w.problem("%s:%d: %s: %s", s.Name, step.Line, step.Text, e)
		}
		w.failed = nil
	}
	for _, missing := range s.unexpected(w) {
		w.problem("%s: ends without \"expect %s ...\"", s.Name, missing)
	}
	w.summary()
	w.always()
	return w
}

// unexpected lists what the last expect lines say nothing about: the IKE SA and each child. A scenario states how it ends.
func (s *Scenario) unexpected(w *world) (missing []string) {
	stated := make(map[string]bool)
	for i := len(s.Steps) - 1; i >= 0 && s.Steps[i].Words[0] == "expect"; i-- {
		if len(s.Steps[i].Words) > 1 {
			stated[s.Steps[i].Words[1]] = true
		}
	}
	for _, subject := range append([]string{"ike"}, w.children...) {
		if !stated[subject] {
			missing = append(missing, subject)
		}
	}
	return missing
}
