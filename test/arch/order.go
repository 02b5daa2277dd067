package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
)

// ruleOrder: actions in the order of a map are another order at each run.
const ruleOrder = "order"

// Exports finds the compiled export data of all packages that the module needs, by the go command: type checking reads it.
func Exports(root string) (types.Importer, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export: %w", err)
	}
	files := make(map[string]string)
	for _, l := range bytes.Split(out, []byte("\n")) {
		if path, file, ok := strings.Cut(string(l), " "); ok && file != "" {
			files[path] = file
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	}), nil
}

// CheckOrder finds loops over a map in which, directly or by a function of the package, an action is emitted: something is added to an Actions, or
// appended to a list that the caller gave by pointer.
func CheckOrder(p Package, imp types.Importer) ([]Finding, error) {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{Importer: imp}).Check(module+"/"+p.Path, p.Fset, p.Files, info); err != nil {
		return nil, err
	}
	o := order{info: info, emits: map[types.Object]bool{}}
	for more := true; more; { // until no further function is found to emit
		more = false
		for _, f := range p.Files {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && fn.Body != nil && !o.emits[info.Defs[fn.Name]] && o.emitting(fn.Body) != nil {
					o.emits[info.Defs[fn.Name]], more = true, true
				}
			}
		}
	}
	c := &check{p: p}
	for _, f := range p.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			loop, ok := n.(*ast.RangeStmt)
			if !ok {
				return true
			}
			if _, isMap := info.Types[loop.X].Type.Underlying().(*types.Map); isMap {
				if at := o.emitting(loop.Body); at != nil {
					c.report(at, ruleOrder, "an action is emitted while ranging over a map: the order would be another at each run; range over sorted keys")
				}
			}
			return true
		})
	}
	return c.found, nil
}

type order struct {
	info  *types.Info
	emits map[types.Object]bool // functions and methods of the package
}

// emitting returns the first call in n that emits an action, or nil.
func (o *order) emitting(n ast.Node) (at ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || at != nil {
			return at == nil
		}
		switch fn := call.Fun.(type) {
		case *ast.Ident:
			if o.emits[o.info.Uses[fn]] || fn.Name == "append" && byPointer(call) {
				at = call
			}
		case *ast.SelectorExpr:
			if o.emits[o.info.Uses[fn.Sel]] || fn.Sel.Name == "Add" && named(o.info.Types[fn.X].Type, "Actions") {
				at = call
			}
		}
		return at == nil
	})
	return at
}

// byPointer: append(*list, ...).
func byPointer(call *ast.CallExpr) bool {
	if len(call.Args) == 0 {
		return false
	}
	_, ok := call.Args[0].(*ast.StarExpr)
	return ok
}

// named reports whether t, or what it points to, is a type of that name.
func named(t types.Type, name string) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	return ok && n.Obj().Name() == name
}
