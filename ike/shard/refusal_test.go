package shard

import (
	"fmt"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
)

// refusing is a stage whose responders refuse every IKE_SA_INIT request, as real ones do with strangers.
func refusing(t *testing.T) *stage {
	st := newStage(t, Config{})
	st.onStep = func(p *puppet, ev ike.Event, out *ike.Actions) {
		if pkt, ok := ev.(ike.Packet); ok {
			data := make([]byte, 36)
			data[18] = byte(wire.IKESAInit)
			p.finished = true
			out.Add(ike.Send{Path: pkt.Path, Data: data})
			out.Add(ike.Report{Code: ike.CodeNoProposal, Text: "refused"})
			out.Add(ike.Finish{Code: ike.CodeNoProposal})
		}
	}
	return st
}

// Forged requests that nobody here wants: few are read and answered, the rest is asked for a COOKIE and costs no machine and no line of the log.
func TestRefusalsAreFew(t *testing.T) {
	st := refusing(t)
	refused, demanded, lines := 0, 0, 0
	for i := range 10_000 {
		for _, a := range st.packet(fmt.Sprintf("10.0.%d.%d:500", i/250, i%250), initRequest(t, wire.SPI(i+1), 1)) {
			switch a := a.Action.(type) {
			case ike.Send:
				if len(a.Data) == 36 {
					refused++
				} else {
					demanded++
				}
			case ike.Report:
				lines++
			}
		}
		st.now = st.now.Add(time.Millisecond)
	}
	most := notifyRate.burst + int(10*time.Second/notifyRate.every)
	if refused > most || refused < most-2 || lines != refused || refused+demanded != 10_000 {
		t.Errorf("%d refusals with %d lines, %d cookies; want %d refusals", refused, lines, demanded, most)
	}
	if n := len(st.puppets); n != refused {
		t.Errorf("%d machines for %d refusals", n, refused)
	}
	st.counted(InitRefused, uint64(refused))
	if st.Len()+len(st.inits)+st.HalfOpen() != 0 || len(st.refusals.last) > 4*notifyRate.burst {
		t.Error("state was kept")
	}
}

// A second refusal to one source at once takes a cookie; with it the source is told, a few times in a second.
func TestRefusalsOfOneSource(t *testing.T) {
	st := refusing(t)
	const from = "198.51.100.7:500"
	if acts := st.packet(from, initRequest(t, 1, 1)); len(acts) != 3 {
		t.Fatalf("the first: %+v", acts)
	}
	acts := st.packet(from, initRequest(t, 2, 1))
	if len(acts) != 2 {
		t.Fatalf("the second: %+v", acts)
	}
	if f, ok := acts[0].Action.(ike.Finish); !ok || f.Code != ike.CodeIgnored || acts[0].SPI == 0 {
		t.Errorf("its machine: %+v", acts[0])
	}
	cookie := cookieFrom(t, acts[1:])
	st.counted(NotifyHeldBack, 1)
	if acts = st.packet(from, initRequest(t, 2, 1, cookie)); len(acts) != 3 {
		t.Fatalf("with the cookie: %+v", acts)
	}
	if acts = st.packet(from, initRequest(t, 2, 1, cookie)); len(acts) != 1 {
		t.Fatalf("with the cookie again: %+v", acts)
	}
	st.now = st.now.Add(provenRate.perSource)
	if acts = st.packet(from, initRequest(t, 2, 1, cookie)); len(acts) != 3 {
		t.Fatalf("with the cookie later: %+v", acts)
	}
	st.counted(InitRefused, 3)
	st.counted(NotifyHeldBack, 2)
}
