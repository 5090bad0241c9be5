//go:build linux && amd64

package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
	"github.com/rules-tasting/rules_tasting/analyzer/verify/clangtest"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "-trace-and-wait" { // of a tracer apart
		c := exec.Command(os.Args[2])
		c.Stdout = os.Stdout
		if r, err := Run(c, Options{}, nil); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(r.Status.ExitStatus(), r.Trace.GaveUp)
			if r.Void != "" {
				fmt.Println(r.Void)
			}
		}
		os.Exit(0)
	}
	os.Exit(clangtest.Main(m))
}

func compile(t testing.TB, dir, compiler, out, source string, flags ...string) string {
	t.Helper()
	file := filepath.Join(dir, out+".c")
	if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(dir, out)
	args := append([]string{"-w", "-D_GNU_SOURCE", "-o", out, file}, flags...)
	if b, err := exec.Command(clangtest.Tool(t, compiler), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, b)
	}
	return out
}

// ending is what others see of an execution.
type ending struct {
	Status syscall.WaitStatus
	Output string
}

func command(dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	c := exec.Command(args[0], args[1:]...)
	var b bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = dir, &b, &b
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = 10 * time.Second
	return c, &b
}

func bare(t testing.TB, dir string, args ...string) ending {
	t.Helper()
	c, b := command(dir, args...)
	_ = c.Run()
	if c.ProcessState == nil {
		t.Fatal("not started")
	}
	return ending{c.ProcessState.Sys().(syscall.WaitStatus), b.String()}
}

// hangs is the time after which a test gives up: far more than anything here takes on a slow machine.
const hangs = 10 * time.Minute

