package cases

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

// logText is the log of a program by its cases.
type logText struct {
	segments map[string]string // by full name, with the lines that begin and end the case
	passed   []string          // in order; nil if the log isn't understood
	// noisy are suites around whose cases something else was printed: perhaps a failure of SetUpTestSuite.
	noisy map[string]bool
}

const runLine = "[ RUN      ] "

var (
	// between matches what GoogleTest prints between cases.
	between = lazyregexp.New(`^(?:\[[-=]{10}\] [^\n]*\n|Note: [^\n]*\n|Running main\(\) from [^\n]*\n|YOU HAVE [^\n]*\n|\[  PASSED  \] [^\n]*\n|\s*\n|  )*$`)
	ends    = []string{"[       OK ] ", "[  SKIPPED ] ", "[  FAILED  ] "}
)

// readLog reads the log of a program. Source: PrettyUnitTestResultPrinter of GoogleTest.
func readLog(log []byte) *logText {
	t := &logText{segments: map[string]string{}, noisy: map[string]bool{}}
	text, last := string(log), ""
	understood := true
	for {
		at := strings.Index(text, runLine)
		if at < 0 {
			t.check(text, last, "")
			break
		}
		name, _, ok := strings.Cut(text[at+len(runLine):], "\n")
		if !ok {
			break // it has ended here
		}
		t.check(text[:at], last, name)
		text = text[at:]
		part := text // up to the next case
		if next := strings.Index(text[len(runLine):], runLine); next >= 0 {
			part = text[:len(runLine)+next]
		}
		how, end := "", -1
		for _, e := range ends {
			if i := strings.Index(part, e+name); i >= 0 && (end < 0 || i < end) && followsName(part[i+len(e)+len(name):]) {
				how, end = e, i
			}
		}
		if end < 0 {
			understood = understood && len(part) == len(text) // the last one may have crashed
			last, text = name, text[len(runLine):]
			continue
		}
		line := strings.IndexByte(text[end:], '\n')
		if line < 0 {
			line = len(text) - end - 1
		}
		segment := text[:end+line+1]
		if _, twice := t.segments[name]; twice {
			understood = false
		}
		t.segments[name] = segment
		if how == ends[0] {
			t.passed = append(t.passed, name)
		}
		last, text = name, text[len(segment):]
	}
	if !understood {
		t.passed = nil
	}
	return t
}

// followsName reports whether text follows the name of a case in GoogleTest's last line of the case.
func followsName(text string) bool {
	return strings.HasPrefix(text, " (") || strings.HasPrefix(text, ", where ") || strings.HasPrefix(text, "\n")
}

// check looks for other output between the cases last and next.
func (t *logText) check(text, last, next string) {
	if between.MatchString(text) {
		return
	}
	for _, name := range []string{last, next} {
		suite, _, _ := strings.Cut(name, ".")
		t.noisy[suite] = true
	}
}

// crashed returns what the log says of a program that has ended before it could write test.xml: the cases that had passed. The
// last one is left out, because what it has printed may look as if it had ended; so is a case with instantiations, because
// the others aren't known.
func crashed(log []byte, of []fingerprint.Case) *Run {
	r := &Run{log: log, text: readLog(log)}
	passed := r.text.passed
	for i, full := range passed {
		suite, name, ok := strings.Cut(full, ".")
		if !ok || i+1 == len(passed) || strings.Contains(full, "/") {
			continue
		}
		x := Result{Suite: suite, Name: name, Log: r.text.segments[full], id: idOf(suite, name, of), ran: true}
		took := "0"
		if at := strings.LastIndex(x.Log, full+" ("); at >= 0 {
			ms, _, _ := strings.Cut(x.Log[at+len(full)+2:], " ")
			if t, err := time.ParseDuration(ms + "ms"); err == nil {
				took = fmt.Sprintf("%.3f", t.Seconds())
			}
		}
		x.Attributes = []Attribute{{"status", "run"}, {"result", "completed"}, {"time", took}}
		r.Results = append(r.Results, x)
	}
	return r
}

// passed returns the IDs of the cases that passed in an execution that failed. There are none if something else may have
// failed: a suite, or a case that is unattributed.
func (r *Run) passed() (ids []string) {
	bad := map[string]bool{"": true}
	for _, x := range r.Results {
		if x.failed && x.id == "" {
			return nil
		}
		bad[x.id] = bad[x.id] || x.failed || !x.ran || r.text.noisy[x.Suite]
	}
	for _, x := range r.Results {
		if r.text.passed != nil && !bad[x.id] && !slices.Contains(ids, x.id) {
			ids = append(ids, x.id)
		}
	}
	return ids
}
