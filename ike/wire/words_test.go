package wire

import (
	"bytes"
	"strings"
	"testing"
)

// TestEncrWords: every encryption algorithm that people know by a word of its own, with and without a key length.
func TestEncrWords(t *testing.T) {
	for id, want := range map[uint16]string{
		Encr3DES: "3DES", EncrNull: "NULL", EncrAESCBC: "AES-CBC", EncrAESCTR: "AES-CTR", EncrAESCCM8: "AES-CCM-8", EncrAESCCM12: "AES-CCM-12",
		EncrAESCCM16: "AES-CCM", EncrAESGCM8: "AES-GCM-8", EncrAESGCM12: "AES-GCM-12", EncrAESGCM16: "AES-GCM", EncrNullAuthAESGMAC: "AES-GMAC",
		EncrCamelliaCBC: "ENCR_CAMELLIA_CBC", 999: "ENCR(999)",
	} {
		if got := EncrWord(id, 0); got != want {
			t.Errorf("%d is %q, want %q", id, got, want)
		}
		if got := EncrWord(id, 192); got != want+"-192" {
			t.Errorf("%d with 192 bits is %q", id, got)
		}
	}
}

// TestReasons: each reason names what was found and what was wanted, in this order, and where: the octet counts from the start of the message.
func TestReasons(t *testing.T) {
	tooFew := func(kind PayloadType, n int) []byte {
		return message(kind, generic(PayloadNone, 0, make([]byte, n)...))
	}
	skf := func(number, total byte) []byte {
		return message(PayloadSKF, generic(PayloadNone, 0, append([]byte{0, number, 0, total}, make([]byte, 40)...)...))
	}
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{make([]byte, 27), "octet 0: 27 octets are too few for an IKE header of 28"},
		{append(message(PayloadNone), 1), "octet 24: the header says 28 octets, the datagram has 29"},
		{message(PayloadNonce, []byte{0, 0, 0}), "Nonce payload, octet 28: announced, but 3 octets are left and a payload header has 4"},
		{message(PayloadNonce, []byte{0, 0, 0, 3}), "Nonce payload, octet 30: Payload Length is 3, possible is 4 to 4"},
		{message(PayloadNonce, []byte{0, 0, 0, 5}), "Nonce payload, octet 30: Payload Length is 5, possible is 4 to 4"},
		{tooFew(PayloadKE, 3), "KE payload, octet 32: 3 octets, a KE payload has at least 4"},
		{tooFew(PayloadAuth, 3), "AUTH payload, octet 32: 3 octets, an AUTH payload has at least 4"},
		{tooFew(PayloadIDi, 3), "IDi payload, octet 32: 3 octets, an ID payload has at least 4"},
		{tooFew(PayloadNotify, 3), "Notify payload, octet 32: 3 octets, a Notify payload has at least 4"},
		{message(PayloadNotify, generic(PayloadNone, 0, 3, 9, 0, 1, 1, 2)), "Notify payload, octet 33: SPI Size is 9, 2 octets are left"},
		{tooFew(PayloadDelete, 3), "Delete payload, octet 32: 3 octets, a Delete payload has at least 4"},
		{message(PayloadDelete, generic(PayloadNone, 0, 1, 4, 0, 2)), "Delete payload, octet 33: 2 SPIs of 4 octets to delete an IKE SA, which has none"},
		{message(PayloadDelete, generic(PayloadNone, 0, 3, 8, 0, 1)), "Delete payload, octet 33: SPI Size is 8, for ESP it is 4"},
		{message(PayloadDelete, generic(PayloadNone, 0, 7, 4, 0, 1)), "Delete payload, octet 32: Protocol ID is 7, possible are IKE, AH and ESP"},
		{message(PayloadDelete, generic(PayloadNone, 0, 3, 4, 0, 2, 9, 9, 9, 9)), "Delete payload, octet 34: 2 SPIs of 4 octets in 4 octets"},
		{message(PayloadEAP, generic(PayloadNone, 0, 1, 2, 0, 9)), "EAP payload, octet 34: EAP Length is 9, the payload holds 4"},
		{tooFew(PayloadTSi, 3), "TSi payload, octet 32: 3 octets, a TS payload has at least 4"},
		{skf(0, 2), "SKF payload, octet 32: fragment 0 of 2"},
		{skf(3, 2), "SKF payload, octet 32: fragment 3 of 2"},
		{skf(1, 65), "more than 64 fragments in a message"},
		{message(PayloadCP, generic(PayloadNone, 0, 1, 0, 0, 0, 0, 1, 0, 9, 7, 7)), "CP payload, octet 38: INTERNAL_IP4_ADDRESS has 9 octets, 2 are left"},
		{message(PayloadSA, generic(PayloadNone, 0)), "SA payload, octet 32: no proposal"},
		{message(PayloadSA, generic(PayloadNone, 0, 1, 2, 3)), "SA payload, octet 32: 3 octets are left, a substructure has at least 8"},
	} {
		_, err := Decode(c.b)
		if err == nil || err.Error() != c.want {
			t.Errorf("%x:\n got %v\nwant %s", c.b[min(28, len(c.b)):], err, c.want)
		}
	}
}

// TestEncodeReasons: what we may not send says so.
func TestEncodeReasons(t *testing.T) {
	ok := Header{MajorVersion: 2}
	for _, c := range []struct {
		m    Message
		want string
	}{
		{Message{Header: Header{MajorVersion: 3}}, "encode message: major version is 3, this codec writes 2"},
		{Message{Header: ok, Payloads: []Payload{&Nonce{Data: make([]byte, 15)}}}, "encode Nonce payload: a nonce of 15 octets, it has 16 to 256"},
		{Message{Header: ok, Payloads: []Payload{&Nonce{Data: make([]byte, 257)}}}, "encode Nonce payload: a nonce of 257 octets, it has 16 to 256"},
		{Message{Header: ok, Payloads: []Payload{&Notify{SPI: make([]byte, 256)}}}, "encode Notify payload: an SPI of 256 octets"},
		{Message{Header: ok, Payloads: []Payload{&Delete{Protocol: 9}}}, "encode Delete payload: Protocol ID 9"},
		{Message{Header: ok, Payloads: []Payload{&SKF{Number: 3, Total: 2}}}, "encode SKF payload: fragment 3 of 2, at most 64"},
		{Message{Header: ok, Payloads: []Payload{&SKF{Number: 2, Total: 2, First: PayloadSA}}}, "encode SKF payload: fragment 2 names SA as the first payload, only fragment 1 may"},
		{Message{Header: ok, Payloads: []Payload{&SA{Proposals: []Proposal{{Number: 4, Protocol: ProtoESP, SPI: make([]byte, 4)}}}}}, "encode SA payload: proposal 4 has no transform"},
		{Message{Header: ok, Payloads: []Payload{&VendorID{Data: make([]byte, 65532)}}}, "encode Vendor ID payload: 65536 octets do not fit the 16 bits of Payload Length"},
	} {
		if _, err := c.m.Encode(); err == nil || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	whole := Message{Header: ok, Payloads: []Payload{&VendorID{Data: bytes.Repeat([]byte{1}, MaxMessage-HeaderLen-genericLen)}}}
	if b, err := whole.Encode(); err != nil || len(b) != MaxMessage {
		t.Errorf("the largest message: %d octets, %v", len(b), err)
	}
	whole.Payloads[0].(*VendorID).Data = append(whole.Payloads[0].(*VendorID).Data, 1)
	if _, err := whole.Encode(); err == nil || !strings.Contains(err.Error(), "more than 65535 octets in a message") {
		t.Errorf("one octet more: %v", err)
	}
}
