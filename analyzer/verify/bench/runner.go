package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

// RunnerReport is what the runner adds to a test that does nothing.
type RunnerReport struct {
	Bare  Times `json:"bare"`  // the test without the runner
	Start Times `json:"start"` // tasting --help: starting a process of its size
	Hit   Times `json:"hit"`
	Miss  Times `json:"miss"` // with execution and recording
	// Overheads in wall time, in seconds.
	HitOverStart         float64 `json:"hit_over_start"`
	MissOverBareAndStart float64 `json:"miss_over_bare_and_start"`
}

const testSource = `#include <stdio.h>
int main(void) { puts("PASS"); return 0; }
`

func measureRunner(dir string, runs int) (RunnerReport, error) {
	var r RunnerReport
	test := filepath.Join(dir, "test")
	bare := test + ".runfiles/_main/bare"
	if err := os.MkdirAll(filepath.Dir(bare), 0o777); err != nil {
		return r, err
	}
	if err := os.WriteFile(bare+".c", []byte(testSource), 0o666); err != nil {
		return r, err
	}
	if _, err := execute(new(Times), nil, "cc", "-O2", bare+".c", "-o", bare); err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	if err := os.Symlink(self, test); err != nil {
		return r, err
	}
	config := &fingerprint.Config{Format: fingerprint.ConfigFormat, Code: strings.Repeat("0", 64), Binary: "_main/bare"}
	if err := fingerprint.WriteConfig(test+fingerprint.ConfigSuffix, config); err != nil {
		return r, err
	}
	// env is what Bazel's set-up script gives to a test, as far as it counts here.
	env := func(v string) []string {
		return []string{childVariable + "=-", "BAZEL_TEST=1", "TEST_TMPDIR=" + dir, "TASTING_STORE=" + filepath.Join(dir, "store"), "_=" + test, "VERSION=" + v}
	}
	// once runs the test and checks that the runner did what is measured.
	once := func(t *Times, v, want string) error {
		out, err := execute(t, env(v), test)
		if err == nil && (!strings.Contains(out, want) || !strings.Contains(out, "PASS")) {
			err = fmt.Errorf("runner: want %q in the log, it is\n%s", want, out)
		}
		return err
	}
	if err := once(new(Times), "recorded", "tasting: recorded"); err != nil {
		return r, err
	}
	for i := range runs {
		if _, err := execute(&r.Bare, nil, bare); err != nil {
			return r, err
		}
		if _, err := execute(&r.Start, []string{childVariable + "=-"}, self, "--help"); err != nil {
			return r, err
		}
		if err := once(&r.Hit, "recorded", "tasting: replayed"); err != nil {
			return r, err
		}
		if err := once(&r.Miss, fmt.Sprint("new ", i), "tasting: recorded"); err != nil {
			return r, err
		}
	}
	r.HitOverStart = r.Hit.Wall - r.Start.Wall
	r.MissOverBareAndStart = r.Miss.Wall - r.Bare.Wall - r.Start.Wall
	return r, nil
}
