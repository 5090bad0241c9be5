// Package lazyregexp has regular expressions that are compiled when they are first used.
//
// A program with seventy of them spends a quarter of its start on these, and it is started for each
// compilation and each test. Go's own tools do the same (internal/lazyregexp).
package lazyregexp

import (
	"regexp"
	"sync"
	"testing"
)

// A Regexp is a *regexp.Regexp, of which it has the methods that somebody calls.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the regular expression that regexp.MustCompile returns, later. In tests it is compiled at
// once, so that a wrong one is seen.
func New(expr string) *Regexp {
	r := &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
	if testing.Testing() {
		r.compiled()
	}
	return r
}

// Match is that of regexp.Regexp, as are all others.
func (r *Regexp) Match(b []byte) bool { return r.compiled().Match(b) }

// MatchString is that of regexp.Regexp.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }
