// Package launcher is `tasting cc`: it stands in front of a compiler and hands out
// the object file of an earlier compilation, if the compiler would make the same.
//
// # Why
//
// An edit of a header has Bazel compile whatever reads it, and most of the objects
// come out as they were (docs/bench.md): comments, layout, an inline function that
// few use. Compilers' caches know the bytes of what was read, or run the
// preprocessor. This one knows the tokens.
//
// # What is compared
//
// A record of a unit has all files that its compilation read, as the compiler
// listed them (-MD), and of each file three hashes: of its bytes, of its tokens
// with their lines, and of its tokens alone (scan.go). The object is the one of the
// record if
//
//   - command line, compiler, and what the environment says are the same;
//   - each file has the same bytes; or the same tokens on the same lines; or the
//     same tokens, and nothing in the file asks for a line, as the preprocessor
//     says (lines.go);
//   - each name that any of these files may include, or asks for with
//     __has_include, exists in the same of the directories where the compiler
//     may look for it: a header that is new doesn't hide behind one that was read.
//
// With debug information bytes have to be the same. Whatever isn't understood is
// compiled: see bypass in unit.go and in scan.go. So is what can't be read or
// written; and nothing is kept of a compilation that fails, nor of one that warns of what
// another one might say in another way.
package launcher

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/stamp"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/lazyregexp"
)

