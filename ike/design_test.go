package ike

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of DESIGN.md anew from rules.go")

// TestDesign: the tables in DESIGN.md are those of rules.go.
func TestDesign(t *testing.T) {
	const begin, end = "<!-- tables -->\n", "<!-- end of tables -->\n"
	text, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("DESIGN.md has lost the marks around its tables")
	}
	want := head + begin + tables() + end + tail
	if *update {
		if err := os.WriteFile("DESIGN.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("DESIGN.md does not show rules.go: go test ./ike -run TestDesign -update")
	}
}

func tables() string {
	var b strings.Builder
	b.WriteString("\n| from | to | what it means |\n|---|---|---|\n")
	for _, tr := range transitions() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", tr.from, tr.to, tr.story)
	}
	b.WriteString("\n| message | required | optional | story |\n|---|---|---|---|\n")
	for _, r := range rules() {
		fmt.Fprintf(&b, "| %s | %v | %v | %s |\n", r.name, r.required, r.optional, r.story)
	}
	b.WriteString("\n")
	return b.String()
}
