// as: ike/transport

package bad

import (
	"net"
	"os"
	"sync"

	"filippo.io/bigmod"                 // want module
	"github.com/BurntSushi/toml"        // want module
	"github.com/sirupsen/logrus"        // want module
	"github.com/vishvananda/netlink"    // want module
	"github.com/vishvananda/netlink/nl" // want module

	"cygnet/ike"
	"cygnet/ike/shard" // want import
	"cygnet/ike/wire"
	"cygnet/xfrm/ledger" // want import
)
