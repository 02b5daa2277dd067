package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// do carries out one command. An error means that the scenario is wrong, not the parties.
func (w *world) do(words []string, text string) error {
	verb, args := words[0], words[1:]
	switch verb {
	case "children", "nat", "config":
		if w.booted {
			return errors.New("must stand before the first command that acts")
		}
		return w.set(verb, args, text)
	}
	if !w.booted {
		w.booted = true
		for _, p := range w.parties() {
			if err := p.boot(); err != nil {
				return err
			}
		}
		w.runUntil(w.now)
	}
	switch verb {
	case "expect":
		return w.expect(args, text)
	case "established":
		return w.established(args, text)
	}
	fmt.Fprintf(&w.out, "> %s\n", text)
	if err := w.act(verb, args); err != nil {
		return err
	}
	w.runUntil(w.now)
	return nil
}

// established sets the connection up with these children (none: all) without showing how: most scenarios begin after that.
func (w *world) established(children []string, text string) error {
	fmt.Fprintf(&w.out, "> %s\n", text)
	w.mute = true
	defer func() { w.mute = false }()
	if err := w.a.command("up", children); err != nil {
		return err
	}
	w.runUntil(w.now.Add(quiet))
	w.shown = w.now
	if len(w.a.machines()) != 1 || len(children) == 0 && len(w.a.childrenUp()) < len(w.children) {
		return errors.New("it does not come up")
	}
	return nil
}

// set changes what the parties are before they start.
func (w *world) set(verb string, args []string, text string) error {
	switch {
	case verb == "children" && len(args) > 0:
		w.children = args
		return nil
	case verb == "config" && len(args) >= 4:
		return w.configure(args, text)
	case verb == "nat" && len(args) == 1:
		p, err := w.party(args[0])
		if err == nil {
			p.nat = true
		}
		return err
	}
	return errors.New("see README.md")
}

// configure is "config a ike = ..." or "config both lan pfs = ...".
func (w *world) configure(args []string, text string) error {
	section := ""
	if slices.Contains(w.children, args[1]) {
		section = args[1]
	}
	_, line, _ := strings.Cut(text, args[0]+" ")
	line = strings.TrimSpace(strings.TrimPrefix(line, section))
	parties := w.parties()
	if args[0] != "both" {
		p, err := w.party(args[0])
		if err != nil {
			return err
		}
		parties = []*party{p}
	}
	for _, p := range parties {
		p.extra[section] = append(p.extra[section], line)
	}
	return nil
}

// act is what the operators and the network do.
func (w *world) act(verb string, args []string) error {
	switch {
	case verb == "wait" && len(args) == 0:
		return w.rest()
	case verb == "rebind" && len(args) == 0:
		w.link.rebound++
		return nil
	case verb == "hold" && len(args) == 0:
		w.link.holding = true
		return nil
	case verb == "release" && len(args) == 0:
		for _, l := range w.link.held {
			w.soon(func() { w.link.arrive(l) })
		}
		w.link.holding, w.link.held = false, nil
		return nil
	case len(args) == 0:
		return errors.New("no such command: see README.md")
	case verb == "advance":
		d, err := time.ParseDuration(args[0])
		if err == nil {
			w.runUntil(w.now.Add(d))
			w.shown = w.now
		}
		return err
	case verb == "lose" || verb == "late" || verb == "repeat" || verb == "answer":
		return w.rule(verb, args)
	}
	p, err := w.party(args[0])
	if err != nil {
		return err
	}
	if done, err := w.inFlight(verb, p); done {
		return err
	}
	if verb == "start" {
		return p.boot()
	}
	if !p.alive {
		return fmt.Errorf("%s does not run", p.name)
	}
	return p.command(verb, args[1:])
}

// inFlight are the commands about a message that is held.
func (w *world) inFlight(verb string, p *party) (done bool, err error) {
	if verb != "deliver" && verb != "drop" && verb != "copy" {
		return false, nil
	}
	l, err := w.link.next(p)
	if err != nil {
		return true, err
	}
	w.lines = append(w.lines, fmt.Sprintf("%s: %s->%s  %s", verb, p.name, p.peer.name, l.text))
	fmt.Fprintf(&w.out, "  %s->%s  %s, %s\n", p.name, p.peer.name, l.text,
		map[string]string{"deliver": "arrives", "drop": "lost", "copy": "arrives, and once more later"}[verb])
	switch verb {
	case "copy":
		w.link.held = append(w.link.held, l)
		w.link.arrive(l)
	case "deliver":
		w.link.arrive(l)
	}
	return true, nil
}

