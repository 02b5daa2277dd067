package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cygnet/ike/control"
)

// fake is a cygnetd with a site-b that comes up, a "slow" that never does and a "bad" that fails.
type fake struct{ stop context.CancelFunc }

func (f *fake) Up(ctx context.Context, name, child string, emit func(control.Line) error) *control.Failure {
	say := func(code, text string) {
		emit(control.Line{Time: "2026-01-02T03:04:05.678Z", Connection: name, Code: code, Text: text, Detail: "detail of " + code})
	}
	say("sent", "IKE_SA_INIT sent to 198.51.100.7:500")
	switch name {
	case "site-b":
	case "slow":
		if f.stop != nil {
			f.stop()
		}
		<-ctx.Done()
		return control.Fail(control.CodeTimeout, "no answer from 198.51.100.7:500 yet", "")
	case "bad":
		return control.Fail("auth-failed", "the peer refused us\x1b[31m", "compare the keys")
	default:
		return control.Fail(control.CodeUnknownConnection, fmt.Sprintf("there is no connection %q", name), "did you mean site-b?")
	}
	say("chosen", "peer chose AES-GCM-256, SHA2-256, MODP-2048; no NAT on the path")
	say("authenticated", "peer proved gw-b.example (PSK)")
	emit(control.Line{Time: "2026-01-02T03:04:05.678Z", Connection: name, Child: child, Code: "up",
		Text: "up in 41 ms: 10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel", Done: true})
	return nil
}

func (f *fake) Down(_ context.Context, name, child string, emit func(control.Line) error) *control.Failure {
	emit(control.Line{Time: "2026-01-02T03:04:05.678Z", Connection: name, Child: child, Code: "down", Text: "down", Done: true})
	return nil
}

func (f *fake) Rekey(_ context.Context, name, child string, ike bool, emit func(control.Line) error) *control.Failure {
	if name != "site-b" {
		return control.Fail("not-up", name+" is not up, so it has no keys to replace", "ikectl up "+name)
	}
	line := control.Line{Time: "2026-01-02T03:04:05.678Z", Connection: name, Child: child, Code: "sent", Text: "CREATE_CHILD_SA sent to 198.51.100.7:500"}
	emit(line)
	line.Code, line.Text, line.Done = "rekeyed", "lan rekeyed in 12 ms: 10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel", true
	if ike {
		line.Text = "IKE SA rekeyed in 14 ms: AES-GCM-256, SHA2-256, X25519"
	}
	emit(line)
	return nil
}

func (f *fake) Status(context.Context) (*control.Status, *control.Failure) {
	return exampleStatus(), nil
}

func (f *fake) Monitor(ctx context.Context, emit func(control.Line) error) *control.Failure {
	if f.stop != nil {
		f.stop()
		<-ctx.Done()
		return control.Fail("stopping", "cygnetd stops", "")
	}
	emit(control.Line{Time: "2026-01-02T03:04:05.678Z", Connection: "site-b", SPI: "0123456789abcdef", Code: "ike-up", Text: "IKE SA up"})
	emit(control.Line{Time: "2026-01-02T03:04:05.679Z", Connection: "site-b", SPI: "0123456789abcdef", Code: "child-up", Child: "lan", Text: "lan: up", Detail: "ESP SPIs c0000001 (in), c0000002 (out)"})
	emit(control.Line{Time: "2026-01-02T03:04:05.679Z", Code: "gap", Text: "7 lines were lost here: they came faster than they were read"})
	return control.Fail("stopping", "cygnetd stops", "")
}

func (f *fake) Reload(_ context.Context, emit func(control.Line) error) *control.Failure {
	emit(control.Line{Time: "2026-01-02T03:04:05.678Z", Code: "reloaded", Text: "2 connections; 1 changed: site-b", Done: true})
	return nil
}

