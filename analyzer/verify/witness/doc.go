// Package witness measures whether evidence is sound, on any code, by looking at
// what the compiler really emits.
//
// # The question
//
// If a test has the same identity in two versions of a translation unit, the code
// that it can reach must be the same. The witness shares no line with the
// analyzer: the unit is compiled once more, with its own flags and with
// -ffunction-sections -fdata-sections, so that every function and variable stands
// for itself. Whatever differs there must be visible in the identity of each test
// that reaches it.
//
// # What is compared
//
// An Object is that relocatable file cut into units, one for every symbol that
// defines something: its bytes, its references (relocations, resolved to names or
// to the content of what has no name: string literals, constant pools, jump
// tables), unwind information, binding, visibility, alignment, section. Names of
// local symbols may change consistently; positions may change except where the
// order in a section is observable (.init_array, linker sets).
//
// The object says itself who reaches a unit. Entries are all symbols that other
// objects can refer to, because any of them may be where a test begins, and what
// runs without being called. A difference is explained if the identity of every
// entry that reaches it, in either version, differs by the evidence. So nothing
// is believed of the evidence but which symbols it defines.
//
// # Evidence
//
// Three sorts are compared, all of the same command line:
//
//   - the object as a build without -ffunction-sections makes it, in which
//     functions share sections and references among them have no relocations;
//   - the object with a section for each;
//   - the source, of plain C that clang compiles.
//
// An object is evidence for its own code, optimised or not. A source is evidence
// without optimisation. The minimal pairs compare it with optimised code as well:
// there the code of a static function depends on its callers: constant
// arguments are propagated into it, unused parameters and results are removed, a
// static variable that nobody writes becomes a constant. That changes code
// without changing what it does, seen from any single entry. So for a source a
// difference may also be explained by any component that is connected to the
// entry through local ones. On the other hand clang's unoptimised LLVM IR (see
// ReadIR) is compared as well: it shows attributes that leave no trace in the code
// of the function itself but allow its callers' code to change.
package witness
