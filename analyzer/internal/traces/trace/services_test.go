package trace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

// service answers requests, some in other threads and processes.
const service = `
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int common(int x) { return x + 1; }
int get(int x) { return common(x); }
int put(int x) { return common(x) + 1; }
static void *in_thread(void *p) { return put(1) ? p : 0; }
int in_child(void) { return 0; }
int startup(void) { return 0; }
int shutdown_(void) { return 0; }
int main(void) {
	char line[64];
	startup();
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "get\n")) get(1);
		if (!strcmp(line, "put\n")) put(1);
		if (!strcmp(line, "thread\n")) { pthread_t t; pthread_create(&t, 0, in_thread, 0); pthread_join(t, 0); }
		if (!strcmp(line, "child\n")) { pid_t p = fork(); if (p == 0) _exit(in_child()); waitpid(p, 0, 0); }
		puts("done");
		fflush(stdout);
	}
	shutdown_();
	return 3;
}
`

// serviceUnder starts the service and returns a function that has it answer a request, and one that ends it.
func serviceUnder(t *testing.T, c *Control) (ask func(request string), end func() *Result) {
	t.Helper()
	return serviceWith(t, c, service)
}

func serviceWith(t *testing.T, c *Control, text string) (ask func(request string), end func() *Result) {
	t.Helper()
	if !Permitted() {
		t.Skip("ptrace isn't permitted")
	}
	dir := t.TempDir()
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
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	ended := make(chan *Result, 1)
	go func() {
		result, err := Run(cmd, Options{Control: c}, func() { w.Close() })
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	lines := bufio.NewScanner(r)
	answered := func() {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("no answer")
		}
	}
	answered()
	ask = func(request string) {
		t.Helper()
		if _, err := io.WriteString(in, request+"\n"); err != nil {
			t.Fatal(err)
		}
		answered()
	}
	return ask, func() *Result { in.Close(); return <-ended }
}

func allNames(r *Result) string {
	var l []string
	for _, f := range r.Trace.Files {
		for _, x := range f.Executed {
			for _, s := range x.Symbols {
				l = append(l, s.Name)
			}
		}
	}
	return " " + strings.Join(l, " ") + " "
}

func (i *Interval) check(t *testing.T, executed, idle string) {
	t.Helper()
	all := allNames(i.Result)
	for name := range strings.FieldsSeq(executed) {
		if !strings.Contains(all, " "+name+" ") || i.Idle[name] {
			t.Errorf("%s: %s isn't executed: %s", i.Name, name, all)
		}
	}
	for name := range strings.FieldsSeq(idle) {
		if strings.Contains(all, " "+name+" ") || !i.Idle[name] {
			t.Errorf("%s: %s isn't idle: %s", i.Name, name, all)
		}
	}
}

func TestIntervals(t *testing.T) {
	c := &Control{}
	if err := c.Start("early"); err == nil {
		t.Error("an interval starts in front of the service")
	}
	ask, end := serviceUnder(t, c)
	interval := func(name string, requests ...string) *Interval {
		t.Helper()
		if err := c.Start(name); err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			ask(r)
		}
		i, err := c.Stop(name)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	// What the service did when it started is everybody's.
	interval("get", "get").check(t, "main startup get common", "put in_thread in_child shutdown_")
	interval("put", "put", "put").check(t, "main startup put common", "get in_thread in_child shutdown_")
	interval("thread", "thread").check(t, "in_thread put common", "get in_child")
	interval("child", "child").check(t, "in_child", "get put common in_thread")
	interval("get", "get").check(t, "get common", "put in_thread in_child")
	interval("nothing").check(t, "main startup", "get put common in_thread in_child")
	// In between it may be for anybody.
	ask("put")
	interval("get", "get").check(t, "get put common", "in_thread in_child")

	if err := c.Start("a"); err != nil {
		t.Fatal(err)
	}
	if err := c.Start("a"); err == nil {
		t.Error("an interval starts twice")
	}
	if err := c.Start("b"); err == nil {
		t.Error("intervals overlap")
	}
	if _, err := c.Stop("b"); err == nil {
		t.Error("an interval ends that hasn't started")
	}
	r := end()
	if r.Status.ExitStatus() != 3 || len(r.Trace.GaveUp) > 0 || r.Void != "" {
		t.Errorf("%v, %q, %q", r.Status, r.Trace.GaveUp, r.Void)
	}
	(&Interval{"all", r}).check(t, "main startup get put common in_thread in_child shutdown_", "")
	if _, err := c.Stop("a"); err == nil {
		t.Error("an interval ends behind the service")
	}
}

