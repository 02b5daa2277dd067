package wire

// IANA "Internet Key Exchange Version 2 (IKEv2) Parameters". A number without an RFC beside it is from RFC 7296. Registered
// numbers stand here even where cygnet does not use them, so that an output can name what a peer sent.

// Exchange types (section 3.1).
const (
	IKESAInit        ExchangeType = 34
	IKEAuth          ExchangeType = 35
	CreateChildSA    ExchangeType = 36
	Informational    ExchangeType = 37
	IKESessionResume ExchangeType = 38 // RFC 5723
	GSAAuth          ExchangeType = 39 // RFC 9838
	GSARegistration  ExchangeType = 40
	GSARekey         ExchangeType = 41
	IKEIntermediate  ExchangeType = 43 // RFC 9242
	IKEFollowupKE    ExchangeType = 44 // RFC 9370
)

// Payload types (section 3.2).
const (
	PayloadNone    PayloadType = 0
	PayloadSA      PayloadType = 33
	PayloadKE      PayloadType = 34
	PayloadIDi     PayloadType = 35
	PayloadIDr     PayloadType = 36
	PayloadCert    PayloadType = 37
	PayloadCertReq PayloadType = 38
	PayloadAuth    PayloadType = 39
	PayloadNonce   PayloadType = 40
	PayloadNotify  PayloadType = 41
	PayloadDelete  PayloadType = 42
	PayloadVendor  PayloadType = 43
	PayloadTSi     PayloadType = 44
	PayloadTSr     PayloadType = 45
	PayloadSK      PayloadType = 46
	PayloadCP      PayloadType = 47
	PayloadEAP     PayloadType = 48
	PayloadGSPM    PayloadType = 49 // RFC 6467; Unknown to this codec
	PayloadIDg     PayloadType = 50 // RFC 9838; Unknown to this codec
	PayloadGSA     PayloadType = 51
	PayloadKD      PayloadType = 52
	PayloadSKF     PayloadType = 53 // RFC 7383
	PayloadPS      PayloadType = 54 // RFC 8019; Unknown to this codec
)

// Security protocol identifiers (section 3.3.1).
const (
	ProtoNone ProtocolID = 0
	ProtoIKE  ProtocolID = 1
	ProtoAH   ProtocolID = 2
	ProtoESP  ProtocolID = 3
)

// Transform types (section 3.3.2).
const (
	TransformEncr   TransformType = 1
	TransformPRF    TransformType = 2
	TransformInteg  TransformType = 3
	TransformKE     TransformType = 4
	TransformESN    TransformType = 5
	TransformADDKE1 TransformType = 6 // RFC 9370, as the six that follow
	TransformADDKE2 TransformType = 7
	TransformADDKE3 TransformType = 8
	TransformADDKE4 TransformType = 9
	TransformADDKE5 TransformType = 10
	TransformADDKE6 TransformType = 11
	TransformADDKE7 TransformType = 12
)

// Encryption algorithms (transform type 1). They have no type of their own, so that they fit Transform.ID and alg.Encr alike.
const (
	EncrDESIV64             = 1
	EncrDES                 = 2
	Encr3DES                = 3
	EncrRC5                 = 4
	EncrIDEA                = 5
	EncrCAST                = 6
	EncrBlowfish            = 7
	Encr3IDEA               = 8
	EncrDESIV32             = 9
	EncrNull                = 11
	EncrAESCBC              = 12
	EncrAESCTR              = 13 // RFC 5930
	EncrAESCCM8             = 14 // RFC 5282 in IKE, RFC 4309 in ESP
	EncrAESCCM12            = 15
	EncrAESCCM16            = 16
	EncrAESGCM8             = 18 // RFC 5282 in IKE, RFC 4106 in ESP
	EncrAESGCM12            = 19
	EncrAESGCM16            = 20
	EncrNullAuthAESGMAC     = 21 // RFC 4543
	EncrCamelliaCBC         = 23 // RFC 5529
	EncrCamelliaCTR         = 24
	EncrCamelliaCCM8        = 25
	EncrCamelliaCCM12       = 26
	EncrCamelliaCCM16       = 27
	EncrChaCha20Poly1305    = 28 // RFC 7634
	EncrAESCCM8IIV          = 29 // RFC 8750
	EncrAESGCM16IIV         = 30
	EncrChaCha20Poly1305IIV = 31
	EncrKuznyechikMGM       = 32 // RFC 9227
	EncrMagmaMGM            = 33
	EncrKuznyechikMGMMAC    = 34
	EncrMagmaMGMMAC         = 35
)

