package policy

import (
	"fmt"
	"slices"
	"strings"

	"cygnet/ike/wire"
)

// trouble is what is wrong with a word; the caller knows its line.
type trouble struct {
	code, text, hint string
	warning          bool
}

// readProposals reads proposals in the words of strongSwan ("aes256-sha256-modp2048, aes256gcm16-prfsha256-x25519") and of Libreswan
// ("aes256+aes128-sha2_256;modp2048"): a comma separates proposals, anything else words. What was left out is filled with defaults. For ESP
// the groups come back as pfs.
func readProposals(text string, proto wire.ProtocolID) (ps []wire.Proposal, pfs []wire.GroupID, wrong []trouble) {
	for one := range strings.SplitSeq(text, ",") {
		if len(ps) == wire.MaxProposals {
			return ps, pfs, append(wrong, trouble{code: "bad-proposal", text: fmt.Sprintf("more than %d proposals", wire.MaxProposals), hint: "leave some out"})
		}
		b := builder{proto: proto}
		b.read(one)
		p := b.proposal()
		if wrong = append(wrong, b.wrong...); !b.failed() {
			ps = append(ps, p)
		}
		for _, g := range b.of(wire.TransformKE) {
			if proto == wire.ProtoESP && !slices.Contains(pfs, wire.GroupID(g.ID)) {
				pfs = append(pfs, wire.GroupID(g.ID))
			}
		}
	}
	return ps, pfs, wrong
}

// builder makes one proposal out of words.
type builder struct {
	proto wire.ProtocolID
	text  string
	list  []wire.Transform
	wrong []trouble
}

func (b *builder) fail(code, hint, format string, args ...any) {
	b.wrong = append(b.wrong, trouble{code: code, text: fmt.Sprintf(format, args...), hint: hint})
}

func (b *builder) failed() bool {
	return slices.ContainsFunc(b.wrong, func(t trouble) bool { return !t.warning })
}

// of lists the transforms of one type.
func (b *builder) of(typ wire.TransformType) (list []wire.Transform) {
	for _, t := range b.list {
		if t.Type == typ {
			list = append(list, t)
		}
	}
	return list
}

// read looks up each word. A "!" at the end is strongSwan's "these and no others", which is how it always is here.
func (b *builder) read(text string) {
	b.text = strings.TrimSuffix(strings.TrimSpace(text), "!")
	words := strings.FieldsFunc(strings.ToLower(b.text), func(r rune) bool { return strings.ContainsRune("-+;/ \t", r) })
	if len(words) == 0 {
		b.fail("bad-proposal", "write words such as aes256-sha256-modp2048, or leave the key out for the defaults", "an empty proposal")
		return
	}
	for _, w := range words {
		for _, w := range widen(w) {
			b.add(w)
		}
	}
}

// widen: a cipher without key length means 256 and 128 bits, as in Libreswan; strongSwan's 128 is among them.
func widen(word string) []string {
	switch word {
	case "aes", "aes_cbc":
		return []string{"aes256", "aes128"}
	case "aes_gcm", "aes_gcm_c", "aes_gcm16", "aes_gcm_16", "aesgcm", "aesgcm16":
		return []string{"aes256gcm16", "aes128gcm16"}
	}
	return []string{word}
}

func (b *builder) add(word string) {
	all := algorithms()
	i := slices.IndexFunc(all, func(a algorithm) bool { return slices.Contains(a.Words, word) })
	if i < 0 {
		b.fail("unknown-algorithm", didYouMean(word, acceptedWords(all), "words are such as aes256gcm16, aes256, sha256, prfsha256, x25519, modp2048"), "unknown algorithm %q in %q", word, b.text)
		return
	}
	a := all[i]
	t := a.transform()
	switch {
	case a.Refuse != "":
		why, instead, _ := strings.Cut(a.Refuse, "; ")
		b.fail("weak-algorithm", instead, "%q in %q %s", word, b.text, why)
		return
	case b.proto == wire.ProtoIKE && a.Type == wire.TransformESN:
		b.fail("bad-proposal", "leave it out; it belongs in esp", "%q in %q: an IKE SA has no extended sequence numbers", word, b.text)
		return
	case b.proto == wire.ProtoIKE && isNone(t):
		b.fail("bad-proposal", "write a group such as x25519 or modp2048", "%q in %q: an IKE SA needs a key exchange", word, b.text)
		return
	case b.proto == wire.ProtoESP && a.Type == wire.TransformPRF:
		b.fail("bad-proposal", "leave it out; it belongs in ike", "%q in %q: ESP has no PRF", word, b.text)
		return
	}
	if sha1 := a.Type == wire.TransformInteg && a.ID == wire.IntegSHA1_96 || a.Type == wire.TransformPRF && a.ID == uint16(wire.PRFHMACSHA1); sha1 {
		b.wrong = append(b.wrong, trouble{"weak-algorithm", fmt.Sprintf("%q in %q is obsolete and used because it is written here", word, b.text), "write sha256 as soon as the peer can", true})
	}
	if !slices.Contains(b.list, t) {
		b.list = append(b.list, t)
	}
}