func exampleStatus() *control.Status {
	return &control.Status{Version: "0.1.0", Dataplane: "userspace", Why: "this kernel has no ESP", Config: "the configuration on disk was changed after it was loaded", Counters: map[string]uint64{"packets": 12, "cookies": 3},
		Connections: []control.Connection{
			{Name: "site-b", State: "up", Wanted: "up", Start: "boot", WhenDown: "drop", Traffic: control.Traffic{BytesIn: 1 << 30, BytesOut: 1 << 31, PacketsIn: 1 << 20, PacketsOut: 1 << 21}, IKE: []control.IKESA{{
				SPIi: "0123456789abcdef", SPIr: "fedcba9876543210", Phase: "established", Initiator: true,
				Local: "192.0.2.1:500", Remote: "198.51.100.7:4500", LocalID: "gw-a.example", RemoteID: "gw-b.example", Proof: "certificate of CN=gw-b, issued by CN=Sub, ECDSA with SHA2-256",
				Suite: "AES-GCM-256, SHA2-256, MODP-2048", NAT: "remote", Fragmentation: "used", FragmentSize: 576, Seconds: 3725, RekeyIn: 10000, ReauthIn: 20000,
				Children: []control.Child{{Name: "lan", State: "up", SPIIn: "c0000001", SPIOut: "c0000002", Suite: "AES-GCM-256", Encap: "udp",
					Local: []string{"10.1.0.0/16"}, Remote: []string{"10.2.0.0/16"}, BytesIn: 84, BytesOut: 1 << 21, PacketsIn: 1, PacketsOut: 1500,
					ReplayDrops: 2, LastIn: 3, Seconds: 65, RekeyIn: 3000}},
			}}},
			{Name: "site-c", State: "connecting", Wanted: "up", Start: "boot", WhenDown: "drop", Peer: "203.0.113.9",
				LastErr: "no answer from 203.0.113.9:500", ErrAge: 75, NextTry: "in 8s",
				IKE: []control.IKESA{{SPIi: "0123456789abcdef", SPIr: "0000000000000000", Phase: "opening", Initiator: true, Local: "192.0.2.1:500", Remote: "203.0.113.9:500",
					LocalID: "gw-a.example", RemoteID: "gw-c.example", NAT: "none", Seconds: 4, Sent: 3, Tries: 6}}},
			{Name: "site-d", State: "up", Wanted: "down", Start: "manual", Missing: []string{"voice", "video"},
				Refused:      []control.RefusedCaller{{Seconds: 120, Text: "203.0.113.5:500 does not prove gw-d.example"}},
				NotUp:        []control.ChildDown{{Name: "voice", LastErr: "the peer does not accept our selectors", ErrAge: 12, NextTry: "in 9s"}},
				RefusedChild: []control.RefusedCaller{{Seconds: 30, Text: "the peer wants 10.9.0.0/16"}},
				IKE: []control.IKESA{{SPIi: "0123456789abcdef", SPIr: "fedcba9876543210", Phase: "established", Local: "192.0.2.1:4500", Remote: "203.0.113.5:4500",
					LocalID: "gw-a.example", RemoteID: "gw-d.example", NAT: "unknown", Seconds: 60, Children: []control.Child{{Name: "lan", State: "up",
						SPIIn: "c0000003", SPIOut: "c0000004", Suite: "AES-GCM-256", Encap: "none", Local: []string{"10.1.0.0/16"}, Remote: []string{"10.4.0.0/16"},
						LastIn: -1, Seconds: 60, LastErr: "could not be rekeyed"}}}}},
			{Name: "site-e", State: "down", Wanted: "down", Start: "manual", Peer: "any", LastEnd: "closed by the peer", Closed: true},
		}}
}