// eventually waits until a condition holds, and tells whether it does.
func eventually(condition func() bool) bool {
	for end := time.Now().Add(hangs); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// traced runs a program, and has a test that hangs fail.
func traced(t testing.TB, opt Options, dir string, args ...string) (ending, *Result) {
	t.Helper()
	c, b := command(dir, args...)
	if opt.Own == nil {
		opt.Own = func(file string) bool { return strings.HasPrefix(file, dir) }
	}
	timer := time.AfterFunc(hangs, func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	r, err := Run(c, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Trace.Marshal(); err != nil {
		t.Error(err)
	}
	if slices.Contains(r.Trace.GaveUp, "ptrace isn't permitted here") {
		t.Skip("ptrace isn't permitted here")
	}
	return ending{r.Status, b.String()}, r
}

// names are the functions of a trace, each with its file and unit.
func names(t *Trace) map[string]uint64 {
	m := map[string]uint64{}
	for _, f := range t.Files {
		for _, x := range f.Executed {
			for _, s := range x.Symbols {
				m[f.Name+" "+s.Name+" "+s.Unit] += x.Count
			}
		}
	}
	return m
}

func has(t *Trace, name string) bool {
	for k := range names(t) {
		if strings.Contains(k, " "+name+" ") {
			return true
		}
	}
	return false
}

func keys(m map[string]uint64) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

const library = `
#include <stdio.h>
static int resolved(int x) { return x + 1; }
static int unresolved(int x) { return x + 2; }
static int (*resolver(void))(int) { return resolved; }
int chosen(int) __attribute__((ifunc("resolver")));
__attribute__((constructor)) static void constructed(void) { puts("constructed"); fflush(stdout); }
__attribute__((destructor)) static void destructed(void) { puts("destructed"); fflush(stdout); }
int in_library(int x) { return chosen(x); }
int idle_in_library(int x) { return unresolved(x); }
`

// Everything must end as it does without a tracer, and both collectors find the same.
var programs = []struct {
	name, source string
	flags        []string // of the compiler; LIB is replaced by the library's path
	args         []string
	executed     string // functions that are
	idle         string // and that aren't
	gaveUp       string // part of the reason
	void         string
	vague        bool // what is executed depends on timing
}{
	{name: "functions", source: `
#include <stdio.h>
int other(int x) { return x; }
static int local(int x) { return other(x) + 1; }
int never(void) { return local(2); }
extern int alias(int) __attribute__((alias("other")));
__attribute__((constructor)) static void before(void) { puts("before"); }
static void resolved_idle(void) {}
static void (*pointer)(void) = resolved_idle;
int main(int argc, char **argv) { if (argc > 5) pointer(); for (int i = 0; i < 10; i++) local(i); return local(1); }
`, executed: "main local other alias before _start", idle: "never resolved_idle"},

	{name: "static", flags: []string{"-static"}, source: `
#include <stdio.h>
#include <string.h>
int f(char *s) { return strlen(s); }
int never(void) { return 1; }
int main(int argc, char **argv) { printf("%d\n", f(argv[0]) > 0); return 3; }
`, executed: "main f printf _start", idle: "never"},

	{name: "static-pie", flags: []string{"-static-pie"}, source: `
static int resolved(void) { return 4; }
static int (*resolver(void))(void) { return resolved; }
int chosen(void) __attribute__((ifunc("resolver")));
int never(void) { return 1; }
int main(void) { return chosen(); }
`, executed: "main resolver resolved chosen", idle: "never"},

	{name: "no-pie", flags: []string{"-no-pie", "-O2"}, source: `
__attribute__((noinline)) int f(int x) { return x * 3; }
__attribute__((noinline)) int never(int x) { return x; }
int main(int argc, char **argv) { return argc > 4 ? never(argc) : f(argc); }
`, executed: "main f", idle: "never"},

	{name: "library", flags: []string{"LIB"}, source: `
int in_library(int); int idle_in_library(int);
int main(int argc, char **argv) { return argc > 4 ? idle_in_library(1) : in_library(1); }
`, executed: "main in_library resolver chosen resolved constructed destructed", idle: "idle_in_library unresolved"},

	{name: "dlopen", flags: []string{`-DPATH="LIB"`}, source: `
#include <dlfcn.h>
#include <stdio.h>
static void after(void) {}
int main(void) {
	int r = 0;
	for (int i = 0; i < 2; i++) {
		void *h = dlopen(PATH, RTLD_NOW);
		if (!h) { puts(dlerror()); return 1; }
		r += ((int (*)(int))dlsym(h, "in_library"))(1);
		dlclose(h);
	}
	after();
	return r;
}
`, executed: "main after in_library resolver resolved constructed destructed", idle: "idle_in_library"},

	{name: "threads", flags: []string{"-pthread"}, source: `
#include <pthread.h>
#include <stdio.h>
static int work(int x) { return x; }
#define F(n) __attribute__((noinline)) static int n(int x) { return work(x); }
F(f0) F(f1) F(f2) F(f3) F(f4) F(f5) F(f6) F(f7)
static int (*fs[])(int) = {f0, f1, f2, f3, f4, f5, f6, f7};
static pthread_barrier_t barrier;
static void *run(void *p) { int s = 0; pthread_barrier_wait(&barrier); for (int i = 0; i < 8; i++) s += fs[i](1); return (void *)(long)s; }
int main(void) {
	pthread_t t[200]; long sum = 0;
	pthread_barrier_init(&barrier, 0, 200);
	for (int i = 0; i < 200; i++) if (pthread_create(&t[i], 0, run, 0)) return 1;
	for (int i = 0; i < 200; i++) { void *r; pthread_join(t[i], &r); sum += (long)r; }
	printf("%ld\n", sum);
	return sum != 1600;
}
`, executed: "main run work f0 f1 f2 f3 f4 f5 f6 f7"},

	{name: "processes", source: `
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void dies(void) { abort(); }
static void forked(void) { _exit(3); }
static void vforked(void) { _exit(4); }
static void executed(void) { puts("executed"); exit(5); }
static void spawned(void) { puts("spawned"); exit(6); }
static void never(void) {}
static int status(int pid) { int s; waitpid(pid, &s, 0); printf("%x\n", s); fflush(stdout); return s; }
int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "x")) executed();
	if (argc > 1 && !strcmp(argv[1], "s")) spawned();
	if (argc > 1) never();
	int pid;
	for (int i = 0; i < 3; i++) { if ((pid = fork()) == 0) forked(); status(pid); }
	if ((pid = fork()) == 0) dies();
	status(pid);
	if ((pid = vfork()) == 0) vforked();
	status(pid);
	if ((pid = fork()) == 0) { execl("/proc/self/exe", "x", "x", NULL); _exit(9); }
	status(pid);
	char *a[] = {"s", "s", NULL};
	posix_spawn(&pid, "/proc/self/exe", 0, 0, a, environ);
	status(pid);
	return system("exit 3") != 3 << 8;
}
`, executed: "main dies forked vforked executed spawned status", idle: "never"},

	{name: "kills its children", source: `
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void child(void) { for (;;) pause(); }
int main(void) {
	int pids[20], s;
	for (int i = 0; i < 20; i++) if ((pids[i] = fork()) == 0) child();
	for (int i = 0; i < 20; i++) kill(pids[i], i % 2 ? SIGKILL : SIGTERM);
	for (int i = 0; i < 20; i++) { waitpid(pids[i], &s, 0); printf("%x\n", s); }
	return 0;
}
`, executed: "main", vague: true},

	{name: "executes itself from a thread", flags: []string{"-pthread"}, source: `
#include <pthread.h>
#include <unistd.h>
static void second(void) {}
static void *run(void *p) { execl("/proc/self/exe", "x", "x", NULL); return 0; }
static void *idle(void *p) { for (;;) pause(); }
int main(int argc, char **argv) {
	if (argc > 1) { second(); return 8; }
	pthread_t t; pthread_create(&t, 0, idle, 0); pthread_create(&t, 0, run, 0);
	for (;;) pause();
}
`, executed: "main run second", vague: true},

	{name: "crash", source: `
static void inner(void) { *(volatile int *)0 = 1; }
int main(void) { inner(); return 0; }
`, executed: "main inner"},

	{name: "signals", source: `
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int n, traps, alarms;
static void handler(int s) { n++; }
static void trap(int s) { traps++; }
static void alarmed(int s) { alarms++; }
static int gate[2];
static void child(void) { char c; close(gate[1]); raise(SIGSTOP); read(gate[0], &c, 1); _exit(7); }
int main(void) {
	int s, pid;
	pipe(gate);
	signal(SIGUSR1, handler); signal(SIGTRAP, trap); signal(SIGALRM, alarmed);
	for (int i = 0; i < 50; i++) raise(SIGUSR1);
	struct itimerval v = {{0, 1000}, {0, 1000}};
	setitimer(ITIMER_REAL, &v, 0);
	while (alarms < 20) pause();
	v = (struct itimerval){};
	setitimer(ITIMER_REAL, &v, 0);
	printf("%d %d\n", n, traps);
	if ((pid = fork()) == 0) child();
	waitpid(pid, &s, WUNTRACED); printf("%x\n", s);
	kill(pid, SIGCONT);
	waitpid(pid, &s, WCONTINUED); printf("%x\n", s);
	close(gate[1]);
	waitpid(pid, &s, 0); printf("%x\n", s);
	fflush(stdout);
	raise(SIGTERM);
	return 0;
}
`, executed: "main handler alarmed child", idle: "trap"},

	{name: "its own traps", source: `
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int traps;
static void trap(int s) { traps++; }
static void before(void) {}
static void after(void) {}
int main(void) {
	signal(SIGTRAP, trap);
	before();
	raise(SIGTRAP); kill(getpid(), SIGTRAP); __asm__ volatile("int3"); after(); __asm__ volatile("int3");
	printf("%d\n", traps);
	return 0;
}
`, executed: "main before", gaveUp: "it uses SIGTRAP itself"},

	{name: "all signals blocked", source: `
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static int f(void) { return 1; }
static int g(void) { return 1; }
int main(void) {
	sigset_t all, now; sigfillset(&all); sigprocmask(SIG_SETMASK, &all, 0);
	int x = f() + g();
	sigprocmask(SIG_SETMASK, 0, &now);
	printf("%d %d\n", x, sigismember(&now, SIGTRAP));
	return 0;
}
`, executed: "main f g"},

	{name: "ignored signals don't interrupt", source: `
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>
int main(void) {
	int e = epoll_create1(0); struct epoll_event v;
	if (fork() == 0) { usleep(50000); _exit(0); }
	printf("%d\n", epoll_wait(e, &v, 1, 200));
	return 0;
}
`, executed: "main"},

	{name: "dies of its own trap", source: `
static void f(void) { __asm__ volatile("int3"); }
int main(void) { f(); return 0; }
`, executed: "main f", void: "SIGTRAP"},

	{name: "begins with a trap", source: `
#include <signal.h>
#include <stdio.h>
static int n;
static void trap(int s) { n++; }
void f(void);
__asm__(".text; .globl f; .type f,@function; f: int3; ret; .size f,.-f");
int main(void) { signal(SIGTRAP, trap); f(); f(); printf("%d\n", n); return 0; }
`, executed: "main f", gaveUp: "it uses SIGTRAP itself"},

	{name: "closes everything", source: `
#include <unistd.h>
static int after(void) { return 2; }
int main(void) { for (int i = 0; i < 100; i++) close(i); return after(); }
`, executed: "main after"},

	{name: "leaves a process behind", source: `
#include <stdio.h>
#include <unistd.h>
static void late(void) {}
static void daemon_main(void) { close(1); close(2); for (int i = 0; i < 600000 && access("go", F_OK); i++) usleep(1000); late(); FILE *f = fopen("late", "w"); fputs("ok", f); fclose(f); _exit(0); }
int main(void) { if (fork() == 0) daemon_main(); usleep(50000); return 0; }
`, executed: "main", gaveUp: "processes go on", vague: true},

	{name: "traces", source: `
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
	int s, pid;
	if ((pid = fork()) == 0) _exit(ptrace(PTRACE_TRACEME, 0, 0, 0) != 0);
	waitpid(pid, &s, 0); printf("%x\n", s);
	return 0;
}
`, gaveUp: "it traces processes itself"},

	{name: "reads its code", source: `
extern char etext, __executable_start;
int main(void) { int s = 0; for (char *p = (char *)main; p < (char *)main + 40; p++) s += *p; return &etext - &__executable_start > 0 ? s & 127 : 0; }
`, gaveUp: "it may read its own code"},

	{name: "stripped", flags: []string{"-s"}, source: `int main(void) { return 2; }`, gaveUp: "no symbol table"},

	{name: "changes its code", source: `
#include <string.h>
#include <sys/mman.h>
__attribute__((aligned(4096), noinline)) int f(void) { return 1; }
int main(void) {
	mprotect((void *)f, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	memcpy((char *)f + 8, "\x90", 1);
	mprotect((void *)f, 4096, PROT_READ | PROT_EXEC);
	return 3;
}
`, gaveUp: "changes its own code", void: "changes its own code"},

	{name: "makes code", source: `
#include <string.h>
#include <sys/mman.h>
int main(void) {
	char *p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, "\xb8\x05\x00\x00\x00\xc3", 6);
	return ((int (*)(void))p)();
}
`, executed: "main", gaveUp: "code that is in no file"},

	{name: "maps its code from a copy", source: `
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int f(void) { return 4; }
int main(void) {
	char cmd[100], perm[9], line[500];
	unsigned long a, b, o, at = (unsigned long)f & -4096;
	sprintf(cmd, "cp /proc/%d/exe copy", getpid());
	system(cmd);
	int fd = open("copy", O_RDONLY);
	FILE *m = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, m))
		if (sscanf(line, "%lx-%lx %8s %lx", &a, &b, perm, &o) == 4 && (unsigned long)f >= a && (unsigned long)f < b) break;
	mmap((void *)at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, o + (at - a));
	return f();
}
`, executed: "main", gaveUp: "copy was loaded unnoticed"},

	{name: "segments that share pages", flags: []string{"-O2", "-ffunction-sections", "-mcmodel=large", "-fuse-ld=lld"}, source: `
#include <stdio.h>
__attribute__((noinline)) int far(int x) { return x + 1; }
__attribute__((noinline)) int near(int x) { return x + 2; }
__attribute__((noinline)) int idle(int x) { return x; }
int main(int n, char **v) { printf("%d %d\n", far(n), near(n)); return n > 9 ? idle(n) : 0; }
`, executed: "main far near", idle: "idle"},

	{name: "text relocations", flags: []string{"-fno-pic", "-pie", "-mcmodel=large", "-Wl,-z,notext", "-fuse-ld=bfd"}, source: `
int x = 3; int f(void) { return x; } int main(void) { return f(); }
`, gaveUp: "text relocations"},

	{name: "seccomp", source: `
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static int after(void) { return syscall(SYS_ptrace, 0, 0, 0, 0) == -1 ? 6 : 7; }
int main(void) {
	struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog p = {4, f};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
	return after();
}
`, executed: "main after"},

	{name: "not dumpable", source: `
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void child(void) { _exit(3); }
int main(void) { int s; prctl(PR_SET_DUMPABLE, 0); if (fork() == 0) child(); wait(&s); return s >> 8; }
`, executed: "main child"},

	{name: "cold pieces", flags: []string{"-O2"}, source: `
#include <stdio.h>
#include <stdlib.h>
__attribute__((cold, noinline)) void report(int x) { printf("%d\n", x); }
__attribute__((noinline)) int f(int x) { if (__builtin_expect(x > 2, 0)) { report(x); report(x + 1); abort(); } return x; }
int main(int argc, char **argv) { return f(argc); }
`, executed: "main f", idle: "report"},
}

func TestPrograms(t *testing.T) {
	dir := realDir(t)
	lib := compile(t, dir, "gcc", "lib.so", library, "-shared", "-fPIC")
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			for _, compiler := range []string{"gcc", "clang"} {
				linker := map[string]string{"clang": "bfd", "gcc": "lld"}[compiler] // that the other one is for
				if strings.Contains(strings.Join(p.flags, " "), linker) {
					continue
				}
				flags := slices.Clone(p.flags)
				for i, f := range flags {
					flags[i] = strings.ReplaceAll(f, "LIB", lib)
				}
				exe := compile(t, dir, compiler, strings.ReplaceAll(p.name, " ", "-")+"-"+compiler, p.source, flags...)
				args := append([]string{exe}, p.args...)
				want := bare(t, dir, args...)
				got, smart := traced(t, Options{}, dir, args...)
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s: ends differently (- bare, + traced): %s", compiler, d)
				}
				gotNaive, naive := traced(t, Options{Naive: true}, dir, args...)
				if d := cmp.Diff(want, gotNaive); d != "" {
					t.Errorf("%s: ends differently (- bare, + naive): %s", compiler, d)
				}
				if d := cmp.Diff(keys(names(smart.Trace)), keys(names(naive.Trace))); d != "" && !p.vague {
					t.Errorf("%s: smart and naive differ: %s", compiler, d)
				}
				for _, r := range []*Result{smart, naive} {
					for name := range strings.FieldsSeq(p.executed) {
						if !has(r.Trace, name) {
							t.Errorf("%s: %s isn't in the trace, naive: %v", compiler, name, r.Trace.Naive)
						}
					}
					for name := range strings.FieldsSeq(p.idle) {
						if has(r.Trace, name) {
							t.Errorf("%s: %s is in the trace, naive: %v", compiler, name, r.Trace.Naive)
						}
						if !r.Idle[name] {
							t.Errorf("%s: %s isn't idle", compiler, name)
						}
					}
					if (r.Idle == nil) != (p.gaveUp != "" || p.void != "") {
						t.Errorf("%s: it is known what is idle: %t", compiler, r.Idle != nil)
					}
					for _, f := range r.Trace.Files {
						for _, x := range f.Executed {
							for _, s := range x.Symbols {
								if r.Idle[s.Name] {
									t.Errorf("%s: %s was entered and is idle", compiler, s.Name)
								}
							}
						}
					}
					if why := strings.Join(r.Trace.GaveUp, "; "); (p.gaveUp == "") != (why == "") || !strings.Contains(why, p.gaveUp) {
						t.Errorf("%s: given up for %q: want %q", compiler, why, p.gaveUp)
					}
					if (p.void == "") != (r.Void == "") || !strings.Contains(r.Void, p.void) {
						t.Errorf("%s: void for %q: want %q", compiler, r.Void, p.void)
					}
				}
			}
		})
	}
	// What was left behind lives on.
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { b, _ := os.ReadFile(filepath.Join(dir, "late")); return string(b) == "ok" }) {
		t.Error("the process that was left behind has written nothing")
	}
}

