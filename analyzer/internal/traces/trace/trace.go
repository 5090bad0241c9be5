// Package trace finds out which functions a program enters, without building it
// again: by a breakpoint at each function's entry.
//
// The tracer stops the program when the kernel has loaded it, before its first instruction.
// The first byte of each function becomes a trap instruction, in a private copy
// of the process's pages: the file stays as it is. A thread that enters the function traps. The
// tracer notes the function's name, restores the byte and resumes the thread at the
// same address. So each function costs one trap in the life of a process. (This is the smart
// collection of the proofs of safety. The naive collection restores the trap after each entry
// and counts. Both find the same set.)
//
// No entry may be missed. Shared libraries get their breakpoints when the loader has
// mapped them, before it runs one of their resolvers or initialisers: the
// loader itself has a breakpoint behind its calls of mmap. Threads share the
// memory, children have a copy of it, and an exec begins anew. At the end of each process the tracer
// searches its memory for code without breakpoints. It gives the trace up if functions aren't known, as
// in a library without a symbol table.
//
// Nothing may be changed either: the program's exit status, output and signals are
// those that it has without a tracer. A program that wouldn't work under a tracer, such as a
// debugger, is released before it begins. If the tracer is killed, the kernel kills the program,
// too: half a run with breakpoints must not look like a test's result.
// If tracing may have changed the result, the run is void, and has to be repeated without a tracer.
package trace

import (
	"fmt"
	"iter"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/nameset"
)

// Executable is the name of the program that was started, whatever its file is called.
const Executable = "(executable)"

// Trace is what a program executed. Equal executions have equal traces.
type Trace struct {
	// Naive is set if Count has all entries, else it has first ones only.
	Naive bool `json:"naive,omitzero"`
	// Files are sorted by name and ID.
	Files []File `json:"files"`
	// GaveUp has the reasons for which functions may be missing, sorted.
	GaveUp []string `json:"gaveUp,omitempty"`
}

// File is an executable or a shared library.
type File struct {
	// Name is Executable, a library's DT_SONAME, or the last part of a path.
	Name string `json:"name"`
	// ID is "build-id:" and what the linker says, or "sha256:" and the hash of its content.
	ID string `json:"id"`
	// Functions is the number of entries with a breakpoint.
	Functions int `json:"functions"`
	// Unseen is the number of bytes of code outside of functions with a symbol. Their
	// execution isn't observed.
	Unseen int `json:"unseen,omitzero"`
	// Executed are sorted by address.
	Executed []Function `json:"executed"`
}

// Function is an entry that was reached, or a piece of such a function.
type Function struct {
	// Address is where it is in its file, as the linker has numbered it.
	Address uint64 `json:"address"`
	// Symbols are all functions that start there, sorted.
	Symbols []Symbol `json:"symbols"`
	// Count is the number of entries. It is 0 for a piece of a function, such as gcc's
	// cold parts: it may be entered in its middle, and is in the list
	// if its function is. With several threads Count may be too low.
	Count uint64 `json:"count,omitzero"`
}

// Symbol is a name of a function.
type Symbol struct {
	Name string `json:"name"`
	// Unit is the source file, without directories, that a local name belongs to.
	Unit string `json:"unit,omitzero"`
}

// Symbols yields the functions that were executed by all their names, each with the name of its file.
func (t *Trace) Symbols() iter.Seq2[string, Symbol] {
	return func(yield func(string, Symbol) bool) {
		for _, f := range t.Files {
			for _, x := range f.Executed {
				for _, s := range x.Symbols {
					if !yield(f.Name, s) {
						return
					}
				}
			}
		}
	}
}

// Options are how a program is traced.
type Options struct {
	// Naive has each entry counted, which is slow.
	Naive bool
	// Own reports whether a file is traced, by its path without symbolic links. Nil means NotOfSystem.
	Own func(path string) bool

	// Entered are functions that get no breakpoint: they are taken for entered.
	Entered nameset.Set
	// Control is for services, which are traced in intervals; nil stands for the whole run.
	Control *Control

	// withoutPattern follows the loader as an unknown one.
	withoutPattern bool
}

