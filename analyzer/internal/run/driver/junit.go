package driver

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"os"
	"slices"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
)

// The elements of JUnit's XML that are needed to merge files. The content of a suite stays as it is.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		XMLName xml.Name   `xml:"testsuite"`
		Attrs   []xml.Attr `xml:",any,attr"`
		Inner   string     `xml:",innerxml"`
	}
)

// writeJUnit writes the results of all tests to one file. It copies the suites of each
// test.xml, with the label in front of their names. A test without a test.xml gets a suite of its own.
func (s *summary) writeJUnit() error {
	var all junitSuites
	for _, r := range s.results {
		suites, err := r.junit()
		if err != nil {
			s.say("warning: %s: its test.xml can't be read: %v", r.label, err)
		}
		all.Suites = append(all.Suites, suites...)
	}
	for _, l := range s.broken {
		all.Suites = append(all.Suites, plainSuite(l, "FAILED TO BUILD", 0))
	}
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := wholefile.Write(s.JUnit, append([]byte(xml.Header), append(b, '\n')...), 0o644); err != nil {
		return fmt.Errorf("--junit_xml: %w", err)
	}
	return nil
}

// junit returns the suites of a test. There is at least one even if there is an error.
func (r result) junit() (suites []junitSuite, err error) {
	add := func(b []byte, readErr error) {
		var l []junitSuite
		if readErr == nil {
			l, readErr = r.readSuites(b)
		}
		suites, err = append(suites, l...), errors.Join(err, readErr)
	}
	if r.isReplayed() {
		for _, b := range r.xml {
			add(b, nil)
		}
	}
	if o := r.outcome; o != nil {
		last := map[[2]int]string{} // the last attempt of each shard
		for _, a := range o.attempts {
			if p, ok, _ := a.file(xmlName); ok {
				last[[2]int{a.run, a.shard}] = p
			}
		}
		for _, a := range o.attempts {
			k := [2]int{a.run, a.shard}
			if p := last[k]; p != "" {
				delete(last, k)
				add(os.ReadFile(p))
			}
		}
	}
	if len(suites) == 0 {
		status, took := r.status()
		suites = append(suites, plainSuite(r.label, status, took.Seconds()))
	}
	return suites, err
}

// readSuites reads a test.xml.
func (r result) readSuites(b []byte) ([]junitSuite, error) {
	all := junitSuites{}
	if err := xml.Unmarshal(b, &all); err != nil {
		single := junitSuite{}
		if xml.Unmarshal(b, &single) != nil {
			return nil, err
		}
		all.Suites = []junitSuite{single}
	}
	for i, x := range all.Suites {
		name := ""
		attrs := slices.DeleteFunc(x.Attrs, func(a xml.Attr) bool {
			if a.Name.Local == "name" {
				name = a.Value
			}
			return a.Name.Local == "name" || a.Name.Local == "classname"
		})
		// Bazel's own name is the label's path.
		full := r.label
		if rest, ok := strings.CutPrefix(name, strings.TrimLeft(strings.ReplaceAll(r.label, ":", "/"), "@/")); ok {
			full += rest
		} else if name != "" {
			full += "." + name
		}
		all.Suites[i].Attrs = append([]xml.Attr{attr("name", full), attr("tasting", string(r.verdict))}, attrs...)
	}
	return all.Suites, nil
}

func attr(name, value string) xml.Attr { return xml.Attr{Name: xml.Name{Local: name}, Value: value} }

// plainSuite returns a suite for a test that has written no XML.
func plainSuite(label, status string, seconds float64) junitSuite {
	var b strings.Builder
	fmt.Fprintf(&b, `<testcase name="%s" time="%.3f">`, html.EscapeString(label), seconds)
	failures, skipped := "0", "0"
	switch status {
	case "PASSED", "FLAKY":
	case "SKIPPED":
		skipped = "1"
		b.WriteString(`<skipped message="not compatible with the platform"></skipped>`)
	default:
		failures = "1"
		fmt.Fprintf(&b, `<failure message="%s"></failure>`, html.EscapeString(status))
	}
	b.WriteString("</testcase>")
	return junitSuite{Attrs: []xml.Attr{attr("name", label), attr("tests", "1"), attr("failures", failures), attr("skipped", skipped)}, Inner: b.String()}
}
