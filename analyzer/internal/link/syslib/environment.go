package syslib

import "strings"

// ChangesLoading reports whether a variable of the environment may change the files that the dynamic loader
// takes, their bindings or the order of their initialisers. Unknown variables of the loader may.
func ChangesLoading(name, value string) bool {
	switch name {
	case "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "GCONV_PATH": // the last by iconv_open and the like
		return value != ""
	case "LD_BIND_NOW", "LD_RUN_PATH":
		return false // they change the time of binding, or are the static linker's
	case "GLIBC_TUNABLES":
		return strings.Contains(value, "glibc.rtld.") // the order of initialisers
	}
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_")
}

// ForSanitizer reports whether a variable holds options of a sanitizer, which may name functions, files and
// libraries for suppressions.
func ForSanitizer(name string) bool { return strings.HasSuffix(name, "SAN_OPTIONS") }

// Suppresses reports whether the value of a variable has suppressions of a sanitizer.
func Suppresses(name, value string) bool {
	return ForSanitizer(name) && strings.Contains(value, "suppressions")
}
