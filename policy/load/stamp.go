package load

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"cygnet/policy"
)

// Stamp tells one state of a configuration on disk from another. It is no key to anything: of those only size, mode and time of change count.
type Stamp [sha256.Size]byte

// StampOf reads the files in dir again, and looks at the files of secrets and certificates that a snapshot names. What cannot be read is a state too.
func StampOf(dir string, s *policy.Snapshot) (stamp Stamp) {
	h := sha256.New()
	files, _ := find(dir)
	for _, name := range files {
		fmt.Fprintf(h, "%q\n", name)
		if f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|nonBlocking, 0); err == nil {
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				n, err := io.Copy(h, io.LimitReader(f, maxFile+1))
				fmt.Fprintf(h, "\n%d %v\n", n, err)
			}
			f.Close()
		}
	}
	for _, c := range s.Connections {
		for _, path := range c.ReadFiles() {
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if info, err := os.Stat(path); err == nil {
				fmt.Fprintf(h, "%q %d %v %s\n", path, info.Size(), info.Mode(), info.ModTime().Format(time.RFC3339Nano))
			}
		}
	}
	h.Sum(stamp[:0])
	return stamp
}
