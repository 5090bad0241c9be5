package linkflags

import (
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/words"
)

// files are response files.
var files = map[string]string{
	"a.rsp":    "-lx '-Wl,--as-needed'\n\"-ly z\" b\\ c.o @n.rsp",
	"n.rsp":    "-Wl,-z,now",
	"ld.rsp":   "--whole-archive /p/libx.a\n--no-whole-archive",
	"self.rsp": "-lx @self.rsp",
}

func open(name string) ([]byte, error) {
	if s, ok := files[name]; ok {
		return []byte(s), nil
	}
	return nil, errors.New("no such file")
}

func parse(line string) *Line { return Parse(strings.Fields(line), Options{Open: open}) }

// dump renders what isn't zero, in one line.
func dump(l *Line) string {
	var parts []string
	add := func(name string, words ...string) {
		if len(words) > 0 {
			parts = append(parts, name+": "+strings.Join(words, " "))
		}
	}
	var items []string
	for _, x := range l.Items {
		s := x.Name
		if x.Kind == Library {
			s = "-l" + s
		}
		if st := x.State.String(); st != "" {
			s += "[" + strings.ReplaceAll(st, " ", ",") + "]"
		}
		if x.Group > 1 {
			s += fmt.Sprint("#", x.Group)
		}
		if x.Built != "" && x.Built != x.Name {
			s += "=" + x.Built
		}
		items = append(items, s)
	}
	add("items", items...)
	add("blobs", l.Blobs...)
	add("flags", l.Flags...)
	for _, b := range []struct {
		on   bool
		name string
	}{{l.Bsymbolic, "bsymbolic"}, {l.GCSections, "gc"}, {l.NoUndefined, "no undefined"}, {l.Static, "static"}, {l.Shared, "shared"}} {
		if b.on {
			parts = append(parts, b.name)
		}
	}
	unusual := slices.DeleteFunc(slices.Clone(l.Unusual), func(why string) bool { return strings.HasSuffix(why, mayCallAny) }) // see TestLibraries
	for _, x := range [][2]string{{"linker", l.Linker}, {"soname", l.Soname}, {"unusual", strings.Join(unusual, ", ")}} {
		if x[1] != "" {
			add(x[0], x[1])
		}
	}
	return strings.Join(parts, "; ")
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		// Libraries, in all spellings.
		{"-lx", "items: -lx"},
		{"-l x", "items: -lx"},
		{"-Wl,-lx", "items: -lx"},
		{"-Wl,-l,x", "items: -lx"},
		{"-Wl,-l -Wl,x", "items: -lx"},
		{"-Wl,--library=x", "items: -lx"},
		{"-Wl,--library,x", "items: -lx"},
		{"-Wl,-library=x", "items: -lx"},
		{"-Xlinker -lx", "items: -lx"},
		{"-Xlinker --library -Xlinker x", "items: -lx"},
		{"--for-linker=-lx --for-linker -ly", "items: -lx -ly"},
		{"-l:libx.so.1 -Wl,-l:libx.a", "items: -l:libx.so.1 -l:libx.a"},
		{"/p/libx.a -Wl,/p/liby.a -Xlinker /p/z.o", "items: /p/libx.a /p/liby.a /p/z.o"},
		{"a.o -lx b.pic.o -Wl,liby.so c.lo", "items: a.o -lx b.pic.o liby.so c.lo"},
		// Their state.
		{"-Wl,--whole-archive,/p/libx.a,--no-whole-archive -ly", "items: /p/libx.a[whole] -ly"},
		{"-Wl,-whole-archive -lx -Wl,-no-whole-archive -ly", "items: -lx[whole] -ly"},
		{"-Wl,-Bstatic,-lx,-Bdynamic -ly", "items: -lx[static] -ly"},
		{"-Wl,-dn -lx -Wl,-dy -ly -Wl,-non_shared -lz -Wl,-call_shared -Wl,-static -la", "items: -lx[static] -ly -lz[static] -la[static]"},
		{"-Wl,--Bstatic -lx", "items: -lx[static]"},
		{"-Wl,--as-needed -lx -Wl,--no-as-needed -ly", "items: -lx[as-needed] -ly[needed]"},
		{"-Wl,-as-needed -lx -Xlinker -no-as-needed -ly", "items: -lx[as-needed] -ly[needed]"},
		{"-Wl,--as-needed,-lx,-z,now", "items: -lx[as-needed]; flags: -Wl,-z,now"},
		{"-Wl,--start-group -lx -ly -Wl,--end-group -lz", "items: -lx[group] -ly[group] -lz"},
		{"-Wl,-( -lx -Wl,-) -Xlinker -( -ly -Xlinker -)", "items: -lx[group] -ly[group]#2"},
		{"-Wl,--start-lib a.o b.o -Wl,--end-lib c.o", "items: a.o[lazy] b.o[lazy] c.o"},
		{"-Wl,--push-state,-as-needed -lx -Wl,--pop-state -ly", "items: -lx[as-needed] -ly"},
		{"-Wl,--push-state,--whole-archive,-Bstatic -lx -Wl,--push-state,--no-whole-archive -ly -Wl,--pop-state -lz -Wl,--pop-state -la", "items: -lx[static,whole] -ly[static] -lz[static,whole] -la"},
		{"-Wl,--pop-state", "flags: -Wl,--pop-state; unusual: --pop-state"},
		// What the driver hands over comes first.
		{"-lx -static", "items: -lx[static]; flags: -static; static"},
		{"-lx -static-pie", "items: -lx[static]; flags: -static-pie; static"},
		{"-static -Wl,-Bdynamic -lx", "items: -lx; flags: -static; static"},
		// Response files.
		{"a.o @a.rsp -lw", "items: a.o -lx -ly z[as-needed] b c.o[as-needed] -lw[as-needed]; flags: -Wl,-z,now"},
		{"-Wl,@ld.rsp -ly", "items: /p/libx.a[whole] -ly"},
		{"@gone.rsp", "items: @gone.rsp; unusual: response file @gone.rsp can't be read, @gone.rsp may be a linker script"},
		// Roots.
		{"-u a -ub -Wl,-u,c -Wl,-ud -Wl,--undefined=e -Wl,--undefined,f -Wl,-undefined=g --force-link=h", "flags: -Wl,--undefined=a -Wl,--undefined=b -Wl,--undefined=h -Wl,--undefined=c -Wl,--undefined=d -Wl,--undefined=e -Wl,--undefined=f -Wl,--undefined=g; unusual: --undefined=a, --undefined=b, --undefined=h, --undefined=c, --undefined=d, --undefined=e, --undefined=f, --undefined=g"},
		{"-Wl,--require-defined=a", "flags: -Wl,--require-defined=a; unusual: --require-defined=a"},
		{"-e a -Wl,-e,b -Wl,-ec -Wl,--entry=d -Wl,-entry,e --entry=f", "flags: -Wl,--entry=a -Wl,--entry=f -Wl,--entry=b -Wl,--entry=c -Wl,--entry=d -Wl,--entry=e; unusual: --entry=a, --entry=f, --entry=b, --entry=c, --entry=d, --entry=e"},
		{"-Wl,-init=a -Wl,-fini,b", "flags: -Wl,--init=a -Wl,--fini=b; unusual: --init=a, --fini=b"},
		{"-Wl,--defsym=g=f+4", "flags: -Wl,--defsym=g=f+4; unusual: --defsym=g=f+4"},
		{"-Wl,--wrap=g", "flags: -Wl,--wrap=g; unusual: --wrap=g"},
		{"-Wl,-wrap,g", "flags: -Wl,--wrap=g; unusual: --wrap=g"},
		// What is found by name.
		{"-rdynamic", "flags: -Wl,--export-dynamic; unusual: --export-dynamic"},
		{"-Wl,-E", "flags: -Wl,--export-dynamic; unusual: --export-dynamic"},
		{"-Wl,-export-dynamic", "flags: -Wl,--export-dynamic; unusual: --export-dynamic"},
		{"-export-dynamic", "flags: -Wl,--export-dynamic; unusual: --export-dynamic"},
		{"-Xlinker --export-dynamic", "flags: -Wl,--export-dynamic; unusual: --export-dynamic"},
		{"-Wl,--export-dynamic-symbol=f*", "flags: -Wl,--export-dynamic-symbol=f*; unusual: --export-dynamic-symbol=f*"},
		{"-Wl,--dynamic-list,x.txt", "flags: -Wl,--dynamic-list=x.txt; unusual: --dynamic-list=x.txt"},
		{"-E", "flags: -E; unusual: unknown flag -E"},
		// -Bsymbolic: the last one wins.
		{"-shared -Wl,-Bsymbolic", "flags: -shared -Wl,--Bsymbolic; bsymbolic; shared"},
		{"-Wl,-Bsymbolic -Wl,-Bsymbolic-functions", "flags: -Wl,--Bsymbolic -Wl,-Bsymbolic-functions; bsymbolic; unusual: unknown flag -Bsymbolic-functions"},
		{"-Wl,-Bsymbolic-non-weak", "flags: -Wl,-Bsymbolic-non-weak; unusual: unknown flag -Bsymbolic-non-weak"},
		{"-Wl,-Bsymbolic-non-weak-functions", "flags: -Wl,-Bsymbolic-non-weak-functions; unusual: unknown flag -Bsymbolic-non-weak-functions"},
		{"-Wl,-Bsymbolic -Wl,-Bno-symbolic", "flags: -Wl,--Bsymbolic -Wl,--Bno-symbolic"},
		{"-Bsymbolic", "flags: -Bsymbolic; unusual: -Bsymbolic: not for the linker without -Wl"},
		// Out of our hands.
		{"-Wl,--version-script=x.lds", "flags: -Wl,--version-script=x.lds; unusual: --version-script=x.lds"},
		{"-Wl,--version-script -Wl,x.lds", "flags: -Wl,--version-script=x.lds; unusual: --version-script=x.lds"},
		{"-T x.ld -Ty.ld -Wl,-T,z.ld -Wl,--script=w.ld", "flags: -Wl,--script=x.ld -Wl,--script=y.ld -Wl,--script=z.ld -Wl,--script=w.ld; unusual: --script=x.ld, --script=y.ld, --script=z.ld, --script=w.ld"},
		{"x.lds", "items: x.lds; unusual: x.lds may be a linker script"},
		{"-Wl,-z,muldefs -Wl,-zinterpose -z initfirst", "flags: -Wl,-z,initfirst -Wl,-z,muldefs -Wl,-z,interpose; unusual: -z initfirst, -z muldefs, -z interpose"},
		{"-Wl,-z,unheard -zunheard=1", "flags: -Wl,-z,unheard=1 -Wl,-z,unheard; unusual: -z unheard=1, -z unheard"},
		{"-flto=thin", "flags: -flto=thin; unusual: -flto=thin"},
		{"-r", "flags: -Wl,--relocatable; unusual: --relocatable"},
		{"-Wl,-R,a.o", "flags: -Wl,--just-symbols=a.o; unusual: --just-symbols=a.o"},
		// Linked as it is, under any name, whether an object, a library or a script.
		{"-Wl,--format=binary a.bin -Wl,--format=default b.o", "items: b.o; blobs: a.bin; flags: -Wl,--format=binary,a.bin,--format=default; unusual: --format=binary"},
		{"-Wl,-b,binary,a.bin,b.o -Wl,-b,default -lx", "items: -lx; blobs: a.bin b.o; flags: -Wl,--format=binary,a.bin,--format=default -Wl,--format=binary,b.o,--format=default; unusual: --format=binary"},
		{"-Wl,-bbinary a.bin -Wl,-bdefault", "blobs: a.bin; flags: -Wl,--format=binary,a.bin,--format=default; unusual: --format=binary"},
		{"-Wl,--format,binary -Wl,a.lds -Wl,-format,default", "blobs: a.lds; flags: -Wl,--format=binary,a.lds,--format=default; unusual: --format=binary"},
		{"-Xlinker -b -Xlinker binary -Xlinker a,b -Xlinker -b -Xlinker elf", "blobs: a,b; flags: -Xlinker --format=binary -Xlinker a,b -Xlinker --format=default -Wl,--format=elf; unusual: --format=binary, --format=elf"},
		{"-Wl,--format=ihex,a.hex,--format=default", "blobs: a.hex; flags: -Wl,--format=ihex,a.hex,--format=default; unusual: --format=ihex"},
		{"-Wl,--format=binary,-lx,--format=default", "blobs: -lx; flags: -Wl,--format=binary,-lx,--format=default; unusual: --format=binary"},
		{"-Wl,--format=binary a.bin", "blobs: a.bin what the driver adds; flags: -Wl,--format=binary,a.bin,--format=default -Wl,--format=binary,what the driver adds,--format=default; unusual: --format=binary"},
		{"-Wl,--push-state,--format=binary,a.bin,--pop-state b.o -Wl,-b,default c.o", "items: c.o; blobs: a.bin b.o; flags: -Wl,--format=binary,a.bin,--format=default -Wl,--format=?,b.o,--format=default; unusual: --format=binary, --format=?"},
		{"-Wl,--push-state,--format=binary,a.bin,--format=default,--pop-state b.o", "items: b.o; blobs: a.bin; flags: -Wl,--format=binary,a.bin,--format=default; unusual: --format=binary"},
		{"-specs=x -specs y", "flags: -specs=x -specs y; unusual: -specs=x, -specs y"},
		{"-fuse-ld=foo", "flags: -fuse-ld=foo; unusual: -fuse-ld=foo"},
		{"-Wl,--dynamic-linker=/x/mine.so", "flags: -Wl,--dynamic-linker=/x/mine.so; unusual: --dynamic-linker=/x/mine.so"},
		{"-Wl,-dynamic-linker,/lib64/ld-linux-x86-64.so.2", "flags: -Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2"},
		{"-x c++", "flags: -xc++; unusual: -x c++"},
		// Unknown, abbreviated, without a value, or with one too many.
		{"-unheard-of --unheard -Wl,--of -Wl,-Qof", "flags: --unheard -Wl,--undefined=nheard-of -Wl,--of -Wl,-Qof; unusual: unknown flag --unheard, --undefined=nheard-of, unknown flag --of, unknown flag -Qof"},
		{"-Wl,--whole-arch -Wl,-export-dyn", "flags: -Wl,--whole-arch -Wl,-export-dyn; unusual: unknown flag --whole-arch, unknown flag -export-dyn"},
		{"-Wl,--rpath", "flags: -Wl,--rpath; unusual: flag --rpath without a value"},
		{"-lx -Xlinker", "items: -lx; flags: -Xlinker; unusual: flag -Xlinker without a value"},
		{"-Wl,--gc-sections=x", "flags: -Wl,--gc-sections=x; unusual: unknown flag --gc-sections=x"},
		{"-Wl,--fancy,-lx", "items: -lx; flags: -Wl,--fancy; unusual: unknown flag --fancy"},
		{"-fnew-thing", "flags: -fnew-thing; unusual: unknown flag -fnew-thing"},
		{"-omagic -Wl,-omagic", ""},
		{"-Wl,--omagic", "flags: -Wl,-N"},
		// Without effect.
		{"-o out -oout --output=out -g -g1 -Wall -Wno-error=x -v -pipe -save-temps=obj -I x -Ix -DX -D X -isystem x -MF x -MD -pass-exit-codes -fdiagnostics-color=always", "flags: -g -g1 -Wall -Wno-error=x -v -pipe -Ix -Ix -DX -DX -isystemx -MD -pass-exit-codes -fdiagnostics-color=always"},
		{"-Wl,-o,out,-t,--gdb-index,--verbose,-y,sym", "flags: -Wl,--gdb-index"},
		{"-Lbazel-out/k8/bin/_solib_k8 -Xlinker -rpath -Xlinker $ORIGIN/../_solib_k8/ -Wl,-rpath,$ORIGIN/_solib_k8 -Wl,-rpath=$ORIGIN/_solib_k8", ""},
		// What counts.
		{"-pie -pthread -Wl,-S -s -Wl,--gc-sections -Wl,-O1 -Wl,--hash-style=gnu -Wl,-z,relro,-z,now -znoexecstack -B/usr/bin -fuse-ld=/usr/bin/ld.lld -O2 -m64",
			"flags: -pie -pthread -B/usr/bin -fuse-ld=/usr/bin/ld.lld -O2 -m64 -Wl,--strip-all -Wl,-z,noexecstack -Wl,--strip-debug -Wl,--gc-sections -Wl,-O1 -Wl,--hash-style=gnu -Wl,-z,relro -Wl,-z,now; gc; linker: lld"},
		{"-Wl,--no-undefined,--fatal-warnings -Wl,-z,defs -Wl,--error-execstack", "flags: -Wl,--no-undefined -Wl,--fatal-warnings -Wl,-z,defs -Wl,--error-execstack; no undefined; unusual: --fatal-warnings"},
		{"-fuse-ld=gold -fuse-ld=mold -fuse-ld=bfd", "flags: -fuse-ld=gold -fuse-ld=mold -fuse-ld=bfd; linker: bfd"},
		{"-L/opt/lib -L /opt/b -Wl,-L,/opt/c -Wl,--library-path=/opt/d", "flags: -L/opt/lib -L/opt/b -L/opt/c -L/opt/d"},
		{"-Wl,-rpath,/opt/lib -Xlinker -rpath -Xlinker /opt/b", "flags: -Wl,--rpath=/opt/lib -Wl,--rpath=/opt/b"},
		{"-Wl,-rpath,/opt/lib:$ORIGIN/_solib_k8", "flags: -Wl,--rpath=/opt/lib:$ORIGIN/_solib_k8"},
		{"-Wl,-soname,libx.so -Wl,-h,y -Wl,-hz", "flags: -Wl,--soname=libx.so -Wl,--soname=y -Wl,--soname=z; soname: z"},
		{"-Wl,-Ttext=0 -Ttext=1 -Wl,-Ttext,2", "flags: -Wl,--Ttext=1 -Wl,--Ttext=0 -Wl,--Ttext=2; unusual: --Ttext=1, --Ttext=0, --Ttext=2"},
		{"-nostdlib --sysroot=/s -target x -target=y", "flags: -nostdlib --sysroot=/s --target=x -target=y; unusual: unknown flag -target=y, nothing on the line calls main"},
		{"-Wl,--version-script=bazel-out/k8-opt/bin/x.lds", "flags: -Wl,--version-script=bazel-out/_/bin/x.lds; unusual: --version-script=bazel-out/_/bin/x.lds"},
		{"-Xlinker --undefined=a,b", "flags: -Xlinker --undefined=a,b; unusual: --undefined=a,b"},
		{"-Wl,-Map=x,--threads=4,--build-id=none -Werror -gz=zlib", "flags: -Werror -gz=zlib -Wl,--Map=x -Wl,--threads=4 -Wl,--build-id=none"},
		{"-no-pie -unwindlib=libgcc -rtlib=compiler-rt", "flags: -no-pie -unwindlib=libgcc -rtlib=compiler-rt"},
	} {
		l := parse(c.line)
		if got := dump(l); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
		stable(t, strings.Fields(c.line), l)
	}
}

