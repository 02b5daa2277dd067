package transport

import (
	"bytes"
	"testing"
)

func TestClassify(t *testing.T) {
	ikeMessage := bytes.Repeat([]byte{7}, ikeHeaderLen)
	marked := append(make([]byte, markerLen), ikeMessage...)
	espPacket := []byte{0, 0, 1, 0, 0, 0, 0, 1}
	for _, c := range []struct {
		name string
		natt bool
		in   []byte
		kind kind
		body []byte
	}{
		{"empty", true, nil, kindNone, nil},
		{"keepalive", true, []byte{0xff}, kindKeepalive, nil},
		{"keepalive on the IKE port", false, []byte{0xff}, kindKeepalive, nil},
		{"one other octet", true, []byte{0xfe}, kindNone, nil},
		{"two octets 0xff", true, []byte{0xff, 0xff}, kindNone, nil},
		{"three octets", true, []byte{0, 0, 0}, kindNone, nil},
		{"marker alone", true, make([]byte, 4), kindNone, nil},
		{"marker and a short header", true, marked[:len(marked)-1], kindNone, nil},
		{"IKE behind the marker", true, marked, kindIKE, ikeMessage},
		{"ESP", true, espPacket, kindESP, espPacket},
		{"ESP without a whole header", true, espPacket[:7], kindNone, nil},
		{"IKE", false, ikeMessage, kindIKE, ikeMessage},
		{"short IKE", false, ikeMessage[1:], kindNone, nil},
		{"IKE whose SPI starts with zeros, on the IKE port", false, append(make([]byte, 4), ikeMessage[4:]...), kindIKE, append(make([]byte, 4), ikeMessage[4:]...)},
	} {
		k, body := classify(c.natt, c.in)
		if k != c.kind || !bytes.Equal(body, c.body) {
			t.Errorf("%s: got kind %d body %x, want %d %x", c.name, k, body, c.kind, c.body)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(true, []byte{0xff})
	f.Add(true, make([]byte, 32))
	f.Add(false, make([]byte, 28))
	f.Add(true, []byte{0, 0, 1, 0, 0, 0, 0, 1, 9})
	f.Fuzz(func(t *testing.T, natt bool, b []byte) {
		switch k, body := classify(natt, b); k {
		case kindIKE:
			if len(body) < ikeHeaderLen || !bytes.HasSuffix(b, body) || natt != (len(b)-len(body) == markerLen) {
				t.Fatalf("IKE message of %d of %d octets", len(body), len(b))
			}
		case kindESP:
			if !natt || len(body) != len(b) || bytes.HasPrefix(b, make([]byte, markerLen)) {
				t.Fatalf("ESP packet %x", b)
			}
		default:
			if body != nil {
				t.Fatal("a body of nothing")
			}
		}
	})
}

func FuzzAfterIPv4Header(f *testing.F) {
	f.Add([]byte{0x45, 19: 0, 20: 1})
	f.Add([]byte{0x4f, 59: 0})
	f.Add([]byte{0x44, 30: 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		body, ok := afterIPv4Header(b)
		if ok && (len(b)-len(body) < 20 || len(b)-len(body) > 60) {
			t.Fatalf("header of %d octets", len(b)-len(body))
		}
	})
}

// The parser of control messages reads what the kernel wrote; it must survive anything all the same.
func FuzzParseControl(f *testing.F) {
	f.Add(make([]byte, 32))
	f.Fuzz(func(t *testing.T, b []byte) { parseControl(b, "") })
}
