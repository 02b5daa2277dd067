package daemon

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/policy"
	"cygnet/policy/load"
	"cygnet/xfrm/doctor"
)

// Reload reads the configuration again and puts it in force. With an error in it nothing changes. It returns when the new policies stand.
func (d *Daemon) Reload() (summary string, problems []policy.Problem, ok bool) {
	summary, _, problems, ok = d.reloadAll()
	return summary, problems, ok
}

// reloadAll is Reload that also tells what became of each connection that changed.
func (d *Daemon) reloadAll() (summary string, changes []directory.Change, problems []policy.Problem, ok bool) {
	d.reload.Lock()
	defer d.reload.Unlock()
	snap, problems := load.Dir(d.config.ConfigDir)
	if snap != nil {
		problems = append(problems, doctor.Check(d.host, snap)...)
	}
	for _, p := range problems {
		d.logProblem(p)
	}
	if snap == nil {
		d.disk.refuse(load.StampOf(d.config.ConfigDir, d.snapshot.Load()))
		return "", nil, problems, false
	}
	old := d.snapshot.Swap(snap)
	d.disk.accept(load.StampOf(d.config.ConfigDir, snap))
	d.applyLogLevel(snap)
	d.inquirer.warm(snap)
	// The shards first, so that a connection that the directory starts finds its new form there.
	for _, l := range d.loops {
		l.box.put(shard.Reload{Snapshot: snap})
	}
	d.directory.box.put(directory.Load{Snapshot: snap})
	d.inDirectory(func(dir *directory.Directory) { changes = slices.Clone(dir.Changes()) })
	d.inPlane(func(*plane) {})
	summary = difference(old, snap)
	if fixed := d.restartNeeded(snap.Daemon); fixed != "" {
		summary += "; a restart is needed for: " + fixed
	}
	d.log.Info("configuration reloaded: " + summary)
	for _, c := range changes {
		d.log.Infof("%s: %s", c.Connection, c.Text)
	}
	return summary, changes, problems, true
}

func (d *Daemon) logProblem(p policy.Problem) {
	e := d.log.WithField("hint", p.Hint)
	if p.Hint == "" {
		e = logrus.NewEntry(d.log)
	}
	if p.Warning {
		e.Warn(problemText(p))
	} else {
		e.Error(problemText(p))
	}
}

// problemText is "conn.d/site-b.toml:7: text".
func problemText(p policy.Problem) string {
	switch {
	case p.File == "":
		return p.Text
	case p.Line == 0:
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

func (d *Daemon) applyLogLevel(snap *policy.Snapshot) {
	if d.config.FixedLogLevel || snap.Daemon.LogLevel == "" {
		return
	}
	if level, err := logrus.ParseLevel(snap.Daemon.LogLevel); err == nil {
		d.log.SetLevel(level)
	}
}

// restartNeeded names the keys of [daemon] that are read at the start only and differ from then.
func (d *Daemon) restartNeeded(now policy.Daemon) string {
	var keys []string
	if now.Dataplane != d.running.Dataplane {
		keys = append(keys, "dataplane")
	}
	if now.Port != d.running.Port {
		keys = append(keys, "port")
	}
	if now.NATTPort != d.running.NATTPort {
		keys = append(keys, "natt_port")
	}
	if now.MTU != d.running.MTU {
		keys = append(keys, "mtu")
	}
	return strings.Join(keys, ", ")
}

// difference says which connections a new configuration adds, removes or changes.
func difference(old, snap *policy.Snapshot) string {
	var added, removed, changed []string
	for _, c := range snap.Connections {
		before := old.ByName(c.Name)
		switch {
		case before == nil:
			added = append(added, c.Name)
		case !reflect.DeepEqual(content(before), content(c)):
			changed = append(changed, c.Name)
		}
	}
	for _, c := range old.Connections {
		if snap.ByName(c.Name) == nil {
			removed = append(removed, c.Name)
		}
	}
	text := countText(len(snap.Connections), "connection")
	for _, part := range []struct {
		word  string
		names []string
	}{{"added", added}, {"removed", removed}, {"changed", changed}} {
		if len(part.names) > 0 {
			text += "; " + part.word + ": " + strings.Join(part.names, ", ")
		}
	}
	if len(added)+len(removed)+len(changed) == 0 {
		text += "; nothing changed"
	}
	return text
}

// content is a connection without the place where it stands.
func content(c *policy.Connection) policy.Connection {
	plain := *c
	plain.File, plain.Line, plain.Lines = "", 0, nil
	return plain
}
