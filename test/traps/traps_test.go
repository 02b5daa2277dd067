// Package traps counts what is under test of the mistakes that implementations of IKEv2 and ESP make: traps.txt by the standards' sections, cves.txt by what
// was published. Each line that binds has a test that cites it, or says what it waits for.
package traps

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// entry is a line of a list.
type entry struct {
	ids    []string // "7296 53"; "2013-2052"
	binds  bool     // it needs a test or a reason
	see    []string
	reason string // of "later" or "not"
	tests  []string
}

// list is one file with its tests, which cite it by names with a prefix.
type list struct {
	entries []*entry
	byID    map[string]*entry
}

var (
	sectionLine = regexp.MustCompile(`^\[(\w+)\] \S`)
	trapLine    = regexp.MustCompile(`^(\d+) (MUST|SHOULD|MAY|text|practice) \S`)
	cveLine     = regexp.MustCompile(`^((?:\d{4}|iked)-[\d-]+(?:,\d{4}-\d+)*) \S`)
	trapName    = regexp.MustCompile(`^TestTrap_([0-9A-Z]+)_0*(\d+)_[A-Z]\w*$`)
	cveName     = regexp.MustCompile(`^TestCVE_(\d{4})_(\d+)_[A-Z]\w*$`)
)

// parse reads either list; what is wrong with it comes back as text.
func parse(text string) (l list, wrong []string) {
	l.byID = make(map[string]*entry)
	section := ""
	for number, line := range strings.Split(text, "\n") {
		complain := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("line %d: %s", number+1, fmt.Sprintf(format, args...)))
		}
		parts := strings.Split(line, " | ")
		e := &entry{}
		switch head := parts[0]; {
		case strings.TrimSpace(head) == "" || head[0] == '#':
			continue
		case sectionLine.MatchString(head):
			section = sectionLine.FindStringSubmatch(head)[1]
			continue
		case trapLine.MatchString(head) && section != "":
			m := trapLine.FindStringSubmatch(head)
			e.ids, e.binds = []string{section + " " + m[1]}, m[2] == "MUST" || m[2] == "SHOULD"
		case cveLine.MatchString(head) && section == "":
			e.ids, e.binds = strings.Split(cveLine.FindStringSubmatch(head)[1], ","), true
		default:
			complain("cannot be read: %q", line)
			continue
		}
		for _, part := range parts[1:] {
			switch word, rest, _ := strings.Cut(part, ": "); {
			case word == "see" && len(strings.Fields(rest)) > 0:
				e.see = append(e.see, strings.Fields(rest)...)
			case (word == "later" || word == "not") && rest != "" && e.reason == "":
				e.reason = word + ": " + rest
			default:
				complain("%q is neither see, later nor not, or says nothing", part)
			}
		}
		for _, id := range e.ids {
			if l.byID[id] != nil {
				complain("%s stands twice", id)
			}
			l.byID[id] = e
		}
		l.entries = append(l.entries, e)
	}
	return l, wrong
}

// cited is what a test's name cites: a trap by its number, a published mistake by its own, nothing by another name. False: the name has the prefix and not the form.
func cited(test string) (id string, trap, ok bool) {
	if m := trapName.FindStringSubmatch(test); m != nil {
		return m[1] + " " + m[2], true, true
	}
	if m := cveName.FindStringSubmatch(test); m != nil {
		return m[1] + "-" + m[2], false, true
	}
	return "", false, !strings.HasPrefix(test, "TestTrap_") && !strings.HasPrefix(test, "TestCVE_")
}

// check holds the lists against the tests that there are and says what is wrong.
func check(traps, cves list, tests map[string]bool) (wrong []string) {
	names := make([]string, 0, len(tests))
	for name := range tests {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		id, trap, ok := cited(name)
		from := map[bool]list{true: traps, false: cves}[trap]
		switch e := from.byID[id]; {
		case !ok:
			wrong = append(wrong, name+" is not of the form TestTrap_<RFC>_<number>_<Word> or TestCVE_<year>_<number>_<Word>")
		case id == "":
		case e == nil:
			wrong = append(wrong, fmt.Sprintf("%s cites %s, which no list knows", name, id))
		default:
			e.tests = append(e.tests, name)
			if tests[name] {
				wrong = append(wrong, name+" may skip itself: then nothing shows that the trap is avoided")
			}
		}
	}
	for _, e := range slices.Concat(traps.entries, cves.entries) {
		for _, name := range e.see {
			if _, ok := tests[name]; !ok {
				wrong = append(wrong, fmt.Sprintf("%s is said to be covered by %s, which does not exist", e.ids, name))
			}
		}
		if e.binds && len(e.tests)+len(e.see) == 0 && e.reason == "" {
			wrong = append(wrong, fmt.Sprintf("%s has neither a test nor a reason", e.ids))
		}
	}
	return wrong
}

