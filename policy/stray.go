package policy

import (
	"fmt"
	"slices"
	"strings"
)

// strays are tables such as [connection.siteb.child.lan] whose connection has nothing but children, by name, with the connections that may have been
// meant.
type strays map[string][]string

// findStrays looks through all files before any is read: what was meant may stand in a later one.
func (r *reader) findStrays(files []*table) {
	var whole, childrenOnly []string
	for _, t := range files {
		all, _ := t.rows["connection"].(map[string]any)
		for name, v := range all {
			rows, _ := v.(map[string]any)
			if _, has := rows["child"]; has && len(rows) == 1 {
				childrenOnly = append(childrenOnly, name)
			} else {
				whole = append(whole, name)
			}
		}
	}
	slices.Sort(whole)
	r.strays = strays{}
	for _, name := range childrenOnly {
		if near := Near(name, whole); !slices.Contains(whole, name) && len(near) > 0 {
			r.strays[name] = near
		}
	}
}

// stray reports a table of children whose connection is mistyped. What else the connection lacks is not worth a word then.
func (r *reader) stray(t *table, name string) bool {
	near, ok := r.strays[name]
	if !ok {
		return false
	}
	child := "lan"
	if all, _ := t.rows["child"].(map[string]any); len(all) > 0 {
		child = (&table{r: r, file: t.file, lines: t.lines, path: t.path + ".child", rows: all}).names()[0]
	}
	var meant []string
	for _, n := range near {
		meant = append(meant, fmt.Sprintf("[connection.%s.child.%s]", n, child))
	}
	t.problem("child."+child, "unknown-connection", "did you mean "+strings.Join(meant, " or ")+"?", "%s has a child and nothing else: there is no connection %s", t.path, name)
	r.children(t, &Connection{Name: name})
	return true
}

// awaits: the children of the connection stand in a stray table, which is told already.
func (s strays) awaits(name string) bool {
	for _, near := range s {
		if slices.Contains(near, name) {
			return true
		}
	}
	return false
}
