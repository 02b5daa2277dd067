// as: ike/wire

package bad

import (
	"crypto/rand"  // want core
	"hash/maphash" // want core
	"log/slog"     // want core
	"math/rand/v2" // want core
	"net"          // want core
	"net/http"     // want core
	"net/netip"
	"os"      // want core
	"os/exec" // want core
	"runtime" // want core
	"runtime/debug"
	"sync"        // want core
	"sync/atomic" // want core
	"syscall"     // want core
	"unsafe"      // want core

	"golang.org/x/sys/unix" // want core

	"cygnet/ike"       // want import
	"cygnet/ike/suite" // want import
	"cygnet/test/rig"  // want import
)
