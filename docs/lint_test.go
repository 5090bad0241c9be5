// Package docs checks the documentation: its links, command lines, flags, messages, language and size.
package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	maxWords    = 28_000 // of all pages below docs
	maxReadme   = 110    // lines
	maxSentence = 35     // words
	maxMedian   = 15     // words of the sentences of a page
)

// site is what the checks read. Paths are relative to the root of the repository.
type site struct {
	pages   map[string]string // Markdown
	sources map[string]string // Go, Starlark, shell
	code    string            // the program, with its string literals, and the sources in other languages
	partial bool              // other files aren't there, as in a test of Bazel
}

func readSite(t *testing.T) *site {
	s := &site{pages: map[string]string{}, sources: map[string]string{}, partial: os.Getenv("TEST_SRCDIR") != ""}
	program, err := os.Executable() // this test has the whole command line in it
	if err != nil {
		t.Fatal(err)
	}
	code := []string{read(program)}
	err = filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		name, ext := strings.TrimPrefix(file, "../"), path.Ext(file)
		switch {
		case err != nil || d.IsDir() && d.Name() != ".git" && d.Name() != "testdata":
			return err
		case d.IsDir():
			return fs.SkipDir
		case ext == ".md":
			s.pages[name] = read(file)
		case ext == ".go":
			s.sources[name] = read(file)
		case ext == ".bzl" || ext == ".bazel" || ext == ".sh" || name == "bazelw":
			s.sources[name] = read(file)
			code = append(code, s.sources[name])
		}
		return nil
	})
	s.code = strings.Join(code, "\n")
	if err != nil || len(s.pages) < 20 || len(s.sources) < 5 {
		t.Fatalf("only %d pages and %d sources: %v", len(s.pages), len(s.sources), err)
	}
	return s
}

func read(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// isGenerated reports whether a page is made of the help texts.
func isGenerated(page string) bool { return strings.HasPrefix(page, "docs/reference/cli") }

// below returns the pages in a directory, sorted.
func (s *site) below(dir string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.pages)), func(page string) bool { return !strings.HasPrefix(page, dir) })
}

// find returns what fault says of the matches of re in a view of each page in a directory, unless it is "".
func (s *site) find(dir string, view func(text string) string, re *regexp.Regexp, fault func(page string, match []string) string) (bad []string) {
	for _, page := range s.below(dir) {
		for _, m := range re.FindAllStringSubmatch(view(s.pages[page]), -1) {
			if why := fault(page, m); why != "" {
				bad = append(bad, page+": "+why)
			}
		}
	}
	return bad
}

// A check returns what is wrong with a site.
var checks = map[string]func(s *site) []string{
	"links": links, "commands": commands, "flags": flags, "messages": messages, "sentences": sentences, "history": history, "reachable": reachable,
	"size": size, "pages in code": pagesInCode, "reasons": reasons,
}

func TestDocs(t *testing.T) {
	s := readSite(t)
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			for _, problem := range check(s) {
				t.Error(problem)
			}
		})
	}
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	indented = regexp.MustCompile(`(?m)(?:^\s*\n|\A)((?: {4}.*\n|\s*\n)+)`)
	span     = regexp.MustCompile("`+([^`]+)`+")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	table    = regexp.MustCompile(`(?m)^(#|\||<!--).*$`)
	item     = regexp.MustCompile(`(?m)^\s*([-*]|\d+\.) `)
)

// prose returns a page without blocks of code, blocks these alone, spans the code within lines, and words prose without it.
func prose(text string) string {
	return indented.ReplaceAllString(fence.ReplaceAllString(text, ""), "\n\n")
}

func blocks(text string) string {
	text = strings.ReplaceAll(text, "\\\n", " ")
	return strings.Join(append(fence.FindAllString(text, -1), indented.FindAllString(fence.ReplaceAllString(text, ""), -1)...), "\n")
}

func spans(text string) string { return strings.Join(span.FindAllString(prose(text), -1), "\n") }

func words(text string) string { return span.ReplaceAllString(prose(text), "X") }

