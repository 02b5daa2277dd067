package arch

import (
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Load parses all packages below root, without tests and testdata.
func Load(root string) ([]Package, error) {
	fset := token.NewFileSet()
	byPath := make(map[string]*Package)
	var order []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if byPath[dir] == nil {
			byPath[dir] = &Package{Path: dir, Fset: fset}
			order = append(order, dir)
		}
		byPath[dir].Files = append(byPath[dir].Files, f)
		return nil
	})
	packages := make([]Package, len(order))
	for i, dir := range order {
		packages[i] = *byPath[dir]
	}
	return packages, err
}

// Built is the package without the files that an ordinary build for this machine leaves out: those type-check together.
func Built(p Package) (Package, error) {
	all := p.Files
	p.Files = nil
	for _, f := range all {
		in, err := build.Default.MatchFile(filepath.Split(p.Fset.Position(f.Package).Filename))
		if err != nil {
			return p, err
		}
		if in {
			p.Files = append(p.Files, f)
		}
	}
	return p, nil
}

// Root compares the names in the repository's root with what belongs there. What .gitignore keeps out of the root ("/bin/") does not count.
func Root(names []string, gitignore string) (stray, missing []string) {
	ignored := func(name string) bool {
		return slices.ContainsFunc(strings.Split(gitignore, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "/") && strings.Trim(line, "/") == name
		})
	}
	for _, name := range names {
		if !strings.HasPrefix(name, ".") && !slices.Contains(topLevel, name) && !ignored(name) {
			stray = append(stray, name)
		}
	}
	for _, name := range topLevel {
		if !slices.Contains(names, name) {
			missing = append(missing, name)
		}
	}
	return stray, missing
}
