package transport

import (
	"net"
	"strconv"
	"time"
)

// zones are the names of links, as the addresses of link-local peers bear them. A link can be renamed, so what was found is good for a while only.
type zones struct {
	names map[uint32]string
	until time.Time
}

const zonesFor = time.Minute

func (z *zones) name(index uint32) string {
	if now := time.Now(); z.names == nil || now.After(z.until) {
		z.names, z.until = make(map[uint32]string), now.Add(zonesFor)
	}
	name, ok := z.names[index]
	if !ok {
		name = strconv.FormatUint(uint64(index), 10)
		if link, err := net.InterfaceByIndex(int(index)); err == nil {
			name = link.Name
		}
		z.names[index] = name
	}
	return name
}
