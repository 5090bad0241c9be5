// Package ctext handles C and C++ source as text: it runs the preprocessor of
// the build's own compiler, and turns its output into a normalised
// translation unit.
//
// # Why normalise
//
// What a compiler sees after preprocessing is free of comments and macros,
// but still changes with every line that moves. A Unit holds the tokens only,
// in a canonical spacing, so that its bytes stay the same under a comment, a
// reformat, a changed macro that nobody expands, or an edit of a part of a
// header that conditional compilation leaves out. Under Bazel, preprocessing
// and analysis are two actions, and a unit that did not change is an early
// cutoff: nothing behind it re-runs.
//
// # What normalising must not lose
//
//   - Pragmas are state: they stay, each on a line of its own, unless they only
//     control diagnostics. PragmaState tells which are in force at an offset.
//   - __builtin_LINE and its family read the position of their call: such
//     tokens are listed with the position that the compiler will see (Sites).
//     In C++ the common case, assert in a statement, gets a line marker. Any
//     other may stand in a default argument, for the position of any call:
//     there, what the compiler makes of the source itself comes along (Emitted).
//   - Attributes are often incomplete in clang's dump, and those that only gcc
//     knows aren't in it at all: Attributes lists their token ranges.
//   - The flags that decide about generated code, the compiler's identity and
//     the language go into the unit's header.
package ctext
