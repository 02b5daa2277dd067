package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"cygnet/ike/transport"
	"cygnet/xfrm"
	"cygnet/xfrm/kernel"
	"cygnet/xfrm/netcfg"
	"cygnet/xfrm/userspace"
)

// dataplane is the chosen driver with what goes with it.
type dataplane struct {
	xfrm.Driver
	caps    xfrm.Capabilities           // with the reason of the choice
	receive func() func(*xfrm.Burst)    // takes ESP from the transport; nil with the kernel
	send    func(*transport.Transport)  // tells the driver where its ESP goes
	sweep   func(context.Context) error // removes what an earlier process left and nobody has claimed
	close   func() error
}

// chooser opens a data plane: choose, or a fake in tests.
type chooser func(ctx context.Context, want string, c Config) (*dataplane, error)

// choose opens the data plane that the configuration wants: "kernel", "userspace" or "auto", which is the kernel where it really accepts an SA.
// The choice holds for the whole life of the daemon.
func choose(ctx context.Context, want string, c Config) (*dataplane, error) {
	release, err := exclusive(workName)
	if err != nil {
		return nil, err
	}
	host, err := netcfg.New()
	if err != nil {
		release()
		return nil, fmt.Errorf("network configuration: %w", err)
	}
	p, err := chooseOn(ctx, want, c, host)
	if err != nil {
		host.Close()
		release()
		return nil, err
	}
	driver := p.Driver
	p.close = func() error {
		err := driver.Close()
		host.Close()
		release()
		return err
	}
	return p, nil
}

func chooseOn(ctx context.Context, want string, c Config, host *netcfg.Host) (*dataplane, error) {
	switch want {
	case "kernel":
		p, err := openKernel(ctx, c, host)
		if err != nil {
			return nil, fmt.Errorf("data plane kernel: %w; dataplane = \"userspace\" or \"auto\" does without", err)
		}
		p.caps.Why = "configured"
		return p, nil
	case "userspace":
		p, err := openUserspace(ctx, c, host)
		if err != nil {
			return nil, fmt.Errorf("data plane userspace: %w", err)
		}
		p.caps.Why = "configured"
		return p, nil
	}
	p, kernelErr := openKernel(ctx, c, host)
	if kernelErr == nil {
		p.caps.Why = "the kernel accepts ESP SAs"
		return p, nil
	}
	p, err := openUserspace(ctx, c, host)
	if err != nil {
		return nil, fmt.Errorf("no data plane: kernel: %w; userspace: %w", kernelErr, err)
	}
	p.caps.Why = fmt.Sprintf("%v; offloads of the TUN: %s", kernelErr, p.caps.Offloads)
	return p, nil
}

func openKernel(ctx context.Context, c Config, host *netcfg.Host) (*dataplane, error) {
	d, err := kernel.Open(ctx, kernel.Config{Host: host, Warn: func(err error) { c.Log.Warnf("data plane: %v", err) }})
	if err != nil {
		return nil, err
	}
	return &dataplane{Driver: d, caps: d.Capabilities(), send: func(*transport.Transport) {},
		sweep: func(ctx context.Context) error {
			_, err := userspace.RemoveRules()
			return errors.Join(err, host.Sweep(ctx, nil))
		}}, nil
}

// tunDevice is where the kernel hands out TUN interfaces.
const tunDevice = "/dev/net/tun"

func openUserspace(ctx context.Context, c Config, host *netcfg.Host) (*dataplane, error) {
	if _, err := os.Stat(tunDevice); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: load the module (modprobe tun), or pass the device into the container", tunDevice)
	}
	var out outlet
	plain := mayOpenRaw()
	d, err := userspace.New(userspace.Config{TUN: c.TUNName, MTU: c.tunMTU, Send: out.send, Net: host, Rand: rand.Reader, PlainESP: plain,
		PathMTU: transport.PathMTU, Warn: func(err error) { c.Log.Warnf("data plane: %v", err) }})
	if err != nil {
		return nil, err
	}
	if !plain {
		c.Log.Info("without CAP_NET_RAW there is only ESP in UDP")
	}
	for _, note := range d.Notes() {
		c.Log.Warn(note)
	}
	return &dataplane{Driver: d, caps: d.Capabilities(), receive: d.Receiver, send: out.open, sweep: d.Sweep}, nil
}

// mayOpenRaw asks for CAP_NET_RAW, which ESP without UDP needs.
func mayOpenRaw() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_NET_RAW) != 0
}
