package suite

import (
	"bytes"
	"testing"

	"cygnet/ike/wire"
)

// FuzzOpen: nothing that comes in makes Open panic, is changed by it or gives another error than the one.
func FuzzOpen(f *testing.F) {
	all := suites()
	for n, s := range all {
		i, _ := pair(f, s)
		rand := new(counting)
		for _, plaintext := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte{7}, 33)} {
			whole, err1 := i.Seal(testHeader, wire.PayloadDelete, plaintext, rand)
			part, err2 := i.SealFragment(testHeader, wire.PayloadDelete, 1, 2, plaintext, rand)
			if err1 != nil || err2 != nil {
				f.Fatal(err1, err2)
			}
			f.Add(uint8(n), whole, uint16(len(whole)-32))
			f.Add(uint8(n), part, uint16(len(part)-36))
			f.Add(uint8(n), whole[:len(whole)-1], uint16(0))
		}
	}
	x, _ := recorded(f)
	f.Add(uint8(0), []byte(x.AuthRequest), uint16(0))
	f.Fuzz(func(t *testing.T, n uint8, msg []byte, body uint16) {
		_, r := pair(t, all[int(n)%len(all)])
		before := bytes.Clone(msg)
		sk, skf := &wire.SK{Body: make([]byte, body)}, &wire.SKF{Body: make([]byte, body)}
		check := func(plaintext []byte, err error) {
			switch {
			case err != nil && (err != ErrIntegrity || plaintext != nil):
				t.Errorf("error %v with %x", err, plaintext)
			case err == nil && (plaintext == nil || len(plaintext) > len(msg)):
				t.Errorf("%d octets from %d", len(plaintext), len(msg))
			}
		}
		check(r.Open(msg, sk))
		check(r.OpenFragment(msg, skf))
		if m, err := wire.Decode(msg); err == nil && len(m.Payloads) > 0 {
			switch x := m.Payloads[len(m.Payloads)-1].(type) {
			case *wire.SK:
				check(r.Open(msg, x))
			case *wire.SKF:
				check(r.OpenFragment(msg, x))
			}
		}
		if !bytes.Equal(msg, before) {
			t.Error("the message was changed")
		}
	})
}

func BenchmarkProtector(b *testing.B) {
	for _, s := range suites() {
		i, r := pair(b, s)
		plaintext, rand := make([]byte, 1000), new(counting)
		msg, err := i.Seal(testHeader, 0, plaintext, rand)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("seal/"+s.String(), func(b *testing.B) {
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := i.Seal(testHeader, 0, plaintext, rand); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("open/"+s.String(), func(b *testing.B) {
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			sk := skOf(msg)
			for b.Loop() {
				if _, err := r.Open(msg, sk); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDerive(b *testing.B) {
	n, shared := make([]byte, 32), secret(make([]byte, 256))
	for b.Loop() {
		if _, err := Derive(suites()[0], shared, n, n, 1, 2); err != nil {
			b.Fatal(err)
		}
	}
}
