package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	rewrite = flag.Bool("rewrite", false, "write what happens below the ---- of each scenario, unless one of its expect lines fails")
	every   = flag.Int("every", 16, "of the scenarios with one more accident, play each nth")
)

// scenarios reads all files of testdata.
func scenarios(t *testing.T) (list []*Scenario) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(filepath.Base(file), string(text))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// TestScenarios plays each file of testdata.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(strings.TrimSuffix(s.Name, ".txt"), func(t *testing.T) { play(t, s) })
	}
}

func play(t *testing.T, s *Scenario) {
	got, problems := s.Run()
	for _, p := range problems {
		t.Error(p)
	}
	switch {
	case got == s.Want:
	case *rewrite && len(problems) == 0:
		if err := os.WriteFile(filepath.Join("testdata", s.Name), []byte(s.File(got)), 0o644); err != nil {
			t.Fatal(err)
		}
	case len(problems) > 0:
		t.Logf("what happened:\n%s", got)
	default:
		t.Errorf("%s\nIf what happens now is right: go test ./test/script -rewrite", difference(s.Want, got))
	}
}

// difference shows the first line that is another one, with those around it.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < min(len(w), len(g)) && w[at] == g[at] {
		at++
	}
	part := func(lines []string) string {
		return strings.Join(lines[min(max(at-3, 0), len(lines)):min(at+4, len(lines))], "\n\t")
	}
	return "the file says\n\t" + part(w) + "\nand what happens is\n\t" + part(g)
}

// TestHarmed plays scenarios with one message more that is lost, late or repeated: each of them with -every 1, else a sample. Whatever the story is then, it ends as
// it should.
func TestHarmed(t *testing.T) {
	turn := 0
	for _, s := range scenarios(t) {
		if !s.Timeless() {
			continue
		}
		_, sent, _ := s.Harmed("", 0)
		for n := 1; n <= sent; n++ {
			for _, what := range []string{"lose", "late", "repeat"} {
				if turn++; turn%*every != 0 {
					continue
				}
				if got, _, problems := s.Harmed(what, n); len(problems) > 0 {
					t.Errorf("%s message %d of %s: %s\n%s", what, n, s.Name, strings.Join(problems, "\n"), got)
				}
			}
		}
	}
}

// TestWrongScenarios: what a writer gets wrong, or what ends wrongly, is told with the line.
func TestWrongScenarios(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"# RFC 7296.\nestablished\nexpect ike 1\n", `ends without "expect lan ..."`},
		{"# RFC 7296.\nestablished\nexpect ike 2\nexpect lan 1\n", "x.txt:3: expect ike 2: a has 1 IKE SAs: I1"},
		{"# RFC 7296.\nestablished\nexpect ike 1\nexpect lan 0\n", "x.txt:4: expect lan 0: there are 1 pairs of lan"},
		{"# RFC 7296.\nup a\nexpect ike 1\nexpect lan 1\n", "x.txt:3: expect ike 1: a: I1 is opening"},
		{"# RFC 7296.\nestablished\nforget b lan\nadvance 1s\nexpect ike 1\nexpect lan 0\n", "left over: a has outbound b1 of lan"},
		{"# RFC 7296.\nestablished\nforget b lan\nadvance 1s\nexpect passes a lan\nexpect ike 1\nexpect lan 0\n", "in b1, which b does not have"},
		{"# RFC 7296.\nestablished\nforget b ike\nadvance 1s\nexpect ike 1\nexpect lan 0\n", "a has I1, and b has not"},
		{"# RFC 7296.\nestablished\nexpect seen CREATE_CHILD_SA\nexpect ike 1\nexpect lan 1\n", "it did not happen"},
		{"# RFC 7296.\nestablished\nexpect unseen a->b IKE_AUTH IDi\nexpect ike 1\nexpect lan 1\n", "it happened"},
		{"# RFC 7296.\nestablished\nlose a CREATE_CHILD_SA\nwait\nexpect ike 1\nexpect lan 1\n", "no message came for: lose a"},
		{"# RFC 7296.\nestablished\nhold\nrekey a lan\nexpect ike 1\nexpect lan 1\n", "end with release"},
		{"# RFC 7296.\nestablished\nrekey c lan\n", `x.txt:3: rekey c lan: "c" is no party`},
		{"# RFC 7296.\nestablished\nrekey a wan\n", `no child "wan"`},
		{"# RFC 7296.\nestablished\njuggle a lan\n", "no such command"},
		{"# RFC 7296.\nestablished\nnat a\n", "before the first command that acts"},
	} {
		s, err := Parse("x.txt", c.text)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, problems := s.Run(); !strings.Contains(strings.Join(problems, "\n"), c.want) {
			t.Errorf("%q gives %q, want %q", c.text, problems, c.want)
		}
	}
	if _, err := Parse("x.txt", "established\n"); err == nil {
		t.Error("a scenario without a reference is accepted")
	}
}
