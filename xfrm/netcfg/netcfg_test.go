package netcfg

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace puts the test on a thread in a network namespace of its own, which ends with the test, with a dummy
// link "d0" (192.0.2.1/24, 2001:db8::1/64).
func inNamespace(t *testing.T) *Host {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread, and with it the namespace, ends with the test's goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatalf("REQUIRE has root, but unshare: %v", err)
		}
		t.Skipf("unshare a network namespace: %v", err)
	}
	ip(t, "link set lo up")
	ip(t, "link add d0 type veth peer name d1")
	ip(t, "link set d0 up")
	ip(t, "link set d1 up")
	ip(t, "addr add 192.0.2.1/24 dev d0")
	ip(t, "addr add 2001:db8::1/64 dev d0 nodad")
	h, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// ip runs iproute2 in the test's namespace.
func ip(t *testing.T, args string) string {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", args, err, out)
	}
	return string(out)
}

func p(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func a(s string) netip.Addr   { return netip.MustParseAddr(s) }

func set(t *testing.T, h *Host, owner string, d Desired) {
	t.Helper()
	if err := h.Set(t.Context(), owner, d); err != nil {
		t.Fatal(err)
	}
}

// want compares what the kernel has of ours with the given routes.
func want(t *testing.T, routes ...Route) {
	t.Helper()
	got, err := Routes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range routes {
		routes[i] = routes[i].normal()
	}
	order := func(a, b Route) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(got, order)
	slices.SortFunc(routes, order)
	if !slices.Equal(got, routes) {
		t.Fatalf("routes of ours:\n%v\nwant:\n%v", got, routes)
	}
}

var (
	v4   = Route{Dst: p("10.2.0.0/16"), Link: "d0", Via: a("192.0.2.254"), Src: a("192.0.2.1"), MTU: 1400}
	v6   = Route{Dst: p("fd00:2::/32"), Link: "d0", Via: a("2001:db8::2"), Src: a("2001:db8::1")}
	hole = Route{Dst: p("10.2.0.0/16"), Unreachable: true, Metric: 9000}
	hol6 = Route{Dst: p("fd00:2::/32"), Unreachable: true, Metric: 9000}
)

func TestSetIsIdempotentAndRemovesWhatIsNoLongerWanted(t *testing.T) {
	h := inNamespace(t)
	for range 2 {
		set(t, h, "site-b", Desired{Routes: []Route{v4, v6, hole, hol6}})
		want(t, v4, v6, hole, hol6)
	}
	if out := ip(t, "route show 10.2.0.0/16"); !strings.Contains(out, "proto 67") || !strings.Contains(out, "mtu 1400") {
		t.Errorf("iproute2 shows %q", out)
	}
	set(t, h, "site-b", Desired{Routes: []Route{hole, v6}})
	want(t, hole, v6)
	set(t, h, "site-b", Desired{})
	want(t)
}

func TestSetReplacesInPlace(t *testing.T) {
	h := inNamespace(t)
	for _, r := range []Route{v4, v6} {
		set(t, h, "o", Desired{Routes: []Route{r}})
		r.MTU, r.Src = 1380, netip.Addr{}
		set(t, h, "o", Desired{Routes: []Route{r}})
		want(t, r)
		set(t, h, "o", Desired{Routes: []Route{{Dst: r.Dst, Unreachable: true}}})
		want(t, Route{Dst: r.Dst, Unreachable: true})
		set(t, h, "o", Desired{})
	}
}

func TestSetRestoresWhatWasLost(t *testing.T) {
	h := inNamespace(t)
	set(t, h, "o", Desired{Routes: []Route{v4, hole}})
	ip(t, "route del 10.2.0.0/16 proto 67 metric 0")
	set(t, h, "o", Desired{Routes: []Route{v4, hole}})
	want(t, v4, hole)
	// and to remove what is gone already is fine
	ip(t, "route flush proto 67")
	set(t, h, "o", Desired{})
}

func TestTwoOwnersOfOneRoute(t *testing.T) {
	h := inNamespace(t)
	set(t, h, "a", Desired{Routes: []Route{v4}})
	set(t, h, "b", Desired{Routes: []Route{v4}})
	set(t, h, "a", Desired{})
	want(t, v4)
	other := v4
	other.MTU = 1300
	set(t, h, "c", Desired{Routes: []Route{other}})
	want(t, other)
	set(t, h, "c", Desired{})
	want(t, v4)
	set(t, h, "b", Desired{})
	want(t)
}

func TestForeignRouteIsLeftAlone(t *testing.T) {
	h := inNamespace(t)
	ip(t, "route add 10.2.0.0/16 via 192.0.2.77 dev d0")
	err := h.Set(t.Context(), "o", Desired{Routes: []Route{v4, v6}})
	if !errors.Is(err, unix.EEXIST) || !strings.Contains(err.Error(), "not ours") {
		t.Fatalf("error %v", err)
	}
	want(t, v6) // the others were added all the same
	if out := ip(t, "route show 10.2.0.0/16"); !strings.Contains(out, "192.0.2.77") {
		t.Errorf("foreign route became %q", out)
	}
	set(t, h, "o", Desired{})
	want(t)
	if out := ip(t, "route show 10.2.0.0/16"); !strings.Contains(out, "192.0.2.77") {
		t.Errorf("foreign route became %q", out)
	}
}

func TestNothingIsRemovedWhenAnAddFails(t *testing.T) {
	h := inNamespace(t)
	set(t, h, "o", Desired{Routes: []Route{hole}})
	bad := v4
	bad.Via = a("203.0.113.1")
	if err := h.Set(t.Context(), "o", Desired{Routes: []Route{bad}}); err == nil || !strings.Contains(err.Error(), "203.0.113.1") {
		t.Fatalf("error %v", err)
	}
	want(t, hole)
	set(t, h, "o", Desired{Routes: []Route{v4}})
	want(t, v4)
}

func TestSweep(t *testing.T) {
	h := inNamespace(t)
	set(t, h, "earlier process", Desired{Routes: []Route{v4, v6, hole, hol6, {Dst: p("10.9.0.0/16"), Link: "d0", Table: 220}}})
	next, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	set(t, next, "o", Desired{Routes: []Route{v4}})
	if err := next.Sweep(t.Context(), []Route{hol6}); err != nil {
		t.Fatal(err)
	}
	want(t, v4, hol6)
	if out := ip(t, "route show dev d0"); !strings.Contains(out, "192.0.2.0/24") {
		t.Errorf("a foreign route was swept: %q", out)
	}
}

func TestAddresses(t *testing.T) {
	h := inNamespace(t)
	d := Desired{Addresses: []Address{
		{"d0", p("10.66.0.5/32")}, {"d0", p("fd00:66::5/128")},
		{"d0", p("192.0.2.1/24")}, // was there before us
	}}
	set(t, h, "o", d)
	set(t, h, "o", d)
	set(t, h, "other", Desired{Addresses: d.Addresses[:1]})
	out := ip(t, "addr show dev d0")
	if !strings.Contains(out, "10.66.0.5/32") || !strings.Contains(out, "fd00:66::5/128") || strings.Contains(ip(t, "addr show dev d0 scope global"), "tentative") {
		t.Fatalf("addresses: %s", out)
	}
	set(t, h, "o", Desired{})
	out = ip(t, "addr show dev d0")
	if !strings.Contains(out, "10.66.0.5/32") || strings.Contains(out, "fd00:66::5/128") || !strings.Contains(out, "192.0.2.1/24") {
		t.Fatalf("addresses: %s", out)
	}
	set(t, h, "other", Desired{})
	if out = ip(t, "addr show dev d0"); strings.Contains(out, "10.66.0.5") {
		t.Fatalf("addresses: %s", out)
	}
}

func TestAddressBeforeTheRouteThatNeedsIt(t *testing.T) {
	h := inNamespace(t)
	r := v4
	r.Src = a("10.66.0.5")
	d := Desired{Routes: []Route{r}, Addresses: []Address{{"d0", p("10.66.0.5/32")}}}
	set(t, h, "o", d)
	want(t, r)
	set(t, h, "o", Desired{})
	want(t)
}

func TestLinks(t *testing.T) {
	h := inNamespace(t)
	ip(t, "link add e0 type veth peer name e1")
	set(t, h, "o", Desired{
		Links:  []Link{{Name: "e0", Up: true, MTU: 1380, TxQueueLen: 128}, {Name: "e1", Up: true}},
		Routes: []Route{{Dst: p("10.3.0.0/16"), Link: "e0"}},
	})
	out := ip(t, "link show dev e0")
	for _, s := range []string{",UP", "mtu 1380", "qlen 128"} {
		if !strings.Contains(out, s) {
			t.Errorf("no %q in %s", s, out)
		}
	}
	want(t, Route{Dst: p("10.3.0.0/16"), Link: "e0"})
	ip(t, "link del e0") // takes the route along
	set(t, h, "o", Desired{})
	want(t)
	if err := h.Set(t.Context(), "o", Desired{Links: []Link{{Name: "e0", Up: true}}}); err == nil || !strings.Contains(err.Error(), "e0") {
		t.Errorf("error %v", err)
	}
}

func TestBadRoutesAreRefused(t *testing.T) {
	h := inNamespace(t)
	for _, c := range []struct {
		r    Route
		says string
	}{
		{Route{Link: "d0"}, "no destination"},
		{Route{Dst: p("10.0.0.0/8")}, "no outgoing link"},
		{Route{Dst: p("10.0.0.0/8"), Link: "d0", Via: a("2001:db8::2")}, "address family"},
		{Route{Dst: p("fd00::/8"), Link: "d0", Src: a("192.0.2.1")}, "address family"},
		{Route{Dst: p("10.0.0.0/8"), Link: "d0", Src: a("10.77.0.1")}, "an address of this host?"},
	} {
		if err := h.Set(t.Context(), "o", Desired{Routes: []Route{c.r}}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: error %v, want %q", c.r, err, c.says)
		}
	}
	want(t)
}

func TestLookup(t *testing.T) {
	h := inNamespace(t)
	ip(t, "route add default via 192.0.2.254")
	for _, c := range []struct {
		dst  string
		want Route
	}{
		{"192.0.2.9", Route{Dst: p("192.0.2.0/24"), Link: "d0", Src: a("192.0.2.1"), Table: unix.RT_TABLE_MAIN}},
		{"10.2.1.1", Route{Dst: p("0.0.0.0/0"), Link: "d0", Via: a("192.0.2.254"), Src: a("192.0.2.1"), Table: unix.RT_TABLE_MAIN}},
		{"2001:db8::9", Route{Dst: p("2001:db8::/64"), Link: "d0", Src: a("2001:db8::1"), Table: unix.RT_TABLE_MAIN, Metric: 256}},
	} {
		got, err := h.Lookup(t.Context(), a(c.dst))
		if err != nil || got.Route != c.want || got.Ours {
			t.Errorf("%s: %+v, %v; want %+v", c.dst, got, err, c.want)
		}
	}
	if _, err := h.Lookup(t.Context(), a("2001:db8:1::1")); err == nil {
		t.Error("a route where there is none")
	}
}

func TestAddressIn(t *testing.T) {
	h := inNamespace(t)
	for _, c := range []struct{ in, want string }{
		{"192.0.0.0/8", "192.0.2.1"}, {"2001:db8::/32", "2001:db8::1"}, {"0.0.0.0/0", "192.0.2.1"}, {"10.0.0.0/8", ""}, {"127.0.0.0/8", ""},
	} {
		got, ok, err := h.AddressIn(t.Context(), p(c.in))
		if err != nil || ok != (c.want != "") || ok && got != a(c.want) {
			t.Errorf("in %s: %v %v %v, want %q", c.in, got, ok, err, c.want)
		}
	}
}

func TestFlush(t *testing.T) {
	h := inNamespace(t)
	set(t, h, "earlier process", Desired{Routes: []Route{v4, v6, hole, {Dst: p("10.9.0.0/16"), Link: "d0", Table: 220}}})
	ip(t, "route add 10.77.0.0/16 dev d0")
	if removed, err := Flush(t.Context()); err != nil || len(removed) != 4 {
		t.Fatalf("removed %v, %v", removed, err)
	}
	want(t)
	if out := ip(t, "route show dev d0"); !strings.Contains(out, "10.77.0.0/16") {
		t.Errorf("a foreign route was removed: %q", out)
	}
	if removed, err := Flush(t.Context()); err != nil || len(removed) != 0 {
		t.Errorf("again: removed %v, %v", removed, err)
	}
}
