package ctext

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// Invocation is a parsed command line of a C or C++ compiler.
type Invocation struct {
	Compiler string
	Source   string
	Lang     string // "c", "c++", or "asm"
	// preprocess holds the arguments that preprocessing needs: all but those
	// that choose outputs.
	preprocess []string
	// codegen holds the flags that can influence generated code.
	codegen []string
	// debug is set if the build emits debug information.
	debug bool
	// pragmaPositions is set if a pragma reads the position of something.
	pragmaPositions bool
}

// Flags by what they do. A flag that no list names counts as influencing code.
var (
	// separateValue lists the flags whose value may be the next argument.
	separateValue = words(`-o -I -isystem -iquote -idirafter -iprefix -iwithprefix -iwithprefixbefore -imultilib
		-isysroot --sysroot -include -imacros -D -U -MF -MT -MQ -x -arch -target -L -l -T -u -z -e -B -G
		-Xclang -Xpreprocessor -Xassembler -Xlinker -Xarch_host -mllvm --param -aux-info -dumpbase -dumpdir
		-dumpbase-ext --serialize-diagnostics -working-directory -Xanalyzer -fplugin-arg -idirafter -wrapper -specs -include-pch -include-pth -fmodule-file`)
	// outputs choose what is written where: never preprocessing's business.
	outputs = words(`-c -S -E -fsyntax-only -save-temps -M -MM -MD -MMD -MG -MP -MV -MF -MT -MQ -o -dumpbase -dumpdir
		-dumpbase-ext --serialize-diagnostics -pipe -v -### -emit-llvm -P -C -CC -H`)
	outputPrefixes = []string{"-save-temps=", "-MF", "-MT", "-MQ", "-o", "-fdump-", "-ftime-trace", "-ftime-report", "-fstack-usage", "-fcallgraph-info", "-gsplit-dwarf", "-dumpdir"}
	// textOnly act on the preprocessed text only, which is hashed itself.
	textOnly         = words(`-I -isystem -iquote -idirafter -iprefix -iwithprefix -iwithprefixbefore -imultilib -isysroot --sysroot -include -imacros -D -U -Xpreprocessor -nostdinc -nostdinc++ -undef -trigraphs -x -working-directory`)
	textOnlyPrefixes = []string{"-I", "-isystem", "-iquote", "-idirafter", "-D", "-U", "-isysroot", "--sysroot=", "-Wp,-D", "-Wp,-U", "-Wp,-M", "-Wp,-I", "-Wp,-i", "-x"}
	// noCode never influence code: messages, debug information, compiler
	// speed, linking. -pthread links, and defines a macro.
	noCode         = words(`-w -pthread -Qunused-arguments -L -l -Xlinker -Xanalyzer -no-canonical-prefixes -canonical-prefixes -fno-canonical-system-headers -fcanonical-system-headers -fverbose-asm -shared -static -rdynamic -s -pie -no-pie -static-pie -u -z -e -T`)
	noCodePrefixes = []string{"-Wl,", "-L", "-l", "-pedantic", "-fdiagnostics-", "-fcolor-diagnostics", "-fno-color-diagnostics", "-fmessage-length", "-fmax-errors", "-ferror-limit", "-fdebug-", "-fno-debug-", "-frandom-seed", "-fmodules-cache-path", "-fcaret-diagnostics", "-fno-caret-diagnostics", "-fansi-escape-codes", "-fshow-", "-fno-show-", "-fno-diagnostics-", "-fuse-ld="}
	// moduleMaps have clang check which headers a file may include (Bazel's
	// layering_check), and nothing more where no module is compiled or imported.
	moduleMaps = []string{"-fmodule-map-file", "-fmodule-name=", "-fmodules-decluse", "-fmodules-strict-decluse", "-fno-cxx-modules"}
	// gccForClang lists what clang must be told of a gcc command line in order
	// to parse its preprocessed C as gcc does; all other gcc flags are left
	// out of the dump (they are in the hashes all the same).
	gccForClang         = words(`-ansi -funsigned-char -fsigned-char -fno-signed-char -fno-unsigned-char -fshort-enums -fno-short-enums -fshort-wchar -fms-extensions -fgnu89-inline -fno-gnu89-inline -fopenmp -fopenmp-simd -fno-asm -ffreestanding -fno-builtin -fpack-struct -m32 -m64`)
	gccForClangPrefixes = []string{"-std=", "--std=", "-mavx", "-msse", "-mssse", "-mfma", "-mbmi", "-mpopcnt", "-mlzcnt", "-maes", "-mpclmul", "-msha", "-mf16c", "-mrdrnd", "-mcx16", "-march=", "-mfpu=", "-mfloat-abi=", "-fpack-struct=", "-fno-builtin-"}
)

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

