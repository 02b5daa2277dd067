package control

import (
	"runtime/debug"
	"strings"
)

// release is the version that CHANGELOG.md describes.
const release = "0.1.0"

// described is what "git describe" says of the sources; the Makefile sets it when it links.
var described string

// Version is the release, with the revision when the build knows one: "0.1.0 (3f90a30)". Between releases it is as git describes it:
// "0.1.0-12-g3f90a30".
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return version(described, info)
}

func version(described string, info *debug.BuildInfo) string {
	if tag, ok := strings.CutPrefix(described, "v"); ok {
		return tag
	}
	if described == "" {
		described = revision(info)
	}
	if described == "" {
		return release
	}
	return release + " (" + described + ")"
}

// revision is what the go command found out by itself, when the sources were in a repository.
func revision(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 7:
			rev = s.Value[:7]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return ""
	}
	return rev + dirty
}
