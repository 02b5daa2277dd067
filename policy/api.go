package policy

import "cygnet/xfrm/alg"

// Parse reads all sources as one configuration. secret reads the file behind a psk. When any Problem is not a Warning the Snapshot is nil.
func Parse(sources []Source, secret func(path string) (alg.Secret, error)) (*Snapshot, []Problem) {
	panic("contract")
}
