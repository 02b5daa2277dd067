package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Rule names, as findings and the test's own bad sources use them.
const (
	ruleImport  = "import"  // the import table of this module
	ruleModule  = "module"  // third-party modules
	ruleCore    = "core"    // imports of the pure core
	ruleClock   = "clock"   // looks at a clock
	ruleGo      = "go"      // starts a goroutine
	ruleChannel = "channel" // channels
	rulePrint   = "print"   // writes to the process's output
	ruleState   = "state"   // package-level mutable state
	ruleInit    = "init"    // init functions
	rulePanic   = "panic"   // bodies that were never written
)

// Finding is one breach.
type Finding struct {
	Pos  token.Position
	Rule string
	Text string // what was found and why it must not be
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Pos, f.Rule, f.Text) }

// Package is what the rules look at: the files of a package without its tests.
type Package struct {
	Path  string // without the module's
	Fset  *token.FileSet
	Files []*ast.File
}

// Check returns all breaches in a package, in the order of their positions.
func Check(p Package) []Finding {
	c := &check{p: p}
	inTest := p.Path == "test" || strings.HasPrefix(p.Path, "test/")
	for _, f := range p.Files {
		for _, imp := range f.Imports {
			c.imports(imp, inTest)
		}
		c.everywhere(f)
	}
	if core[p.Path] {
		for _, f := range p.Files {
			c.calls(f)
		}
		c.state()
	}
	slices.SortStableFunc(c.found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Pos.Filename, b.Pos.Filename), a.Pos.Offset-b.Pos.Offset)
	})
	return c.found
}

type check struct {
	p     Package
	found []Finding
}

func (c *check) report(at ast.Node, rule, format string, args ...any) {
	c.found = append(c.found, Finding{c.p.Fset.Position(at.Pos()), rule, fmt.Sprintf(format, args...)})
}

func (c *check) imports(imp *ast.ImportSpec, inTest bool) {
	path, err := strconv.Unquote(imp.Path.Value)
	if err != nil {
		return
	}
	if own, ok := strings.CutPrefix(path, module+"/"); ok {
		if !inTest {
			c.ownImport(imp, own)
		}
		return
	}
	for _, m := range onlyIn {
		if (path == m.path || strings.HasPrefix(path, m.path+"/")) && !inTest && !slices.Contains(m.packages, c.p.Path) {
			c.report(imp, ruleModule, "%s imports %s, which belongs in %s: %s", c.p.Path, path, strings.Join(m.packages, ", "), m.why)
		}
	}
	if core[c.p.Path] && !inCoreAfterAll[path] {
		c.coreImport(imp, path)
	}
}

func (c *check) ownImport(imp *ast.ImportSpec, own string) {
	_, known := mayImport[c.p.Path]
	switch {
	case !known:
		c.report(imp, ruleImport, "%s is not in the table: decide what it may import and add it to test/arch/table.go", c.p.Path)
	case strings.HasPrefix(own, "test/"):
		c.report(imp, ruleImport, "%s imports %s: the product does not depend on its tests", c.p.Path, own)
	case !allowed(c.p.Path)[own]:
		c.report(imp, ruleImport, "%s may not import %s: its place in the layers (test/arch/table.go) allows %s", c.p.Path, own, list(allowed(c.p.Path)))
	}
}

func list(set map[string]bool) string {
	if len(set) == 0 {
		return "nothing of this module"
	}
	var names []string
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (c *check) coreImport(imp *ast.ImportSpec, path string) {
	for _, n := range notInCore {
		if path == n.path || strings.HasSuffix(n.path, "/") && strings.HasPrefix(path, n.path) {
			c.report(imp, ruleCore, "%s is of the pure core and imports %s: %s", c.p.Path, path, n.why)
			return
		}
	}
}

// everywhere: rules for all code.
func (c *check) everywhere(f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			c.report(fn, ruleInit, "work at start that nobody called cannot be ordered, tested or left out")
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 || !isIdent(call.Fun, "panic") {
			return true
		}
		if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Value == `"contract"` {
			c.report(call, rulePanic, "the body was never written")
		}
		return true
	})
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name && id.Obj == nil
}

// calls: what the core must not do.
func (c *check) calls(f *ast.File) {
	names := importNames(f)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.report(n, ruleGo, "the core runs in its caller's goroutine: slow work is a Job for the daemon's pool")
		case *ast.ChanType:
			if !channelTypes[c.p.Path] {
				c.report(n, ruleChannel, "the core waits for nothing: what it wants is an action, what it gets an event")
			}
		case *ast.SendStmt, *ast.SelectStmt:
			c.report(n, ruleChannel, "the core waits for nothing: what it wants is an action, what it gets an event")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				c.report(n, ruleChannel, "the core waits for nothing: what it wants is an action, what it gets an event")
			}
		case *ast.SelectorExpr:
			c.selector(n, names)
		case *ast.CallExpr:
			if isIdent(n.Fun, "print") || isIdent(n.Fun, "println") {
				c.report(n, rulePrint, "the core has no output: it reports")
			}
		}
		return true
	})
}

func (c *check) selector(n *ast.SelectorExpr, names map[string]string) {
	id, ok := n.X.(*ast.Ident)
	if !ok || id.Obj != nil {
		return
	}
	switch path, name := names[id.Name], n.Sel.Name; {
	case path == "time" && slices.Contains(timeCalls, name):
		c.report(n, ruleClock, "time.%s looks at a clock: the core is told the time by Step, so that simulation can choose it", name)
	case path == "fmt" && (strings.HasPrefix(name, "Print") || strings.HasPrefix(name, "Scan")):
		c.report(n, rulePrint, "fmt.%s uses the process's terminal: the core reports", name)
	}
}

// importNames maps the names by which a file knows its imports to their paths.
func importNames(f *ast.File) map[string]string {
	names := make(map[string]string)
	for _, imp := range f.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = path
	}
	return names
}
