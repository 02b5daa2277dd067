package sim

import (
	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
)

// adopt: after a rekey of the IKE SA all that a machine holds is its successor's.
func (n *node) adopt(spi wire.SPI, a ike.Adopt) {
	if !a.Inherits {
		return
	}
	n.post(&n.plane.box, func() { n.plane.adopt(spi, a.SPI) })
	n.toDirectory(directory.Adopted{SPI: spi, Heir: a.SPI})
}

func (p *plane) adopt(old, heir wire.SPI) {
	p.ledger.Transfer(shard.Owner(old), shard.Owner(heir))
	delete(p.spis, shard.Owner(old))
	p.spis[shard.Owner(heir)] = heir
	if u, ok := p.usage[old]; ok {
		delete(p.usage, old)
		p.usage[heir] = u
	}
}
