package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"cygnet/ike/control"
)

func cygnetd(args ...string) (out, errOut string, exit int) {
	var o, e bytes.Buffer
	exit = run(args, &o, &e)
	return o.String(), e.String(), exit
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args     string
		exit     int
		out, err string
	}{
		{"--version", 0, "cygnetd " + control.Version() + "\n", ""},
		{"--help", 0, "", "--"},
		{"--nonsense", 2, "", "not defined: -nonsense"},
		{"start", 2, "", `["start"] is too much`},
		{"--log-level loud", 2, "", "use error, warn, info, debug or trace"},
		{"--log-level fatal", 2, "", "use error, warn, info, debug or trace"},
		{"--tun cygnet-office-berlin", 2, "", "--tun cygnet-office-berlin: the name has 20 characters, an interface's name at most 15"},
		{"--tun cyg%d", 2, "", "not a name that an interface can have"},
		{"--json", 2, "", "--json goes with --flush alone"},
	} {
		out, errOut, exit := cygnetd(strings.Fields(c.args)...)
		if c.args == "--help" {
			c.err = "-config folder"
		}
		if exit != c.exit || out != c.out || !strings.Contains(errOut, c.err) {
			t.Errorf("%s: exit %d, out %q, err %q", c.args, exit, out, errOut)
		}
	}
}

// TestAllProblemsAreTold: a configuration with two mistakes ends the start with both of them.
func TestAllProblemsAreTold(t *testing.T) {
	if checkCapabilities() != nil {
		t.Skip(checkCapabilities())
	}
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, "conn.d"), 0o755)
	os.WriteFile(filepath.Join(dir, "conn.d/a.toml"), []byte("[connection.a]\nlocl = { address = \"192.0.2.1\" }\nstart = \"bot\"\n"), 0o644)
	_, errOut, exit := cygnetd("--config", dir, "--socket", filepath.Join(dir, "s"))
	if exit != 1 || !strings.Contains(errOut, "a.toml:2: error: ") || !strings.Contains(errOut, "a.toml:3: error: ") || !strings.Contains(errOut, "was not accepted") {
		t.Errorf("exit %d, err\n%s", exit, errOut)
	}
}

// TestHarden looks at what the kernel says afterwards.
func TestHarden(t *testing.T) {
	if err := harden(); err != nil {
		t.Fatal(err)
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil || l.Cur != 0 || l.Max != 0 {
		t.Errorf("RLIMIT_CORE %+v, %v", l, err)
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || n != 0 {
		t.Errorf("dumpable %d, %v", n, err)
	}
}

// TestLogLines: an entry is one line, whatever a peer put into it, with its hint.
func TestLogLines(t *testing.T) {
	var b bytes.Buffer
	log, _, err := newLog(&b, "debug")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	log.WithTime(at).WithFields(logrus.Fields{"code": "no-answer", "child": "lan", "hint": "see x"}).Warn("site-b: evil\n2026-01-02 forged\x1b[31m")
	want := "2026-01-02T03:04:05.678Z warning site-b: evil\uFFFD2026-01-02 forged\uFFFD[31m [child=lan code=no-answer] hint: see x\n"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
	b.Reset()
	log.WithTime(at).WithField("hint", "see x").Warn("text")
	if want := "2026-01-02T03:04:05.678Z warning text; hint: see x\n"; b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}
