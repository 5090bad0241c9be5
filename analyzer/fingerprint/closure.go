package fingerprint

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// # The closure file
//
// A closure file is a Report in a twentieth of the space of its JSON. Numbers
// are unsigned LEB128.
//
//	"tasting closure 2\n"
//	sections, each:
//	    tag      one byte
//	    length   number
//	    payload
//	    xxHash64 of tag and payload, 8 bytes, big endian
//
// The sections, in this order:
//
//	S  zstd: strings, each with its length in front, in the order of first use
//	C  zstd: the report without hashes, and with numbers for strings: zero is
//	   the next string of S that was not used before, n is string n-1
//	H  bytes of the hashes of C, which has their lengths
//	G  zstd: global hashes: a number for each component as in C, lengths and
//	   bytes of those that are new. Left out of recorded closures.
//	X  what a run knows: key and parts. Absent if nothing was run.
//
// A link is the zigzag difference between the component that was to be expected,
// the first that nothing before has referred to, and the one that it leads to:
// closures are in the order of a breadth-first walk, so most are small.
//
// Equal reports give equal bytes. A version that needs other sections or other
// content of one changes the first line.
const closureMagic = "tasting closure 2\n"

// ClosureSuffix is appended to the path of a test's executable to find its
// closure file.
const ClosureSuffix = ".closure"

// Limits of a closure file, in bytes. They bound what a reader allocates for
// whatever file it is given, about 2 GB, and it allocates only while what it has
// read is valid. Closures of a million components are within them.
const (
	maxStructure = 64 << 20  // unpacked section C
	maxSection   = 256 << 20 // other unpacked sections
	maxIDs       = 512 << 20 // all IDs together
	zstdWindow   = 8 << 20
)

func sectionLimit(tag byte) int {
	if tag == 'C' {
		return maxStructure
	}
	return maxSection
}

// ErrClosure is wrapped by every error of DecodeClosure.
var ErrClosure = errors.New("not a valid closure file")

// IsClosure tells whether b is the beginning of a closure file, of any version.
func IsClosure(b []byte) bool { return bytes.HasPrefix(b, []byte("tasting closure ")) }

// WriteClosure writes r as a closure file; equal reports give equal bytes. It is
// an error if IDs aren't unique, a link or root leads nowhere, or a hash isn't
// lower case hex.
func WriteClosure(w io.Writer, r *Report) error {
	b, err := EncodeClosure(r)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// EncodeClosure returns the closure file of r. See WriteClosure.
func EncodeClosure(r *Report) ([]byte, error) {
	e := &encoder{strings: map[string]uint64{}}
	e.report(r)
	globals := e.globals(r)
	if e.err != nil {
		return nil, e.err
	}
	// One goroutine, so that equal input gives equal output.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow))
	if err != nil {
		return nil, err
	}
	out := []byte(closureMagic)
	for _, s := range []struct {
		tag     byte
		payload []byte
		pack    bool
	}{{'S', e.table, true}, {'C', e.main, true}, {'H', e.hashes, false}, {'G', globals, true}, {'X', runSection(r.Key, r.Run), false}} {
		if len(s.payload) == 0 && (s.tag == 'G' || s.tag == 'X') {
			continue
		}
		if len(s.payload) > sectionLimit(s.tag) {
			return nil, fmt.Errorf("a closure of %d components is too large for a closure file", len(r.Components))
		}
		if s.pack {
			s.payload = z.EncodeAll(s.payload, nil)
		}
		out = appendSection(out, s.tag, s.payload)
	}
	return out, nil
}

// RecordedClosure returns the closure file that is kept beside the result of a
// run: that of a build without global hashes, and with what the run added. The
// rest is copied as it is.
func RecordedClosure(closure []byte, parts []Part) ([]byte, error) {
	sections, err := splitClosure(closure)
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(closure)), closureMagic...)
	for _, tag := range []byte("SCH") {
		out = appendSection(out, tag, sections[tag])
	}
	return appendSection(out, 'X', runSection("", parts)), nil
}

func appendSection(out []byte, tag byte, payload []byte) []byte {
	out = append(out, tag)
	out = binary.AppendUvarint(out, uint64(len(payload)))
	out = append(out, payload...)
	return binary.BigEndian.AppendUint64(out, sectionSum(tag, payload))
}

func sectionSum(tag byte, payload []byte) uint64 {
	var h xxhash.Digest
	h.Reset()
	h.Write([]byte{tag})
	h.Write(payload)
	return h.Sum64()
}

