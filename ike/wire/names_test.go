package wire

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEveryNumberHasAName reads numbers*.go: a constant whose String method does not know it is one that was forgotten.
func TestEveryNumberHasAName(t *testing.T) {
	stringers := map[string]func(n uint64) fmt.Stringer{
		"ExchangeType":  func(n uint64) fmt.Stringer { return ExchangeType(n) },
		"PayloadType":   func(n uint64) fmt.Stringer { return PayloadType(n) },
		"ProtocolID":    func(n uint64) fmt.Stringer { return ProtocolID(n) },
		"TransformType": func(n uint64) fmt.Stringer { return TransformType(n) },
		"NotifyType":    func(n uint64) fmt.Stringer { return NotifyType(n) },
		"IDType":        func(n uint64) fmt.Stringer { return IDType(n) },
		"AuthMethod":    func(n uint64) fmt.Stringer { return AuthMethod(n) },
		"CertEncoding":  func(n uint64) fmt.Stringer { return CertEncoding(n) },
		"HashID":        func(n uint64) fmt.Stringer { return HashID(n) },
		"TSType":        func(n uint64) fmt.Stringer { return TSType(n) },
		"CfgType":       func(n uint64) fmt.Stringer { return CfgType(n) },
		"AttrType":      func(n uint64) fmt.Stringer { return AttrType(n) },
		"PRFID":         func(n uint64) fmt.Stringer { return Transform{Type: TransformPRF, ID: uint16(n)} },
		"GroupID":       func(n uint64) fmt.Stringer { return Transform{Type: TransformADDKE1, ID: uint16(n)} },
		"Encr":          func(n uint64) fmt.Stringer { return Transform{Type: TransformEncr, ID: uint16(n)} },
		"Integ":         func(n uint64) fmt.Stringer { return Transform{Type: TransformInteg, ID: uint16(n)} },
		"ESN":           func(n uint64) fmt.Stringer { return Transform{Type: TransformESN, ID: uint16(n)} },
	}
	constant := regexp.MustCompile(`(?m)^\t((Encr|Integ|ESN)?\w*) +(\w+ )?= (\d+)`)
	seen := 0
	for _, file := range []string{"numbers.go", "numbers_notify.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]string{}
		for _, m := range constant.FindAllStringSubmatch(string(text), -1) {
			kind := strings.TrimSpace(m[3])
			if kind == "" {
				kind = m[2]
			}
			stringer, ok := stringers[kind]
			if !ok {
				t.Fatalf("%s: no stringer for %q", m[1], kind)
			}
			n, err := strconv.ParseUint(m[4], 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			name := stringer(n).String()
			if strings.Contains(name, "(") && !strings.HasSuffix(name, "L)") { // CRL and ARL have parentheses of their own
				t.Errorf("%s is %s", m[1], name)
			}
			if other := names[kind+name]; other != "" {
				t.Errorf("%s and %s are both %s", other, m[1], name)
			}
			names[kind+name] = m[1]
			seen++
		}
	}
	if seen < 280 {
		t.Errorf("only %d constants were read", seen)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		got  fmt.Stringer
		want string
	}{
		{SPI(0x01ab), "00000000000001ab"},
		{IKEIntermediate, "IKE_INTERMEDIATE"},
		{ExchangeType(99), "Exchange(99)"},
		{PayloadTSr, "TSr"},
		{PayloadType(99), "Payload(99)"},
		{ProtoESP, "ESP"},
		{ProtocolID(9), "Protocol(9)"},
		{NotifyNoProposalChosen, "NO_PROPOSAL_CHOSEN"},
		{NotifyFragmentationSupported, "IKEV2_FRAGMENTATION_SUPPORTED"},
		{NotifyType(16444), "SA_RESOURCE_INFO"},
		{NotifyType(12345), "Notify(12345)"},
		{IDType(99), "ID(99)"},
		{AuthMethod(99), "Auth(99)"},
		{CertEncoding(99), "CertEncoding(99)"},
		{HashID(99), "Hash(99)"},
		{TSType(99), "TS(99)"},
		{CfgType(99), "CFG(99)"},
		{AttrType(999), "Attr(999)"},
		{TransformType(99), "Transform(99)"},
		{TransformADDKE7, "ADDKE7"},
		{Transform{Type: TransformEncr, ID: EncrAESCBC, KeyBits: 256}, "ENCR_AES_CBC 256"},
		{Transform{Type: TransformEncr, ID: 999}, "ENCR(999)"},
		{Transform{Type: TransformPRF, ID: 999}, "PRF(999)"},
		{Transform{Type: TransformInteg, ID: 999}, "INTEG(999)"},
		{Transform{Type: TransformKE, ID: 14}, "2048-bit MODP Group"},
		{Transform{Type: TransformKE, ID: 999}, "Group(999)"},
		{Transform{Type: TransformESN, ID: 2}, "ESN(2)"},
		{Transform{Type: 99, ID: 3}, "Transform(99)(3)"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%#v is %q, want %q", c.got, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		t    Transform
		want string
	}{
		{Transform{Type: TransformEncr, ID: EncrAESGCM16, KeyBits: 256}, "AES-GCM-256"},
		{Transform{Type: TransformEncr, ID: EncrAESCBC, KeyBits: 128}, "AES-CBC-128"},
		{Transform{Type: TransformEncr, ID: EncrChaCha20Poly1305}, "ChaCha20-Poly1305"},
		{Transform{Type: TransformEncr, ID: EncrCamelliaCBC, KeyBits: 128}, "ENCR_CAMELLIA_CBC-128"},
		{Transform{Type: TransformPRF, ID: uint16(PRFHMACSHA256)}, "SHA2-256"},
		{Transform{Type: TransformPRF, ID: uint16(PRFHMACTiger)}, "PRF_HMAC_TIGER"},
		{Transform{Type: TransformInteg, ID: IntegSHA512_256}, "SHA2-512"},
		{Transform{Type: TransformInteg, ID: IntegNone}, "none"},
		{Transform{Type: TransformInteg, ID: IntegDESMAC}, "AUTH_DES_MAC"},
		{Transform{Type: TransformKE, ID: uint16(GroupMODP2048)}, "MODP-2048"},
		{Transform{Type: TransformKE, ID: uint16(GroupECP256)}, "ECP-256"},
		{Transform{Type: TransformKE, ID: uint16(GroupX25519)}, "X25519"},
		{Transform{Type: TransformADDKE1, ID: uint16(GroupMLKEM768)}, "ML-KEM-768"},
		{Transform{Type: TransformESN, ID: ESNYes}, "ESN"},
		{Transform{Type: TransformESN, ID: ESNNo}, "no ESN"},
		{Transform{Type: 99, ID: 3}, "Transform(99)(3)"},
	} {
		if got := c.t.Word(); got != c.want {
			t.Errorf("%s is %q, want %q", c.t, got, c.want)
		}
	}
}

// TestWordsDiffer: two algorithms of one type never look the same to the operator.
func TestWordsDiffer(t *testing.T) {
	for _, kind := range []TransformType{TransformEncr, TransformPRF, TransformInteg, TransformKE, TransformESN} {
		seen := map[string]uint16{}
		for id := range uint16(64) {
			word := Transform{Type: kind, ID: id}.Word()
			if other, ok := seen[word]; ok {
				t.Errorf("%s %d and %d are both %q", kind, other, id, word)
			}
			seen[word] = id
		}
	}
}

func TestNotifyError(t *testing.T) {
	for kind, want := range map[NotifyType]bool{0: true, NotifyInvalidSyntax: true, 16383: true, 16384: false, 65535: false} {
		if kind.IsError() != want {
			t.Errorf("%s is an error: %v", kind, !want)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	_, err := Decode(message(PayloadVendor, generic(PayloadNonce, 0, 1, 2), generic(PayloadNone, 0, 1, 2, 3)))
	if got, want := err.Error(), "Nonce payload, octet 38: a nonce of 3 octets, it has 16 to 256"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = Decode(message(PayloadVendor, generic(PayloadNone, 0, 1, 2), []byte{7}))
	if got, want := err.Error(), "octet 34: 1 octets follow the last payload"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = Decode(message(PayloadSA, generic(PayloadNone, 0, sa(proposal(ProtoESP, []byte("1234"), transform(1, 12, 9)))...)))
	if got, want := err.Error(), "SA payload, octet 52: 1 octets are left, an attribute has at least 4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	err = &LimitError{Bound: "payloads in a message", Limit: 64}
	if got, want := err.Error(), "more than 64 payloads in a message"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
