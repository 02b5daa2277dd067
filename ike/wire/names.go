package wire

import "fmt"

// The String methods give IANA's names, and numbers that have none as Notify(12345).

// String is 16 hexadecimal digits, as other implementations print SPIs.
func (s SPI) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// String is like "IKE_SA_INIT".
func (t ExchangeType) String() string {
	switch t {
	case IKESAInit:
		return "IKE_SA_INIT"
	case IKEAuth:
		return "IKE_AUTH"
	case CreateChildSA:
		return "CREATE_CHILD_SA"
	case Informational:
		return "INFORMATIONAL"
	case IKESessionResume:
		return "IKE_SESSION_RESUME"
	case GSAAuth:
		return "GSA_AUTH"
	case GSARegistration:
		return "GSA_REGISTRATION"
	case GSARekey:
		return "GSA_REKEY"
	case IKEIntermediate:
		return "IKE_INTERMEDIATE"
	case IKEFollowupKE:
		return "IKE_FOLLOWUP_KE"
	}
	return fmt.Sprintf("Exchange(%d)", uint8(t))
}

// String is the notation of the registry, like "TSi".
func (t PayloadType) String() string {
	switch t {
	case PayloadNone:
		return "none"
	case PayloadSA:
		return "SA"
	case PayloadKE:
		return "KE"
	case PayloadIDi:
		return "IDi"
	case PayloadIDr:
		return "IDr"
	case PayloadCert:
		return "CERT"
	case PayloadCertReq:
		return "CERTREQ"
	case PayloadAuth:
		return "AUTH"
	case PayloadNonce:
		return "Nonce"
	case PayloadNotify:
		return "Notify"
	case PayloadDelete:
		return "Delete"
	case PayloadVendor:
		return "Vendor ID"
	case PayloadTSi:
		return "TSi"
	case PayloadTSr:
		return "TSr"
	case PayloadSK:
		return "SK"
	case PayloadCP:
		return "CP"
	case PayloadEAP:
		return "EAP"
	case PayloadGSPM:
		return "GSPM"
	case PayloadIDg:
		return "IDg"
	case PayloadGSA:
		return "GSA"
	case PayloadKD:
		return "KD"
	case PayloadSKF:
		return "SKF"
	case PayloadPS:
		return "PS"
	}
	return fmt.Sprintf("Payload(%d)", uint8(t))
}

