package control

import "runtime/debug"

// release is the version that CHANGELOG.md describes.
const release = "0.1.0"

// Version is the release, with the revision when the build knows one: "0.1.0 (3f90a30)".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 7:
			rev = s.Value[:7]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", modified"
		}
	}
	if rev == "" {
		return release
	}
	return release + " (" + rev + dirty + ")"
}
