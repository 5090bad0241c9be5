//go:build linux && amd64

package trace

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/clangtest"
)

// A program that was attached to has its functions seen from then on, in all threads, and goes on when it is let go, as
// often as one likes.
func TestAttach(t *testing.T) {
	if !Permitted() {
		t.Skip("ptrace isn't permitted")
	}
	dir := t.TempDir()
	// One thread runs all the time, and is in no function that begins.
	text := strings.Replace(service, "startup();", `startup(); pthread_t busy; pthread_create(&busy, 0, forever, 0);`, 1)
	text = strings.Replace(text, "int main(void)", "static void *forever(void *p) { for (volatile long i = 0; ; i++); return p; }\nint main(void)", 1)
	if err := os.WriteFile(filepath.Join(dir, "s.c"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(clangtest.GCC(t), "-O0", "-pthread", "s.c", "-o", "s")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(dir, "s"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	ask := func(request string) {
		t.Helper()
		if _, err := io.WriteString(in, request); err != nil || !lines.Scan() {
			t.Fatal("no answer", err)
		}
	}
	ask("")
	attached := func() (*Control, func() *Result) {
		c, started, ended := new(Control), make(chan struct{}), make(chan *Result, 1)
		go func() {
			r, err := Attach(cmd.Process.Pid, Options{}, c, func() { close(started) })
			if err != nil {
				t.Error(err)
				close(started)
			}
			ended <- r
		}()
		<-started
		return c, func() *Result { return <-ended }
	}
	for _, request := range []string{"get", "put", "thread", "child"} {
		c, end := attached()
		ask(request + "\n")
		if request == "get" {
			// Who has a tracer can't have another one.
			if _, err := Attach(cmd.Process.Pid, Options{}, new(Control), nil); err == nil {
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
	_, end := attached()
	in.Close()
	if r := end(); r == nil || len(r.Trace.Files) != 1 || r.Status.ExitStatus() != 3 {
		t.Errorf("%+v", r)
	}
	_ = cmd.Wait() // this process is its tracer, too, which has heard of its end
	if _, err := Attach(cmd.Process.Pid, Options{}, new(Control), nil); err == nil {
		t.Error("attached to what has ended")
	}
}
