package daemon

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cygnet/ike/control"
	"cygnet/xfrm/xfrmfake"
)

// TestRefusedChildIsTold: the IKE SA is up, its child is not, and status says why and when it is tried again.
func TestRefusedChildIsTold(t *testing.T) {
	sa, sb := pair(t)
	sb.remote = "10.7.0.0/16"
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	if _, f := a.up("b"); f == nil || f.Code != "selectors-mismatch" {
		t.Fatalf("%+v", f)
	}
	b.await("why the peer's request was refused", func(c control.Connection) bool {
		return len(c.RefusedChild) == 1 && strings.Contains(c.RefusedChild[0].Text, "10.7.0.0/16") && c.State == "connecting"
	})
	a.await("the child's error", func(c control.Connection) bool {
		return len(c.NotUp) == 1 && c.NotUp[0].Name == "lan" && strings.Contains(c.NotUp[0].LastErr, "selectors") && strings.HasPrefix(c.NotUp[0].NextTry, "in ") && c.LastErr == ""
	})
	// The other side learns better; the error goes with its cause.
	sb.remote = sa.local
	write(t, b.dir, sb)
	text, f := b.reload()
	if f != nil || !strings.Contains(text, "changed: it went down; to bring it up: ikectl up a\n") {
		t.Errorf("%v %s", f, text)
	}
	a.down("b")
	if _, f := a.up("b"); f != nil {
		t.Fatalf("%+v", f)
	}
	a.await("no error", func(c control.Connection) bool {
		return isUp(c) && len(c.NotUp) == 0 && c.IKE[0].RekeyIn > 60 && c.IKE[0].Children[0].RekeyIn > 60
	})
	b.await("no refusal", func(c control.Connection) bool { return isUp(c) && len(c.RefusedChild) == 0 })
}

// TestReloadAddsChild: what is up stays up, and the new child comes up beside it.
func TestReloadAddsChild(t *testing.T) {
	sa, sb := pair(t)
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	b.await("up", isUp)
	before := a.status().IKE[0]
	sa.more = "[connection.b.child.voice]\nlocal = [\"10.8.0.0/16\"]\nremote = [\"10.9.0.0/16\"]\n"
	sb.more = "[connection.a.child.voice]\nlocal = [\"10.9.0.0/16\"]\nremote = [\"10.8.0.0/16\"]\n"
	write(t, b.dir, sb)
	if text, f := b.reload(); f != nil || !strings.Contains(text, "child voice added; to bring it up here: ikectl up a\n") {
		t.Errorf("%v %s", f, text)
	}
	write(t, a.dir, sa)
	if text, f := a.reload(); f != nil || !strings.Contains(text, "child voice added\n") {
		t.Errorf("%v %s", f, text)
	}
	a.await("both children up", func(c control.Connection) bool { return isUp(c) && len(c.IKE) == 1 && len(c.IKE[0].Children) == 2 })
	b.await("both children up", func(c control.Connection) bool { return isUp(c) && len(c.IKE[0].Children) == 2 })
	after := a.status().IKE[0]
	if before.SPIi != after.SPIi || before.Children[0].SPIIn != after.Children[0].SPIIn {
		t.Errorf("the IKE SA or its first child was made anew: %+v, then %+v", before, after)
	}
	if b.status().Wanted != "down" {
		t.Error("the peer's tunnel became ours")
	}
}