// Pseudorandom functions (transform type 2).
const (
	PRFHMACMD5     PRFID = 1
	PRFHMACSHA1    PRFID = 2
	PRFHMACTiger   PRFID = 3
	PRFAES128XCBC  PRFID = 4 // RFC 4434
	PRFHMACSHA256  PRFID = 5 // RFC 4868
	PRFHMACSHA384  PRFID = 6
	PRFHMACSHA512  PRFID = 7
	PRFAES128CMAC  PRFID = 8 // RFC 4615
	PRFStreebog512 PRFID = 9 // RFC 9385
)

// Integrity algorithms (transform type 3), without a type of their own like the encryption algorithms.
const (
	IntegNone       = 0
	IntegMD5_96     = 1
	IntegSHA1_96    = 2
	IntegDESMAC     = 3
	IntegKPDKMD5    = 4
	IntegXCBC_96    = 5 // RFC 3566
	IntegMD5_128    = 6 // RFC 4595
	IntegSHA1_160   = 7 // RFC 4595
	IntegCMAC_96    = 8 // RFC 4494
	IntegGMAC128    = 9 // RFC 4543
	IntegGMAC192    = 10
	IntegGMAC256    = 11
	IntegSHA256_128 = 12 // RFC 4868
	IntegSHA384_192 = 13
	IntegSHA512_256 = 14
)

// Key exchange methods (transform type 4, and types 6 to 12 of RFC 9370).
const (
	GroupNone         GroupID = 0
	GroupMODP768      GroupID = 1
	GroupMODP1024     GroupID = 2
	GroupMODP1536     GroupID = 5 // RFC 3526
	GroupMODP2048     GroupID = 14
	GroupMODP3072     GroupID = 15
	GroupMODP4096     GroupID = 16
	GroupMODP6144     GroupID = 17
	GroupMODP8192     GroupID = 18
	GroupECP256       GroupID = 19 // RFC 5903
	GroupECP384       GroupID = 20
	GroupECP521       GroupID = 21
	GroupMODP1024S160 GroupID = 22 // RFC 5114
	GroupMODP2048S224 GroupID = 23
	GroupMODP2048S256 GroupID = 24
	GroupECP192       GroupID = 25
	GroupECP224       GroupID = 26
	GroupBrainpool224 GroupID = 27 // RFC 6954
	GroupBrainpool256 GroupID = 28
	GroupBrainpool384 GroupID = 29
	GroupBrainpool512 GroupID = 30
	GroupX25519       GroupID = 31 // RFC 8031
	GroupX448         GroupID = 32
	GroupGOST256      GroupID = 33 // RFC 9385
	GroupGOST512      GroupID = 34
	GroupMLKEM512     GroupID = 35 // draft-ietf-ipsecme-ikev2-mlkem
	GroupMLKEM768     GroupID = 36
	GroupMLKEM1024    GroupID = 37
)

// Extended sequence numbers (transform type 5), without a type of their own like the encryption algorithms.
const (
	ESNNo  = 0
	ESNYes = 1
)

// attrKeyLength is the only transform attribute (section 3.3.5).
const attrKeyLength = 14

// Identification types (section 3.5).
const (
	IDIPv4Addr   IDType = 1
	IDFQDN       IDType = 2
	IDRFC822Addr IDType = 3
	IDIPv6Addr   IDType = 5
	IDDERASN1DN  IDType = 9
	IDDERASN1GN  IDType = 10
	IDKeyID      IDType = 11
	IDFCName     IDType = 12 // RFC 4595
	IDNull       IDType = 13 // RFC 7619
)

