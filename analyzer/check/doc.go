// Package check measures whether local hashes and links are sound, on any
// code, by looking at what the compiler really emits.
//
// # The question
//
// If two versions of a translation unit have equal hashes, their code must be
// equal. An object file is the best witness of that which doesn't share a line
// with the analyzer: it is compiled by the build's own compiler, from the
// original text, with all its flags. So for a pair of versions: whatever
// differs in the object files must be explained by a hash that differs.
//
// # What is compared
//
// An Object is a relocatable file (compiled with -ffunction-sections
// -fdata-sections) cut into units, one for every symbol that defines
// something: its bytes, its references (relocations, resolved to names or to
// the content of what has no name: string literals, constant pools, jump
// tables), unwind information, binding, visibility, alignment, section. Names
// of local symbols may change consistently; positions may change except where
// the order in a section is observable (.init_array, linker sets).
//
// A difference in a unit is explained if the identity of every root that
// reaches its component differs (see Explain). Roots are all definitions with
// external or weak linkage, because any of them may be where a test enters, and
// what the manifest itself calls a root.
//
// # Levels
//
// At -O0, and at the requested -O without LLVM's passes, a function's code is
// a matter of that function and of the declarations, types and constants that
// it uses. With all passes on, code also depends on bodies of callees
// (which are in the closure) and, inside one translation unit, on the callers
// of a static function: constant arguments are propagated into it, unused
// parameters and results are removed, a static variable that nobody writes
// becomes a constant. These change code without changing what it does, seen
// from any single root. So at that level a difference may also be explained by
// any component that is connected to the unit through local symbols.
//
// The fourth witness is unoptimised LLVM IR (see IR): it shows attributes that
// leave no trace in the code of the function itself but allow its callers'
// code to change.
package check
