package policy

import (
	"fmt"
	"slices"

	"cygnet/ike/wire"
)

// children reads the [connection.NAME.child.NAME] tables.
func (r *reader) children(t *table, c *Connection) {
	example := fmt.Sprintf("add [%s.child.lan] with local = [...] and remote = [...]", t.path)
	all := t.table("child", fmt.Sprintf("[%s.child.lan]", t.path))
	if _, there := t.rows["child"]; (!there || all != nil && len(all.rows) == 0) && !r.strays.awaits(c.Name) {
		t.problem("", "missing-child", example, "%s has no child, so no traffic would travel through it", t.path)
	}
	if all == nil {
		return
	}
	for _, name := range all.names() {
		if _, ok := all.rows[name].(map[string]any); !ok && slices.Contains([]string{"local", "remote", "esp", "pfs", "replay_window", "copy_dscp"}, name) {
			all.get(name)
			all.problem(name, "missing-name", fmt.Sprintf("write [%s.child.lan] where [%s.child] stands", t.path, t.path), "%s stands in %s, but a child has a name", name, all.path)
			continue
		}
		if ct := all.table(name, fmt.Sprintf("[%s.%s]", all.path, name)); ct != nil {
			c.Children = append(c.Children, r.child(ct, name))
		}
	}
}

func (r *reader) child(t *table, name string) *Child {
	ch := &Child{Name: name, File: t.file, Line: t.line(""), Lines: t.lines.inside(t.path)}
	if !goodName(name) {
		t.problem("", "bad-name", "use letters, digits, - and _, at most 64", "%q cannot be the name of a child", name)
	}
	ch.Local = t.selectors("local", "10.1.0.0/16", "what this side protects")
	ch.Remote = t.selectors("remote", "10.2.0.0/16", "what lies behind the peer")
	var groups []wire.GroupID
	ch.ESP, groups = t.proposalsAndGroups("esp", wire.ProtoESP)
	ch.PFS = t.pfs(groups)
	ch.Replay = uint32(t.integer("replay_window", DefaultReplayWindow, MinReplayWindow, MaxReplayWindow))
	ch.HideDSCP = !t.flag("copy_dscp", true)
	ch.Lifetime = t.childLifetimes()
	t.done()
	r.reach(t, ch)
	return ch
}

// pfs reads which groups a child's own key exchange uses. Groups among the words of esp, as strongSwan writes them, are it too.
func (t *table) pfs(inESP []wire.GroupID) []wire.GroupID {
	s, ok := t.text("pfs", "yes")
	switch {
	case !ok && len(inESP) > 0:
		return inESP
	case !ok:
		return defaultPFS()
	case len(inESP) > 0:
		t.problem("pfs", "contradiction", "leave pfs out, or the groups in esp", "pfs and the groups in esp both say which groups %s uses", t.path)
		return inESP
	}
	switch s {
	case "prefer":
		return defaultPFS()
	case "yes":
		return defaultGroups()
	case "no":
		return nil
	}
	groups, wrong := readGroups(s)
	for _, w := range wrong {
		t.report("pfs", w)
	}
	return groups
}

func (t *table) selectors(key, example, what string) (out []TS) {
	list, ok := t.list(key, example)
	if !ok {
		t.missing(key, fmt.Sprintf("add %s = [%q], %s", key, example, what))
		return nil
	}
	if len(list) > wire.MaxSelectors {
		t.problem(key, "bad-selector", "spread them over several children", "%s in %s has %d selectors, at most %d can be sent", key, t.path, len(list), wire.MaxSelectors)
		list = list[:wire.MaxSelectors]
	}
	for _, e := range list {
		ts, masked, why := readSelector(e.text)
		switch {
		case why != "":
			t.problem(e.key, "bad-selector", `write "10.1.0.0/16", "10.1.0.5", "10.1.0.1-10.1.0.9", each with "[tcp/443]" behind it if need be`, "%q in %s of %s %s", e.text, key, t.path, why)
			continue
		case masked != "":
			t.warning(e.key, "host-bits", fmt.Sprintf("write %q, or the address alone for one host", masked), "%q in %s of %s has bits set behind the prefix and is read as %s", e.text, key, t.path, masked)
		}
		if i := slices.IndexFunc(out, func(o TS) bool { return ts.within([]TS{o}) }); i >= 0 {
			t.warning(e.key, "superfluous-selector", "leave it out", "%q in %s of %s lies within %s", e.text, key, t.path, out[i])
			continue
		}
		out = append(out, ts)
	}
	return out
}

// reach looks for selectors that no packet can match.
func (r *reader) reach(t *table, ch *Child) {
	if len(ch.Local) == 0 || len(ch.Remote) == 0 {
		return
	}
	p := pair{ch.Local, ch.Remote}
	mated := p.mated()
	const hint = "give both sides selectors of one address family and protocol"
	if len(mated.i) == 0 {
		t.problem("remote", "never-matches", hint, "%s can never match a packet: local %s, remote %s", t.path, selectorsText(ch.Local), selectorsText(ch.Remote))
		return
	}
	r.ownNetwork(t, ch)
	t.lonely("local", ch.Local, mated.i, hint)
	t.lonely("remote", ch.Remote, mated.r, hint)
	if n := mated.selectors(splits(mated.i), splits(mated.r)); n > maxSelectors {
		t.problem("remote", "bad-selector", "write prefixes where there are ranges, or fewer of them", "%s makes %d pairs of prefixes, at most %d are installed", t.path, n, maxSelectors)
	}
}

// ownNetwork looks for remote selectors that hold this side's own network: its hosts would be looked for behind the peer. "Everything" means
// everything else, and the data planes take it so.
func (r *reader) ownNetwork(t *table, ch *Child) {
	for _, remote := range ch.Remote {
		for _, local := range ch.Local {
			if _, meet := remote.meet(local); !meet || remote.allAddresses() || local != remote && remote.within([]TS{local}) {
				continue
			}
			if local.Start == remote.Start && local.End == remote.End {
				t.problem("remote", "own-network", "write into remote what lies behind the peer", "%s has %s on both sides: this host would look for its own network behind the peer", t.path, remote)
				continue
			}
			t.warning("remote", "own-network", "leave the own network out of remote, unless the peer is the way to all the rest of it",
				"remote %s of %s holds addresses of local %s: packets for them travel to the peer, also those of this host", remote, t.path, local)
		}
	}
}

// lonely warns of selectors that have no partner on the other side.
func (t *table) lonely(key string, all, mated []TS, hint string) {
	for _, ts := range all {
		if !slices.Contains(mated, ts) {
			t.warning(key, "never-matches", hint, "%s in %s of %s can never match a packet: the other side has nothing of its kind", ts, key, t.path)
		}
	}
}