// stable checks that what a line says can be said again with its own words.
func stable(t *testing.T, args []string, l *Line) {
	t.Helper()
	again := Parse(l.Flags, Options{Open: open})
	if !slices.Equal(again.Flags, l.Flags) || again.Bsymbolic != l.Bsymbolic || again.GCSections != l.GCSections ||
		again.NoUndefined != l.NoUndefined || again.Soname != l.Soname || again.Linker != l.Linker || again.Static != l.Static || again.Shared != l.Shared {
		t.Errorf("%q\n got %s\nthen %s", args, dump(l), dump(again))
	}
	for _, why := range again.Unusual {
		if !slices.Contains(l.Unusual, why) {
			t.Errorf("%q: the flags alone are unusual: %s", args, why)
		}
	}
}

func TestDefaultOfTheDriver(t *testing.T) {
	l := Parse(strings.Fields("-lx -Wl,--push-state,--no-as-needed -ly -Wl,--pop-state -lz"), Options{})
	if l.FillIn("", Default); l.Linker != "" || l.Items[0].AsNeeded != Default {
		t.Error("the driver's default is known")
	}
	l.FillIn("lld", Yes)
	l.FillIn("bfd", No)
	if l.Linker != "lld" {
		t.Errorf("the linker is %q", l.Linker)
	}
	if got, want := dump(l), "items: -lx[as-needed] -ly[needed] -lz[as-needed]; linker: lld"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := strings.Join(l.Words(), ", "); got != "-lx as-needed, -ly needed, -lz as-needed, what the driver adds as-needed" {
		t.Errorf("from the system: %s", got)
	}
}

