package auth

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"

	"cygnet/ike/wire"
)

var (
	octetsToSign = []byte("IKE_SA_INIT | nonce | prf(SK_p, ID)")
	all          = Hashes()
)

// Each kind of key, with each list that a peer may send: scheme and method, the same octets each time, and verified by the other side.
func TestSign(t *testing.T) {
	for _, c := range []struct {
		key    string
		rules  SignatureRules
		method wire.AuthMethod
		want   string // scheme, or a part of the fault
	}{
		{"rsa-a", SignatureRules{Hashes: all}, 14, "RSA-PSS with SHA2-512"},
		{"rsa-a", SignatureRules{Hashes: []wire.HashID{wire.HashSHA1, wire.HashSHA256, 77}}, 14, "RSA-PSS with SHA2-256"},
		{"rsa-a", SignatureRules{Hashes: []wire.HashID{wire.HashSHA384}, PSSTrailer: true}, 14, "RSA-PSS with SHA2-384"},
		{"rsa-a", SignatureRules{Hashes: all, PKCS1: true}, 14, "RSA PKCS #1 v1.5 with SHA2-512"},
		{"rsa-a", SignatureRules{Hashes: []wire.HashID{wire.HashSHA384}, PKCS1: true}, 14, "RSA PKCS #1 v1.5 with SHA2-384"},
		{"rsa-a", SignatureRules{Hashes: []wire.HashID{wire.HashSHA1}, SHA1: true}, 0, "accepts SHA-1"},
		{"rsa-a", SignatureRules{Hashes: []wire.HashID{wire.HashIdentity}}, 0, "accepts Identity"},
		{"rsa-a", SignatureRules{Hashes: []wire.HashID{}}, 0, "accepts none"},
		{"rsa-a", SignatureRules{}, 1, "RSA PKCS #1 v1.5 with SHA2-256"},
		{"rsa-a", SignatureRules{SHA1: true}, 1, "RSA PKCS #1 v1.5 with SHA-1"},
		{"rsa-e3", SignatureRules{Hashes: all}, 14, "RSA-PSS with SHA2-512"},
		{"p256", SignatureRules{Hashes: all}, 14, "ECDSA with SHA2-256"},
		{"p256", SignatureRules{Hashes: []wire.HashID{wire.HashSHA512}}, 14, "ECDSA with SHA2-512"},
		{"p384", SignatureRules{Hashes: all}, 14, "ECDSA with SHA2-384"},
		{"p384", SignatureRules{Hashes: []wire.HashID{wire.HashSHA256}}, 14, "ECDSA with SHA2-256"},
		{"p521", SignatureRules{Hashes: all}, 14, "ECDSA with SHA2-512"},
		{"p256", SignatureRules{}, 9, "ECDSA with SHA2-256"},
		{"p384", SignatureRules{}, 10, "ECDSA with SHA2-384"},
		{"p521", SignatureRules{}, 11, "ECDSA with SHA2-512"},
		{"ed25519-a", SignatureRules{Hashes: all}, 14, "Ed25519"},
		{"ed25519-a", SignatureRules{Hashes: []wire.HashID{wire.HashSHA512}}, 0, "signs with Identity"},
		{"ed25519-a", SignatureRules{}, 0, "RFC 8420 alone"},
	} {
		k := key(t, c.key)
		signed, f := k.Sign(octetsToSign, c.rules)
		if f != nil {
			if c.method != 0 || !strings.Contains(f.Why, c.want) || f.Code != FaultOwnKey {
				t.Errorf("%s with %+v: %v, want %q", c.key, c.rules, f, c.want)
			}
			continue
		}
		if signed.Scheme != c.want || signed.Auth.Method != c.method {
			t.Errorf("%s with %+v: %s, method %d; want %s, %d", c.key, c.rules, signed.Scheme, signed.Auth.Method, c.want, c.method)
		}
		again, _ := k.Sign(octetsToSign, c.rules)
		if !bytes.Equal(again.Auth.Data, signed.Auth.Data) {
			t.Errorf("%s with %+v: two signatures differ", c.key, c.rules)
		}
		scheme, f := VerifySignature(k.Public(), octetsToSign, signed.Auth, c.rules)
		if f != nil || scheme != signed.Scheme {
			t.Errorf("%s with %+v is verified as %q: %v", c.key, c.rules, scheme, f)
		}
		if _, f := VerifySignature(k.Public(), append(octetsToSign[:len(octetsToSign):len(octetsToSign)], 0), signed.Auth, c.rules); f == nil || f.Code != FaultSignature {
			t.Errorf("%s with %+v: other octets are verified: %v", c.key, c.rules, f)
		}
		if (signed.Note != "") != (c.method == 1 && !c.rules.SHA1) {
			t.Errorf("%s with %+v: note %q", c.key, c.rules, signed.Note)
		}
	}
}