// runSection is empty if nothing was run.
func runSection(key string, parts []Part) []byte {
	if key == "" && len(parts) == 0 {
		return nil
	}
	var b []byte
	str := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	str(key)
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for _, p := range parts {
		str(p.Name)
		str(p.Sum)
	}
	return b
}

// encoder collects sections S, C and H.
type encoder struct {
	table, main, hashes []byte
	strings             map[string]uint64
	err                 error
}

func (e *encoder) uint(n uint64) { e.main = binary.AppendUvarint(e.main, n) }
func (e *encoder) int(n int)     { e.uint(uint64(n)) }

func (e *encoder) str(s string) {
	if n, ok := e.strings[s]; ok {
		e.uint(n)
		return
	}
	e.strings[s] = uint64(len(e.strings) + 1)
	e.table = binary.AppendUvarint(e.table, uint64(len(s)))
	e.table = append(e.table, s...)
	e.uint(0)
}

func (e *encoder) strs(l []string) {
	e.int(len(l))
	for _, s := range l {
		e.str(s)
	}
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

func (e *encoder) hash(what, s string) {
	n := len(e.hashes)
	e.hashes = e.appendHex(e.hashes, what, s)
	e.int(len(e.hashes) - n)
}

func (e *encoder) appendHex(to []byte, what, s string) []byte {
	to, err := hex.AppendDecode(to, []byte(s))
	if err != nil || strings.ToLower(s) != s {
		e.fail("hash %q of %s is not lower case hex", s, what)
	}
	return to
}

// How an ID follows from other fields of its component.
const (
	idIsName = iota
	idIsNameAndSource
	idIsOther
)

func (e *encoder) report(r *Report) {
	e.int(r.Format)
	e.hash("the report", r.Fingerprint)
	e.int(len(r.Contributions))
	for _, c := range r.Contributions {
		e.str(c.Name)
		e.hash(c.Name, c.SHA256)
	}
	e.strs(r.LinkFlags)
	e.strs(r.AlwaysRun)
	e.int(len(r.Units))
	for _, u := range r.Units {
		e.str(u.Source)
		e.str(u.Rung)
		e.str(u.Clang)
		e.str(u.Compiler)
		e.strs(u.Flags)
		e.strs(u.Fallbacks)
	}
	e.int(len(r.Additions))
	for _, a := range r.Additions {
		e.str(a.Name)
		e.hash(a.Name, a.SHA256)
	}
	e.int(len(r.Contested))
	for _, x := range r.Contested {
		e.str(x.Symbol)
		e.strs(x.Copies)
		e.int(x.Winners)
	}
	index := make(map[string]uint64, len(r.Components))
	e.int(len(r.Components))
	idBytes := 0
	for i, c := range r.Components {
		if _, ok := index[c.ID]; ok {
			e.fail("two components have the ID %s", c.ID)
		}
		index[c.ID] = uint64(i)
		if idBytes += len(c.ID); idBytes > maxIDs {
			e.fail("the names of %d components are too long for a closure file", len(r.Components))
		}
		e.str(c.Name)
		e.str(c.Source)
		e.str(c.File)
		e.str(c.Kind)
		e.str(c.Linkage)
		switch c.ID {
		case c.Name:
			e.int(idIsName)
		case c.Name + " (" + c.Source + ")":
			e.int(idIsNameAndSource)
		default:
			e.int(idIsOther)
			e.str(c.ID)
		}
		e.hash(c.ID, c.Local)
		e.strs(c.Symbols)
	}
	next := uint64(0)
	link := func(from, to string) {
		i, ok := index[to]
		if !ok {
			e.fail("%s leads to %s, which is not in the closure", from, to)
		}
		e.uint(zigzag(int64(next - i)))
		next = max(next, i+1)
	}
	e.int(len(r.Roots))
	for _, x := range r.Roots {
		link("a root", x.Component)
		e.strs(x.Why)
	}
	for _, c := range r.Components {
		e.int(len(c.Links))
		for _, to := range c.Links {
			link(c.ID, to)
		}
	}
}

// globals returns section G, empty if no component has a global hash.
func (e *encoder) globals(r *Report) []byte {
	var numbers, hashes []byte
	seen := map[string]uint64{}
	some := false
	for _, c := range r.Components {
		some = some || c.Global != ""
		n, ok := seen[c.Global]
		if !ok {
			seen[c.Global] = uint64(len(seen) + 1)
			hashes = binary.AppendUvarint(hashes, uint64(len(c.Global)/2))
			hashes = e.appendHex(hashes, c.ID, c.Global)
		}
		numbers = binary.AppendUvarint(numbers, n)
	}
	if !some {
		return nil
	}
	return append(numbers, hashes...)
}

func zigzag(n int64) uint64   { return uint64(n<<1) ^ uint64(n>>63) }
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

// splitClosure returns the sections of a closure file by tag, still packed.
func splitClosure(b []byte) (map[byte][]byte, error) {
	rest, ok := bytes.CutPrefix(b, []byte(closureMagic))
	if !ok {
		if line, _, found := bytes.Cut(b[:min(len(b), 40)], []byte("\n")); found && IsClosure(b) {
			return nil, fmt.Errorf("%w: it begins with %q, this tasting reads %q", ErrClosure, line, strings.TrimSpace(closureMagic))
		}
		return nil, fmt.Errorf("%w: it doesn't begin as one", ErrClosure)
	}
	const order = "SCHGX"
	sections := map[byte][]byte{}
	at := 0
	for len(rest) > 0 {
		tag := rest[0]
		n, size := binary.Uvarint(rest[1:])
		if size <= 0 || n > maxReport || uint64(len(rest)) < 1+uint64(size)+n+8 {
			return nil, fmt.Errorf("%w: it is cut off", ErrClosure)
		}
		payload := rest[1+size : 1+size+int(n)]
		rest = rest[1+size+int(n):]
		if binary.BigEndian.Uint64(rest) != sectionSum(tag, payload) {
			return nil, fmt.Errorf("%w: it is damaged", ErrClosure)
		}
		rest = rest[8:]
		i := strings.IndexByte(order[at:], tag)
		if i < 0 {
			return nil, fmt.Errorf("%w: unexpected section %q", ErrClosure, tag)
		}
		at += i + 1
		sections[tag] = payload
	}
	for _, tag := range []byte("SCH") {
		if _, ok := sections[tag]; !ok {
			return nil, fmt.Errorf("%w: it is cut off before section %c", ErrClosure, tag)
		}
	}
	return sections, nil
}

// DecodeClosure returns the report in a closure file. The errors wrap
// ErrClosure.
func DecodeClosure(b []byte) (*Report, error) {
	sections, err := splitClosure(b)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	unpack := func(tag byte) []byte {
		if err != nil {
			return nil
		}
		// Not DecodeAll, which would believe the size that a frame claims.
		var out []byte
		if err = z.Reset(bytes.NewReader(sections[tag])); err == nil {
			out, err = io.ReadAll(io.LimitReader(z, int64(sectionLimit(tag))+1))
		}
		if err == nil && len(out) > sectionLimit(tag) {
			err = fmt.Errorf("section %c has more than %d bytes", tag, sectionLimit(tag))
		}
		return out
	}
	d := &decoder{table: unpack('S'), main: unpack('C'), hashes: hex.EncodeToString(sections['H'])}
	var globals []byte
	if _, ok := sections['G']; ok {
		globals = unpack('G')
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClosure, err)
	}
	r := d.report()
	if globals != nil {
		d.globals(globals, r.Components)
	}
	if x, ok := sections['X']; ok {
		d.run(x, r)
	}
	if d.err == nil && len(d.main)+len(d.hashes)+len(d.table) > 0 {
		d.fail("there is more in it than the report")
	}
	if d.err != nil {
		return nil, d.err
	}
	return r, nil
}

