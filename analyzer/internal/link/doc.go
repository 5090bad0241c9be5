// Package link is the folder of the packages that model linkers and loaders.
//
// The input is the command line of each link of a test, and the manifests of the files on it. The output is
// the linked program: which files there are, in the loader's order; which units each has, members of archives among
// them; and which definition each symbol is bound to.
//
// Package linkflags is the table of linker flags: each is harmless, counts, changes the state of the line, or makes
// the link unusual. Package linkmodel binds symbols. Package syslib asks the linker what it takes
// from the system, and knows what the loader takes.
package link