// Certificate encodings (section 3.6).
const (
	CertPKCS7             CertEncoding = 1
	CertPGP               CertEncoding = 2
	CertDNSSignedKey      CertEncoding = 3
	CertX509Signature     CertEncoding = 4
	CertKerberosToken     CertEncoding = 6
	CertCRL               CertEncoding = 7
	CertARL               CertEncoding = 8
	CertSPKI              CertEncoding = 9
	CertX509Attribute     CertEncoding = 10
	CertRawRSA            CertEncoding = 11 // deprecated by RFC 7670
	CertHashURLX509       CertEncoding = 12
	CertHashURLX509Bundle CertEncoding = 13
	CertOCSPContent       CertEncoding = 14 // RFC 4806
	CertRawPublicKey      CertEncoding = 15 // RFC 7670
)

// Authentication methods (section 3.8).
const (
	AuthRSASignature     AuthMethod = 1
	AuthSharedKey        AuthMethod = 2
	AuthDSSSignature     AuthMethod = 3
	AuthECDSA256         AuthMethod = 9 // RFC 4754
	AuthECDSA384         AuthMethod = 10
	AuthECDSA521         AuthMethod = 11
	AuthSecurePassword   AuthMethod = 12 // RFC 6467
	AuthNull             AuthMethod = 13 // RFC 7619
	AuthDigitalSignature AuthMethod = 14 // RFC 7427
)

// HashID is a hash algorithm of SIGNATURE_HASH_ALGORITHMS (RFC 7427 section 4).
type HashID uint16

const (
	HashSHA1        HashID = 1
	HashSHA256      HashID = 2
	HashSHA384      HashID = 3
	HashSHA512      HashID = 4
	HashIdentity    HashID = 5 // RFC 8420
	HashStreebog256 HashID = 6 // RFC 9385
	HashStreebog512 HashID = 7
)

// Traffic selector types (section 3.13.1).
const (
	TSIPv4AddrRange TSType = 7
	TSIPv6AddrRange TSType = 8
	TSFCAddrRange   TSType = 9  // RFC 4595
	TSSecLabel      TSType = 10 // RFC 9478
)

// Configuration payload types (section 3.15).
const (
	CfgRequest CfgType = 1
	CfgReply   CfgType = 2
	CfgSet     CfgType = 3
	CfgAck     CfgType = 4
)

// Configuration attributes (section 3.15.1).
const (
	AttrInternalIP4Address    AttrType = 1
	AttrInternalIP4Netmask    AttrType = 2
	AttrInternalIP4DNS        AttrType = 3
	AttrInternalIP4NBNS       AttrType = 4
	AttrInternalAddressExpiry AttrType = 5 // RFC 4306; ignored (section 1.7)
	AttrInternalIP4DHCP       AttrType = 6
	AttrApplicationVersion    AttrType = 7
	AttrInternalIP6Address    AttrType = 8
	AttrInternalIP6DNS        AttrType = 10
	AttrInternalIP6DHCP       AttrType = 12
	AttrInternalIP4Subnet     AttrType = 13
	AttrSupportedAttributes   AttrType = 14
	AttrInternalIP6Subnet     AttrType = 15
	AttrMIP6HomePrefix        AttrType = 16 // RFC 5026
	AttrInternalIP6Link       AttrType = 17 // RFC 5739
	AttrInternalIP6Prefix     AttrType = 18 // RFC 5739
	AttrHomeAgentAddress      AttrType = 19
	AttrPCSCFIP4Address       AttrType = 20 // RFC 7651
	AttrPCSCFIP6Address       AttrType = 21 // RFC 7651
	AttrFTTKAT                AttrType = 22
	AttrExternalSourceIP4NAT  AttrType = 23
	AttrTimeoutPeriodLiveness AttrType = 24
	AttrInternalDNSDomain     AttrType = 25 // RFC 8598
	AttrInternalDNSSECTA      AttrType = 26 // RFC 8598
	AttrEncDNSIP4             AttrType = 27 // RFC 9464
	AttrEncDNSIP6             AttrType = 28 // RFC 9464
	AttrEncDNSDigestInfo      AttrType = 29 // RFC 9464
)
