package auth

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"cygnet/ike/wire"
)

// ParseIdentity reads the words users know: an IP address, "name.example" or "@name.example" (FQDN), "user@example" (RFC822),
// "keyid:text" or "keyid:0x..." (KEY_ID), or an explicit "fqdn:", "rfc822:", "ipv4:", "ipv6:".
//
// Distinguished names are read as people copy them: "C=CH, O=Example, CN=gw" in the order of the certificate, "CN=gw,O=Example,C=CH" in that of RFC 4514;
// the wider end (C, DC, then ST, L, O, OU) tells which. "dn:" before it says that the order is RFC 4514's, "asn1dn:" that it is the certificate's.
func ParseIdentity(s string) (Identity, error) {
	id, err := parse(s)
	if err == nil && len(id.Data) > maxData {
		err = fmt.Errorf("it has %d octets, at most %d are accepted", len(id.Data), maxData)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("identity \"%s\": %w", wire.NewText([]byte(s)), err)
	}
	return id, nil
}

func parse(s string) (Identity, error) {
	if order, rest, ok := dnWords(s); ok {
		id, _, err := parseDNIdentity(rest, order, false)
		return id, err
	}
	if kind, value, ok := strings.Cut(s, ":"); ok {
		switch strings.ToLower(kind) {
		case "ipv4":
			return parseAddr(value, "an IPv4 address", netip.Addr.Is4)
		case "ipv6":
			return parseAddr(value, "an IPv6 address", netip.Addr.Is6)
		case "fqdn":
			return checked(wire.IDFQDN, value)
		case "rfc822":
			return checked(wire.IDRFC822Addr, value)
		case "keyid":
			return parseKeyID(value)
		}
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return parseAddr(s, "an IP address", netip.Addr.IsValid)
	}
	switch i := strings.LastIndexByte(s, '@'); {
	case i == 0:
		return parseName(s[1:])
	case i > 0:
		if err := checkDomain(s[i+1:]); err != nil {
			return Identity{}, err
		}
		return checked(wire.IDRFC822Addr, s)
	}
	return parseName(s)
}

// isKind reports whether a word names a type before a colon.
func isKind(word string) bool {
	switch strings.ToLower(word) {
	case "ipv4", "ipv6", "fqdn", "rfc822", "keyid", "dn", "asn1dn":
		return true
	}
	return false
}

// dnWords tells a distinguished name and its order by prefix or looks.
func dnWords(s string) (order dnOrder, rest string, ok bool) {
	if kind, value, ok := strings.Cut(s, ":"); ok {
		switch strings.ToLower(kind) {
		case "dn":
			return orderRFC4514, value, true
		case "asn1dn":
			return orderDER, value, true
		}
	}
	return orderGuess, s, looksLikeDN(s)
}

func parseDNIdentity(s string, order dnOrder, wild bool) (Identity, bool, error) {
	if len(s) > maxData {
		return Identity{}, false, fmt.Errorf("it has %d octets, at most %d are accepted", len(s), maxData)
	}
	n, star, err := parseDN(s, order, wild)
	if err != nil {
		return Identity{}, false, err
	}
	der, err := n.der()
	if err != nil || len(der) > maxData {
		return Identity{}, false, fmt.Errorf("the name is too long: at most %d octets are accepted", maxData)
	}
	return Identity{wire.IDDERASN1DN, string(der)}, star, nil
}

func parseAddr(s, want string, right func(netip.Addr) bool) (Identity, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !right(a) || a.Zone() != "" {
		return Identity{}, fmt.Errorf("%q is not %s without zone", s, want)
	}
	if a.Is4() {
		return Identity{wire.IDIPv4Addr, string(a.AsSlice())}, nil
	}
	return Identity{wire.IDIPv6Addr, string(a.AsSlice())}, nil
}

// checked takes the words after an explicit type with no more demands than a payload must meet.
func checked(t wire.IDType, s string) (Identity, error) {
	id := Identity{t, s}
	return id, id.check()
}

// parseName reads a domain name that stands for itself.
func parseName(s string) (Identity, error) {
	if err := checkDomain(s); err != nil {
		return Identity{}, err
	}
	return checked(wire.IDFQDN, s)
}

// checkDomain accepts the names of hosts, underscores included. It exists to catch slips of the pen: a mistyped address or a word of another
// kind must not become a name that nobody has.
func checkDomain(s string) error {
	const others = `; write "fqdn:...", "rfc822:...", "keyid:...", "ipv4:...", "ipv6:..." or "dn:..." for an identity of other form`
	if len(s) > 253 {
		return fmt.Errorf("the name has %d octets, a domain name at most 253", len(s))
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" {
			return fmt.Errorf("%q is not a domain name: it has an empty label%s", s, others)
		}
		if len(l) > 63 {
			return fmt.Errorf("%q is not a domain name: a label has %d octets, at most 63 are allowed%s", s, len(l), others)
		}
		for _, r := range l {
			if !isNameRune(r) {
				return fmt.Errorf("%q is neither an address nor a domain name: %q does not belong there%s", s, r, others)
			}
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return fmt.Errorf("%q looks like an IPv4 address, but is none%s", s, others)
	}
	return nil
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}

func parseKeyID(s string) (Identity, error) {
	if digits, ok := strings.CutPrefix(s, "0x"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			return Identity{}, fmt.Errorf("after keyid:0x come hexadecimal digits in pairs: %w", err)
		}
		return checked(wire.IDKeyID, string(b))
	}
	if !isKeyText(s) {
		return Identity{}, fmt.Errorf("after keyid: comes printable ASCII; write other octets as keyid:0x and hexadecimal digits")
	}
	return checked(wire.IDKeyID, s)
}

// isKeyText reports whether the octets of a key ID can be written as text.
func isKeyText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && !strings.HasPrefix(s, "0x")
}
