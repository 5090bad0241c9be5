package syslib

import (
	"strings"
	"testing"
)

func TestChangesLoading(t *testing.T) {
	for kv, want := range map[string]bool{
		"LD_PRELOAD=/a.so": true, "LD_AUDIT=/a.so": true, "LD_LIBRARY_PATH=/a": true, "LD_PRELOAD=": false,
		"LD_DYNAMIC_WEAK=": true, "LD_ORIGIN_PATH=/": true, "LD_UNKNOWN=": true, "DYLD_INSERT_LIBRARIES=x": true,
		"LD_BIND_NOW=1": false, "PATH=/bin": false, "LDFLAGS=-lx": false,
		"GLIBC_TUNABLES=glibc.malloc.check=1": false, "GLIBC_TUNABLES=glibc.malloc.check=1:glibc.rtld.dynamic_sort=1": true,
	} {
		name, value, _ := strings.Cut(kv, "=")
		if got := ChangesLoading(name, value); got != want {
			t.Errorf("%s: %v", kv, got)
		}
	}
}