// count is one line for people.
func (l list) count(what string) string {
	tested, partly, later, free := 0, 0, 0, 0
	for _, e := range l.entries {
		switch has := len(e.tests)+len(e.see) > 0; {
		case has && e.reason != "":
			partly++
		case has:
			tested++
		case e.reason != "":
			later++
		default:
			free++
		}
	}
	return fmt.Sprintf("%s: %d lines: %d tested, %d tested in part, %d later or not, %d neither (and not binding)", what, len(l.entries), tested, partly, later, free)
}

// testsOf lists the test and fuzz functions of the tree, and whether they call Skip themselves.
func testsOf(root string) (map[string]bool, error) {
	tests := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				tests[fn.Name.Name] = tests[fn.Name.Name] || skips(fn)
			}
		}
		return nil
	})
	return tests, err
}

func skips(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Skip" || s.Sel.Name == "Skipf" || s.Sel.Name == "SkipNow") {
			found = true
		}
		return true
	})
	return found
}

func read(t *testing.T, name string) list {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	l, wrong := parse(string(text))
	for _, w := range wrong {
		t.Errorf("%s: %s", name, w)
	}
	return l
}

func TestEveryTrap(t *testing.T) {
	traps, cves := read(t, "traps.txt"), read(t, "cves.txt")
	tests, err := testsOf(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) < 100 || len(traps.entries) < 100 || len(cves.entries) < 40 {
		t.Fatalf("only %d tests, %d traps, %d published mistakes were found", len(tests), len(traps.entries), len(cves.entries))
	}
	for _, w := range check(traps, cves, tests) {
		t.Error(w)
	}
	t.Log(traps.count("traps"))
	t.Log(cves.count("published"))
}

// TestIsSeenToFail: each way in which the lists and the tests can disagree is told.
func TestIsSeenToFail(t *testing.T) {
	const good = "[7296] x\n1 MUST a gist\n2 MAY another\n3 SHOULD see it | see: TestOther\n4 MUST of a later feature | later: EAP\n"
	const goodCVE = "# x\n2013-1,2014-2 gist\niked-2022-11 gist | not: why\n"
	tests := map[string]bool{"TestTrap_7296_1_Word": false, "TestOther": true, "TestCVE_2014_2_Word": false}
	for _, c := range []struct{ traps, cves, test, want string }{
		{good, goodCVE, "", ""},
		{good, goodCVE, "TestTrap_7296_02_More", ""},
		{good, goodCVE, "TestTrap_7296_5_Word", "7296 5, which no list knows"},
		{good, goodCVE, "TestTrap_4303_1_Word", "4303 1, which no list knows"},
		{good, goodCVE, "TestCVE_2013_2_Word", "2013-2, which no list knows"},
		{good, goodCVE, "TestTrap_7296_Word", "is not of the form"},
		{good, goodCVE, "TestCVE_2014_2", "is not of the form"},
		{good, goodCVE, "skips TestTrap_7296_1_Skips", "may skip itself"},
		{good + "5 MUST nothing\n", goodCVE, "", "[7296 5] has neither"},
		{good + "5 SHOULD nothing\n", goodCVE, "", "[7296 5] has neither"},
		{good, goodCVE + "2020-1 nothing\n", "", "[2020-1] has neither"},
		{good + "5 MUST x | see: TestNone\n", goodCVE, "", "TestNone, which does not exist"},
		{good + "5 MUST x | later: \n", goodCVE, "", "says nothing"},
		{good + "5 MUST x | perhaps: so\n", goodCVE, "", "is neither"},
		{good + "4 MUST again | later: EAP\n", goodCVE, "", "stands twice"},
		{good + "5 may x\n", goodCVE, "", "cannot be read"},
		{"1 MUST before a section\n", "", "", "cannot be read"},
	} {
		traps, wrong := parse(c.traps)
		cves, more := parse(c.cves)
		wrong = append(wrong, more...)
		all := map[string]bool{}
		for name, skips := range tests {
			all[name] = skips
		}
		if name, ok := strings.CutPrefix(c.test, "skips "); c.test != "" {
			all[name] = ok
		}
		wrong = append(wrong, check(traps, cves, all)...)
		if text := strings.Join(wrong, "\n"); c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%q: %q, want %q", c.traps+c.cves+c.test, text, c.want)
		}
	}
}