// TestDiskNotice: status and up say that the files are not what is in force.
func TestDiskNotice(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	notice := func() string {
		t.Helper()
		st, err := a.client.Status(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		return st.Config
	}
	path := filepath.Join(a.dir, "conn.d/b.toml")
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := notice(); got != "" {
		t.Errorf("at the start: %s", got)
	}
	put(strings.Replace(sa.config(), "start", "strat", 1))
	if got := notice(); !strings.HasPrefix(got, "the configuration on disk was changed after it was loaded") {
		t.Errorf("changed: %q", got)
	}
	a.reload()
	if got := notice(); !strings.HasPrefix(got, "the configuration on disk was refused at ") || !strings.HasSuffix(got, ": ikectl check && ikectl reload") {
		t.Errorf("refused: %q", got)
	}
	if text, f := a.up("b"); f != nil || !strings.Contains(text, "the configuration on disk was refused at ") {
		t.Errorf("up: %v %s", f, text)
	}
	put(sa.config())
	if got := notice(); got != "" {
		t.Errorf("taken back: %s", got)
	}
	put(sa.config() + "# a remark\n")
	a.reload()
	if got := notice(); got != "" {
		t.Errorf("reloaded: %s", got)
	}
}

// TestPeersOwnDoing: what the peer began and closed is no error here, and a caller that was refused is told.
func TestPeersOwnDoing(t *testing.T) {
	sa, sb := pair(t)
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	b.await("up by the peer", func(c control.Connection) bool { return isUp(c) && c.Wanted == "down" && !c.IKE[0].Initiator })
	a.down("b")
	b.await("closed by the peer", func(c control.Connection) bool {
		return isDown(c) && c.LastErr == "" && c.LastEnd == "closed by the peer"
	})
	if err := os.WriteFile(filepath.Join(a.dir, "secrets/psk"), []byte("another secret, not the same 4712\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, f := a.reload(); f != nil {
		t.Fatal(f)
	}
	if _, f := a.up("b"); f == nil {
		t.Fatal("up with a wrong PSK")
	}
	b.await("the refused caller", func(c control.Connection) bool {
		return len(c.Refused) == 1 && strings.Contains(c.Refused[0].Text, "does not prove a.example: its PSK differs") && c.Refused[0].Seconds < 60
	})
}

// TestDownIsDown: the peer is refused until the operator here wants the connection again, and both are told.
func TestDownIsDown(t *testing.T) {
	sa, sb := pair(t)
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	b.await("up by the peer", isUp)
	b.down("a")
	b.await("the peer's tries refused", func(c control.Connection) bool {
		return c.Closed && len(c.Refused) == 1 && strings.HasSuffix(c.Refused[0].Text, "a.example asks for connection a and is refused: it was taken down here; to let it in: ikectl up a")
	})
	if log := b.log.String(); !strings.Contains(log, "a.example asks for connection a and is refused: it was taken down here") {
		t.Errorf("the log of b:\n%s", log)
	}
	if c := a.status(); c.Wanted != "up" {
		t.Errorf("%+v", c)
	}
	if _, f := b.up("a"); f != nil {
		t.Fatal(f)
	}
	b.await("up again", func(c control.Connection) bool { return isUp(c) && !c.Closed })
}

// TestErrorsAge: an error has an age, and is forgotten with a new up; an attempt tells how patient it is.
func TestErrorsAge(t *testing.T) {
	sa, sb := pair(t)
	sb.psk = "another secret, not the same 4712"
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	if _, f := a.up("b"); f == nil {
		t.Fatal("up with a wrong PSK")
	}
	a.await("the error", func(c control.Connection) bool {
		return strings.Contains(c.LastErr, "AUTHENTICATION_FAILED") && c.ErrAge > 0
	})
	b.stop()
	ctx, cancel := context.WithTimeout(deadline(t), 2*time.Second)
	defer cancel()
	go a.client.Up(ctx, "b", "", func(control.Line) {})
	a.await("no answer yet", func(c control.Connection) bool {
		return c.LastErr == "" && c.ErrAge == 0 && len(c.IKE) == 1 && c.IKE[0].Sent > 0 && c.IKE[0].Tries == 6
	})
	a.down("b")
}

// TestHostIsLookedAt: what the host lacks for the configuration is in the log from the start, and told by reload.
func TestHostIsLookedAt(t *testing.T) {
	sa, _ := pair(t)
	a := launch(t, sa, xfrmfake.New(), func(d *Daemon) {
		d.host.Has = func(netip.Addr) bool { return false }
		d.host.Addresses = func() []netip.Addr { return nil }
		d.host.Forwards = func(bool) bool { return false }
	})
	text, f := a.reload()
	for _, want := range []string{"conn.d/b.toml:2: connection b sends from 127.0.0.1, which is no address of this host", "conn.d/b.toml:8: this host forwards no IPv4 packets"} {
		if f != nil || !strings.Contains(text, want) || strings.Count(a.log.String(), want) != 2 {
			t.Errorf("%v: reload says\n%s, not %q; the log:\n%s", f, text, want, a.log)
		}
	}
}

// TestUpAsksQuietPeer: up of what is up already asks a peer of which nothing was heard.
func TestUpAsksQuietPeer(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New(), func(d *Daemon) { d.quiet = 0 })
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	text, f := a.up("b")
	if f != nil || !strings.HasPrefix(text, "is up, but the last packet came in 0 s ago: asking the peer whether it lives\nis up already, and the peer answers: 10.1.0.0/16") {
		t.Errorf("%v %s", f, text)
	}
	if got := a.status().IKE[0].Children[0].LastIn; got != -1 {
		t.Errorf("last in %d s ago, but no packet came", got)
	}
}

// countingPlane is a data plane that counts what it dropped.
type countingPlane struct{ *xfrmfake.Driver }

func (countingPlane) Counters() map[string]uint64 {
	return map[string]uint64{"dropped-in-replayed": 2, "dropped-in-padding": 0}
}

// TestCountersOfThePlane: what a data plane counts is in the status, and nothing that is zero.
func TestCountersOfThePlane(t *testing.T) {
	d := &Daemon{pool: &pool{}}
	d.plane = newPlane(d, countingPlane{xfrmfake.New()})
	m := d.counts(nil)
	if _, zero := m["dropped-in-padding"]; m["dropped-in-replayed"] != 2 || zero || m["goroutines"] == 0 {
		t.Errorf("%v", m)
	}
}
