package evolve

import (
	_ "embed"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/key/fingerprint"
)

//go:embed gtest.h.txt
var gtestHeader string

//go:embed gtest_main.cc.txt
var gtestMain string

// ByCases returns programs with their tests in C++ as the cases of one test program: each is still a Test, which executes
// that case alone. One of the cases also has a role, by the program's name.
func ByCases(programs iter.Seq[*Program]) iter.Seq[*Program] {
	return func(yield func(*Program) bool) {
		for p := range programs {
			if !yield(p.byCases(role(xxhash.Sum64String(p.Name) % uint64(roles)))) {
				return
			}
		}
	}
}

// WithCases returns programs, and those that are to show faults of cases also by cases, in all roles.
func WithCases(programs iter.Seq[*Program]) iter.Seq[*Program] {
	return func(yield func(*Program) bool) {
		for p := range programs {
			if !yield(p) {
				return
			}
			for as := range roles {
				if slices.Contains(modes(caseFaults), p.Mode) && !yield(p.byCases(as)) {
					return
				}
			}
		}
	}
}

func (p *Program) byCases(as role) *Program {
	x := &Program{Name: fmt.Sprintf("%s by cases %d", p.Name, as), Mode: p.Mode}
	for _, r := range p.Revisions {
		x.Revisions = append(x.Revisions, r.byCases(as))
	}
	return x
}

// byCases doesn't change a revision with fewer than two tests in C++.
func (r *Revision) byCases(as role) *Revision {
	isCase := func(t Test) bool { return len(t.Sources) == 1 && IsCXX(t.Sources[0]) && len(t.Args) == 0 }
	var cases []Test
	for _, t := range r.Tests {
		if isCase(t) {
			cases = append(cases, t)
		}
	}
	if len(cases) < 2 {
		return r
	}
	x := *r
	x.Files = maps.Clone(r.Files)
	x.Files["gtest.h"], x.Files["gtest_main.cc"] = gtestHeader, gtestMain
	size := 0 // of the revision
	for _, text := range r.Files {
		size += len(text)
	}
	program := Test{Sources: []string{"gtest_main.cc"}}
	need := map[string]bool{}
	for i, t := range cases {
		file := "case_" + t.Name + ".cc"
		x.Files[file] = fmt.Sprintf("#define main main_of_%s\n#include \"%s\"\n#undef main\n#include \"gtest.h\"\n%s", t.Name, t.Sources[0], caseText(t.Name, i, size, as))
		program.Sources = append(program.Sources, file)
		for _, d := range t.Deps {
			need[d] = true
		}
		for _, d := range t.Data {
			if !slices.Contains(program.Data, d) {
				program.Data = append(program.Data, d)
			}
		}
	}
	for _, l := range slices.Backward(r.Libraries) { // dependents first
		if need[l.Name] {
			program.Deps = append(program.Deps, l.Name)
		}
	}
	x.Tests = slices.DeleteFunc(slices.Clone(r.Tests), isCase)
	for i, t := range cases {
		one := program
		one.Name, one.Args = t.Name, []string{caseSuite(i, as) + "." + t.Name}
		x.Tests = append(x.Tests, one)
	}
	return &x
}

// role is what the first case also is: something that all cases share.
type role int

const (
	alone role = iota
	environment
	listener
	suite
	generator
	variable
	roles
)

// caseSuite returns the suite of a case.
func caseSuite(i int, as role) string {
	switch as {
	case suite:
		return "Fixture" + fmt.Sprint(i)
	case generator:
		return "Param" + fmt.Sprint(i)
	}
	return "S"
}

