package report

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of lists. Counts and sums include everything.
const (
	maxColumns    = 500 // newest runs that are shown
	maxRows       = 100 // tests in the matrix, those executed most often
	maxComponents = 30
	maxReasons    = 20
	maxFallbacks  = 50
	maxStores     = 20
	maxDamaged    = 50
)

// DataFormat is the version of Data as JSON.
const DataFormat = 1

// State is the outcome of a test in a run.
type State byte

const (
	// Absent: the test wasn't in the run, wasn't built, or the run was stopped.
	Absent State = iota
	// Replayed: the recorded result was replayed.
	Replayed
	// Cached: Bazel's own cache had the result.
	Cached
	// Missed: executed, because nothing was recorded.
	Missed
	// AuditedHit: executed as a sample, although a result was recorded.
	AuditedHit
	// Always: executed, for a reason to always do so.
	Always
	// NoFingerprint: executed by Bazel; the test has no fingerprint.
	NoFingerprint
	// Failed: executed, and failed or timed out.
	Failed
	numStates
)

// stateInfo describes a state: its letter in a row of the matrix, and its name.
var stateInfo = [numStates]struct {
	letter byte
	name   string
}{
	Absent:        {'.', "no result"},
	Replayed:      {'r', "replayed"},
	Cached:        {'c', "cached by Bazel"},
	Missed:        {'m', "executed: nothing recorded"},
	AuditedHit:    {'a', "executed: audit of a hit"},
	Always:        {'w', "executed: always run"},
	NoFingerprint: {'o', "executed: no fingerprint"},
	Failed:        {'f', "executed: failed"},
}

func (s State) executed() bool { return s >= Missed }

func stateOf(t *Test) State {
	switch {
	case t.Status == "FAILED" || t.Status == "TIMEOUT":
		return Failed
	case t.Status != "PASSED" && t.Status != "FLAKY":
		return Absent
	case t.Verdict == Hit && !t.Audited:
		return Replayed
	case t.Cached:
		return Cached
	case t.Verdict == Hit:
		return AuditedHit
	case t.Verdict == Miss:
		return Missed
	case t.Verdict == AlwaysRun:
		return Always
	}
	return NoFingerprint
}

// Data is the content of a report. Times are in seconds. Lists are in the order of
// the page, but runs are oldest first.
type Data struct {
	Format int    `json:"format"`
	Totals Totals `json:"totals"`
	// Runs are all runs, oldest first.
	Runs []RunData `json:"runs"`
	// Matrix is the execution matrix of TASTING: tests by runs.
	Matrix Matrix `json:"matrix"`
	// Components caused most executions; Omitted ones caused fewer.
	Components        []Cause `json:"components"`
	ComponentsOmitted int     `json:"components_omitted"`
	// Reasons for which tests were executed.
	Reasons        []ReasonData `json:"reasons"`
	ReasonsOmitted int          `json:"reasons_omitted"`
	// Fallbacks in use come first, then those of earlier runs.
	Fallbacks        []FallbackData `json:"fallbacks"`
	FallbacksOmitted int            `json:"fallbacks_omitted"`
	// Stores are sorted by look-ups, most first.
	Stores        []StoreData `json:"stores"`
	StoresOmitted int         `json:"stores_omitted"`
	// Damaged files are in no count.
	Damaged        []Damaged `json:"damaged"`
	DamagedOmitted int       `json:"damaged_omitted"`
}

// Counts are numbers of tests in a run, or sums of them over runs.
type Counts struct {
	// Tests that have a result: the sum of the states below.
	Tests         int `json:"tests"`
	Replayed      int `json:"replayed"`
	ByTrace       int `json:"by_trace,omitzero"` // of Replayed
	Cached        int `json:"cached"`
	Missed        int `json:"missed"`
	Audited       int `json:"audited"`
	Always        int `json:"always_run"`
	NoFingerprint int `json:"other"`
	Failed        int `json:"failed"`
	// NoResult counts tests that weren't built or executed to an end.
	NoResult int `json:"no_result"`
	// Flaky tests failed and then passed; they are in the states above too.
	Flaky int `json:"flaky"`
	// Hits and Misses are verdicts. Without audits, failures and Bazel's cache they
	// would be equal to Replayed and Missed.
	Hits   int `json:"verdict_hit"`
	Misses int `json:"verdict_miss"`
}