// Options of Run.
type Options struct {
	// Dir is where records and objects are kept.
	Dir string
	// Args are the compiler and its arguments.
	Args []string
	// Audit is the share of objects that are handed out, 0 to 1, that are compiled
	// all the same, to compare.
	Audit          float64
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// records is how many compilations of a unit are remembered: branches, and what is
// built in turns.
const records = 4

// record is one compilation of a unit.
type record struct {
	Files dependencyList
	// Maps are module maps. Only their bytes count.
	Maps dependencyList `json:",omitempty"`
	// Exists is the hash of which names exist where.
	Exists uint64
	// Object is the name of the object's file, Sum the hash of its content; there is
	// none if the unit is only checked.
	Object string
	Sum    uint64
	// Places are the files of which the object says, in the name of a function, where
	// in them something without a name is.
	Places []string `json:",omitempty"`
	// Asked is what asks for lines, nil if that isn't known.
	Asked *asked `json:",omitempty"`
	// Depend is the compiler's list of dependencies, as it wrote it.
	Depend []byte
	// Messages are what the compiler warned of.
	Messages []byte `json:",omitempty"`
}

type dependency struct {
	Path                       string
	Raw, Lines, Tokens, Layout uint64
	Heads                      heads
}

// A dependencyList is written down as lists of what the files have: a unit reads hundreds.
type dependencyList []dependency

type packed struct {
	Paths  []string
	Hashes []byte        // Raw, Lines, Tokens and Layout of each
	Heads  map[int]heads `json:",omitempty"`
}

// MarshalJSON is for encoding/json.
func (l dependencyList) MarshalJSON() ([]byte, error) {
	p := packed{Heads: map[int]heads{}}
	for i, d := range l {
		p.Paths = append(p.Paths, d.Path)
		for _, h := range []uint64{d.Raw, d.Lines, d.Tokens, d.Layout} {
			p.Hashes = binary.BigEndian.AppendUint64(p.Hashes, h)
		}
		if d.Heads != (heads{}) {
			p.Heads[i] = d.Heads
		}
	}
	return json.Marshal(p)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (l *dependencyList) UnmarshalJSON(text []byte) error {
	var p packed
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	if len(p.Hashes) != 4*8*len(p.Paths) {
		return errors.New("there aren't four hashes of each file")
	}
	*l = make(dependencyList, len(p.Paths))
	for i := range *l {
		h := func(k int) uint64 { return binary.BigEndian.Uint64(p.Hashes[8*(4*i+k):]) }
		(*l)[i] = dependency{p.Paths[i], h(0), h(1), h(2), h(3), p.Heads[i]}
	}
	return nil
}

func (x *scan) dependency(path string) dependency {
	d := dependency{Path: path, Raw: x.Raw, Lines: x.Lines, Tokens: x.Tokens, Layout: x.Layout}
	if mayMove(path) {
		d.Heads = x.Heads
	}
	return d
}

// Run compiles, or hands out what was compiled. It returns the exit code of the
// compiler; an error says that the compiler can't be started.
func Run(ctx context.Context, o *Options) (code int, err error) {
	start := time.Now()
	u, why := parse(o.Args)
	if u == nil {
		return pass(ctx, o, why)
	}
	c := &cache{dir: o.Dir, scans: map[string]*scan{}, dirs: map[string]map[string]bool{}}
	if why = c.open(); why == "" {
		why = c.identify(ctx, u)
	}
	if why != "" {
		return pass(ctx, o, why)
	}
	known := c.records(u)
	for k := range 2 * len(known) {
		i := k % len(known)
		r := known[i]
		how := c.matches(ctx, u, r, k < len(known)) // bytes first
		if how == "" {
			continue
		}
		if rand.Float64() < o.Audit {
			return c.audit(ctx, o, u, r)
		}
		if err := c.hand(u, r); err != nil {
			c.count("damaged")
			known = slices.Delete(known, i, i+1)
			c.remember(u, known)
			break
		}
		switch {
		case how != "same bytes":
			// The next time it costs no preprocessor.
			c.remember(u, append([]*record{c.now(r)}, known[:min(len(known), records-1)]...))
		case i > 0:
			c.remember(u, append([]*record{r}, slices.Delete(known, i, i+1)...))
		default:
			touch(c.recordFile(u))
		}
		c.count(how)
		_, err := o.Stderr.Write(r.Messages)
		return 0, err
	}
	return c.compile(ctx, o, u, known, start)
}

// now returns r for the files as they have just been read.
func (c *cache) now(r *record) *record {
	x := *r
	x.Files = slices.Clone(r.Files)
	for i := range x.Files {
		d := &x.Files[i]
		if s := c.scans[d.Path]; s != nil {
			*d = s.dependency(d.Path)
		}
	}
	return &x
}

// compile has the compiler run, and remembers what it makes.
func (c *cache) compile(ctx context.Context, o *Options, u *unit, known []*record, start time.Time) (int, error) {
	out, messages := &copied{w: o.Stdout}, &copied{w: o.Stderr}
	for _, d := range slices.Concat([]string{dirOf(u.source)}, u.quoteDirs, u.dirs) {
		c.listed(d, "-")
	}
	code, err := execute(ctx, o, out, messages)
	c.before, c.dirs = c.dirs, map[string]map[string]bool{}
	if err != nil || code != 0 || out.n > 0 || messages.n > 0 && !u.repeatable(messages) {
		c.count("compiled: it fails or warns")
		return code, err
	}
	r, err := c.record(u, start)
	if err != nil {
		c.count("compiled: " + err.Error())
		return 0, nil
	}
	r.Messages = messages.b
	for _, k := range known {
		if k.Asked != nil && k.Exists == r.Exists && slices.EqualFunc(k.Files, r.Files, func(a, b dependency) bool { return a.Path == b.Path && a.Tokens == b.Tokens }) {
			r.Asked = k.Asked
		}
	}
	c.remember(u, append([]*record{r}, known[:min(len(known), records-1)]...))
	if len(known) == 0 {
		c.count("compiled: new")
	} else {
		c.count("compiled: changed")
	}
	return 0, nil
}

// pass has the compiler run and remembers nothing.
func pass(ctx context.Context, o *Options, why string) (int, error) {
	c := &cache{dir: o.Dir}
	c.count("passed on: " + why)
	code, err := execute(ctx, o, o.Stdout, o.Stderr)
	return code, err
}

// program is what runs in place of a compiler, for tests.
var program = func(compiler string) string { return compiler }

// execute runs the compiler, and returns its exit code. Streams of this
// process become its own, so that what it says on both, and what those say that it
// starts, stays in order.
func execute(ctx context.Context, o *Options, stdout, stderr io.Writer) (code int, err error) {
	cmd := exec.CommandContext(ctx, program(o.Args[0]), o.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, stdout, stderr
	// Who ends this process means the compiler, which would write its object later.
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	if err = cmd.Start(); err == nil {
		done := make(chan struct{})
		go func() {
			for {
				select {
				case s := <-signals:
					_ = cmd.Process.Signal(s)
				case <-done:
					return
				}
			}
		}()
		err = cmd.Wait()
		close(done)
	}
	signal.Stop(signals)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return 128 + int(s.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// copied counts what is written, and has a copy of the first of it.
type copied struct {
	w io.Writer
	n int
	b []byte
}

const maxMessages = 1 << 16

func (c *copied) Write(b []byte) (int, error) {
	c.n += len(b)
	c.b = append(c.b, b[:min(len(b), maxMessages-len(c.b))]...)
	return c.w.Write(b)
}

// repeatable tells whether the compiler would say the same another time: nothing in it is of
// the directory, or of a line that no file has.
func (u *unit) repeatable(messages *copied) bool {
	dir, err := os.Getwd()
	return err == nil && messages.n == len(messages.b) && plainMessages() && !u.syntax &&
		!bytes.Contains(messages.b, []byte(dir)) && !bytes.Contains(messages.b, []byte("<scratch space>"))
}

// plainMessages tells whether no variable asks for messages in another language or form.
func plainMessages() bool {
	return !slices.ContainsFunc(os.Environ(), func(kv string) bool { return !plain(kv) })
}

// plain tells whether a variable doesn't matter for messages.
func plain(variable string) bool {
	return !beginsWithOne(variable, []string{"LANG=", "LANGUAGE=", "LC_", "COLUMNS=", "TERM", "GCC_", "CLICOLOR", "NO_COLOR"})
}

// repeats tells whether the messages of r are still what the compiler says: their form is,
// no file that they name has changed, and none says that its lines are another's, which are shown then.
func (r *record) repeats(scans []*scan) bool {
	if len(r.Messages) == 0 {
		return true
	}
	for i, x := range scans {
		if d := r.Files[i]; x.Relines || x.Raw != d.Raw && bytes.Contains(r.Messages, []byte(filepath.Base(d.Path))) {
			return false
		}
	}
	return plainMessages()
}

// audit compiles although an object is known, and compares.
func (c *cache) audit(ctx context.Context, o *Options, u *unit, r *record) (int, error) {
	code, err := execute(ctx, o, o.Stdout, o.Stderr)
	if err != nil {
		return code, err
	}
	var b []byte
	var rerr error
	if !u.syntax {
		b, rerr = os.ReadFile(u.object)
	}
	if code != 0 || rerr != nil || !u.syntax && xxhash.Sum64(b) != r.Sum {
		fmt.Fprintf(o.Stderr, "tasting cc: %s: compiled to another object than the one that is known for the same input. Nothing of it is kept; please report this with the command line and the files in %s\n", u.source, c.recordFile(u))
		c.count("audited: DIFFERENT")
		_ = os.Rename(c.recordFile(u), c.recordFile(u)+".different")
		return code, nil
	}
	c.count("audited")
	return 0, nil
}

// matches tells how a record fits what is there now, or returns "". It may be told
// that all bytes have to be the same.
func (c *cache) matches(ctx context.Context, u *unit, r *record, asBytes bool) string {
	how := "same bytes"
	for _, d := range r.Maps {
		if hashMap(d.Path) != d.Raw {
			return ""
		}
	}
	var scans []*scan
	relines := false
	moved := map[string]*scan{} // with other lines
	for _, d := range r.Files {
		x, err := c.readScan(d.Path, u.cxx && !u.old)
		if err != nil || x.Bypass != "" {
			return ""
		}
		scans = append(scans, x)
		relines = relines || x.Relines
		switch {
		case x.Raw == d.Raw:
		case asBytes || u.debug || u.contracts || u.warns && x.Layout != d.Layout:
			return ""
		case x.Lines == d.Lines:
			how = max(how, "same tokens")
		case x.Tokens == d.Tokens:
			how = max(how, "same tokens")
			moved[filepath.Clean(d.Path)] = x
		default:
			return ""
		}
	}
	// Without optimisation gcc compares places, columns and all, by the names and lines that files give them.
	if relines && how != "same bytes" || !r.repeats(scans) {
		return ""
	}
	means := u.means(r.Files, scans)
	if means&(dates|reads) != 0 || how != "same bytes" && means&(columns|strict) != 0 {
		return ""
	}
	exists, _, why := c.exists(u, r.Files, scans)
	var err error
	switch {
	case how != "same bytes" && u.clang && u.named(r, r.Files, scans, means):
		return ""
	case why != "" || exists != r.Exists:
		return ""
	case len(moved) == 0:
		return how
	}
	const hit = "same tokens on other lines"
	if r.Asked != nil && !r.Asked.in(moved) {
		return hit
	}
	for i, x := range scans {
		if c.directives(r.Files[i].Path, x) != nil {
			return ""
		}
	}
	all := append(slices.Clone(scans), u.defines)
	switch {
	case conditional(all):
		r.Asked = &asked{Elsewhere: true}
		return ""
	case u.quiet(r.Files, scans, all):
		return hit
	case r.Asked != nil:
		return ""
	}
	if r.Asked, err = askLines(ctx, u); err != nil || r.Asked.in(moved) {
		return ""
	}
	return hit
}

// record describes the compilation that has just been done.
func (c *cache) record(u *unit, start time.Time) (*record, error) {
	depend, err := os.ReadFile(u.depend)
	if err != nil {
		return nil, errors.New("no list of dependencies")
	}
	if s, err := stamp.Of(u.depend); err != nil || !s.Since(start) {
		return nil, errors.New("the clock of the file system is behind")
	}
	r, err := c.describe(u, depend, start)
	if err != nil || u.syntax {
		return r, err
	}
	object, err := os.ReadFile(u.object)
	if err != nil {
		return nil, errors.New("no object")
	}
	r.Places = placesIn(object)
	r.Sum = xxhash.Sum64(object)
	r.Object = fmt.Sprintf("%016x-%x", r.Sum, len(object))
	return r, c.keep(r.Object, object)
}

// describe describes the files that a compiler has read since start, by its list of
// dependencies.
func (c *cache) describe(u *unit, depend []byte, start time.Time) (*record, error) {
	r := &record{Depend: depend}
	files, err := dependencies(depend)
	if err != nil {
		return nil, err
	}
	var scans []*scan
	trail := newLinks(start)
	for _, f := range files {
		x, err := c.readScan(f, u.cxx && !u.old)
		switch {
		case err != nil:
			return nil, errors.New("a file that it reads can't be read")
		case x.Bypass != "":
			return nil, errors.New(x.Bypass)
		}
		// What is saved while the compiler runs may have been read before or after.
		if trail.touched(f) {
			return nil, errChanging
		}
		scans = append(scans, x)
		r.Files = append(r.Files, x.dependency(f))
	}
	switch means := u.means(r.Files, scans); {
	case means&dates != 0:
		return nil, errors.New("date or time")
	case means&reads != 0:
		return nil, errors.New("a name that may be pasted")
	}
	var found []string
	var why string
	if r.Exists, found, why = c.exists(u, r.Files, scans); why != "" {
		return nil, errors.New(why)
	}
	// A file that was away for a while: the compiler may have found another one.
	known := map[string]bool{} // directories
	for _, f := range found {
		if trail.touched(f) {
			return nil, errChanging
		}
		for d := dirOf(f); !known[d]; d = dirOf(d) {
			known[d] = true
			if s, err := stamp.Of(d); err == nil && s.MovedAfter(start) {
				return nil, errChanging
			}
		}
	}
	for _, m := range u.allMaps() {
		if m.unclear {
			return nil, errors.New("a module map that isn't understood")
		}
		f := m.file
		r.Maps = append(r.Maps, dependency{Path: f, Raw: hashMap(f)})
		if s, err := stamp.Of(f); err == nil && s.Since(start) || err != nil && !os.IsNotExist(err) {
			return nil, errChanging
		}
	}
	return r, nil
}

// links tells whether links on the way to files were made anew since the compiler was started.
// Bazel makes links right before that.
type links struct {
	stamp.Trail
	start time.Time
	dir   string // the current directory
}

func newLinks(start time.Time) *links {
	l := &links{Trail: stamp.Trail{}, start: start}
	l.dir, _ = os.Getwd()
	return l
}

// touched tells whether a file was, or what leads to it, or was given another name.
func (l *links) touched(file string) bool {
	s, err := stamp.Of(file)
	return err != nil || s.Since(l.start) || s.Several() && s.After(l.start) || l.changed(file)
}

func (l *links) changed(file string) bool {
	if !filepath.IsAbs(file) {
		file = l.dir + "/" + file
	}
	found := false
	_, _, err := l.Follow(file, func(_ string, s stamp.Stamp) { found = found || s.IsLink() && s.After(l.start) })
	return found || err != nil
}

// unnamedAt is in names of functions by clang (__PRETTY_FUNCTION__).
var unnamedAt = lazyregexp.New(`\((?:lambda|(?:unnamed|anonymous) (?:struct|class|union|enum)) at ([^()\x00]*?):\d+:\d+\)`)

func placesIn(object []byte) []string {
	files := map[string]bool{}
	for _, m := range unnamedAt.FindAllSubmatch(object, -1) {
		files[filepath.Clean(string(m[1]))] = true
	}
	return slices.Sorted(maps.Keys(files))
}

// means returns what the words of a unit mean together. The compiler's own headers only
// print names of functions, and then they are in the object.
func (u *unit) means(files []dependency, scans []*scan) meaning {
	m := pasted(append(slices.Clone(scans), u.defines))
	for i, x := range scans {
		if u.isOwn(files[i].Path) {
			m |= x.Means &^ places
		} else {
			m |= x.Means
		}
	}
	if m&levels != 0 && m&options != 0 {
		m |= strict
	}
	if u.dates {
		m &^= dates
	}
	return m
}

// isOwn tells whether a file is one of the compiler's own headers, or that of assert.
func (u *unit) isOwn(file string) bool {
	return len(u.own) > 0 && file == "/usr/include/assert.h" || slices.ContainsFunc(u.own, func(d string) bool { return strings.HasPrefix(file, d+"/") })
}

// named tells whether names of functions, in which clang says where something without
// a name is, may be others than in the object of r, since files have other bytes: the
// object has such names, or the unit may compute with them.
func (u *unit) named(r *record, files []dependency, scans []*scan, means meaning) bool {
	// Compilers map "./" and the like as well, which isn't in lists of dependencies.
	mapped := slices.ContainsFunc(u.mapped, func(from string) bool {
		return !filepath.IsAbs(from) || slices.ContainsFunc(files, func(d dependency) bool { return strings.HasPrefix(d.Path, from) })
	})
	for i, x := range scans {
		if x.Raw != files[i].Raw && (means&places != 0 || len(r.Places) > 0 && (x.Relines || mapped || slices.Contains(r.Places, filepath.Clean(files[i].Path)))) {
			return true
		}
	}
	return false
}

// exists hashes which of the names that files may include exist in which of the
// directories where a compiler may look for them, and returns the files among them. It
// says why that isn't certain.
func (c *cache) exists(u *unit, files []dependency, scans []*scan) (sum uint64, found []string, why string) {
	all, included := u.names(files, scans)
	for _, x := range all {
		first, _, _ := strings.Cut(x.name, "/")
		if names := c.before[x.dir]; names != nil && strings.Trim(first, ".") != "" && names[first] != c.listed(x.dir, first) {
			return 0, nil, "a name that has come or gone"
		}
	}
	h := xxhash.New()
	if why = u.hashDirs(h); why != "" {
		return 0, nil, why
	}
	inodes := map[[2]uint64]int{}
	copies := map[[2]int64][]numbered{} // by size and time
	for i, x := range all {
		state, id, like := c.look(x.dir, x.name, u.gch || i < included)
		switch {
		case state&hasPCH != 0:
			return 0, nil, "a precompiled header"
		case state&isOdd != 0:
			return 0, nil, "a name that can't be looked up"
		}
		same := 0
		if state&isThere != 0 {
			path := x.dir + "/" + x.name
			if filepath.IsAbs(x.name) {
				path = x.name
			}
			if u.clang && otherCase(x.dir, x.name) {
				return 0, nil, "a name that is another one but for case"
			}
			if state&isDirectory == 0 {
				found = append(found, path)
				real, err := u.realPath(path, x.dir)
				if err != nil {
					return 0, nil, "a name that can't be looked up"
				}
				if real != "" {
					h.WriteString(real + "\x00")
				}
			}
			// "#pragma once" knows a file by whatever name.
			if _, ok := inodes[id]; !ok {
				inodes[id] = len(inodes) + 1
				if u.gch && state&isDirectory == 0 {
					// gcc takes a copy that was saved in the same second for it.
					inodes[id] = c.copyOf(u, path, like, copies, inodes[id])
				}
			}
			same = inodes[id]
		}
		var head [16]byte
		binary.LittleEndian.PutUint64(head[:], uint64(state))
		binary.LittleEndian.PutUint64(head[8:], uint64(same))
		h.Write(head[:])
		h.WriteString(x.dir + "\x00" + x.name + "\x00")
	}
	u.hashMapped(h, inodes)
	return h.Sum64(), found, ""
}

// otherCase tells whether a part of a name is a link to what is called the same but for case, of which clang
// warns.
func otherCase(dir, name string) bool {
	if filepath.IsAbs(name) {
		dir, name = "", name[1:]
	}
	for part := range strings.SplitSeq(name, "/") {
		dir += "/" + part
		link := dir
		for range 40 { // more aren't followed
			to, err := os.Readlink(link)
			if err != nil {
				break
			}
			if base := filepath.Base(to); base != part && strings.EqualFold(base, part) {
				return true
			}
			if !filepath.IsAbs(to) {
				to = dirOf(link) + "/" + to
			}
			link = to
		}
	}
	return false
}

// nameIn is a name that is looked up in a directory.
type nameIn struct{ dir, name string }

// names lists what files may include where a compiler may look for it. The first of
// them, included, are those that no file asks for.
func (u *unit) names(files []dependency, scans []*scan) (all []nameIn, included int) {
	seen := map[nameIn]bool{}
	add := func(dir, n string) {
		if x := (nameIn{dir, n}); !seen[x] {
			seen[x] = true
			all = append(all, x)
		}
	}
	collect := func(path string, names []string) {
		for _, n := range names {
			if n[0] == '"' {
				add(dirOf(path), n[1:])
				for _, d := range u.quoteDirs {
					add(d, n[1:])
				}
			}
			for _, d := range u.dirs {
				add(d, n[1:])
			}
		}
	}
	add(dirOf(u.source), filepath.Base(u.source)) // gcc compares others with it
	collect("./-", u.includes)
	if u.gch {
		collect("./-", []string{"<stdc-predef.h"}) // gcc includes it by itself
	}
	included = len(all)
	for i, x := range scans {
		collect(files[i].Path, x.Names)
	}
	return all, included
}

// hashDirs writes which of the directories are the same: compilers leave out those that they
// look in already.
func (u *unit) hashDirs(h io.Writer) (why string) {
	known := map[[2]uint64]int{} // the first of them
	for i, d := range slices.Concat(u.quoteDirs, u.dirs) {
		var st syscall.Stat_t
		err := syscall.Stat(d, &st)
		if err != nil && err != syscall.ENOENT { // gcc stops at one below a file
			return "a name that can't be looked up"
		}
		id, first := [2]uint64{uint64(st.Dev), st.Ino}, i
		if k, ok := known[id]; ok && err == nil {
			first = k
		} else if err == nil {
			known[id] = i
		}
		fmt.Fprintf(h, "%d ", first)
	}
	return ""
}

// realPath returns what gcc may call a file that is found in dir, or "" if that is its path.
func (u *unit) realPath(path, dir string) (string, error) {
	if !u.canonical || !u.gch {
		return "", nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil && slices.Contains(u.dirs, dir) {
		real, err = filepath.Abs(real)
	}
	if real == filepath.Clean(path) {
		real = ""
	}
	return real, err
}

// dirOf is the directory of a name, as it is: what is behind a link isn't what is behind its
// name.
func dirOf(name string) string {
	switch i := strings.LastIndexByte(name, '/'); i {
	case -1:
		return "."
	case 0:
		return "/"
	default:
		return name[:i]
	}
}

// numbered is a file that was looked up.
type numbered struct {
	path   string
	number int
}

// copyOf returns the number of a file of the same size, time and content among copies,
// or number.
func (c *cache) copyOf(u *unit, path string, like [2]int64, copies map[[2]int64][]numbered, number int) int {
	for _, k := range copies[like] {
		a, err1 := c.readScan(k.path, u.cxx && !u.old)
		b, err2 := c.readScan(path, u.cxx && !u.old)
		if err1 == nil && err2 == nil && a.Raw == b.Raw {
			return k.number
		}
	}
	copies[like] = append(copies[like], numbered{path, number})
	return number
}

// plainNames are those that are the same in lists, line markers and names of functions.
var plainNames = lazyregexp.New(`^[A-Za-z0-9_./+=@,~ -]*$`)

// dependencies reads the rule that a compiler has written (-MD), without the
// target, in order and each once.
func dependencies(b []byte) ([]string, error) {
	_, list, ok := bytes.Cut(b, []byte(": "))
	list, _, _ = bytes.Cut(bytes.ReplaceAll(list, []byte("\\\n"), []byte(" ")), []byte("\n")) // -MP adds rules
	if !ok || !plainNames.Match(list) {
		return nil, errors.New("a list of dependencies with odd names")
	}
	var files []string
	seen := map[string]bool{}
	for _, f := range strings.Fields(string(list)) {
		if !seen[f] {
			seen[f] = true
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("an empty list of dependencies")
	}
	return files, nil
}

var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
)

// keep stores an object.
func (c *cache) keep(name string, b []byte) error {
	file := c.path("objects", name)
	if _, err := os.Stat(file); err == nil {
		touch(file)
		return nil
	}
	if !c.write(file, encoder.EncodeAll(b, nil)) {
		return errors.New("the directory can't be written")
	}
	return nil
}

// hand writes the object and the list of dependencies of a record.
func (c *cache) hand(u *unit, r *record) error {
	if u.syntax {
		return replace(u.depend, r.Depend)
	}
	file := c.path("objects", r.Object)
	packed, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	b, err := decoder.DecodeAll(packed, nil)
	if err == nil && xxhash.Sum64(b) != r.Sum {
		err = errors.New("damaged")
	}
	if err != nil {
		_ = os.Remove(file)
		return err
	}
	touch(file)
	return errors.Join(replace(u.object, b), replace(u.depend, r.Depend))
}

// replace writes a file as a compiler does, which makes new ones: who has the old
// one open keeps it.
func replace(name string, content []byte) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(name, content, 0o666)
}

// touch tells who removes old files that this one is in use.
func touch(file string) {
	now := time.Now()
	_ = os.Chtimes(file, now, now)
}

func (c *cache) recordFile(u *unit) string { return c.path("units", u.key) }

// records returns what is remembered of a unit, the last used first.
func (c *cache) records(u *unit) (known []*record) {
	b, err := os.ReadFile(c.recordFile(u))
	if err != nil {
		return nil
	}
	sum, text, ok := bytes.Cut(b, []byte("\n"))
	if !ok || string(sum) != checksum(text) || json.Unmarshal(text, &known) != nil {
		return nil
	}
	return slices.DeleteFunc(known, func(r *record) bool { return r == nil || len(r.Files) == 0 })
}

func (c *cache) remember(u *unit, known []*record) {
	text, err := json.Marshal(known)
	if err == nil {
		c.write(c.recordFile(u), append([]byte(checksum(text)+"\n"), text...))
	}
}

func checksum(b []byte) string { return fmt.Sprintf("%016x", xxhash.Sum64(b)) }