// decoder reads sections S, C and H from their beginning.
type decoder struct {
	table, main []byte
	hashes      string // in hex
	strings     []string
	err         error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrClosure, fmt.Sprintf(format, args...))
	}
	// Whatever reads on finds nothing.
	d.main, d.table, d.hashes = nil, nil, ""
}

// uvarint takes a number from b.
func (d *decoder) uvarint(b *[]byte) uint64 {
	n, size := binary.Uvarint(*b)
	if size <= 0 {
		d.fail("a number is cut off")
		*b = nil
		return 0
	}
	*b = (*b)[size:]
	return n
}

func (d *decoder) uint() uint64 { return d.uvarint(&d.main) }

// each takes the length of a list and counts its elements, which have at least
// size bytes each, up to the first error.
func (d *decoder) each(size int) iter.Seq[int] {
	return func(yield func(int) bool) {
		n := d.uint()
		if n > uint64(len(d.main)/size) {
			d.fail("a list has more elements than there is room for")
		}
		for i := 0; i < int(n) && d.err == nil && yield(i); i++ {
		}
	}
}

// bytes takes a string with its length in front from b.
func (d *decoder) bytes(b *[]byte) []byte {
	n := d.uvarint(b)
	if n > uint64(len(*b)) {
		d.fail("a string is cut off")
		*b = nil
		return nil
	}
	s := (*b)[:n]
	*b = (*b)[n:]
	return s
}

