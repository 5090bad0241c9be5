package fingerprint

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/frame"
)

// ConfigFormat is the version of Config's file format.
//
// History:
//
//	1  first version
//	2  names of libraries of the system (Needs)
const ConfigFormat = 2

// ConfigSuffix is appended to the path of a test's executable to find the
// test's Config.
const ConfigSuffix = ".tasting"

// LinkedFromSystem is the name of a Contribution: what the link took from the
// system, as a probe of it tells. Without it, the test's program counts as a
// whole.
const LinkedFromSystem = "linked from the system"

// NotProbed is the name of a Contribution that is there in its place if the links of a test are
// known, and no probe knows them: then its libraries count as a whole, too.
const NotProbed = "links that no probe knows"

// Config is everything about a test that is known when it is built: the
// composition action writes it beside the test's executable, the runner reads
// it when the test is run, adds what only then is known, and so has the key of
// the recorded result.
//
// Code, Data, LinkFlags and Contributions are part of the key, each of them
// framed. Binary, Store, LocalOnly and AlwaysRun are not: where the test is, and
// where its results are kept, can't change its outcome. Nor are Needs and EnvKeys, which say
// what to look for when the test is run.
type Config struct {
	// Format is ConfigFormat.
	Format int `json:"format"`
	// Code is the SHA-256 of the test's code, in hex: the global hashes of all
	// roots.
	Code string `json:"code"`
	// Binary is the runfiles path of the real test executable, which starts
	// with the name of a repository ("_main/pkg/name").
	Binary string `json:"binary"`
	// Data are the files in the test's runfiles that are not code, sorted by
	// Path.
	Data []File `json:"data,omitempty"`
	// Executable are the paths of those of Data that their owner may execute where
	// this was composed, sorted. That is no part of the key: Bazel makes nothing again
	// if only modes change, and calls all files executable in remote actions. Whoever
	// runs the test looks again.
	Executable []string `json:"-"`
	// Directories are the paths of directories whose files are among Data, sorted, if
	// Bazel doesn't know what is in them: those of sources. They are no part of the key.
	Directories []string `json:"directories,omitempty"`
	// Needs are names of shared libraries of the system, sorted: those that are on the lines of
	// the links, whether the test needs them or not.
	Needs []string `json:"needs,omitempty"`
	// LinkFlags are the flags of the test's link that can change its
	// behaviour, in order.
	LinkFlags []string `json:"link_flags,omitempty"`
	// AlwaysRun holds the reasons why the outcome can't be known from the key.
	// If there is one, the test is executed and nothing is recorded.
	AlwaysRun []string `json:"always_run,omitempty"`
	// Store is the location of recorded results; empty means the runner's
	// default.
	Store string `json:"store,omitempty"`
	// LocalOnly holds the reasons why results must not be kept on, nor come
	// from, another machine.
	LocalOnly []string `json:"local_only,omitempty"`
	// EnvKeys are the names of the environment variables that the test's
	// declaration sets or inherits, sorted. They are in the key even if the
	// runner ignores that name for other tests.
	EnvKeys []string `json:"env_keys,omitempty"`
	// Contributions is whatever else decides the outcome and is known when the
	// test is built, sorted by Name: compiler, format version, link inputs
	// without a manifest.
	Contributions []Contribution `json:"contributions,omitempty"`
}

// File is a file in the runfiles and the SHA-256 of its content, in hex.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Contribution is a named part of the key and its SHA-256, in hex.
type Contribution struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Validate reports the first thing that is wrong with c.
func (c *Config) Validate() error {
	if c.Format != ConfigFormat {
		return fmt.Errorf("format %d, this tasting reads format %d: build the test again with one version of tasting", c.Format, ConfigFormat)
	}
	if err := checkSHA256("code", c.Code); err != nil {
		return err
	}
	if c.Binary == "" || strings.HasPrefix(c.Binary, "/") || slices.Contains(strings.Split(c.Binary, "/"), "..") {
		return fmt.Errorf("binary %q: want a runfiles path like _main/pkg/name", c.Binary)
	}
	for _, f := range c.Data {
		if err := checkSHA256("data "+f.Path, f.SHA256); err != nil {
			return err
		}
	}
	for _, f := range c.Contributions {
		if err := checkSHA256("contribution "+f.Name, f.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// Frame appends what counts of c to the message that a key is made of. It is an
// error if c isn't valid.
func (c *Config) Frame(b *frame.Buffer) error {
	var bad error
	hash := func(s string) {
		sum, err := hex.DecodeString(s)
		if err != nil {
			bad = err
		}
		b.Bytes(sum)
	}
	hash(c.Code)
	b.Int(len(c.Data))
	for _, f := range c.Data {
		b.String(f.Path)
		hash(f.SHA256)
	}
	b.Strings(c.LinkFlags)
	b.Int(len(c.Contributions))
	for _, f := range c.Contributions {
		b.String(f.Name)
		hash(f.SHA256)
	}
	return bad
}

func checkSHA256(what, s string) error {
	if b, err := hex.DecodeString(s); err != nil || len(b) != 32 || strings.ToLower(s) != s {
		return fmt.Errorf("%s: %q is not a SHA-256 in lower case hex", what, s)
	}
	return nil
}

// ReadConfig reads and validates the configuration in file.
func ReadConfig(file string) (*Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// Strict: a field that this version doesn't know might be one that the key
	// has to contain.
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	c := new(Config)
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%s: data after the configuration", file)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// WriteConfig validates c and writes it to file; equal configurations give
// equal bytes.
func WriteConfig(file string, c *Config) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}
