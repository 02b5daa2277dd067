package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// table reads one TOML table. It remembers the keys that were asked for: whatever else stands in the table is unknown, so the code that
// reads a table is its schema.
type table struct {
	r     *reader
	file  string
	lines lineIndex
	path  string // "connection.site-b.remote"
	rows  map[string]any
	asked []string
}

// line of a key, or of the nearest table around it.
func (t *table) line(key string) int {
	for p := strings.TrimPrefix(t.path+"."+key, "."); p != ""; {
		if l := t.lines.lines[p]; l > 0 {
			return l
		}
		i := strings.LastIndexAny(p, ".[")
		if i < 0 {
			break
		}
		p = p[:i]
	}
	return 1
}

func (t *table) problem(key, code, hint, format string, args ...any) {
	t.r.problems = append(t.r.problems, Problem{File: t.file, Line: t.line(key), Code: code, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (t *table) warning(key, code, hint, format string, args ...any) {
	t.problem(key, code, hint, format, args...)
	t.r.problems[len(t.r.problems)-1].Warning = true
}

// get takes a key out of the table.
func (t *table) get(key string) (any, bool) {
	if !slices.Contains(t.asked, key) {
		t.asked = append(t.asked, key)
	}
	v, ok := t.rows[key]
	return v, ok
}

// missing reports a key that must be there.
func (t *table) missing(key, hint string) {
	for _, k := range t.names() {
		if !slices.Contains(t.asked, k) && len(key) > 3 && distance(k, key) <= 2 {
			return // mistyped: told as an unknown key
		}
	}
	t.problem("", "missing-key", hint, "%s has no %s", t.path, key)
}

func (t *table) wrongType(key string, v any, want, example string) {
	t.problem(key, "wrong-type", "write "+example, "%s %s is %s where %s is wanted", key, t.place(), kind(v), want)
}

// place says in which table something stands.
func (t *table) place() string {
	if t.path == "" {
		return "at the top of the file"
	}
	return "in " + t.path
}

func (t *table) text(key, example string) (string, bool) {
	v, ok := t.get(key)
	if !ok {
		return "", false
	}
	s, ok := v.(string)
	if !ok {
		t.wrongType(key, v, "a string", fmt.Sprintf("%s = %q", key, example))
	}
	return s, ok
}

// word is a string out of a short list; fallback when it is absent or wrong.
func (t *table) word(key, fallback string, words ...string) string {
	s, ok := t.text(key, words[0])
	if !ok {
		return fallback
	}
	if !slices.Contains(words, s) {
		t.problem(key, "bad-value", didYouMean(s, words, "write one of "+strings.Join(words, ", ")), "%s = %q in %s is none of %s", key, s, t.path, strings.Join(words, ", "))
		return fallback
	}
	return s
}

// flag is true or false.
func (t *table) flag(key string, fallback bool) bool {
	v, ok := t.get(key)
	if !ok {
		return fallback
	}
	b, ok := v.(bool)
	if !ok {
		t.wrongType(key, v, "true or false", fmt.Sprintf("%s = %t", key, fallback))
		return fallback
	}
	return b
}

func (t *table) integer(key string, fallback, low, high int64) int64 {
	v, ok := t.get(key)
	if !ok {
		return fallback
	}
	n, ok := v.(int64)
	switch {
	case !ok:
		t.wrongType(key, v, "a whole number", fmt.Sprintf("%s = %d", key, fallback))
		return fallback
	case n < low || n > high:
		t.problem(key, "bad-value", fmt.Sprintf("the default is %d", fallback), "%s = %d in %s is not within %d to %d", key, n, t.path, low, high)
		return fallback
	}
	return n
}

func (t *table) duration(key string, fallback, low, high time.Duration) time.Duration {
	v, ok := t.get(key)
	if !ok {
		return fallback
	}
	s, ok := v.(string)
	if !ok {
		t.wrongType(key, v, "a time with its unit in quotes", fmt.Sprintf("%s = %q", key, brief(fallback)))
		return fallback
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		t.problem(key, "bad-value", fmt.Sprintf("write a number and ms, s, m or h, such as %q", brief(fallback)), "%s = %q in %s is not a time", key, s, t.path)
		return fallback
	case d < low || d > high:
		t.problem(key, "bad-value", fmt.Sprintf("the default is %q", brief(fallback)), "%s = %q in %s is not within %s to %s", key, s, t.path, brief(low), brief(high))
		return fallback
	}
	return d
}

// brief is a duration without "0s" at its end: "2m" where Go says "2m0s".
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// entry is one element of a list, with the key under which its line is found.
type entry struct{ key, text string }

// list is an array of strings, or one string alone.
func (t *table) list(key, example string) (out []entry, ok bool) {
	v, ok := t.get(key)
	if !ok {
		return nil, false
	}
	if s, one := v.(string); one {
		return []entry{{key, s}}, true
	}
	elements, ok := v.([]any)
	if !ok {
		t.wrongType(key, v, "a list of strings", fmt.Sprintf("%s = [%q]", key, example))
		return nil, true
	}
	for i, e := range elements {
		at := fmt.Sprintf("%s[%d]", key, i)
		s, ok := e.(string)
		if !ok {
			t.wrongType(at, e, "a string", fmt.Sprintf("%q", example))
			continue
		}
		out = append(out, entry{at, s})
	}
	if len(elements) == 0 {
		t.problem(key, "bad-value", fmt.Sprintf("write %s = [%q] or leave the key out", key, example), "%s in %s is an empty list", key, t.path)
	}
	return out, true
}

// table is a table inside this one; nil when it is absent or of another type.
func (t *table) table(key, example string) *table {
	v, ok := t.get(key)
	if !ok {
		return nil
	}
	rows, ok := v.(map[string]any)
	if !ok {
		t.wrongType(key, v, "a table", example)
		return nil
	}
	return &table{r: t.r, file: t.file, lines: t.lines, path: strings.TrimPrefix(t.path+"."+key, "."), rows: rows}
}

// names lists the keys of a table of tables, such as connection.NAME, in the order in which they stand in the file.
func (t *table) names() []string {
	var names []string
	for n := range t.rows {
		names = append(names, n)
	}
	slices.Sort(names)
	slices.SortStableFunc(names, func(a, b string) int { return t.line(a) - t.line(b) })
	return names
}

// done reports every key that nobody asked for.
func (t *table) done() {
	for _, key := range t.names() {
		if slices.Contains(t.asked, key) {
			continue
		}
		hint := foreignKey(key)
		if t.path == "" && key == "child" {
			hint = "a child is part of its connection: [connection.NAME.child.NAME]"
		}
		if hint == "" {
			hint = t.elsewhere(key)
		}
		if hint == "" {
			hint = didYouMean(key, t.asked, "known here: "+strings.Join(t.asked, ", "))
		}
		t.problem(key, "unknown-key", hint, "unknown key %q %s", key, t.place())
	}
}

// elsewhere says where a key belongs that stands in another table of its connection. A table is told by the keys that it may have.
func (t *table) elsewhere(key string) string {
	has := func(k string) bool { return slices.Contains(t.asked, k) }
	remote, local, connection := has("public_key"), has("cert") && !has("public_key"), has("start")
	switch {
	case (local || connection) && slices.Contains([]string{"ca", "crl", "public_key"}, key):
		return key + " is the peer's: it belongs into remote"
	case (remote || connection) && key == "key":
		return "key is our own private key: it belongs into local; the peer's public key is public_key in remote"
	case (remote || local) && slices.Contains([]string{"psk", "revocation", "rsa", "sha1_signatures"}, key):
		return key + " belongs into the connection, beside local and remote"
	}
	return ""
}

// didYouMean is a hint with the known words that resemble word, or else the fallback.
func didYouMean(word string, known []string, fallback string) string {
	if n := Near(word, known); len(n) > 0 {
		return "did you mean " + strings.Join(n, " or ") + "?"
	}
	return fallback
}

// kind names a TOML type with its article.
func kind(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "a number"
	case float64:
		return "a fraction"
	case bool:
		return "true or false"
	case time.Time:
		return "a date"
	case []any:
		return "a list"
	case []map[string]any:
		return "an array of tables [[...]]"
	case map[string]any:
		return "a table"
	}
	return fmt.Sprintf("%T", v)
}

// foreignKey translates the keys of ipsec.conf and swanctl.conf that people bring along.
func foreignKey(key string) string {
	words := map[string]string{
		"left": "local = { address, id }", "right": "remote = { address, id }",
		"leftid": "local = { id }", "rightid": "remote = { id }",
		"leftsubnet": "local in a child", "leftsubnets": "local in a child", "local_ts": "local in a child",
		"rightsubnet": "remote in a child", "rightsubnets": "remote in a child", "remote_ts": "remote in a child",
		"local_addrs": "local = { address }", "remote_addrs": "remote = { address }", "remote_port": "remote = { port }",
		"leftcert": "local = { cert, key }", "rightcert": "remote = { cert }", "rightca": "remote = { ca }", "certs": "cert in local or remote", "cacerts": "remote = { ca }",
		"leftrsasigkey": "local = { key }", "rightrsasigkey": "remote = { public_key }", "pubkeys": "remote = { public_key }", "auth": "psk, or cert and key in local and ca in remote",
		"auto": "start", "start_action": "start", "authby": `psk = { file = "..." }`, "secret": `psk = { file = "..." }`,
		"proposals": "ike", "esp_proposals": "esp in a child", "phase2alg": "esp in a child", "phase2": "esp in a child",
		"dpdaction": "when_down and liveness", "dpd_action": "when_down and liveness", "dpddelay": "liveness = { idle }", "dpd_delay": "liveness = { idle }",
		"retransmit-timeout": "liveness = { timeout }", "encap": "encapsulation", "forceencaps": "encapsulation", "replay-window": "replay_window",
		"rekey": "rekey_time, with \"0\" for never", "lifetime": "life_time in a child, rekey_time in a connection", "ikelifetime": "rekey_time", "salifetime": "life_time in a child",
		"keylife": "life_time in a child", "margintime": "rekey_time", "rekeymargin": "rekey_time", "rekeyfuzz": "rand_time", "lifebytes": "life_bytes", "lifepackets": "life_packets",
		"marginbytes": "rekey_bytes", "marginpackets": "rekey_packets", "reauth": "reauth_time, with \"0\" for never", "children": "child", "connections": "connection", "conn": "connection", "failureshunt": "when_down", "negotiationshunt": "when_down",
	}
	if w, ok := words[key]; ok {
		return "here it is written " + w
	}
	return ""
}
