package script

import (
	"fmt"
	"math/rand/v2"
)

// dice are the random octets of a party: the same in each run. Nonces can be forced.
type dice struct {
	w      *world
	stream *rand.ChaCha8
	force  string // "low" or "high": of the next nonce that is drawn
}

const nonceOctets = 32

func newDice(w *world, name string) *dice {
	var seed [32]byte
	copy(seed[:], fmt.Sprintf("party %s", name))
	return &dice{w: w, stream: rand.NewChaCha8(seed)}
}

// Read gives random octets. Nonces begin with 01 to FE, unless one is to be lower or higher than all others.
func (d *dice) Read(p []byte) (int, error) {
	d.stream.Read(p)
	if len(p) == nonceOctets {
		switch {
		case d.force == "low":
			p[0] = 0x00
		case d.force == "high":
			p[0] = 0xff
		default:
			p[0] = 0x01 + p[0]%0xfe
		}
		d.force = ""
	}
	d.w.tap.Drawn(p)
	return len(p), nil
}

// middle is a random reader that always draws the middle: pauses are as long as they are named.
type middle struct{}

func (middle) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0
	}
	p[0] = 0x80
	return len(p), nil
}
