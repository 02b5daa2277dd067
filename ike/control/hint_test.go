package control

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStartHint(t *testing.T) {
	root := t.TempDir()
	const byHand, bySystemd = "start it: cygnetd --config /etc/cygnet", "start it: systemctl start cygnetd"
	for _, step := range []struct{ path, want string }{
		{"", byHand},
		{"usr/lib/systemd/system/cygnetd.service/x", byHand}, // systemd does not run
		{"run/systemd/system/x", bySystemd},
	} {
		if step.path != "" {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, step.path)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if got := startHint(root); got != step.want {
			t.Errorf("with %s: %s", step.path, got)
		}
	}
}
