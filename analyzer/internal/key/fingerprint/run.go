package fingerprint

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

// Run is the execution's part of a test's key. The runner inside the test's action observes it, and `tasting test`
// predicts it from Bazel's options and the test's rule.
type Run struct {
	// Args are the arguments, without paths that differ from run to run.
	Args []string
	// Env is the environment as NAME=value, sorted, without such paths: see Environment.
	Env []string
	// Dir is the working directory, without such paths.
	Dir string
	// Machine is the architecture.
	Machine string
	// Root is set if the test runs as root, which has more rights than other users.
	Root bool
	// Executable are the paths of data files that their owner may execute, in order.
	Executable []string
	// Links are the files in generated directories of data whose path has a symbolic link in it, each with its real path in
	// the directory.
	Links []string
	// RepoMapping is the SHA-256 of Bazel's file _repo_mapping in the runfiles, in hex, or empty if it is equal to
	// Config.RepoMapping.
	RepoMapping string
	// External is set if the runfiles have files of other repositories a second time, in WORKSPACE/external
	// (--legacy_external_runfiles).
	External bool
	// Libraries are the loader and the shared libraries of the system that may be loaded, sorted.
	Libraries []syslib.Library
	// Shards is the number of shards whose results are recorded as one, or 0 for the result of a single execution, whose shard
	// is in Env.
	Shards int
	// Besides are all other parts, sorted by Name: options of Bazel, arguments that aren't expanded, the platform of a
	// remote execution.
	Besides []Contribution
}

// Key returns the key of a test's recorded result: the SHA-256 of all that can decide its outcome. It is an error if c isn't
// valid, or lacks something that r makes part of the key.
func Key(c *Config, r *Run) (key [32]byte, err error) {
	b := frame.New("tasting test 5")
	err = errors.Join(c.Frame(&b), c.checkOpened(r))
	r.frame(&b)
	return b.Sum(), err
}

// checkOpened returns an error if an argument or variable that the build doesn't know names a shared library: another program
// may open one of the test's own.
func (c *Config) checkOpened(r *Run) error {
	if slices.ContainsFunc(c.Contributions, func(x Contribution) bool { return x.Name == OpenedLibraries }) {
		return nil
	}
	if slices.ContainsFunc(r.Args, libraryWord.MatchString) {
		return errors.New("an argument names a shared library, which another program may open: put it into the test's args")
	}
	for _, kv := range r.Env {
		if name, value, _ := strings.Cut(kv, "="); libraryWord.MatchString(value) {
			return fmt.Errorf("%s names a shared library, which another program may open: put it into the test's env, or give it a value with --test_env", name)
		}
	}
	return nil
}

// RepoMapping returns the SHA-256 in hex of the _repo_mapping that the build has for the test, or "".
func (c *Config) RepoMapping() string {
	for _, x := range c.Contributions {
		if x.Name == repoMapping {
			return x.SHA256
		}
	}
	return ""
}

func (r *Run) frame(b *frame.Buffer) {
	b.Strings(r.Args)
	b.Strings(r.Env)
	b.String(r.Dir)
	b.String(r.Machine)
	b.Flag(r.Root)
	b.Strings(r.Executable)
	b.Strings(r.Links)
	b.String(r.RepoMapping)
	b.Flag(r.External)
	b.Int(len(r.Libraries))
	for _, l := range r.Libraries {
		b.String(l.Name)
		b.Bytes(l.SHA256[:])
	}
	b.Int(r.Shards)
	b.Int(len(r.Besides))
	for _, x := range r.Besides {
		b.String(x.Name)
		b.String(x.SHA256)
	}
}

// Part is a named part of a Run. Sum changes with it.
type Part struct {
	Name string `json:"name"`
	Sum  string `json:"sum"` // hex
}

// repoMapping is the name of the Contribution and Part of Bazel's file _repo_mapping, by which a test finds runfiles of other
// repositories.
const repoMapping = "repository mapping"

// Names of parts, or prefixes of them.
const (
	PartArguments   = "arguments"
	PartEnvironment = "environment variable " // and its name
	PartLibrary     = "system library "       // and its name
	partDir         = "working directory"
	partMachine     = "machine"
	partUser        = "user" // root or not
)

// shardVariables differ between the shards of a test. They are in no part, so that all shards have the same explanation.
var shardVariables = []string{"GTEST_SHARD_INDEX", "TEST_SHARD_INDEX"}

// Parts returns the parts of r, for explanations. The values of arguments and variables may be secrets. So a Part has neither
// a value nor a hash that would confirm a guess: Sum is 16 bits of a hash. One in 65536 changes is missing in an
// explanation, and a reader of a recorded closure learns 16 bits about a value.
func (r *Run) Parts() []Part {
	var l []Part
	add := func(name string, bytes int, values ...string) {
		b := frame.New("tasting part 1")
		b.String(name)
		b.Strings(values)
		sum := b.Sum()
		l = append(l, Part{name, hex.EncodeToString(sum[:bytes])})
	}
	add(PartArguments, 2, r.Args...)
	for _, kv := range r.Env {
		name, value, _ := strings.Cut(kv, "=")
		if !slices.Contains(shardVariables, name) {
			add(PartEnvironment+name, 2, value)
		}
	}
	add(partDir, 2, r.Dir)
	add(partMachine, 2, r.Machine)
	user := "not root"
	if r.Root {
		user = "root"
	}
	add(partUser, 2, user)
	if len(r.Executable) > 0 {
		add("data files that can be executed", 2, r.Executable...)
	}
	if len(r.Links) > 0 {
		add("links among the data", 2, r.Links...)
	}
	if r.RepoMapping != "" {
		l = append(l, Part{repoMapping, r.RepoMapping})
	}
	if r.External {
		add("layout of runfiles", 2, "legacy_external_runfiles")
	}
	for _, x := range r.Libraries {
		l = append(l, Part{PartLibrary + x.Name, hex.EncodeToString(x.SHA256[:])})
	}
	if r.Shards > 0 {
		add("number of shards", 2, strconv.Itoa(r.Shards))
	}
	for _, x := range r.Besides {
		l = append(l, Part{x.Name, x.SHA256[:4]})
	}
	slices.SortStableFunc(l, func(a, b Part) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Sum, b.Sum)) })
	return l
}
