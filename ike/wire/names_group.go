package wire

import "fmt"

// String is IANA's name, like "2048-bit MODP Group".
func (g GroupID) String() string { name, _ := g.names(); return name }

// Word is the operator's word for a key exchange method: "MODP-2048", "ECP-256", "X25519", "ML-KEM-768".
func (g GroupID) Word() string { _, word := g.names(); return word }

func (g GroupID) names() (iana, word string) {
	switch g {
	case GroupNone:
		return "NONE", "none"
	case GroupMODP768:
		return "768-bit MODP Group", "MODP-768"
	case GroupMODP1024:
		return "1024-bit MODP Group", "MODP-1024"
	case GroupMODP1536:
		return "1536-bit MODP Group", "MODP-1536"
	case GroupMODP2048:
		return "2048-bit MODP Group", "MODP-2048"
	case GroupMODP3072:
		return "3072-bit MODP Group", "MODP-3072"
	case GroupMODP4096:
		return "4096-bit MODP Group", "MODP-4096"
	case GroupMODP6144:
		return "6144-bit MODP Group", "MODP-6144"
	case GroupMODP8192:
		return "8192-bit MODP Group", "MODP-8192"
	case GroupECP256:
		return "256-bit random ECP group", "ECP-256"
	case GroupECP384:
		return "384-bit random ECP group", "ECP-384"
	case GroupECP521:
		return "521-bit random ECP group", "ECP-521"
	case GroupMODP1024S160:
		return "1024-bit MODP Group with 160-bit Prime Order Subgroup", "MODP-1024-S160"
	case GroupMODP2048S224:
		return "2048-bit MODP Group with 224-bit Prime Order Subgroup", "MODP-2048-S224"
	case GroupMODP2048S256:
		return "2048-bit MODP Group with 256-bit Prime Order Subgroup", "MODP-2048-S256"
	case GroupECP192:
		return "192-bit Random ECP Group", "ECP-192"
	case GroupECP224:
		return "224-bit Random ECP Group", "ECP-224"
	case GroupBrainpool224:
		return "brainpoolP224r1", "Brainpool-224"
	case GroupBrainpool256:
		return "brainpoolP256r1", "Brainpool-256"
	case GroupBrainpool384:
		return "brainpoolP384r1", "Brainpool-384"
	case GroupBrainpool512:
		return "brainpoolP512r1", "Brainpool-512"
	case GroupX25519:
		return "Curve25519", "X25519"
	case GroupX448:
		return "Curve448", "X448"
	case GroupGOST256:
		return "GOST3410_2012_256", "GOST-256"
	case GroupGOST512:
		return "GOST3410_2012_512", "GOST-512"
	case GroupMLKEM512:
		return "ml-kem-512", "ML-KEM-512"
	case GroupMLKEM768:
		return "ml-kem-768", "ML-KEM-768"
	case GroupMLKEM1024:
		return "ml-kem-1024", "ML-KEM-1024"
	}
	unknown := fmt.Sprintf("Group(%d)", uint16(g))
	return unknown, unknown
}
