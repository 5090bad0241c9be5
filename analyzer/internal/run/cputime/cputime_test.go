package cputime

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const good = "42 (a) b (c) S 7 42 42 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 5 6 7"
	p, ok := parseStat([]byte(good))
	if !ok || p.PID != 42 || p.parent != 7 || p.CPU != time.Second {
		t.Errorf("%+v %v", p, ok)
	}
	for _, bad := range []string{"", "42", "42 (a)", good[:40], strings.Replace(good, " 30 ", " x ", 1)} {
		if p, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

// burn is a shell whose child computes; it waits for it, says so, and stays.
func burn(t *testing.T, start func(*exec.Cmd) error) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo done; read x`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestTree(t *testing.T) {
	cmd := burn(t, (*exec.Cmd).Start)
	tree, err := Tree(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if sum := Sum(tree); sum < 2*tick || len(tree) != 1 {
		t.Errorf("%v in %+v: the work of a child that was waited for is missing", sum, tree)
	}
	if args := tree[0].Args(); len(args) != 3 || args[0] != "sh" {
		t.Errorf("%q", args)
	}
	ours, err := Tree(os.Getpid())
	if err != nil || !containsPID(ours, cmd.Process.Pid) {
		t.Errorf("%+v, %v: no child", ours, err)
	}
	none, err := Tree(1 << 30)
	if err != nil || len(none) != 0 {
		t.Errorf("%+v, %v: of a process that doesn't exist", none, err)
	}
}

func containsPID(l []Process, pid int) bool {
	for _, p := range l {
		if p.PID == pid {
			return true
		}
	}
	return false
}

func TestGroup(t *testing.T) {
	g, err := NewGroup("tasting-test-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Skipf("this process may have no control group: %v", err)
	}
	t.Cleanup(func() { g.Close() })
	burn(t, g.Start)
	used, err := g.CPU()
	if err != nil || used < 10*time.Millisecond {
		t.Errorf("%v, %v", used, err)
	}
	// What is started elsewhere doesn't count.
	burn(t, (*exec.Cmd).Start)
	again, err := g.CPU()
	if err != nil || again-used > used/2 {
		t.Errorf("%v after %v, %v", again, used, err)
	}
}

// A Bazel's work counts, whether its server was there before or not, and that of its
// client; whether the client fails or not.
func TestMeter(t *testing.T) {
	for _, group := range []bool{true, false} {
		base := t.TempDir()
		m := &Meter{base: base}
		if group {
			m = NewMeter("tasting-test-meter-"+strconv.Itoa(os.Getpid()), base)
		}
		t.Log(m.Method())
		work := "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
		used, err := m.Run(exec.Command("sh", "-c", work+"; exit 3"))
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || used < 2*tick {
			t.Errorf("client: %v, %v", used, err)
		}
		// A client starts a server, and ends; the next ones ask it.
		server := `mkdir -p "$0/server"; mkfifo "$0/ask" "$0/answer"; (while read x <"$0/ask"; do ` + work + `; echo >"$0/answer"; done) & echo $! >"$0/server/server.pid.txt"`
		if _, err := m.Run(exec.Command("sh", "-c", server, base)); err != nil {
			t.Fatal(err)
		}
		ask := `echo >"$0/ask"; read x <"$0/answer"`
		used, err = m.Run(exec.Command("sh", "-c", ask, base))
		if err != nil || used < 2*tick {
			t.Errorf("server: %v, %v", used, err)
		}
		pid, ok := Server(base)
		if !ok || syscall.Kill(pid, syscall.SIGKILL) != nil {
			t.Errorf("no server %d", pid)
		}
		_ = m.Close()
	}
	if pid, ok := Server(t.TempDir()); ok {
		t.Errorf("a server %d in an empty directory", pid)
	}
}
