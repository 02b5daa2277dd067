package suite

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"

	"cygnet/ike/wire"
)

// PRFs lists the pseudorandom functions that are implemented, in order of preference. HMAC-SHA1 is among them: policy decides
// whether it may be used.
func PRFs() []wire.PRFID {
	return []wire.PRFID{wire.PRFHMACSHA256, wire.PRFHMACSHA384, wire.PRFHMACSHA512, wire.PRFHMACSHA1}
}

// PRFLen is the length in octets of a PRF's output, which is also its preferred key length (RFC 4868 section 2.1.2); 0 when it is not implemented.
func PRFLen(id wire.PRFID) int {
	if h := prfHash(id); h != nil {
		return h().Size()
	}
	return 0
}

// PRFName names a PRF by its hash, as people read it, also one that is not implemented: "SHA2-256".
func PRFName(id wire.PRFID) string { return id.Word() }

func prfHash(id wire.PRFID) func() hash.Hash {
	switch id {
	case wire.PRFHMACSHA1:
		return sha1.New
	case wire.PRFHMACSHA256:
		return sha256.New
	case wire.PRFHMACSHA384:
		return sha512.New384
	case wire.PRFHMACSHA512:
		return sha512.New
	}
	return nil
}

// PRF computes prf(key, data...). It panics when id is not implemented, rather than give a value that somebody could
// compare with: a suite that Derive has accepted never comes to that.
func PRF(id wire.PRFID, key []byte, data ...[]byte) []byte {
	h := prfHash(id)
	if h == nil {
		panic("suite: PRF " + PRFName(id) + " is not implemented")
	}
	m := hmac.New(h, key)
	for _, d := range data {
		m.Write(d)
	}
	return m.Sum(nil)
}

// prfPlus computes n octets of prf+(key, seed...) (RFC 7296 section 2.13): T1 | T2 | ... with Ti = prf(key, Ti-1 | seed | i). The counter is one
// octet, which ends it after 255 blocks.
func prfPlus(id wire.PRFID, key []byte, n int, seed ...[]byte) ([]byte, error) {
	h := prfHash(id)
	if h == nil {
		return nil, fmt.Errorf("PRF %s is not implemented", PRFName(id))
	}
	m := hmac.New(h, key)
	if n < 0 || n > 255*m.Size() {
		return nil, fmt.Errorf("prf+ of %d octets: PRF %s gives at most %d", n, PRFName(id), 255*m.Size())
	}
	out := make([]byte, 0, (n+m.Size()-1)/m.Size()*m.Size())
	var last []byte
	for i := 1; len(out) < n; i++ {
		m.Reset()
		m.Write(last)
		for _, s := range seed {
			m.Write(s)
		}
		m.Write([]byte{byte(i)})
		out = m.Sum(out)
		last = out[len(out)-m.Size():]
	}
	clear(out[n:])
	return out[:n:n], nil
}
