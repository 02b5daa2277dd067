package shard

import (
	"testing"

	"cygnet/ike"
)

// TestAuthNever: a half-open IKE SA that ends unanswered is counted, one that fails in another way or later is not.
func TestAuthNever(t *testing.T) {
	for _, c := range []struct {
		code        ike.Code
		established bool
		want        uint64
	}{{ike.CodeNoAnswer, false, 1}, {ike.CodeAuthFailed, false, 0}, {ike.CodeNoAnswer, true, 0}} {
		st := newStage(t, Config{})
		st.onStep = func(p *puppet, ev ike.Event, out *ike.Actions) {
			if _, ok := ev.(ike.Wake); ok {
				p.finished = true
				out.Add(ike.Finish{Code: c.code})
			}
		}
		st.packet("198.51.100.7:500", initRequest(t, 1, 1))
		p := st.puppets[0]
		p.established = c.established
		if c.established {
			st.step(ForSA{p.c.SPI, ike.Expire{}})
		}
		st.step(ForSA{p.c.SPI, ike.Wake{}})
		st.counted(AuthNever, c.want)
	}
}
