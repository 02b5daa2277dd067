//go:build nullcrypto

package esp

// NullCrypto says that this build neither encrypts nor authenticates: it measures what the data plane costs without cryptography, and
// is good for nothing else. No target but the benchmark makes such a build.
const NullCrypto = true

// newNull returns the transform that leaves packets as they are.
func newNull() transform { return null{} }

type null struct{}

func (null) seal(p, plain []byte, ivEnd, end int, _ uint64) { copy(p[ivEnd:end], plain) }
func (null) open([]byte, int, int, uint64) bool             { return true }