// caseText is the code of a case of a revision of a size.
func caseText(name string, i, size int, as role) string {
	call := fmt.Sprintf("main_of_%s();", name)
	fixture, first := caseSuite(i, as), i == 0
	var b strings.Builder
	switch {
	case as == environment && first:
		fmt.Fprintf(&b, "namespace { struct E : testing::Environment { void SetUp() override { %s } }; int added = testing::internal::AddGlobalTestEnvironment(new E); }\n", call)
	case as == listener && first:
		fmt.Fprintf(&b, "namespace { struct L : testing::TestEventListener { void OnTestStart(const char *) override { %s } }; int added = testing::internal::Append(new L); }\n", call)
	case as == suite:
		fmt.Fprintf(&b, "namespace { struct %s : testing::Test { static void SetUpTestSuite() { %s } }; }\nTEST_F(%s, %s) { printf(\"body\\n\"); }\n", fixture, call, fixture, name)
		return b.String()
	case as == generator:
		fmt.Fprintf(&b, "namespace { struct %s : testing::TestWithParam<int> {}; int Generator() { %s return 7; } }\nTEST_P(%s, %s, Generator()) { printf(\"%%d\\n\", GetParam()); }\n", fixture, call, fixture, name)
		return b.String()
	case as == variable && first:
		fmt.Fprintf(&b, "int shared_by_cases = %d;\n", size)
	case as == variable:
		b.WriteString("extern int shared_by_cases;\n")
		call += ` printf("%d\n", shared_by_cases++);`
	}
	fmt.Fprintf(&b, "namespace {\nTEST(S, %s) { %s }\n}\n", name, call)
	return b.String()
}

// OursByCases executes a case if its key by an evidence isn't known. Tests that aren't cases are decided as a whole.
func OursByCases(name string, p Passes, e *Evidence) Tool {
	return &selector{name, func() selecting {
		return &byKey{func(tests []*Built) ([]string, error) { return caseKeys(tests, e) }, nil, map[string]bool{}}
	}, p}
}

func caseKeys(tests []*Built, e *Evidence) ([]string, error) {
	keys, err := Keys(tests, e)
	if err != nil {
		return nil, err
	}
	var composed []*fingerprint.Test
	var which []int
	for i, x := range tests {
		if keys[i] == "" || len(x.Test.Args) != 1 || !slices.Contains(x.Test.Sources, "gtest_main.cc") {
			continue
		}
		t, err := x.composed(e)
		if err != nil {
			return nil, err
		}
		t.Cases = true
		composed, which = append(composed, t), append(which, i)
	}
	all, _ := fingerprint.ComposeAll(composed, nil)
	for k, c := range all {
		i := which[k]
		if c.Err != nil {
			return nil, c.Err
		}
		suite, name, _ := strings.Cut(tests[i].Test.Args[0], ".")
		list := c.Config.Cases
		at := slices.IndexFunc(list, func(x fingerprint.Case) bool { return x.ID == suite+"_"+name+"_Test" })
		if at < 0 {
			continue
		}
		if e.otherCase {
			at = 1 + at%(len(list)-1)
		}
		if keys[i], err = tests[i].key(list[at].Of(c.Config), e); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// caseFaults are those of keys of cases.
var caseFaults = []Fault{
	{Name: "cases without environments", Text: "an environment belongs to no case", Modes: []string{"F1+vtable"}, new: drop("_ZN12_GLOBAL__N_11E5SetUpEv"), Cases: true},
	{Name: "cases without listeners", Text: "a listener belongs to no case", Modes: []string{"F1+vtable"}, new: drop("_ZN12_GLOBAL__N_11L11OnTestStartEPKc"), Cases: true},
	{Name: "cases without fixtures", Text: "SetUpTestSuite belongs to no case", Modes: []string{"F1+vtable"}, new: emptied(func(c *manifest.Component) bool { return has(c.Name, "SetUpTestSuite") }), Cases: true},
	{Name: "cases without generators", Text: "the generator of a parameter belongs to no case", Modes: []string{"F1+vtable"}, new: drop("_ZN12_GLOBAL__N_19GeneratorEv"), Cases: true},
	{Name: "cases without variables", Text: "a variable that cases share belongs to none", Modes: []string{"F1+vtable"}, new: blind(func(c *manifest.Component) bool { return c.Name == "shared_by_cases" }), Cases: true},
	{Name: "cases without classes", Text: "the class of a case has no virtual table", Modes: []string{"F1+vtable"}, new: emptied(func(c *manifest.Component) bool { return strings.HasPrefix(c.Name, "_ZTV") && has(c.Name, "_Test") }), Cases: true},
	{Name: "factories of other cases", Text: "a factory is attributed to the next case", Modes: []string{"F1+vtable"}, new: func() *Evidence { return &Evidence{otherCase: true} }, Cases: true},
}
