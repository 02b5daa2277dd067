package alg

import (
	"crypto/subtle"
	"fmt"
)

// Secret owns key material. It prints as "[secret]" under every verb and in JSON, and is wiped
// by its owner when the key is no longer used. Copies of a Secret share the same octets.
type Secret struct{ b []byte }

// NewSecret takes ownership of b: the caller must not use it afterwards.
func NewSecret(b []byte) Secret { return Secret{b} }

// Bytes returns the octets themselves, not a copy; they become zero after Wipe.
func (s Secret) Bytes() []byte { return s.b }

// Len returns the length in octets.
func (s Secret) Len() int { return len(s.b) }

// Clone returns an independent copy.
func (s Secret) Clone() Secret { return Secret{append([]byte(nil), s.b...)} }

// Equal compares in time that depends on the lengths alone.
func (s Secret) Equal(o Secret) bool { return subtle.ConstantTimeCompare(s.b, o.b) == 1 }

// Wipe zeroes the octets.
func (s Secret) Wipe() { clear(s.b) }

const redacted = "[secret]"

func (Secret) String() string               { return redacted }
func (Secret) GoString() string             { return redacted }
func (Secret) Format(f fmt.State, _ rune)   { f.Write([]byte(redacted)) }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
