package daemon

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/ike"
)

// TestStrangersAreSummedUp: whoever sends, the log gets a few lines for each kind of failure, and the number of the rest.
func TestStrangersAreSummedUp(t *testing.T) {
	var over []func()
	s := strangers{after: func(d time.Duration, f func()) {
		if d != strangerWindow {
			t.Errorf("window of %s", d)
		}
		over = append(over, f)
	}}
	var sums []string
	tell := func(n news) { sums = append(sums, string(n.report.Code)+": "+n.report.Text) }
	count := func(n int, addresses int, code ike.Code) (passed int) {
		for i := range n {
			from := netip.AddrFrom4([4]byte{203, 0, byte(i % addresses >> 8), byte(i % addresses)})
			if s.pass(news{report: ike.Report{Code: code, From: from}}, tell) {
				passed++
			}
		}
		return passed
	}
	if n := count(1533, 812, ike.CodeNoProposal); n != strangerLines {
		t.Errorf("%d lines", n)
	}
	if n := count(strangerLines, 1, ike.CodeAuthFailed); n != strangerLines {
		t.Errorf("%d lines of another code", n)
	}
	if n := count(100, 1, ike.CodeAuthenticated); n != 100 {
		t.Errorf("%d lines of what succeeded", n)
	}
	if !s.pass(news{report: ike.Report{Code: ike.CodeNoProposal, Connection: "site-b"}}, tell) || !s.pass(news{finish: &ike.Finish{}}, tell) {
		t.Error("a report about a peer that proved its identity was held back")
	}
	for _, f := range over {
		f()
	}
	if len(sums) != 1 || sums[0] != "no-proposal: 1523 more like this (no-proposal) in 10 s, from 812 addresses" {
		t.Errorf("%q", sums)
	}
	over = nil
	if n := count(strangerLines+1, 1, ike.CodeNoProposal); n != strangerLines {
		t.Errorf("%d lines in the next window", n)
	}
	over[0]()
	if last := sums[len(sums)-1]; !strings.HasSuffix(last, "1 more like this (no-proposal) in 10 s, from 1 address") {
		t.Errorf("%q", last)
	}
	count(20_000, 10_000, ike.CodeIgnored)
	if n := len(s.windows[ike.CodeIgnored].from); n != strangerCount {
		t.Errorf("%d addresses are kept", n)
	}
	if text := s.windows[ike.CodeIgnored].sum(ike.CodeIgnored); !strings.HasSuffix(text, "from more than 4096 addresses") {
		t.Error(text)
	}
}
