package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"cygnet/xfrm/xfrmfake"
)

// TestBlockedIsTold: a clean stop names the connections whose packets the host goes on dropping, and no other.
func TestBlockedIsTold(t *testing.T) {
	for start, want := range map[string]bool{"boot": true, "traffic": true, "manual": false} {
		a, _ := pair(t)
		a.start = start
		n := launch(t, a, xfrmfake.New())
		n.peerGone = true
		n.stop()
		told := strings.Contains(n.log.String(), "b stays blocked (10.2.0.0/16): when_down = drop; to lift it: cygnetd --flush")
		if told != want {
			t.Errorf("start %s: told %v\n%s", start, told, n.log)
		}
	}
}

// TestPortsFirst: a port that is taken ends the start before the data plane is touched.
func TestPortsFirst(t *testing.T) {
	a, _ := pair(t)
	c, err := net.ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", a.natt))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := t.TempDir()
	write(t, dir, a)
	log := logrus.New()
	log.SetOutput(io.Discard)
	d, problems := New(Config{ConfigDir: dir, Socket: filepath.Join(dir, "s"), Log: log})
	if d == nil {
		t.Fatal(problems)
	}
	d.choose = func(context.Context, string, Config) (*dataplane, error) {
		t.Error("the data plane was opened")
		return nil, io.EOF
	}
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("UDP port %d", a.natt)) || !strings.Contains(err.Error(), "natt_port") {
		t.Error(err)
	}
}
