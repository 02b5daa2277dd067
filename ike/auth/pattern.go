package auth

// Pattern says which identities a connection wants. It is comparable; the zero value wants any.
type Pattern struct {
	id   Identity // with wildcards inside when wild
	wild bool
}

// ParsePattern reads the words of ParseIdentity, and "*" or "%any" for every identity, "*.example.com" for one label below a domain (as TLS has it),
// "*@example.com" for one mail domain, and a DN where values may be "*": "C=CH, O=Example, CN=*".
func ParsePattern(s string) (Pattern, error) {
	id, err := ParseIdentity(s)
	return Pattern{id: id}, err
}

// ExactPattern wants one identity.
func ExactPattern(id Identity) Pattern { return Pattern{id: id} }

// Exact returns the one identity that the pattern wants, if it is so.
func (p Pattern) Exact() (Identity, bool) { return p.id, !p.Any() && !p.wild }

// Any reports whether every identity will do.
func (p Pattern) Any() bool { return p == Pattern{} }

// Matches reports whether an identity is one that the pattern wants.
func (p Pattern) Matches(id Identity) bool { return p.Any() || p.id.Equal(id) }

// String is what ParsePattern reads.
func (p Pattern) String() string { return p.id.String() }
