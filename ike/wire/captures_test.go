package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// datagram is a recorded IKE message without its non-ESP marker, and what an independent decoder saw in it.
type datagram struct {
	name     string
	wire     []byte
	header   recordedHeader
	payloads []recordedPayload
}

type recordedHeader struct {
	SPIi        string `json:"spi_i"`
	SPIr        string `json:"spi_r"`
	NextPayload uint8  `json:"next_payload"`
	Version     string `json:"version"`
	Exchange    string `json:"exchange"`
	Initiator   bool   `json:"initiator"`
	Response    bool   `json:"response"`
	MessageID   uint32 `json:"message_id"`
	Length      uint32 `json:"length"`
}

type recordedPayload struct {
	Type       uint8   `json:"type"`
	Critical   bool    `json:"critical"`
	NotifyType *uint16 `json:"notify_type"`
	InnerNext  *uint8  `json:"inner_next"`
}

// plaintext is the content of a recorded SK payload, opened with its published keys.
type plaintext struct {
	name  string
	first PayloadType
	wire  []byte
}

func readJSON(tb testing.TB, file string, into any) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// recorded reads every whole IKE datagram of the captures, and every plaintext that belongs to one.
func recorded(tb testing.TB) (datagrams []datagram, plaintexts []plaintext) {
	tb.Helper()
	files, err := filepath.Glob("../../test/vectors/captures/*.json")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		var capture struct {
			Frames []struct {
				Frame     int               `json:"frame"`
				Kind      string            `json:"kind"`
				Hex       string            `json:"payload_hex"`
				IKE       recordedHeader    `json:"ike"`
				Payloads  []recordedPayload `json:"payloads"`
				Decrypted *struct {
					Plaintext string `json:"plaintext_hex"`
					First     uint8  `json:"first_inner_payload"`
				} `json:"decrypted"`
			} `json:"frames"`
		}
		readJSON(tb, file, &capture)
		for _, f := range capture.Frames {
			if f.Kind != "ike" {
				continue
			}
			name := fmt.Sprintf("%s/%d", filepath.Base(file), f.Frame)
			datagrams = append(datagrams, datagram{name, unhex(tb, f.Hex), f.IKE, f.Payloads})
			if d := f.Decrypted; d != nil {
				plaintexts = append(plaintexts, plaintext{name, PayloadType(d.First), unhex(tb, d.Plaintext)})
			}
		}
	}
	return datagrams, append(plaintexts, published(tb)...)
}

// published reads the plaintexts that come without a capture.
func published(tb testing.TB) []plaintext {
	tb.Helper()
	var aosp struct {
		Plaintext string `json:"ike_auth_plaintext"`
	}
	readJSON(tb, "../../test/vectors/captures/aosp-psk-exchange.json", &aosp)
	found := []plaintext{{"aosp IKE_AUTH", PayloadIDi, unhex(tb, aosp.Plaintext)}}
	var single struct {
		Cases []struct {
			ID        string          `json:"id"`
			Plaintext string          `json:"plaintext"`
			First     uint8           `json:"first_inner_payload"`
			Fragment  json.RawMessage `json:"fragment"`
		} `json:"cases"`
	}
	readJSON(tb, "../../test/vectors/ike_protected_messages.json", &single)
	for _, c := range single.Cases {
		if string(c.Fragment) == "null" { // a fragment's content starts and ends anywhere
			found = append(found, plaintext{c.ID, PayloadType(c.First), unhex(tb, c.Plaintext)})
		}
	}
	return found
}

// Recorded datagrams that this codec does not take or does not give back octet by octet, and why.
var (
	refusedCaptures = map[string]string{
		"tcpdump-ikev2-id-normal.json/1": "made by hand for a printer: 39 octets follow an IDi payload that is the last",
	}
	lossyCaptures = map[string]string{
		"tcpdump-ikev2pI2.json/1": "offers ENCR_AES_CBC without Key Length, an unusable transform",
		"tcpdump-ikev2pI2.json/2": "sets the critical bit of an SK payload, which is ignored and never sent",
	}
)

