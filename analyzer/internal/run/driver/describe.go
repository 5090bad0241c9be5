package driver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
)

// descriptionSuffix ends the names of the files that describe tests.
const descriptionSuffix = ".tasting-test.json"

// description is what decides how Bazel starts a test, as the aspect knows it
// (_describe in rules/private/aspect.bzl).
type description struct {
	// Compose is the file with the arguments of tasting compose, relative to
	// the execution root.
	Compose string `json:"compose"`
	// Source says that some of the code has manifests of its sources.
	Source bool `json:"source"`
	// Args as in the BUILD file, but for the labels in them, and Variables what
	// others stand for, if they have any.
	Args      []string          `json:"args"`
	Variables map[string]string `json:"variables"`
	// Env is the environment that the rule sets, expanded; EnvInherited names
	// the variables that it takes from the user.
	Env          map[string]string `json:"env"`
	EnvInherited []string          `json:"env_inherited"`
	ShardCount   int               `json:"shard_count"`
	Tags         []string          `json:"tags"`
	// ExecProperties and Requirements say where and how the test is run.
	ExecProperties map[string]string `json:"exec_properties"`
	Requirements   map[string]string `json:"requirements"`
	// Linker is the program that links, LinkEnv its environment.
	Linker  string            `json:"linker"`
	LinkEnv map[string]string `json:"link_env"`
}

// equal reports whether two descriptions are of the same test.
func (d *description) equal(e *description) bool { return reflect.DeepEqual(d, e) }

func readDescription(file string) (*description, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := new(description)
	// Strict: what isn't known here might belong into the fingerprint.
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("%s: %w: the rules are of another version than this program", file, err)
	}
	if d.Compose == "" {
		return nil, fmt.Errorf("%s: no arguments for the composition: the rules are of another version than this program", file)
	}
	return d, nil
}
