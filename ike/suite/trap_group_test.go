package suite

import (
	"testing"

	"cygnet/ike/wire"
)

// CVE-2014-9221: each number that can name a group either has all that a group needs, or nothing.
func TestCVE_2014_9221_GroupNumbers(t *testing.T) {
	var there []wire.GroupID
	for g := range 1 << 16 {
		id := wire.GroupID(g)
		if Supported(id) {
			there = append(there, id)
		} else if k, err := NewKeyExchange(id, &counting{n: 1}); err == nil || k != nil || PublicLen(id) != 0 {
			t.Errorf("%s (%d) is not supported and there: %v", DHName(id), g, err)
		}
		if DHName(id) == "" {
			t.Errorf("group %d has no name", g)
		}
	}
	if len(there) != len(Groups()) {
		t.Errorf("supported are %v, listed %v", there, Groups())
	}
	for _, id := range there {
		if k, err := NewKeyExchange(id, &counting{n: 1}); err != nil || len(k.Public()) != PublicLen(id) || PublicLen(id) == 0 {
			t.Errorf("%s: %v", DHName(id), err)
		}
	}
}
