package ike

import "slices"

// reconfigure takes over a configuration that differs from ours only by further children, or by what stands in files of certificates and keys. Those that we know keep theirs: their SAs refer to it.
func (sa *SA) reconfigure(e Reconfigure) {
	if sa.conn == nil {
		return
	}
	merged := *e.Connection
	merged.Children = slices.Clone(merged.Children)
	for i, c := range merged.Children {
		if old := sa.childConfig(c.Name); old != nil {
			merged.Children[i] = old
		}
	}
	sa.conn = &merged
	for _, h := range sa.next.heirs {
		h.sa.conn = sa.conn
	}
}
