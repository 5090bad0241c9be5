// Package lazyregexp has regular expressions that are compiled when they are first used.
//
// This program has seventy of them, would spend a quarter of its start on compiling them, and is started for
// each compilation and each test. Go's own tools do the same (internal/lazyregexp).
package lazyregexp

import (
	"regexp"
	"sync"
	"testing"
)

// A Regexp is a *regexp.Regexp that is compiled when it is first used. It has only the methods that are called.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the regular expression that regexp.MustCompile would return. In tests it is compiled at
// once, so that a wrong one is noticed.
func New(expr string) *Regexp {
	r := &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
	if testing.Testing() {
		r.compiled()
	}
	return r
}

// Match is the method of regexp.Regexp, as are all others.
func (r *Regexp) Match(b []byte) bool { return r.compiled().Match(b) }

// MatchString is the method of regexp.Regexp.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindStringSubmatch is the method of regexp.Regexp.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// ReplaceAllString is the method of regexp.Regexp.
func (r *Regexp) ReplaceAllString(s, repl string) string {
	return r.compiled().ReplaceAllString(s, repl)
}

// Find is the method of regexp.Regexp.
func (r *Regexp) Find(b []byte) []byte { return r.compiled().Find(b) }

// FindAllSubmatch is the method of regexp.Regexp.
func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte {
	return r.compiled().FindAllSubmatch(b, n)
}

// FindSubmatch is the method of regexp.Regexp.
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

// ReplaceAll is the method of regexp.Regexp.
func (r *Regexp) ReplaceAll(src, repl []byte) []byte { return r.compiled().ReplaceAll(src, repl) }

// FindAllStringSubmatch is the method of regexp.Regexp.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

// ReplaceAllStringFunc is the method of regexp.Regexp.
func (r *Regexp) ReplaceAllStringFunc(s string, repl func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, repl)
}
