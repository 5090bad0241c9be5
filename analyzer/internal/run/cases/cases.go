// Package cases knows what programs of GoogleTest say of their test cases: their names, the files test.xml and test.log, and
// filters. docs/explanation/cases.md has the idea.
//
// A case is identified by the classes that GoogleTest's macros make of it (refgraph.Case.ID). All instantiations of a case,
// by types or by parameters, are one case here. What a program reports under a name that belongs to no class, or to
// several, is unattributed: it is executed whenever the program is.
package cases

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// Result is the result of a test case, or of one instantiation of it.
type Result struct {
	Suite, Name string
	// Attributes and Content are those of its element in test.xml.
	Attributes []Attribute `json:",omitempty"`
	Content    string      `json:",omitempty"`
	// Log is its part of the log.
	Log string `json:",omitempty"`

	id     string // of its case; "" if it is unattributed
	failed bool
}

// Attribute is an attribute of an XML element.
type Attribute struct{ Name, Value string }

// FullName is the name in filters.
func (r *Result) FullName() string { return r.Suite + "." + r.Name }

// Run is what an execution of a program has reported.
type Run struct {
	Results []Result
	log     []byte
}

// plainName matches names that are no patterns in a filter.
var plainName = lazyregexp.New(`^[A-Za-z0-9_/]+$`)

