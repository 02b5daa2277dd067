package load

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cygnet/policy"
)

const siteB = `[connection.site-b]
local  = { address = "192.0.2.1",  id = "gw-a.example" }
remote = { address = "198.51.100.7", id = "gw-b.example" }
psk    = { file = "secrets/site-b" }
[connection.site-b.child.lan]
local  = ["10.1.0.0/16"]
remote = ["10.2.0.0/16"]
`

// folder writes files, those under secrets/ with mode 0600.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path, mode := filepath.Join(dir, name), os.FileMode(0o644)
		if strings.HasPrefix(name, "secrets/") {
			mode = 0o600
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func good(t *testing.T) string {
	return folder(t, map[string]string{"conn.d/site-b.toml": siteB, "cygnet.toml": "[daemon]\nlog = \"debug\"\n", "secrets/site-b": "correct horse battery staple\n"})
}

func TestDir(t *testing.T) {
	s, problems := Dir(good(t))
	if len(problems) != 0 || s == nil {
		t.Fatal(problems)
	}
	c := s.ByName("site-b")
	if s.Daemon.LogLevel != "debug" || c.File != "conn.d/site-b.toml" || string(c.PSK.Bytes()) != "correct horse battery staple" {
		t.Errorf("%s in %s, daemon %+v", c.Name, c.File, s.Daemon)
	}
}

func TestDirWithoutConnections(t *testing.T) {
	s, problems := Dir(folder(t, map[string]string{"README": "nothing yet"}))
	if s == nil || len(problems) != 1 || problems[0].Code != "no-connection" || !problems[0].Warning {
		t.Errorf("%v, %v", s, problems)
	}
	if hint := noFolder(DefaultDir); !strings.Contains(hint, "ikectl check DIR") || !strings.Contains(hint, "configs/site-to-site") {
		t.Error(hint)
	}
	s, problems = Dir(filepath.Join(t.TempDir(), "nowhere"))
	if s != nil || len(problems) != 1 || problems[0].Code != "unreadable" || !strings.Contains(problems[0].Text, "nowhere: no such file") {
		t.Errorf("%v, %v", s, problems)
	}
}

// TestDirFaults breaks a good folder in one way each.
func TestDirFaults(t *testing.T) {
	for _, c := range []struct {
		name, code, text, hint string
		warning                bool
		damage                 func(t *testing.T, dir string) error
	}{
		{"secret open to others", "secret-readable", "secrets/site-b has mode 0644, open to group or others, where 0600 is wanted", "chmod 0600 ", false,
			func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, "secrets/site-b"), 0o644) }},
		{"secret writable by group", "secret-readable", "has mode 0620", "chmod 0600 ", false,
			func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, "secrets/site-b"), 0o620) }},
		{"secret absent", "secret-missing", "secrets/site-b does not exist", "openssl rand", false,
			func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "secrets/site-b")) }},
		{"secret is a link", "secret-link", "secrets/site-b is a symbolic link", "name the file itself", false,
			func(_ *testing.T, dir string) error {
				path := filepath.Join(dir, "secrets/site-b")
				return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
			}},
		{"secret is a folder", "secret-not-file", "is a folder where a regular file is wanted", "regular file", false,
			func(_ *testing.T, dir string) error {
				path := filepath.Join(dir, "secrets/site-b")
				return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
			}},
		{"secret is a pipe", "secret-not-file", "is a pipe where a regular file is wanted", "regular file", false,
			func(_ *testing.T, dir string) error {
				path := filepath.Join(dir, "secrets/site-b")
				return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
			}},
		{"secret too large", "secret-large", "more than 65536 octets", "32 random octets", false,
			func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "secrets/site-b"), 1<<30) }},
		{"secret of another user", "secret-owner", "belongs to user 65534 where root (0)", "chown root ", false,
			func(t *testing.T, dir string) error {
				if os.Geteuid() != 0 {
					t.Skip("giving a file away: not root")
				}
				return os.Chown(filepath.Join(dir, "secrets/site-b"), 65534, 0)
			}},
		{"configuration writable by everyone", "config-writable", "mode 0666", "chmod 644 ", false,
			func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, "conn.d/site-b.toml"), 0o666) }},
		{"folder writable by group", "config-writable", "mode 0775 of ", "chmod go-w ", true,
			func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o775) }},
		{"conn.d writable by everyone", "config-writable", "/conn.d lets others than its owner", "/conn.d", true,
			func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, "conn.d"), 0o757) }},
		{"folder of secrets absent", "secret-missing", "secrets/site-b does not exist", "install -d -m 0700 ", false,
			func(_ *testing.T, dir string) error { return os.RemoveAll(filepath.Join(dir, "secrets")) }},
		{"configuration is a pipe", "unreadable", "it is a pipe", "", false,
			func(_ *testing.T, dir string) error {
				return syscall.Mkfifo(filepath.Join(dir, "conn.d/x.toml"), 0o600)
			}},
		{"configuration too large", "too-large", "more than 1048576 octets", "split", false,
			func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "cygnet.toml"), 1<<30) }},
		{"conn.d is a file", "unreadable", "conn.d: not a directory", "", false,
			func(_ *testing.T, dir string) error {
				return errors.Join(os.RemoveAll(filepath.Join(dir, "conn.d")), os.WriteFile(filepath.Join(dir, "conn.d"), nil, 0o600))
			}},
		{"other file in conn.d", "not-read", "does not end in .toml", "rename it", true,
			func(_ *testing.T, dir string) error {
				return os.WriteFile(filepath.Join(dir, "conn.d/site-c.tml"), nil, 0o600)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := good(t)
			if err := c.damage(t, dir); err != nil {
				t.Fatal(err)
			}
			s, problems := Dir(dir)
			if (s != nil) != c.warning {
				t.Errorf("snapshot %v", s)
			}
			if len(problems) != 1 {
				t.Fatalf("problems %v", problems)
			}
			p := problems[0]
			if p.Code != c.code || p.Warning != c.warning || !strings.Contains(p.Text, c.text) || !strings.Contains(p.Hint, c.hint) {
				t.Errorf("[%s] %s, wanted [%s] %s; %s", p.Code, p, c.code, c.text, c.hint)
			}
			if c.name == "secret absent" && strings.Contains(p.Hint, "install") {
				t.Errorf("the folder is there: %s", p.Hint)
			}
			if strings.HasPrefix(c.code, "secret") && (p.File != "conn.d/site-b.toml" || p.Line != 4) {
				t.Errorf("told at %s:%d", p.File, p.Line)
			}
		})
	}
}

