package suite

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// octets is hexadecimal in a vector file.
type octets []byte

func (o *octets) UnmarshalText(b []byte) (err error) {
	*o, err = hex.DecodeString(string(b))
	return err
}

// load reads a file of test/vectors.
func load[T any](t testing.TB, name string) T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "test", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// cases reads the cases of a vector file.
func cases[T any](t testing.TB, name string) []T {
	t.Helper()
	c := load[struct{ Cases []T }](t, name).Cases
	if len(c) == 0 {
		t.Fatalf("%s has no cases", name)
	}
	return c
}
