package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// hasUnusable reports whether a chain has a transform that came with attributes which do not fit. Those were not kept, so such a
// chain cannot be encoded again.
func hasUnusable(ps []Payload) bool {
	for _, sa := range All[*SA](ps) {
		for _, p := range sa.Proposals {
			for _, t := range p.Transforms {
				if t.Unusable {
					return true
				}
			}
		}
	}
	return false
}

// roundTrip checks that what was decoded encodes to octets of the same length, and these decode to the same.
func roundTrip(t *testing.T, first PayloadType, ps []Payload, length int) {
	t.Helper()
	again, b, err := AppendPayloads(nil, ps)
	if hasUnusable(ps) {
		var e *EncodeError
		if !errors.As(err, &e) {
			t.Fatalf("an unusable transform was encoded: %x, %v", b, err)
		}
		return
	}
	if err != nil || again != first || len(b) != length {
		t.Fatalf("encoded: first %s is %s, %d octets are %d, %v", first, again, length, len(b), err)
	}
	got, err := parseChain(again, b, outermost)
	if err != nil || !reflect.DeepEqual(got, ps) {
		t.Fatalf("decoded again, %v\n%#v\n%#v", err, ps, got)
	}
}

// seeds of whole messages.
func seedMessages(f *testing.F) {
	datagrams, _ := recorded(f)
	for _, d := range datagrams {
		if len(d.wire) < 1024 {
			f.Add(d.wire)
		}
	}
	m := &Message{Header: Header{SPIi: 1, MajorVersion: 2}, Payloads: append(onePayloadOfEach(), &SK{First: 35, Body: []byte{1}})}
	b, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(message(PayloadSKF, generic(PayloadIDi, 0, 0, 1, 0, 2, 9)))
}

func FuzzDecode(f *testing.F) {
	seedMessages(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderLen && len(b) <= MaxMessage {
			b = withLength(b) // the length is not what is to be found out
		}
		before := bytes.Clone(b)
		m, err := Decode(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		roundTrip(t, m.NextPayload, m.Payloads, len(b)-HeaderLen)
		CriticalUnknown(m.Payloads)
		if hasUnusable(m.Payloads) {
			return
		}
		encoded, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(encoded)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%v\n%#v\n%#v", err, m, again)
		}
	})
}

func FuzzParsePayloads(f *testing.F) {
	_, plaintexts := recorded(f)
	for _, p := range plaintexts {
		f.Add(uint8(p.first), p.wire)
	}
	f.Fuzz(func(t *testing.T, first uint8, b []byte) {
		ps, err := ParsePayloads(PayloadType(first), b)
		if err != nil {
			return
		}
		for _, p := range ps {
			if p.Type() == PayloadSK || p.Type() == PayloadSKF {
				t.Fatal("an Encrypted payload inside")
			}
		}
		roundTrip(t, PayloadType(first), ps, len(b))
	})
}

// seedBodies adds the bodies of the recorded payloads of some types.
func seedBodies(f *testing.F, types ...PayloadType) {
	datagrams, plaintexts := recorded(f)
	chains := [][]Payload{onePayloadOfEach()}
	for _, d := range datagrams {
		if m, err := Decode(d.wire); err == nil {
			chains = append(chains, m.Payloads)
		}
	}
	for _, p := range plaintexts {
		if ps, err := ParsePayloads(p.first, p.wire); err == nil {
			chains = append(chains, ps)
		}
	}
	for _, ps := range chains {
		for _, p := range ps {
			for _, t := range types {
				if body, err := p.appendBody(nil); err == nil && p.Type() == t {
					f.Add(uint8(t), body)
				}
			}
		}
	}
}

// fuzzBodies decodes one payload by its body. A type that is not asked for is taken as the first that is.
func fuzzBodies(f *testing.F, types ...PayloadType) {
	seedBodies(f, types...)
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		if len(body) > 0xffff-genericLen {
			return
		}
		asked := types[0]
		for _, k := range types {
			if PayloadType(kind) == k {
				asked = k
			}
		}
		if p, err := parseBody(asked, body); err == nil {
			roundTrip(t, asked, []Payload{p}, len(body)+genericLen)
		}
	})
}

func FuzzSA(f *testing.F)           { fuzzBodies(f, PayloadSA) }
func FuzzTS(f *testing.F)           { fuzzBodies(f, PayloadTSi, PayloadTSr) }
func FuzzNotifyDelete(f *testing.F) { fuzzBodies(f, PayloadNotify, PayloadDelete) }
func FuzzCP(f *testing.F)           { fuzzBodies(f, PayloadCP) }
