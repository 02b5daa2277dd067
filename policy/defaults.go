package policy

import (
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// Defaults of what a configuration leaves out, each with its source.
const (
	DefaultDataplane = "auto" // the kernel where it has ESP, else userspace
	DefaultLogLevel  = "info"
	DefaultPort      = 500  // RFC 7296 section 2
	DefaultNATTPort  = 4500 // RFC 7296 section 2, RFC 3948 section 2

	// DefaultCookieThreshold is reached only under a flood or when many peers come back at once; a cookie costs those one round trip
	// (RFC 7296 section 2.6 leaves the number open; strongSwan has 30).
	DefaultCookieThreshold = 64

	// DefaultMTU inside userspace tunnels leaves room in an outer MTU of 1500 for all suites but AES-CBC with SHA2-384 or SHA2-512 over IPv6. The
	// least is what IPv6 demands (RFC 8200 section 5), the most what an IP packet around it can hold.
	DefaultMTU = 1400
	minMTU     = 1280
	maxMTU     = 65000

	DefaultStart = StartManual

	// Liveness: 30 s without a sign of life, then 4, 7.2, 13, 23.3 and 42 s: a dead peer is known after two minutes at the latest. The
	// first timeout and the factor are those of strongSwan's retransmission, 5 tries too.
	DefaultLivenessIdle    = 30 * time.Second
	DefaultLivenessTries   = 5
	DefaultLivenessTimeout = 4 * time.Second
	DefaultLivenessFactor  = 1.8

	// DefaultMOBIKE: a tunnel outlives a change of addresses (RFC 4555).
	DefaultMOBIKE = true

	DefaultNATKeepalive = 20 * time.Second // RFC 3948 section 4

	// Lifetimes are those of strongSwan: 4 h and 1 h, the hard limit a tenth behind, and up to a tenth subtracted at random so that neither both
	// sides nor many tunnels rekey at once (RFC 7296 section 2.8). Reauthentication is off: rekeying renews the keys just as well.
	DefaultIKERekey   = 4 * time.Hour
	DefaultReauth     = 0
	DefaultChildRekey = time.Hour
	MaxLifetime       = 30 * 24 * time.Hour
	MinLifeBytes      = 1 << 20 // below it is a warning
	MinLifePackets    = 1000    // below it is a warning
	MaxLifeAmount     = 1 << 60
	lifetimeFraction  = 10
	shortLifetime     = time.Minute // below it is a warning
	// rekeyMargin is enough to send a rekey four times, at the default timeout of liveness.
	rekeyMargin = 30 * time.Second

	// DefaultReplayWindow holds what several CPUs reorder at gigabit speeds; RFC 4303 section 3.4.3 wants at least 32 and prefers 64.
	DefaultReplayWindow = 128
	MinReplayWindow     = 32
	MaxReplayWindow     = 4096 // Linux' XFRMA_REPLAY_ESN_MAX
)

// defaultGroups: X25519 is fastest and its KE payload small (RFC 8031); MODP-2048 is what every peer of this century has (RFC 8247 section
// 2.4: MUST). The first is the first guess for a KE payload.
func defaultGroups() []wire.GroupID {
	return []wire.GroupID{wire.GroupX25519, wire.GroupECP256, wire.GroupECP384, wire.GroupECP521, wire.GroupMODP3072, wire.GroupMODP4096, wire.GroupMODP2048}
}

// defaultPFS prefers a key exchange of the child's own, yet takes a child without: strongSwan and Windows ask for none by default, and the
// tunnel would break at its first rekey.
func defaultPFS() []wire.GroupID { return append(defaultGroups(), wire.GroupNone) }

// defaultIKE: AEAD first, then the classic ciphers, in proposals of their own (RFC 7296 section 3.3). AES-256, SHA2-256 and MODP-2048 are
// always among them; SHA-1 never is (RFC 8247).
func defaultIKE() []wire.Proposal {
	prfs, groups := defaultPRFs(), groupTransforms(defaultGroups())
	return []wire.Proposal{
		proposal(wire.ProtoIKE, aeadCiphers(), prfs, groups),
		proposal(wire.ProtoIKE, cbcCiphers(256, 192, 128), prfs, sha2(), groups),
	}
}

// defaultESP follows RFC 8221: AES-GCM first, then CBC with SHA-2. Extended sequence numbers are preferred (RFC 7296 section 3.3.2), as a
// gigabit tunnel uses up 2^32 numbers within an hour.
func defaultESP() []wire.Proposal {
	return []wire.Proposal{
		proposal(wire.ProtoESP, aeadCiphers(), defaultESN()),
		proposal(wire.ProtoESP, cbcCiphers(256, 128), sha2(), defaultESN()),
	}
}

func defaultPRFs() []wire.Transform {
	return transforms(wire.TransformPRF, uint16(wire.PRFHMACSHA256), uint16(wire.PRFHMACSHA384), uint16(wire.PRFHMACSHA512))
}

func groupTransforms(ids []wire.GroupID) (list []wire.Transform) {
	for _, g := range ids {
		list = append(list, group(g))
	}
	return list
}

func defaultESN() []wire.Transform {
	return transforms(wire.TransformESN, wire.ESNYes, wire.ESNNo)
}

func aeadCiphers() []wire.Transform {
	return []wire.Transform{
		{Type: wire.TransformEncr, ID: uint16(alg.EncrAESGCM16), KeyBits: 256},
		{Type: wire.TransformEncr, ID: uint16(alg.EncrChaCha20Poly1305)},
		{Type: wire.TransformEncr, ID: uint16(alg.EncrAESGCM16), KeyBits: 128},
	}
}

func cbcCiphers(bits ...uint16) (list []wire.Transform) {
	for _, b := range bits {
		list = append(list, wire.Transform{Type: wire.TransformEncr, ID: uint16(alg.EncrAESCBC), KeyBits: b})
	}
	return list
}

func sha2() []wire.Transform {
	return transforms(wire.TransformInteg, uint16(alg.IntegSHA256_128), uint16(alg.IntegSHA384_192), uint16(alg.IntegSHA512_256))
}

func transforms(typ wire.TransformType, ids ...uint16) (list []wire.Transform) {
	for _, id := range ids {
		list = append(list, wire.Transform{Type: typ, ID: id})
	}
	return list
}

func proposal(proto wire.ProtocolID, lists ...[]wire.Transform) wire.Proposal {
	p := wire.Proposal{Protocol: proto}
	for _, l := range lists {
		p.Transforms = append(p.Transforms, l...)
	}
	return p
}

func defaultDaemon() Daemon {
	return Daemon{Dataplane: DefaultDataplane, LogLevel: DefaultLogLevel, Port: DefaultPort, NATTPort: DefaultNATTPort, MTU: DefaultMTU, CookieThreshold: DefaultCookieThreshold}
}