type document struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []struct {
		Name  string `xml:"name,attr"`
		Cases []struct {
			Name       string     `xml:"name,attr"`
			Suite      string     `xml:"classname,attr"`
			Attributes []xml.Attr `xml:",any,attr"`
			Content    string     `xml:",innerxml"`
			Failures   []struct{} `xml:"failure"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// read reads test.xml and the log of an execution of a program whose cases have IDs for which isCase holds. It is an error if a
// program of GoogleTest hasn't written the file.
func read(text, log []byte, isCase func(id string) bool) (*Run, error) {
	var d document
	if err := xml.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("test.xml: %w", err)
	}
	r, parts, times := &Run{log: log}, segments(log), map[string]int{}
	for _, s := range d.Suites {
		for _, c := range s.Cases {
			x := Result{Suite: c.Suite, Name: c.Name, Content: c.Content, failed: len(c.Failures) > 0}
			for _, a := range c.Attributes {
				x.Attributes = append(x.Attributes, Attribute{a.Name.Local, a.Value})
			}
			if x.attribute("status") == "" || c.Suite != s.Name {
				return nil, errors.New("test.xml isn't GoogleTest's")
			}
			x.Log = parts[x.FullName()]
			times[x.FullName()]++
			r.Results = append(r.Results, x)
		}
	}
	for i := range r.Results {
		if x := &r.Results[i]; times[x.FullName()] == 1 {
			x.id = idOf(x.Suite, x.Name, isCase)
		}
	}
	return r, nil
}

// candidates returns the IDs that GoogleTest's macros may have for a case, given its name in reports.
func candidates(suite, name string) (ids []string) {
	if !plainName.MatchString(suite) || !plainName.MatchString(name) {
		return nil
	}
	name, _, _ = strings.Cut(name, "/")              // the parameter follows
	for part := range strings.SplitSeq(suite, "/") { // an instantiation, the suite, a type
		ids = append(ids, part+"_"+name+"_Test", "gtest_suite_"+part+"_::"+name)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// idOf returns the ID of the case with a name, or "" if there isn't exactly one.
func idOf(suite, name string, isCase func(id string) bool) string {
	ids := slices.DeleteFunc(candidates(suite, name), func(id string) bool { return !isCase(id) })
	if len(ids) != 1 {
		return ""
	}
	return ids[0]
}

// Record is the recorded result of a case: of all its instantiations.
type Record struct {
	Format  int
	Results []Result
}

const format = 1

// maxRecord bounds the size of a record in bytes.
const maxRecord = 64 << 20

// of returns the results of a case, or for the rest the unattributed ones.
func (r *Run) of(id string) *Record {
	x := &Record{Format: format, Results: []Result{}}
	for _, result := range r.Results {
		if result.id == id {
			x.Results = append(x.Results, result)
		}
	}
	return x
}

// failedIDs returns the IDs of the cases that have failed.
func (r *Run) failedIDs() (ids []string) {
	for _, x := range r.Results {
		if x.failed && x.id != "" && !slices.Contains(ids, x.id) {
			ids = append(ids, x.id)
		}
	}
	return ids
}

// missing returns what of records the run hasn't reported.
func (r *Run) missing(records []*Record) (l []*Record) {
	reported := map[string]bool{}
	for _, x := range r.Results {
		reported[x.FullName()] = true
	}
	for _, x := range records {
		some := slices.DeleteFunc(slices.Clone(x.Results), func(y Result) bool { return reported[y.FullName()] })
		if len(some) > 0 {
			l = append(l, &Record{Format: format, Results: some})
		}
	}
	return l
}

// Failed returns the names of the cases that have failed.
func (r *Run) Failed() (names []string) {
	for _, x := range r.Results {
		if x.failed {
			names = append(names, x.FullName())
		}
	}
	return names
}

// ran returns how many cases were executed.
func (r *Run) ran() (n int) {
	for _, x := range r.Results {
		if x.attribute("status") == "run" {
			n++
		}
	}
	return n
}

// decode reads a record from the store's result of the case.
func decode(r *store.Result) (*Record, error) {
	x := new(Record)
	if err := r.ReadDocument(x, maxRecord); err != nil {
		return nil, err
	}
	if x.Format != format {
		return nil, fmt.Errorf("%w: a case in format %d", store.ErrCorrupt, x.Format)
	}
	return x, nil
}

// maxFilter bounds the length of a filter, which is a variable in the environment.
const maxFilter = 64 << 10

// Filter returns the filter that selects all cases but those with these full names, as many of them as a variable can hold.
func Filter(names []string) string {
	size := 0
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		size += len(name) + 1
		return size > maxFilter
	})
	if len(names) == 0 {
		return ""
	}
	return "-" + strings.Join(names, ":")
}

// merge returns test.xml and the log of a test: the results of an execution, which may be nil, and replayed ones of records.
func merge(executed *Run, records []*Record) (text, log []byte) {
	type entry struct {
		Result
		replayed bool
	}
	var names []string // of suites, in order
	suites := map[string][]entry{}
	add := func(r Result, replayed bool) {
		if suites[r.Suite] == nil {
			names = append(names, r.Suite)
		}
		suites[r.Suite] = append(suites[r.Suite], entry{r, replayed})
	}
	if executed != nil {
		log = append(log, executed.log...)
		for _, r := range executed.Results {
			add(r, false)
		}
	}
	for _, x := range records {
		for _, r := range x.Results {
			add(r, true)
			log = fmt.Appendf(log, "tasting: replayed %s\n%s", r.FullName(), r.Log)
			if n := len(log); log[n-1] != '\n' {
				log = append(log, '\n')
			}
		}
	}
	var all sums
	var body bytes.Buffer
	for _, name := range names {
		var own sums
		for _, r := range suites[name] {
			own.add(&r.Result)
			all.add(&r.Result)
		}
		fmt.Fprintf(&body, "  <testsuite name=\"%s\" %s>\n", escaped(name), own)
		for _, r := range suites[name] {
			r.write(&body, r.replayed)
		}
		body.WriteString("  </testsuite>\n")
	}
	return fmt.Appendf(nil, "%s<testsuites %s name=\"AllTests\">\n%s</testsuites>\n", xml.Header, all, body.Bytes()), log
}

// sums are the attributes of an element of several cases.
type sums struct {
	tests, failures, disabled int
	seconds                   float64
}

func (s *sums) add(r *Result) {
	s.tests++
	s.seconds += r.Seconds()
	if r.failed {
		s.failures++
	}
	if r.attribute("status") == "notrun" {
		s.disabled++
	}
}

func (s sums) String() string {
	return fmt.Sprintf(`tests="%d" failures="%d" disabled="%d" errors="0" time="%.3f"`, s.tests, s.failures, s.disabled, s.seconds)
}

func (r *Result) attribute(name string) string {
	for _, a := range r.Attributes {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

// Seconds is how long the case took.
func (r *Result) Seconds() float64 {
	t, _ := time.ParseDuration(r.attribute("time") + "s")
	return t.Seconds()
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes all
	return b.String()
}

// write writes the element of a case. A replayed one gets a property.
func (r *Result) write(b *bytes.Buffer, replayed bool) {
	fmt.Fprintf(b, "    <testcase name=\"%s\"", escaped(r.Name))
	for _, a := range r.Attributes {
		fmt.Fprintf(b, " %s=\"%s\"", a.Name, escaped(a.Value))
	}
	fmt.Fprintf(b, " classname=\"%s\"", escaped(r.Suite))
	content := r.Content
	if replayed {
		const property, begin = `<property name="replayed" value="tasting"/>`, "<properties>"
		if at := strings.Index(content, begin); at >= 0 {
			content = content[:at+len(begin)] + property + content[at+len(begin):]
		} else {
			content = begin + property + "</properties>" + content
		}
	}
	if content == "" {
		b.WriteString(" />\n")
		return
	}
	fmt.Fprintf(b, ">%s</testcase>\n", content)
}
