package wire

import "fmt"

// String is like "ENCR".
func (t TransformType) String() string {
	switch t {
	case TransformEncr:
		return "ENCR"
	case TransformPRF:
		return "PRF"
	case TransformInteg:
		return "INTEG"
	case TransformKE:
		return "KE"
	case TransformESN:
		return "ESN"
	}
	if t >= TransformADDKE1 && t <= TransformADDKE7 {
		return fmt.Sprintf("ADDKE%d", t-TransformADDKE1+1)
	}
	return fmt.Sprintf("Transform(%d)", uint8(t))
}

// String is IANA's name, like "ENCR_AES_GCM_16", with the key length behind it where there is one: "ENCR_AES_CBC 256".
func (t Transform) String() string {
	name := transformName(t.Type, t.ID)
	if t.KeyBits != 0 {
		return fmt.Sprintf("%s %d", name, t.KeyBits)
	}
	return name
}

// Word is what an operator reads and writes: "AES-GCM-256", "SHA2-256", "MODP-2048", "ESN".
func (t Transform) Word() string {
	switch t.Type {
	case TransformEncr:
		return EncrWord(t.ID, t.KeyBits)
	case TransformPRF:
		return PRFID(t.ID).Word()
	case TransformInteg:
		return IntegWord(t.ID)
	case TransformESN:
		switch t.ID {
		case ESNNo:
			return "no ESN"
		case ESNYes:
			return "ESN"
		}
	case TransformKE, TransformADDKE1, TransformADDKE2, TransformADDKE3, TransformADDKE4, TransformADDKE5, TransformADDKE6,
		TransformADDKE7:
		return GroupID(t.ID).Word()
	}
	return t.String()
}

func transformName(t TransformType, id uint16) string {
	switch t {
	case TransformEncr:
		return encrName(id)
	case TransformPRF:
		return PRFID(id).String()
	case TransformInteg:
		return integName(id)
	case TransformESN:
		switch id {
		case ESNNo:
			return "No Extended Sequence Numbers"
		case ESNYes:
			return "Extended Sequence Numbers"
		}
	case TransformKE, TransformADDKE1, TransformADDKE2, TransformADDKE3, TransformADDKE4, TransformADDKE5, TransformADDKE6,
		TransformADDKE7:
		return GroupID(id).String()
	}
	return fmt.Sprintf("%s(%d)", t, id)
}

func encrName(id uint16) string {
	switch id {
	case EncrDESIV64:
		return "ENCR_DES_IV64"
	case EncrDES:
		return "ENCR_DES"
	case Encr3DES:
		return "ENCR_3DES"
	case EncrRC5:
		return "ENCR_RC5"
	case EncrIDEA:
		return "ENCR_IDEA"
	case EncrCAST:
		return "ENCR_CAST"
	case EncrBlowfish:
		return "ENCR_BLOWFISH"
	case Encr3IDEA:
		return "ENCR_3IDEA"
	case EncrDESIV32:
		return "ENCR_DES_IV32"
	case EncrNull:
		return "ENCR_NULL"
	case EncrAESCBC:
		return "ENCR_AES_CBC"
	case EncrAESCTR:
		return "ENCR_AES_CTR"
	case EncrAESCCM8:
		return "ENCR_AES_CCM_8"
	case EncrAESCCM12:
		return "ENCR_AES_CCM_12"
	case EncrAESCCM16:
		return "ENCR_AES_CCM_16"
	case EncrAESGCM8:
		return "ENCR_AES_GCM_8"
	case EncrAESGCM12:
		return "ENCR_AES_GCM_12"
	case EncrAESGCM16:
		return "ENCR_AES_GCM_16"
	case EncrNullAuthAESGMAC:
		return "ENCR_NULL_AUTH_AES_GMAC"
	case EncrCamelliaCBC:
		return "ENCR_CAMELLIA_CBC"
	case EncrCamelliaCTR:
		return "ENCR_CAMELLIA_CTR"
	case EncrCamelliaCCM8:
		return "ENCR_CAMELLIA_CCM_8"
	case EncrCamelliaCCM12:
		return "ENCR_CAMELLIA_CCM_12"
	case EncrCamelliaCCM16:
		return "ENCR_CAMELLIA_CCM_16"
	case EncrChaCha20Poly1305:
		return "ENCR_CHACHA20_POLY1305"
	case EncrAESCCM8IIV:
		return "ENCR_AES_CCM_8_IIV"
	case EncrAESGCM16IIV:
		return "ENCR_AES_GCM_16_IIV"
	case EncrChaCha20Poly1305IIV:
		return "ENCR_CHACHA20_POLY1305_IIV"
	case EncrKuznyechikMGM:
		return "ENCR_KUZNYECHIK_MGM_KTREE"
	case EncrMagmaMGM:
		return "ENCR_MAGMA_MGM_KTREE"
	case EncrKuznyechikMGMMAC:
		return "ENCR_KUZNYECHIK_MGM_MAC_KTREE"
	case EncrMagmaMGMMAC:
		return "ENCR_MAGMA_MGM_MAC_KTREE"
	}
	return fmt.Sprintf("ENCR(%d)", id)
}

