package ike

import (
	"errors"
	"slices"
	"time"
)

// jobLimit is how long a computation may take. It takes milliseconds; one that is not answered by then was dropped where too many wait, and what it
// was for fails.
const jobLimit = time.Minute

// notComputed is for people.
const notComputed = "a computation on this host failed or took too long"

// computing is a job that is not answered yet.
type computing struct {
	token Token
	limit Time
}

// job has run computed outside. then gets nil when nothing came of it.
func (sa *SA) job(class JobClass, run func() any, then func(any)) {
	t := sa.wait(func(ev Event) {
		if d, ok := ev.(JobDone); ok {
			sa.computing = slices.DeleteFunc(sa.computing, func(c computing) bool { return c.token == d.Token })
			then(d.Result)
		}
	})
	sa.computing = append(sa.computing, computing{t, sa.now.Add(jobLimit)})
	sa.out.Add(Job{Token: t, Class: class, Run: run})
}

// jobOf is a job of an exchange of ours. When that is over, its result is of no use any more.
func (sa *SA) jobOf(x exchange, class JobClass, run func() any, then func(any)) {
	sa.job(class, run, func(result any) {
		if sa.current(x) {
			then(result)
		} else {
			wipe(result)
		}
	})
}

// jobDue is when the oldest job is given up.
func (sa *SA) jobDue() (Time, bool) {
	if len(sa.computing) == 0 {
		return 0, false
	}
	return sa.computing[0].limit, true
}

func (sa *SA) wakeJobs() {
	for !sa.finished && sa.due(sa.jobDue()) {
		t := sa.computing[0].token
		sa.resume(t, JobDone{Token: t})
	}
}

// keyPairOf is what a job made that draws a key pair.
func keyPairOf(result any) keyPair {
	k, ok := result.(keyPair)
	if !ok {
		k.err = errors.New(notComputed)
	}
	return k
}
