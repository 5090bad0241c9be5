// Package base is the folder of small libraries that know nothing of tests: how values are framed
// before they are hashed, files that exist as a whole or not at all, whether a file was touched, sets of names.
//
// A package belongs here if another program could use it as it is. Its input and output are bytes, files
// and words.
package base
