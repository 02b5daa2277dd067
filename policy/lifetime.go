package policy

import (
	"time"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// IKELifetime says how long an IKE SA lives. Zero is never.
type IKELifetime struct {
	Rekey  time.Duration // new keys
	Reauth time.Duration // a new IKE SA with IKE_AUTH; with it there is no need of Rekey
	Over   time.Duration // after either it ends if neither was possible
	Jitter time.Duration // at most so much is subtracted, at random, from Rekey and Reauth
}

// ChildLifetime says how long a Child SA lives: it is rekeyed at the soft limits, and ends at the hard ones. Zero is none.
type ChildLifetime struct {
	Rekey, Hard            time.Duration
	Bytes, Packets         uint64        // soft limits of each direction
	HardBytes, HardPackets uint64        // of each direction
	Jitter                 time.Duration // at most so much is subtracted, at random, from Rekey
}

// Limits are what the data plane counts, on one SA.
type Limits struct{ SoftBytes, SoftPackets, HardBytes, HardPackets uint64 }

// What a suite bears, whatever the configuration says.
const (
	// Without extended sequence numbers the 2^32nd packet cannot be sent (RFC 4303 section 3.3.3). A quarter is left for a rekey: 100 s at 10 million
	// packets a second.
	softSequence = 3 << 30
	hardSequence = 1<<32 - 1<<16
	// Blocks of 128 bits begin to collide with a probability of 2^-33 after 2^48 of them (NIST SP 800-38A, 800-38D; RFC 8221 section 5 for the small
	// blocks that are not offered at all).
	softBlocks = 1 << 51 // octets
	hardBlocks = 1 << 52
)

// Limits of a child of this suite: those of the configuration, and never more than the suite bears.
func (l ChildLifetime) Limits(s xfrm.Suite) Limits {
	x := Limits{l.Bytes, l.Packets, l.HardBytes, l.HardPackets}
	if !s.ESN {
		x.SoftPackets, x.HardPackets = least(x.SoftPackets, softSequence), least(x.HardPackets, hardSequence)
	}
	if s.Encr != alg.EncrChaCha20Poly1305 {
		x.SoftBytes, x.HardBytes = least(x.SoftBytes, softBlocks), least(x.HardBytes, hardBlocks)
	}
	return x
}

// least of two limits, of which zero is none.
func least(a, b uint64) uint64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// lifetimes reads those of an IKE SA.
func (t *table) lifetimes() IKELifetime {
	l := IKELifetime{
		Rekey:  t.duration("rekey_time", DefaultIKERekey, 0, MaxLifetime),
		Reauth: t.duration("reauth_time", DefaultReauth, 0, MaxLifetime),
	}
	first := l.Rekey
	if first == 0 || l.Reauth > 0 && l.Reauth < first {
		first = l.Reauth
	}
	l.Over = t.duration("over_time", first/lifetimeFraction, 0, MaxLifetime)
	l.Jitter = t.duration("rand_time", first/lifetimeFraction, 0, MaxLifetime)
	_, overGiven := t.rows["over_time"]
	switch {
	case first == 0 && overGiven:
		t.problem("over_time", "lifetime", "leave over_time out, or give a rekey_time", "over_time of %s counts from rekey_time or reauth_time, but neither is on", t.path)
	case first > 0 && l.Over == 0:
		t.problem("over_time", "lifetime", "leave over_time out for a tenth of rekey_time", "over_time = \"0\" of %s would end the IKE SA in the moment in which its rekey begins", t.path)
	case l.Jitter > 0 && l.Jitter >= first && first > 0:
		t.problem("rand_time", "lifetime", "leave rand_time out for a tenth of rekey_time", "rand_time of %s is %s, which may leave nothing of %s", t.path, brief(l.Jitter), brief(first))
	case overGiven:
		t.tight("over_time", l.Over, first, "the IKE SA")
	}
	t.never("rekey_time", first, "the IKE SA")
	t.short("rekey_time", l.Rekey)
	t.short("reauth_time", l.Reauth)
	return l
}

// childLifetimes reads those of a child.
func (t *table) childLifetimes() ChildLifetime {
	l := ChildLifetime{Rekey: t.duration("rekey_time", DefaultChildRekey, 0, MaxLifetime)}
	l.Hard = t.duration("life_time", l.Rekey+l.Rekey/lifetimeFraction, 0, MaxLifetime)
	l.Jitter = t.duration("rand_time", l.Rekey/lifetimeFraction, 0, MaxLifetime)
	l.Bytes, l.HardBytes = t.amount("rekey_bytes", "life_bytes", MinLifeBytes)
	l.Packets, l.HardPackets = t.amount("rekey_packets", "life_packets", MinLifePackets)
	_, given := t.rows["life_time"]
	switch {
	case given && l.Hard == 0:
		t.problem("life_time", "lifetime", "leave life_time out for a tenth more than rekey_time", "life_time = \"0\" of %s would end the child in the moment in which it is up", t.path)
	case given && l.Rekey == 0:
		t.warning("life_time", "lifetime", "give a rekey_time below it", "%s ends after %s and is not rekeyed before by this side: unless the peer does, traffic stops for a moment each time", t.path, brief(l.Hard))
	case l.Hard <= l.Rekey && l.Rekey > 0:
		t.problem("life_time", "lifetime", "leave life_time out for "+brief(l.Rekey+l.Rekey/lifetimeFraction), "life_time of %s is %s, which ends the child before it is rekeyed after %s", t.path, brief(l.Hard), brief(l.Rekey))
	case l.Jitter > 0 && l.Jitter >= l.Rekey && l.Rekey > 0:
		t.problem("rand_time", "lifetime", "leave rand_time out for a tenth of rekey_time", "rand_time of %s is %s, which may leave nothing of %s", t.path, brief(l.Jitter), brief(l.Rekey))
	case given:
		t.tight("life_time", l.Hard-l.Rekey, l.Rekey, "the child")
	}
	if !given {
		t.never("rekey_time", l.Rekey, "the child")
	}
	t.short("rekey_time", l.Rekey)
	return l
}

// amount reads a soft limit and its hard one, a tenth above it by default.
func (t *table) amount(softKey, hardKey string, low int64) (soft, hard uint64) {
	soft = uint64(t.integer(softKey, 0, 0, MaxLifeAmount))
	hard = uint64(t.integer(hardKey, int64(soft+soft/lifetimeFraction), 0, MaxLifeAmount+MaxLifeAmount/lifetimeFraction))
	_, given := t.rows[hardKey]
	switch {
	case given && hard == 0:
		t.problem(hardKey, "lifetime", "leave "+hardKey+" out", "%s = 0 of %s would let nothing through", hardKey, t.path)
	case given && soft == 0:
		t.warning(hardKey, "lifetime", "give "+softKey+" below it", "%s ends after %s = %d and is not rekeyed before by this side: unless the peer does, traffic stops for a moment each time", t.path, hardKey, hard)
	case soft > 0 && hard <= soft:
		t.problem(hardKey, "lifetime", "leave "+hardKey+" out for a tenth more than "+softKey, "%s of %s is %d, which ends the child before it is rekeyed after %d", hardKey, t.path, hard, soft)
	}
	if soft > 0 && soft < uint64(low) {
		t.warning(softKey, "lifetime", "write at least a hundred times as much in use", "%s = %d of %s makes for very many rekeys", softKey, soft, t.path)
	}
	return soft, hard
}

// never warns of keys that this side does not renew.
func (t *table) never(key string, d time.Duration, what string) {
	if d == 0 {
		t.warning(key, "lifetime", "leave "+key+" out", "this side never gives %s of %s new keys: the peer must", what, t.path)
	}
}

// tight warns of an end so soon after the rekey begins that a few lost packets would cut the tunnel.
func (t *table) tight(key string, left, rekey time.Duration, what string) {
	wanted := min(rekeyMargin, rekey/lifetimeFraction)
	if rekey >= shortLifetime && left < wanted { // of shorter ones short tells
		t.warning(key, "lifetime", "leave "+key+" out for a tenth of rekey_time", "%s of %s leaves %s for a rekey before %s ends: a few lost packets, or a peer that restarts, would cut the tunnel; at least %s is wanted",
			key, t.path, brief(left), what, brief(wanted))
	}
}

// short warns of a lifetime that is good for tests alone.
func (t *table) short(key string, d time.Duration) {
	if d > 0 && d < shortLifetime {
		t.warning(key, "lifetime", "write at least "+brief(shortLifetime)+" in use", "%s of %s is %s: the peers would do little but rekey", key, t.path, brief(d))
	}
}
