package interval

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/traces/trace"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
)

// source is a service with a function for each of its requests, and a table that one of them reads.
const source = `
#include <stdio.h>
#include <string.h>
static volatile int table[] = {1, 2};
__attribute__((noipa)) int get(int x) { return x + 1; }
__attribute__((noipa)) int put(int x) { return x + table[1]; }
__attribute__((noipa)) int both(int x) { return get(x) + put(x); }
int main(void) {
	char line[64];
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		int n = !strcmp(line, "get\n") ? get(1) : !strcmp(line, "put\n") ? put(1) : both(1);
		printf("%d\n", n);
		fflush(stdout);
	}
	return 0;
}
`

// running is a service that is traced, and answers tests.
type running struct {
	in        io.WriteCloser
	out       *bufio.Scanner
	addresses []string
	dir       string
	end       func()
}

func compile(t *testing.T, dir, text string) (program, manifestFile string) {
	t.Helper()
	for _, err := range []error{os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, "s.c"), []byte(text), 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	object := filepath.Join(dir, "s.o")
	program, manifestFile = filepath.Join(dir, "s"), filepath.Join(dir, "s.manifest")
	for _, args := range [][]string{{"-O1", "-ffunction-sections", "-fdata-sections", "-c", filepath.Join(dir, "s.c"), "-o", object}, {object, "-o", program}} {
		if out, err := exec.Command(clangtest.GCC(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	m, err := objfile.Manifest(object, objfile.Options{})
	if err == nil {
		err = manifest.Write(manifestFile, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return program, manifestFile
}

func start(t *testing.T, program string, merge bool) *running {
	t.Helper()
	if !trace.Permitted() {
		t.Skip("ptrace isn't permitted")
	}
	s := &running{dir: filepath.Join(t.TempDir(), "table")}
	cmd := exec.Command(program)
	var err error
	if s.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	c := &trace.Control{Merge: merge}
	served := make(chan struct{}, 2)
	var listeners []net.Listener
	for _, address := range []string{"unix:" + filepath.Join(t.TempDir(), "socket"), "127.0.0.1:0"} {
		l, err := Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		if l.Addr().Network() == "tcp" {
			address = l.Addr().String()
		}
		listeners, s.addresses = append(listeners, l), append(s.addresses, address)
		go func() { Serve(l, c, s.dir); served <- struct{}{} }()
	}
	ended := make(chan error, 1)
	go func() {
		_, err := trace.Run(cmd, trace.Options{Control: c}, func() { w.Close() })
		ended <- err
	}()
	s.out = bufio.NewScanner(r)
	if !s.out.Scan() {
		t.Fatal("it doesn't start")
	}
	s.end = func() {
		s.in.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, l := range listeners {
			l.Close()
			<-served
		}
	}
	return s
}

func (s *running) ask(t *testing.T, request string) {
	t.Helper()
	if _, err := fmt.Fprintln(s.in, request); err != nil || !s.out.Scan() {
		t.Fatal("no answer", err)
	}
}

// The whole way: tests are collected by clients in Go and C, by both kinds of addresses, and a change selects those that
// need what has changed.
func TestSelect(t *testing.T) {
	dir := t.TempDir()
	program, before := compile(t, filepath.Join(dir, "before"), source)
	s := start(t, program, false)
	c := NewClient(s.addresses[0])
	for name, request := range map[string]string{"//kv:get": "get", "//kv:put": "put"} {
		if err := c.Start(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		s.ask(t, request)
		if err := c.Stop(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	inC := filepath.Join(dir, "client")
	text := "#include \"tasting_interval.h\"\nint main(int argc, char **argv) { char why[256] = \"\"; int e = tasting_interval(argv[1], argv[2], why); puts(why); return e != 0; }\n"
	if err := os.WriteFile(inC+".c", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(clangtest.GCC(t), "-Wall", "-Werror", "-I", filepath.Join(here, "c"), inC+".c", "-o", inC).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	client := func(addresses, word, name string) (string, error) {
		cmd := exec.Command(inC, word, name)
		cmd.Env = append(os.Environ(), Addresses+"="+addresses)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	tcp := s.addresses[1]
	if out, err := client(tcp, "start", "both"); err != nil {
		t.Fatal(out, err)
	}
	if out, err := client(tcp, "start", "other"); err == nil || !strings.Contains(out, `interval "both" is open`) {
		t.Errorf("%q, %v", out, err)
	}
	s.ask(t, "both")
	if out, err := client(tcp, "stop", "both"); err != nil {
		t.Fatal(out, err)
	}
	for _, addresses := range []string{"unix:/nowhere", "127.0.0.1:1", tcp + ",unix:/nowhere"} {
		if out, err := client(addresses, "stop", "x"); err == nil {
			t.Errorf("%s: %q", addresses, out)
		}
	}
	if out, err := client("", "start", "x"); err != nil {
		t.Errorf("without services: %q, %v", out, err)
	}
	s.end()

	tests, err := Read(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, ProgramFile)
	if err := Record(file, []string{before}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ old, new, want, why string }{
		{"", "", "", ""},
		{"return x + 1;", "return x + 2;", "//kv:get both", "changed: get"},
		{"{1, 2}", "{1, 3}", "//kv:put both", "what its functions refer to has changed"},
		{"get(x) + put(x)", "put(x) * get(x)", "both", "changed: both"},
		{"__attribute__((noipa)) int get(int x)", "int never(int x) { return x; }\n__attribute__((noipa)) int get(int x)", "", ""},
		{`puts("ready")`, `puts("go")`, "//kv:get //kv:put both", "changed: main"},
	} {
		_, after := compile(t, filepath.Join(dir, "after"), strings.Replace(source, x.old, x.new, 1))
		list, err := Select(tests, file, []string{after})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range list {
			if s.Why != "" {
				names = append(names, s.Test)
				if !strings.Contains(s.Why, x.why) {
					t.Errorf("%s: %s: %s", x.new, s.Test, s.Why)
				}
			}
		}
		if got := strings.Join(names, " "); got != x.want || len(list) != 3 {
			t.Errorf("%s: %q, want %q of %d", x.new, got, x.want, len(list))
		}
	}
	// Of what wasn't seen nothing is known.
	tests[0].Idle, tests[0].Trace.GaveUp = nil, []string{"it dances"}
	list, err := Select(tests, file, []string{before})
	if err != nil || list[0].Why != "what it executes isn't known: it dances" || list[1].Why != "" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestTable(t *testing.T) {
	dir := t.TempDir()
	for _, i := range []*trace.Interval{
		{Name: "//a:b c%/..", Result: &trace.Result{Trace: &trace.Trace{Files: []trace.File{}}, Idle: map[string]bool{"f": true}}},
		{Name: "unknown", Result: &trace.Result{Trace: &trace.Trace{Files: []trace.File{}, GaveUp: []string{"why"}}}},
	} {
		for range 2 {
			if err := Write(dir, i); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := Read(dir)
	if err != nil || len(list) != 2 || list[0].Name != "//a:b c%/.." || !list[0].Idle["f"] || list[1].Name != "unknown" || list[1].Idle != nil {
		t.Fatalf("%+v, %v", list, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+idleSuffix))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for _, file := range []string{files[0], strings.TrimSuffix(files[0], idleSuffix) + traceSuffix} {
		if err := os.WriteFile(file, []byte("text"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if l, err := Read(filepath.Join(dir, "gone")); err != nil || l != nil {
		t.Errorf("%v, %v", l, err)
	}
}

// A service that refuses leaves no interval open at another one.
func TestClient(t *testing.T) {
	var got []string
	answer := map[string]string{"start a": "ok", "stop a": "ok"}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			line = strings.TrimSpace(line)
			got = append(got, line)
			if a := answer[line]; a != "" {
				fmt.Fprintln(conn, a)
			}
			conn.Close()
		}
	}()
	address := l.Addr().String()
	c := NewClient(address + ",,unix:" + filepath.Join(t.TempDir(), "gone"))
	if err := c.Start(t.Context(), "a"); err == nil || !slices.Equal(got, []string{"start a", "stop a"}) {
		t.Errorf("%v, %q", err, got)
	}
	c = NewClient(address)
	for _, name := range []string{"without an answer", "two\nlines", strings.Repeat("x", maxLine)} {
		if err := c.Start(t.Context(), name); err == nil {
			t.Errorf("%.20q starts", name)
		}
	}
	if err := NewClient("").Start(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Start(ctx, "a"); err == nil {
		t.Error("it starts after its context has ended")
	}
}

func TestServe(t *testing.T) {
	c := &trace.Control{}
	for line, want := range map[string]string{
		"start x": "the service hasn't started", "stop x": "the service hasn't started", "start": "want start NAME", "": "want start NAME", "begin x": "want start NAME",
	} {
		if err := serve(line, c, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