var languages = map[string]string{
	".c": "c", ".i": "c", ".cc": "c++", ".cp": "c++", ".cxx": "c++", ".cpp": "c++", ".c++": "c++", ".CPP": "c++", ".C": "c++", ".ii": "c++",
	".S": "asm", ".s": "asm", ".sx": "asm", ".asm": "asm", ".m": "other", ".mm": "other", ".cu": "other", ".h": "c", ".hh": "c++", ".hpp": "c++", ".cppm": "c++",
}

// IsSource reports whether a file's name is that of C or C++ that compiles by
// itself.
func IsSource(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(ext, ".h") && (languages[ext] == "c" || languages[ext] == "c++")
}

// ParseArgs parses argv, the command line of a compiler: program, flags and
// one source file. Response files (@FILE) are expanded.
func ParseArgs(argv []string) (*Invocation, error) {
	if len(argv) == 0 {
		return nil, errors.New("no compiler given: want -- COMPILER [flags] FILE.c")
	}
	args, err := expand(argv[1:], 0)
	if err != nil {
		return nil, err
	}
	inv := &Invocation{Compiler: argv[0]}
	var sources []string
	lang := ""
	modules := slices.ContainsFunc(args, importsModules)
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "-" || !strings.HasPrefix(a, "-") {
			if languages[filepath.Ext(a)] != "" || lang != "" || !isObject(a) {
				sources = append(sources, a)
			}
			continue
		}
		flag := []string{a}
		if separateValue[a] && i+1 < len(args) {
			i++
			flag = append(flag, args[i])
		}
		if strings.HasPrefix(a, "-g") {
			inv.debug = a != "-g0"
		}
		if a == "-x" && len(flag) == 2 {
			lang = flag[1]
		} else if strings.HasPrefix(a, "-x") && len(a) > 2 {
			lang = a[2:]
		}
		if !outputs[a] && !hasPrefix(a, outputPrefixes) {
			inv.preprocess = append(inv.preprocess, flag...)
			if influencesCode(a) && (modules || !hasPrefix(flag[len(flag)-1], moduleMaps)) {
				inv.codegen = append(inv.codegen, withContent(flag)...)
			}
		}
	}
	switch len(sources) {
	case 0:
		return nil, fmt.Errorf("no source file in the command line of %s", inv.Compiler)
	case 1:
		inv.Source = sources[0]
	default:
		return nil, fmt.Errorf("more than one source file (%s, %s): analyse one translation unit at a time", sources[0], sources[1])
	}
	switch {
	case lang == "c" || lang == "cpp-output":
		inv.Lang = "c"
	case strings.HasPrefix(lang, "c++"):
		inv.Lang = "c++"
	case strings.HasPrefix(lang, "assembler"):
		inv.Lang = "asm"
	case lang != "" && lang != "none":
		inv.Lang = "other"
	default:
		inv.Lang = languages[filepath.Ext(inv.Source)]
		base := filepath.Base(inv.Compiler)
		if inv.Lang == "c" && (strings.Contains(base, "++")) {
			inv.Lang = "c++"
		}
	}
	if inv.Lang != "c" && inv.Lang != "c++" {
		return nil, fmt.Errorf("%s: not C or C++; use 'tasting object' on the object file", inv.Source)
	}
	for _, v := range []string{"CCC_OVERRIDE_OPTIONS", "GCC_EXEC_PREFIX", "COMPILER_PATH", "GCC_COMPARE_DEBUG"} {
		if s := os.Getenv(v); s != "" {
			inv.codegen = append(inv.codegen, v+"="+s)
		}
	}
	return inv, nil
}