// Executed returns the number of tests that were executed.
func (c *Counts) Executed() int { return c.Missed + c.Audited + c.Always + c.NoFingerprint + c.Failed }

// fields returns all counts: first those of the states, in their order.
func (c *Counts) fields() [13]*int {
	return [13]*int{
		&c.NoResult, &c.Replayed, &c.Cached, &c.Missed, &c.Audited, &c.Always, &c.NoFingerprint, &c.Failed,
		&c.Tests, &c.ByTrace, &c.Flaky, &c.Hits, &c.Misses,
	}
}

func (c *Counts) add(d *Counts) {
	for i, n := range d.fields() {
		*c.fields()[i] += *n
	}
}

func (c *Counts) count(s State) {
	*c.fields()[s]++
	if s != Absent {
		c.Tests++
	}
}

// HitRatio returns hits over hits and misses; nil if there are neither.
func (c *Counts) HitRatio() *float64 { return ratio(float64(c.Hits), float64(c.Hits+c.Misses)) }

func ratio(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	r := math.Round(a/b*1e4) / 1e4
	return &r
}

// Times are sums of durations of single tests, not of the whole run: tests run in
// parallel, and tests that aren't executed need not be built either.
type Times struct {
	// ExecutedTime is the time of executed tests.
	ExecutedTime float64 `json:"executed_seconds"`
	// SavedTime is the time of the recorded executions of replayed tests.
	SavedTime float64 `json:"saved_seconds"`
	// CachedTime is the time of the executions that Bazel's own cache saved.
	CachedTime float64 `json:"cached_seconds"`
	// Unknown is the number of replayed tests without a recorded duration;
	// they count as 0 seconds saved.
	Unknown int `json:"replayed_without_duration"`
}

// All returns the time of executing everything.
func (t *Times) All() float64 { return t.ExecutedTime + t.SavedTime + t.CachedTime }

// Totals are over all runs.
type Totals struct {
	Runs int `json:"runs"`
	// Duplicates are runs that were read twice and count once.
	Duplicates int `json:"duplicate_runs"`
	// Targets is the number of different tests.
	Targets    int      `json:"targets"`
	Workspaces []string `json:"workspaces"`
	Counts
	Times
	// HitRatio is hits over hits and misses.
	HitRatio *float64 `json:"hit_ratio"`
	// Avoided is the share of results that were replayed.
	Avoided *float64 `json:"replayed_share"`
	// SavedShare is SavedTime over the time of executing everything.
	SavedShare *float64 `json:"saved_share"`
	// DecidingTime and AnalysisTime are the sums of Cost.DecidingSeconds and
	// Cost.AnalysisCPUSeconds.
	DecidingTime float64 `json:"deciding_seconds"`
	AnalysisTime float64 `json:"analysis_cpu_seconds"`
}

