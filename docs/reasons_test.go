package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const messagesPage = "docs/reference/messages.md"

var (
	// deciding matches the sources of the packages that decide about tests.
	deciding = regexp.MustCompile(`^analyzer/internal/(run/runner|run/driver|key/refgraph|link/linkmodel)/[a-z_]*\.go$`)
	// printed matches what these say, and return as reasons.
	printed = regexp.MustCompile(`(?:say\(|markUnusual\(|return |obstacle = |doubt[:=] *|why = |reasons, |Sprintf\(|errors\.New\(|Errorf\()"([^"]* [^"]*)"`)
	verb    = regexp.MustCompile(`%(\[\d\])?[.\d*-]*\w|\\n|: .*`)
)

// reasons checks that each message of these packages is on the page of messages, or in a list of those that needn't be there. The
// longest part before a colon stands for a message.
func reasons(s *site) (bad []string) {
	listed := s.pages[messagesPage] + read("testdata/unlisted.txt")
	for _, file := range slices.Sorted(maps.Keys(s.sources)) {
		if !deciding.MatchString(file) || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range printed.FindAllStringSubmatch(s.sources[file], -1) {
			longest := slices.MaxFunc(verb.Split(m[1], -1), func(a, b string) int { return len(a) - len(b) })
			if longest = strings.Trim(longest, " ()=:,;."); !strings.Contains(listed, longest) {
				bad = append(bad, fmt.Sprintf("%s doesn't have %q", messagesPage, longest))
			}
		}
	}
	return bad
}