// Result is how a program ended.
type Result struct {
	Trace  *Trace
	Status syscall.WaitStatus
	// Void is why tracing may have changed the result, which must then be discarded, or "".
	Void string
	// Idle are the names of functions that had a breakpoint in all files that they are in, and that
	// nobody entered in any process, nor a function that they are a piece of. It is nil if the trace was
	// given up, or if the program itself isn't traced.
	Idle map[string]bool
	// Cases are known of a program of GoogleTest that has one thread between its test cases, and no processes; else nil.
	Cases *Cases
	Stats Stats

	system string // the path of the program if it isn't traced itself
}

// Stats are what collecting took. They differ from run to run.
type Stats struct {
	Programs  int // that were loaded
	Processes int
	Threads   int
	Stops     int // of all kinds
	Entries   int // stops at breakpoints of functions
}

// Unknown returns why Idle is nil.
func (r *Result) Unknown() UnknownError {
	if len(r.Trace.GaveUp) > 0 {
		return UnknownError(strings.Join(r.Trace.GaveUp, "; "))
	}
	if r.system != "" {
		return UnknownError(filepath.Base(r.system) + " itself isn't traced, it is in a directory of the system")
	}
	return "nobody knows why"
}

// NotOfSystem reports whether a file is outside of the directories that a system keeps
// its libraries and programs in.
func NotOfSystem(path string) bool {
	for _, dir := range []string{"/usr/", "/lib/", "/lib32/", "/lib64/", "/libx32/", "/bin/", "/sbin/", "/nix/store/", "/gnu/store/"} {
		if strings.HasPrefix(path, dir) {
			return false
		}
	}
	return true
}

// Matching returns a predicate for files that NotOfSystem or one of patterns holds for: of
// the path or its last part, as filepath.Match has it.
func Matching(patterns []string) func(path string) bool {
	return func(path string) bool {
		return NotOfSystem(path) || slices.ContainsFunc(patterns, func(p string) bool {
			whole, _ := filepath.Match(p, path)
			last, _ := filepath.Match(p, filepath.Base(path))
			return whole || last
		})
	}
}

// Run starts cmd and returns when it has ended. The error is one of starting it. If tracing isn't
// permitted or possible, it runs untraced and the trace says so. A caller who wants
// it to end earlier kills cmd.Process as usual; started, if not nil, is called when that is set.
func Run(cmd *exec.Cmd, opt Options, started func()) (*Result, error) {
	if started == nil {
		started = func() {}
	}
	return run(cmd, opt, started)
}

// Bare runs cmd as Run does, but without a tracer: to compare.
func Bare(cmd *exec.Cmd) (*Result, error) {
	return untraced(cmd, Options{}, func() {}, "it was run without a tracer")
}

// Ending returns how the program ended, "exit status 1" or "signal: killed".
func (r *Result) Ending() string {
	if r.Status.Signaled() {
		return "signal: " + r.Status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", r.Status.ExitStatus())
}

// Permitted reports whether programs can be traced here: ptrace may be forbidden, or unknown on this system.
func Permitted() bool {
	r, err := Run(exec.Command("/bin/true"), Options{}, nil)
	return err == nil && len(r.Trace.GaveUp) == 0
}

// untraced runs cmd without a tracer.
func untraced(cmd *exec.Cmd, opt Options, started func(), why string) (*Result, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	started()
	_ = cmd.Wait() // its state says more
	r := &Result{Trace: &Trace{Naive: opt.Naive, GaveUp: []string{why}}}
	if s := cmd.ProcessState; s != nil {
		r.Status = s.Sys().(syscall.WaitStatus)
	}
	return r, nil
}
