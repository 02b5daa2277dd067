//go:build !nullcrypto

package esp

// NullCrypto says that this build neither encrypts nor authenticates, which only the benchmark's does (null.go).
const NullCrypto = false

func newNull() transform { return nil }