// Each octet of AUTH counts, and each length.
func TestSignatureOctets(t *testing.T) {
	for _, name := range []string{"rsa-a", "p256", "p521", "ed25519-a"} {
		k := key(t, name)
		signed, _ := k.Sign(octetsToSign, SignatureRules{Hashes: all})
		data := signed.Auth.Data
		refused := func(what string, data []byte) {
			t.Helper()
			if _, f := VerifySignature(k.Public(), octetsToSign, &wire.Auth{Method: 14, Data: data}, SignatureRules{Hashes: all}); f == nil {
				t.Errorf("%s: AUTH with %s is accepted", name, what)
			}
		}
		for i := range data {
			bad := bytes.Clone(data)
			bad[i] ^= 0x40
			refused(fmt.Sprintf("octet %d changed", i), bad)
		}
		for n := range len(data) {
			refused(fmt.Sprintf("%d octets", n), data[:n])
		}
		refused("a zero at its end", append(bytes.Clone(data), 0))
		refused("nothing", nil)
	}
}

// RFC 7427 section 3: method 14 only when SIGNATURE_HASH_ALGORITHMS went both ways, with a hash that was listed.
func TestTrap_7427_1_Hashes(t *testing.T) {
	k := key(t, "rsa-a")
	signed, _ := k.Sign(octetsToSign, SignatureRules{Hashes: []wire.HashID{wire.HashSHA384}})
	verify := func(listed []wire.HashID) *Fault {
		_, f := VerifySignature(k.Public(), octetsToSign, signed.Auth, SignatureRules{Hashes: listed})
		return f
	}
	if f := verify([]wire.HashID{wire.HashSHA384}); f != nil {
		t.Error(f)
	}
	if f := verify(nil); f == nil || f.Code != FaultMethod {
		t.Errorf("method 14 without notifies: %v", f)
	}
	if f := verify([]wire.HashID{wire.HashSHA256, wire.HashSHA512}); f == nil || f.Code != FaultMethod || !strings.Contains(f.Why, "SHA2-384, we listed SHA2-256, SHA2-512") {
		t.Errorf("a hash that was not listed: %v", f)
	}
	list, err := ParseHashes([]byte{0, 1, 0, 2, 0x99, 0x99, 0, 5})
	if err != nil || !slices.Equal(list, []wire.HashID{1, 2, 0x9999, 5}) {
		t.Errorf("hashes: %v, %v", list, err)
	}
	if list, err := ParseHashes(nil); list == nil || err != nil {
		t.Error("an empty list is a list")
	}
	if _, err := ParseHashes([]byte{0, 2, 0}); err == nil {
		t.Error("three octets are a list")
	}
	if list, err := ParseHashes(make([]byte, 60000)); err != nil || len(list) != maxHashes {
		t.Errorf("%d hashes of a long list: %v", len(list), err)
	}
	if b := AppendHashes(nil, all); hex.EncodeToString(b) != "0004000300020005" {
		t.Errorf("our list: %x", b)
	}
}