// rule is "lose [N] a WORDS", "late 3s [N] a WORDS", "repeat 3s [N] a WORDS" or "answer b [N] NOTIFY".
func (w *world) rule(verb string, args []string) error {
	r := &rule{what: verb, left: 1}
	if verb == "late" || verb == "repeat" {
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		r.delay, args = d, args[1:]
	}
	if n, err := strconv.Atoi(args[0]); err == nil && len(args) > 1 {
		r.left, args = n, args[1:]
	}
	p, err := w.party(args[0])
	if err != nil {
		return err
	}
	if r.from, r.words = p, args[1:]; verb == "answer" {
		if len(args) != 2 {
			return errors.New("one notify is the answer")
		}
		if r.reply = notifyNamed(args[1]); r.reply == 0 {
			return fmt.Errorf("no notify %q", args[1])
		}
		r.from, r.words = p.peer, []string{"CREATE_CHILD_SA request"}
	}
	w.link.rules = append(w.link.rules, r)
	return nil
}

func notifyNamed(name string) wire.NotifyType {
	const firstStatus = 16384 // below are errors
	for n := range wire.NotifyType(firstStatus) {
		if n.String() == name {
			return n
		}
	}
	return 0
}

// command is what an operator, or the host, does to a party.
func (p *party) command(verb string, args []string) error {
	w, child := p.w, ""
	if len(args) > 0 {
		child = args[0]
	}
	known := child == "" || child == "ike" || slices.Contains(w.children, child)
	switch verb {
	case "up":
		p.toDirectory(directory.Up{Connection: p.connection(), Children: args})
	case "down":
		p.toDirectory(directory.Down{Connection: p.connection(), Child: child})
	case "nonce":
		if child != "low" && child != "high" {
			return errors.New("low or high")
		}
		p.dice.force, known = child, true
	case "crash":
		p.crash()
	case "move":
		return p.move(child)
	case "unplug":
		p.cut = true
	case "plug":
		p.cut = false
	case "pressed":
		p.turn(shard.Pressure{Full: true})
	case "refuse":
		p.driver.Fail(1, errors.New("out of memory"), func(op xfrm.Op) bool { _, add := op.(xfrm.AddSA); return add })
	case "packet":
		if !slices.Contains(w.children, child) {
			return fmt.Errorf("no child %q", child)
		}
		_, fate := p.packet(slices.Index(w.children, child))
		w.show("%s=>%s  packet of %s %s", p.name, p.peer.name, child, fate)
	case "soft", "hard":
		return p.expire(child, verb == "hard")
	default:
		return p.order(verb, child)
	}
	if !known {
		return fmt.Errorf("no child %q", child)
	}
	return nil
}

// order is what concerns one IKE SA.
func (p *party) order(verb, child string) error {
	s, ok := p.serving()
	if !ok {
		return fmt.Errorf("%s has no IKE SA", p.name)
	}
	whole := child == "ike" || child == ""
	if !whole && !slices.Contains(p.w.children, child) {
		return fmt.Errorf("no child %q", child)
	}
	var ev ike.Event
	switch verb {
	case "rekey":
		ev = ike.Rekey{Child: child}
		if whole {
			ev = ike.Rekey{IKE: true}
		}
	case "delete":
		ev = ike.Lower{Child: child}
		if whole {
			ev = ike.Lower{}
		}
	case "forget":
		ev = ike.Lower{Child: child, Silent: true}
		if whole {
			ev = ike.Lower{Silent: true}
		}
	case "raise":
		ev = ike.RaiseChild{Child: child}
	case "reauth":
		p.toDirectory(directory.Reauthenticate{SPI: ownSPI(s)})
		return nil
	case "probe":
		ev = ike.Probe{}
	default:
		return errors.New("no such command: see README.md")
	}
	p.tell(ownSPI(s), ev)
	return nil
}

// expire has the data plane say that a child has carried what it may.
func (p *party) expire(child string, hard bool) error {
	state, err := p.driver.Dump(context.Background())
	if err != nil {
		return err
	}
	for _, sa := range state.SAs {
		if name := p.childOf(sa); name == child && sa.Direction == xfrm.Out {
			p.driver.Raise(xfrm.Expire{ID: sa.ID, Hard: hard})
			p.drain()
			return nil
		}
	}
	return fmt.Errorf("%s has no child SA %s", p.name, child)
}
