// Package tu makes a translation unit of C source: it runs the preprocessor of the build's own compiler,
// normalises its output, and decides whether the unit is plain.
//
// # Why normalise
//
// The output of a preprocessor has no comments and macros, but it still changes with every line that moves. A
// Unit has only the tokens, in a canonical spacing. Its bytes stay the same under a comment, a reformat, a
// change of a macro that nobody expands, or an edit of a part of a header that conditional compilation leaves
// out. Under Bazel, preprocessing and analysis are two actions, so an unchanged unit is an early cutoff: no
// action behind it runs again.
//
// # What is plain
//
// Clang's dump of the syntax tree is incomplete. So every part of a unit has to be on a list of parts that the dump has in full: its flags (package compiler), those of the compiler proper, its attributes, its words and
// characters (Scan), and the nodes of its tree (package component). A unit with anything else isn't plain, and
// neither is one that is compiled with -O, because inlining depends on all of a unit. Its object file is the
// evidence then, which takes longer.
package tu
