package bazel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Event is a build event (build_event_stream.proto), with the parts that are
// used here.
type Event struct {
	ID struct {
		NamedSet         struct{ ID string }
		Started          *struct{}
		TargetConfigured struct{ Label, Aspect string }
		TargetCompleted  ConfiguredTarget
		TestResult       struct {
			Label               string
			Run, Shard, Attempt int
		}
		TestSummary     struct{ Label string }
		ActionCompleted *struct {
			Configuration struct{ ID string }
		}
		StructuredCommandLine   struct{ CommandLineLabel string }
		Configuration           struct{ ID string }
		Workspace               *struct{}
		BuildFinished           *struct{}
		UnstructuredCommandLine *struct{}
		Pattern                 *struct{}
	}
	Children []struct{ TargetCompleted ConfiguredTarget }
	Started  struct{ BuildToolVersion string }
	Expanded struct {
		TestSuiteExpansions []struct{ SuiteLabel string }
	}
	Aborted *struct{ Reason, Description string }
	Action  struct {
		Success bool
		Type    string
	}

	UnstructuredCommandLine struct{ Args []string }
	StructuredCommandLine   struct {
		Sections []struct {
			SectionLabel string
			OptionList   struct{ Option []Option }
		}
	}
	WorkspaceInfo struct{ LocalExecRoot string }
	Configuration struct{ Mnemonic string }
	Configured    *struct {
		TargetKind, TestSize string
	}
	NamedSetOfFiles struct {
		Files    []File
		FileSets []struct{ ID string }
	}
	Completed *struct {
		Success     bool
		OutputGroup []struct {
			Name     string
			FileSets []struct{ ID string }
		}
	}
	TestResult   *TestResult
	TestSummary  *struct{ OverallStatus string }
	BuildMetrics struct {
		ActionSummary struct {
			ActionData []struct {
				Mnemonic             string
				ActionsExecuted      json.Number
				UserTime, SystemTime string // "1.5s"; of spawns
			}
		}
	}
	Finished struct {
		ExitCode struct {
			Name string
			Code int
		}
		FinishTime time.Time // when the work was done; another command may begin shortly after that
	}
}

// ConfiguredTarget names a target, or an aspect of one, in a configuration.
type ConfiguredTarget struct {
	Label, Aspect string
	Configuration struct{ ID string }
}

// AllMnemonics has Bazel count the actions of all mnemonics, not only of the most
// frequent ones.
const AllMnemonics = "--experimental_record_metrics_for_all_mnemonics"

// Actions calls f for each mnemonic in e, with the number of executed actions
// and the CPU time of their processes, without that of workers.
func (e *Event) Actions(f func(mnemonic string, executed int, cpu time.Duration)) {
	for _, a := range e.BuildMetrics.ActionSummary.ActionData {
		n, _ := a.ActionsExecuted.Int64()
		user, _ := time.ParseDuration(a.UserTime)
		system, _ := time.ParseDuration(a.SystemTime)
		f(a.Mnemonic, int(n), user+system)
	}
}

// Options returns the effective options of the command, those of bazelrc files
// included, if e has them; else nil.
func (e *Event) Options() []Option {
	if e.ID.StructuredCommandLine.CommandLineLabel == "canonical" {
		for _, x := range e.StructuredCommandLine.Sections {
			if x.SectionLabel == "command options" {
				return x.OptionList.Option
			}
		}
	}
	return nil
}

// Option is an effective option of a command.
type Option struct {
	CombinedForm, OptionName, OptionValue string
	MetadataTags                          []string
}

// TestResult is one attempt of one shard of one run of a test.
type TestResult struct {
	Status              string // "PASSED", "FAILED", "TIMEOUT", ...
	CachedLocally       bool
	TestAttemptStart    string // RFC 3339
	TestAttemptDuration string // "1.5s"
	TestActionOutput    []File
	Warning             []string
	ExecutionInfo       struct {
		Strategy       string
		CachedRemotely bool
	}
}

// When returns when the attempt started and how long it took.
func (r *TestResult) When() (start time.Time, took time.Duration) {
	start, _ = time.Parse(time.RFC3339Nano, r.TestAttemptStart)
	took, _ = time.ParseDuration(r.TestAttemptDuration)
	return start.UTC(), took
}

// StatusFile is Bazel's file about an attempt, next to its log. Bazel removes it with
// the log and outputs of an attempt before the next one starts, and writes it after
// the new ones.
const StatusFile = "test.cache_status"

// CheckFiles checks that dir, the directory of the attempt's log, still has the files of
// that attempt. Build events have no digests of these, and their times aren't those of
// the attempt: test.xml is made later, and what ran remotely is downloaded.
func (r *TestResult) CheckFiles(dir string) error {
	const startTime protowire.Number = 15 // start_time_millis_epoch of TestResultData (test_status.proto)
	b, err := os.ReadFile(filepath.Join(dir, StatusFile))
	l, damage := fields(b)
	started := int64(-1)
	for _, f := range l {
		if f.number == startTime {
			started = int64(f.varint)
		}
	}
	if start, _ := r.When(); err != nil || damage != nil || started != start.UnixMilli() {
		return errors.New("its log and outputs are not of this run: the test was run once more, or replayed, by another call of Bazel or tasting")
	}
	return nil
}

// File is a file that Bazel made or read.
type File struct{ Name, URI string }

// ErrNotLocal is the error for a file that isn't on this machine.
var ErrNotLocal = errors.New("not on this machine")

// Path returns where the file is on this machine, or ErrNotLocal, wrapped.
func (f File) Path() (string, error) {
	u, err := url.Parse(f.URI)
	if err != nil || u.Scheme != "file" {
		return "", fmt.Errorf("%s: %w, but at %s: build with --remote_download_outputs=all", f.Name, ErrNotLocal, u.Redacted())
	}
	return filepath.FromSlash(u.Path), nil
}

// ReadEvents calls f for each event in a file that --build_event_json_file
// names. The file of an interrupted Bazel may end in the middle of an event:
// then the error is io.ErrUnexpectedEOF.
func ReadEvents(file string, f func(*Event) error) error {
	r, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("build events: %w", err)
	}
	defer r.Close()
	return readEvents(r, f)
}

func readEvents(r io.Reader, f func(*Event) error) error {
	d := json.NewDecoder(bufio.NewReader(r))
	for {
		e := new(Event)
		if err := d.Decode(e); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("build events: %w", err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
}

// FileSets resolves the sets of files that events name. Bazel sends a set before
// what refers to it.
type FileSets map[string]*Event

// Add takes an event, which may be any.
func (s FileSets) Add(e *Event) {
	if id := e.ID.NamedSet.ID; id != "" {
		s[id] = e
	}
}

// Files returns the files of a set and all sets in it, each once.
func (s FileSets) Files(id string) []File {
	var l []File
	seen := map[string]bool{}
	var walk func(id string)
	walk = func(id string) {
		e := s[id]
		if seen[id] || e == nil {
			return
		}
		seen[id] = true
		l = append(l, e.NamedSetOfFiles.Files...)
		for _, x := range e.NamedSetOfFiles.FileSets {
			walk(x.ID)
		}
	}
	walk(id)
	return l
}