// String is like "ESP".
func (p ProtocolID) String() string {
	switch p {
	case ProtoNone:
		return "none"
	case ProtoIKE:
		return "IKE"
	case ProtoAH:
		return "AH"
	case ProtoESP:
		return "ESP"
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}

// String is like "ID_FQDN".
func (t IDType) String() string {
	switch t {
	case IDIPv4Addr:
		return "ID_IPV4_ADDR"
	case IDFQDN:
		return "ID_FQDN"
	case IDRFC822Addr:
		return "ID_RFC822_ADDR"
	case IDIPv6Addr:
		return "ID_IPV6_ADDR"
	case IDDERASN1DN:
		return "ID_DER_ASN1_DN"
	case IDDERASN1GN:
		return "ID_DER_ASN1_GN"
	case IDKeyID:
		return "ID_KEY_ID"
	case IDFCName:
		return "ID_FC_NAME"
	case IDNull:
		return "ID_NULL"
	}
	return fmt.Sprintf("ID(%d)", uint8(t))
}

// String is like "Digital Signature".
func (m AuthMethod) String() string {
	switch m {
	case AuthRSASignature:
		return "RSA Digital Signature"
	case AuthSharedKey:
		return "Shared Key Message Integrity Code"
	case AuthDSSSignature:
		return "DSS Digital Signature"
	case AuthECDSA256:
		return "ECDSA with SHA-256 on the P-256 curve"
	case AuthECDSA384:
		return "ECDSA with SHA-384 on the P-384 curve"
	case AuthECDSA521:
		return "ECDSA with SHA-512 on the P-521 curve"
	case AuthSecurePassword:
		return "Generic Secure Password Authentication Method"
	case AuthNull:
		return "NULL Authentication"
	case AuthDigitalSignature:
		return "Digital Signature"
	}
	return fmt.Sprintf("Auth(%d)", uint8(m))
}

// String is like "X.509 Certificate - Signature".
func (e CertEncoding) String() string {
	switch e {
	case CertPKCS7:
		return "PKCS #7 wrapped X.509 certificate"
	case CertPGP:
		return "PGP Certificate"
	case CertDNSSignedKey:
		return "DNS Signed Key"
	case CertX509Signature:
		return "X.509 Certificate - Signature"
	case CertKerberosToken:
		return "Kerberos Token"
	case CertCRL:
		return "Certificate Revocation List (CRL)"
	case CertARL:
		return "Authority Revocation List (ARL)"
	case CertSPKI:
		return "SPKI Certificate"
	case CertX509Attribute:
		return "X.509 Certificate - Attribute"
	case CertRawRSA:
		return "Raw RSA Key"
	case CertHashURLX509:
		return "Hash and URL of X.509 certificate"
	case CertHashURLX509Bundle:
		return "Hash and URL of X.509 bundle"
	case CertOCSPContent:
		return "OCSP Content"
	case CertRawPublicKey:
		return "Raw Public Key"
	}
	return fmt.Sprintf("CertEncoding(%d)", uint8(e))
}

// String is like "SHA2-256".
func (h HashID) String() string {
	switch h {
	case HashSHA1:
		return "SHA1"
	case HashSHA256:
		return "SHA2-256"
	case HashSHA384:
		return "SHA2-384"
	case HashSHA512:
		return "SHA2-512"
	case HashIdentity:
		return "Identity"
	case HashStreebog256:
		return "STREEBOG_256"
	case HashStreebog512:
		return "STREEBOG_512"
	}
	return fmt.Sprintf("Hash(%d)", uint16(h))
}

// String is like "TS_IPV4_ADDR_RANGE".
func (t TSType) String() string {
	switch t {
	case TSIPv4AddrRange:
		return "TS_IPV4_ADDR_RANGE"
	case TSIPv6AddrRange:
		return "TS_IPV6_ADDR_RANGE"
	case TSFCAddrRange:
		return "TS_FC_ADDR_RANGE"
	case TSSecLabel:
		return "TS_SECLABEL"
	}
	return fmt.Sprintf("TS(%d)", uint8(t))
}

// String is like "CFG_REQUEST".
func (t CfgType) String() string {
	switch t {
	case CfgRequest:
		return "CFG_REQUEST"
	case CfgReply:
		return "CFG_REPLY"
	case CfgSet:
		return "CFG_SET"
	case CfgAck:
		return "CFG_ACK"
	}
	return fmt.Sprintf("CFG(%d)", uint8(t))
}

// String is like "INTERNAL_IP4_ADDRESS".
func (t AttrType) String() string {
	switch t {
	case AttrInternalIP4Address:
		return "INTERNAL_IP4_ADDRESS"
	case AttrInternalIP4Netmask:
		return "INTERNAL_IP4_NETMASK"
	case AttrInternalIP4DNS:
		return "INTERNAL_IP4_DNS"
	case AttrInternalIP4NBNS:
		return "INTERNAL_IP4_NBNS"
	case AttrInternalAddressExpiry:
		return "INTERNAL_ADDRESS_EXPIRY"
	case AttrInternalIP4DHCP:
		return "INTERNAL_IP4_DHCP"
	case AttrApplicationVersion:
		return "APPLICATION_VERSION"
	case AttrInternalIP6Address:
		return "INTERNAL_IP6_ADDRESS"
	case AttrInternalIP6DNS:
		return "INTERNAL_IP6_DNS"
	case AttrInternalIP6DHCP:
		return "INTERNAL_IP6_DHCP"
	case AttrInternalIP4Subnet:
		return "INTERNAL_IP4_SUBNET"
	case AttrSupportedAttributes:
		return "SUPPORTED_ATTRIBUTES"
	case AttrInternalIP6Subnet:
		return "INTERNAL_IP6_SUBNET"
	case AttrMIP6HomePrefix:
		return "MIP6_HOME_PREFIX"
	case AttrInternalIP6Link:
		return "INTERNAL_IP6_LINK"
	case AttrInternalIP6Prefix:
		return "INTERNAL_IP6_PREFIX"
	case AttrHomeAgentAddress:
		return "HOME_AGENT_ADDRESS"
	case AttrPCSCFIP4Address:
		return "P_CSCF_IP4_ADDRESS"
	case AttrPCSCFIP6Address:
		return "P_CSCF_IP6_ADDRESS"
	case AttrFTTKAT:
		return "FTT_KAT"
	case AttrExternalSourceIP4NAT:
		return "EXTERNAL_SOURCE_IP4_NAT_INFO"
	case AttrTimeoutPeriodLiveness:
		return "TIMEOUT_PERIOD_FOR_LIVENESS_CHECK"
	case AttrInternalDNSDomain:
		return "INTERNAL_DNS_DOMAIN"
	case AttrInternalDNSSECTA:
		return "INTERNAL_DNSSEC_TA"
	case AttrEncDNSIP4:
		return "ENCDNS_IP4"
	case AttrEncDNSIP6:
		return "ENCDNS_IP6"
	case AttrEncDNSDigestInfo:
		return "ENCDNS_DIGEST_INFO"
	}
	return fmt.Sprintf("Attr(%d)", uint16(t))
}
