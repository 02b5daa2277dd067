package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/xfrm/alg"
)

// hub is a configuration of n sites, each in a file of its own or all in one. change may spoil the text of a site.
func hub(n int, together bool, change func(i int, text string) string) (sources []Source) {
	var all strings.Builder
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		text := change(i, fmt.Sprintf(`[connection.%[1]s]
local  = { address = "192.0.2.1", id = "gw-a.example" }
remote = { address = "198.18.%[2]d.%[3]d", id = "%[1]s.example" }
psk    = { file = "secrets/%[1]s" }
[connection.%[1]s.child.lan]
local  = ["10.0.0.0/16"]
remote = ["10.%[4]d.%[3]d.0/25"]
[connection.%[1]s.child.dmz]
local  = ["10.0.0.0/16"]
remote = ["10.%[4]d.%[3]d.128/25"]
`, name, i/250, i%250, 64+i/250))
		all.WriteString(text)
		if !together {
			sources = append(sources, Source{Name: "conn.d/" + name + ".toml", Data: []byte(text)})
		}
	}
	if together {
		return []Source{{Name: "cygnet.toml", Data: []byte(all.String())}}
	}
	return sources
}

func asWritten(_ int, text string) string { return text }

var anySecret = Files{Secret: func(string) (alg.Secret, error) {
	return alg.NewSecret([]byte(strings.Repeat("k", 32))), nil
}}

// TestParseIsLinear: four times the connections take about four times the work, not sixteen times.
func TestParseIsLinear(t *testing.T) {
	for _, together := range []bool{false, true} {
		work := func(n int) time.Duration {
			sources := hub(n, together, asWritten)
			least := time.Hour
			for range 2 {
				start := cpuTime(t)
				if s, problems := Parse(sources, anySecret); s == nil || len(problems) > 0 || len(s.Connections) != n {
					t.Fatalf("%v", problems)
				}
				least = min(least, cpuTime(t)-start)
			}
			return least
		}
		few, many := work(250), work(1000)
		if many > 9*few {
			t.Errorf("one file %v: 250 connections take %s, 1000 take %s", together, few, many)
		}
	}
}

// cpuTime is what this process has computed, whatever else the host does.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// TestLargeConfiguration: what is wrong among many connections is found.
func TestLargeConfiguration(t *testing.T) {
	last := func(pairs ...string) func(int, string) string {
		return func(i int, text string) string {
			if i == 299 {
				return strings.NewReplacer(pairs...).Replace(text)
			}
			return text
		}
	}
	for _, c := range []struct {
		name     string
		change   func(i int, text string) string
		problems int
		code     string
		fatal    bool
	}{
		{"nothing", asWritten, 0, "", false},
		{"one catches all", last("10.65.49.0/25", "10.64.0.0/10"), maxProblems + 1, "overlap", false},
		{"the last repeats another", last("10.65.49.0/25", "10.64.0.0/25"), 1, "overlap", true},
		{"the last calls as another", last("198.18.1.49", "198.18.0.0", "s299.example", "S0.example"), 1, "ambiguous", true},
		{"all the same", func(i int, s string) string {
			return strings.ReplaceAll(s, fmt.Sprintf("10.%d.%d.", 64+i/250, i%250), "10.64.0.")
		}, maxProblems + 1, "overlap", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, problems := Parse(hub(300, false, c.change), anySecret)
			if len(problems) != c.problems || Fatal(problems) != c.fatal || (s == nil) != c.fatal {
				t.Fatalf("%d problems, fatal %v: %v", len(problems), Fatal(problems), problems[:min(len(problems), 3)])
			}
			if len(problems) > 0 && problems[0].Code != c.code {
				t.Error(problems[0])
			}
		})
	}
}

// TestManyProblems: no more are told than a person reads, and no error is lost among warnings.
func TestManyProblems(t *testing.T) {
	var ps []Problem
	for i := range 500 {
		ps = append(ps, Problem{Line: i, Code: "w", Warning: true})
	}
	ps = append(ps, Problem{Line: 500, Code: "e"})
	got := bounded(ps)
	if len(got) != maxProblems+1 || !Fatal(got) || got[maxProblems-1].Code != "e" || !strings.Contains(got[maxProblems].Text, "and 301 more") || !got[maxProblems].Warning {
		t.Errorf("%d: ... %v", len(got), got[len(got)-2:])
	}
	for i := range ps {
		ps[i].Warning = false
	}
	if got := bounded(ps); len(got) != maxProblems+1 || got[maxProblems].Warning {
		t.Errorf("%d: ... %v", len(got), got[len(got)-1])
	}
	if got := bounded(ps[:maxProblems]); len(got) != maxProblems {
		t.Error("cut where all had room")
	}
}

// TestMeeting holds the index against the search that looks at every pair.
func TestMeeting(t *testing.T) {
	text := `[connection.a]
local = { address = "192.0.2.1", id = "a" }
remote = { address = "192.0.2.2", id = "b" }
psk = { file = "x" }
`
	lists := [][2]string{
		{`"10.0.0.0/8"`, `"10.1.0.0-10.1.9.9", "2001:db8::/32"`}, {`"10.0.0.0/9"`, `"10.1.9.9"`}, {`"10.128.0.0/9"`, `"10.1.9.10"`},
		{`"10.1.0.0/16", "2001:db8:1::/48"`, `"2001:db8:ffff::1", "10.1.0.0/30"`}, {`"0.0.0.0/0"`, `"0.0.0.0/0"`}, {`"::/0"`, `"::/0"`},
		{`"10.200.0.1"`, `"10.1.0.0-10.1.0.9"`}, {`"10.0.0.0/8[tcp/80]"`, `"10.1.0.0/24[tcp]"`},
	}
	for i, l := range lists {
		text += fmt.Sprintf("[connection.a.child.c%d]\nlocal = [%s]\nremote = [%s]\n", i, l[0], l[1])
	}
	r := &reader{files: anySecret, snapshot: &Snapshot{}, byName: map[string]*Connection{}}
	r.file(r.open(Source{Name: "x", Data: []byte(text)}))
	var all []member
	for _, ch := range r.snapshot.Connections[0].Children {
		all = append(all, member{r.snapshot.Connections[0], ch})
	}
	couples, complete := meeting(all)
	found := map[couple]bool{}
	for _, c := range couples {
		found[c] = true
	}
	want := 0
	for j, m := range all {
		for i, o := range all[:j] {
			both := pair{meetAll(m.ch.Local, o.ch.Local), meetAll(m.ch.Remote, o.ch.Remote)}.mated()
			if len(both.i) > 0 {
				want++
				if !found[couple{i, j}] {
					t.Errorf("%s and %s were not found", o.ch.Name, m.ch.Name)
				}
			}
		}
	}
	if !complete || want < 8 || len(all) != len(lists) {
		t.Errorf("complete %v, %d couples of %d children", complete, want, len(all))
	}
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1000, 3000} {
		for _, together := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d together=%v", n, together), func(b *testing.B) {
				sources := hub(n, together, asWritten)
				for b.Loop() {
					if _, problems := Parse(sources, anySecret); len(problems) > 0 {
						b.Fatal(problems[0])
					}
				}
			})
		}
	}
}
