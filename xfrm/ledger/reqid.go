package ledger

import "fmt"

// ReqIDFirst and ReqIDLast bound the reqids that are ours.
const (
	ReqIDFirst uint32 = 0x43590000 // "CY"
	ReqIDLast  uint32 = 0x4359ffff
)

// idleMax is how many lineages without SA or claim keep their reqid. A connection that goes down and comes back finds its number
// again; the oldest are forgotten first, so that peers who come once do not fill the table.
const idleMax = 4096

// reqids gives each lineage one number: two lineages never share one, because the kernel finds an outbound SA by reqid and
// addresses alone, without regard to UDP ports, and two clients behind one NAT would get each other's SA.
type reqids struct {
	lineages map[string]*lineage
	names    map[uint32]string
	cursor   uint32
	idle     []idleMark // oldest first; marks that no longer hold are skipped
	idles    int        // lineages that are idle now
}

type lineage struct {
	reqid uint32
	refs  int    // SAs and claims
	idled uint64 // number of the mark that made it idle; 0 while in use
}

type idleMark struct {
	name string
	mark uint64
}

func newReqids() reqids {
	return reqids{lineages: make(map[string]*lineage), names: make(map[uint32]string), cursor: ReqIDFirst}
}

// known returns the reqid of a lineage that has one, else 0.
func (r *reqids) known(name string) uint32 {
	if ln := r.lineages[name]; ln != nil {
		return ln.reqid
	}
	return 0
}

// number returns the reqid of a lineage and gives it one if it has none.
func (r *reqids) number(name string, mark uint64) (uint32, error) {
	if id := r.known(name); id != 0 {
		return id, nil
	}
	if r.full() && !r.forgetOldest() {
		return 0, fmt.Errorf("all %d reqids are in use: child %q cannot be installed", len(r.names), name)
	}
	for r.names[r.cursor] != "" {
		r.advance()
	}
	ln := &lineage{reqid: r.cursor}
	r.lineages[name], r.names[ln.reqid] = ln, name
	r.advance()
	r.retire(name, ln, mark)
	return ln.reqid, nil
}

func (r *reqids) full() bool { return len(r.names) > int(ReqIDLast-ReqIDFirst) }

func (r *reqids) advance() {
	if r.cursor++; r.cursor > ReqIDLast {
		r.cursor = ReqIDFirst
	}
}

// hold and drop count the SAs and claims of a lineage. Claims without lineage (blocks) have no reqid.
func (r *reqids) hold(name string) {
	ln := r.lineages[name]
	if ln == nil {
		return
	}
	if ln.refs++; ln.idled != 0 {
		ln.idled = 0
		r.idles--
	}
}

func (r *reqids) drop(name string, mark uint64) {
	ln := r.lineages[name]
	if ln == nil {
		return
	}
	if ln.refs--; ln.refs == 0 {
		r.retire(name, ln, mark)
	}
}

// retire makes a lineage idle. Marks grow, so that a lineage that was used again meanwhile is told from one that was not.
func (r *reqids) retire(name string, ln *lineage, mark uint64) {
	ln.idled = mark
	r.idles++
	r.idle = append(r.idle, idleMark{name, mark})
	if r.idles > idleMax {
		r.forgetOldest()
	}
	if len(r.idle) > 2*idleMax {
		r.compact()
	}
}

func (r *reqids) forgetOldest() bool {
	for len(r.idle) > 0 {
		m := r.idle[0]
		r.idle = r.idle[1:]
		if ln := r.lineages[m.name]; r.holds(m) {
			delete(r.names, ln.reqid)
			delete(r.lineages, m.name)
			r.idles--
			return true
		}
	}
	return false
}

func (r *reqids) holds(m idleMark) bool {
	ln := r.lineages[m.name]
	return ln != nil && ln.idled == m.mark
}

// compact drops marks of lineages that are in use again, so that a child that rekeys for years does not grow the queue.
func (r *reqids) compact() {
	kept := make([]idleMark, 0, r.idles)
	for _, m := range r.idle {
		if r.holds(m) {
			kept = append(kept, m)
		}
	}
	r.idle = kept
}
