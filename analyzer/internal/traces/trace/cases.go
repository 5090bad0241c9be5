package trace

import (
	"maps"
	"slices"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/symname"
)

// Cases say when functions were first entered in a program of GoogleTest, whose test cases are numbered as they run, from 1. A
// case counts as having entered what was entered until its end, because cases before it may have left something, and
// what was entered between and after cases.
type Cases struct {
	// First has the functions that only cases have entered, with the number of the first. They had a breakpoint in all files
	// that they are in.
	First map[string]int
	// Last has the number of the last case that a factory made, by symname.TestCase.
	Last map[string]int
}

// Stage is a part of the cases of a run.
type Stage struct {
	// Idle are the functions that count as not entered by these cases.
	Idle map[string]bool
	// Has reports whether a case is one of them.
	Has func(id string) bool
}

// maxStages bounds the parts of a run: each costs a composition.
const maxStages = 4

// Stages returns the parts of a run, given what it didn't enter at all. The last one has all cases that aren't in c, which may be nil.
func (c *Cases) Stages(idle map[string]bool) (list []Stage) {
	if c == nil {
		c = &Cases{}
	}
	number := 0
	for _, m := range []map[string]int{c.First, c.Last} {
		for _, n := range m {
			number = max(number, n)
		}
	}
	after := 0
	for i := range maxStages {
		until := number * (i + 1) / maxStages
		own := maps.Clone(idle)
		for name, n := range c.First {
			if n > until {
				own[name] = true
			}
		}
		from := after
		isLast := len(own) == len(idle)
		if !isLast && !slices.ContainsFunc(slices.Collect(maps.Values(c.Last)), func(n int) bool { return n > from && n <= until }) {
			continue
		}
		after = until
		list = append(list, Stage{own, func(id string) bool {
			n := c.Last[id]
			return n > from && n <= until || isLast && (n == 0 || n > until)
		}})
		if isLast {
			break
		}
	}
	return list
}

// Functions by which GoogleTest tells its listeners that a case begins and ends. Source: GoogleTest 1.8 to 1.18, gtest.cc.
const (
	caseBegins = "_ZN7testing8internal17TestEventRepeater11OnTestStartERKNS_8TestInfoE"
	caseEnds   = "_ZN7testing8internal17TestEventRepeater9OnTestEndERKNS_8TestInfoE"
)

// caseClock numbers the cases of a run.
type caseClock struct {
	number int // of the case that runs, or 0
	begun  int
	last   map[string]int
	broken bool // there were several threads or processes, or a case in another one
	// spent are breakpoints that a case has met. They are put back when it ends: the function may be entered again outside of cases.
	spent []breakpoint
}

type breakpoint struct {
	p    *process
	at   uint64
	code []byte // in its place
}

// entered notes an entry of a function. Alone says whether there is one thread only, and is asked for at markers.
func (c *caseClock) entered(in *text, off uint64, alone func() bool) {
	switch marker := in.markers[off]; marker {
	case "":
	case caseBegins:
		c.broken = c.broken || !alone() || c.number > 0
		c.begun++
		c.number = c.begun
	case caseEnds:
		c.broken = c.broken || !alone()
		c.number = 0
	default:
		if c.last == nil {
			c.last = map[string]int{}
		}
		c.last[symname.TestCase(marker)] = c.number
	}
	if c.number == 0 {
		delete(in.first, off)
	} else if in.counts[off] == 1 {
		in.first[off] = c.number
	}
}