// realDir is a directory that isn't the system's.
func realDir(t testing.TB) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A tracer takes no other command's end away.
func TestOtherCommands(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "small", "int main(void) { return 0; }")
	var g errgroup.Group
	g.SetLimit(8)
	for i := range 200 {
		g.Go(func() error {
			cmd := exec.Command(exe)
			if i%2 == 0 {
				_, err := Run(cmd, Options{}, nil)
				return err
			}
			return cmd.Run()
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// Children that are killed at any moment, also while they are stopped at a breakpoint, are no reason to run anything
// once more.
func TestKilledChildren(t *testing.T) {
	if !Permitted() {
		t.Skip("ptrace isn't permitted")
	}
	dir := t.TempDir()
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "__attribute__((noinline)) int f%d(int x) { return x + %d; }\n", i, i)
	}
	text.WriteString("#include <signal.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint (*all[])(int) = {\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "f%d,\n", i)
	}
	text.WriteString(`};
int main(void) {
	for (int i = 0; i < 200; i++) {
		pid_t p = fork();
		if (p == 0) for (int k = 0; ; k = (k + 1) % 2000) all[k](k);
		usleep(10 * i);
		kill(p, SIGKILL);
		int status;
		if (waitpid(p, &status, 0) != p || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return 1;
	}
	return 0;
}
`)
	if err := os.WriteFile(filepath.Join(dir, "k.c"), []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(clangtest.GCC(t), "-O0", "k.c", "-o", "k")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := Run(exec.Command(filepath.Join(dir, "k")), Options{}, nil)
	if err != nil || r.Status.ExitStatus() != 0 || r.Void != "" || len(r.Trace.GaveUp) > 0 {
		t.Errorf("%v, %v, %q, %q", err, r.Ending(), r.Void, r.Trace.GaveUp)
	}
}

// A name is idle only if no function of that name is entered, wherever it is.
func TestIdle(t *testing.T) {
	dir := realDir(t)
	for name, source := range map[string]string{
		"a.c": "static int same(void) { return 1; } static int other(void) { return 1; } int a(int x) { return x ? same() : other(); }",
		"b.c": "static int same(void) { return 2; } static int other(void) { return 2; } int b(int x) { return x ? same() : other(); }",
		"m.c": "int a(int), b(int); int alias(void) __attribute__((alias(\"real\"))); int real(void) { return 0; } int main(void) { return a(1) + b(1) - 3 + alias(); }",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(clangtest.GCC(t), "-O0", "a.c", "b.c", "m.c", "-o", "idle")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, r := traced(t, Options{}, dir, filepath.Join(dir, "idle"))
	for name, want := range map[string]bool{"same": false, "other": true, "a": false, "alias": false, "real": false, "main": false, "_fini": false} {
		if r.Idle[name] != want {
			t.Errorf("%s is idle: %t", name, r.Idle[name])
		}
	}
}

// TestCases: a case has entered what was entered until its end, and between and after cases.
func TestCases(t *testing.T) {
	const source = `
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void BEGIN(void) {}
void END(void) {}
void first(void) {}
void second(void) {}
void both(void) {}
void third(void) {}
void between(void) {}
void again(void) {}
void child(void) {}
void after(void) { again(); child(); }
void *joined(void *x) { return x; }
void unused(void) {}
void *wait_for_ever(void *x) { for (;;) pause(); }
void IMPLS_A_TestE10CreateTestEv(void) { first(); both(); }
void IMPLS_B_TestE10CreateTestEv(void) { second(); both(); again(); if (!fork()) { child(); _exit(0); } wait(0); }
void IMPLS_C_TestE10CreateTestEv(void) { pthread_t t; third(); pthread_create(&t, 0, joined, 0); pthread_join(t, 0); }
void IMPLS_D_TestE10CreateTestEv(void) { if (!vfork()) { child(); _exit(0); } }
void run(void (*f)(void)) { BEGIN(); f(); END(); }
int main(int argc, char **argv) {
	pthread_t t;
	switch (argc > 1 ? argv[1][0] : ' ') {
	case 'b': run(IMPLS_B_TestE10CreateTestEv); return 0;
	case 'v': run(IMPLS_D_TestE10CreateTestEv); child(); return 0;
	case 'n': BEGIN(); run(IMPLS_B_TestE10CreateTestEv); END(); return 0;
	case 't': pthread_create(&t, 0, wait_for_ever, 0);
	}
	run(IMPLS_A_TestE10CreateTestEv);
	between();
	run(IMPLS_B_TestE10CreateTestEv);
	if (argc > 1 && argv[1][0] == 'f' && !fork()) { run(IMPLS_A_TestE10CreateTestEv); _exit(0); }
	wait(0);
	run(IMPLS_C_TestE10CreateTestEv);
	run(IMPLS_A_TestE10CreateTestEv);
	if (argc > 1 && argv[1][0] == 'x') { BEGIN(); exit(0); }
	after();
}
`
	dir := realDir(t)
	program := compile(t, dir, "gcc", "cases", strings.NewReplacer("BEGIN", caseBegins, "END", caseEnds, "IMPLS", "_ZN7testing8internal15TestFactoryImplI8S").Replace(source), "-pthread")
	_, r := traced(t, Options{}, dir, program)
	want := &Cases{Last: map[string]int{"S_A_Test": 4, "S_B_Test": 2, "S_C_Test": 3}, First: map[string]int{"first": 1, "both": 1, "second": 2, "third": 3, "joined": 3}}
	if r.Cases != nil {
		for name := range r.Cases.First {
			if strings.HasPrefix(name, "_Z") {
				delete(r.Cases.First, name)
			}
		}
	}
	if d := cmp.Diff(want, r.Cases); d != "" {
		t.Fatal(d)
	}
	var got []string
	for _, s := range r.Cases.Stages(map[string]bool{"unused": true}) {
		line := ""
		for _, id := range []string{"S_A_Test", "S_B_Test", "S_C_Test", "", "other"} {
			if s.Has(id) {
				line += " " + id
			}
		}
		got = append(got, fmt.Sprint(slices.Sorted(maps.Keys(s.Idle)), line))
	}
	if d := cmp.Diff([]string{"[joined third unused] S_B_Test", "[unused] S_A_Test S_C_Test  other"}, got); d != "" {
		t.Error(d)
	}
	if l := (*Cases)(nil).Stages(map[string]bool{"f": true}); len(l) != 1 || !l[0].Has("any") || len(l[0].Idle) != 1 {
		t.Error(l)
	}
	// A thread, another process, a case that doesn't end, that has another one, or a process with the same memory.
	for _, arg := range []string{"t", "f", "x", "n", "v"} {
		if _, r := traced(t, Options{}, dir, program, arg); r.Cases != nil || !r.Idle["unused"] {
			t.Errorf("%s: %v", arg, r.Cases)
		}
	}
	if _, r := traced(t, Options{}, dir, program, "b"); r.Cases == nil || r.Cases.Last["S_B_Test"] != 1 {
		t.Error(r.Cases)
	}
}

// Who counts as entered is never idle, nor is a piece of it; of others the same is known as ever.
func TestEntered(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "entered", `
__attribute__((cold)) void rare(void);
int quiet(int x) { return x; }
int also(int x) __attribute__((alias("quiet")));
int used(int x) { return x; }
int other(int x) { return x; }
__asm__(".section .text.unlikely\n.type used.cold, @function\nused.cold: ret\n.size used.cold, 1\n.type other.cold, @function\nother.cold: ret\n.size other.cold, 1\n.text");
int main(int n, char **v) { return n > 9 ? quiet(0) + other(0) : used(0); }
`)
	_, all := traced(t, Options{}, dir, exe)
	_, some := traced(t, Options{Entered: nameset.Of(slices.Values([]string{"used", "quiet"}))}, dir, exe)
	for name, want := range map[string][2]bool{
		"main": {}, "used": {}, "used.cold": {false, false}, "other": {true, true}, "other.cold": {true, true},
		"quiet": {true, false}, "also": {true, false}, // one of its names is enough
	} {
		if got := [2]bool{all.Idle[name], some.Idle[name]}; got != want {
			t.Errorf("%s is idle: %t", name, got)
		}
	}
	if all.Stats.Entries != some.Stats.Entries+1 {
		t.Errorf("%d stops, %d with all breakpoints", some.Stats.Entries, all.Stats.Entries)
	}
}

// Code without a function's symbol is told, and what functions were entered is known all the same.
func TestCodeWithoutSymbol(t *testing.T) {
	dir := realDir(t)
	const source = `__asm__(".text\n.globl raw\nraw: ret\n.type local,@function\nlocal: ret\n.size local,1");`
	flags := []string{"-shared", "-fPIC", "-nostartfiles", "-Wl,-soname,libraw.so"}
	lib := compile(t, dir, "gcc", "libraw.so", source, flags...)
	exe := compile(t, dir, "gcc", "uses", "void raw(void); int quiet(void) { return 0; } int main(void) { raw(); return 0; }", lib, "-Wl,-rpath,"+dir)
	_, r := traced(t, Options{}, dir, exe)
	unseen := slices.ContainsFunc(r.Trace.Files, func(f File) bool { return f.Name == "libraw.so" && f.Unseen > 0 })
	if !unseen || !r.Idle["quiet"] || r.Idle["raw"] || r.Idle["main"] {
		t.Errorf("%+v, %v", r.Trace.Files, r.Idle)
	}
	compile(t, dir, "gcc", "libraw.so", source, append(flags, "-Wl,-x")...)
	_, r = traced(t, Options{}, dir, exe)
	if why := r.Unknown(); r.Idle != nil || !strings.Contains(string(why), "2 bytes of its code belong to no function") {
		t.Errorf("without local symbols: %s, %v", why, r.Idle)
	}
}

// What a program enters isn't known of one in a directory of the system, whatever it has executed elsewhere.
func TestProgramOfSystem(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "program", `
#include <unistd.h>
int f(void) { return 0; }
int main(int n, char **v) { if (n > 1) return 0; f(); execl("./copy", "copy", "x", (char *)0); return 1; }
`)
	b, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "copy"), b, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, r := traced(t, Options{Own: func(file string) bool { return filepath.Base(file) == "copy" }}, dir, exe)
	if got.Status != 0 || !has(r.Trace, "main") {
		t.Fatalf("%v, %v", got, keys(names(r.Trace)))
	}
	if why := r.Unknown(); r.Idle != nil || !strings.HasPrefix(string(why), "program itself isn't traced") {
		t.Errorf("%s, %v", why, r.Idle)
	}
}

