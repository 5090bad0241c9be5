package syslib

import "strings"

// ChangesLoading reports whether a variable of a program's environment may have the dynamic loader take other
// files, or bind or initialise them in another way, than the files say. So may unknown variables of the
// loader.
func ChangesLoading(name, value string) bool {
	switch name {
	case "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "GCONV_PATH": // the last by iconv_open and the like
		return value != ""
	case "LD_BIND_NOW", "LD_RUN_PATH":
		return false // when it binds; the static linker's
	case "GLIBC_TUNABLES":
		return strings.Contains(value, "glibc.rtld.") // the order of initialisers
	}
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_")
}

// ForSanitizer reports whether a variable holds options of a sanitizer, which may name functions, files and
// libraries for suppressions.
func ForSanitizer(name string) bool { return strings.HasSuffix(name, "SAN_OPTIONS") }

// Suppresses reports whether a variable with a value has suppressions.
func Suppresses(name, value string) bool {
	return ForSanitizer(name) && strings.Contains(value, "suppressions")
}
