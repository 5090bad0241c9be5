//go:build linux && amd64

package trace

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program that was attached to has its functions seen from then on, in all threads, and goes on when it is let go, as
// often as one likes.
func TestAttach(t *testing.T) {
	// One thread runs all the time, and is in no function that begins.
	text := strings.Replace(service, "startup();", `startup(); pthread_t busy; pthread_create(&busy, 0, forever, 0);`, 1)
	text = strings.Replace(text, "int main(void)", "static void *forever(void *p) { for (volatile long i = 0; ; i++); return p; }\nint main(void)", 1)
	cmd := program(t, text)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	lines := bufio.NewScanner(out)
	ask := func(request string) {
		t.Helper()
		if _, err := io.WriteString(in, request); err != nil || !lines.Scan() {
			t.Fatal("no answer", err)
		}
	}
	ask("")
	for _, request := range []string{"get", "put", "thread", "child"} {
		c, end := attachTo(t, cmd)
		ask(request + "\n")
		if request == "get" {
			// Who has a tracer can't have another one.
			if _, err := Attach(cmd.Process.Pid, Options{Control: new(Control)}, nil); err == nil {
				t.Error("attached twice")
			}
		}
		c.Leave()
		r := end()
		if r == nil {
			t.Fatal("no result")
		}
		seen := names(r.Trace)
		for function, of := range map[string]string{"get": "get", "put": "put thread", "in_child": "child", "common": "get put thread", "in_thread": "thread", "startup": "", "main": ""} {
			has := false
			for name := range seen {
				has = has || strings.HasPrefix(name, Executable+" "+function+" ")
			}
			if has != strings.Contains(of, request) {
				t.Errorf("%s: %s was entered: %t", request, function, has)
			}
		}
		if r.Idle != nil || len(r.Trace.GaveUp) != 1 || r.Void != "" || r.Status != 0 {
			t.Errorf("%s: %v, %q, %q, %v", request, r.Idle, r.Trace.GaveUp, r.Void, r.Status)
		}
		// Nobody traces it now, and it goes on.
		if got := procStatus(cmd.Process.Pid)["TracerPid"]; got != "0" {
			t.Errorf("%s is traced by %s", request, got)
		}
		ask(request + "\n")
	}
	// It ends while somebody is attached.
	_, end := attachTo(t, cmd)
	in.Close()
	if r := end(); r == nil || len(r.Trace.Files) != 1 || r.Status.ExitStatus() != 3 {
		t.Errorf("%+v", r)
	}
	_ = cmd.Wait() // this process is its tracer, too, which has heard of its end
	if _, err := Attach(cmd.Process.Pid, Options{Control: new(Control)}, nil); err == nil {
		t.Error("attached to what has ended")
	}
}

// program compiles a program that somebody else starts, to attach to it.
func program(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	if !Permitted() {
		t.Skip("ptrace isn't permitted")
	}
	return exec.Command(compile(t, t.TempDir(), "gcc", "p", text, "-O0", "-pthread"))
}

