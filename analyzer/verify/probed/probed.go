// Package probed probes links (syslib.Probe) for verification, which composes many programs that
// are linked alike.
package probed

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/linkflags"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/link/syslib"
)

// Links remembers what links take from the system. It may be used concurrently, as long as nothing of
// the system changes.
type Links struct {
	// Dir is what words of lines are relative to, or empty for the current directory.
	Dir string

	known  sync.Map // func() *syslib.Taken by driver and lines
	shared sync.Map // *syslib.Cache by driver
}

// Forget drops all results.
func (x *Links) Forget() {
	x.known.Clear()
	x.shared.Clear()
}

// By returns a function for fingerprint.Test.System. It probes in the directory tmp, which has to exist
// until Forget, and returns nil for lines that the driver can't link.
func (x *Links) By(driver, tmp string) func(lines []*linkflags.Line) *syslib.Taken {
	return func(lines []*linkflags.Line) *syslib.Taken {
		key := []string{driver}
		for _, l := range lines {
			key = append(key, syslib.LineID(l))
		}
		known, _ := x.known.LoadOrStore(strings.Join(key, " "), sync.OnceValue(func() *syslib.Taken {
			path, err := exec.LookPath(driver)
			if err != nil {
				return nil
			}
			// Not removed: what is shared has objects in it.
			tmp, err := os.MkdirTemp(tmp, "probe-")
			if err != nil {
				return nil
			}
			shared, _ := x.shared.LoadOrStore(driver, new(syslib.Cache))
			probe, err := syslib.Linker{Path: path, Dir: x.Dir, Cache: shared.(*syslib.Cache)}.Probe(context.Background(), tmp, lines...)
			if err != nil {
				return nil
			}
			return probe.Of(lines...)
		}))
		return known.(func() *syslib.Taken)()
	}
}