// rfcAlgorithms are the objects of RFC 7427 appendix A and RFC 8420 appendix A.
var rfcAlgorithms = map[string]string{
	"300d06092a864886f70d01010b0500": "RSA PKCS #1 v1.5 with SHA2-256",
	"300d06092a864886f70d01010c0500": "RSA PKCS #1 v1.5 with SHA2-384",
	"300d06092a864886f70d01010d0500": "RSA PKCS #1 v1.5 with SHA2-512",
	"300a06082a8648ce3d040302":       "ECDSA with SHA2-256",
	"300a06082a8648ce3d040303":       "ECDSA with SHA2-384",
	"300a06082a8648ce3d040304":       "ECDSA with SHA2-512",
	"304606092a864886f70d01010a3039a00f300d06096086480165030402010500a11c301a06092a864886f70d010108300d06096086480165030402010500a203020120a303020101": "RSA-PSS with SHA2-256",
	"300506032b6570": "Ed25519",
}

// RFC 7427 section 3 and appendix A: the object that is read and written, octet for octet; its length is within the payload.
func TestTrap_7427_2_AlgorithmIdentifier(t *testing.T) {
	for text, want := range rfcAlgorithms {
		der := unhex(t, text)
		s, err := parseAlgorithm(der)
		if err != nil || s.String() != want {
			t.Errorf("%s: %v, %v", want, s, err)
		}
		if got := algorithmID(s, true); !bytes.Equal(got, der) {
			t.Errorf("%s is written %x", want, got)
		}
		for n := range der {
			if s, err := parseAlgorithm(der[:n]); err == nil {
				t.Errorf("the first %d octets of %s are %v", n, want, s)
			}
		}
		if _, err := parseAlgorithm(append(bytes.Clone(der), 0)); err == nil {
			t.Errorf("%s with more behind it is accepted", want)
		}
	}
	// DER leaves the default of the trailer field out.
	pss := scheme{rsaPSS, wire.HashSHA256, 32}
	if got, want := algorithmID(pss, false), unhex(t, "304106092a864886f70d01010a3034a00f300d06096086480165030402010500a11c301a06092a864886f70d010108300d06096086480165030402010500a203020120"); !bytes.Equal(got, want) {
		t.Errorf("PSS is written %x", got)
	}
	// What peers do otherwise: no parameters with RSA, NULL with ECDSA.
	for _, text := range []string{"300b06092a864886f70d01010b", "300c06082a8648ce3d0403020500"} {
		if _, err := parseAlgorithm(unhex(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"300706032b65700500":                      "should have none", // Ed25519 with NULL
		"300506032b6571":                          "Ed448",
		"300f06092a864886f70d01010b02010005":      "should have none",
		"300e06092a864886f70d01010b02":            "no AlgorithmIdentifier",
		"300e06092a864886f70d01010b020100":        "should have none",
		"30090607608648016503040302":              "no AlgorithmIdentifier",
		"300906072a8648ce380403":                  "not known", // DSA
		"30800609" + "2a864886f70d01010b05000000": "no AlgorithmIdentifier",
	} {
		if s, err := parseAlgorithm(unhex(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", text, s, err, want)
		}
	}
	k := key(t, "rsa-a")
	for _, data := range [][]byte{nil, {0}, {1}, {255, 0x30}, append([]byte{14}, unhex(t, "300d06092a864886f70d01010b0500")...)} {
		if _, f := VerifySignature(k.Public(), octetsToSign, &wire.Auth{Method: 14, Data: data}, SignatureRules{Hashes: all}); f == nil {
			t.Errorf("AUTH %x is accepted", data)
		}
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pssObject builds parameters of any kind.
func pssObject(hash, mgf, mgfHash, salt, trailer string) string {
	sequence := func(tag byte, content string) string {
		return fmt.Sprintf("%02x%02x%s", tag, len(content)/2, content)
	}
	var p string
	if hash != "" {
		p += sequence(0xa0, hash)
	}
	if mgf != "" {
		p += sequence(0xa1, sequence(0x30, mgf+mgfHash))
	}
	if salt != "" {
		p += sequence(0xa2, salt)
	}
	if trailer != "" {
		p += sequence(0xa3, trailer)
	}
	return sequence(0x30, "06092a864886f70d01010a"+sequence(0x30, p))
}

// RFC 7427 appendix A.4, RFC 8247 section 3.2: each parameter of PSS is read and checked; defaults mean SHA-1.
func TestTrap_7427_3_PSSParameters(t *testing.T) {
	const (
		sha1, sha256, sha512 = "300906052b0e03021a0500", "300d06096086480165030402010500", "300d06096086480165030402030500"
		bare                 = "300b0609608648016503040201" // SHA2-256 without NULL
		mgf1                 = "06092a864886f70d010108"
	)
	for _, c := range []struct{ what, object, want string }{
		{"as the RFC has it", pssObject(sha256, mgf1, sha256, "020120", "020101"), ""},
		{"without trailer field", pssObject(sha256, mgf1, sha256, "020120", ""), ""},
		{"hashes without NULL", pssObject(bare, mgf1, bare, "020120", ""), ""},
		{"absent", "300b06092a864886f70d01010a", "means SHA-1"},
		{"NULL", "300d06092a864886f70d01010a0500", "means SHA-1"},
		{"empty", "300d06092a864886f70d01010a3000", "means SHA-1"},
		{"default", "303e06092a864886f70d01010a3031a00b300906052b0e03021a0500a118301606092a864886f70d010108300906052b0e03021a0500a203020114a303020101", "SHA-1 is not accepted"},
		{"SHA-1 in MGF1", pssObject(sha256, mgf1, sha1, "020120", ""), "another hash"},
		{"SHA2-512 in MGF1", pssObject(sha256, mgf1, sha512, "020120", ""), "another hash"},
		{"no MGF", pssObject(sha256, "", "", "020120", ""), "means SHA-1"},
		{"no hash", pssObject("", mgf1, sha256, "020120", ""), "means SHA-1"},
		{"other MGF", pssObject(sha256, "06092a864886f70d010109", sha256, "020120", ""), "other than MGF1"},
		{"no salt", pssObject(sha256, mgf1, sha256, "", ""), "salt of 20"},
		{"salt 0", pssObject(sha256, mgf1, sha256, "020100", ""), "salt of 0"},
		{"salt -1", pssObject(sha256, mgf1, sha256, "0201ff", ""), "salt of -1"},
		{"salt 2^31", pssObject(sha256, mgf1, sha256, "02050080000000", ""), "salt of 2147483648"},
		{"salt 2^64", pssObject(sha256, mgf1, sha256, "0209010000000000000000", ""), "no number"},
		{"salt of other length", pssObject(sha256, mgf1, sha256, "020114", ""), "salt of 20"},
		{"salt with zero before", pssObject(sha256, mgf1, sha256, "02020020", ""), "no number"},
		{"trailer 2", pssObject(sha256, mgf1, sha256, "020120", "020102"), "trailer"},
		{"trailer twice", pssObject(sha256, mgf1, sha256, "020120", "020101020101"), "trailer"},
		{"unknown hash", pssObject("300706052b0e03021b", mgf1, sha256, "020120", ""), "not known"},
	} {
		s, err := parseAlgorithm(unhex(t, c.object))
		if err == nil && s.hash == wire.HashSHA1 {
			k := key(t, "rsa-a")
			object := unhex(t, c.object)
			_, f := VerifySignature(k.Public(), octetsToSign, &wire.Auth{Method: 14, Data: append([]byte{byte(len(object))}, object...)}, SignatureRules{Hashes: all, SHA1: true})
			err = f
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, %v; want %q", c.what, s, err, c.want)
		}
	}
}

// RFC 4754 section 7: r and s of fixed length, one behind the other; RFC 7427 appendix A.3: SEQUENCE. Neither is the other.
func TestTrap_7427_4_ECDSA(t *testing.T) {
	for name, n := range map[string]int{"p256": 64, "p384": 96, "p521": 132} {
		k := key(t, name)
		raw, _ := k.Sign(octetsToSign, SignatureRules{})
		if len(raw.Auth.Data) != n {
			t.Errorf("%s: %d octets, want %d", name, len(raw.Auth.Data), n)
		}
		refused := func(what string, a *wire.Auth) {
			t.Helper()
			if _, f := VerifySignature(k.Public(), octetsToSign, a, SignatureRules{Hashes: all}); f == nil {
				t.Errorf("%s: %s is accepted", name, what)
			}
		}
		half := n / 2
		r, s := raw.Auth.Data[:half], raw.Auth.Data[half:]
		order := k.Public().key.(*ecdsa.PublicKey).Params().N.FillBytes(make([]byte, half))
		zero := make([]byte, half)
		refused("r of zero", &wire.Auth{Method: raw.Auth.Method, Data: slices.Concat(zero, s)})
		refused("s of zero", &wire.Auth{Method: raw.Auth.Method, Data: slices.Concat(r, zero)})
		refused("both of zero", &wire.Auth{Method: raw.Auth.Method, Data: slices.Concat(zero, zero)})
		refused("r of the order", &wire.Auth{Method: raw.Auth.Method, Data: slices.Concat(order, s)})
		refused("s of the order", &wire.Auth{Method: raw.Auth.Method, Data: slices.Concat(r, order)})
		refused("s above the order", &wire.Auth{Method: raw.Auth.Method, Data: slices.Concat(r, bytes.Repeat([]byte{0xff}, half))})
		refused("a zero before both", &wire.Auth{Method: raw.Auth.Method, Data: slices.Concat([]byte{0}, r, []byte{0}, s)})
		refused("one octet less", &wire.Auth{Method: raw.Auth.Method, Data: raw.Auth.Data[:n-1]})
		refused("one octet more", &wire.Auth{Method: raw.Auth.Method, Data: append(bytes.Clone(raw.Auth.Data), 0)})
		der, _ := k.Sign(octetsToSign, SignatureRules{Hashes: all})
		id := int(der.Auth.Data[0])
		refused("a SEQUENCE by the old method", &wire.Auth{Method: raw.Auth.Method, Data: der.Auth.Data[1+id:]})
		refused("r | s by method 14", &wire.Auth{Method: 14, Data: append(bytes.Clone(der.Auth.Data[:1+id]), raw.Auth.Data...)})
		for _, other := range []wire.AuthMethod{9, 10, 11, 1, 2, 3, 12, 13, 0, 201} {
			if other != raw.Auth.Method {
				refused(fmt.Sprintf("method %d", other), &wire.Auth{Method: other, Data: raw.Auth.Data})
			}
		}
	}
}

// RFC 7427 section 5: algorithm, key and certificate fit each other.
func TestTrap_7427_5_KeyFits(t *testing.T) {
	kinds := []string{"rsa-a", "p256", "p384", "ed25519-a"}
	for _, from := range kinds {
		signed, _ := key(t, from).Sign(octetsToSign, SignatureRules{Hashes: all})
		for _, with := range append(kinds, "rsa-b", "ed25519-b") {
			_, f := VerifySignature(key(t, with).Public(), octetsToSign, signed.Auth, SignatureRules{Hashes: all})
			if (f == nil) != (from == with) {
				t.Errorf("signed by %s, verified with %s: %v", from, with, f)
			}
		}
	}
}

// RFC 8420 sections 2, 3: Ed25519 to those alone that list Identity; never prehashed.
func TestTrap_7427_6_Ed25519(t *testing.T) {
	k := key(t, "ed25519-a")
	if _, f := k.Sign(octetsToSign, SignatureRules{Hashes: []wire.HashID{wire.HashSHA256, wire.HashSHA512}}); f == nil {
		t.Error("signed for a peer that does not list Identity")
	}
	if !slices.Contains(Hashes(), wire.HashIdentity) {
		t.Error("our list lacks Identity, though Ed25519 is supported")
	}
	signed, _ := k.Sign(octetsToSign, SignatureRules{Hashes: all})
	if _, f := VerifySignature(k.Public(), octetsToSign, signed.Auth, SignatureRules{Hashes: []wire.HashID{wire.HashSHA512}}); f == nil {
		t.Error("Ed25519 is accepted though we did not list Identity")
	}
	prehashed := sha256.Sum256(octetsToSign)
	if _, f := VerifySignature(k.Public(), prehashed[:], signed.Auth, SignatureRules{Hashes: all}); f == nil {
		t.Error("a hash is verified for the octets")
	}
}

// RFC 7296 section 3.8: the hash of method 1 is SHA-1 by default, and needs the operator's word here.
func TestTrap_7427_7_MethodOne(t *testing.T) {
	k := key(t, "rsa-a")
	old, _ := k.Sign(octetsToSign, SignatureRules{SHA1: true})
	if _, f := VerifySignature(k.Public(), octetsToSign, old.Auth, SignatureRules{}); f == nil || f.Code != FaultMethod || f.Setting != SettingSHA1 {
		t.Errorf("SHA-1 is accepted without a word: %v", f)
	}
	if scheme, f := VerifySignature(k.Public(), octetsToSign, old.Auth, SignatureRules{SHA1: true}); f != nil || scheme != "RSA PKCS #1 v1.5 with SHA-1" {
		t.Errorf("%q, %v", scheme, f)
	}
	for _, h := range []wire.HashID{wire.HashSHA256, wire.HashSHA384, wire.HashSHA512} {
		signature, err := k.sign(scheme{algorithm: rsaPKCS1, hash: h}, octetsToSign)
		if err != nil {
			t.Fatal(err)
		}
		for _, listed := range [][]wire.HashID{nil, all} { // SHA2 by the old method is no less than by the new one
			if _, f := VerifySignature(k.Public(), octetsToSign, &wire.Auth{Method: 1, Data: signature}, SignatureRules{Hashes: listed}); f != nil {
				t.Errorf("%s by method 1: %v", hashName(h), f)
			}
		}
	}
}

// RFC 8247 section 3: with method 14, SHA-1 MUST NOT, whatever the configuration says.
func TestTrap_8247_4_NoSHA1(t *testing.T) {
	k := key(t, "rsa-a")
	signature, err := k.sign(scheme{algorithm: rsaPKCS1, hash: wire.HashSHA1}, octetsToSign)
	if err != nil {
		t.Fatal(err)
	}
	object := unhex(t, "300d06092a864886f70d0101050500")
	proof := &wire.Auth{Method: 14, Data: slices.Concat([]byte{byte(len(object))}, object, signature)}
	for _, rules := range []SignatureRules{{Hashes: all}, {Hashes: append(Hashes(), wire.HashSHA1), SHA1: true}} {
		if _, f := VerifySignature(k.Public(), octetsToSign, proof, rules); f == nil || f.Code != FaultMethod {
			t.Errorf("%+v: %v", rules, f)
		}
	}
	if slices.Contains(Hashes(), wire.HashSHA1) {
		t.Error("we list SHA-1")
	}
}

// A recorded AUTH of method 14. Its key has 512 bits, which we refuse, so the signature is undone by hand here.
func TestRecordedSignature(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "test", "vectors", "auth_digital_signature_rfc7427.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Response    octets `json:"ike_sa_init_response"`
			Ni          octets `json:"nonce_i"`
			IDr         octets `json:"id_r_body"`
			Pr          octets `json:"sk_pr"`
			Auth        octets `json:"auth_payload_body"`
			Signature   octets
			Certificate octets `json:"certificate_der"`
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		cert, err := x509.ParseCertificate(c.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newPublicKey(cert.PublicKey); err == nil || !strings.Contains(err.Error(), "512 bits") {
			t.Errorf("a key of 512 bits: %v", err)
		}
		k := cert.PublicKey.(*rsa.PublicKey)
		data := c.Auth[4:]
		s, signature, f := readDigital(&PublicKey{key: k}, data, SignatureRules{Hashes: all})
		if f != nil || s.String() != "RSA PKCS #1 v1.5 with SHA2-256" || !bytes.Equal(signature, c.Signature) {
			t.Fatalf("%v, %v", s, f)
		}
		m := new(big.Int).Exp(new(big.Int).SetBytes(signature), big.NewInt(int64(k.E)), k.N)
		sum := sha256.Sum256(SignedOctets(wire.PRFHMACSHA1, c.Response, c.Ni, secret(c.Pr), c.IDr))
		if !bytes.HasSuffix(m.Bytes(), sum[:]) {
			t.Errorf("the signature is over another hash than that of our octets: %x", m.Bytes())
		}
	}
}
