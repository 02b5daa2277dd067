// as: xfrm/ledger

package bad

import "time"

var (
	_ = time.Now       // want clock
	_ = time.After     // want clock
	_ = time.AfterFunc // want clock
	_ = time.NewTimer  // want clock
	_ = time.NewTicker // want clock
	_ = time.Sleep     // want clock
	_ = time.Tick      // want clock
	_ = time.Until     // want clock
	_ = time.Duration(1)
)
