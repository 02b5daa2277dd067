// as: ike/novel

package bad

import "cygnet/ike/wire" // want import
