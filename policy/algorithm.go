package policy

import (
	"fmt"
	"slices"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// algorithm is one transform with the words that mean it in a configuration: the table reads the proposals that operators write.
type algorithm struct {
	Type    wire.TransformType
	ID      uint16
	KeyBits uint16
	Words   []string // strongSwan's and Libreswan's words; the first is the one we print
	Refuse  string   // why the word is not accepted and what to write instead; empty when it is
}

const (
	broken     = "is broken"
	notWritten = "is not implemented here"
)

func refuse(why, instead string) string { return why + "; write " + instead }

// algorithms lists what we know, also what we refuse, so that the refusal of a word can say why. IANA "Internet Key Exchange Version 2 (IKEv2)
// Parameters"; RFC 8247 says what is too weak for IKE, RFC 8221 for ESP.
func algorithms() []algorithm {
	return slices.Concat(ciphers(), macs(), prfs(), groups(), sequenceNumbers())
}

func ciphers() []algorithm {
	c := func(id alg.Encr, bits uint16, words ...string) algorithm {
		return algorithm{Type: wire.TransformEncr, ID: uint16(id), KeyBits: bits, Words: words}
	}
	no := func(id, bits uint16, why string, words ...string) algorithm {
		return algorithm{wire.TransformEncr, id, bits, words, why}
	}
	list := []algorithm{
		c(alg.EncrChaCha20Poly1305, 0, "chacha20poly1305", "chacha20_poly1305", "chachapoly", "chacha20poly1305compat"),
		no(wire.EncrDESIV64, 0, refuse(broken, "aes256"), "des_iv64"),
		no(wire.EncrDES, 0, refuse(broken+" (56-bit keys)", "aes256"), "des"),
		no(wire.Encr3DES, 0, refuse("has a block of 64 bits and is too weak (RFC 8247 section 2.1)", "aes256"), "3des", "3des_cbc"),
		no(wire.EncrIDEA, 0, refuse(notWritten, "aes256"), "idea"),
		no(wire.EncrCAST, 0, refuse("has a block of 64 bits and is too weak", "aes256"), "cast", "cast128"),
		no(wire.EncrBlowfish, 0, refuse("has a block of 64 bits and is too weak", "aes256"), "blowfish", "blowfish128", "blowfish256"),
		no(wire.EncrNull, 0, refuse("does not encrypt", "aes256gcm16"), "null", "null_auth_aes_gmac"),
	}
	for _, bits := range []uint16{256, 192, 128} {
		b := fmt.Sprint(bits)
		list = append(list,
			c(alg.EncrAESGCM16, bits, "aes"+b+"gcm16", "aes"+b+"gcm", "aes"+b+"gcm128", "aes_gcm"+b, "aes_gcm_"+b,
				"aes_gcm_c"+b, "aes_gcm_c_"+b, "aes_gcm16_"+b, "aes_gcm_16_"+b, "aesgcm"+b),
			c(alg.EncrAESCBC, bits, "aes"+b, "aes_"+b, "aes_cbc"+b, "aes_cbc_"+b, "aescbc"+b),
			no(wire.EncrAESCTR, bits, refuse(notWritten, "aes"+b+"gcm16"), "aes"+b+"ctr", "aes_ctr"+b, "aes_ctr_"+b),
			no(wire.EncrAESCCM16, bits, refuse(notWritten, "aes"+b+"gcm16"), "aes"+b+"ccm16", "aes"+b+"ccm128", "aes_ccm"+b, "aes_ccm_"+b),
			no(wire.EncrAESCCM12, bits, refuse("has a short ICV", "aes"+b+"gcm16"), "aes"+b+"ccm12", "aes"+b+"ccm96"),
			no(wire.EncrAESCCM8, bits, refuse("has a short ICV", "aes"+b+"gcm16"), "aes"+b+"ccm8", "aes"+b+"ccm64"),
			no(wire.EncrAESGCM12, bits, refuse("has a short ICV", "aes"+b+"gcm16"), "aes"+b+"gcm12", "aes"+b+"gcm96"),
			no(wire.EncrAESGCM8, bits, refuse("has a short ICV", "aes"+b+"gcm16"), "aes"+b+"gcm8", "aes"+b+"gcm64"),
			no(wire.EncrNullAuthAESGMAC, bits, refuse("does not encrypt", "aes"+b+"gcm16"), "aes"+b+"gmac"),
			no(wire.EncrCamelliaCBC, bits, refuse(notWritten, "aes"+b), "camellia"+b),
		)
	}
	return list
}

func macs() []algorithm {
	m := func(id alg.Integ, why string, words ...string) algorithm {
		return algorithm{wire.TransformInteg, uint16(id), 0, words, why}
	}
	return []algorithm{
		m(alg.IntegSHA256_128, "", "sha256", "sha2_256", "sha2", "sha2_256_128", "sha256_128"),
		m(alg.IntegSHA384_192, "", "sha384", "sha2_384", "sha384_192"),
		m(alg.IntegSHA512_256, "", "sha512", "sha2_512", "sha512_256"),
		m(alg.IntegSHA1_96, "", "sha1", "sha", "sha1_96"),
		m(wire.IntegMD5_96, refuse(broken, "sha256"), "md5", "md5_96"),
		m(wire.IntegXCBC_96, refuse(notWritten, "sha256"), "aesxcbc", "aes_xcbc"),
		m(wire.IntegCMAC_96, refuse(notWritten, "sha256"), "aescmac", "aes_cmac"),
	}
}

func prfs() []algorithm {
	p := func(id wire.PRFID, why string, words ...string) algorithm {
		return algorithm{wire.TransformPRF, uint16(id), 0, words, why}
	}
	return []algorithm{
		p(wire.PRFHMACSHA256, "", "prfsha256", "prfsha2_256"),
		p(wire.PRFHMACSHA384, "", "prfsha384", "prfsha2_384"),
		p(wire.PRFHMACSHA512, "", "prfsha512", "prfsha2_512"),
		p(wire.PRFHMACSHA1, "", "prfsha1", "prfsha"),
		p(wire.PRFHMACMD5, refuse(broken, "prfsha256"), "prfmd5"),
		p(wire.PRFAES128XCBC, refuse(notWritten, "prfsha256"), "prfaesxcbc"),
		p(wire.PRFAES128CMAC, refuse(notWritten, "prfsha256"), "prfaescmac"),
	}
}

func groups() []algorithm {
	g := func(id wire.GroupID, why string, words ...string) algorithm {
		return algorithm{wire.TransformKE, uint16(id), 0, append(words, fmt.Sprintf("dh%d", id)), why}
	}
	weak := refuse("is too weak (RFC 8247 section 2.4)", "modp2048 or ecp256")
	return []algorithm{
		g(wire.GroupX25519, "", "x25519", "curve25519"),
		g(wire.GroupECP256, "", "ecp256"),
		g(wire.GroupECP384, "", "ecp384"),
		g(wire.GroupECP521, "", "ecp521"),
		g(wire.GroupMODP2048, "", "modp2048"),
		g(wire.GroupMODP3072, "", "modp3072"),
		g(wire.GroupMODP4096, "", "modp4096"),
		g(wire.GroupNone, "", "modpnone"),
		g(wire.GroupMODP768, weak, "modp768"),
		g(wire.GroupMODP1024, weak, "modp1024"),
		g(wire.GroupMODP1536, weak, "modp1536"),
		g(wire.GroupMODP1024S160, weak, "modp1024s160"),
		g(wire.GroupMODP2048S224, refuse("has small subgroups (RFC 8247 section 2.4)", "modp2048"), "modp2048s224"),
		g(wire.GroupMODP2048S256, refuse("has small subgroups (RFC 8247 section 2.4)", "modp2048"), "modp2048s256"),
		g(wire.GroupECP192, weak, "ecp192"),
		g(wire.GroupECP224, weak, "ecp224"),
		g(wire.GroupMODP6144, refuse(notWritten, "modp4096"), "modp6144"),
		g(wire.GroupMODP8192, refuse(notWritten, "modp4096"), "modp8192"),
		g(wire.GroupBrainpool224, refuse(notWritten, "ecp256"), "ecp224bp"),
		g(wire.GroupBrainpool256, refuse(notWritten, "ecp256"), "ecp256bp"),
		g(wire.GroupBrainpool384, refuse(notWritten, "ecp384"), "ecp384bp"),
		g(wire.GroupBrainpool512, refuse(notWritten, "ecp521"), "ecp512bp"),
		g(wire.GroupX448, refuse(notWritten, "x25519"), "x448", "curve448"),
		g(wire.GroupMLKEM512, refuse(notWritten, "x25519"), "mlkem512"),
		g(wire.GroupMLKEM768, refuse(notWritten, "x25519"), "mlkem768"),
		g(wire.GroupMLKEM1024, refuse(notWritten, "x25519"), "mlkem1024"),
	}
}

func sequenceNumbers() []algorithm {
	return []algorithm{
		{Type: wire.TransformESN, ID: wire.ESNYes, Words: []string{"esn"}},
		{Type: wire.TransformESN, ID: wire.ESNNo, Words: []string{"noesn"}},
	}
}

func (a algorithm) transform() wire.Transform {
	return wire.Transform{Type: a.Type, ID: a.ID, KeyBits: a.KeyBits}
}

// lookUp finds the algorithm of a transform.
func lookUp(t wire.Transform) (algorithm, bool) {
	for _, a := range algorithms() {
		if a.Type == t.Type && a.ID == t.ID && a.KeyBits == t.KeyBits {
			return a, true
		}
	}
	return algorithm{}, false
}

// typeName is the transform type as people read it.
func typeName(t wire.TransformType) string {
	switch t {
	case wire.TransformEncr:
		return "encryption"
	case wire.TransformPRF:
		return "PRF"
	case wire.TransformInteg:
		return "integrity"
	case wire.TransformKE:
		return "group"
	case wire.TransformESN:
		return "sequence numbers"
	}
	return fmt.Sprintf("transform type %d", t)
}
