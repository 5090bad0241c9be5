package objfile

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const (
	arMagic   = "!<arch>\n"
	thinMagic = "!<thin>\n"
	arHeader  = 60
)

// arMember is a file in an archive.
type arMember struct {
	name string
	data []byte
}

// readArchive returns the members of an ar archive in order, without its symbol tables. Long names have GNU's form.
func readArchive(b []byte) ([]arMember, error) {
	var members []arMember
	var longNames []byte
	b = b[len(arMagic):]
	for n := 1; len(b) > 0; n++ {
		if len(b) < arHeader || string(b[58:60]) != "`\n" {
			return nil, fmt.Errorf("archive member %d has no header: the archive is damaged, build it again", n)
		}
		name := strings.TrimRight(string(b[:16]), " ")
		size, err := strconv.ParseUint(strings.TrimRight(string(b[48:58]), " "), 10, 63)
		if err != nil || size > uint64(len(b)-arHeader) {
			return nil, fmt.Errorf("archive member %d (%q) is cut off: the archive is damaged, build it again", n, name)
		}
		data := b[arHeader : arHeader+size]
		b = b[arHeader+size:]
		if size%2 == 1 && len(b) > 0 { // members start at even offsets
			b = b[1:]
		}
		switch {
		case name == "//":
			longNames = data
			continue
		case name == "/", name == "/SYM64/":
			continue
		case strings.HasPrefix(name, "#1/"), strings.HasPrefix(name, "__.SYMDEF"):
			return nil, fmt.Errorf("archive member %d (%q) has BSD's form: build the archive with GNU ar, or llvm-ar --format=gnu", n, name)
		case strings.HasPrefix(name, "/"): // GNU: offset in the table of long names
			k, err := strconv.ParseUint(name[1:], 10, 31)
			if err != nil || k >= uint64(len(longNames)) {
				return nil, fmt.Errorf("archive member %d has a bad name %q: the archive is damaged, build it again", n, name)
			}
			long, _, _ := bytes.Cut(longNames[k:], []byte("\n"))
			name = strings.TrimSuffix(string(long), "/")
		default:
			name = strings.TrimSuffix(name, "/")
		}
		members = append(members, arMember{name, data})
	}
	return members, nil
}
