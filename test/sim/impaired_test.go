package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"cygnet/ike/wire"
)

// wantedLies are those that some seeds must have told: each change of each payload that a gateway sends, each transform in each slot, each exchange in each
// state.
func wantedLies() (list []string) {
	for _, what := range []string{"omit", "empty", "double", "reorder", "wrong length of", "wrong inside of", "unknown critical payload before"} {
		for _, p := range []wire.PayloadType{wire.PayloadSA, wire.PayloadKE, wire.PayloadNonce, wire.PayloadNotify, wire.PayloadIDi, wire.PayloadIDr,
			wire.PayloadAuth, wire.PayloadTSi, wire.PayloadTSr, wire.PayloadDelete} {
			if what == "reorder" && p == wire.PayloadDelete { // it stands alone
				continue
			}
			list = append(list, what+" "+p.String())
		}
	}
	for _, p := range knownPayloads() {
		list = append(list, "stray "+p.String())
	}
	for _, t := range transforms() {
		list = append(list, transformName(t, "request"), transformName(t, "response"))
	}
	for _, x := range exchanges() {
		for _, state := range []string{"authenticating", "established", "closing"} {
			list = append(list, fmt.Sprintf("%v response while %s", x, state))
		}
		list = append(list, fmt.Sprintf("%v response while opening", x), fmt.Sprintf("%v request while authenticating", x), fmt.Sprintf("%v request while established", x))
	}
	return list
}

// TestImpairedPeers: a bounded number of seeds tells every lie, and whoever hears them keeps every invariant. A few seeds, as in the unit tests, tell most.
func TestImpairedPeers(t *testing.T) {
	missing := make(map[string]bool)
	for _, l := range wantedLies() {
		missing[l] = true
	}
	all, runs := len(missing), 0
	for s := uint64(1); s <= *liars && len(missing) > 0; s++ {
		r := Run(Options{Seed: s, Rekey: true, Impaired: true})
		runs++
		if r.Violation != nil {
			t.Errorf("seed %d: %v\nreplay: %s -impaired", s, r.Violation, replay(s))
		}
		for l := range r.Lies {
			delete(missing, l)
		}
	}
	t.Logf("%d runs told %d of %d lies", runs, all-len(missing), all)
	if enough := 1500; len(missing) > all/5 || *liars >= uint64(enough) && len(missing) > 0 {
		t.Errorf("%d lies were not told: %s", len(missing), strings.Join(slices.Sorted(maps.Keys(missing)), "; "))
	}
}
