package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestTrap_7383_2_FragmentNumbers(t *testing.T) {
	for _, c := range []struct {
		number, total uint16
		valid         bool
	}{
		{1, 1, true}, {1, 2, true}, {2, 2, true}, {MaxFragments, MaxFragments, true},
		{0, 0, false}, {0, 1, false}, {1, 0, false}, {2, 1, false}, {1, MaxFragments + 1, false}, {65535, 65535, false},
	} {
		body := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, c.number), c.total)
		m, err := Decode(message(PayloadSKF, generic(PayloadNone, 0, append(body, 1, 2, 3)...)))
		if (err == nil) != c.valid {
			t.Errorf("fragment %d of %d: %v", c.number, c.total, err)
		}
		if err == nil {
			if f := m.Payloads[0].(*SKF); f.Number != c.number || f.Total != c.total || !bytes.Equal(f.Body, []byte{1, 2, 3}) {
				t.Errorf("fragment %d of %d: %+v", c.number, c.total, f)
			}
		}
	}
	if _, err := Decode(message(PayloadSKF, generic(PayloadNone, 0, 0, 1, 0, 1))); err != nil {
		t.Errorf("no content: %v", err) // package suite misses the ICV
	}
	_, err := Decode(message(PayloadSKF, generic(PayloadNone, 0, 0, 1, 0)))
	refused(t, err, PayloadSKF, "at least 4")
}

func TestTrap_7383_4_FirstPayload(t *testing.T) {
	for _, c := range []struct {
		number byte
		want   PayloadType
	}{
		{1, PayloadIDi}, {2, PayloadNone},
	} {
		m, err := Decode(message(PayloadSKF, generic(PayloadIDi, 0, 0, c.number, 0, 2, 9)))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Payloads[0].(*SKF).First; got != c.want {
			t.Errorf("fragment %d names %s", c.number, got)
		}
	}
	if _, _, err := AppendPayloads(nil, []Payload{&SKF{First: PayloadIDi, Number: 2, Total: 2}}); err == nil {
		t.Error("fragment 2 was sent naming a payload")
	}
	// Unprotected payloads stand in fragment 1 only, SKF is the last.
	if _, err := Decode(message(PayloadNonce, generic(PayloadSKF, 0, make([]byte, 16)...), generic(PayloadIDi, 0, 0, 1, 0, 2, 9))); err != nil {
		t.Errorf("a payload before fragment 1: %v", err)
	}
	_, err := Decode(message(PayloadNonce, generic(PayloadSKF, 0, make([]byte, 16)...), generic(PayloadNone, 0, 0, 2, 0, 2, 9)))
	refused(t, err, PayloadSKF, "fragment 2 of 2 follows")
	if _, _, err := AppendPayloads(nil, []Payload{nonce(16), &SKF{Number: 2, Total: 2}}); err == nil {
		t.Error("fragment 2 was sent behind another payload")
	}
}

func TestTrap_7383_9_ManyUnknownBesideSKF(t *testing.T) {
	var chain [][]byte
	for range 2000 {
		chain = append(chain, generic(200, 0))
	}
	chain[len(chain)-1][0] = byte(PayloadSKF)
	_, err := Decode(message(200, append(chain, generic(PayloadNone, 0, 0, 1, 0, 1))...))
	if !errors.Is(err, ErrTooMany) {
		t.Errorf("2000 payloads beside SKF: %v", err)
	}
}
