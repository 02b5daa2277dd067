package script

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
	"cygnet/xfrm/ledger"
	"cygnet/xfrm/xfrmfake"
)

// party is a gateway with its data plane.
type party struct {
	w       *world
	name    string
	peer    *party
	addr    netip.Addr
	nat     bool // it sits behind one
	extra   map[string][]string
	dice    *dice
	driver  *xfrmfake.Driver
	alive   bool
	life    int // its events of an earlier one are void
	cut     bool
	shard   *shard.Shard
	actions []shard.Action

	directory *directory.Directory
	ledger    *ledger.Ledger
	spis      map[xfrm.Owner]wire.SPI
	usage     map[wire.SPI]map[xfrm.SAID]uint64

	initiators map[wire.SPI]wire.SPI // SPIi of the IKE SAs by our SPI, for names
}

func newParty(w *world, name, addr string) *party {
	p := &party{w: w, name: name, addr: netip.MustParseAddr(addr), extra: make(map[string][]string), dice: newDice(w, name), initiators: make(map[wire.SPI]wire.SPI)}
	p.driver = xfrmfake.New()
	p.driver.SetClock(p.seconds)
	return p
}

func (p *party) seconds() int64 { return int64(p.w.now) / 1e9 }

// connection is the name of the connection to the peer.
func (p *party) connection() string { return "to-" + p.peer.name }

// soon has f run in this instant, if the daemon still lives then.
func (p *party) soon(f func()) { p.at(p.w.now, f) }

func (p *party) at(at ike.Time, f func()) {
	life := p.life
	p.w.when(at, func() {
		if p.alive && p.life == life {
			f()
		}
	})
}

// host is an address in a child's network at this party.
func (p *party) host(child int) netip.Addr {
	net := byte(1)
	if p.name == "b" {
		net = 2
	}
	return netip.AddrFrom4([4]byte{10, net, byte(child), 7})
}

// text is the configuration. A line that a scenario gives stands for the default of the same key.
func (p *party) text() string {
	var b strings.Builder
	section := func(title, key string, lines ...string) {
		fmt.Fprintf(&b, "[%s]\n", title)
		given := p.extra[key]
		for _, line := range lines {
			name, _, _ := strings.Cut(line, " ")
			if !slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, name+" ") }) {
				fmt.Fprintln(&b, line)
			}
		}
		for _, g := range given {
			fmt.Fprintln(&b, g)
		}
	}
	remote := p.peer.addr.String()
	if p.peer.nat {
		remote = "%any"
	}
	section("connection."+p.connection(), "",
		fmt.Sprintf("local = { address = %q, id = \"%s.example\" }", p.addr, p.name),
		fmt.Sprintf("remote = { address = %q, id = \"%s.example\" }", remote, p.peer.name),
		`psk = { file = "psk" }`, `ike = "aes256gcm16-prfsha256-x25519"`, `rand_time = "0s"`, `liveness = { idle = "24h" }`)
	for i, child := range p.w.children {
		section("connection."+p.connection()+".child."+child, child,
			fmt.Sprintf("local = [\"10.%d.%d.0/24\"]", p.host(i).As4()[1], i), fmt.Sprintf("remote = [\"10.%d.%d.0/24\"]", p.peer.host(i).As4()[1], i),
			`esp = "aes256gcm16"`, `rand_time = "0s"`, `pfs = "no"`)
	}
	return b.String()
}

func (p *party) snapshot() (*policy.Snapshot, error) {
	text := p.text()
	snap, problems := policy.Parse([]policy.Source{{Name: p.name + ".toml", Data: []byte(text)}}, policy.Files{Secret: func(string) (alg.Secret, error) {
		return alg.NewSecret([]byte("the same long secret at both ends")), nil
	}})
	for _, problem := range problems {
		if !problem.Warning {
			return nil, fmt.Errorf("the configuration of %s: %v\n%s", p.name, problem, text)
		}
	}
	return snap, nil
}

// boot starts the daemon as Daemon.Run does.
func (p *party) boot() error {
	snap, err := p.snapshot()
	if err != nil {
		return err
	}
	p.alive = true
	p.life++
	p.shard = shard.New(shard.Config{Count: 1, Rand: p.dice, Snapshot: snap, Caps: p.driver.Capabilities()})
	p.directory = directory.New(middle{})
	p.ledger, p.spis, p.usage = ledger.New(), make(map[xfrm.Owner]wire.SPI), make(map[wire.SPI]map[xfrm.SAID]uint64)
	p.directed(directory.Load{Snapshot: snap})
	p.repair()
	return nil
}

// move gives the host another address in place of the one that it has.
func (p *party) move(to string) error {
	addr, err := netip.ParseAddr(to)
	if err != nil {
		return err
	}
	p.addr = addr
	p.turn(shard.Paths{Own: []netip.Addr{addr}})
	p.toDirectory(directory.Paths{})
	return nil
}

// crash ends the daemon at once. What the data plane holds stays.
func (p *party) crash() {
	p.alive = false
	p.life++
	p.driver.Close()
	p.driver = p.driver.Reopen()
	p.driver.SetClock(p.seconds)
}

// turn is one Step of the shard and the carrying out of what it asked.
func (p *party) turn(ev shard.Event) {
	p.shard.Step(p.w.now, ev, &p.actions)
	actions := slices.Clone(p.actions)
	clear(p.actions)
	p.actions = p.actions[:0]
	for _, a := range actions {
		p.do(a.SPI, a.Action)
	}
	if at, ok := p.shard.Deadline(); ok {
		p.at(at, func() {
			if due, ok := p.shard.Deadline(); ok && due <= p.w.now {
				p.turn(shard.Wake{})
			}
		})
	}
	p.drain()
}