// EncrWord is the operator's word for an encryption algorithm: "AES-CBC-256", "AES-GCM-128", "ChaCha20-Poly1305". Names that
// cygnet does not use are IANA's.
func EncrWord(id, keyBits uint16) string {
	var word string
	switch id {
	case Encr3DES:
		word = "3DES"
	case EncrNull:
		word = "NULL"
	case EncrAESCBC:
		word = "AES-CBC"
	case EncrAESCTR:
		word = "AES-CTR"
	case EncrAESCCM8:
		word = "AES-CCM-8"
	case EncrAESCCM12:
		word = "AES-CCM-12"
	case EncrAESCCM16:
		word = "AES-CCM"
	case EncrAESGCM8:
		word = "AES-GCM-8"
	case EncrAESGCM12:
		word = "AES-GCM-12"
	case EncrAESGCM16:
		word = "AES-GCM"
	case EncrNullAuthAESGMAC:
		word = "AES-GMAC"
	case EncrChaCha20Poly1305:
		return "ChaCha20-Poly1305" // its key length is fixed
	default:
		word = encrName(id)
	}
	if keyBits != 0 {
		return fmt.Sprintf("%s-%d", word, keyBits)
	}
	return word
}

func integName(id uint16) string {
	switch id {
	case IntegNone:
		return "NONE"
	case IntegMD5_96:
		return "AUTH_HMAC_MD5_96"
	case IntegSHA1_96:
		return "AUTH_HMAC_SHA1_96"
	case IntegDESMAC:
		return "AUTH_DES_MAC"
	case IntegKPDKMD5:
		return "AUTH_KPDK_MD5"
	case IntegXCBC_96:
		return "AUTH_AES_XCBC_96"
	case IntegMD5_128:
		return "AUTH_HMAC_MD5_128"
	case IntegSHA1_160:
		return "AUTH_HMAC_SHA1_160"
	case IntegCMAC_96:
		return "AUTH_AES_CMAC_96"
	case IntegGMAC128:
		return "AUTH_AES_128_GMAC"
	case IntegGMAC192:
		return "AUTH_AES_192_GMAC"
	case IntegGMAC256:
		return "AUTH_AES_256_GMAC"
	case IntegSHA256_128:
		return "AUTH_HMAC_SHA2_256_128"
	case IntegSHA384_192:
		return "AUTH_HMAC_SHA2_384_192"
	case IntegSHA512_256:
		return "AUTH_HMAC_SHA2_512_256"
	}
	return fmt.Sprintf("INTEG(%d)", id)
}

// IntegWord is the operator's word for an integrity algorithm: "SHA2-256", "SHA1", "none".
func IntegWord(id uint16) string {
	switch id {
	case IntegNone:
		return "none"
	case IntegMD5_96:
		return "MD5"
	case IntegSHA1_96:
		return "SHA1"
	case IntegXCBC_96:
		return "AES-XCBC"
	case IntegCMAC_96:
		return "AES-CMAC"
	case IntegSHA256_128:
		return "SHA2-256"
	case IntegSHA384_192:
		return "SHA2-384"
	case IntegSHA512_256:
		return "SHA2-512"
	}
	return integName(id)
}

// String is like "PRF_HMAC_SHA2_256".
func (p PRFID) String() string {
	switch p {
	case PRFHMACMD5:
		return "PRF_HMAC_MD5"
	case PRFHMACSHA1:
		return "PRF_HMAC_SHA1"
	case PRFHMACTiger:
		return "PRF_HMAC_TIGER"
	case PRFAES128XCBC:
		return "PRF_AES128_XCBC"
	case PRFHMACSHA256:
		return "PRF_HMAC_SHA2_256"
	case PRFHMACSHA384:
		return "PRF_HMAC_SHA2_384"
	case PRFHMACSHA512:
		return "PRF_HMAC_SHA2_512"
	case PRFAES128CMAC:
		return "PRF_AES128_CMAC"
	case PRFStreebog512:
		return "PRF_HMAC_STREEBOG_512"
	}
	return fmt.Sprintf("PRF(%d)", uint16(p))
}

// Word is the operator's word for a PRF: "SHA2-256".
func (p PRFID) Word() string {
	switch p {
	case PRFHMACMD5:
		return "MD5"
	case PRFHMACSHA1:
		return "SHA1"
	case PRFAES128XCBC:
		return "AES-XCBC"
	case PRFHMACSHA256:
		return "SHA2-256"
	case PRFHMACSHA384:
		return "SHA2-384"
	case PRFHMACSHA512:
		return "SHA2-512"
	case PRFAES128CMAC:
		return "AES-CMAC"
	}
	return p.String()
}
