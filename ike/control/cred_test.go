package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestAdminsMayChange: who is in the group may change; who is in another, or in one of the same number as "there is no such group", may not.
func TestAdminsMayChange(t *testing.T) {
	const admins = 4711
	for _, c := range []struct {
		admins int
		groups []uint32
		may    bool
	}{{admins, []uint32{100, admins}, true}, {admins, []uint32{100}, false}, {admins, nil, false}, {noGroup, []uint32{1<<32 - 1}, false}} {
		_, client := serveWith(t, &fake{down: func(string, string) *Failure { return nil }}, func(*net.UnixConn) (cred, error) { return cred{uid: looker, groups: c.groups}, nil }, c.admins)
		err := client.Down(deadline(t), "x", "", func(Line) {})
		switch {
		case c.may && err != nil:
			t.Errorf("%+v: %v", c, err)
		case !c.may:
			wantFailure(t, err, CodePermission, ExitFailed)
		}
	}
}

// dialEnv has this test binary dial a socket in place of running its tests.
const dialEnv = "CYGNET_TEST_DIAL"

func TestMain(m *testing.M) {
	path := os.Getenv(dialEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	c.Read(make([]byte, 1)) // until the other side has looked
	os.Exit(0)
}

// TestGroupsOfTheKernel: a process of the second group may connect, one of neither may not, and its groups are seen.
func TestGroupsOfTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changing groups: not root")
	}
	const group, nobody = 54321, 65534
	dir, err := os.MkdirTemp("", "cyg-control-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	path, self := filepath.Join(dir, "s"), filepath.Join(dir, "dial")
	l, err := listenNarrow(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(path, socketMode); err != nil {
		t.Fatal(err)
	}
	if err := letGroupIn(path, group); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(self, binary, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, groups ...uint32) *exec.Cmd {
		c := exec.CommandContext(ctx, self)
		c.Env, c.Dir = []string{dialEnv + "=" + path}, "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: groups}}
		return c
	}
	if out, err := dial(deadline(t), group+1).Output(); err == nil {
		t.Errorf("a member of neither group got in: %s", out)
	}
	in := dial(deadline(t), 7, group)
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Wait()
	l.SetDeadline(time.Now().Add(10 * time.Second))
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatalf("a member of the group did not get in (a file system without access control lists?): %v", err)
	}
	defer conn.Close()
	who, err := peerCred(conn)
	if err != nil || who.uid != nobody || !who.in(group) || who.in(group+1) || !slices.Contains(who.groups, 7) {
		t.Errorf("%+v, %v", who, err)
	}
}
