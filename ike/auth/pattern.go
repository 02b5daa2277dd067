package auth

import (
	"fmt"
	"strings"

	"cygnet/ike/wire"
)

// Pattern says which identities a connection wants. It is comparable; the zero value wants any that is proved.
type Pattern struct {
	id   Identity // with "*" inside when wild
	wild bool
}

// ParsePattern reads the words of ParseIdentity, and "*" or "%any" for every identity, "*.example.com" for one label below a domain (as TLS has it),
// "*@example.com" for one mail domain, and a DN where values may be "*": "C=CH, O=Example, CN=*".
func ParsePattern(s string) (Pattern, error) {
	if s == "*" || s == "%any" {
		return Pattern{}, nil
	}
	p, err := parsePattern(s)
	if err != nil {
		return Pattern{}, fmt.Errorf("identity \"%s\": %w", text(s), err)
	}
	return p, nil
}

func parsePattern(s string) (Pattern, error) {
	if order, rest, ok := dnWords(s); ok {
		id, wild, err := parseDNIdentity(rest, order, true)
		return Pattern{id, wild}, err
	}
	if domain, ok := strings.CutPrefix(strings.TrimPrefix(s, "@"), "*."); ok {
		return Pattern{Identity{wire.IDFQDN, "*." + domain}, true}, checkDomain(domain)
	}
	if domain, ok := strings.CutPrefix(s, "*@"); ok {
		return Pattern{Identity{wire.IDRFC822Addr, "*@" + domain}, true}, checkDomain(domain)
	}
	if kind, _, ok := strings.Cut(s, ":"); strings.Contains(s, "*") && !(ok && isKind(kind)) {
		return Pattern{}, fmt.Errorf(`"*" stands for a whole label before a domain ("*.example.com"), for all users of a mail domain ("*@example.com"), or for a value of a distinguished name ("O=Example, CN=*")`)
	}
	id, err := parse(s)
	if err == nil && len(id.Data) > maxData {
		err = fmt.Errorf("it has %d octets, at most %d are accepted", len(id.Data), maxData)
	}
	return Pattern{id: id}, err
}

// ExactPattern wants one identity; the zero Identity wants any.
func ExactPattern(id Identity) Pattern { return Pattern{id: id} }

// Exact returns the one identity that the pattern wants, if it is so.
func (p Pattern) Exact() (Identity, bool) { return p.id, !p.Any() && !p.wild }

// Any reports whether every identity will do.
func (p Pattern) Any() bool { return p == Pattern{} }

// Matches reports whether an identity is one that the pattern wants. Nobody wants ID_NULL without having said so (RFC 7619 section 2.4).
func (p Pattern) Matches(id Identity) bool {
	switch {
	case p.Any():
		return id.Type != 0 && id.Type != wire.IDNull
	case !p.wild:
		return p.id.Equal(id)
	case p.id.Type != id.Type:
		return false
	}
	switch id.Type {
	case wire.IDFQDN:
		return underWildcard(p.id.Data, id.Data)
	case wire.IDRFC822Addr:
		at := strings.LastIndexByte(id.Data, '@')
		return at > 0 && lower(id.Data[at:]) == lower(p.id.Data[1:])
	case wire.IDDERASN1DN:
		name, ok := readDN([]byte(id.Data))
		want, ok2 := readDN([]byte(p.id.Data))
		return ok && ok2 && name.matches(want)
	}
	return false
}

// underWildcard reports whether a name is one label and what follows "*" (RFC 6125 section 6.4.3).
func underWildcard(wildcard, name string) bool {
	dot := strings.IndexByte(name, '.')
	return dot > 0 && name[:dot] != "*" && lower(name[dot:]) == lower(wildcard[1:])
}

// String is what ParsePattern reads; "*" for any.
func (p Pattern) String() string {
	switch {
	case p.Any():
		return "*"
	case p.wild && p.id.Type == wire.IDDERASN1DN:
		if n, ok := readDN([]byte(p.id.Data)); ok {
			return text("dn:" + n.pattern())
		}
	case p.wild:
		return text(p.id.Data)
	}
	return p.id.String()
}
