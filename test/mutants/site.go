package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// site is a place where a bug can be planted: file[from:to] becomes text, in which %d stands for the mutant's number.
type site struct {
	file     string
	line     int
	key      string // tells the place apart from all others of the package without file and line: see knownFile
	from, to int
	old      string
	text     string
}

func (s site) String() string { return fmt.Sprintf("%s:%d: %s", filepath.Base(s.file), s.line, s.key) }

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 70 {
		s = s[:67] + "..."
	}
	return s
}

// set is a package with all its sites.
type set struct {
	target
	files   map[string][]byte
	sites   []site
	alike   map[string]int // sites by key: the second of a kind has a number
	planted []site
	bins    []string
}

// find parses a package and lists its sites.
func find(t target) (*set, error) {
	s := &set{target: t, files: map[string][]byte{}, alike: map[string]int{}}
	names, err := filepath.Glob(filepath.Join(t.dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s.files[name] = src
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		v := visitor{set: s, file: name, src: src, fset: fset}
		for _, d := range f.Decls {
			// A String method's words are for people: golden files, where they exist, guard them.
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && fn.Name.Name != "String" && fn.Name.Name != "Error" {
				v.function = functionName(fn)
				ast.Inspect(fn.Body, v.visit)
			}
		}
	}
	if len(s.sites) == 0 {
		return nil, fmt.Errorf("%s: nothing to mutate", t.dir)
	}
	return s, nil
}

// functionName is SA.Step for a method of *SA.
func functionName(fn *ast.FuncDecl) string {
	name := fn.Name.Name
	if fn.Recv == nil {
		return name
	}
	t := fn.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	if id, ok := t.(*ast.Ident); ok {
		name = id.Name + "." + name
	}
	return name
}

type visitor struct {
	*set
	file     string
	function string
	src      []byte
	fset     *token.FileSet
}

func (v visitor) text(n ast.Node) string {
	return string(v.src[v.fset.Position(n.Pos()).Offset:v.fset.Position(n.End()).Offset])
}

// add notes that the source between two places can become text; shown is the whole expression, for the reader.
func (v visitor) add(from, to token.Pos, kind, shown, new, text string) {
	p := v.fset.Position(from)
	key := fmt.Sprintf("%s %s: %s: %s", v.dir, v.function, kind, oneLine(shown))
	if new != "" {
		key += "  ->  " + oneLine(new)
	}
	if v.alike[key]++; v.alike[key] > 1 {
		key += fmt.Sprintf(" #%d", v.alike[key])
	}
	end := v.fset.Position(to).Offset
	v.sites = append(v.sites, site{file: v.file, line: p.Line, key: key, from: p.Offset, to: end, old: string(v.src[p.Offset:end]), text: text})
}

// moved are the comparisons that differ at the border.
var moved = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

func (v *visitor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt:
		for _, st := range n.List {
			v.statement(st)
		}
	case *ast.CaseClause:
		for _, st := range n.Body {
			v.statement(st)
		}
	case *ast.IfStmt:
		v.negate(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag != nil {
			break
		}
		for _, clause := range n.Body.List {
			for _, cond := range clause.(*ast.CaseClause).List {
				v.negate(cond)
			}
		}
	case *ast.BinaryExpr:
		v.binary(n)
	case *ast.CallExpr:
		v.swap(n)
	}
	return true
}

// negate turns a condition round: of an if, or of a case that stands for one.
func (v *visitor) negate(cond ast.Expr) {
	v.add(cond.Pos(), cond.End(), "negate", v.text(cond), "", "(("+escape(v.text(cond))+") != mutantIs(%d))")
}

// statement drops a statement that defines nothing.
func (v *visitor) statement(st ast.Stmt) {
	switch st := st.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt:
	case *ast.AssignStmt:
		if st.Tok == token.DEFINE {
			return
		}
	default:
		return
	}
	v.add(st.Pos(), st.End(), "drop", v.text(st), "", "if !mutantIs(%d) { "+escape(v.text(st))+" }")
}

func (v *visitor) binary(n *ast.BinaryExpr) {
	x, y := v.text(n.X), v.text(n.Y)
	if op, ok := moved[n.Op]; ok {
		v.add(n.Pos(), n.End(), "border", v.text(n), op, fmt.Sprintf("(!mutantIs(%%[1]d) && %s %s %s || mutantIs(%%[1]d) && %s %s %s)",
			escape(x), n.Op, escape(y), escape(x), op, escape(y)))
	}
	if lit, ok := n.Y.(*ast.BasicLit); ok && lit.Kind == token.INT && (n.Op == token.ADD || n.Op == token.SUB) {
		v.add(n.Pos(), n.End(), "plus one", v.text(n), "", "mutantEither(%d, "+escape(v.text(n))+"+1, "+escape(v.text(n))+")")
	}
}

// symmetric functions have arguments whose order says nothing.
var symmetric = []string{"max", "min", "in", "bytes.Equal", "slices.Equal"}

// swap exchanges two neighbouring arguments that have no side effects; the compiler says whether they are of one type.
func (v *visitor) swap(n *ast.CallExpr) {
	if slices.Contains(symmetric, v.text(n.Fun)) {
		return
	}
	for i := 0; i+1 < len(n.Args); i++ {
		a, b := n.Args[i], n.Args[i+1]
		if !plain(a) || !plain(b) || v.text(a) == v.text(b) {
			continue
		}
		ta, tb := v.text(a), v.text(b)
		between := string(v.src[v.fset.Position(a.End()).Offset:v.fset.Position(b.Pos()).Offset])
		v.add(a.Pos(), b.End(), "swap", v.text(n), ta+" <-> "+tb,
			"mutantEither(%[1]d, "+escape(tb)+", "+escape(ta)+")"+escape(between)+"mutantEither(%[1]d, "+escape(ta)+", "+escape(tb)+")")
	}
}

// plain expressions can be evaluated twice.
func plain(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name != "nil" && e.Name != "_"
	case *ast.SelectorExpr:
		return plain(e.X)
	}
	return false
}

func escape(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// apply writes the chosen sites of a file, which must not overlap, into its source. Mutant numbers start at first+1.
func apply(src []byte, sites []numbered) []byte {
	var b bytes.Buffer
	at := 0
	for _, s := range sites {
		b.Write(src[at:s.from])
		fmt.Fprintf(&b, s.text, s.number)
		at = s.to
	}
	b.Write(src[at:])
	return b.Bytes()
}

// numbered is a site that was chosen.
type numbered struct {
	site
	number int
}