func TestCaptures(t *testing.T) {
	datagrams, _ := recorded(t)
	if len(datagrams) < 100 {
		t.Fatalf("only %d recorded datagrams", len(datagrams))
	}
	for _, d := range datagrams {
		t.Run(d.name, func(t *testing.T) {
			m, err := Decode(d.wire)
			if _, refused := refusedCaptures[d.name]; refused {
				if err == nil {
					t.Fatal("accepted")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkHeader(t, m.Header, d.header)
			checkPayloads(t, m.Payloads, d.payloads)
			b, err := m.Encode()
			_, lossy := lossyCaptures[d.name]
			if same := err == nil && bytes.Equal(b, d.wire); same == lossy {
				t.Fatalf("encoded again: same %v, expected %v, %v\n%x\n%x", same, !lossy, err, d.wire, b)
			}
		})
	}
}

func checkHeader(t *testing.T, h Header, want recordedHeader) {
	t.Helper()
	got := recordedHeader{
		SPIi: h.SPIi.String(), SPIr: h.SPIr.String(), NextPayload: uint8(h.NextPayload),
		Version: fmt.Sprintf("%d.%d", h.MajorVersion, h.MinorVersion), Exchange: h.Exchange.String(),
		Initiator: h.Initiator(), Response: h.Response(), MessageID: h.MessageID, Length: h.Length,
	}
	if got != want {
		t.Errorf("header\n got %+v\nwant %+v", got, want)
	}
}

func checkPayloads(t *testing.T, ps []Payload, want []recordedPayload) {
	t.Helper()
	if len(ps) != len(want) {
		t.Fatalf("%d payloads, recorded are %d", len(ps), len(want))
	}
	for i, p := range ps {
		if uint8(p.Type()) != want[i].Type {
			t.Errorf("payload %d is %s, recorded is %d", i, p.Type(), want[i].Type)
		}
		if n, ok := p.(*Notify); ok && (want[i].NotifyType == nil || *want[i].NotifyType != uint16(n.Kind)) {
			t.Errorf("payload %d is %s", i, n.Kind)
		}
		if sk, ok := p.(*SK); ok && (want[i].InnerNext == nil || *want[i].InnerNext != uint8(sk.First)) {
			t.Errorf("payload %d names %s as the first inside", i, sk.First)
		}
	}
}

func TestPlaintexts(t *testing.T) {
	_, plaintexts := recorded(t)
	if len(plaintexts) < 20 {
		t.Fatalf("only %d recorded plaintexts", len(plaintexts))
	}
	for _, p := range plaintexts {
		t.Run(p.name, func(t *testing.T) {
			ps, err := ParsePayloads(p.first, p.wire)
			if err != nil {
				t.Fatal(err)
			}
			first, b, err := AppendPayloads(nil, ps)
			if err != nil || first != p.first || !bytes.Equal(b, p.wire) {
				t.Fatalf("encoded again: first %s, %v\n%x\n%x", first, err, p.wire, b)
			}
		})
	}
}

// TestPublishedMessages takes the messages and KE payloads that vectors of other packages hold.
func TestPublishedMessages(t *testing.T) {
	var messages []string
	var aosp map[string]json.RawMessage
	readJSON(t, "../../test/vectors/captures/aosp-psk-exchange.json", &aosp)
	for _, name := range []string{"ike_sa_init_request", "ike_auth_request", "informational"} {
		var m string
		if err := json.Unmarshal(aosp[name], &m); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	for _, file := range []string{"ike_protected_messages", "auth_digital_signature_rfc7427", "ecp_groups"} {
		var vectors struct {
			Cases []struct {
				Message  string `json:"message"`
				Response string `json:"ike_sa_init_response"`
				KEi      string `json:"ke_payload_i"`
				KEr      string `json:"ke_payload_r"`
			} `json:"cases"`
		}
		readJSON(t, "../../test/vectors/"+file+".json", &vectors)
		for _, c := range vectors.Cases {
			messages = append(messages, c.Message, c.Response)
			for _, ke := range []string{c.KEi, c.KEr} {
				if ke != "" {
					checkAgain(t, message(PayloadKE, unhex(t, ke)))
				}
			}
		}
	}
	seen := 0
	for _, m := range messages {
		if m != "" {
			checkAgain(t, unhex(t, m))
			seen++
		}
	}
	if seen < 10 {
		t.Errorf("only %d messages", seen)
	}
}

func checkAgain(t *testing.T, b []byte) {
	t.Helper()
	m, err := Decode(b)
	if err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	if again, err := m.Encode(); err != nil || !bytes.Equal(again, b) {
		t.Errorf("encoded again, %v\n%x\n%x", err, b, again)
	}
}

// TestAOSPIKEAuth checks fields against the values that were published beside the message.
func TestAOSPIKEAuth(t *testing.T) {
	p := published(t)[0]
	ps, err := ParsePayloads(p.first, p.wire)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := FindID(ps, false)
	auth, _ := Find[*Auth](ps)
	sa, _ := Find[*SA](ps)
	tsr, _ := FindTS(ps, true)
	if hex.EncodeToString(id.Body) != "010000000a50500d" || id.IDType != IDIPv4Addr || hex.EncodeToString(id.Data) != "0a50500d" {
		t.Errorf("IDi %+v", id)
	}
	if auth.Method != AuthSharedKey || hex.EncodeToString(auth.Data) != "df7c038aefaaa32d3f44b228b52a332744dfb2c1" {
		t.Errorf("AUTH %+v", auth)
	}
	want := []Proposal{{Number: 1, Protocol: ProtoESP, SPI: unhex(t, "2ad4c0a2"), Transforms: []Transform{
		{Type: TransformEncr, ID: EncrAESCBC, KeyBits: 128},
		{Type: TransformInteg, ID: IntegSHA1_96},
		{Type: TransformESN, ID: ESNNo},
	}}}
	if !reflect.DeepEqual(sa.Proposals, want) {
		t.Errorf("SA\n got %v\nwant %v", sa.Proposals, want)
	}
	if ts := tsr.Selectors[0]; ts.Start.String() != "0.0.0.0" || ts.End.String() != "255.255.255.255" || ts.EndPort != 65535 {
		t.Errorf("TSr %v", ts)
	}
	if window, ok := FindNotify(ps, NotifySetWindowSize); !ok || hex.EncodeToString(window.Data) != "00000001" {
		t.Errorf("SET_WINDOW_SIZE %v", window)
	}
}

// TestPrefix: no strict prefix of a valid message is one, even with the length in its header put right.
func TestPrefix(t *testing.T) {
	datagrams, plaintexts := recorded(t)
	for _, d := range datagrams {
		for n := range len(d.wire) {
			if _, err := Decode(d.wire[:n]); err == nil {
				t.Fatalf("%s: the first %d of %d octets are accepted", d.name, n, len(d.wire))
			}
			if n < HeaderLen || refusedCaptures[d.name] != "" {
				continue
			}
			if _, err := Decode(withLength(bytes.Clone(d.wire[:n]))); err == nil {
				t.Fatalf("%s: the first %d of %d octets with their length are accepted", d.name, n, len(d.wire))
			}
		}
	}
	for _, p := range plaintexts {
		for n := range len(p.wire) {
			if _, err := ParsePayloads(p.first, p.wire[:n]); err == nil {
				t.Fatalf("%s: the first %d of %d octets are accepted", p.name, n, len(p.wire))
			}
		}
	}
}
