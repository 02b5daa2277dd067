// as: xfrm

package bad

type seam interface {
	Events() <-chan int
}

func bad(s seam) int {
	return <-s.Events() // want channel
}