func isObject(a string) bool {
	switch filepath.Ext(a) {
	case ".o", ".a", ".so", ".lo":
		return true
	}
	return false
}

// expand replaces response files by the arguments in them.
func expand(args []string, depth int) ([]string, error) {
	var out []string
	for _, a := range args {
		name, ok := strings.CutPrefix(a, "@")
		if !ok {
			out = append(out, a)
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("response file %s: %w", name, err)
		}
		if depth > 8 {
			return nil, fmt.Errorf("response file %s: nested too deeply", name)
		}
		inner, err := expand(SplitResponse(string(b)), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

// SplitResponse splits the text of a response file as gcc and clang do: at white space, with quotes and
// backslashes.
func SplitResponse(s string) []string {
	var out []string
	var cur strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			cur.WriteByte(s[i])
			in = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, in = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			if in {
				out = append(out, cur.String())
				cur.Reset()
				in = false
			}
		default:
			cur.WriteByte(c)
			in = true
		}
	}
	if in {
		out = append(out, cur.String())
	}
	return out
}

// influencesCode reports whether flag a belongs to every hash of the unit.
func influencesCode(a string) bool {
	switch {
	case a == "-include-pch" || a == "-include-pth":
		return true
	case textOnly[a], noCode[a], hasPrefix(a, textOnlyPrefixes), hasPrefix(a, noCodePrefixes):
		return false
	case strings.HasPrefix(a, "-W") && !strings.HasPrefix(a, "-Wa,") && !strings.HasPrefix(a, "-Wp,"):
		return false
	case strings.HasPrefix(a, "-g") && !strings.HasPrefix(a, "-gen") && !strings.HasPrefix(a, "-gcc-toolchain"):
		return false
	}
	return true
}

// importsModules reports whether flag a makes clang compile or import modules.
func importsModules(a string) bool {
	return strings.HasPrefix(a, "-fmodule") && !hasPrefix(a, moduleMaps) || strings.HasPrefix(a, "-fprebuilt-") || a == "-fcxx-modules" || a == "--precompile"
}

// withContent adds the digest of the file that a flag names (a plug-in, a
// profile, a precompiled header): its content decides, not its name.
func withContent(flag []string) []string {
	if len(flag) > 1 {
		return append(flag[:len(flag):len(flag)], fileDigest(flag[1])...)
	}
	for _, v := range strings.Split(flag[0], "=")[1:] {
		flag = append(flag[:len(flag):len(flag)], fileDigest(v)...)
	}
	return flag
}

// fileDigest returns "content:" and the digest of a regular file, or nothing.
func fileDigest(name string) []string {
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(b)
	return []string{"content:" + hex.EncodeToString(sum[:])}
}

// assembled returns a digest of the object file if asm in text may include
// files (.incbin, .include): the text doesn't hold them, and where they are
// found is a matter of the assembler.
func (inv *Invocation) assembled(ctx context.Context, text []byte) ([]string, error) {
	if !asmIncludes.Match(text) {
		return nil, nil
	}
	tmp, err := os.MkdirTemp("", "tasting-object-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	object := filepath.Join(tmp, "object")
	cmd := exec.CommandContext(ctx, inv.Compiler, append(slices.Clone(inv.preprocess), "-g0", "-w", "-c", "-o", object, inv.Source)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: its asm may include files, so it has to be compiled: %w: %s", inv.Source, err, firstLine(messages(stderr.String())))
	}
	return append([]string{"assembled"}, fileDigest(object)...), nil
}

// asmIncludes matches the directives however they are put together: one of
// gas's may follow any blank or separator, and be made of several strings.
var asmIncludes = regexp.MustCompile(`incbin|\.include|\.inc"\s*\w*"`)

// Options control Preprocess.
type Options struct {
	// Variants are further command lines that compile the same source.
	Variants [][]string
}

// PreprocessError is the failure of the build's own preprocessor: the source
// doesn't compile, so there is nothing to analyse.
type PreprocessError struct {
	Source string
	Err    error
	Stderr string
}

func (e *PreprocessError) Error() string {
	return fmt.Sprintf("%s: preprocessing failed (%v): %s", e.Source, e.Err, strings.TrimSpace(e.Stderr))
}

func (e *PreprocessError) Unwrap() error { return e.Err }

// Preprocess runs the preprocessor of argv's compiler, with all of argv's
// flags, and returns the normalised unit and the names of all files that were
// read, as the preprocessor spells them.
func Preprocess(ctx context.Context, argv []string, opt Options) (*Unit, []string, error) {
	inv, err := ParseArgs(argv)
	if err != nil {
		return nil, nil, err
	}
	// -v makes the same run tell which compiler it is.
	cmd := exec.CommandContext(ctx, inv.Compiler, append(append([]string{}, inv.preprocess...), "-E", "-w", "-v", inv.Source)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	var exited *exec.ExitError
	switch {
	case errors.As(err, &exited):
		return nil, nil, &PreprocessError{inv.Source, err, messages(stderr.String())}
	case err != nil:
		return nil, nil, fmt.Errorf("compiler %s: %w (%v)", inv.Compiler, ErrNoCompiler, err)
	}
	comp, err := identify(inv.Compiler, stderr.String())
	if err != nil {
		return nil, nil, err
	}
	u := &Unit{Source: relative(inv.Source), Lang: inv.Lang, Compiler: comp.identity, Clang: comp.clang, Flags: inv.codegen, Files: []string{}, Segments: [][2]int{}}
	if u.Flags == nil {
		u.Flags = []string{}
	}
	for _, v := range opt.Variants {
		vi, err := ParseArgs(v)
		if err != nil {
			return nil, nil, err
		}
		if strings.Join(vi.codegen, "\x00") != strings.Join(inv.codegen, "\x00") {
			u.Variants = append(u.Variants, vi.codegen)
		}
	}
	sort.Slice(u.Variants, func(i, j int) bool {
		return strings.Join(u.Variants[i], "\x00") < strings.Join(u.Variants[j], "\x00")
	})
	if native(inv.codegen) {
		cpu, err := resolvedCPU(ctx, inv)
		if err != nil {
			return nil, nil, err
		}
		u.Flags = append(u.Flags, cpu...)
	}
	if u.DumpFlags, err = dumpFlags(ctx, inv, comp); err != nil {
		return nil, nil, err
	}
	read := u.normalize(raw)
	object, err := inv.assembled(ctx, u.Text)
	if err != nil {
		return nil, nil, err
	}
	u.Flags = append(u.Flags, object...)
	u.Flags = append(u.Flags, comp.flags...)
	if u.Lang == "c++" && (len(u.Sites) > 0 || u.Clang) && !u.pin() {
		if u.Emitted, err = inv.emitted(ctx, u); err != nil {
			return nil, nil, err
		}
	}
	if u.Emitted == nil {
		macros, err := inv.pragmaMacros(ctx, u.Text)
		if err != nil {
			return nil, nil, err
		}
		u.Flags = append(u.Flags, macros...)
	}
	if inv.emitsPositions(u) {
		sum, err := contents(append([]string{inv.Source}, read...))
		if err != nil {
			return nil, nil, err
		}
		u.Flags = append(u.Flags, "positions:"+sum)
	}
	if u.Lang == "c++" && !u.Clang {
		u.Compile = inv.compileArgs()
	}
	return u, read, nil
}

// compileArgs returns the compiler with the flags that decide about code.
func (inv *Invocation) compileArgs() []string {
	out := []string{inv.Compiler}
	for i := 0; i < len(inv.codegen); i++ {
		a := inv.codegen[i]
		value := separateValue[a] && i+1 < len(inv.codegen)
		switch {
		case !strings.HasPrefix(a, "-"): // content:..., or of the environment
			continue
		case strings.HasPrefix(a, "-flto"), strings.HasPrefix(a, "-ffat-lto"), strings.HasPrefix(a, "-Wp,"):
			continue
		}
		out = append(out, a)
		if value {
			i++
			out = append(out, inv.codegen[i])
		}
	}
	return out
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// positionMacros expand to where they are.
var positionMacros = words(`__LINE__ __FILE__ __FILE_NAME__ __BASE_FILE__ __COUNTER__ __INCLUDE_LEVEL__`)

// pragmaMacros returns a digest of the macros that pragmas name. Compilers
// expand them there, but "-E" leaves them as they are, so that the text doesn't
// hold their values.
func (inv *Invocation) pragmaMacros(ctx context.Context, text []byte) ([]string, error) {
	var queue []string
	lex := NewLexer(text, 0)
	for t := lex.Next(); t.Kind != EOF; t = lex.Next() {
		if t.Kind == Pragma {
			queue = append(queue, Words([]byte(pragmaBody(text[t.Off:t.End])))...)
		}
	}
	if queue == nil {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, inv.Compiler, append(append([]string{}, inv.preprocess...), "-E", "-dD", "-w", inv.Source)...)
	raw, err := cmd.Output()
	if err != nil {
		return nil, &PreprocessError{inv.Source, err, ""}
	}
	macro := regexp.MustCompile(`^#\s*(?:define|undef)\s+([A-Za-z_$][\w$]*)`)
	lines := bytes.Split(raw, []byte("\n"))
	defs := map[string][][]byte{}
	for _, l := range lines {
		if m := macro.FindSubmatch(l); m != nil {
			defs[string(m[1])] = append(defs[string(m[1])], l)
		}
	}
	named := map[string]bool{}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		inv.pragmaPositions = inv.pragmaPositions || siteTokens[w] || positionMacros[w]
		if defs[w] == nil || named[w] {
			continue
		}
		named[w] = true
		for _, l := range defs[w] {
			queue = append(queue, Words(l)...)
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	// Pragmas and definitions in their order: a macro may change in between.
	h := sha256.New()
	for _, l := range lines {
		m := macro.FindSubmatch(l)
		if m != nil && named[string(m[1])] || bytes.HasPrefix(bytes.TrimLeft(l, " \t"), []byte("#pragma")) {
			fmt.Fprintf(h, "%d %s\n", len(l), l)
		}
	}
	return []string{"pragma macros:" + hex.EncodeToString(h.Sum(nil))}, nil
}

// emitsPositions reports whether the compiler puts source positions into what
// it emits: then a line or column that shifts changes the code.
func (inv *Invocation) emitsPositions(u *Unit) bool {
	if inv.instrumented(u) || inv.pragmaPositions {
		return true
	}
	if u.Lang == "c++" {
		return u.Emitted == nil && (u.Clang && u.Unnamed == "" || slices.ContainsFunc(u.Sites, func(s Site) bool { return !s.Pinned }))
	}
	if u.Clang && !u.completeSites(sources{}) {
		return true
	}
	// Sites have columns of the preprocessor's output, in which spaces and
	// comments are collapsed.
	for _, s := range u.Sites {
		for _, w := range []string{"__builtin_COLUMN", "__builtin_source_location"} {
			if bytes.HasPrefix(u.Text[s.Off:], []byte(w)) {
				return true
			}
		}
	}
	return false
}

// instrumented reports whether flags have positions put into code, or code
// selected by its position.
func (inv *Invocation) instrumented(u *Unit) bool {
	for _, flags := range append([][]string{u.Flags}, u.Variants...) {
		for _, f := range flags {
			if hasPrefix(f, []string{"-fsanitize=", "-fcoverage-mapping", "--coverage", "-coverage", "-fprofile-arcs", "-ftest-coverage", "-fprofile-generate", "-fprofile-instr-generate",
				"-fprofile-sample-use", "-fauto-profile", "-fmemory-profile-use", "-fprofile-use", "-fbranch-probabilities", "-fprofile-list", "-finstrument-functions-exclude-file-list",
				"-fxray-attr-list", "-fxray-always-instrument", "-fxray-never-instrument"}) {
				return true
			}
			// OpenMP tells its runtime where it is, if there is debug information.
			if strings.HasPrefix(f, "-fopenmp") && (inv.debug || bytes.Contains(u.Text, []byte("omp error"))) {
				return true
			}
		}
	}
	return false
}

// emitted returns what Unit.Emitted holds, or nil. A source that doesn't compile
// is left to the analysis of the text, which says why.
func (inv *Invocation) emitted(ctx context.Context, u *Unit) ([]byte, error) {
	if inv.instrumented(u) {
		return nil, nil
	}
	tmp, err := os.MkdirTemp("", "tasting-emitted-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "out.o")
	args := append(slices.Clone(inv.preprocess), "-w", "-g0", "-fno-lto", "-o", out, inv.Source)
	if u.Clang {
		args = append(args, IRFlags...)
	} else {
		args = append(args, ObjectFlags...)
	}
	cmd := exec.CommandContext(ctx, inv.Compiler, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		return nil, ctx.Err()
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(raw); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// IRFlags have clang emit IR as the front end makes it. ObjectFlags have another
// compiler emit an object file with a section for each function.
var (
	IRFlags     = []string{"-fno-crash-diagnostics", "-fdiscard-value-names", "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"}
	ObjectFlags = []string{"-ffunction-sections", "-fdata-sections", "-frandom-seed=tasting", "-c"}
)

// contents returns a digest of the names and contents of the files that a
// preprocessor read. A name that only a #line directive mentions may not exist.
func contents(read []string) (string, error) {
	h := sha256.New()
	for _, name := range read {
		if strings.HasPrefix(name, "<") {
			continue // built-in, command line
		}
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		fmt.Fprintf(h, "%d %s %d ", len(name), relative(name), len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// messages keeps the lines of a compiler's output that report an error.
func messages(stderr string) string {
	var out []string
	for _, line := range strings.Split(stderr, "\n") {
		if strings.Contains(line, "error:") {
			out = append(out, line)
		}
	}
	if out == nil {
		return stderr
	}
	return strings.Join(out, "\n")
}

// dumpFlags returns what clang must be told to parse the unit's text as the
// build's compiler does.
func dumpFlags(ctx context.Context, inv *Invocation, comp *compiler) ([]string, error) {
	out := []string{}
	std := false
	for i := 0; i < len(inv.codegen); i++ {
		a := inv.codegen[i]
		switch {
		case strings.HasPrefix(a, "content:") || !strings.HasPrefix(a, "-"):
			continue
		case strings.HasPrefix(a, "-Wa,") || strings.HasPrefix(a, "-Wp,") || strings.HasPrefix(a, "-Xassembler") || strings.HasPrefix(a, "-flto") || strings.HasPrefix(a, "-fplugin") || strings.HasPrefix(a, "-specs"):
			continue
		case !comp.clang && !gccForClang[a] && !hasPrefix(a, gccForClangPrefixes):
			continue
		case !comp.clang && a == "-march=native":
			continue
		}
		std = std || strings.HasPrefix(a, "-std=") || strings.HasPrefix(a, "--std=") || a == "-ansi"
		out = append(out, a)
		if separateValue[a] && i+1 < len(inv.codegen) {
			i++
			out = append(out, inv.codegen[i])
		}
	}
	if !comp.clang && !std {
		s, err := comp.defaultStd(ctx, inv)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
