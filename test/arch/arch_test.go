package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

func TestTree(t *testing.T) {
	packages, err := Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 10 {
		t.Fatalf("only %d packages were found below %s", len(packages), repository)
	}
	for _, p := range packages {
		for _, f := range Check(p) {
			t.Error(f)
		}
	}
}

// The core emits nothing in the order of a map: the same seed must give the same run.
func TestOrder(t *testing.T) {
	imp, err := Exports(repository)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if !core[p.Path] {
			continue
		}
		p, err := Built(p)
		if err != nil {
			t.Fatal(err)
		}
		found, err := CheckOrder(p, imp)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Error(f)
		}
	}
}

func TestOrderIsSeenToFail(t *testing.T) {
	const bad = `package bad

type Actions struct{ List []int }

func (a *Actions) Add(x int) { a.List = append(a.List, x) }

type sa struct{ out *Actions }

func (s *sa) report(x int) { s.out.Add(x) }
func (s *sa) tell(x int)   { s.report(x) }

func direct(a *Actions, m map[int]bool) {
	for x := range m {
		a.Add(x) // line 14
	}
}

func through(s *sa, m map[int]bool) {
	for x := range m {
		s.tell(x) // line 20
	}
}

func pointer(out *[]int, m map[int]bool) {
	for x := range m {
		*out = append(*out, x) // line 26
	}
}

func fine(a *Actions, m map[int]bool, l []int) {
	n := 0
	for range m {
		n++
	}
	for _, x := range l {
		a.Add(x)
	}
}
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "bad.go", bad, 0)
	if err != nil {
		t.Fatal(err)
	}
	found, err := CheckOrder(Package{Path: "ike", Fset: fset, Files: []*ast.File{f}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, f := range found {
		lines = append(lines, f.Pos.Line)
	}
	if !slices.Equal(lines, []int{14, 20, 26}) {
		t.Errorf("found in lines %v: %v", lines, found)
	}
}

func TestRoot(t *testing.T) {
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	gitignore, err := os.ReadFile(filepath.Join(repository, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	stray, missing := Root(names, string(gitignore))
	for _, name := range stray {
		t.Errorf("%s stands in the root: it holds exactly %s, so that one look shows the whole", name, strings.Join(topLevel, " "))
	}
	for _, name := range missing {
		t.Errorf("%s is missing in the root", name)
	}
}

func TestRootIsSeenToFail(t *testing.T) {
	names := append(slices.Clone(topLevel[1:]), ".ci", "bin", "pkg")
	stray, missing := Root(names, "/bin/\n*.test\n")
	if !slices.Equal(stray, []string{"pkg"}) || !slices.Equal(missing, topLevel[:1]) {
		t.Errorf("stray %v, missing %v", stray, missing)
	}
}

// The table must not allow a circle, nor name a package that it does not know, nor let the core reach the rim.
func TestTable(t *testing.T) {
	for _, pkg := range slices.Sorted(maps.Keys(mayImport)) {
		all := allowed(pkg)
		if all[pkg] {
			t.Errorf("%s may import itself", pkg)
		}
		for dep := range all {
			if _, ok := mayImport[dep]; !ok {
				t.Errorf("%s may import %s, which has no line of its own", pkg, dep)
			}
			if core[pkg] && !core[dep] {
				t.Errorf("%s is of the pure core and may import %s, which is not", pkg, dep)
			}
		}
	}
	for pkg := range core {
		if _, ok := mayImport[pkg]; !ok {
			t.Errorf("%s of the core has no line in the table", pkg)
		}
	}
}

var (
	asLine   = regexp.MustCompile(`(?m)^// as: (\S+)$`)
	wantLine = regexp.MustCompile(`// want ([\w ]+)$`)
)

// Each file of testdata breaks rules: on the lines that say "want" and no others. Its first line says which package it stands for.
func TestRulesAreSeenToFail(t *testing.T) {
	files, err := filepath.Glob("testdata/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad sources: %v", err)
	}
	broken := make(map[string]bool)
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		as := asLine.FindStringSubmatch(string(src))
		if as == nil {
			t.Fatalf("%s does not say which package it stands for", name)
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for i, line := range strings.Split(string(src), "\n") {
			if m := wantLine.FindStringSubmatch(line); m != nil {
				for _, rule := range strings.Fields(m[1]) {
					want = append(want, fmt.Sprintf("%s:%d: %s", name, i+1, rule))
				}
			}
		}
		p := Package{Path: as[1], Fset: fset}
		p.Files = append(p.Files, f)
		for _, found := range Check(p) {
			got = append(got, fmt.Sprintf("%s:%d: %s", found.Pos.Filename, found.Pos.Line, found.Rule))
			broken[found.Rule] = true
			if len(found.Text) < 20 {
				t.Errorf("%v does not say why", found)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(slices.Compact(got), want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	for _, rule := range []string{ruleImport, ruleModule, ruleCore, ruleClock, ruleGo, ruleChannel, rulePrint, ruleState, ruleInit, rulePanic} {
		if !broken[rule] {
			t.Errorf("no bad source breaks the rule %q", rule)
		}
	}
}
