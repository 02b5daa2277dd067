package directory

import "cygnet/xfrm"

// Owner of a connection's own claims, its traps and blocks, in the ledger.
func Owner(connection string) xfrm.Owner { return xfrm.Owner("conn:" + connection) }
