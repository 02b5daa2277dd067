package control

import (
	"os"
	"path/filepath"
)

// startHint says how cygnetd is started on this host: by systemd where that runs and has the unit.
func startHint(root string) string {
	if _, err := os.Stat(filepath.Join(root, "run/systemd/system")); err == nil {
		for _, dir := range []string{"etc", "run", "usr/lib", "lib"} {
			if _, err := os.Stat(filepath.Join(root, dir, "systemd/system/cygnetd.service")); err == nil {
				return "start it: systemctl start cygnetd"
			}
		}
	}
	return "start it: cygnetd --config /etc/cygnet"
}