// A build's own libraries are no flags, wherever they are found.
func TestBuilt(t *testing.T) {
	known := map[string]bool{
		"bazel-out/k8/bin/liba.a": true, "bazel-out/k8/bin/_solib_k8/libb.so": true, "third_party/libc.a": true, "bazel-out/k8/bin/libd.a": true,
	}
	o := Options{Built: func(p string) bool { return known[p] }}
	for _, c := range []struct{ line, want string }{
		{"bazel-out/k8/bin/liba.a third_party/libc.a /usr/lib/libc.a", "items: bazel-out/k8/bin/liba.a third_party/libc.a /usr/lib/libc.a"},
		{"-Lbazel-out/k8/bin/_solib_k8 -lb -lm", "items: -lb=bazel-out/k8/bin/_solib_k8/libb.so -lm"},
		{"-Lbazel-out/k8/bin -la", "items: -la=bazel-out/k8/bin/liba.a"},
		{"-la -L bazel-out/k8/bin/", "items: -la=bazel-out/k8/bin/liba.a"},
		{"-Lbazel-out/k8/bin -l:liba.a -l:libb.so", "items: -l:liba.a=bazel-out/k8/bin/liba.a -l:libb.so"},
		{"-Lbazel-out/k8/bin/_solib_k8 -Wl,-Bstatic -lb", "items: -lb[static]"},
		{"-L/opt -Lthird_party -lc", "items: -lc=third_party/libc.a; flags: -L/opt -Lthird_party; unusual: -lc, which drivers add, may be third_party/libc.a, -lc may be in /opt, too"},
		{"-Wl,-R,$ORIGIN/../lib", "flags: -Wl,--rpath=$ORIGIN/../lib"},
		{"-Wl,-R,bazel-out/k8/bin/libd.a", "items: bazel-out/k8/bin/libd.a; flags: -Wl,--just-symbols=bazel-out/_/bin/libd.a; unusual: --just-symbols=bazel-out/_/bin/libd.a"},
	} {
		if got := dump(Parse(strings.Fields(c.line), o)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}

// Lines that link other programs are different descriptions.
func TestDifferent(t *testing.T) {
	for _, c := range [][2]string{
		{"-lx", "-ly"},
		{"-lx", "-l:libx.a"},
		{"-lx -ly", "-ly -lx"},
		{"-lx", "-Wl,-Bstatic -lx"},
		{"-lx", "-static -lx"},
		{"-lx", "-Wl,--whole-archive -lx"},
		{"-lx", "-Wl,--as-needed -lx"},
		{"-lx", "-Wl,--no-as-needed -lx"},
		{"-Wl,--as-needed -lx", "-lx -Wl,--as-needed"},
		{"-lx -ly", "-Wl,--start-group -lx -ly -Wl,--end-group"},
		{"a.o b.o", "-Wl,--start-lib a.o b.o -Wl,--end-lib"},
		{"-L/a -L/b", "-L/b -L/a"},
		{"-Wl,-rpath,/a", "-Wl,-rpath,/b"},
		{"-u a", "-u b"},
		{"-Wl,-init,a", "-Wl,-fini,a"},
		{"-Wl,--defsym=a=b", "-Wl,--defsym=b=a"},
		{"-Wl,-Bsymbolic", "-Wl,-Bsymbolic-functions"},
		{"", "-rdynamic"},
		{"", "-Wl,-z,now"},
		{"", "-Wl,--gc-sections"},
		{"", "-Wl,--icf=all"},
		{"", "-pthread"},
		{"", "-fopenmp"},
		{"", "-fsanitize=address"},
		{"-stdlib=libc++", "-stdlib=libstdc++"},
		{"", "-nostartfiles"},
		{"", "-static-libstdc++"},
		{"", "-static-libgcc"},
		{"", "-ffast-math"},
		{"", "-pg"},
		{"--sysroot=/a", "--sysroot=/b"},
		{"-B/a", "-B/b"},
		{"-fuse-ld=lld", "-fuse-ld=bfd"},
		{"-Wl,--sort-section=name", "-Wl,--sort-section=alignment"},
		{"", "-Wl,--something"},
		{"-shared", "-pie"},
		{"-pie", "-no-pie"},
		{"@a.rsp", "@n.rsp"},
		{"@gone1", "@gone2"},
		{"-Wl,-pie", "-pie"},
		{"-Wl,-s", "-Wl,-S"},
	} {
		if a, b := dump(parse(c[0])), dump(parse(c[1])); a == b && reflect.DeepEqual(parse(c[0]).Words(), parse(c[1]).Words()) {
			t.Errorf("%q and %q: %s", c[0], c[1], a)
		}
	}
}

func TestLibraries(t *testing.T) {
	l := parse("bazel-out/k8/bin/x.a -lm -l z -Wl,-Bstatic,-lfl,-Bdynamic -l:libstdc++.a -l:libz.so.1 /usr/lib/libpthread.so.0 /p/liby.a /p/libclang_rt.asan-x86_64.a " +
		"-Wl,--whole-archive,/p/libc.a")
	want := []systemLibrary{
		{name: "m", runtime: true}, {name: "z"}, {name: "fl", static: true}, {name: ":libstdc++.a", static: true, runtime: true}, {name: ":libz.so.1"},
		{name: "/usr/lib/libpthread.so.0", runtime: true}, {name: "/p/liby.a", static: true},
		{name: "/p/libclang_rt.asan-x86_64.a", static: true, runtime: true}, {name: "/p/libc.a", static: true, runtime: true},
	}
	if got := l.systemLibraries(); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for line, want := range map[string]string{ // unusual; any, of C, of C++ inside
		"":                                 "",
		"-lm -lstdc++ -pie -Wl,-z,now":     "",
		"-lfl":                             "unusual",
		"-stdlib=libc++":                   "",
		"--stdlib=libc++ -lm":              "",
		"-stdlib=libstdc++":                "",
		"-l:libc++.a -lc++abi":             "any c++",
		"-lstdc++exp":                      "unusual any c++",
		"-Wl,--library=fl":                 "unusual",
		"-l:libfl.so.2":                    "unusual",
		"/opt/lib/libfl.so.2":              "unusual",
		"-lstdc++ -l:libstdc++.a":          "any c++",
		"-Wl,-Bstatic -lm -Wl,-Bdynamic":   "any",
		"-Wl,-Bstatic -lc -Wl,-Bdynamic":   "any c",
		"-l:libc.a":                        "any c",
		"-Wl,-Bstatic":                     "any c c++",
		"-static":                          "any c c++",
		"-static-libstdc++":                "any c++",
		"-static-libgcc":                   "any",
		"-static-pie":                      "any c c++",
		"-l:libx.so.1":                     "unusual",
		"-lm -l:libc++.so.1 bazel-out/x.o": "",
		"-l:libc++.a bazel-out/k8/bin/x.o": "unusual any c++",
		"bazel-out/k8/bin/x.o -l:libc++.a": "any c++",
		"bazel-out/k8/bin/libx.a a.so -lm": "unusual",
	} {
		l := parse(line)
		var words []string
		in := l.StaticLibraries()
		for _, w := range []struct {
			on   bool
			name string
		}{{len(l.Unusual) > 0, "unusual"}, {in.Any, "any"}, {in.C, "c"}, {in.Cxx, "c++"}} {
			if w.on {
				words = append(words, w.name)
			}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// Code and SystemInputs don't depend on the kind of output.
func TestCode(t *testing.T) {
	for _, c := range []struct{ a, b, differ string }{
		{"-pie -lm -Wl,-rpath,/x -L/x", "-shared -Wl,-Bsymbolic -Wl,-soname,y -lm", "code system"},
		{"-pie -lm", "-shared -lm -Wl,-soname,y", ""},
		{"-pie -lm", "-Wl,-shared -lm -Wl,-z,now", "code"},
		{"-O1 -O2 -lm", "-O2 -lm", "code system"},
		{"-lm", "-lm -lz", "system"},
		{"-nostdlib", "", "code system"},
	} {
		a, b := parse(c.a), parse(c.b)
		var differ []string
		if a.Code() != b.Code() {
			differ = append(differ, "code")
		}
		if a.SystemInputs() != b.SystemInputs() {
			differ = append(differ, "system")
		}
		if got := strings.Join(differ, " "); got != c.differ {
			t.Errorf("%s and %s differ: %q, want %q", c.a, c.b, got, c.differ)
		}
	}
}

func TestProbe(t *testing.T) {
	for _, c := range []struct{ line, compile, link string }{
		{"-o x bazel-out/a.o -lm -Wl,--version-script=x -u a -Wl,--gc-sections", "", "-Wl,--no-as-needed -lm"},
		{"-m32 -L/opt -Lbazel-out/k8/bin -Wl,--start-group,--whole-archive,--as-needed,-Bstatic,-lx,-Bdynamic -ly",
			"-m32", "-m32 -L/opt -Wl,--no-as-needed -ly -Wl,-Bstatic -lx -Wl,-Bdynamic"},
		{"-static -lx -Wl,-Bdynamic -ly", "-static", "-static -Wl,--no-as-needed -Wl,-Bdynamic -ly -Wl,-Bstatic -lx -Wl,-Bdynamic"},
		{"-pthread -lx -pthread -pthread", "-pthread", "-pthread -Wl,--no-as-needed -lx"},
		{"-Wl,--format=binary bazel-out/a.bin b.bin -Wl,--format=default -lx", "", "-Wl,--no-as-needed -lx"},
		{"-r -Wl,-r -mllvm -x", "-mllvm -x", "-mllvm -x -Wl,--no-as-needed"},
	} {
		compile, link := parse(c.line).Probe()
		if got := strings.Join(compile, " "); got != c.compile {
			t.Errorf("%s: compile %s, want %s", c.line, got, c.compile)
		}
		if got := strings.Join(link, " "); got != c.link {
			t.Errorf("%s: link %s, want %s", c.line, got, c.link)
		}
	}
}

func TestDirectives(t *testing.T) {
	for _, c := range []struct{ section, content, want string }{
		{words.DependentLibraries, "", ""},
		{words.DependentLibraries, "m\x00libz.so\x00/opt/libx.a\x00", "items: -lm -l:libz.so /opt/libx.a"},
		{words.LinkerOptions, "lib\x00m\x00", "items: -lm"},
		{words.LinkerOptions, "lib\x00m\x00foo\x00bar\x00", "items: -lm; flags: --directive=foo,bar; unusual: unknown flag --directive=foo,bar"},
		{words.LinkerOptions, "lib", "flags: --directive=lib; unusual: unknown flag --directive=lib"},
		{".drectve", "x", "flags: --directive=.drectve; unusual: unknown flag --directive=.drectve"},
	} {
		if got := dump(Parse(words.Directives(c.section, []byte(c.content)), Options{})); got != c.want {
			t.Errorf("%s %q\n got %s\nwant %s", c.section, c.content, got, c.want)
		}
	}
}

// The table has values where the linkers here have them: whoever takes one for a file reads another line.
func TestKnownToTheLinker(t *testing.T) {
	ld, err := exec.LookPath("ld")
	if err != nil {
		t.Skip("no linker")
	}
	help, err := exec.Command(ld, "--help").Output()
	if err != nil {
		t.Skip(err)
	}
	flag := regexp.MustCompile(`^--([\w-]+)( ?\[=)?([ =]+([A-Z]{3,}\b|<|\[none|name\|))?`)
	known := 0
	var missing []string
	for line := range strings.Lines(string(help)) {
		if strings.HasPrefix(line, "i386pe") {
			break // for Windows
		}
		if !strings.HasPrefix(line, "  -") {
			continue
		}
		for w := range strings.SplitSeq(strings.SplitN(strings.TrimSpace(line), "  ", 2)[0], ", ") {
			if !strings.HasPrefix(w, "--") {
				continue
			}
			m := flag.FindStringSubmatch(w)
			name, optional, value := m[1], m[2] != "", m[3] != ""
			k, ok := linkerFlags[name]
			switch {
			case !ok:
				missing = append(missing, w)
			case k.separate != value || k.joined != (value || optional):
				t.Errorf("%s: %+v", w, k)
			default:
				known++
			}
		}
	}
	if known < 100 {
		t.Errorf("%d flags of %s are in the table", known, ld)
	}
	t.Logf("unusual, as they aren't in the table: %q", missing)
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{
		"-o x a.o -lm -Wl,-z,now", "-Wl,--push-state,--as-needed\n-lx\n-Wl,--pop-state", "@a.rsp", "-Xlinker", "-Wl,-rpath", "-static\n-Wl,-Bdynamic,-lx", "-e\n-T\n-uX\n-znow", "-Wl,-(\n-Wl,,",
		"-Bstatic\n--entry", "-Wl,-O\n-Wl,-O=1\n-Wl,-z=now", "-Xlinker\n-rpath\n-Xlinker\na,b\n-L\n", "-l\n", "-specs\nx", "-Wl,@ld.rsp", "@self.rsp",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\n")
		stable(t, args, Parse(args, Options{Open: open}))
		words.Directives(words.LinkerOptions, []byte(s))
		words.Split(s)
	})
}

func TestIsSystemLibrary(t *testing.T) {
	for name, want := range map[string]bool{
		"libm.so.6": true, "libgcc_s.so.1": true, "libstdc++.so.6": true, "libc++abi.so.1.0": true, "ld-linux-x86-64.so.2": true, "libnss_files.so.2": true,
		"libomp.so": true, "libclang_rt.asan-x86_64.so": true,
		// Libraries of the build have no version.
		"libm.so": false, "libutil.so": false, "libgcc_o.so.1": false, "libm.a": false, "m": false,
	} {
		if got := IsSystemLibrary(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