// A directory of the system is that of the tracer: a program may have mounted something else there.
func TestMounted(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "mounts", `
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>
int f(void) { return 0; }
int main(int n, char **v) {
	if (n > 1) return f();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) && unshare(CLONE_NEWNS)) return 77;
	if (mount(0, "/", 0, MS_PRIVATE | MS_REC, 0) || mount(".", "/usr", 0, MS_BIND, 0)) return 77;
	execl("/usr/static", "static", "x", (char *)0);
	return 1;
}
`)
	// Libraries aren't there any more.
	compile(t, dir, "gcc", "static", `int f(void) { return 0; } int main(int n, char **v) { return n > 1 ? f() : 1; }`, "-static")
	got, r := traced(t, Options{Own: NotOfSystem}, dir, exe)
	if got.Status.ExitStatus() == 77 {
		t.Skip("nothing can be mounted here")
	}
	if got.Status != 0 || !has(r.Trace, "f") || r.Idle["f"] {
		t.Errorf("%v, %v, %v", got, keys(names(r.Trace)), r.Idle)
	}
}

func TestWanted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wanted")
	entered := nameset.Of(slices.Values([]string{"f", "g", "h"}))
	for range 2 {
		if err := WriteWanted(dir, []Wanted{{Label: "//a:b"}, {"//a b:c", entered}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []Wanted{{"//a:b", nameset.Set{}}, {"//a b:c", entered}} {
		if got, err := FindWanted(dir, want.Label); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%v, %v", got, err)
		}
	}
	for _, label := range []string{"//a", "//a:b\t", ""} {
		if _, err := FindWanted(dir, label); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", label, err)
		}
	}
	if err := os.WriteFile(wantedFile(dir, "//a:b"), []byte{0x80}, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := FindWanted(dir, "//a:b"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("damaged: %v", err)
	}
	// What isn't wanted any more is gone.
	if err := WriteWanted(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := FindWanted(dir, "//a b:c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestCounts(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "counts", `
int g(int x) { return x; }
int f(int x) { return x ? f(x - 1) + g(x) : 0; }
int main(void) { return f(9) - 45; }
`)
	_, smart := traced(t, Options{}, dir, exe)
	_, naive := traced(t, Options{Naive: true}, dir, exe)
	want := map[string]uint64{"main": 1, "f": 10, "g": 9}
	for name, n := range want {
		if got := names(naive.Trace)[Executable+" "+name+" "]; got != n {
			t.Errorf("%s was counted %d times: want %d", name, got, n)
		}
		if got := names(smart.Trace)[Executable+" "+name+" "]; got != 1 {
			t.Errorf("%s was counted %d times by first entries", name, got)
		}
	}
}

// A loader whose calls aren't found is followed by its system calls.
func TestUnknownLoader(t *testing.T) {
	dir := realDir(t)
	lib := compile(t, dir, "gcc", "lib.so", library, "-shared", "-fPIC")
	exe := compile(t, dir, "gcc", "program", `int in_library(int); int main(void) { return in_library(1); }`, lib)
	want, known := traced(t, Options{}, dir, exe)
	got, r := traced(t, Options{withoutPattern: true}, dir, exe)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(known.Trace, r.Trace); d != "" {
		t.Errorf("(- known, + unknown): %s", d)
	}
	exe = compile(t, dir, "gcc", "late", fmt.Sprintf(`
#include <dlfcn.h>
int main(void) { return ((int (*)(int))dlsym(dlopen("%s", RTLD_NOW), "in_library"))(1); }
`, lib))
	if _, r := traced(t, Options{withoutPattern: true}, dir, exe); !strings.Contains(strings.Join(r.Trace.GaveUp, " "), "libraries are loaded later") {
		t.Errorf("given up for %q", r.Trace.GaveUp)
	}
}

// What the compiler's own instrumentation sees is what the breakpoints do.
func TestInstrumented(t *testing.T) {
	dir := realDir(t)
	source := `
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define NO __attribute__((no_instrument_function))
static void *seen[1000]; static int count;
NO void __cyg_profile_func_enter(void *f, void *c) { seen[__atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST)] = f; }
NO void __cyg_profile_func_exit(void *f, void *c) {}
NO __attribute__((destructor(101))) static void print(void) { for (int i = 0; i < count; i++) printf("%lx\n", (long)seen[i]); }
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static int idle(int x) { return x; }
int (*volatile pointer)(int) = idle;
static void *run(void *p) { int a[] = {3, 2, 1}; qsort(a, 3, sizeof *a, compare); return 0; }
static void last(void) {}
__attribute__((constructor)) static void first(void) {}
int main(int argc, char **argv) { pthread_t t; atexit(last); pthread_create(&t, 0, run, 0); pthread_join(t, 0); return argc > 3 ? pointer(1) : 0; }
`
	for _, compiler := range []string{"gcc", "clang"} {
		exe := compile(t, dir, compiler, "instrumented-"+compiler, source, "-no-pie", "-pthread", "-finstrument-functions")
		got, r := traced(t, Options{}, dir, exe)
		printed := map[uint64]bool{}
		for line := range strings.Lines(got.Output) {
			var a uint64
			fmt.Sscanf(line, "%x", &a)
			printed[a] = true
		}
		if len(printed) != 5 {
			t.Errorf("%s: %d functions say that they were entered: want 5", compiler, len(printed))
		}
		for _, x := range r.Trace.Files[0].Executed {
			own := slices.ContainsFunc(x.Symbols, func(s Symbol) bool {
				return strings.HasPrefix(s.Unit, "instrumented") && s.Name != "print" || s.Name == "main"
			})
			if own && !printed[x.Address] {
				t.Errorf("%s: %v is in the trace and wasn't entered", compiler, x.Symbols)
			}
			delete(printed, x.Address)
		}
		if len(printed) > 0 {
			t.Errorf("%s: entered, and not in the trace: %v", compiler, printed)
		}
	}
}

// Whoever kills a program, or the tracer, ends it.
func TestTimeout(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "endless", `#include <unistd.h>
int main(void) { write(1, "x", 1); for (;;) pause(); }`)
	c, _ := command(dir, exe)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	c.Stdout = out
	r, err := Run(c, Options{}, func() {
		out.Close()
		go func() {
			_, _ = in.Read(make([]byte, 1))
			c.Process.Kill()
		}()
	})
	if err != nil || !r.Status.Signaled() || r.Status.Signal() != syscall.SIGKILL {
		t.Errorf("%v, %v", r, err)
	}
	if !has(r.Trace, "main") {
		t.Error("main isn't in the trace of a program that was killed")
	}
}

// Without rights, the memory of a process can't be changed that has forked from one which isn't dumpable: then the run is void, and ends.
func TestNotDumpable(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "program", `
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void child(void) { _exit(3); }
int main(void) { int s; prctl(PR_SET_DUMPABLE, 0); if (fork() == 0) child(); wait(&s); return s >> 8; }
`)
	tracer := filepath.Join(dir, "tracer")
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(tracer, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(tracer, "-trace-and-wait", exe)
	var out bytes.Buffer
	c.Stdout, c.Stderr, c.Dir = &out, &out, "/"
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
	}
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	timer := time.AfterFunc(hangs, func() { c.Process.Kill() })
	defer timer.Stop()
	if err := c.Wait(); err != nil || !strings.Contains(out.String(), "memory of the program couldn't be changed") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestKilledTracer(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "endless", `
#include <stdio.h>
#include <unistd.h>
static void after(void) {}
int main(void) { printf("%d\n", getpid()); fflush(stdout); sleep(3600); after(); puts("passed"); return 0; }`)
	c := exec.Command(os.Args[0], "-trace-and-wait", exe)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanln(out, &pid); err != nil {
		t.Fatal(err)
	}
	_ = c.Process.Kill()
	if !eventually(func() bool { // until it is reaped by whoever does
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(b, []byte(") Z "))
	}) {
		t.Errorf("%d lives without its tracer", pid)
	}
	_ = c.Wait()
}

func TestNotPermitted(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "program", `int main(void) { return 3; }`)
	deny := compile(t, dir, "gcc", "deny", `
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
	struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog p = {4, f};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 1;
	execv(argv[1], argv + 1);
	return 2;
}
`)
	out, err := exec.Command(deny, os.Args[0], "-trace-and-wait", exe).CombinedOutput()
	if want := "3 [ptrace isn't permitted here]\n"; string(out) != want || err != nil {
		t.Errorf("%q, %v: want %q", out, err, want)
	}
}

func TestPrivileged(t *testing.T) {
	dir := realDir(t)
	exe := compile(t, dir, "gcc", "program", `int main(void) { return 3; }`)
	if err := os.Chmod(exe, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	got, r := traced(t, Options{}, dir, exe)
	if got.Status.ExitStatus() != 3 || !strings.Contains(strings.Join(r.Trace.GaveUp, ""), "setuid") {
		t.Errorf("%v, given up for %q", got, r.Trace.GaveUp)
	}
	c, _ := command(dir, filepath.Join(dir, "nothing"))
	if _, err := Run(c, Options{}, nil); err == nil {
		t.Error("a program that isn't there was run")
	}
}

// BenchmarkSmall measures what tracing costs a program that does hardly anything.
func BenchmarkSmall(b *testing.B) {
	dir := realDir(b)
	exe := compile(b, dir, "gcc", "small", "#include <stdio.h>\nint f(int x) { return x + 1; }\nint main(void) { printf(\"%d\\n\", f(2)); return 0; }\n")
	var plain, with time.Duration
	for b.Loop() {
		start := cpuTime()
		bare(b, dir, exe)
		plain += cpuTime() - start
		start = cpuTime()
		traced(b, Options{}, dir, exe)
		with += cpuTime() - start
	}
	b.ReportMetric(float64(plain)/float64(b.N)/1e6, "ms/bare")
	b.ReportMetric(float64(with)/float64(b.N)/1e6, "ms/traced")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is that of this process and of its children that have ended.
func cpuTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u)
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// BenchmarkOverhead compares a program that enters n functions with itself, untraced.
func BenchmarkOverhead(b *testing.B) {
	dir := realDir(b)
	var source strings.Builder
	const n = 5000
	for i := range n {
		fmt.Fprintf(&source, "int f%d(int x) { return x + %d; }\n", i, i)
	}
	source.WriteString("int (*fs[])(int) = {")
	for i := range n {
		fmt.Fprintf(&source, "f%d,", i)
	}
	fmt.Fprintf(&source, "};\nint main(void) { volatile unsigned s = 0; for (int k = 0; k < 3000; k++) for (int i = 0; i < %d; i++) s += fs[i](k); return 0; }\n", n)
	exe := compile(b, dir, "gcc", "many", source.String())
	var plain, with time.Duration
	entries := 0
	for b.Loop() {
		start := cpuTime()
		bare(b, dir, exe)
		plain += cpuTime() - start
		start = cpuTime()
		_, r := traced(b, Options{}, dir, exe)
		with += cpuTime() - start
		entries = r.Stats.Entries
	}
	b.ReportMetric(float64(with)/float64(plain), "ratio")
	b.ReportMetric(float64(with-plain)/float64(b.N)/float64(entries)/1e3, "µs/function")
	b.ReportMetric(0, "ns/op")
}
