package trace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/packed"
)

// maxIdle bounds the size in bytes of names that are decoded.
const maxIdle = 1 << 30

// idleHead begins names that are encoded.
const idleHead = "tasting idle 2\n"

// EncodeIdle encodes names of functions, such as those of Result.Idle, and Result.Cases, which may be nil: compressed by zstd, a
// line with the format, and one for each name, sorted. Behind a name of Cases.First is a tab and its number, and so it is with
// those of Cases.Last, which have a tab before them. Names with line ends or tabs, which compilers don't make, are left out: it is
// always right to take a function for one that was entered.
func EncodeIdle(idle map[string]bool, cases *Cases) ([]byte, error) {
	var b strings.Builder
	b.WriteString(idleHead)
	write := func(prefix, name, suffix string) {
		if !strings.ContainsAny(name, "\n\t") {
			b.WriteString(prefix + name + suffix + "\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		write("", name, "")
	}
	if cases != nil {
		for _, name := range slices.Sorted(maps.Keys(cases.First)) {
			write("", name, "\t"+strconv.Itoa(cases.First[name]))
		}
		for _, name := range slices.Sorted(maps.Keys(cases.Last)) {
			write("\t", name, "\t"+strconv.Itoa(cases.Last[name]))
		}
	}
	return packed.Pack([]byte(b.String()))
}

// UnknownError is why it isn't known what a program entered.
type UnknownError string

func (why UnknownError) Error() string { return string(why) }

const unknownHead = "tasting unknown 1\n"

// Encode encodes the reason, in the place of names.
func (why UnknownError) Encode() ([]byte, error) {
	return packed.Pack([]byte(unknownHead + string(why)))
}

// DecodeIdle decodes what EncodeIdle has encoded; what UnknownError.Encode has, is returned as that error. It is
// another one if b is anything else, or cut off.
func DecodeIdle(b []byte) (map[string]bool, *Cases, error) {
	text, err := packed.Unpack(b, maxIdle)
	if err != nil {
		return nil, nil, fmt.Errorf("no names of functions: %w", err)
	}
	if why, ok := strings.CutPrefix(string(text), unknownHead); ok {
		return nil, nil, UnknownError(why)
	}
	names, ok := strings.CutPrefix(string(text), idleHead)
	if !ok || names != "" && !strings.HasSuffix(names, "\n") {
		return nil, nil, errors.New("no names of functions, or of another version")
	}
	idle, cases := map[string]bool{}, &Cases{map[string]int{}, map[string]int{}}
	for line := range strings.Lines(names) {
		name, isLast := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
		name, number, isNumbered := strings.Cut(name, "\t")
		n, err := strconv.Atoi(number)
		switch {
		case !isNumbered && !isLast:
			idle[name] = true
		case err != nil || n < 0:
			return nil, nil, fmt.Errorf("%q is the number of no test case", number)
		case isLast:
			cases.Last[name] = n
		default:
			cases.First[name] = n
		}
	}
	if len(cases.Last) == 0 {
		cases = nil
	}
	return idle, cases, nil
}