// hasAnchor reports whether GitHub gives a heading of a page this anchor.
func hasAnchor(page, anchor string) bool {
	return slices.ContainsFunc(heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1), func(h []string) bool {
		text := regexp.MustCompile(`\]\([^)]*\)|[^\pL\d\-_ ]`).ReplaceAllString(strings.ToLower(h[1]), "")
		return strings.ReplaceAll(strings.TrimSpace(text), " ", "-") == anchor
	})
}

func links(s *site) []string {
	return s.find("", words, link, func(page string, m []string) string {
		file, anchor, _ := strings.Cut(m[1], "#")
		target := path.Join(path.Dir(page), file)
		if file == "" {
			target = page
		}
		text, isPage := s.pages[target]
		_, err := os.Stat(filepath.Join("..", target))
		exists := isPage || err == nil || s.partial && (path.Ext(target) != ".md" || strings.HasPrefix(target, "examples/"))
		if strings.Contains(m[1], "://") || exists && (anchor == "" || hasAnchor(text, anchor)) {
			return ""
		}
		return m[1] + " leads nowhere"
	})
}

// foreign are the flags that pages may name and that aren't tasting's.
var foreign = strings.Fields(read("../analyzer/internal/run/driver/testdata/options-7.7.1.txt") + read("testdata/flags.txt"))

func isForeign(flag string) bool {
	return slices.Contains(foreign, flag) || slices.Contains(foreign, strings.TrimPrefix(flag, "no"))
}

var tree = cli.Root()

// hasFlag reports whether a command, or any below it, has a flag.
func hasFlag(c *cobra.Command, name string, below bool) (found bool) {
	c.InheritedFlags() // has cobra collect them
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		found = found || strings.ReplaceAll(f.Name, "-", "_") == strings.ReplaceAll(name, "-", "_")
	})
	return found || below && slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, name, true) })
}

var (
	call = regexp.MustCompile(`(?m)(?:(?:^|[;&|(])\s*(?:\$ |[A-Z_]+=\S* )*tasting|//rules:tasting --)( [^|;&)#\n]*)`)
	long = regexp.MustCompile(`(?:^|[\s"` + "`" + `'(\[])--([a-z][\w-]*)`)
)

func commands(s *site) []string {
	return s.find("", blocks, call, func(page string, m []string) string {
		own, _, _ := strings.Cut(m[1], " -- ")
		c, rest, _ := tree.Find(strings.Fields(own))
		if c.HasSubCommands() && len(rest) > 0 && rest[0][0] >= 'a' && rest[0][0] <= 'z' {
			return c.CommandPath() + " has no command " + rest[0]
		}
		for _, f := range long.FindAllStringSubmatch(own, -1) {
			if !isGenerated(page) && !hasFlag(c, f[1], false) && !(c.Name() == "test" && isForeign(f[1])) {
				return c.CommandPath() + " has no flag --" + f[1]
			}
		}
		return ""
	})
}

func flags(s *site) []string {
	return s.find("", spans, long, func(page string, m []string) string {
		if page == "CHANGELOG.md" || isForeign(m[1]) || hasFlag(tree, m[1], true) {
			return ""
		}
		return "no program has the flag --" + m[1]
	})
}

var variable = regexp.MustCompile(`\.\.\.|\b[A-Z][A-Z0-9_]*\b`)

// messages checks what stands in backquotes in the first columns of messages.md, in headings of troubleshoot.md, and as a line
// of a log ("tasting: ...") anywhere. "..." and words in capitals stand for anything.
func messages(s *site) []string {
	return s.find("", func(text string) string { return text }, regexp.MustCompile(`(?m)^.*$`), func(page string, m []string) string {
		line := m[0]
		isQuoted := page == "docs/how-to/troubleshoot.md" && strings.HasPrefix(line, "#")
		if page == messagesPage && strings.HasPrefix(line, "|") {
			line, isQuoted = strings.Split(line, " | ")[0], true
		}
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			text, isLog := strings.CutPrefix(m[1], "tasting: ")
			if (isQuoted || isLog) && strings.Contains(text, " ") && slices.ContainsFunc(variable.Split(text, -1), s.lacks) {
				return fmt.Sprintf("the code doesn't print %q", m[1])
			}
		}
		return ""
	})
}

