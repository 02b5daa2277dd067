package load

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"cygnet/policy"
)

// maxPublic bounds a file of certificates or CRLs in octets, as DESIGN bounds a CRL that is fetched.
const maxPublic = 16 << 20

// Public reads a file of certificates, public keys or CRLs. It may be a link, as tools that renew certificates make them, but nobody else than its
// owner and group may change it: who does decides whom we believe. Errors are *policy.SecretError.
func Public(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, notRead(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, notRead(path, err)
	case !info.Mode().IsRegular():
		return nil, &policy.SecretError{Code: "not-file", Text: fmt.Sprintf("%s is %s where a regular file is wanted", path, fileKind(info.Mode())), Hint: "name the file itself"}
	case info.Mode().Perm()&0o002 != 0:
		return nil, &policy.SecretError{Code: "file-writable", Text: fmt.Sprintf("mode %04o of %s lets everyone change it; 0644 or less is wanted", info.Mode().Perm(), path), Hint: "chmod 644 " + quote(path)}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPublic+1))
	switch {
	case err != nil:
		return nil, notRead(path, err)
	case len(data) > maxPublic:
		return nil, &policy.SecretError{Code: "too-large", Text: fmt.Sprintf("%s has more than %d octets", path, maxPublic), Hint: "name a file of certificates, a public key or a CRL"}
	}
	return data, nil
}

func notRead(path string, err error) *policy.SecretError {
	if errors.Is(err, fs.ErrNotExist) {
		return &policy.SecretError{Code: "file-missing", Text: path + " does not exist", Hint: "correct the path; one that does not begin with / begins at the folder of the configuration"}
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &policy.SecretError{Code: "unreadable", Text: fmt.Sprintf("cannot read %s: %v", path, err), Hint: "see that it is a file that root can read"}
}