const statusText = `cygnetd 0.1.0, data plane userspace (this kernel has no ESP)
  note: the configuration on disk was changed after it was loaded

site-b: up (start boot, drop when down)
  IKE SA      established for 1h2m5s, initiator
    local     192.0.2.1:500      gw-a.example
    remote    198.51.100.7:4500  gw-b.example
    proof     certificate of CN=gw-b, issued by CN=Sub, ECDSA with SHA2-256
    suite     AES-GCM-256, SHA2-256, MODP-2048
    SPIs      0123456789abcdef initiator, fedcba9876543210 responder
    NAT       remote
    fragment  in use, at most 576 octets
    rekey     in 2h46m40s, authentication anew in 5h33m20s
  child       lan up for 1m5s
    local     10.1.0.0/16
    remote    10.2.0.0/16
    suite     ESP AES-GCM-256 in UDP
    in        c0000001     84 B     1 packets; dropped: 2 replayed, 0 damaged
    out       c0000002  2.0 MiB  1500 packets
    last in   3s ago
    rekey     in 50m0s
  traffic     in 1.0 GiB, 1048576 packets, out 2.0 GiB, 2097152 packets, under all keys
`

const otherSites = `
site-c: connecting (wanted up, start boot, drop when down)
  error       1m15s ago: no answer from 203.0.113.9:500
  next try    in 8s
  IKE SA      opening for 4s, initiator
    local     192.0.2.1:500    gw-a.example
    remote    203.0.113.9:500  gw-c.example
    SPIs      0123456789abcdef initiator, 0000000000000000 responder
    NAT       none
    waits     no answer (3 of 6)

site-d: up (begun by the peer, start manual)
  refused     2m0s ago: 203.0.113.5:500 does not prove gw-d.example
  IKE SA      established for 1m0s, responder
    local     192.0.2.1:4500    gw-a.example
    remote    203.0.113.5:4500  gw-d.example
    SPIs      0123456789abcdef initiator, fedcba9876543210 responder
    NAT       none, or the peer's
  child       lan up for 1m0s
    local     10.1.0.0/16
    remote    10.4.0.0/16
    suite     ESP AES-GCM-256
    in        c0000003  0 B  0 packets
    out       c0000004  0 B  0 packets
    last in   never
    error     could not be rekeyed
  not up      child voice, video
    voice     12s ago: the peer does not accept our selectors; next try in 9s
    refused   30s ago, the peer's request: the peer wants 10.9.0.0/16

site-e: down (start manual)
  peer        any
  last        closed by the peer
  closed      taken down here, so that the peer is refused too; to let it in: ikectl up site-e
`

const upText = `site-b: IKE_SA_INIT sent to 198.51.100.7:500
site-b: peer chose AES-GCM-256, SHA2-256, MODP-2048; no NAT on the path
site-b: peer proved gw-b.example (PSK)
site-b: up in 41 ms: 10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel
`

const rekeyText = `site-b: CREATE_CHILD_SA sent to 198.51.100.7:500
site-b: lan rekeyed in 12 ms: 10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel
`

// start serves the fake on a socket.
func start(t *testing.T, f *fake) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	s, err := control.Listen(path, f)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { s.Serve(); close(done) }()
	t.Cleanup(func() { s.Close(); <-done })
	return path
}

func ikectl(ctx context.Context, args ...string) (out, errOut string, exit int) {
	var o, e bytes.Buffer
	exit = run(ctx, args, &o, &e)
	return o.String(), e.String(), exit
}

