package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/sirupsen/logrus"

	"cygnet/policy"
)

// newLog writes lines for people to w. fixed says that the level was given on the command line.
func newLog(w io.Writer, level string) (log *logrus.Logger, fixed bool, err error) {
	log = logrus.New()
	log.SetOutput(w)
	log.SetFormatter(lines{})
	if level == "" {
		return log, false, nil
	}
	l, err := logrus.ParseLevel(level)
	if err != nil || !slices.Contains(policy.LogLevels(), level) {
		return nil, false, fmt.Errorf("--log-level %q: use %s", level, levels())
	}
	log.SetLevel(l)
	return log, true, nil
}

// levels is "error, warn, info, debug or trace".
func levels() string {
	l := policy.LogLevels()
	return strings.Join(l[:len(l)-1], ", ") + " or " + l[len(l)-1]
}

// lines formats an entry as "2026-01-02T03:04:05.678Z warning site-b: text [code=no-answer] hint: ...": one line, whatever a peer put into it.
type lines struct{}

func (lines) Format(e *logrus.Entry) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Level, oneLine(e.Message))
	var keys []string
	for k := range e.Data {
		if k != "hint" && k != "detail" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for i, k := range keys {
		sep := " "
		if i == 0 {
			sep = " ["
		}
		fmt.Fprintf(&b, "%s%s=%v", sep, k, oneLine(fmt.Sprint(e.Data[k])))
	}
	sep := ";"
	if len(keys) > 0 {
		sep = "]"
	}
	h, ok := e.Data["hint"]
	if ok || len(keys) > 0 {
		b.WriteString(sep)
	}
	if ok {
		fmt.Fprintf(&b, " hint: %s", oneLine(fmt.Sprint(h)))
	}
	b.WriteByte('\n')
	if detail, ok := e.Data["detail"]; ok {
		for l := range strings.Lines(fmt.Sprint(detail)) {
			fmt.Fprintf(&b, "    %s\n", oneLine(strings.TrimRight(l, "\n")))
		}
	}
	return b.Bytes(), nil
}

// oneLine makes control characters harmless.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
