package rig

import (
	"fmt"
	"regexp"
	"strings"

	"cygnet/ike/control"
)

// IKESA names the IKE SA that an end shows as established: "initiator's SPI/responder's SPI". With none or several at the moment it is an error.
func (c *CygnetEnd) IKESA() (string, error) {
	var st control.Status
	if err := c.Status(&st); err != nil {
		return "", err
	}
	var list []string
	for _, conn := range st.Connections {
		for _, sa := range conn.IKE {
			if sa.Phase == "established" {
				list = append(list, sa.SPIi+"/"+sa.SPIr)
			}
		}
	}
	return only(list)
}

// IKESA as for cygnet, in strongSwan's own words.
func (s *Swan) IKESA() (string, error) {
	out, err := s.swanctl("--list-sas", "--raw")
	if err != nil {
		return "", err
	}
	var list []string
	for _, m := range regexp.MustCompile(`state=ESTABLISHED [^{]*?initiator-spi=([0-9a-f]+) responder-spi=([0-9a-f]+)`).FindAllStringSubmatch(out, -1) {
		list = append(list, fmt.Sprintf("%016s/%016s", m[1], m[2]))
	}
	return only(list)
}

func only(list []string) (string, error) {
	if len(list) != 1 {
		return "", fmt.Errorf("%d IKE SAs: %s", len(list), strings.Join(list, ", "))
	}
	return list[0], nil
}
