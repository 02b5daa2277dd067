package control

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	built := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "3f90a30aaaa"}, {Key: "vcs.modified", Value: "true"}}}
	for _, c := range []struct {
		described string
		info      *debug.BuildInfo
		want      string
	}{
		{"", nil, release},
		{"", &debug.BuildInfo{}, release},
		{"", built, release + " (3f90a30-dirty)"},
		{"5a90a30-dirty", built, release + " (5a90a30-dirty)"},
		{"v0.2.0", built, "0.2.0"},
		{"v0.2.0-12-g3f90a30", built, "0.2.0-12-g3f90a30"},
	} {
		if got := version(c.described, c.info); got != c.want {
			t.Errorf("described %q: %s, wanted %s", c.described, got, c.want)
		}
	}
}
