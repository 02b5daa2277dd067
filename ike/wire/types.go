// Package wire is the codec of RFC 7296 section 3: octets to payload structs and back, with IANA's numbers and names.
// It does no cryptography and decides no policy. All input is untrusted; limits.go bounds what is kept. Bare section numbers in
// this package are those of RFC 7296.
//
// Refused here is what the layout of a message forbids: lengths and counts that disagree, ranges that run backwards, sizes that
// a table of the RFC fixes. Ignored are reserved bits and octets. Everything else comes through for callers to judge: versions,
// SPIs, exchange types, payloads that are missing, repeated or out of order, and unknown numbers of every kind.
//
// Decoding copies no octets, but for the SPIs of a Delete payload: what it returns aliases its input.
package wire

import "net/netip"

// SPI is an IKE SPI (RFC 7296 section 3.1).
type SPI uint64

// Header is the IKE header (RFC 7296 section 3.1). Length is computed on encoding.
type Header struct {
	SPIi, SPIr   SPI
	NextPayload  PayloadType // of the outermost chain; set on decoding, computed on encoding
	MajorVersion uint8       // 2
	MinorVersion uint8
	Exchange     ExchangeType
	Flags        Flags
	MessageID    uint32
	Length       uint32 // set on decoding
}

// Flags of the header.
type Flags uint8

const (
	FlagInitiator Flags = 0x08 // the sender is the original initiator of the IKE SA
	FlagVersion   Flags = 0x10
	FlagResponse  Flags = 0x20
)

// Response reports whether the message answers the request with the same Message ID.
func (h Header) Response() bool { return h.Flags&FlagResponse != 0 }

// Initiator reports whether the sender is the original initiator of the IKE SA (who did its last rekey, if any).
func (h Header) Initiator() bool { return h.Flags&FlagInitiator != 0 }

// HeaderLen is the length of the IKE header in octets.
const HeaderLen = 28

type (
	ExchangeType  uint8
	PayloadType   uint8
	ProtocolID    uint8
	TransformType uint8
	NotifyType    uint16
	IDType        uint8
	AuthMethod    uint8
	CertEncoding  uint8
	TSType        uint8
	CfgType       uint8
	AttrType      uint16 // configuration attribute
	PRFID         uint16 // transform type 2
	GroupID       uint16 // transform type 4: key exchange method
)

// Message is a decoded message. Of a protected message Payloads ends with *SK or *SKF, whose content is opened by suite and
// decoded by ParsePayloads.
type Message struct {
	Header
	Payloads []Payload
}

// Payload is one payload. The concrete types are pointers: *SA, *KE, *ID, *Cert, *CertReq, *Auth, *Nonce, *Notify, *Delete,
// *VendorID, *TS, *SK, *SKF, *CP, *EAP, *Unknown.
type Payload interface {
	Type() PayloadType
	// appendBody appends what follows the generic payload header.
	appendBody(b []byte) ([]byte, error)
}

type (
	// SA holds proposals (section 3.3).
	SA struct{ Proposals []Proposal }

	Proposal struct {
		Number     uint8
		Protocol   ProtocolID
		SPI        []byte // 0, 4 or 8 octets
		Transforms []Transform
	}

	// Transform: KeyBits is the Key Length attribute, 0 when absent. Unusable is set when the transform carries an attribute
	// that we do not understand or that may not be there; it is then never chosen (section 3.3.6).
	Transform struct {
		Type     TransformType
		ID       uint16
		KeyBits  uint16
		Unusable bool
	}

	KE struct { // section 3.4
		Group GroupID
		Data  []byte
	}

	// ID is IDi or IDr (section 3.5). Body is everything after the generic header as it was on the wire (ID type, RESERVED,
	// data): the signed octets use it (section 2.15). It is set on decoding and built by NewID.
	ID struct {
		Responder bool
		IDType    IDType
		Data      []byte
		Body      []byte
	}

	Cert struct { // section 3.6
		Encoding CertEncoding
		Data     []byte
	}
	CertReq struct { // section 3.7; Authorities is a run of 20-octet hashes
		Encoding    CertEncoding
		Authorities []byte
	}
	Auth struct { // section 3.8
		Method AuthMethod
		Data   []byte
	}
	Nonce struct{ Data []byte } // section 3.9

	Notify struct { // section 3.10
		Protocol ProtocolID
		SPI      []byte
		Kind     NotifyType
		Data     []byte
	}
	Delete struct { // section 3.11; SPIs of 4 octets for ESP and AH, none for IKE
		Protocol ProtocolID
		SPIs     []uint32
	}
	VendorID struct{ Data []byte }

	// TS is TSi or TSr (section 3.13).
	TS struct {
		Responder bool
		Selectors []TrafficSelector
	}
	// TrafficSelector: Start and End are of one family. Other TS types are kept with Raw set and no addresses; they are ignored
	// when selecting (section 2.9).
	TrafficSelector struct {
		TSType             TSType
		Protocol           uint8
		StartPort, EndPort uint16
		Start, End         netip.Addr
		Raw                []byte
	}

	// SK is an Encrypted payload (section 3.14): First is the type of the first payload inside, Body is IV, ciphertext and ICV.
	SK struct {
		First PayloadType
		Body  []byte
	}
	// SKF is an Encrypted Fragment payload (RFC 7383 section 2.5).
	SKF struct {
		First         PayloadType
		Number, Total uint16
		Body          []byte
	}

	CP struct { // section 3.15
		CfgType    CfgType
		Attributes []CfgAttr
	}
	CfgAttr struct {
		Attr  AttrType
		Value []byte
	}
	EAP struct{ Data []byte } // section 3.16: the whole EAP packet

	// Unknown is a payload of a type that we do not know, with its critical bit (section 2.5).
	Unknown struct {
		PayloadType PayloadType
		Critical    bool
		Body        []byte
	}
)

// Text is printable text made of octets that a peer sent: control characters, bidi controls and ANSI escapes are escaped, the
// length is bounded. Use it wherever peer octets reach an output.
type Text string
