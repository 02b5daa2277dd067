package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
)

// connection reads one [connection.NAME] table.
func (r *reader) connection(t *table, name string) {
	c := &Connection{Name: name, File: t.file, Line: t.line(""), Lines: t.lines.inside(t.path), NATKeepalive: DefaultNATKeepalive}
	if !goodName(name) {
		t.problem("", "bad-name", "use letters, digits, - and _, at most 64", "%q cannot be the name of a connection", name)
	}
	if r.stray(t, name) {
		return
	}
	if o := r.byName[name]; o != nil {
		hint := "give one of them another name"
		if _, has := t.rows["child"]; has && len(t.rows) == 1 {
			hint = fmt.Sprintf("a connection stands in one file with its children: move them to %s", o.File)
		}
		t.problem("", "duplicate-connection", hint, "connection %s stands already at %s:%d", name, o.File, o.Line)
	}
	r.local(t, c)
	r.remote(t, c)
	r.proofs(t, c)
	c.IKE = t.proposals("ike", wire.ProtoIKE)
	c.Lifetime = t.lifetimes()
	r.behaviour(t, c)
	r.children(t, c)
	t.done()
	r.agree(t, c)
	r.snapshot.Connections = append(r.snapshot.Connections, c)
	if r.byName[name] == nil {
		r.byName[name] = c
	}
}

func (r *reader) local(t *table, c *Connection) {
	const example = `local = { address = "192.0.2.1", id = "gw-a.example" }`
	l := t.table("local", example)
	if l == nil {
		if _, there := t.rows["local"]; !there {
			t.missing("local", "add "+example)
		}
		return
	}
	if s, ok := l.text("address", "192.0.2.1"); ok && s != "%any" {
		a, why := endAddress(s)
		if why == "" {
			c.Local.Address = a
		} else {
			l.problem("address", "bad-address", `write an address of this host, or "%any" to use whichever leads to the peer`, "address = %q in %s %s", s, l.path, why)
		}
	}
	c.Local.Proof = r.credential(l)
	c.Local.ID = l.localID(c.Local)
	l.done()
}

func (r *reader) remote(t *table, c *Connection) {
	const example = `remote = { address = "198.51.100.7", id = "gw-b.example" }`
	e := t.table("remote", example)
	if e == nil {
		if _, there := t.rows["remote"]; !there {
			t.missing("remote", "add "+example)
		}
		return
	}
	s, ok := e.text("address", "198.51.100.7")
	if _, there := e.rows["address"]; !there {
		e.missing("address", `add the peer's address or DNS name, or address = "%any" when it may call from anywhere`)
	}
	c.anywhere = s == "%any"
	if ok && !c.anywhere {
		a, why := endAddress(s)
		switch {
		case why == "":
			c.Remote.Address = a
		case hostName(s):
			c.Remote.Name = s
		default:
			e.problem("address", "bad-address", `write an address, a DNS name or "%any"`, "address = %q in %s %s", s, e.path, why)
		}
	}
	c.Remote.Port = uint16(e.integer("port", DefaultPort, 1, 65535))
	c.Remote.Proof = r.trust(e)
	c.Remote.ID, c.Remote.Match, c.several = e.remoteID(c.Remote.Address)
	e.done()
}

const idHint = `write a name such as "gw.example", an address, "user@example", "keyid:text" or a distinguished name "C=CH, O=Example, CN=gw"`

// id reads the text of an id. It has no default: both sides must agree on it, and a guess would only be found out by a refusal.
func (t *table) id(what string, addr netip.Addr) (string, bool) {
	s, ok := t.text("id", "gw-a.example")
	if _, there := t.rows["id"]; !there {
		hint := `add id = "gw.example", ` + what
		if addr.IsValid() {
			hint = fmt.Sprintf("add id = %q if the address is also the identity, or %s", addr, what)
		}
		t.missing("id", hint)
	}
	return s, ok
}

// localID reads our own id. A certificate has names of its own: then it may be absent.
func (t *table) localID(e End) auth.Identity {
	if _, there := t.rows["id"]; !there && e.Proof.Credential != nil && len(e.Proof.Credential.Chain) > 0 {
		return auth.Identity{}
	}
	s, ok := t.id("the name that the peer expects of us", e.Address)
	if !ok {
		return auth.Identity{}
	}
	id, err := auth.ParseIdentity(s)
	if err != nil {
		t.problem("id", "bad-id", idHint, "id in %s: %v", t.path, err)
	}
	return id
}

// remoteID reads the id of the peer, or a pattern for several.
func (t *table) remoteID(addr netip.Addr) (id auth.Identity, m auth.Pattern, several bool) {
	s, ok := t.id("the name by which the peer proves itself", addr)
	if !ok {
		return id, m, false
	}
	p, err := auth.ParsePattern(s)
	if err != nil {
		t.problem("id", "bad-id", idHint+`; "*.example", "*@example" or "C=CH, O=Example, CN=*" for several peers with certificates`, "id in %s: %v", t.path, err)
		return id, m, false
	}
	if id, exact := p.Exact(); exact {
		return id, m, false
	}
	return id, p, true
}

