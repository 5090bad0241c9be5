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

// LinkedFromSystem is the name of a Contribution: the files of the system that the link takes, by a probe. Without it, the
// content of the test's program is part of the key.
const LinkedFromSystem = "linked from the system"

// NotProbed is the name of the Contribution in its place if the links of a test are known but weren't probed. The
// content of the test's libraries is then part of the key, too.
const NotProbed = "links that no probe knows"

// Config has the build's part of a test's key. The composition action writes it next to the test's executable. The
// runner reads it when the test is run, and adds a Run.
//
// Code, Data, LinkFlags and Contributions are part of the key. Binary, Store, LocalOnly and AlwaysRun aren't: the place of
// the test and of its results can't change its outcome. Neither are Needs and EnvKeys, which name things that the runner
// looks up for the key.
type Config struct {
	// Format is ConfigFormat.
	Format int `json:"format"`
	// Code is the SHA-256 of the test's code, in hex: refgraph.Closure.Hash.
	Code string `json:"code"`
	// Binary is the runfiles path of the real test executable. It starts with the name of a repository ("_main/pkg/name").
	Binary string `json:"binary"`
	// Data are the files in the test's runfiles that aren't code, sorted by Path.
	Data []File `json:"data,omitempty"`
	// Executable are the paths of Data that their owner may execute where this was composed, sorted. They aren't part of the
	// key: Bazel rebuilds nothing if only modes change, and makes all files executable in remote actions. The runner reads the
	// modes again.
	Executable []string `json:"-"`
	// Directories are the paths of source directories whose files are among Data, sorted. Bazel doesn't know their content.
	// They aren't part of the key.
	Directories []string `json:"directories,omitempty"`
	// Needs are the names of shared libraries of the system on the lines of the links, sorted, whether the test needs them or
	// not.
	Needs []string `json:"needs,omitempty"`
	// LinkFlags are the flags of the test's links that can change its behaviour, in order.
	LinkFlags []string `json:"link_flags,omitempty"`
	// AlwaysRun are the reasons why the key can't identify the outcome. If there is one, the test is executed and nothing is
	// recorded.
	AlwaysRun []string `json:"always_run,omitempty"`
	// Store is the location of recorded results. Empty means the runner's default.
	Store string `json:"store,omitempty"`
	// LocalOnly are the reasons not to share results with other machines.
	LocalOnly []string `json:"local_only,omitempty"`
	// EnvKeys are the names of the environment variables that the test's declaration sets or inherits, sorted. Their values are
	// part of the key even if the runner ignores the variable for other tests.
	EnvKeys []string `json:"env_keys,omitempty"`
	// Contributions are all other things that decide the outcome and are known when the test is built, sorted by Name:
	// compiler, format version, link inputs without a manifest.
	Contributions []Contribution `json:"contributions,omitempty"`
	// Cases are the test cases, if they were wanted: the rest, and those of GoogleTest by their IDs (refgraph.Case). NoCases is
	// why there are none.
	Cases   []Case `json:"cases,omitempty"`
	NoCases string `json:"no_cases,omitempty"`
}

// Case is a test case and the SHA-256 of its code, in hex.
type Case struct {
	ID   string `json:"id"`
	Code string `json:"code"`
}

// Of returns the configuration of a test that is this case only. Its key is the case's.
func (x Case) Of(c *Config) *Config {
	one := *c
	one.Code = x.Code
	return &one
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

// Validate returns the first error in c.
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
	for _, x := range c.Cases {
		if err := checkSHA256("case "+x.ID, x.Code); err != nil {
			return err
		}
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

// Frame appends the parts of c that belong to the key. It is an error if c isn't valid.
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
	// An unknown field may be part of the key.
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

// WriteConfig validates c and writes it to file. Equal configurations have equal bytes.
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