// lacks reports whether a part of a message is neither a part of a literal nor of two.
func (s *site) lacks(part string) bool {
	part = strings.Trim(part, " ()=:,;.")
	lacking := !strings.Contains(s.code, part)
	for i := range part {
		lacking = lacking && (part[i] != ' ' || !strings.Contains(s.code, part[:i]) || !strings.Contains(s.code, part[i:]))
	}
	return lacking
}

// sentences checks the length of sentences, without tables and code. A span of code is a word.
func sentences(s *site) (bad []string) {
	exceptions := read("testdata/sentences.txt")
	end, word := regexp.MustCompile(`[.!?]["')]*\s+|\n\s*\n`), regexp.MustCompile(`[\pL\d]\S*`)
	for _, page := range slices.Concat(s.below("docs/"), []string{"README.md", "SECURITY.md"}) {
		lengths := []int{0}
		text := table.ReplaceAllString(link.ReplaceAllString(words(s.pages[page]), "]"), "")
		for _, sentence := range end.Split(item.ReplaceAllString(text, "\n\n"), -1) {
			if n := len(word.FindAllString(sentence, -1)); n > 0 {
				lengths = append(lengths, n)
				if sentence = strings.Join(strings.Fields(sentence), " "); n > maxSentence && !strings.Contains(exceptions, sentence) {
					bad = append(bad, fmt.Sprintf("%s: %d words: %s", page, n, sentence))
				}
			}
		}
		slices.Sort(lengths)
		if median := lengths[len(lengths)/2]; median > maxMedian && !strings.Contains(exceptions, "median of "+page) {
			bad = append(bad, fmt.Sprintf("%s: the median of its sentences is %d words", page, median))
		}
	}
	return bad
}

func history(s *site) []string {
	past := regexp.MustCompile(`\b20\d\d-\d\d\b|\bno\s+longer\b|\ban\s+earlier\s+run\b|[^ens]\s+used\s+to\b`) // but "is used to"
	return s.find("docs/", words, past, func(page string, m []string) string {
		if strings.HasPrefix(page, "docs/results/") {
			return ""
		}
		return "speaks of the past: " + m[0]
	})
}

func reachable(s *site) (bad []string) {
	seen := map[string]bool{}
	var visit func(page string)
	visit = func(page string) {
		if text, ok := s.pages[page]; ok && !seen[page] {
			seen[page] = true
			for _, m := range link.FindAllStringSubmatch(text, -1) {
				file, _, _ := strings.Cut(m[1], "#")
				visit(path.Join(path.Dir(page), file))
			}
		}
	}
	visit("docs/README.md")
	for _, page := range s.below("docs/") {
		if !seen[page] {
			bad = append(bad, page+" can't be reached from docs/README.md")
		}
	}
	return bad
}

func size(s *site) (bad []string) {
	total := 0
	for _, page := range s.below("docs/") {
		total += len(strings.Fields(s.pages[page]))
	}
	if lines := strings.Count(s.pages["README.md"], "\n"); total > maxWords || lines > maxReadme {
		bad = append(bad, fmt.Sprintf("docs has %d words, README.md %d lines: want at most %d and %d", total, lines, maxWords, maxReadme))
	}
	return bad
}

// pagesInCode checks that each page exists to which comments, help texts and messages refer.
func pagesInCode(s *site) (bad []string) {
	page := regexp.MustCompile(`^[a-z/-]+\.md\b`)
	texts := maps.Clone(s.sources)
	texts["the program"] = s.code
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		for _, rest := range strings.Split(texts[file], "docs/")[1:] {
			name := page.FindString(rest[:min(len(rest), 80)])
			if _, exists := s.pages["docs/"+name]; name != "" && !exists {
				bad = append(bad, fmt.Sprintf("%s: there is no page docs/%s", file, name))
			}
		}
	}
	return bad
}
