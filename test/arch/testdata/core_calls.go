// as: ike

package bad

import (
	"fmt"
	clock "time"
)

type waits struct {
	c chan int // want channel
}

const pause = clock.Second

func (w waits) bad(f func()) {
	go f()                   // want go
	<-w.c                    // want channel
	w.c <- 1                 // want channel
	select {}                // want channel
	println("")              // want print
	fmt.Println(clock.Now()) // want print clock
	_ = clock.Since          // want clock
	panic("contract")        // want panic
}

func fine(clock thing) {
	clock.Now()
	_ = fmt.Sprint(pause)
	panic("index out of range")
}

type thing interface{ Now() }

func init() {} // want init
