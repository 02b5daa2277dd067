package auth

import (
	"strings"
	"testing"

	"cygnet/ike/wire"
)

// CVE-2013-6075: an identity that only begins like another is not that one, in either order and in any type.
func TestCVE_2013_6075_Prefix(t *testing.T) {
	for _, typ := range []wire.IDType{wire.IDFQDN, wire.IDRFC822Addr, wire.IDKeyID, wire.IDDERASN1DN, wire.IDDERASN1GN} {
		whole := Identity{typ, "user@gw-a.example"}
		for n := range len(whole.Data) {
			part := Identity{typ, whole.Data[:n]}
			if part.Equal(whole) || whole.Equal(part) {
				t.Errorf("type %d: %q counts as %q", typ, part.Data, whole.Data)
			}
		}
		for _, more := range []string{"\x00", ".", " ", "a"} {
			if longer := (Identity{typ, whole.Data + more}); longer.Equal(whole) || whole.Equal(longer) {
				t.Errorf("type %d: %q counts as %q", typ, longer.Data, whole.Data)
			}
		}
	}
}

// CVE-2023-38711: each type with each length is an identity whose form is right, or an error; both can be printed.
func TestCVE_2023_38711_EveryType(t *testing.T) {
	good := map[wire.IDType]bool{
		wire.IDIPv4Addr: true, wire.IDIPv6Addr: true, wire.IDFQDN: true, wire.IDRFC822Addr: true, wire.IDKeyID: true,
		wire.IDDERASN1DN: true, wire.IDDERASN1GN: true, wire.IDNull: true,
	}
	for typ := range 256 {
		for _, n := range []int{0, 1, 3, 4, 5, 15, 16, 17, 64, maxData, maxData + 1} {
			id := Identity{wire.IDType(typ), strings.Repeat("a", n)}
			got, err := FromPayload(id.Payload(false))
			if err == nil && (!good[id.Type] || got != id || n > maxData) {
				t.Errorf("type %d of %d octets is taken as %v", typ, n, got)
			}
			if text := id.String(); text == "" || len([]rune(text)) > wire.MaxText {
				t.Errorf("type %d of %d octets prints as %q", typ, n, text)
			}
		}
	}
}
