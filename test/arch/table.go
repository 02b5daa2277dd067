// Package arch says which package may import which, and what the pure core must not do; its test holds the tree to it.
//
// Why: the state machines can be run a million times in virtual time, and replayed from a seed, only as long as nothing in them
// looks at a clock, starts a goroutine or touches the system. One call is enough to lose that, and no other test would notice.
package arch

import "strings"

// module is the module's path; packages below are named without it.
const module = "cygnet"

// mayImport lists for each package what it may import of this module. It may then also import whatever those may.
var mayImport = map[string][]string{
	// Leaf.
	"xfrm/alg": {},
	// Pure core.
	"ike/wire":      {},
	"ike/suite":     {"ike/wire", "xfrm/alg"},
	"ike/auth":      {"ike/suite"},
	"ike/auth/eap":  {"ike/auth"},
	"policy":        {"ike/auth", "xfrm"},
	"ike":           {"policy", "ike/auth/eap"},
	"ike/shard":     {"ike"},
	"ike/directory": {"ike"},
	"xfrm":          {"xfrm/alg"},
	"xfrm/ledger":   {"xfrm"},
	"xfrm/esp":      {"xfrm"},
	// Rim.
	"xfrm/netcfg":     {"xfrm"},
	"xfrm/kernel":     {"xfrm", "xfrm/netcfg"}, // routes that steer traffic to its policies
	"xfrm/userspace":  {"xfrm/esp", "xfrm/netcfg"},
	"xfrm/xfrmfake":   {"xfrm"},
	"xfrm/bench":      {"xfrm/netcfg"},
	"xfrm/doctor":     {"xfrm/netcfg", "policy", "policy/load", "policy/pki", "policy/importer"},
	"policy/load":     {"policy"},
	"policy/pki":      {"policy"},
	"policy/importer": {"policy"},
	"ike/transport":   {"xfrm", "ike"}, // it delivers ike.Packet
	"ike/eaptls":      {"ike/auth"},
	// Leaves of the rim: the daemon translates.
	"ike/control": {}, "ike/fetch": {"ike/auth"}, "ike/radius": {}, "ike/store": {}, "ike/observe": {}, "ike/hook": {}, "ike/resolver": {},
	// Wiring.
	"ike/daemon": {
		"ike/shard", "ike/directory", "ike/transport", "ike/control", "ike/fetch", "ike/radius", "ike/store", "ike/observe", "ike/hook", "ike/resolver",
		"ike/eaptls", "policy/load", "policy/pki", "policy/importer", "xfrm/ledger", "xfrm/kernel", "xfrm/userspace", "xfrm/doctor", "xfrm/bench",
	},
	"cmd/cygnetd": {"ike/daemon"},
	"cmd/ikectl":  {"ike/control", "policy", "policy/load", "policy/pki", "policy/importer", "xfrm/doctor", "xfrm/bench"},
}

// onlyIn lists third-party modules by the packages that may import them.
var onlyIn = []struct {
	path, why string
	packages  []string
}{
	{"github.com/BurntSushi/toml", "the configuration's syntax is policy's business alone", []string{"policy"}},
	{"github.com/vishvananda/netlink", "only the drivers speak to the kernel", []string{"xfrm/kernel", "xfrm/netcfg", "xfrm/doctor", "xfrm/bench"}},
	{"github.com/vishvananda/netns", "only tests and measurements change namespaces", []string{"xfrm/bench"}},
	{"github.com/sirupsen/logrus", "one place logs an event; all others return it", []string{"ike/daemon", "ike/observe", "cmd/cygnetd", "cmd/ikectl"}},
	{"filippo.io/bigmod", "constant-time arithmetic is for the key exchange", []string{"ike/suite"}},
}

// core is the pure core: no clock, no goroutine, no channel, no lock, no system, no randomness of its own.
var core = map[string]bool{
	"ike": true, "ike/wire": true, "ike/suite": true, "ike/auth": true, "ike/auth/eap": true, "ike/shard": true, "ike/directory": true,
	"policy": true, "xfrm": true, "xfrm/alg": true, "xfrm/ledger": true, "xfrm/esp": true,
}

// notInCore lists imports that the core must not have, each with the reason. A path ending in "/" means everything below it.
var notInCore = []struct{ path, why string }{
	{"sync", "a machine is owned by one goroutine; a lock hides that it is not"},
	{"sync/", "a machine is owned by one goroutine; an atomic hides that it is not"},
	{"os", "files, environment and processes are the rim's: they would make a run depend on the host"},
	{"os/", "files, environment and processes are the rim's: they would make a run depend on the host"},
	{"io/fs", "files are the rim's"},
	{"path/filepath", "files are the rim's"},
	{"syscall", "the system is the rim's"},
	{"golang.org/x/sys/", "the system is the rim's"},
	{"unsafe", "the core parses hostile input: the language's checks stay on"},
	{"net", "sockets are ike/transport's; addresses are net/netip's"},
	{"net/", "sockets are ike/transport's; addresses are net/netip's"},
	{"log", "events go out as reports; the daemon logs them"},
	{"log/", "events go out as reports; the daemon logs them"},
	{"crypto/rand", "randomness comes in by Config.Rand, or a seed could not replay a run"},
	{"math/rand", "randomness comes in by Config.Rand, or a seed could not replay a run"},
	{"math/rand/", "randomness comes in by Config.Rand, or a seed could not replay a run"},
	{"hash/maphash", "its seed differs from process to process: neither replay nor hand-over"},
	{"runtime", "scheduling is the rim's"},
	{"testing", "no test hooks in the product"},
}

// inCoreAfterAll are exceptions from notInCore.
var inCoreAfterAll = map[string]bool{"net/netip": true}

// timeCalls look at a clock or wait for one; time.Duration and its constants are fine.
var timeCalls = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}

// channelTypes may name channel types, not use them: the seam to the drivers, which are of the rim.
var channelTypes = map[string]bool{"xfrm": true}

// topLevel is what the repository's root holds, beside dotfiles.
var topLevel = strings.Fields("cmd ike xfrm policy configs test Makefile go.mod go.sum README.md LICENSE CHANGELOG.md")

// allowed computes the closure of mayImport.
func allowed(pkg string) map[string]bool {
	all := make(map[string]bool)
	var add func(string)
	add = func(p string) {
		for _, q := range mayImport[p] {
			if !all[q] {
				all[q] = true
				add(q)
			}
		}
	}
	add(pkg)
	return all
}