func TestVerbs(t *testing.T) {
	socket := start(t, &fake{})
	sent := "IKE_SA_INIT sent to 198.51.100.7:500\n"
	for _, c := range []struct {
		args     string
		exit     int
		out, err string
	}{
		{"up site-b", 0, upText, ""},
		{"up bad", 1, "bad: " + sent, "bad: the peer refused us\uFFFD[31m\n  hint: compare the keys\n"},
		{"up site-d", 1, "site-d: " + sent, "site-d: there is no connection \"site-d\"\n  hint: did you mean site-b?\n"},
		{"up slow --timeout 50ms", 4, "slow: " + sent, "slow: gave up waiting after 50ms: no answer from 198.51.100.7:500 yet\n  hint: cygnetd goes on; see: ikectl status slow\n"},
		{"up", 2, "", "ikectl: the name of a connection is missing\n  hint: see: ikectl help\n"},
		{"up a b", 2, "", "ikectl: one name of a connection at a time, not \"a b\"\n  hint: see: ikectl help\n"},
		{"up site-b --timeout 0s", 2, "", "ikectl: --timeout must be longer than nothing, not 0s\n  hint: see: ikectl help\n"},
		{"up site-b --nonsense", 2, "", "ikectl: flag provided but not defined: -nonsense\n  hint: see: ikectl help\n"},
		{"down site-b", 0, "site-b: down\n", ""},
		{"down site-b --child lan", 0, "site-b/lan: down\n", ""},
		{"rekey site-b", 0, rekeyText, ""},
		{"rekey site-b --child lan", 0, rekeyText, ""},
		{"rekey site-b --ike", 0, "site-b: CREATE_CHILD_SA sent to 198.51.100.7:500\nsite-b: IKE SA rekeyed in 14 ms: AES-GCM-256, SHA2-256, X25519\n", ""},
		{"rekey site-c", 1, "", "site-c: site-c is not up, so it has no keys to replace\n  hint: ikectl up site-c\n"},
		{"rekey site-b --ike --child lan", 2, "", "ikectl: --ike and --child cannot go together: the one is for the IKE SA, the other for a child\n  hint: see: ikectl help\n"},
		{"rekey", 2, "", "ikectl: the name of a connection is missing\n  hint: see: ikectl help\n"},
		{"status", 0, statusText + otherSites, ""},
		{"status site-b", 0, statusText, ""},
		{"status -v site-b", 0, statusText + "\ncounters\n  cookies  3\n  packets  12\n", ""},
		{"status sit-c", 1, "", "ikectl: there is no connection \"sit-c\"\n  hint: did you mean site-c?\n"},
		{"reload", 0, "cygnetd: 2 connections; 1 changed: site-b\n", ""},
		{"reload now", 2, "", "ikectl: \"now\" is too much here\n  hint: see: ikectl help\n"},
		{"monitor", 1, "03:04:05.678 site-b 0123456789abcdef: IKE SA up\n03:04:05.679 site-b 0123456789abcdef: lan: up; ESP SPIs c0000001 (in), c0000002 (out)\n03:04:05.679 cygnetd: 7 lines were lost here: they came faster than they were read\n", "ikectl: cygnetd stops\n"},
		{"version", 0, "ikectl " + control.Version() + "\ncygnetd 0.1.0\n", ""},
		{"frobnicate", 2, "", "ikectl: there is no verb \"frobnicate\"\n  hint: see: ikectl help\n"},
		{"-x", 2, "", "ikectl: no verb in \"--socket SOCKET -x\"\n  hint: see: ikectl help\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			out, errOut, exit := ikectl(ctx, append([]string{"--socket", socket}, strings.Fields(c.args)...)...)
			errOut = strings.ReplaceAll(errOut, socket, "SOCKET")
			if exit != c.exit || out != c.out || errOut != c.err {
				t.Errorf("exit %d, want %d\n--- out\n%s--- want\n%s--- err\n%s--- want\n%s", exit, c.exit, out, c.out, errOut, c.err)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	socket := start(t, &fake{})
	stamp := `{"time":"2026-01-02T03:04:05.678Z",`
	for _, c := range []struct {
		args string
		exit int
		out  string // a suffix; the last line of a failure has a time of its own
	}{
		{"up site-b", 0, stamp + `"connection":"site-b","code":"up","text":"up in 41 ms: 10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel","done":true,"ok":true}` + "\n"},
		{"up bad", 1, `"code":"auth-failed","text":"the peer refused us\u001b[31m","hint":"compare the keys","done":true}` + "\n"},
		{"up slow --timeout 50ms", 4, `"connection":"slow","code":"timeout","text":"no answer from 198.51.100.7:500 yet","done":true}` + "\n"},
		{"down site-b", 0, stamp + `"connection":"site-b","code":"down","text":"down","done":true,"ok":true}` + "\n"},
		{"rekey site-b --child lan", 0, stamp + `"connection":"site-b","child":"lan","code":"rekeyed","text":"lan rekeyed in 12 ms: 10.1.0.0/16 <-> 10.2.0.0/16, ESP AES-GCM-256, kernel","done":true,"ok":true}` + "\n"},
		{"monitor", 1, `"code":"stopping","text":"cygnetd stops","done":true}` + "\n"},
		{"reload", 0, stamp + `"code":"reloaded","text":"2 connections; 1 changed: site-b","done":true,"ok":true}` + "\n"},
		{"version", 0, `{"ikectl":"` + control.Version() + `","cygnetd":"0.1.0"}` + "\n"},
		{"status nothing", 1, `{"code":"unknown-connection","summary":"there is no connection \"nothing\"","hint":"see: ikectl status"}` + "\n"},
		{"up", 2, `{"code":"usage","summary":"the name of a connection is missing","hint":"see: ikectl help"}` + "\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			out, errOut, exit := ikectl(context.Background(), append(strings.Fields(c.args), "--json", "--socket", socket)...)
			if exit != c.exit || !strings.HasSuffix(out, c.out) || errOut != "" {
				t.Errorf("exit %d, want %d\n--- out\n%s--- want at its end\n%s--- err\n%s", exit, c.exit, out, c.out, errOut)
			}
			for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
				if !json.Valid([]byte(l)) {
					t.Errorf("not JSON: %s", l)
				}
			}
		})
	}
	out, _, _ := ikectl(context.Background(), "status", "--json", "--socket", socket)
	var got control.Status
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(*exampleStatus()) {
		t.Errorf("status lost something on the way: %s", out)
	}
}

func TestNoDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none")
	for _, verb := range []string{"up site-b", "down site-b", "rekey site-b", "status", "monitor", "reload"} {
		out, errOut, exit := ikectl(context.Background(), append(strings.Fields(verb), "--socket", socket)...)
		if exit != 3 || out != "" || !strings.Contains(errOut, "cygnetd is not running") || !strings.Contains(errOut, "hint: start it") {
			t.Errorf("%s: exit %d, out %q, err %q", verb, exit, out, errOut)
		}
		out, _, exit = ikectl(context.Background(), append(strings.Fields(verb), "--json", "--socket", socket)...)
		if exit != 3 || !strings.Contains(out, `"code":"no-daemon"`) {
			t.Errorf("%s --json: exit %d, out %q", verb, exit, out)
		}
	}
	if out, _, exit := ikectl(context.Background(), "version", "--socket", socket); exit != 0 || out != "ikectl "+control.Version()+"\n" {
		t.Errorf("version: exit %d, out %q", exit, out)
	}
}