// acceptedWords lists one word for each algorithm.
func acceptedWords(all []algorithm) (list []string) {
	for _, a := range all {
		if a.Refuse == "" {
			list = append(list, a.Words[0])
		}
	}
	return list
}

// proposal puts the transforms in order and fills in what the words left open.
func (b *builder) proposal() wire.Proposal {
	encr, hashes, prfs, groups, esn := b.of(wire.TransformEncr), b.of(wire.TransformInteg), b.of(wire.TransformPRF), b.of(wire.TransformKE), b.of(wire.TransformESN)
	aead := len(encr) > 0 && isAEAD(encr[0])
	switch {
	case b.failed():
	case len(encr) == 0:
		b.fail("bad-proposal", "add one such as aes256gcm16 or aes256", "%q names no cipher", b.text)
	case slices.ContainsFunc(encr, func(t wire.Transform) bool { return isAEAD(t) != aead }):
		b.fail("bad-proposal", "separate them by a comma, each with its other words", "%q mixes ciphers that authenticate by themselves with others (RFC 7296 section 3.3)", b.text)
	case !aead && len(hashes) == 0:
		b.fail("bad-proposal", "add sha256, or write aes256gcm16", "%q names no integrity algorithm, which %s needs", b.text, encr[0].Word())
	case aead && len(hashes) > 0 && (b.proto == wire.ProtoESP || len(prfs) > 0):
		b.fail("bad-proposal", "leave the integrity algorithm out", "%q names %s, but %s authenticates by itself", b.text, hashes[0].Word(), encr[0].Word())
	}
	if b.proto == wire.ProtoESP {
		if len(esn) == 0 {
			esn = defaultESN()
		}
		return proposal(b.proto, encr, hashes, esn)
	}
	if len(prfs) == 0 {
		prfs = prfsFor(hashes)
	}
	if aead {
		hashes = nil
	}
	if len(groups) == 0 {
		groups = groupTransforms(defaultGroups())
	}
	return proposal(b.proto, encr, prfs, hashes, groups)
}

// prfsFor: without a word for it, the PRF uses the hash of the integrity algorithm, as strongSwan and Libreswan have it; SHA-2 when there is
// none.
func prfsFor(hashes []wire.Transform) (list []wire.Transform) {
	for _, h := range hashes {
		id := wire.PRFHMACSHA256
		switch h.ID {
		case wire.IntegSHA1_96:
			id = wire.PRFHMACSHA1
		case wire.IntegSHA384_192:
			id = wire.PRFHMACSHA384
		case wire.IntegSHA512_256:
			id = wire.PRFHMACSHA512
		}
		list = append(list, wire.Transform{Type: wire.TransformPRF, ID: uint16(id)})
	}
	if len(list) == 0 {
		return defaultPRFs()
	}
	return list
}

// readGroups reads the words of pfs: groups in order of preference.
func readGroups(text string) (list []wire.GroupID, wrong []trouble) {
	b := builder{proto: wire.ProtoESP}
	b.read(text)
	for _, t := range b.list {
		if t.Type != wire.TransformKE {
			b.fail("bad-value", `write yes, prefer, no or groups such as "ecp256"`, "%q is not a group", t.Word())
			continue
		}
		list = append(list, wire.GroupID(t.ID))
	}
	return list, b.wrong
}
