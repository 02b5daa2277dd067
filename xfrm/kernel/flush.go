package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"cygnet/xfrm"
)

// Flush removes every SA and policy of ours (reqid range, priority band) from the network namespace of the calling thread, the guards of the
// userspace data plane too, and returns each as a line for people, in the order of the kernel's dump. A kernel without XFRM has none. It must
// not be called while a driver is at work there.
func Flush(ctx context.Context) (removed []string, err error) {
	s, err := openSocket()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.close()
	d := &Driver{socket: s}
	policies, err := d.flushPolicies(ctx)
	sas, saErr := d.flushSAs(ctx)
	return append(policies, sas...), errors.Join(err, saErr, d.removeLarval(ctx))
}

// doomed is one entry of the kernel's tables with the request that removes it.
type doomed struct {
	text   string
	remove *request
}

func (d *Driver) flushSAs(ctx context.Context) ([]string, error) {
	var list []doomed
	err := d.dumpSAs(ctx, func() { list = nil }, func(s sastate) {
		list = append(list, doomed{fmt.Sprintf("SA %v from %v", s.id(), addressOf(s.info.Saddr, s.info.Family)), delSA(s.id())})
	})
	if err != nil {
		return nil, err
	}
	return d.removeAll(list, unix.ESRCH)
}

// flushPolicies removes what the kernel holds as it holds it: also pieces that no slot of ours is made of.
func (d *Driver) flushPolicies(ctx context.Context) ([]string, error) {
	var list []doomed
	err := d.dump(ctx, listPolicies, func() { list = nil }, func(content []byte) error {
		p, dir, ours, err := parsePolicy(content)
		if err != nil || !ours {
			return err
		}
		r, err := removeSame(content, dir)
		list = append(list, doomed{policyText(&p, dir), r})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the kernel's policies: %w", err)
	}
	return d.removeAll(list, unix.ENOENT)
}

// removeSame is the request that removes the policy in content: its selector, direction, mark and interface are its identity.
func removeSame(content []byte, dir uint8) (*request, error) {
	attrs, err := parseAttributes(content, nl.SizeofXfrmUserpolicyInfo)
	if err != nil {
		return nil, err
	}
	id := nl.XfrmUserpolicyId{Sel: nl.DeserializeXfrmUserpolicyInfo(content).Sel, Dir: dir}
	r := newRequest(nl.XFRM_MSG_DELPOLICY, unix.NLM_F_ACK).body(id.Serialize())
	for _, kind := range []uint16{nl.XFRMA_MARK, nl.XFRMA_IF_ID} {
		if v := attrs[kind]; v != nil {
			r.attr(kind, v)
		}
	}
	return r, nil
}

func policyText(p *xfrm.Policy, dir uint8) string {
	sel := &p.Slot.Selector
	what := map[xfrm.PolicyAction]string{xfrm.Protect: "protect", xfrm.Block: "block", xfrm.Pass: "pass"}[p.Action]
	text := fmt.Sprintf("policy %s %s %v -> %v", [...]string{dirIn: "in", dirOut: "out", dirFwd: "fwd"}[dir], what, sel.Src, sel.Dst)
	if sel.Proto != 0 {
		text += fmt.Sprintf(" protocol %d", sel.Proto)
	}
	return text
}

// removeAll tries each, and returns the texts of those that went. gone is the error of one that is not there any more.
func (d *Driver) removeAll(list []doomed, gone error) (removed []string, err error) {
	var errs []error
	for _, x := range list {
		if err := d.socket.do(x.remove, nil); err != nil && !errors.Is(err, gone) {
			errs = append(errs, fmt.Errorf("remove %s: %w", x.text, err))
			continue
		}
		removed = append(removed, x.text)
	}
	return removed, errors.Join(errs...)
}