// TestInterrupt: Ctrl-C while up waits leaves the daemon at work and says so.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	socket := start(t, &fake{stop: cancel})
	_, errOut, exit := ikectl(ctx, "up", "slow", "--socket", socket)
	if exit != 130 || !strings.Contains(errOut, "cygnetd goes on with it") || !strings.Contains(errOut, "ikectl down slow") {
		t.Errorf("exit %d, err %q", exit, errOut)
	}
}

// TestInterruptMonitor: the usual end of monitor needs no words, and has the exit code of every interrupted verb.
func TestInterruptMonitor(t *testing.T) {
	for _, flag := range []string{"-v", "--json"} {
		ctx, cancel := context.WithCancel(context.Background())
		socket := start(t, &fake{stop: cancel})
		if out, errOut, exit := ikectl(ctx, "monitor", flag, "--socket", socket); exit != 130 || out != "" || errOut != "" {
			t.Errorf("%s: exit %d, out %q, err %q", flag, exit, out, errOut)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"", "help", "--help", "-h"} {
		out, errOut, exit := ikectl(context.Background(), strings.Fields(args)...)
		if exit != 0 || errOut != "" || !strings.Contains(out, "usage: ikectl VERB") {
			t.Errorf("%q: exit %d, err %q, out %q", args, exit, errOut, out)
		}
	}
	all, _, _ := ikectl(context.Background(), "help")
	for _, v := range verbs() {
		if !strings.Contains(all, "  "+v.name+" ") {
			t.Errorf("help does not name %s", v.name)
		}
		for _, args := range [][]string{{v.name, "--help"}, {"help", v.name}} {
			if out, _, exit := ikectl(context.Background(), args...); exit != 0 || !strings.Contains(out, "usage: ikectl "+v.name) {
				t.Errorf("%q: exit %d, out %q", args, exit, out)
			}
		}
	}
}

const goodConfig = `[connection.site-b]
local  = { address = "192.0.2.1",  id = "gw-a.example" }
remote = { address = "198.51.100.7", id = "gw-b.example" }
psk    = { file = "secrets/site-b" }
start  = "boot"

[connection.site-b.child.lan]
local  = ["10.1.0.0/16"]
remote = ["10.2.0.0/16"]
`

// configDir writes a configuration folder with one connection.
func configDir(t *testing.T, conn string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"conn.d/site-b.toml": conn, "secrets/site-b": "a secret of enough letters, drawn by dice 4711\n"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheckGood(t *testing.T) {
	dir := configDir(t, goodConfig)
	out, errOut, exit := ikectl(context.Background(), "check", dir)
	want := dir + `: OK, 1 connection
  site-b: 192.0.2.1 (gw-a.example) <-> 198.51.100.7 (gw-b.example), start boot, drop when down
    lan: 10.1.0.0/16 <-> 10.2.0.0/16
`
	if exit != 0 || out != want || errOut != "" {
		t.Errorf("exit %d\n--- out\n%s--- want\n%s--- err\n%s", exit, out, want, errOut)
	}
	out, _, exit = ikectl(context.Background(), "check", "--json", dir)
	if want := `{"dir":"` + dir + `","ok":true,"problems":[],"connections":["site-b"]}` + "\n"; exit != 0 || out != want {
		t.Errorf("exit %d, out %s want %s", exit, out, want)
	}
}

func TestCheckBad(t *testing.T) {
	dir := configDir(t, strings.Replace(goodConfig, "start  =", "strat  =", 1))
	out, _, exit := ikectl(context.Background(), "check", dir)
	if exit != 1 || !strings.Contains(out, "conn.d/site-b.toml:5: error: ") || !strings.Contains(out, "    hint: ") || !strings.Contains(out, "not accepted: 1 error, 0 warnings") {
		t.Errorf("exit %d, out\n%s", exit, out)
	}
	out, _, exit = ikectl(context.Background(), "check", "--json", dir)
	var r checked
	if err := json.Unmarshal([]byte(out), &r); err != nil || exit != 1 || r.OK || len(r.Problems) != 1 || r.Problems[0].Line != 5 {
		t.Errorf("exit %d, err %v, out %s", exit, err, out)
	}
	if strings.Contains(out, "4711") {
		t.Error("the secret is in the output")
	}
}

// TestCheckHost: a folder is looked at alone, or with the host.
func TestCheckHost(t *testing.T) {
	dir := configDir(t, strings.Replace(goodConfig, "192.0.2.1", "203.0.113.254", 1))
	const want = "conn.d/site-b.toml:2: warning: connection site-b sends from 203.0.113.254, which is no address of this host now\n    hint: write an address of this host"
	if out, _, exit := ikectl(context.Background(), "check", dir); exit != 0 || strings.Contains(out, "warning") {
		t.Errorf("exit %d, out\n%s", exit, out)
	}
	if out, _, exit := ikectl(context.Background(), "check", "--host", dir); exit != 0 || !strings.Contains(out, want) || !strings.Contains(out, ": OK, 1 connection, ") {
		t.Errorf("exit %d, out\n%s", exit, out)
	}
}

func TestCheckNoDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	out, _, exit := ikectl(context.Background(), "check", dir)
	if exit != 1 || !strings.HasPrefix(out, "error: ") || !strings.Contains(out, dir) {
		t.Errorf("exit %d, out\n%s", exit, out)
	}
}