// start starts a program, which is killed in the end.
func start(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// attachTo attaches to a program, and returns what has it let go, and a function that waits for that and returns the result,
// nil if it can't be attached to, which is an error.
func attachTo(t *testing.T, cmd *exec.Cmd) (*Control, func() *Result) {
	t.Helper()
	c, started, ended := new(Control), make(chan struct{}), make(chan *Result, 1)
	go func() {
		r, err := Attach(cmd.Process.Pid, Options{Control: c}, func() { close(started) })
		if err != nil {
			t.Error(err)
			close(started)
		}
		ended <- r
	}()
	<-started
	return c, func() *Result { return <-ended }
}

// Somebody attaches again and again to a program whose threads and children begin and end all the time, and
// all of which enter functions: none of them meets a breakpoint that nobody takes care of.
func TestAttachBusy(t *testing.T) {
	cmd := start(t, program(t, `
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static int f(int x) { return x + 1; }
static int g(int x) { return f(x) + 1; }
static void *work(void *p) { return g(1) == 3 ? p : 0; }
static void *threads(void *p) {
	for (;;) {
		pthread_t t[4];
		for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, work, p);
		for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
	}
}
int main(void) {
	pthread_t t;
	pthread_create(&t, 0, threads, 0);
	for (;;) {
		int status;
		pid_t p = fork();
		if (p == 0) _exit(g(1));
		if (waitpid(p, &status, 0) != p || status != 3 << 8) return 9;
	}
}`))
	for n := range 60 {
		c, end := attachTo(t, cmd)
		time.Sleep(time.Duration(n%10) * time.Millisecond)
		c.Leave()
		if r := end(); r == nil || r.Status != 0 || r.Void != "" {
			t.Fatalf("round %d: %+v", n, r)
		}
		if status := procStatus(cmd.Process.Pid); status["TracerPid"] != "0" || strings.HasPrefix(status["State"], "Z") {
			t.Fatalf("round %d: %q, traced by %q", n, status["State"], status["TracerPid"])
		}
	}
}

// What is stopped stays so, and is let go all the same.
func TestAttachStopped(t *testing.T) {
	cmd := start(t, program(t, "#include <unistd.h>\nint main(void) { for (;;) usleep(1000); }"))
	state := func(want string) {
		t.Helper()
		is := func() string { return procStatus(cmd.Process.Pid)["State"] }
		if !eventually(func() bool { return strings.HasPrefix(is(), want) }) {
			t.Fatalf("it is %s, not %s", is(), want)
		}
	}
	for _, before := range []bool{true, false} {
		stop := func() {
			// Of this process it would be a request of the tracer's own.
			if out, err := exec.Command("kill", "-STOP", strconv.Itoa(cmd.Process.Pid)).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		if before {
			stop()
			state("T")
		}
		c, end := attachTo(t, cmd)
		if !before {
			stop()
		}
		state("t")
		c.Leave()
		end()
		state("T")
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		state("S")
	}
}

// What can't be traced is let go at once, and goes on.
func TestAttachDebugger(t *testing.T) {
	cmd := program(t, "#include <stdio.h>\n#include <sys/ptrace.h>\n#include <unistd.h>\nvolatile int asked;\nint main(void) { puts(\"\"); fflush(stdout); while (!asked) usleep(1000); return ptrace(0); }")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r, err := Attach(cmd.Process.Pid, Options{Control: new(Control)}, func() {})
	if err != nil || len(r.Trace.GaveUp) != 2 || !strings.Contains(r.Trace.GaveUp[0], "can't run under a tracer: it traces processes itself") {
		t.Errorf("%v, %+v", err, r)
	}
	if status := procStatus(cmd.Process.Pid); status["TracerPid"] != "0" || strings.HasPrefix(status["State"], "Z") {
		t.Errorf("%q", status)
	}
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.HasPrefix(procStatus(ended.Process.Pid)["State"], "Z") {
		time.Sleep(time.Millisecond)
	}
	defer func() { _ = ended.Wait() }()
	for pid, want := range map[int]string{0: "there is no process 0", os.Getpid(): "can't trace itself", ended.Process.Pid: "no program that can be read"} {
		if _, err := Attach(pid, Options{Control: new(Control)}, func() {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", pid, err)
		}
	}
}

// What has changed since breakpoints were set has none of them left in it.
func TestAttachPatched(t *testing.T) {
	dir := t.TempDir()
	cmd := start(t, program(t, `
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int sled(void) { return 1; }
__attribute__((noinline)) int late(void) { return 2; }
static void await(const char *name) { while (access(name, F_OK)) usleep(1000); }
int main(void) {
	await("`+dir+`/patch");
	uintptr_t at = (uintptr_t)sled & -4096;
	mprotect((void *)at, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
	((volatile char *)sled)[5] = 0x90;
	mprotect((void *)at, 8192, PROT_READ | PROT_EXEC);
	rmdir("`+dir+`/patch");
	await("`+dir+`/end");
	return late() + 5;
}`))
	c, end := attachTo(t, cmd)
	if err := os.Mkdir(filepath.Join(dir, "patch"), 0o777); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "patch")); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c.Leave()
	end()
	if err := os.Mkdir(filepath.Join(dir, "end"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}
