// Package auth holds identities and the proofs of them: the signed octets and the shared-key AUTH of RFC 7296 section 2.15.
package auth

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"cygnet/ike/wire"
)

// Identity is an IKE identity (RFC 7296 section 3.5).
type Identity struct {
	Type wire.IDType
	Data string // octets of the identification data
}

// maxData bounds the identification data that we keep, in octets; a longer one is nobody's.
const maxData = 2048

// FromPayload checks the lengths that the type demands.
func FromPayload(p *wire.ID) (Identity, error) {
	id := Identity{p.IDType, string(p.Data)}
	if len(p.Data) > maxData {
		return Identity{}, fmt.Errorf("identity of %d octets: at most %d are accepted", len(p.Data), maxData)
	}
	if err := id.check(); err != nil {
		return Identity{}, err
	}
	return id, nil
}

// check looks at the form alone (RFC 7296 section 3.5).
func (id Identity) check() error {
	switch id.Type {
	case wire.IDIPv4Addr:
		return id.wantLen("ID_IPV4_ADDR", 4)
	case wire.IDIPv6Addr:
		return id.wantLen("ID_IPV6_ADDR", 16)
	case wire.IDNull: // RFC 7619 section 2.2
		return id.wantLen("ID_NULL", 0)
	case wire.IDFQDN:
		return id.wantText("ID_FQDN", unicode.MaxASCII)
	case wire.IDRFC822Addr: // UTF-8 since internationalized mail (section 3.5)
		return id.wantText("ID_RFC822_ADDR", unicode.MaxRune)
	case wire.IDKeyID, wire.IDDERASN1DN, wire.IDDERASN1GN:
		if id.Data == "" {
			return fmt.Errorf("identity of type %d is empty", id.Type)
		}
		return nil
	}
	return fmt.Errorf("identity of type %d: the type is not known", id.Type)
}

func (id Identity) wantLen(name string, n int) error {
	if len(id.Data) != n {
		return fmt.Errorf("%s of %d octets: it has %d", name, len(id.Data), n)
	}
	return nil
}

// wantText refuses terminators, which the string MUST NOT contain (section 3.5), and all other control characters.
func (id Identity) wantText(name string, highest rune) error {
	if id.Data == "" {
		return fmt.Errorf("%s is empty", name)
	}
	for i, r := range id.Data {
		if r == utf8.RuneError || r > highest || unicode.IsControl(r) {
			return fmt.Errorf("%s has the octet 0x%02x at position %d: only text without control characters or terminator is an identity", name, id.Data[i], i)
		}
	}
	return nil
}

// Payload builds the ID payload.
func (id Identity) Payload(responder bool) *wire.ID {
	return wire.NewID(responder, id.Type, []byte(id.Data))
}

// Equal compares types and data; FQDN and RFC822 domains without regard to case. That is ASCII's case: no other letter is
// equal to an ASCII one. Distinguished names are compared as RFC 5280 section 7.1 has it: the same attributes in the same order, whatever kinds of
// strings hold the values.
func (id Identity) Equal(o Identity) bool {
	if id.Type != o.Type {
		return false
	}
	switch id.Type {
	case wire.IDFQDN:
		return lower(id.Data) == lower(o.Data)
	case wire.IDRFC822Addr: // the part before the last @ belongs to the mail domain, which may tell cases apart
		i, j := strings.LastIndexByte(id.Data, '@'), strings.LastIndexByte(o.Data, '@')
		return id.Data[:i+1] == o.Data[:j+1] && lower(id.Data[i+1:]) == lower(o.Data[j+1:])
	}
	if id.Type == wire.IDDERASN1DN {
		return equalDN(id.Data, o.Data)
	}
	return id.Data == o.Data
}

// lower folds ASCII letters only: strings.EqualFold would take the Kelvin sign for a k.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// String is printable and bounded, also for identities that a peer sent. Where ParseIdentity knows words for the identity, it is those words,
// so that a name which only looks like an address is not shown as one.
func (id Identity) String() string {
	switch id.Type {
	case wire.IDIPv4Addr, wire.IDIPv6Addr:
		if a, ok := netip.AddrFromSlice([]byte(id.Data)); ok && id.check() == nil {
			return a.String()
		}
	case wire.IDFQDN:
		return id.plainOr("fqdn:")
	case wire.IDRFC822Addr:
		return id.plainOr("rfc822:")
	case wire.IDKeyID:
		if isKeyText(id.Data) {
			return printable("keyid:" + id.Data)
		}
		return printable("keyid:0x" + hex.EncodeToString([]byte(id.Data)))
	case wire.IDDERASN1DN:
		if name, ok := readDN([]byte(id.Data)); ok && len(name) > 0 {
			return printable("dn:" + name.String())
		}
	case wire.IDNull:
		return "(anonymous)" // in parentheses, which no word for an identity has
	}
	return printable(fmt.Sprintf("identity type %d:0x%x", id.Type, id.Data))
}

// plainOr gives the data as it is when ParseIdentity would read the same from it, else with the prefix that names its type.
func (id Identity) plainOr(prefix string) string {
	if p, err := ParseIdentity(id.Data); err == nil && p == id {
		return printable(id.Data)
	}
	return printable(prefix + id.Data)
}

func printable(s string) string { return string(wire.NewText([]byte(s))) }
