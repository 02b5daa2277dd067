// as: test/rig

package fine

import (
	"os"

	"github.com/vishvananda/netlink"

	"cygnet/ike/daemon"
)

func run(c chan int) { go func() { c <- 1 }() }
