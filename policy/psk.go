package policy

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"cygnet/xfrm/alg"
)

// SecretError is what the reader of secrets may return so that its words reach the operator.
type SecretError struct {
	Code string // "secret-missing", "secret-readable", ...
	Text string // what was found and what is wanted
	Hint string // what to do: "chmod 600 ..."
}

func (e *SecretError) Error() string { return e.Text }

// shortPSK: below it a key that people chose can be guessed by whoever answered one IKE_AUTH (RFC 7296 section 2.15 asks for as much
// unpredictability as the strongest key being negotiated).
const shortPSK = 16

func (r *reader) psk(t *table, c *Connection) {
	const example = `psk = { file = "/etc/cygnet/secrets/NAME" }`
	v, there := t.get("psk")
	if !there {
		switch ours, theirs := c.Local.Proof.text != "", c.Remote.Proof.text != ""; {
		case ours && !theirs:
			t.problem("remote", "missing-key", `add ca = "ca/example.pem" to remote, or `+example, "%s has no psk and no ca, cert or public_key in remote: nothing proves the peer", t.path)
		case theirs && !ours:
			t.problem("local", "missing-key", `add cert = "certs/gw-a.pem", key = { file = "secrets/gw-a.key" } to local, or `+example, "%s has no psk and no cert and key in local: nothing proves us", t.path)
		default:
			t.missing("psk", "add "+example+", or cert and key to local and ca to remote")
		}
		return
	}
	if _, ok := v.(string); ok { // never shown: it may be the secret itself
		t.problem("psk", "wrong-type", "put it into a file of root's with mode 0600, and here "+example, "psk in %s is a string; secrets do not stand in the configuration", t.path)
		return
	}
	p := t.table("psk", example)
	if p == nil {
		return
	}
	path, ok := p.text("file", "/etc/cygnet/secrets/site-b")
	if _, there := p.rows["file"]; !there {
		p.missing("file", "add "+example)
	}
	p.done()
	switch {
	case !ok:
		return
	case path == "":
		p.problem("file", "bad-value", "write "+example, "file in %s is empty", p.path)
		return
	}
	c.PSKFile = path
	c.PSK = r.readPSK(p, path)
}

func (r *reader) readPSK(t *table, path string) alg.Secret {
	raw, err := r.files.Secret(path)
	if err != nil {
		t.reportSecret(unreadable(err, "secret-unreadable"))
		return alg.Secret{}
	}
	defer raw.Wipe()
	psk, wrong := decodePSK(raw.Bytes(), path)
	for _, w := range wrong {
		t.reportSecret(w)
	}
	return psk
}

func (t *table) reportSecret(w trouble) {
	t.problem("file", w.code, w.hint, "%s: %s", t.path, w.text)
	t.r.problems[len(t.r.problems)-1].Warning = w.warning
}

// decodePSK turns the content of a file into the key: one line end at its end is not part of it; "0x" begins hexadecimal digits and "0s"
// base64, as in strongSwan's and Libreswan's secrets; anything else is the key itself.
func decodePSK(content []byte, path string) (alg.Secret, []trouble) {
	text := bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	if !bytes.HasSuffix(content, []byte("\n")) {
		text = content
	}
	var wrong []trouble
	warn := func(code, hint, format string) {
		wrong = append(wrong, trouble{code, fmt.Sprintf(format, path), hint, true})
	}
	key, form, err := expandPSK(text)
	switch {
	case err != nil:
		return alg.Secret{}, []trouble{{code: "secret-form", text: fmt.Sprintf("%s begins like %s, but is not: ", path, form) + err.Error(), hint: "correct it, or write the key as text"}}
	case len(key) == 0:
		return alg.Secret{}, []trouble{{code: "secret-empty", text: path + " holds no key", hint: "write a long random key: openssl rand -base64 32"}}
	case len(key) < shortPSK:
		warn("secret-short", "use a long random key: openssl rand -base64 32", "the key in %s "+fmt.Sprintf("has %d octets and can be guessed", len(key)))
	}
	switch {
	case form != "":
	case bytes.ContainsAny(text, "\r\n"):
		warn("secret-form", "leave one line in the file", "%s has more than one line, and all of them with their line ends are the key")
	case len(bytes.TrimSpace(text)) != len(text):
		warn("secret-form", "remove the spaces unless the peer has them too", "%s begins or ends with a space, which is part of the key")
	case text[0] == '"' && text[len(text)-1] == '"' || bytes.Contains(text, []byte(": PSK ")):
		warn("secret-form", "write the key alone, without quotes or other words", "%s looks like a line of ipsec.secrets, and all of it is the key")
	}
	return alg.NewSecret(key), wrong
}

// expandPSK decodes the two written forms. The error never holds octets of the key.
func expandPSK(text []byte) (key []byte, form string, err error) {
	if digits, ok := bytes.CutPrefix(text, []byte("0x")); ok {
		key = make([]byte, hex.DecodedLen(len(digits)))
		if _, err := hex.Decode(key, digits); err != nil {
			return nil, "hexadecimal digits (0x)", errors.New("it needs pairs of 0-9 and a-f")
		}
		return key, "hexadecimal digits (0x)", nil
	}
	if digits, ok := bytes.CutPrefix(text, []byte("0s")); ok {
		key = make([]byte, base64.StdEncoding.DecodedLen(len(digits)))
		n, err := base64.StdEncoding.Decode(key, digits)
		if err != nil {
			return nil, "base64 (0s)", errors.New("it needs groups of four of A-Z, a-z, 0-9, + and /")
		}
		return key[:n], "base64 (0s)", nil
	}
	return bytes.Clone(text), "", nil
}
