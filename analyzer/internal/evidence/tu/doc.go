// Package tu makes a translation unit of C source: it runs the preprocessor of the build's own
// compiler, turns its output into a normalised translation unit, and tells
// whether the unit is plain.
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
// # What is plain
//
// The syntax tree that clang dumps is evidence only for what it says
// completely. So every part of a unit has to be on a list: its flags (package
// compiler), the compiler's own, its
// attributes, its words and characters (Scan), and, in package component, the
// nodes of its tree. What is on no list makes the unit not plain, and so does -O:
// what a compiler inlines depends on all of a unit, and sometimes shows. Nothing
// is lost by that but time: its object file is the evidence then.
package tu
