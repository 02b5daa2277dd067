package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestExclusive: the second is told who the first is, and comes in when that is gone.
func TestExclusive(t *testing.T) {
	name := fmt.Sprintf("@cygnet-test-%d", os.Getpid())
	release, err := exclusive(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exclusive(name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another cygnetd (pid %d)", os.Getpid())) {
		t.Errorf("a second: %v", err)
	}
	release()
	if release, err = exclusive(name); err != nil {
		t.Fatal(err)
	}
	release()
}
