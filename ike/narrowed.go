package ike

import (
	"fmt"
	"strings"

	"cygnet/policy"
)

// narrowing says on which sides the peer's answer is smaller than what we offered (RFC 7296 section 2.9), which may be meant or a mistake on either side.
func (c *child) narrowing() string {
	var parts []string
	for _, side := range []struct {
		name         string
		offered, got []policy.TS
	}{{"local", c.config.Local, c.local}, {"remote", c.config.Remote, c.remote}} {
		if !policy.Within(side.offered, side.got) {
			parts = append(parts, fmt.Sprintf("%s to %s (%s was offered)", side.name, strings.Join(texts(side.got), ", "), strings.Join(texts(side.offered), ", ")))
		}
	}
	if parts == nil {
		return ""
	}
	return "the peer narrowed " + strings.Join(parts, " and ")
}