func (d *decoder) str() string {
	n := d.uint()
	if d.err != nil {
		return ""
	}
	if n == 0 {
		s := string(d.bytes(&d.table))
		d.strings = append(d.strings, s)
		return s
	}
	if n > uint64(len(d.strings)) {
		d.fail("string %d is not there", n)
		return ""
	}
	return d.strings[n-1]
}

func (d *decoder) strs() []string {
	var l []string
	for range d.each(1) {
		l = append(l, d.str())
	}
	return l
}

func (d *decoder) hash() string {
	n := d.uint()
	if n > uint64(len(d.hashes)/2) {
		d.fail("a hash is cut off")
		return ""
	}
	s := d.hashes[:2*n]
	d.hashes = d.hashes[2*n:]
	return s
}

func (d *decoder) report() *Report {
	// Lists are as WriteReport and ReadReport have them: those that JSON always
	// has are never nil.
	r := &Report{Contributions: []Contribution{}, Roots: []Root{}, Components: []Component{}}
	format := d.uint()
	if format == 0 || format > ReportFormat {
		d.fail("format %d of the report, this tasting reads format %d", format, ReportFormat)
		return r
	}
	r.Format = int(format)
	r.Fingerprint = d.hash()
	for range d.each(2) {
		r.Contributions = append(r.Contributions, Contribution{d.str(), d.hash()})
	}
	r.LinkFlags = d.strs()
	r.AlwaysRun = d.strs()
	for range d.each(6) {
		r.Units = append(r.Units, Unit{d.str(), d.str(), d.str(), d.str(), d.strs(), d.strs()})
	}
	for range d.each(2) {
		r.Additions = append(r.Additions, Contribution{d.str(), d.hash()})
	}
	for range d.each(3) {
		r.Contested = append(r.Contested, Contested{d.str(), d.strs(), int(d.uint() & math.MaxInt32)})
	}
	ids := map[string]bool{}
	idBytes := 0
	for range d.each(8) {
		var c Component
		c.Name, c.Source, c.File, c.Kind, c.Linkage = d.str(), d.str(), d.str(), d.str(), d.str()
		switch d.uint() {
		case idIsName:
			c.ID = c.Name
		case idIsNameAndSource:
			c.ID = c.Name + " (" + c.Source + ")"
		case idIsOther:
			c.ID = d.str()
		default:
			d.fail("unknown sort of ID")
		}
		if idBytes += len(c.ID); idBytes > maxIDs {
			d.fail("its IDs have more than %d bytes", maxIDs)
		}
		if ids[c.ID] {
			d.fail("two components have the ID %s", c.ID)
		}
		ids[c.ID] = true
		c.Local = d.hash()
		c.Symbols = d.strs()
		r.Components = append(r.Components, c)
	}
	next := int64(0)
	link := func() string {
		i := next - unzigzag(d.uint())
		if i < 0 || i >= int64(len(r.Components)) {
			d.fail("a link leads out of the closure")
			return ""
		}
		next = max(next, i+1)
		return r.Components[i].ID
	}
	for range d.each(2) {
		r.Roots = append(r.Roots, Root{link(), d.strs()})
	}
	for i := range r.Components {
		links := []string{}
		for range d.each(1) {
			links = append(links, link())
		}
		r.Components[i].Links = links
	}
	return r
}

// globals sets the global hashes from section G.
func (d *decoder) globals(b []byte, components []Component) {
	if d.err != nil {
		return
	}
	// The numbers come first: zeros among them are new hashes.
	numbers := make([]uint64, len(components))
	for i := range numbers {
		numbers[i] = d.uvarint(&b)
	}
	var hashes []string
	for i, n := range numbers {
		if n == 0 {
			hashes = append(hashes, hex.EncodeToString(d.bytes(&b)))
			n = uint64(len(hashes))
		}
		if n > uint64(len(hashes)) {
			d.fail("global hash %d is not there", n)
		}
		if d.err != nil {
			return
		}
		components[i].Global = hashes[n-1]
	}
	if len(b) > 0 {
		d.fail("there is more in it than the report")
	}
}

// run sets what section X has.
func (d *decoder) run(b []byte, r *Report) {
	if d.err != nil {
		return
	}
	r.Key = string(d.bytes(&b))
	n := d.uvarint(&b)
	if n > uint64(len(b)/2) {
		d.fail("a list has more elements than there is room for")
		return
	}
	for range n {
		r.Run = append(r.Run, Part{string(d.bytes(&b)), string(d.bytes(&b))})
	}
	if len(b) > 0 {
		d.fail("there is more in it than the report")
	}
}
