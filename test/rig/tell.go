package rig

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cygnet/ike/control"
)

// Told is an end that does at once what it is told about a tunnel that is up. The calls may return before the peer has answered.
type Told interface {
	Renewer
	DeleteChild() error
	DeleteIKE() error
}

// Shown are the IKE SAs of an end, "initiator's SPI/responder's SPI", and its Child SAs, "SPI in/SPI out", both sorted.
type Shown struct {
	IKE, Children []string
}

// Same reports why two ends do not have exactly one IKE SA and one pair of Child SAs, the same ones, or nil. An end whose IKE SAs are named otherwise, by "#", has as many.
func Same(a, b Shown) error {
	ike := len(a.IKE) == 1 && len(b.IKE) == 1 && (a.IKE[0] == b.IKE[0] || a.IKE[0][0] == '#' || b.IKE[0][0] == '#')
	if ike && len(a.Children) == 1 && slices.Equal(a.Children, b.Mirror().Children) {
		return nil
	}
	return fmt.Errorf("not one IKE SA and one pair: one end shows %v, the other %v", a, b)
}

// Mirror is what the peer of such an end shows.
func (s Shown) Mirror() Shown {
	m := Shown{IKE: s.IKE}
	for _, c := range s.Children {
		in, out, _ := strings.Cut(c, "/")
		m.Children = append(m.Children, out+"/"+in)
	}
	slices.Sort(m.Children)
	return m
}

// DeleteChild implements Told.
func (c *CygnetEnd) DeleteChild() error { return c.told("down", "s2s", "--child", "lan") }

// DeleteIKE implements Told.
func (c *CygnetEnd) DeleteIKE() error { return c.told("down", "s2s") }

func (c *CygnetEnd) told(arg ...string) error {
	if out, code := c.Ikectl(arg...); code != 0 {
		return fmt.Errorf("ikectl %s: exit %d: %s", strings.Join(arg, " "), code, out)
	}
	return nil
}

// Shown implements Told.
func (c *CygnetEnd) Shown() (Shown, error) {
	return c.shown(func(control.IKESA) bool { return true })
}

// Standing is Shown without the IKE SAs that are closing, each of which has a time by which it ends, whatever the peer does.
func (c *CygnetEnd) Standing() (Shown, error) {
	return c.shown(func(sa control.IKESA) bool { return sa.Phase != "closing" })
}

func (c *CygnetEnd) shown(which func(control.IKESA) bool) (s Shown, err error) {
	var st control.Status
	if err := c.Status(&st); err != nil {
		return s, err
	}
	for _, conn := range st.Connections {
		for _, sa := range conn.IKE {
			if which(sa) {
				s.IKE = append(s.IKE, sa.SPIi+"/"+sa.SPIr)
			}
			for _, ch := range sa.Children {
				s.Children = append(s.Children, ch.SPIIn+"/"+ch.SPIOut)
			}
		}
	}
	return s.sorted(), nil
}

// Any reports whether one of some Child SAs is among those shown.
func (s Shown) Any(children []string) bool {
	return slices.ContainsFunc(children, func(c string) bool { return slices.Contains(s.Children, c) })
}

// Wanted reports whether cygnet will raise the connection by itself when it is down.
func (c *CygnetEnd) Wanted() (bool, error) {
	var st control.Status
	err := c.Status(&st)
	return len(st.Connections) > 0 && st.Connections[0].Wanted == "up", err
}

func (s Shown) sorted() Shown {
	slices.Sort(s.IKE)
	slices.Sort(s.Children)
	return s
}

// DeleteChild implements Told.
func (s *Swan) DeleteChild() error { return s.DownChild("lan") }

// DeleteIKE implements Told.
func (s *Swan) DeleteIKE() error { return s.Down() }

// Shown implements Told.
func (s *Swan) Shown() (v Shown, err error) {
	out, err := s.ListSAs()
	if err != nil {
		return v, err
	}
	for _, m := range regexp.MustCompile(`initiator-spi=([0-9a-f]+) responder-spi=([0-9a-f]+)`).FindAllStringSubmatch(out, -1) {
		v.IKE = append(v.IKE, fmt.Sprintf("%016s/%016s", m[1], m[2]))
	}
	for _, m := range regexp.MustCompile(`spi-in=([0-9a-f]+) spi-out=([0-9a-f]+)`).FindAllStringSubmatch(out, -1) {
		v.Children = append(v.Children, fmt.Sprintf("%08s/%08s", m[1], m[2]))
	}
	return v.sorted(), nil
}

// DeleteChild implements Told.
func (l *Libreswan) DeleteChild() error {
	_, err := l.ipsec("whack", "--asynchronous", "--down-child", "--name", "s2s")
	return err
}

// DeleteIKE implements Told.
func (l *Libreswan) DeleteIKE() error {
	_, err := l.ipsec("whack", "--asynchronous", "--down-ike", "--name", "s2s")
	return err
}

var _, _, _ Told = (*CygnetEnd)(nil), (*Swan)(nil), (*Libreswan)(nil)
