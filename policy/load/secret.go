package load

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// maxSecret bounds a file of a secret in octets.
const maxSecret = 64 << 10

// nonBlocking keeps the opening of a pipe from waiting for its writer.
const nonBlocking = syscall.O_NONBLOCK

// Secret reads the file of a secret. It must be a regular file, no link, of root or of the user that runs this, and closed to group and others.
// Errors are *policy.SecretError. The secret is the file's whole content; policy takes the line end off.
func Secret(path string) (alg.Secret, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|nonBlocking, 0)
	if err != nil {
		return alg.Secret{}, notOpened(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return alg.Secret{}, notOpened(path, err)
	}
	if fault := guarded(path, info); fault != nil {
		return alg.Secret{}, fault
	}
	if info.Size() > maxSecret {
		return alg.Secret{}, tooLarge(path)
	}
	// One buffer of the right size: growing it would leave copies of the secret behind.
	b := make([]byte, maxSecret+1)
	n, err := io.ReadFull(f, b)
	switch {
	case err == nil:
		clear(b)
		return alg.Secret{}, tooLarge(path)
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		clear(b)
		return alg.Secret{}, notOpened(path, err)
	}
	return alg.NewSecret(b[:n:n]), nil
}

// guarded checks kind, owner and mode of what was really opened.
func guarded(path string, info fs.FileInfo) *policy.SecretError {
	mode := info.Mode()
	if !mode.IsRegular() {
		return &policy.SecretError{Code: "secret-not-file", Text: fmt.Sprintf("%s is %s where a regular file is wanted", path, fileKind(mode)), Hint: "put the secret into a regular file"}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return &policy.SecretError{
			Code: "secret-owner",
			Text: fmt.Sprintf("%s belongs to user %d where root (0) or the user of this process (%d) is wanted", path, st.Uid, os.Geteuid()),
			Hint: "chown root " + quote(path),
		}
	}
	if mode.Perm()&0o077 != 0 {
		return &policy.SecretError{
			Code: "secret-readable",
			Text: fmt.Sprintf("%s has mode %04o, open to group or others, where 0600 is wanted", path, mode.Perm()),
			Hint: "chmod 0600 " + quote(path),
		}
	}
	return nil
}

func notOpened(path string, err error) *policy.SecretError {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &policy.SecretError{
			Code: "secret-missing", Text: path + " does not exist",
			Hint: makeSecret(path) + ", and give the peer the same key",
		}
	case errors.Is(err, syscall.ELOOP):
		return &policy.SecretError{Code: "secret-link", Text: path + " is a symbolic link where a regular file is wanted", Hint: "name the file itself"}
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &policy.SecretError{Code: "secret-unreadable", Text: fmt.Sprintf("cannot read %s: %v", path, err), Hint: "see that it is a regular file of root, mode 0600"}
}

// makeSecret is the command that makes a new secret, and its folder where there is none. A folder that is there keeps its mode.
func makeSecret(path string) string {
	command := fmt.Sprintf("(umask 077; openssl rand -base64 32 > %s)", quote(path))
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		command = fmt.Sprintf("install -d -m 0700 %s && %s", quote(dir), command)
	}
	return command
}

func tooLarge(path string) *policy.SecretError {
	return &policy.SecretError{Code: "secret-large", Text: fmt.Sprintf("%s has more than %d octets", path, maxSecret), Hint: "a key of 32 random octets is enough"}
}

func fileKind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}
