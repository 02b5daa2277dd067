package wire

// Find returns the first payload of a Go type, as in Find[*SA](ps). For *ID and *TS ask FindID and FindTS.
func Find[T Payload](ps []Payload) (T, bool) {
	for _, p := range ps {
		if t, ok := p.(T); ok {
			return t, true
		}
	}
	var none T
	return none, false
}

// All returns all payloads of a Go type, in their order.
func All[T Payload](ps []Payload) []T {
	var found []T
	for _, p := range ps {
		if t, ok := p.(T); ok {
			found = append(found, t)
		}
	}
	return found
}

// FindNotify returns the first notify of a kind.
func FindNotify(ps []Payload, kind NotifyType) (*Notify, bool) {
	for _, p := range ps {
		if n, ok := p.(*Notify); ok && n.Kind == kind {
			return n, true
		}
	}
	return nil, false
}

// FindID returns the first IDi or, for the responder, IDr.
func FindID(ps []Payload, responder bool) (*ID, bool) {
	for _, p := range ps {
		if id, ok := p.(*ID); ok && id.Responder == responder {
			return id, true
		}
	}
	return nil, false
}

// FindTS returns the first TSi or, for the responder, TSr.
func FindTS(ps []Payload, responder bool) (*TS, bool) {
	for _, p := range ps {
		if ts, ok := p.(*TS); ok && ts.Responder == responder {
			return ts, true
		}
	}
	return nil, false
}
