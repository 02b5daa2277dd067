// as: policy

package bad

var (
	table   = map[string]int{"a": 1}
	list    []int
	counter int
	config  struct{ n int }
	last    int
)

func bad() {
	table["b"] = 2     // want state
	counter++          // want state
	list = nil         // want state
	config.n = 1       // want state
	delete(table, "a") // want state
	clear(table)       // want state
	p := &config       // want state
	_ = p
	for last = range list { // want state
	}
}

func fine() int {
	counter, table := 0, map[string]int{}
	counter++
	table["x"] = 1
	return counter + list[0]
}