// RunData is a run without its tests.
type RunData struct {
	ID        string    `json:"id"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Workspace string    `json:"workspace,omitzero"`
	Commit    string    `json:"commit,omitzero"`
	Branch    string    `json:"branch,omitzero"`
	Host      string    `json:"host,omitzero"`
	Counts
	Times
	HitRatio *float64 `json:"hit_ratio"`
	Store    Store    `json:"store"`
	// Cost and Plain are those of Run.
	Cost  *Cost `json:"cost,omitempty"`
	Plain *Cost `json:"plain,omitempty"`
	// LookupMilliseconds is the mean time of a look-up.
	LookupMilliseconds *float64 `json:"lookup_milliseconds"`
}

// Matrix has a row per test and a column per run.
type Matrix struct {
	// FirstRun is the index in Data.Runs of the first column; older runs are
	// left out.
	FirstRun int `json:"first_run"`
	Columns  int `json:"columns"`
	// Rows are the tests that were executed most often in these columns.
	Rows []Row `json:"rows"`
	// OmittedTests were executed OmittedExecutions times in these columns.
	OmittedTests      int `json:"omitted_tests"`
	OmittedExecutions int `json:"omitted_executions"`
	// Executed is the share of all tests with a result that were executed, a
	// number per column; null where there are no results.
	Executed []*float64 `json:"executed_share"`
}

// Row is a test in the matrix.
type Row struct {
	Workspace string `json:"workspace,omitzero"`
	Label     string `json:"label"`
	Executed  int    `json:"executed"`
	Reused    int    `json:"reused"`
	Failed    int    `json:"failed"`
	// States of all columns, each as a count and a letter, "12r1m": "." no
	// result, "r" replayed, "c" cached by Bazel, "m" missed, "a" audited, "w"
	// always run, "o" other, "f" failed.
	States string `json:"states"`

	// Spans are the same for the page, which has the newest run first.
	Spans []span `json:"-"`
}

// span is a number of neighbouring columns with the same state.
type span struct {
	State State
	N     int
}

// Cause is a component whose changes made tests run.
type Cause struct {
	Component string `json:"component"`
	// Executions counts executed tests in which it had changed, Alone those in which
	// nothing else had. An execution counts for each component that changed.
	Executions int `json:"executions"`
	Alone      int `json:"alone"`
	// Tests and Runs are the numbers of different tests and runs.
	Tests int `json:"tests"`
	Runs  int `json:"runs"`
	// Seconds of these executions.
	Seconds float64 `json:"seconds"`
}

// ReasonData is a reason for which tests were executed.
type ReasonData struct {
	Verdict    Verdict `json:"verdict"`
	Reason     string  `json:"reason"`
	Executions int     `json:"executions"`
	Seconds    float64 `json:"seconds"`
}

// FallbackData is a fallback over all runs.
type FallbackData struct {
	Workspace string `json:"workspace,omitzero"`
	Source    string `json:"source"`
	Rung      string `json:"rung"`
	Reason    string `json:"reason,omitzero"`
	// Tests of the last run that had the fallback.
	Tests int `json:"tests"`
	// Runs that had it, and the start of the last of them.
	Runs     int       `json:"runs"`
	LastSeen time.Time `json:"last_seen"`
	// InUse: the newest run of the workspace had it.
	InUse bool `json:"in_use"`
}

// StoreData is the health of a store over all runs.
type StoreData struct {
	Location string `json:"location"`
	Runs     int    `json:"runs"`
	Lookups  int    `json:"lookups"`
	Hits     int    `json:"hits"`
	Misses   int    `json:"misses"`
	Damaged  int    `json:"damaged"`
	Errors   int    `json:"errors"`
	// Seconds are those of all look-ups; Mean and Worst the milliseconds of a
	// look-up, over all runs and in the slowest run.
	Seconds float64  `json:"lookup_seconds"`
	Mean    *float64 `json:"mean_milliseconds"`
	Worst   *float64 `json:"worst_run_milliseconds"`
}

// Builder makes Data of runs. The zero value is ready.
type Builder struct {
	runs       []*runRecord
	ids        map[string]bool
	duplicates int
	tests      map[testKey]int32
	components map[string]*causeRecord
	reasons    map[reasonKey]*reasonRecord
	fallbacks  map[fallbackKey]*fallbackRecord
	damaged    []Damaged
}

type testKey struct{ workspace, label string }

// Sums are of whole microseconds: floating point sums would depend on the order.
type runRecord struct {
	RunData
	executed, saved, cached micros
	states                  []State // by test
}

type causeRecord struct {
	executions, alone, runs int
	lastRun                 *runRecord
	tests                   []uint64 // a bit per test
	time                    micros
}

type reasonKey struct {
	verdict Verdict
	reason  string
}

type reasonRecord struct {
	executions int
	time       micros
}

type fallbackKey struct{ workspace, source, rung, reason string }

type fallbackRecord struct {
	tests, runs int
	last        *runRecord
}

// micros are microseconds. Nine million tests of maxSeconds each don't overflow.
type micros int64

func toMicros(seconds float64) micros { return micros(math.Round(seconds * 1e6)) }

// seconds are rounded to milliseconds.
func (m micros) seconds() float64 { return math.Round(float64(m)/1e3) / 1e3 }

// AddDamaged adds files that couldn't be read.
func (b *Builder) AddDamaged(d ...Damaged) { b.damaged = append(b.damaged, d...) }

// Add adds a run. It doesn't keep r.
func (b *Builder) Add(r *Run) {
	if b.ids == nil {
		b.ids, b.tests = map[string]bool{}, map[testKey]int32{}
	}
	if b.ids[r.ID] {
		b.duplicates++
		return
	}
	b.ids[r.ID] = true
	rec := &runRecord{RunData: RunData{
		ID: r.ID, Start: r.Start, End: r.End, Workspace: r.Workspace, Commit: r.Commit, Branch: r.Branch, Host: r.Host, Store: r.Store,
		Cost: r.Cost, Plain: r.Plain,
	}}
	rec.LookupMilliseconds = meanMilliseconds(r.Store.LookupSeconds, r.Store.Lookups)
	b.runs = append(b.runs, rec)
	rec.states = make([]State, len(b.tests), max(len(b.tests), len(r.Tests)))
	for i := range r.Tests {
		b.addTest(rec, &r.Tests[i])
	}
	rec.ExecutedTime, rec.SavedTime, rec.CachedTime = rec.executed.seconds(), rec.saved.seconds(), rec.cached.seconds()
	rec.HitRatio = rec.Counts.HitRatio()
	for _, f := range r.Fallbacks {
		x := entry(&b.fallbacks, fallbackKey{r.Workspace, f.Source, f.Rung, f.Reason})
		if x.last == rec {
			x.tests += f.Tests
			continue
		}
		x.runs++
		if x.last == nil || byTime(x.last, rec) < 0 {
			x.last, x.tests = rec, f.Tests
		}
	}
}

func (b *Builder) addTest(rec *runRecord, t *Test) {
	key := testKey{rec.Workspace, t.Label}
	i, ok := b.tests[key]
	if !ok {
		i = int32(len(b.tests))
		b.tests[key] = i
	}
	rec.states = append(rec.states, make([]State, max(0, int(i)+1-len(rec.states)))...)
	s := stateOf(t)
	rec.states[i] = s
	rec.count(s)
	if s == Replayed && t.Trace {
		rec.ByTrace++
	}
	switch t.Verdict {
	case Hit:
		rec.Hits++
	case Miss:
		rec.Misses++
	}
	if t.Status == "FLAKY" {
		rec.Flaky++
	}
	d := toMicros(t.Seconds)
	switch {
	case s == Replayed:
		rec.saved += d
		if d == 0 {
			rec.Unknown++
		}
	case s == Cached:
		rec.cached += d
	case s.executed():
		rec.executed += d
		x := entry(&b.reasons, reasonKey{t.Verdict, t.Reason})
		x.executions++
		x.time += d
	}
	if !s.executed() || t.Verdict != Miss {
		return
	}
	for j, name := range t.Changed {
		if slices.Contains(t.Changed[:j], name) {
			continue
		}
		c := entry(&b.components, name)
		c.executions++
		if len(t.Changed) == 1 {
			c.alone++
		}
		if c.lastRun != rec {
			c.lastRun = rec
			c.runs++
		}
		c.tests = append(c.tests, make([]uint64, max(0, int(i/64)+1-len(c.tests)))...)
		c.tests[i/64] |= 1 << (i % 64)
		c.time += d
	}
}

// entry returns the element of m with a key. If there is none, it adds one.
func entry[K comparable, V any](m *map[K]*V, key K) *V {
	if *m == nil {
		*m = map[K]*V{}
	}
	if (*m)[key] == nil {
		(*m)[key] = new(V)
	}
	return (*m)[key]
}

func byTime(a, b *runRecord) int {
	return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.ID, b.ID))
}

func meanMilliseconds(seconds float64, n int) *float64 {
	if n == 0 {
		return nil
	}
	ms := math.Round(seconds/float64(n)*1e6) / 1e3
	return &ms
}

// firstN returns the first n elements of list, and the number of the others.
func firstN[T any](list []T, n int) ([]T, int) {
	if len(list) <= n {
		// Not nil: [] in JSON.
		return append([]T{}, list...), 0
	}
	return list[:n:n], len(list) - n
}

// Data returns the report on all runs so far.
func (b *Builder) Data() *Data {
	d := &Data{Format: DataFormat, Runs: []RunData{}}
	runs := slices.SortedFunc(slices.Values(b.runs), byTime)
	newest := map[string]*runRecord{} // by workspace
	var executed, saved, cached, deciding, analysis micros
	for _, r := range runs {
		newest[r.Workspace] = r
		d.Runs = append(d.Runs, r.RunData)
		d.Totals.Counts.add(&r.Counts)
		executed, saved, cached = executed+r.executed, saved+r.saved, cached+r.cached
		d.Totals.Unknown += r.Unknown
		if c := r.Cost; c != nil {
			deciding, analysis = deciding+toMicros(c.DecidingSeconds), analysis+toMicros(c.AnalysisCPUSeconds)
		}
	}
	t := &d.Totals
	t.Runs, t.Duplicates, t.Targets = len(runs), b.duplicates, len(b.tests)
	t.ExecutedTime, t.SavedTime, t.CachedTime = executed.seconds(), saved.seconds(), cached.seconds()
	t.DecidingTime, t.AnalysisTime = deciding.seconds(), analysis.seconds()
	t.HitRatio = t.Counts.HitRatio()
	t.Avoided = ratio(float64(t.Replayed), float64(t.Tests))
	t.SavedShare = ratio(t.SavedTime, t.All())
	t.Workspaces = slices.AppendSeq([]string{}, maps.Keys(newest))
	slices.Sort(t.Workspaces)

	d.Matrix = b.matrix(runs)
	b.causes(d)
	b.fallbackList(d, newest)
	storeList(d, runs)
	damaged := slices.SortedFunc(slices.Values(b.damaged), func(x, y Damaged) int {
		return cmp.Or(strings.Compare(x.File, y.File), strings.Compare(x.Reason, y.Reason))
	})
	d.Damaged, d.DamagedOmitted = firstN(damaged, maxDamaged)
	return d
}

func (b *Builder) causes(d *Data) {
	var causes []Cause
	for name, c := range b.components {
		x := Cause{Component: name, Executions: c.executions, Alone: c.alone, Runs: c.runs, Seconds: c.time.seconds()}
		for _, w := range c.tests {
			x.Tests += bits.OnesCount64(w)
		}
		causes = append(causes, x)
	}
	slices.SortFunc(causes, func(x, y Cause) int {
		return cmp.Or(y.Executions-x.Executions, y.Alone-x.Alone, cmp.Compare(y.Seconds, x.Seconds), strings.Compare(x.Component, y.Component))
	})
	d.Components, d.ComponentsOmitted = firstN(causes, maxComponents)

	var reasons []ReasonData
	for key, r := range b.reasons {
		reasons = append(reasons, ReasonData{key.verdict, key.reason, r.executions, r.time.seconds()})
	}
	slices.SortFunc(reasons, func(x, y ReasonData) int {
		return cmp.Or(y.Executions-x.Executions, cmp.Compare(x.Verdict, y.Verdict), strings.Compare(x.Reason, y.Reason))
	})
	d.Reasons, d.ReasonsOmitted = firstN(reasons, maxReasons)
}

func (b *Builder) fallbackList(d *Data, newest map[string]*runRecord) {
	var list []FallbackData
	for key, f := range b.fallbacks {
		list = append(list, FallbackData{
			Workspace: key.workspace, Source: key.source, Rung: key.rung, Reason: key.reason,
			Tests: f.tests, Runs: f.runs, LastSeen: f.last.Start, InUse: f.last == newest[key.workspace],
		})
	}
	unused := map[bool]int{false: 1}
	slices.SortFunc(list, func(x, y FallbackData) int {
		return cmp.Or(unused[x.InUse]-unused[y.InUse], y.Tests-x.Tests, strings.Compare(x.Source, y.Source), strings.Compare(x.Rung, y.Rung),
			strings.Compare(x.Reason, y.Reason), strings.Compare(x.Workspace, y.Workspace))
	})
	d.Fallbacks, d.FallbacksOmitted = firstN(list, maxFallbacks)
}

// storeList needs the runs in order: it adds floating point numbers.
func storeList(d *Data, runs []*runRecord) {
	var stores map[string]*StoreData
	for _, r := range runs {
		if r.Store == (Store{}) {
			continue // the run was without a store
		}
		s := entry(&stores, r.Store.Location)
		s.Location = r.Store.Location
		s.Runs++
		s.Lookups += r.Store.Lookups
		s.Hits += r.Store.Hits
		s.Misses += r.Store.Misses
		s.Damaged += r.Store.Damaged
		s.Errors += r.Store.Errors
		s.Seconds += r.Store.LookupSeconds
		if ms := r.LookupMilliseconds; ms != nil && (s.Worst == nil || *ms > *s.Worst) {
			s.Worst = ms
		}
	}
	var list []StoreData
	for _, s := range stores {
		s.Mean = meanMilliseconds(s.Seconds, s.Lookups)
		s.Seconds = math.Round(s.Seconds*1e6) / 1e6
		list = append(list, *s)
	}
	slices.SortFunc(list, func(x, y StoreData) int {
		return cmp.Or(y.Lookups-x.Lookups, strings.Compare(x.Location, y.Location))
	})
	d.Stores, d.StoresOmitted = firstN(list, maxStores)
}

func (b *Builder) matrix(runs []*runRecord) Matrix {
	m := Matrix{Rows: []Row{}, Executed: []*float64{}}
	m.FirstRun = max(0, len(runs)-maxColumns)
	runs = runs[m.FirstRun:]
	m.Columns = len(runs)

	keys := make([]testKey, len(b.tests))
	for key, i := range b.tests {
		keys[i] = key
	}
	type sum struct{ test, executed, reused, failed int }
	sums := make([]sum, len(keys))
	for i := range sums {
		sums[i].test = i
	}
	for _, r := range runs {
		m.Executed = append(m.Executed, ratio(float64(r.Executed()), float64(r.Tests)))
		for i, s := range r.states {
			switch {
			case s.executed():
				sums[i].executed++
			case s != Absent:
				sums[i].reused++
			}
			if s == Failed {
				sums[i].failed++
			}
		}
	}
	sums = slices.DeleteFunc(sums, func(s sum) bool { return s.executed+s.reused == 0 })
	slices.SortFunc(sums, func(x, y sum) int {
		a, b := keys[x.test], keys[y.test]
		return cmp.Or(y.executed-x.executed, strings.Compare(a.label, b.label), strings.Compare(a.workspace, b.workspace))
	})
	for i, s := range sums {
		if i >= maxRows {
			m.OmittedTests++
			m.OmittedExecutions += s.executed
			continue
		}
		row := Row{Label: keys[s.test].label, Workspace: keys[s.test].workspace, Executed: s.executed, Reused: s.reused, Failed: s.failed}
		for _, r := range runs {
			state := Absent
			if s.test < len(r.states) {
				state = r.states[s.test]
			}
			if n := len(row.Spans); n > 0 && row.Spans[n-1].State == state {
				row.Spans[n-1].N++
			} else {
				row.Spans = append(row.Spans, span{state, 1})
			}
		}
		for _, x := range row.Spans {
			row.States += strconv.Itoa(x.N) + x.State.Letter()
		}
		slices.Reverse(row.Spans)
		m.Rows = append(m.Rows, row)
	}
	return m
}
