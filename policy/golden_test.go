package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cygnet/xfrm/alg"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestGolden parses each testdata/NAME.toml, or all files of testdata/NAME/, and compares the full list of problems and the canonical
// text with NAME.golden.
func TestGolden(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".toml")
		if !e.IsDir() && name == e.Name() || name == "fuzz" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", name+".golden")
			got := outcome(sourcesOf(t, filepath.Join("testdata", e.Name())))
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwanted:\n%s", got, want)
			}
		})
	}
}

func sourcesOf(t *testing.T, path string) (list []Source) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(path, "*.toml"))
	if files == nil {
		files = []string{path}
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Source{filepath.Base(f), data})
	}
	return list
}

func outcome(sources []Source) string {
	s, problems := Parse(sources, testFiles)
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s\n    [%s]\n", p, p.Code)
	}
	if s != nil {
		b.WriteString(s.Text())
	}
	return b.String()
}

// testSecret is the file system of secrets in these tests.
func testSecret(path string) (alg.Secret, error) {
	files := map[string]string{
		"secrets/good":   "correct horse battery staple\n",
		"secrets/short":  "sesame\n",
		"secrets/empty":  "\n",
		"secrets/hex":    "0x000102030405060708090a0b0c0d0e0f\n",
		"secrets/badhex": "0x0g\n",
		"secrets/quoted": "@gw-a.example : PSK \"correct horse battery staple\"\n",
		"secrets/lines":  "correct horse battery staple\n\n",
	}
	if text, ok := files[path]; ok {
		return alg.NewSecret([]byte(text)), nil
	}
	if path == "secrets/open" {
		return alg.Secret{}, &SecretError{"secret-readable", path + " has mode 0644, open to group or others, where 0600 is wanted", "chmod 0600 " + path}
	}
	return alg.Secret{}, fmt.Errorf("%s does not exist", path)
}

// testFiles is the file system of these tests.
var testFiles = Files{Secret: testSecret, Public: func(path string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", path)) }}

// secrets are files of secrets alone.
func secrets(read func(string) (alg.Secret, error)) Files { return Files{Secret: read} }
