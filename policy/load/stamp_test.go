package load

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStamp: each kind of change is seen, and a change that is taken back is none.
func TestStamp(t *testing.T) {
	dir := good(t)
	s, _ := Dir(dir)
	first := StampOf(dir, s)
	conn, secret := filepath.Join(dir, "conn.d/site-b.toml"), filepath.Join(dir, "secrets/site-b")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen := func(what string, want bool) {
		t.Helper()
		if got := StampOf(dir, s) != first; got != want {
			t.Errorf("%s: changed %v", what, got)
		}
	}
	seen("nothing", false)
	write(conn, siteB+"# more\n")
	seen("more text", true)
	write(conn, strings.Replace(siteB, "10.1.", "10.9.", 1))
	seen("other text of the same length", true)
	write(conn, siteB)
	seen("taken back", false)
	write(filepath.Join(dir, "conn.d/site-c.toml"), "")
	seen("another file", true)
	os.Remove(filepath.Join(dir, "conn.d/site-c.toml"))
	seen("removed again", false)
	write(filepath.Join(dir, "conn.d/site-b.toml~"), "an editor's")
	seen("a file that is not read", false)
	for _, mode := range []os.FileMode{0o644, 0o600} { // what is refused for its mode is noticed
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
		seen(fmt.Sprintf("a secret of mode %v", mode), mode != 0o600)
	}
	if err := os.Chtimes(secret, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	seen("a secret of another time", true)
	os.Remove(secret)
	seen("no secret", true)
}
