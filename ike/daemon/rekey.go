package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cygnet/ike"
	"cygnet/ike/control"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// Rekey gives a connection new keys and waits until they are in use: its IKE SA, or its children (all, or the one that is named).
func (b backend) Rekey(ctx context.Context, name, child string, ikeSA bool, emit func(control.Line) error) *control.Failure {
	conn, f := b.find(name, child)
	if f != nil {
		return f
	}
	k := &renewal{b: b, conn: conn, start: time.Now(), emit: emit, ike: ikeSA}
	k.watcher = b.d.hub.watch(name)
	defer k.watcher.stop()
	return k.run(ctx, child)
}

// renewal is one wait of Rekey.
type renewal struct {
	b       backend
	conn    *policy.Connection
	start   time.Time
	emit    func(control.Line) error
	watcher *watcher
	ike     bool
	waiting []string             // children that are to have new keys
	old     map[string]xfrm.SAID // what they receive on now
	oldIKE  []wire.SPI           // our SPIs of the IKE SAs
}

// ownSPI is the one by which a shard knows the machine.
func ownSPI(m ike.Status) wire.SPI {
	if m.Initiated {
		return m.SPIi
	}
	return m.SPIr
}

func (k *renewal) run(ctx context.Context, child string) *control.Failure {
	v, err := k.b.d.view(k.conn.Name)
	if err != nil {
		return stopping()
	}
	if f := k.note(v, child); f != nil {
		return f
	}
	for _, m := range v.machines {
		if m.Phase == "established" {
			k.b.d.loopOf(ownSPI(m)).tell(ownSPI(m), ike.Rekey{Child: child, IKE: k.ike})
		}
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return control.Fail(control.CodeTimeout, "no new keys in the time given; the old ones stay in use", "cygnetd goes on; see: ikectl status "+k.conn.Name)
		case <-k.b.d.stopping:
			return stopping()
		case n := <-k.watcher.news:
			if over, f := k.hear(n); over {
				return f
			}
		case <-tick.C: // news may have been lost when there were very many
			if k.look() {
				return nil
			}
		}
	}
}

// note remembers what is to be replaced.
func (k *renewal) note(v view, child string) *control.Failure {
	k.old = make(map[string]xfrm.SAID)
	for _, m := range v.machines {
		if m.Phase == "established" {
			k.oldIKE = append(k.oldIKE, ownSPI(m))
		}
	}
	for _, c := range k.conn.Children {
		if up := v.child(c.Name); up.Up && (child == "" || child == c.Name) && !k.ike {
			k.waiting, k.old[c.Name] = append(k.waiting, c.Name), up.In
		}
	}
	hint := "ikectl up " + k.conn.Name
	switch {
	case len(k.oldIKE) == 0:
		return control.Fail("not-up", k.conn.Name+" is not up, so it has no keys to replace", hint)
	case k.ike, len(k.waiting) > 0:
		return nil
	case child == "":
		return control.Fail("not-up", "no child of "+k.conn.Name+" is up, so there are no keys to replace", hint)
	}
	return control.Fail("not-up", "child "+child+" is not up, so it has no keys to replace", hint+" --child "+child)
}

// hear handles one piece of news and reports whether the wait is over.
func (k *renewal) hear(n news) (over bool, f *control.Failure) {
	r := n.report
	switch {
	case n.finish != nil:
		if k.look() {
			return true, nil
		}
		v, err := k.b.d.view(k.conn.Name)
		if err != nil || len(v.machines) > 0 {
			return false, nil
		}
		return true, control.Fail(string(n.finish.Code), "the IKE SA ended before it had new keys: "+n.finish.Text, "")
	case r.Code == ike.CodeRekeyed, r.Code == ike.CodeIKERekeyed:
		return k.look(), nil
	case r.Code.Failure() && (k.ike && r.Child == "" || slices.Contains(k.waiting, r.Child)):
		return true, control.Fail(string(r.Code), r.Text, r.Hint)
	}
	if l, ok := n.line(); ok {
		k.emit(l)
	}
	return false, nil
}

// look asks whether all is replaced now, and ends the stream if so.
func (k *renewal) look() bool {
	v, err := k.b.d.view(k.conn.Name)
	if err != nil {
		return false
	}
	if k.ike {
		i := slices.IndexFunc(v.machines, func(m ike.Status) bool {
			return m.Phase == "established" && !slices.Contains(k.oldIKE, ownSPI(m)) && len(m.Children) > 0
		})
		if i < 0 {
			return false
		}
		m := v.machines[i]
		k.emit(control.Line{Connection: k.conn.Name, Code: "rekeyed", Done: true,
			Text: fmt.Sprintf("IKE SA rekeyed in %s: %s", elapsed(time.Since(k.start)), m.Suite), Detail: fmt.Sprintf("IKE SPIs %v (initiator), %v (responder)", m.SPIi, m.SPIr)})
		return true
	}
	for _, name := range k.waiting {
		if c := v.child(name); !c.Up || c.In == k.old[name] {
			return false
		}
	}
	for i, name := range k.waiting {
		c := v.child(name)
		k.emit(control.Line{Connection: k.conn.Name, Child: name, Code: "rekeyed", Done: i == len(k.waiting)-1,
			Text:   fmt.Sprintf("%s rekeyed in %s: %s", name, elapsed(time.Since(k.start)), k.b.d.describe(c)),
			Detail: fmt.Sprintf("ESP SPIs %08x (in), %08x (out)", c.SPIIn, c.SPIOut)})
	}
	return true
}
