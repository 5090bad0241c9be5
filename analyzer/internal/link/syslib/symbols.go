package syslib

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
)

// definitions returns the global symbols that an object, an archive or a shared library defines, sorted. It returns
// none for a linker script or an unknown format.
func definitions(file string) []string {
	l := slices.DeleteFunc(symbols(file), func(s string) bool { return s == "" || strings.Contains(s, "\n") })
	slices.Sort(l)
	return slices.Compact(l)
}

func symbols(file string) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	magic := make([]byte, 8)
	if _, err := io.ReadFull(f, magic); err != nil {
		return nil
	}
	if string(magic) == "!<arch>\n" {
		return archiveIndex(f)
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return nil
	}
	table, err := e.Symbols()
	if e.Type == elf.ET_DYN {
		table, err = e.DynamicSymbols()
	}
	if err != nil {
		return nil
	}
	var l []string
	for _, s := range table {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL {
			l = append(l, s.Name)
		}
	}
	return l
}

// cxxArchive matches archives of the C++ library.
var cxxArchive = regexp.MustCompile(`^lib.*c\+\+.*\.a$`)

// wants returns the mangled names that members of an archive of the C++ library leave undefined, sorted.
func wants(file string) (l names) {
	if !cxxArchive.MatchString(filepath.Base(file)) {
		return nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	const magic, header = 8, 60
	for at := magic; at+header <= len(b); {
		size, err := strconv.Atoi(strings.TrimSpace(string(b[at+48 : at+58])))
		if at += header; err != nil || size < 0 || at+size > len(b) {
			break
		}
		if e, err := elf.NewFile(bytes.NewReader(b[at : at+size])); err == nil {
			table, _ := e.Symbols()
			for _, s := range table {
				if s.Section == elf.SHN_UNDEF && strings.HasPrefix(s.Name, "_Z") {
					l = append(l, s.Name)
				}
			}
		}
		at += size + size%2
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// archiveIndex returns the names in the index of an archive ("/" and "/SYM64/" of ar(5)), behind its magic string.
func archiveIndex(r io.Reader) []string {
	header := make([]byte, 60)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil
	}
	name := strings.TrimSpace(string(header[:16]))
	size, err := strconv.ParseUint(strings.TrimSpace(string(header[48:58])), 10, 31)
	if err != nil || name != "/" && name != "/SYM64/" {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil {
		return nil
	}
	width := 4
	if name == "/SYM64/" {
		width = 8
	}
	if len(b) < width {
		return nil
	}
	n := uint64(binary.BigEndian.Uint32(b[width-4:]))
	if n > uint64(len(b)-width)/uint64(width) {
		return nil
	}
	names := bytes.Split(b[width+int(n)*width:], []byte{0})
	var l []string
	for _, s := range names[:min(n, uint64(len(names)))] {
		l = append(l, string(s))
	}
	return l
}

// names is a list that is packed in JSON.
type names []string

func (l names) MarshalJSON() ([]byte, error) {
	b, err := packed.Pack([]byte(strings.Join(l, "\n")))
	if err != nil {
		return nil, err
	}
	return json.Marshal(b)
}

func (l *names) UnmarshalJSON(b []byte) error {
	var small []byte
	if err := json.Unmarshal(b, &small); err != nil {
		return err
	}
	text, err := packed.Unpack(small, 1<<28)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return nil
	}
	if *l = strings.Split(string(text), "\n"); !slices.IsSorted(*l) {
		return errors.New("names out of order")
	}
	return nil
}
