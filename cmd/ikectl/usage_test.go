package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cygnet/ike/control"
)

// TestUsage: wrong usage is told with what to write instead, and in JSON wherever --json stands.
func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, summary, hint string }{
		{"up site-b --timeout 5", `invalid value "5" for flag -timeout: a time has a unit: write 5s`, "see: ikectl help"},
		{"down site-b --timeout soon", `invalid value "soon" for flag -timeout: write a number with its unit, such as 30s or 5m`, "see: ikectl help"},
		{"stauts", `there is no verb "stauts"`, "did you mean status?"},
		{"help dwon", `there is no verb "dwon"`, "did you mean down?"},
		{"flush", `there is no verb "flush"`, "it is done without a daemon: cygnetd --flush"},
		{"xyzzy", `there is no verb "xyzzy"`, "see: ikectl help"},
		{"up site-b --nonsense", "flag provided but not defined: -nonsense", "see: ikectl help"},
		{"-x", `no verb in "-x"`, "see: ikectl help"},
	} {
		out, errOut, exit := ikectl(context.Background(), strings.Fields(c.args)...)
		if exit != 2 || out != "" || errOut != "ikectl: "+c.summary+"\n  hint: "+c.hint+"\n" {
			t.Errorf("%s: exit %d, out %q, err %q", c.args, exit, out, errOut)
		}
		for _, args := range [][]string{append([]string{"--json"}, strings.Fields(c.args)...), append(strings.Fields(c.args), "--json")} {
			out, errOut, exit := ikectl(context.Background(), args...)
			var f control.Failure
			if err := json.Unmarshal([]byte(out), &f); err != nil || exit != 2 || errOut != "" || f.Code != "usage" || f.Hint != c.hint {
				t.Errorf("%q: exit %d, %v, out %q, err %q", args, exit, err, out, errOut)
			}
		}
	}
}

func TestVersionFlag(t *testing.T) {
	for _, args := range []string{"--version", "-version", "--socket /nowhere/s --version", "version"} {
		out, errOut, exit := ikectl(context.Background(), append(strings.Fields(args), "--socket", "/nowhere/s")...)
		if exit != 0 || out != "ikectl "+control.Version()+"\n" || errOut != "" {
			t.Errorf("%s: exit %d, out %q, err %q", args, exit, out, errOut)
		}
	}
}

// TestTimeInJSON: also the line of an end that no daemon sent has a time.
func TestTimeInJSON(t *testing.T) {
	out, _, _ := ikectl(context.Background(), "up", "site-b", "--json", "--socket", filepath.Join(t.TempDir(), "none"))
	var l control.Line
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		t.Fatal(err)
	}
	if at, err := time.Parse(time.RFC3339, l.Time); err != nil || time.Since(at) > time.Minute {
		t.Errorf("time %q: %v", l.Time, err)
	}
}

// TestBriefReason: the head line has the reason of the data plane's choice, -v its causes.
func TestBriefReason(t *testing.T) {
	for _, c := range []struct{ why, want, verbose string }{
		{"the kernel has no ESP (is module esp4 missing?): protocol not supported (the kernel says: not found)", "the kernel has no ESP", "  data plane: the kernel has no ESP (is module esp4"},
		{"configured", "configured", ""},
		{"the kernel accepts ESP SAs", "the kernel accepts ESP SAs", ""},
	} {
		for _, verbose := range []bool{false, true} {
			var out strings.Builder
			(&command{out: &out, verbose: verbose}).printStatus(&control.Status{Version: "1", Dataplane: "userspace", Why: c.why})
			want := "cygnetd 1, data plane userspace (" + c.want + ")\n"
			if !strings.HasPrefix(out.String(), want) || strings.Contains(out.String(), "  data plane: ") != (verbose && c.verbose != "") || verbose && !strings.Contains(out.String(), c.verbose) {
				t.Errorf("%s, -v %v:\n%s", c.why, verbose, out.String())
			}
		}
	}
}
