package arch

import (
	"go/ast"
	"go/token"
)

// state finds package-level variables of a core package that change after they were declared: two machines would share them, and
// a second run in one process would not be the first again. Tables and errors that are only read are fine.
func (c *check) state() {
	vars := make(map[string]*ast.ValueSpec)
	for _, f := range c.p.Files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, s := range g.Specs {
					spec := s.(*ast.ValueSpec)
					for _, name := range spec.Names {
						vars[name.Name] = spec
					}
				}
			}
		}
	}
	delete(vars, "_")
	for _, f := range c.p.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			for _, e := range changed(n) {
				if id := root(e); id != nil && vars[id.Name] != nil && (id.Obj == nil || id.Obj.Decl == vars[id.Name]) {
					c.report(n, ruleState, "%s is a package-level variable that changes here: all machines would share it", id.Name)
				}
			}
			return true
		})
	}
}

// changed lists what a statement or expression changes, or lets others change by taking its address.
func changed(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if (isIdent(n.Fun, "delete") || isIdent(n.Fun, "clear")) && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

// root is the variable behind x, x.f, x[i] and *x.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}