func TestMergedIntervals(t *testing.T) {
	c := &Control{Merge: true}
	ask, end := serviceUnder(t, c)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Start("a"))
	ask("get")
	must(c.Start("b"))
	ask("put")
	a, err := c.Stop("a")
	must(err)
	ask("child")
	b, err := c.Stop("b")
	must(err)
	a.check(t, "get put common", "in_child in_thread")
	b.check(t, "get put common in_child", "in_thread")
	must(c.Start("c"))
	i, err := c.Stop("c")
	must(err)
	i.check(t, "startup", "get put in_child")
	end()
}

// Many clients at once stop nobody for good.
func TestConcurrentIntervals(t *testing.T) {
	c := &Control{Merge: true}
	ask, end := serviceUnder(t, c)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for k := range 20 {
				name := fmt.Sprint(i, " ", k)
				if err := c.Start(name); err != nil {
					t.Error(err)
				}
				if _, err := c.Stop(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		ask("get")
	}
	clients.Wait()
	ask("put")
	if r := end(); r.Status.ExitStatus() != 3 {
		t.Errorf("%v", r.Ending())
	}
}

// A service that can't run under a tracer is let go, refuses intervals, and lives on.
func TestUntracedIntervals(t *testing.T) {
	c := &Control{}
	ask, end := serviceWith(t, c, "#include <sys/ptrace.h>\nlong (*tracing)() = (long (*)())ptrace;\n"+service)
	for range 3 {
		if err := c.Start("a"); err == nil || !strings.Contains(err.Error(), "isn't traced") {
			t.Errorf("%v", err)
		}
	}
	ask("get")
	if r := end(); r.Status.ExitStatus() != 3 || len(r.Trace.GaveUp) == 0 {
		t.Errorf("%v, %q", r.Ending(), r.Trace.GaveUp)
	}
}

// A library that was closed is nobody's any more, and what is mapped in its place stays as it is.
func TestClosedLibrary(t *testing.T) {
	dir := t.TempDir()
	lib := filepath.Join(dir, "plug.so")
	if err := os.WriteFile(filepath.Join(dir, "plug.c"), []byte("int plug(int x) { return x + 1; }"), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(clangtest.GCC(t), "-O0", "-shared", "-fPIC", filepath.Join(dir, "plug.c"), "-o", lib).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := strings.Replace(service, "int main(void)", `#include <dlfcn.h>
#include <sys/mman.h>
static char *page;
int in_place(void) {
	void *l = dlopen("`+lib+`", RTLD_NOW);
	int (*f)(int) = dlsym(l, "plug");
	long at = (long)f & -4096;
	if (!l || f(1) != 2 || dlclose(l)) return 1;
	char *p = mmap((void *)at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != (char *)at) return 2;
	memset(page = p, 7, 4096);
	return 0;
}
static int changed(void) {
	for (int i = 0; page && i < 4096; i++)
		if (page[i] != 7) return 1;
	return 0;
}
int main(void)`, 1)
	text = "#define _GNU_SOURCE\n" + strings.Replace(text, `if (!strcmp(line, "get\n"))`, `if (!strcmp(line, "close\n") && in_place() || changed()) return 9;
		if (!strcmp(line, "get\n"))`, 1)
	c := &Control{}
	ask, end := serviceWith(t, c, text)
	interval := func(request string) *Interval {
		t.Helper()
		if err := c.Start(request); err != nil {
			t.Fatal(err)
		}
		ask(request)
		i, err := c.Stop(request)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	interval("close").check(t, "plug in_place", "get")
	interval("get").check(t, "get common", "in_place")
	if r := end(); r.Status.ExitStatus() != 3 || r.Void != "" {
		t.Errorf("%v, %q, %q", r.Status, r.Trace.GaveUp, r.Void)
	}
}

// A service that gives a page of its code back has the other pages armed in the next interval all the same.
func TestGivenBack(t *testing.T) {
	text := strings.Replace(service, "int main(void)", `#include <sys/mman.h>
__attribute__((noinline, aligned(4096))) int once(void) { return 3; }
__attribute__((noinline, aligned(4096))) int later(int x) { return x + 1; }
int main(void)`, 1)
	text = strings.Replace(text, "startup();", "startup(); once(); munmap((void *)once, 4096);", 1)
	text = strings.Replace(text, `if (!strcmp(line, "put\n"))`, `if (!strcmp(line, "later\n")) later(1);
		if (!strcmp(line, "put\n"))`, 1)
	c := &Control{}
	ask, end := serviceWith(t, c, text)
	for range 2 {
		if err := c.Start("i"); err != nil {
			t.Fatal(err)
		}
		ask("later")
		i, err := c.Stop("i")
		if err != nil {
			t.Fatal(err)
		}
		i.check(t, "later", "get")
	}
	if r := end(); r.Status.ExitStatus() != 3 {
		t.Errorf("%v, %q", r.Status, r.Trace.GaveUp)
	}
}
