package daemon

import (
	"sync"
	"time"

	"cygnet/policy/load"
)

// disk is the state of the configuration's files when they were read last.
type disk struct {
	mu              sync.Mutex
	loaded, refused load.Stamp
	at              time.Time // of the refusal; zero: the last one was accepted
}

func (k *disk) accept(s load.Stamp) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded, k.at = s, time.Time{}
}

func (k *disk) refuse(s load.Stamp) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused, k.at = s, time.Now()
}

// configNotice says how the configuration on disk differs from the one in force; empty: not at all.
func (d *Daemon) configNotice() string {
	const next = ": ikectl check && ikectl reload"
	s := load.StampOf(d.config.ConfigDir, d.snapshot.Load())
	k := &d.disk
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case s == k.loaded:
		return ""
	case !k.at.IsZero() && s == k.refused:
		return "the configuration on disk was refused at " + k.at.Format(time.TimeOnly) + ", the one before it is in force" + next
	}
	return "the configuration on disk was changed after it was loaded" + next
}
