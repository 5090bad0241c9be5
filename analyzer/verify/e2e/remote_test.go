package e2e

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/reapiproxy"
)

// remote is the command remote: it starts buildbox-casd, which executes actions
// in directories of their own on this machine, and the proxy that lets Bazel
// talk to it. Both end with the script.
func (b *bazel) remote(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 || b.engine != "" {
		ts.Fatalf("usage: remote, once")
	}
	casd, err := exec.LookPath("buildbox-casd")
	if err != nil {
		ts.Fatalf("%v: remote execution is tested against buildbox-casd", err)
	}
	run, err := exec.LookPath("buildbox-run-hosttools")
	if err != nil {
		ts.Fatalf("%v: buildbox-casd executes actions with it", err)
	}
	dir := filepath.Join(b.dir, "casd")
	ts.Check(os.RemoveAll(dir))

	server := freeAddr(ts)
	var log bytes.Buffer
	cmd := exec.Command(casd, "--bind="+server, "--buildbox-run="+run, "--jobs=2", dir)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second // what it has started may hold its output
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = os.RemoveAll(dir)
	})
	for deadline := time.Now().Add(5 * time.Minute); ; {
		if c, err := net.Dial("tcp", server); err == nil {
			c.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			ts.Fatalf("buildbox-casd: %v\n%s", err, log.Bytes())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			ts.Fatalf("buildbox-casd doesn't listen on %s", server)
		}
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	proxy, conn, err := reapiproxy.New(server)
	ts.Check(err)
	go func() { _ = proxy.Serve(l) }()
	ts.Defer(func() {
		proxy.Stop()
		conn.Close()
	})
	b.engine = l.Addr().String()
	ts.Setenv("ENGINE", "grpc://"+b.engine)
}

func freeAddr(ts *testscript.TestScript) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	return l.Addr().String()
}

// remoteFlags leave Bazel nothing but remote execution.
func (b *bazel) remoteFlags() []string {
	return []string{
		"--remote_executor=grpc://" + b.engine,
		"--spawn_strategy=remote",
		"--noremote_local_fallback",
		"--jobs=2",
	}
}

// runners is the command runners.
func (b *bazel) runners(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: runners RUNNER|MNEMONIC=RUNNER...")
	}
	spawns, err := readSpawns(b.execLog())
	ts.Check(err)
	if len(spawns) == 0 {
		ts.Fatalf("nothing ran")
	}
	var allowed []string
	wanted, seen := map[string]string{}, map[string]bool{}
	for _, arg := range args {
		arg = strings.ReplaceAll(arg, "_", " ")
		if mnemonic, runner, ok := strings.Cut(arg, "="); ok {
			wanted[mnemonic] = runner
		} else {
			allowed = append(allowed, arg)
		}
	}
	for _, s := range spawns {
		seen[s.Mnemonic] = true
		if len(allowed) > 0 && !slices.Contains(allowed, s.Runner) {
			ts.Fatalf("%s of %s ran by %q, want one of %q", s.Mnemonic, s.TargetLabel, s.Runner, allowed)
		}
		if want, ok := wanted[s.Mnemonic]; ok && s.Runner != want {
			ts.Fatalf("%s of %s ran by %q, want %q", s.Mnemonic, s.TargetLabel, s.Runner, want)
		}
	}
	for mnemonic := range wanted {
		if !seen[mnemonic] {
			ts.Fatalf("no %s ran", mnemonic)
		}
	}
}