// TestMakeSecret runs the command of the hint, without and with the folder: afterwards the secret is accepted and the folder's mode is as it was.
func TestMakeSecret(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(t.TempDir(), "se crets")
	for _, name := range []string{"first", "second"} {
		path := filepath.Join(dir, name)
		if out, err := exec.Command("sh", "-c", makeSecret(path)).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", makeSecret(path), err, out)
		}
		if s, err := Secret(path); err != nil || len(s.Bytes()) < 40 {
			t.Error(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != map[string]os.FileMode{"first": 0o700, "second": 0o711}[name] {
			t.Error(info.Mode(), err)
		}
		os.Chmod(dir, 0o711)
	}
}

// TestEditorsFiles: what editors leave behind is neither read nor told.
func TestEditorsFiles(t *testing.T) {
	dir := good(t)
	for _, name := range []string{"conn.d/.site-b.toml.swp", "conn.d/site-b.toml~", "conn.d/.#site-b.toml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("["), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, problems := Dir(dir); s == nil || len(problems) != 0 {
		t.Error(problems)
	}
}

// TestShippedConfigurations: what we ship is accepted without a warning, and the two gateways are mirror images.
func TestShippedConfigurations(t *testing.T) {
	var gw [2]*policy.Connection
	for i, side := range []struct{ folder, name string }{{"gw-a", "site-b"}, {"gw-b", "site-a"}} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("../../configs/site-to-site", side.folder))); err != nil {
			t.Fatal(err)
		}
		os.Mkdir(filepath.Join(dir, "secrets"), 0o700)
		os.WriteFile(filepath.Join(dir, "secrets", side.name), []byte("correct horse battery staple\n"), 0o600)
		s, problems := Dir(dir)
		if len(problems) != 0 {
			t.Fatal(problems)
		}
		gw[i] = s.ByName(side.name)
	}
	a, b := gw[0], gw[1]
	if a.Local.Address != b.Remote.Address || a.Remote.Address != b.Local.Address || !a.Local.ID.Equal(b.Remote.ID) || !a.Remote.ID.Equal(b.Local.ID) {
		t.Errorf("%s\n%s", a.Text(), b.Text())
	}
	if fmt.Sprint(a.Children[0].Local, a.Children[0].Remote) != fmt.Sprint(b.Children[0].Remote, b.Children[0].Local) {
		t.Errorf("%s\n%s", a.Children[0].Text(), b.Children[0].Text())
	}
	if a.Children[0].Name != "lan" || a.Start != b.Start || a.Drop != b.Drop {
		t.Error(a.Text(), b.Text())
	}
}

// TestReference: the reference names every key with its default, so it means what the shortest configuration means.
func TestReference(t *testing.T) {
	reference, err := os.ReadFile("../../configs/reference.toml")
	if err != nil {
		t.Fatal(err)
	}
	key := map[string]string{"secrets/site-b": "correct horse battery staple\n"}
	key["cygnet.toml"] = string(reference)
	long, problems := Dir(folder(t, key))
	if len(problems) != 0 {
		t.Fatal(problems)
	}
	key["cygnet.toml"] = siteB
	short, problems := Dir(folder(t, key))
	if len(problems) != 0 {
		t.Fatal(problems)
	}
	if long.Text() != short.Text() {
		t.Errorf("the reference means\n%s\nthe defaults are\n%s", long.Text(), short.Text())
	}
	for _, word := range []string{"dataplane", "log", "port", "natt_port", "mtu", "cookie_threshold", "local", "remote", "address", "id", "psk", "file", "start", "when_down",
		"encapsulation", "liveness", "idle", "tries", "timeout", "ike", "esp", "pfs", "replay_window", "copy_dscp"} {
		if !strings.Contains(string(reference), word+" =") {
			t.Errorf("the reference does not show the key %s", word)
		}
	}
}
