package syslib

import (
	"syscall"
	"time"
)

// Machine returns the architecture as in uname -m.
func Machine() (string, error) {
	var uts syscall.Utsname
	if err := syscall.Uname(&uts); err != nil {
		return "", err
	}
	var s []byte
	for _, c := range uts.Machine {
		if c == 0 {
			break
		}
		s = append(s, byte(c))
	}
	return string(s), nil
}

// changed returns the ctime of a file, or now if that can't be told.
func changed(name string) time.Time {
	var st syscall.Stat_t
	if err := syscall.Stat(name, &st); err != nil {
		return time.Now()
	}
	return time.Unix(st.Ctim.Unix())
}
