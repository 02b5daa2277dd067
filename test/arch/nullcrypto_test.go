package arch

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The build that neither encrypts nor authenticates is chosen by a build tag in one place, xfrm/esp, and made by one program, test/bench. A Makefile, script or
// package that knows the tag could let it out.
func TestNullCryptoStaysInTheBenchmark(t *testing.T) {
	mayKnow := []string{"test/arch/nullcrypto_test.go", "test/bench/contestant.go", "xfrm/esp/null.go", "xfrm/esp/real.go", "xfrm/userspace/userspace.go"}
	var know []string
	err := fs.WalkDir(os.DirFS(repository), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		if b, err := os.ReadFile(filepath.Join(repository, name)); err != nil || !bytes.Contains(b, []byte("nullcrypto")) {
			return err
		}
		know = append(know, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range know {
		if !slices.Contains(mayKnow, name) {
			t.Errorf("%s knows the build tag nullcrypto, which is for %s", name, strings.Join(mayKnow, ", "))
		}
	}
	for name, constraint := range map[string]string{"xfrm/esp/null.go": "//go:build nullcrypto\n", "xfrm/esp/real.go": "//go:build !nullcrypto\n"} {
		if b, err := os.ReadFile(filepath.Join(repository, name)); err != nil || !strings.HasPrefix(string(b), constraint) {
			t.Errorf("%s does not begin with %q: %v", name, constraint, err)
		}
	}
}
