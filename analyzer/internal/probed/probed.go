// Package probed probes links (syslib.Probe) for verification, which composes many programs that
// are linked alike.
package probed

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/syslib"
)

// Links remembers what links take from the system. It may be used concurrently, as long as nothing of
// the system changes.
type Links struct {
	// Dir is what words of lines are relative to, or empty for the current directory.
	Dir string

	known sync.Map // func() (*syslib.Taken, error) by driver and lines
}

// Forget drops all results.
func (x *Links) Forget() { x.known.Clear() }

// By returns a function for fingerprint.Test.System, which probes in the directory tmp. It returns nil for
// lines that the driver can't link.
func (x *Links) By(driver, tmp string) func(lines []*linkflags.Line) *syslib.Taken {
	return func(lines []*linkflags.Line) *syslib.Taken {
		taken, _ := x.Probe(driver, tmp, lines)
		return taken
	}
}

// Probe returns what links by such lines take from the system.
func (x *Links) Probe(driver, tmp string, lines []*linkflags.Line) (*syslib.Taken, error) {
	key := []string{driver}
	for _, l := range lines {
		key = append(key, syslib.LineID(l))
	}
	known, _ := x.known.LoadOrStore(strings.Join(key, " "), sync.OnceValues(func() (*syslib.Taken, error) {
		path, err := exec.LookPath(driver)
		if err != nil {
			return nil, err
		}
		tmp, err := os.MkdirTemp(tmp, "probe-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(tmp)
		probe, err := syslib.Linker{Path: path, Dir: x.Dir}.Probe(context.Background(), tmp, lines...)
		if err != nil {
			return nil, err
		}
		return probe.Of(lines...), nil
	}))
	return known.(func() (*syslib.Taken, error))()
}