// tell delivers an event to the machine with our SPI.
func (p *party) tell(spi wire.SPI, ev ike.Event) {
	p.soon(func() { p.turn(shard.ForSA{SPI: spi, Event: ev}) })
}

func (p *party) toDirectory(ev directory.Event) { p.soon(func() { p.directed(ev) }) }

// do carries out an action of a machine, as ike/daemon does.
func (p *party) do(spi wire.SPI, action ike.Action) {
	switch a := action.(type) {
	case ike.Send:
		p.note(spi, a.Data)
		p.w.link.send(p, a.Path, slices.Clone(a.Data))
	case ike.Keepalive:
	case ike.Job:
		result := a.Run()
		p.tell(spi, ike.JobDone{Token: a.Token, Result: result})
	case ike.Resolve:
		p.tell(spi, ike.ResolveDone{Token: a.Token, Local: p.addr, Remote: []netip.Addr{a.Remote}})
	case ike.SADB:
		p.soon(func() { p.batch(spi, a) })
	case ike.UsageQuery:
		p.soon(func() { p.usageOf(spi, a) })
	case shard.Opened:
		p.toDirectory(directory.Opened{Connection: a.Connection, SPI: spi})
	case ike.Claim:
		p.toDirectory(directory.Claimed{SPI: spi, Claim: a})
	case ike.Adopt:
		if a.Inherits {
			p.soon(func() { p.adopt(spi, a.SPI) })
			p.toDirectory(directory.Adopted{SPI: spi, Heir: a.SPI})
		}
	case ike.Moved:
		p.toDirectory(directory.Moved{SPI: spi, Moved: a})
	case ike.Reauthenticate:
		p.toDirectory(directory.Reauthenticate{SPI: spi})
	case ike.Report:
		p.report(spi, a)
	case ike.Finish:
		if a.Code != ike.CodeIgnored {
			p.story("%sends: %s", p.ikeName(spi), a.Text)
		}
		if spi != 0 {
			p.soon(func() { p.finish(spi) })
		}
		p.toDirectory(directory.Finished{SPI: spi, Finish: a})
	default:
		p.w.problem("%s: a machine asked for %T, which no command can do", p.name, a)
	}
}

// note remembers which IKE SA a machine is.
func (p *party) note(spi wire.SPI, data []byte) {
	if h, err := wire.ParseHeader(data); err == nil {
		p.initiators[spi] = h.SPIi
	}
}

// ikeName names the IKE SA of a machine that has sent something.
func (p *party) ikeName(spi wire.SPI) string {
	if spii := p.initiators[spi]; spii != 0 {
		return p.w.names.ofIKE(spii) + " "
	}
	return ""
}

// story is what a party says, below the columns of messages.
func (p *party) story(format string, args ...any) {
	p.w.show("%s     %s", p.name, fmt.Sprintf(format, args...))
}

func (p *party) report(spi wire.SPI, r ike.Report) {
	switch r.Code {
	case ike.CodeChildUp, ike.CodeRekeyed:
		p.toDirectory(directory.ChildUp{SPI: spi, Connection: r.Connection, Child: r.Child})
	case ike.CodeChildDown:
		p.toDirectory(directory.ChildDown{SPI: spi, Connection: r.Connection, Child: r.Child})
	case ike.CodeInternal:
		p.w.problem("%s: internal: %s", p.name, r.Text)
	}
	switch {
	case r.Code.Failure() && r.Child != "":
		p.toDirectory(directory.ChildFailed{SPI: spi, Child: r.Child, Text: r.Text})
	case r.Caller != "":
		p.toDirectory(directory.CallerRefused{Connection: r.Caller, Code: r.Code, Text: r.Text})
	}
	switch r.Code {
	case ike.CodeSent, ike.CodePhase: // the messages stand there themselves
		return
	}
	if r.Child != "" {
		p.story("%s: %s", r.Child, r.Text)
		return
	}
	p.story("%s", r.Text)
}

// directed is one Step of the directory and the carrying out of what it asked.
func (p *party) directed(ev directory.Event) {
	var actions []directory.Action
	p.directory.Step(p.w.now, ev, &actions)
	for _, action := range actions {
		switch a := action.(type) {
		case directory.Start:
			p.soon(func() {
				p.turn(shard.Open{Connection: a.Connection, Children: a.Children, InitialContact: a.InitialContact})
			})
		case directory.Tell:
			p.tell(a.SPI, a.Event)
		case directory.Claims:
			p.soon(func() { p.apply(a.Owner, a.Batch) })
		case directory.Release:
			p.soon(func() { p.tryAll(p.ledger.Finish(a.Owner)) })
		case directory.Close:
			p.soon(func() { p.turn(shard.Close{Connection: a.Connection, Closed: a.Closed}) })
		case directory.Report:
			p.story("%s", a.Text)
		default:
			p.w.problem("%s: the directory asked for %T, which no command can do", p.name, a)
		}
	}
	if at, ok := p.directory.Deadline(); ok {
		p.at(at, func() {
			if due, ok := p.directory.Deadline(); ok && due <= p.w.now {
				p.directed(directory.Wake{})
			}
		})
	}
}

// serving is the IKE SA that the operator means: the youngest that is established.
func (p *party) serving() (best ike.Status, ok bool) {
	for _, s := range p.machines() {
		if s.Phase == "established" && (!ok || s.Since >= best.Since) {
			best, ok = s, true
		}
	}
	return best, ok
}

func (p *party) machines() []ike.Status {
	if !p.alive {
		return nil
	}
	return p.shard.Status()
}

// ownSPI is the one by which a shard knows the machine.
func ownSPI(s ike.Status) wire.SPI {
	if s.Initiated {
		return s.SPIi
	}
	return s.SPIr
}
