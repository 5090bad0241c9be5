package symname

import (
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/lazyregexp"
)

// createTest matches CreateTest of GoogleTest's factories. Its group is the mangled class of the case. Source: GoogleTest 1.8
// to 1.18, internal/gtest-internal.h and gtest-param-util.h.
var createTest = lazyregexp.New(`^_ZN7testing8internal(?:15TestFactoryImpl|24ParameterizedTestFactory)I(.+)E10CreateTestEv$`)

// TestCase returns the test case of GoogleTest that a factory makes, given the mangled name of its CreateTest, or "". It is the name
// of the classes that GoogleTest's macros make of the case, without namespaces: Suite_Name_Test, or gtest_suite_Suite_::Name for
// TYPED_TEST_P.
func TestCase(function string) string {
	m := createTest.FindStringSubmatch(function)
	if m == nil {
		return ""
	}
	// The names of a class and of the namespaces around it, in front of template arguments.
	class, names := strings.TrimPrefix(m[1], "N"), []string(nil)
	if rest, ok := strings.CutPrefix(class, "S"); ok { // a substitution for a namespace that was named before
		_, class, ok = strings.Cut(rest, "_")
		if !ok {
			return ""
		}
	}
	for len(class) > 0 && class[0] >= '1' && class[0] <= '9' {
		n := 0
		for len(class) > 0 && class[0] >= '0' && class[0] <= '9' && n < len(function) {
			n, class = 10*n+int(class[0]-'0'), class[1:]
		}
		if n > len(class) {
			return ""
		}
		names, class = append(names, class[:n]), class[n:]
	}
	if len(names) == 0 {
		return ""
	}
	id := names[len(names)-1]
	if len(names) > 1 && strings.HasPrefix(names[len(names)-2], "gtest_suite_") {
		id = names[len(names)-2] + "::" + id
	}
	return id
}
