// Package evidence is the folder of the packages that make manifests of units.
//
// The input is one object file, archive or shared library, or one translation unit of plain C. The output
// is a manifest: components (functions, variables, virtual tables), a local hash of each, and the symbols and
// components to which each refers. A part that isn't understood is one component with everything near it: a section,
// or the unit.
//
// Package manifest is the format. Package objfile reads objects. Packages compiler, token, tu, clangast and component
// read plain C before it is compiled, by clang's AST. No other room knows how a manifest was made.
package evidence
