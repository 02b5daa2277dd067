package wire

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"
)

func TestLimits(t *testing.T) {
	repeat := func(n int, b []byte) []byte { return bytes.Repeat(b, n) }
	payloads := func(n int, t PayloadType, body ...byte) []byte {
		b := repeat(n, generic(t, 0, body...))
		b[len(b)-genericLen-len(body)] = byte(PayloadNone)
		return b
	}
	proposals := func(n int) []byte {
		var ps [][]byte
		for range n {
			ps = append(ps, proposal(ProtoIKE, nil, transform(TransformESN, 0)))
		}
		return generic(PayloadNone, 0, sa(ps...)...)
	}
	transforms := func(n int) []byte {
		var ts [][]byte
		for range n {
			ts = append(ts, transform(TransformESN, 0))
		}
		return generic(PayloadNone, 0, sa(proposal(ProtoIKE, nil, ts...))...)
	}
	selectors := func(n int) []byte {
		b := append([]byte{byte(n), 0, 0, 0}, repeat(n, []byte{otherTS, 0, 0, 4})...)
		return generic(PayloadNone, 0, b...)
	}
	attributes := func(n int) []byte {
		return generic(PayloadNone, 0, append([]byte{1, 0, 0, 0}, repeat(n, []byte{0, 25, 0, 0})...)...)
	}
	for _, c := range []struct {
		bound string
		limit int
		first PayloadType
		make  func(n int) []byte
	}{
		{"payloads in a message", MaxPayloads, PayloadVendor, func(n int) []byte { return payloads(n, PayloadVendor) }},
		{"payloads in a message", MaxPayloads, PayloadNotify, func(n int) []byte { return payloads(n, PayloadNotify, 0, 0, 0x40, 0) }},
		{"certificates in a message", MaxCertificates, PayloadCert, func(n int) []byte { return payloads(n, PayloadCert, 4) }},
		{"proposals in an SA payload", MaxProposals, PayloadSA, proposals},
		{"transforms in a proposal", MaxTransforms, PayloadSA, transforms},
		{"selectors in a TS payload", MaxSelectors, PayloadTSi, selectors},
		{"attributes in a CP payload", MaxCfgAttrs, PayloadCP, attributes},
	} {
		ps, err := ParsePayloads(c.first, c.make(c.limit))
		if err != nil {
			t.Errorf("%d %s: %v", c.limit, c.bound, err)
		}
		if _, _, err := AppendPayloads(nil, ps); err != nil {
			t.Errorf("%d %s encoded again: %v", c.limit, c.bound, err)
		}
		_, err = ParsePayloads(c.first, c.make(c.limit+1))
		var e *LimitError
		if !errors.As(err, &e) || !errors.Is(err, ErrTooMany) || e.Bound != c.bound || e.Limit != c.limit {
			t.Errorf("%d %s: %v", c.limit+1, c.bound, err)
		}
	}
}

// otherTS is a traffic selector type that nobody has defined.
const otherTS = 99

func TestMessageLimit(t *testing.T) {
	full := func(n int) []byte {
		half := generic(PayloadVendor, 0, make([]byte, 30000)...)
		return message(PayloadVendor, half, generic(PayloadNone, 0, make([]byte, n-HeaderLen-len(half)-genericLen)...))
	}
	if _, err := Decode(full(MaxMessage)); err != nil {
		t.Errorf("%d octets: %v", MaxMessage, err)
	}
	if _, err := Decode(full(MaxMessage + 1)); !errors.Is(err, ErrTooMany) {
		t.Errorf("%d octets: %v", MaxMessage+1, err)
	}
}

// worst are chains of 64 KiB that ask for the most work or memory that the codec can be made to spend.
func worst() map[string][]byte {
	var ps [][]byte
	for range MaxProposals {
		var ts [][]byte
		for range 100 {
			ts = append(ts, transform(TransformEncr, EncrAESCBC))
		}
		ps = append(ps, proposal(ProtoIKE, nil, ts...))
	}
	deletes := append([]byte{3, 4, 0x3f, 0}, make([]byte, 4*0x3f00)...)
	return map[string][]byte{
		"empty payloads": message(PayloadVendor, bytes.Repeat(generic(PayloadVendor, 0), 16000)),
		"transforms":     message(PayloadSA, generic(PayloadNone, 0, sa(ps...)...)),
		"attributes":     message(PayloadSA, generic(PayloadNone, 0, sa(proposal(ProtoIKE, nil, transform(1, 12, make([]byte, 64000)...)))...)),
		"SPIs to delete": message(PayloadDelete, generic(PayloadNone, 0, deletes...)),
		"zeros":          withLength(append(message(PayloadSA), make([]byte, 65000)...)),
		"one unknown":    message(200, generic(PayloadNone, 0, make([]byte, 65000)...)),
		"configuration":  message(PayloadCP, generic(PayloadNone, 0, make([]byte, 65000)...)),
		"octets of 0xff": withLength(slices.Concat(message(0xff), bytes.Repeat([]byte{0xff}, 65000))),
	}
}

// TestWorstCaseMemory: decoding allocates no more than a small multiple of the input, whatever it is.
func TestWorstCaseMemory(t *testing.T) {
	const rounds = 8
	for name, b := range worst() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			_, _ = Decode(b)
		}
		runtime.ReadMemStats(&after)
		if spent := int(after.TotalAlloc-before.TotalAlloc) / rounds; spent > 4*len(b) {
			t.Errorf("%s: %d octets allocated for %d", name, spent, len(b))
		}
	}
}

func BenchmarkDecodeWorst(b *testing.B) {
	for name, octets := range worst() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(octets)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Decode(octets)
			}
		})
	}
}

func BenchmarkDecodeRecorded(b *testing.B) {
	datagrams, _ := recorded(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Decode(datagrams[0].wire) // an IKE_SA_INIT request of 358 octets
	}
}
