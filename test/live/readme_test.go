package live

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cygnet/test/rig"
)

const root = "../.."

// readme returns what stands in README.md between two texts, the first included.
func readme(t *testing.T, from, to string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(b), from)
	inside, _, ok2 := strings.Cut(after, to)
	if !ok || !ok2 {
		t.Fatalf("README.md has no text from %q to %q", from, to)
	}
	return from + inside
}

// TestReadmeInstall follows "Use it" word for word, in another root: make install, the examples, the secret, check.
func TestReadmeInstall(t *testing.T) {
	for _, tool := range []string{"make", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dest := t.TempDir()
	script := readme(t, "make install", "```")
	script = strings.Replace(script, "make install", "make -s install BIN="+bin+" DESTDIR="+dest, 1)
	script = strings.NewReplacer("/etc/cygnet", dest+"/etc/cygnet", "/usr/share", dest+"/usr/share", "ikectl check", dest+"/usr/bin/ikectl check "+dest+"/etc/cygnet").Replace(script)
	run := exec.Command("sh", "-e", "-c", script)
	run.Dir = root
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	contains(t, "ikectl check", string(out), []string{": OK, 1 connection", "lan: 10.1.0.0/16 <-> 10.2.0.0/16"})
	if strings.Contains(string(out), "warning") {
		t.Errorf("a warning:\n%s", out)
	}
	for _, f := range []string{"usr/sbin/cygnetd", "usr/lib/systemd/system/cygnetd.service", "usr/share/doc/cygnet/examples/reference.toml"} {
		if _, err := os.Stat(filepath.Join(dest, f)); err != nil {
			t.Error(err)
		}
	}
	// Installed once more, a configuration stays as it is.
	conn := filepath.Join(dest, "etc/cygnet/conn.d/site-b.toml")
	if err := os.WriteFile(conn, []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	again := exec.Command("make", "-s", "install", "BIN="+bin, "DESTDIR="+dest)
	again.Dir = root
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if b, err := os.ReadFile(conn); err != nil || string(b) != "# mine\n" {
		t.Errorf("make install changed %s: %q, %v", conn, b, err)
	}
	// Uninstalled, nothing but the configuration is left.
	gone := exec.Command("make", "-s", "uninstall", "DESTDIR="+dest)
	gone.Dir = root
	if out, err := gone.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	filepath.WalkDir(dest, func(path string, f fs.DirEntry, err error) error {
		if err == nil && !f.IsDir() && !strings.HasPrefix(path, filepath.Join(dest, "etc/cygnet")) {
			t.Errorf("make uninstall left %s", path)
		}
		return err
	})
	if _, err := os.Stat(conn); err != nil {
		t.Errorf("make uninstall took the configuration: %v", err)
	}
}

// TestReadmeExample: the connection that README shows is the one in the examples.
func TestReadmeExample(t *testing.T) {
	plain := func(s string) (lines []string) {
		for l := range strings.Lines(s) {
			l, _, _ = strings.Cut(l, "#")
			if l = strings.Join(strings.Fields(l), " "); l != "" {
				lines = append(lines, l)
			}
		}
		return lines
	}
	shown := strings.Join(plain(readme(t, "# /etc/cygnet/conn.d/site-b.toml\n", "```")), "\n")
	b, err := os.ReadFile(filepath.Join(root, "configs/site-to-site/gw-a/conn.d/site-b.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if shipped := strings.Join(plain(string(b)), "\n"); shown != shipped {
		t.Errorf("README shows\n%s\n\nthe example is\n%s", shown, shipped)
	}
}

// TestReadmeTranscript: "ikectl up" prints what README shows, with the examples as they are.
func TestReadmeTranscript(t *testing.T) {
	topo := topology(t)
	start := func(ns rig.NS, example, secret string) *rig.Cygnet {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "configs/site-to-site", example))); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "cygnet.toml")); err != nil {
			t.Fatal(err)
		}
		if err := (rig.Config{"secrets/" + secret: "correct horse battery staple\n", "cygnet.toml": "[daemon]\ndataplane = \"userspace\"\n"}).Write(dir); err != nil {
			t.Fatal(err)
		}
		c, err := rig.StartCygnet(ns, bin, dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Signal(9) })
		return c
	}
	start(topo.B.Gateway, "gw-b", "site-a")
	out, code := start(topo.A.Gateway, "gw-a", "site-b").Ikectl("up", "site-b")
	took := regexp.MustCompile(`up in \d+ ms`)
	want := strings.TrimPrefix(readme(t, "$ ikectl up site-b\n", "```"), "$ ikectl up site-b\n")
	if got, want := took.ReplaceAllString(out, "up in N ms"), took.ReplaceAllString(want, "up in N ms"); code != 0 || got != want {
		t.Errorf("exit %d, printed\n%s\nREADME shows\n%s", code, got, want)
	}
}