// endAddress reads the address of an end; why says what is wrong with it.
func endAddress(s string) (a netip.Addr, why string) {
	a, err := netip.ParseAddr(s)
	switch {
	case strings.HasPrefix(s, "["):
		return a, "is in brackets; write it without brackets: " + strings.Trim(s, "[]")
	case err != nil:
		return a, "is not an IP address"
	case a.Zone() != "":
		return a, "has a zone; use an address that is valid on every link"
	case a.Is4In6():
		return a, "is an IPv4 address in IPv6 clothes; write " + a.Unmap().String()
	case a.IsUnspecified():
		return a, "is the address of no host"
	case a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return a, "is not the address of one host"
	}
	return a, ""
}

// hostName says whether s can be a DNS name. One that ends in digits is a mistyped address.
func hostName(s string) bool {
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(strings.ToLower(l), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || l[0] == '-' {
			return false
		}
	}
	return len(s) <= 253 && strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// start reads when the connection comes up, and knows the words that others have for it.
func (t *table) start() Start {
	foreign := map[string]Start{"start": StartBoot, "auto": StartBoot, "yes": StartBoot, "route": StartTraffic, "trap": StartTraffic, "ondemand": StartTraffic,
		"add": StartManual, "none": StartManual, "ignore": StartManual, "no": StartManual}
	if s, _ := t.rows["start"].(string); foreign[s] != "" {
		t.get("start")
		t.problem("start", "bad-value", fmt.Sprintf("write start = %q; the words are manual, boot, traffic", foreign[s]), "start = %q in %s is none of manual, boot, traffic", s, t.path)
		return DefaultStart
	}
	return Start(t.word("start", string(DefaultStart), string(StartManual), string(StartBoot), string(StartTraffic)))
}

// behaviour reads when the connection comes up and what happens while it is down.
func (r *reader) behaviour(t *table, c *Connection) {
	c.Start = t.start()
	fallback := "drop"
	if c.Start == StartManual {
		fallback = "pass" // nothing is installed before "up" and nothing is left after "down"
	}
	c.Drop = t.word("when_down", fallback, "drop", "pass") == "drop"
	c.Encap = Encapsulation(t.word("encapsulation", string(EncapAuto), string(EncapAuto), string(EncapAlways), string(EncapNever)))
	c.Fragments = t.fragmentation()
	c.MOBIKE = t.flag("mobike", DefaultMOBIKE)
	c.Liveness = Liveness{DefaultLivenessIdle, DefaultLivenessTries, DefaultLivenessTimeout, DefaultLivenessFactor}
	l := t.table("liveness", `liveness = { idle = "30s", tries = 5, timeout = "4s" }`)
	if l == nil {
		return
	}
	c.Liveness.Idle = l.duration("idle", DefaultLivenessIdle, time.Second, 24*time.Hour)
	c.Liveness.Tries = int(l.integer("tries", DefaultLivenessTries, 1, 20))
	c.Liveness.Timeout = l.duration("timeout", DefaultLivenessTimeout, 100*time.Millisecond, time.Minute)
	l.done()
}

// agree looks for keys of one connection that contradict each other.
func (r *reader) agree(t *table, c *Connection) {
	l, p := c.Local.Address, c.Remote.Address
	switch {
	case l.IsValid() && p.IsValid() && l.Is4() != p.Is4():
		t.problem("remote.address", "contradiction", "give both ends addresses of one family", "local address %s and remote address %s are of different families", l, p)
	case l.IsValid() && l == p:
		t.problem("remote.address", "contradiction", "the remote address is the peer's", "local and remote address are both %s", l)
	}
	if c.anywhere && c.Start != StartManual {
		t.problem("start", "contradiction", `write start = "manual" and let the peer call, or give remote an address`, "start = %q needs a peer to call, but its address is %%any", c.Start)
	}
	if c.Start == StartTraffic && !c.Drop {
		t.problem("when_down", "contradiction", `write when_down = "drop", or start = "boot"`, `when_down = "pass" cannot go with start = "traffic": the packets that start the tunnel are held until it is up`)
	}
	if c.Local.ID.Type != 0 && c.Local.ID.Equal(c.Remote.ID) {
		t.warning("remote.id", "same-id", "give each end its own id", "local and remote id are both %s", c.Local.ID)
	}
}

// proposals reads ike or esp: one string or a list of them. The defaults stand in when the key is absent.
func (t *table) proposals(key string, proto wire.ProtocolID) (ps []wire.Proposal) {
	ps, _ = t.proposalsAndGroups(key, proto)
	return ps
}

func (t *table) proposalsAndGroups(key string, proto wire.ProtocolID) (ps []wire.Proposal, pfs []wire.GroupID) {
	lines, ok := t.list(key, "aes256gcm16")
	if !ok {
		if proto == wire.ProtoIKE {
			return defaultIKE(), nil
		}
		return defaultESP(), nil
	}
	for _, l := range lines {
		more, groups, wrong := readProposals(l.text, proto)
		ps, pfs = append(ps, more...), append(pfs, groups...)
		for _, w := range wrong {
			t.report(l.key, w)
		}
	}
	if len(ps) > wire.MaxProposals {
		t.problem(key, "bad-proposal", "leave some out", "%s in %s has %d proposals, at most %d can be sent", key, t.path, len(ps), wire.MaxProposals)
	}
	return ps, pfs
}

func (t *table) report(key string, w trouble) {
	t.problem(key, w.code, w.hint, "%s in %s: %s", strings.TrimRight(key, "[]0123456789"), t.path, w.text)
	t.r.problems[len(t.r.problems)-1].Warning = w.warning
}
