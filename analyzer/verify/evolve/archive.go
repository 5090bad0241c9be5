package evolve

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// archive returns what `ar rcsD` makes of objects, without starting it.
func archive(names []string, objects [][]byte) ([]byte, error) {
	var long, members bytes.Buffer
	var symbols []string
	var of []int // the member that has each
	starts := make([]int, len(names))
	for i, o := range objects {
		defined, err := globals(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", names[i], err)
		}
		for _, s := range defined {
			symbols, of = append(symbols, s), append(of, i)
		}
		name := names[i] + "/"
		if len(name) > 16 {
			name = fmt.Sprintf("/%d", long.Len())
			fmt.Fprintf(&long, "%s/\n", names[i])
		}
		starts[i] = members.Len()
		member(&members, name, "644", o)
	}
	var table bytes.Buffer
	if len(symbols) > 0 {
		size := 4 + 4*len(symbols)
		for _, s := range symbols {
			size += len(s) + 1
		}
		size += size % 2
		first := len(magic) + 60 + size
		if n := long.Len(); n > 0 {
			first += 60 + n + n%2
		}
		index := binary.BigEndian.AppendUint32(nil, uint32(len(symbols)))
		for _, i := range of {
			index = binary.BigEndian.AppendUint32(index, uint32(first+starts[i]))
		}
		for _, s := range symbols {
			index = append(append(index, s...), 0)
		}
		member(&table, "/", "0", append(index, make([]byte, size-len(index))...))
	}
	all := bytes.NewBufferString(magic)
	all.Write(table.Bytes())
	if n := long.Len(); n > 0 {
		fmt.Fprintf(all, "%-48s%-10d`\n%s%s", "//", n+n%2, long.Bytes(), "\n"[:n%2])
	}
	all.Write(members.Bytes())
	return all.Bytes(), nil
}

const magic = "!<arch>\n"

func member(w *bytes.Buffer, name, mode string, content []byte) {
	fmt.Fprintf(w, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s%s", name, 0, 0, 0, mode, len(content), content, "\n"[:len(content)%2])
}

// globals are the symbols that an object defines for others.
func globals(object []byte) (names []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	symbols, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	for _, s := range symbols {
		if elf.ST_BIND(s.Info) != elf.STB_LOCAL && s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names, nil
}
