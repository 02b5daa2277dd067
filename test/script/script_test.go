package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what happens below the ---- of each scenario, unless one of its expect lines fails")

// TestScenarios plays each file of testdata.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, file) })
	}
}

func play(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(filepath.Base(file), string(text))
	if err != nil {
		t.Fatal(err)
	}
	got, problems := s.Run()
	for _, p := range problems {
		t.Error(p)
	}
	switch {
	case got == s.Want:
	case *rewrite && len(problems) == 0:
		if err := os.WriteFile(file, []byte(s.File(got)), 0o644); err != nil {
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
