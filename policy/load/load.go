// Package load reads a configuration folder for policy: cygnet.toml, conn.d/*.toml and the files of secrets. It is the only place where
// policy touches the file system. Secrets are opened without following links, and owner and mode are checked on the open descriptor, so
// that nothing can be exchanged between the check and the reading.
package load

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// DefaultDir is where the configuration of a host stands.
const DefaultDir = "/etc/cygnet"

// maxFile bounds a configuration file in octets.
const maxFile = 1 << 20

// Dir reads the configuration in dir: cygnet.toml, which may be absent, and conn.d/*.toml in the order of their names. Paths of secrets that are
// not absolute begin at dir. Names of files in problems are relative to dir. The Snapshot is nil when any problem is not a warning.
func Dir(dir string) (*policy.Snapshot, []policy.Problem) {
	files, problems := find(dir)
	var sources []policy.Source
	for _, name := range files {
		data, p := readFile(dir, name)
		problems = append(problems, p...)
		if data != nil {
			sources = append(sources, policy.Source{Name: name, Data: data})
		}
	}
	if policy.Fatal(problems) && len(sources) == 0 {
		return nil, problems
	}
	inside := func(path string) string {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path
	}
	snapshot, more := policy.Parse(sources, policy.Files{
		Secret: func(path string) (alg.Secret, error) { return Secret(inside(path)) },
		Public: func(path string) ([]byte, error) { return Public(inside(path)) },
	})
	problems = append(problems, more...)
	if policy.Fatal(problems) {
		return nil, problems
	}
	problems = append(problems, policy.Expiring(snapshot, time.Now())...)
	if len(snapshot.Connections) == 0 {
		problems = append(problems, policy.Problem{
			Code: "no-connection", Warning: true,
			Text: fmt.Sprintf("no connection is configured in %s", dir),
			Hint: fmt.Sprintf("write one into %s", filepath.Join(dir, "conn.d", "NAME.toml")),
		})
	}
	return snapshot, problems
}

// find lists the files of a configuration, relative to dir.
func find(dir string) (files []string, problems []policy.Problem) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, []policy.Problem{unreadable("", dir, err, noFolder(dir))}
	}
	problems = append(problems, folderMode("", dir)...)
	for _, e := range entries {
		if e.Name() == "cygnet.toml" {
			files = append(files, e.Name())
		}
	}
	entries, err = os.ReadDir(filepath.Join(dir, "conn.d"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, unreadable("conn.d", filepath.Join(dir, "conn.d"), err, "make it a folder that root can read"))
		}
		return files, problems
	}
	problems = append(problems, folderMode("conn.d", filepath.Join(dir, "conn.d"))...)
	for _, e := range entries {
		name := filepath.Join("conn.d", e.Name())
		switch {
		case strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), "~"): // editors' files
		case !strings.HasSuffix(e.Name(), ".toml"):
			problems = append(problems, policy.Problem{
				File: name, Code: "not-read", Warning: true, Text: "the file is not read: its name does not end in .toml", Hint: "rename it, or move it out of conn.d",
			})
		default:
			files = append(files, name)
		}
	}
	return files, problems
}

// noFolder says what to do when there is no configuration yet.
func noFolder(dir string) string {
	if dir == DefaultDir {
		return "make it, or name another folder: ikectl check DIR, cygnetd --config DIR; examples are in configs/site-to-site, " +
			"of an installed cygnet in /usr/share/doc/cygnet/examples"
	}
	return "name the folder that holds conn.d, or make it"
}

// folderMode warns of a folder in which others could put or exchange files.
func folderMode(name, path string) []policy.Problem {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o022 == 0 {
		return nil
	}
	return []policy.Problem{{
		File: name, Code: "config-writable", Warning: true,
		Text: fmt.Sprintf("mode %04o of %s lets others than its owner change the configuration; 0755 or less is wanted", info.Mode().Perm(), path),
		Hint: "chmod go-w " + quote(path),
	}}
}

// readFile reads one configuration file; nil when it cannot. It may be a link, but not writable by everyone.
func readFile(dir, name string) ([]byte, []policy.Problem) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, []policy.Problem{unreadable(name, path, err, "see that it is a file that root can read")}
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is %s", fileKind(info.Mode()))
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	}
	if err != nil {
		return nil, []policy.Problem{unreadable(name, path, err, "see that it is a file that root can read")}
	}
	if len(data) > maxFile {
		return nil, []policy.Problem{{File: name, Code: "too-large", Text: fmt.Sprintf("the file has more than %d octets", maxFile), Hint: "split it"}}
	}
	if mode := info.Mode().Perm(); mode&0o002 != 0 {
		return data, []policy.Problem{{
			File: name, Code: "config-writable", Text: fmt.Sprintf("mode %04o lets everyone change this file; 0644 or less is wanted", mode), Hint: "chmod 644 " + quote(path),
		}}
	}
	return slices.Clip(data), nil
}

func unreadable(name, path string, err error, hint string) policy.Problem {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return policy.Problem{File: name, Code: "unreadable", Text: fmt.Sprintf("cannot read %s: %v", path, err), Hint: hint}
}

// quote makes a path safe to paste into a shell.
func quote(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
