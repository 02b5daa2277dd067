package sim

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// conn is a connection between two nodes, as both of them configure it.
type conn struct {
	further  int // networks behind the first end, for large messages
	w        *world
	number   int
	ends     [2]*end
	children int
	psk      string
	ike      string // what both ends allow
	esp      string
	pfs      string
	protos   []string // of each child's selectors
	want     bool     // what is wanted in the end: up or down
}

// end is one node's side of a connection.
type end struct {
	conn   *conn
	node   *node
	side   int
	start  policy.Start
	drop   bool
	encap  bool
	extras bool // offers more than the peer allows
	byName bool
	any    bool // the peer may call from anywhere, and cannot be called
	idle   time.Duration
	tries  int
	wait   time.Duration

	longName       string // before the name in an identity
	fragments      string // lines of TOML; empty: the default
	lifetimes      string // of the IKE SA, in TOML; empty: the defaults, which no run reaches
	childLifetimes string
}

func (e *end) other() *end { return e.conn.ends[1-e.side] }

// name of the connection at this end.
func (e *end) name() string { return fmt.Sprintf("to-%s", e.other().node.name) }

func (e *end) hostName() string { return e.node.name + ".example" }

func (e *end) identity() string { return e.longName + e.hostName() }

func (e *end) canStart() bool { return !e.any }

// selectors of a child at an end, for its configuration.
func (c *conn) selectors(k, side int) string {
	text := fmt.Sprintf("%q", c.network(k, side)+c.protos[k])
	for i := range c.further {
		if side == 0 {
			text += fmt.Sprintf(", %q", fmt.Sprintf("10.%d.%d.0/24", 200+c.number, 10*k+i)+c.protos[k])
		}
	}
	return text
}

// network of a child at an end.
func (c *conn) network(k, side int) string {
	return fmt.Sprintf("10.%d.%d.0/24", 10+10*c.number+side, k)
}

// host in it.
func (c *conn) host(k, side int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(10 + 10*c.number + side), byte(k), 7})
}

func childName(k int) string { return fmt.Sprintf("c%d", k) }

// variant is a change of a configuration that a reload brings.
type variant uint8

const (
	plainVariant variant = iota
	wrongPSK
	lessChildren // without the last
	otherTimes   // nothing that the peer could see
	otherESP     // no common proposal
	gone         // the connection is not there
	variants
)

func (v variant) String() string {
	return [...]string{"as it was", "wrong PSK", "without the last child", "other liveness", "no common ESP proposal", "without the connection"}[v]
}

// text is the connection in TOML.
func (e *end) text(v variant) string {
	c, o := e.conn, e.other()
	if v == gone {
		return ""
	}
	var b strings.Builder
	when := "pass"
	if e.drop {
		when = "drop"
	}
	remote := o.node.addr.String()
	switch {
	case e.any:
		remote = "%any"
	case e.byName:
		remote = o.hostName()
	}
	local := e.node.addr.String()
	if e.byName || c.w.roams() && e.side == 1 {
		local = "%any"
	}
	secret := fmt.Sprintf("psk-%d", c.number)
	if v == wrongPSK {
		secret = "wrong"
	}
	idle := e.idle
	if v == otherTimes {
		idle += time.Second
	}
	fmt.Fprintf(&b, "[connection.%s]\nlocal = { address = %q, id = %q }\nremote = { address = %q, id = %q }\npsk = { file = %q }\n",
		e.name(), local, e.identity(), remote, o.identity(), secret)
	fmt.Fprintf(&b, "start = %q\nwhen_down = %q\nike = %q\nliveness = { idle = %q, tries = %d, timeout = %q }\n",
		e.start, when, e.words(c.ike, extraIKE(e)), idle, e.tries, e.wait)
	if e.encap {
		b.WriteString("encapsulation = \"always\"\n")
	}
	b.WriteString(e.fragments)
	b.WriteString(e.lifetimes)
	n := c.children
	if v == lessChildren && n > 1 {
		n--
	}
	esp := e.words(c.esp, "aes192gcm16")
	if v == otherESP {
		esp = "aes192-sha512"
	}
	for k := range n {
		fmt.Fprintf(&b, "[connection.%s.child.%s]\nlocal = [%s]\nremote = [%s]\nesp = %q\npfs = %q\n",
			e.name(), childName(k), c.selectors(k, e.side), c.selectors(k, o.side), esp, c.pfs)
		b.WriteString(e.childLifetimes)
	}
	return b.String()
}

// extraIKE is a proposal that the peer does not have, nor another peer of the same gateway: it would choose before it knows who asks.
func extraIKE(e *end) string {
	if e.side == 0 {
		return "aes256-sha512-x25519"
	}
	return "aes192-sha384-x25519"
}

// drawLifetimes chooses short ones. With equal times and no jitter both ends rekey at once.
func (c *conn) drawLifetimes() {
	w := c.w
	short := func(lo, hi int) string { return fmt.Sprintf("%ds", lo+w.rng.IntN(hi-lo)) }
	same, child, whole := w.chance(0.5), short(8, 60), short(15, 90)
	for _, e := range c.ends {
		if !same {
			child, whole = short(8, 60), short(15, 90)
		}
		switch {
		case w.chance(0.2):
			e.lifetimes = fmt.Sprintf("reauth_time = %q\n", whole)
		case w.chance(0.8):
			e.lifetimes = fmt.Sprintf("rekey_time = %q\nover_time = \"60s\"\n", whole)
		}
		if same && e.lifetimes != "" {
			e.lifetimes += "rand_time = \"0s\"\n"
		}
		if w.chance(0.8) {
			e.childLifetimes = fmt.Sprintf("rekey_time = %q\nlife_time = \"180s\"\n", child)
			if same {
				e.childLifetimes += "rand_time = \"0s\"\n"
			}
		}
		if w.chance(0.3) {
			e.childLifetimes += fmt.Sprintf("rekey_packets = %d\nlife_packets = 100000\n", 2+w.rng.IntN(10))
		}
	}
}

// words adds a proposal that only this end knows.
func (e *end) words(common, extra string) string {
	if !e.extras {
		return common
	}
	return extra + ", " + common
}

// plain is a node's configuration as it is meant to be.
func (n *node) plain() *policy.Snapshot {
	if n.asMeant == nil {
		n.asMeant = n.configuration(nil, plainVariant)
	}
	return n.asMeant
}

// configuration of a node; v changes one of its connections.
func (n *node) configuration(changed *end, v variant) *policy.Snapshot {
	var b strings.Builder
	fmt.Fprintf(&b, "[daemon]\ncookie_threshold = %d\n", cookieThreshold)
	for _, e := range n.conns {
		if e == changed {
			b.WriteString(e.text(v))
		} else {
			b.WriteString(e.text(plainVariant))
		}
	}
	text := b.String()
	snap, problems := policy.Parse([]policy.Source{{Name: "conn.d/" + n.name + ".toml", Data: []byte(text)}}, policy.Files{Secret: func(path string) (alg.Secret, error) {
		if path == "wrong" {
			return alg.NewSecret([]byte("this key is not the peer's")), nil
		}
		for _, c := range n.w.conns {
			if path == fmt.Sprintf("psk-%d", c.number) {
				return alg.NewSecret([]byte(c.psk)), nil
			}
		}
		return alg.Secret{}, errNoName
	}})
	if snap == nil {
		n.w.fail(Panic, "%s: its configuration is refused: %v\n%s", n.name, problems, text)
	}
	return snap
}
