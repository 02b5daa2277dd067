package main

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"cygnet/test/rig"
)

// plants are what can be made wrong on purpose, and what must then be found.
var plants = map[string]string{
	"loss":   "the WAN drops one packet in a thousand without counting it: lost behind the WAN",
	"window": "cygnet has a replay window of 4096: what is 128 behind is delivered",
	"twice":  "a host sends a datagram two times: delivered twice",
	"tcp":    "an octet of a transfer is changed: SHA-256 differs",
	"clear":  "gateway A pings gateway B from its LAN address: in clear",
	"leak":   "\"ikectl monitor\" is started each second and never ends: goroutines and descriptors grow",
	"rekey":  "the WAN drops IKE in the middle: rekeys fail",
}

func plantNames() []string { return slices.Sorted(maps.Keys(plants)) }

// planted is the WAN with the plant.
func (r *row) planted(o rig.Impairment) rig.Impairment {
	if r.plant == "loss" {
		o.Uncounted = 0.001
	}
	return o
}

// plantedChild are further keys of cygnet's child.
func (r *row) plantedChild() string {
	if r.plant == "window" {
		return "replay_window = 4096\n"
	}
	return ""
}

func (r *row) plantedTraffic() {
	r.flows[0].twice = r.plant == "twice"
	r.transfers[0].corrupt = r.plant == "tcp"
}

// plantedMeanwhile acts while the row runs.
func (r *row) plantedMeanwhile(ctx context.Context) {
	switch r.plant {
	case "clear":
		go r.topo.A.Gateway.Output("ping", "-c", "3", "-W", "1", "-I", r.topo.A.GatewayLAN4.String(), r.topo.B.WAN4.String())
	case "leak":
		go r.watchers(ctx)
	case "rekey":
		go func() {
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
				_, err := r.topo.WAN.Output("nft", "add table ip cut; add chain ip cut f { type filter hook forward priority 0; }; add rule ip cut f udp dport 4500 @th,64,32 0 drop")
				if err != nil {
					fmt.Println(err)
				}
			}
		}()
	}
}

// watchers leaves one "ikectl monitor" more each second.
func (r *row) watchers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		c := exec.CommandContext(ctx, filepath.Join(r.bin, "ikectl"), "--socket", filepath.Join(r.own().own.Dir, "control.sock"), "monitor")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if c.Start() == nil {
			go c.Wait()
		}
	}
}
