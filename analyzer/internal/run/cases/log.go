package cases

import "strings"

const runLine = "[ RUN      ] "

var endLines = []string{"[       OK ] ", "[  SKIPPED ] ", "[  FAILED  ] "}

// segments returns the parts of a log by the full names of cases, with the lines that begin and end each. What it doesn't
// understand is in no part. Source: PrettyUnitTestResultPrinter of GoogleTest.
func segments(log []byte) map[string]string {
	parts := map[string]string{}
	_, text, more := strings.Cut(string(log), runLine)
	for more {
		var part string
		part, text, more = strings.Cut(text, runLine)
		name, _, _ := strings.Cut(part, "\n")
		for _, end := range endLines {
			i := strings.Index(part, end+name)
			if i < 0 {
				continue
			}
			line := strings.IndexByte(part[i:], '\n')
			if line < 0 {
				line = len(part) - i - 1
			}
			parts[name] = runLine + part[:i+line+1]
			break
		}
	}
	return parts
}
