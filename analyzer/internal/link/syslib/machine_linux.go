package syslib

import "syscall"

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
