package ordinary

// A project is sources that tools/corpus fetches, with libraries and tests as BUILD files have them.
type project struct {
	name  string
	flags []string          // of all its units; {NAME} stands for the directory of a project
	files map[string]string // what a configure step would write
	libs  []library         // each before those that it depends on
	tests []program
	edits edits
}

// A library is a cc_library. Names of others are global. Sources are patterns below the project's directory;
// one with "!" in front leaves files out.
type library struct {
	name     string
	srcs     []string
	deps     []string
	linkopts []string
}

// A program is a cc_test.
type program struct {
	name string
	srcs []string
	deps []string
}

// edits are what the nine kinds of edits change, where that isn't the same for all projects. Unit is
// the source that is edited, and the tests are those that reach what is edited: they must be selected.
type edits struct {
	library, unit string
	reached       [2]string // text before and behind
	reachedBy     []string
	tableIn       string // another unit than that
	table         [2]string
	tableBy       []string
	swap          string // how a function begins that changes places with the next one
}

var projects = []project{{
	name:  "googletest",
	flags: []string{"-I{googletest}/googletest/include", "-I{googletest}/googletest", "-I{googletest}/googlemock/include"},
	libs: []library{
		{name: "sample1", srcs: []string{"googletest/samples/sample1.cc"}},
		{name: "gtest_main", srcs: []string{"googletest/src/gtest_main.cc"}, deps: []string{"gtest"}},
		{name: "gtest", srcs: []string{"googletest/src/*.cc", "!googletest/src/gtest-all.cc", "!googletest/src/gtest_main.cc"}, linkopts: []string{"-pthread"}},
	},
	tests: []program{
		{"sample1_unittest", []string{"googletest/samples/sample1_unittest.cc"}, []string{"sample1", "gtest_main"}},
		{"sample8_unittest", []string{"googletest/samples/sample8_unittest.cc"}, []string{"gtest_main"}},
		{"sample5_unittest", []string{"googletest/samples/sample5_unittest.cc"}, []string{"sample1", "gtest_main"}},
		{"sample6_unittest", []string{"googletest/samples/sample6_unittest.cc"}, []string{"gtest_main"}},
	},
	edits: edits{
		library: "sample1", unit: "googletest/samples/sample1.cc",
		reached: [2]string{"int result = 1;", "int result = 2;"}, reachedBy: []string{"sample1_unittest", "sample5_unittest"},
		tableIn: "googletest/src/gtest-filepath.cc", table: [2]string{`kCurrentDirectoryString[] = "./"`, `kCurrentDirectoryString[] = "./."`},
		tableBy: []string{"sample1_unittest", "sample5_unittest", "sample6_unittest", "sample8_unittest"},
		swap:    "int Factorial(",
	},
}, {
	name:  "leveldb",
	flags: []string{"-I{leveldb}", "-I{leveldb}/include", "-I{googletest}/googletest/include", "-DHAVE_FDATASYNC=1", "-DHAVE_O_CLOEXEC=1", "-DLEVELDB_PLATFORM_POSIX=1"},
	libs: []library{
		{name: "leveldb", srcs: []string{
			"db/*.cc", "table/*.cc", "util/*.cc", "!*/*_test.cc", "!db/leveldbutil.cc", "!util/env_windows.cc", "!util/histogram.cc", "!util/testutil.cc",
		}, linkopts: []string{"-pthread"}},
	},
	tests: []program{
		{"coding_test", []string{"util/coding_test.cc"}, []string{"leveldb", "gtest_main"}},
		{"status_test", []string{"util/status_test.cc"}, []string{"leveldb", "gtest_main"}},
		{"crc32c_test", []string{"util/crc32c_test.cc"}, []string{"leveldb", "gtest_main"}},
		{"c_test", []string{"db/c_test.c"}, []string{"leveldb"}},
	},
	edits: edits{
		library: "leveldb", unit: "util/coding.cc",
		reached: [2]string{"char buf[5];", "char buf[7];"}, reachedBy: []string{"coding_test", "c_test"},
		tableIn: "util/crc32c.cc", table: [2]string{"0xf26b8303", "0xf26b8304"}, tableBy: []string{"crc32c_test", "c_test"},
		swap: "void PutFixed32(",
	},
}, {
	name:  "abseil",
	flags: []string{"-I{abseil}", "-I{googletest}/googletest/include", "-I{googletest}/googlemock/include"},
	libs: []library{
		{name: "absl_strings", srcs: []string{"absl/strings/*.cc", "absl/strings/internal/*.cc", "!absl/strings/*_test.cc", "!absl/strings/internal/*_test.cc", "!absl/strings/*_benchmark.cc", "!absl/strings/internal/*_benchmark.cc", "!absl/strings/cord*.cc", "!absl/strings/internal/cord*.cc", "!absl/strings/internal/generic_printer.cc", "!absl/strings/internal/pow10_helper.cc"}, deps: []string{"absl_base"}},
		{name: "absl_base", srcs: []string{
			"absl/base/log_severity.cc", "absl/base/throw_delegate.cc", "absl/base/internal/raw_logging.cc", "absl/base/internal/sysinfo.cc", "absl/base/internal/cycleclock.cc",
			"absl/base/internal/spinlock.cc", "absl/base/internal/spinlock_wait.cc", "absl/base/internal/thread_identity.cc", "absl/base/internal/unscaledcycleclock.cc", "absl/numeric/int128.cc",
		}, linkopts: []string{"-pthread"}},
	},
	tests: []program{
		{"ascii_test", []string{"absl/strings/ascii_test.cc"}, []string{"absl_strings", "gtest_main"}},
		{"match_test", []string{"absl/strings/match_test.cc"}, []string{"absl_strings", "gtest_main"}},
		{"strip_test", []string{"absl/strings/strip_test.cc"}, []string{"absl_strings", "gtest_main"}},
	},
	edits: edits{
		library: "absl_strings", unit: "absl/strings/match.cc",
		reached: [2]string{"return (text.size() >= suffix.size()) &&", "return (text.size() > suffix.size()) &&"}, reachedBy: []string{"match_test"},
		tableIn: "absl/strings/ascii.cc", table: [2]string{"0x40, 0x40, 0x40, 0x40, 0x40", "0x41, 0x40, 0x40, 0x40, 0x40"}, tableBy: []string{"ascii_test", "strip_test"},
		swap: "bool EqualsIgnoreCase(",
	},
}, {
	name:  "fmtlib",
	flags: []string{"-I{fmtlib}/include", "-I{googletest}/googletest/include"},
	libs:  []library{{name: "fmt", srcs: []string{"src/format.cc", "src/os.cc"}}},
	tests: []program{
		{"args_test", []string{"test/args-test.cc"}, []string{"fmt", "gtest_main"}},
		{"assert_test", []string{"test/assert-test.cc"}, []string{"fmt", "gtest_main"}},
	},
	edits: edits{library: "fmt", unit: "src/os.cc"},
}, {
	name:  "snappy",
	flags: []string{"-I{snappy}", "-I{googletest}/googletest/include", "-I{googletest}/googlemock/include", "-DHAVE_CONFIG_H=1"},
	files: map[string]string{
		"config.h": "#define HAVE_BUILTIN_CTZ 1\n#define HAVE_BUILTIN_EXPECT 1\n#define HAVE_FUNC_MMAP 1\n#define HAVE_FUNC_SYSCONF 1\n#define HAVE_SYS_MMAN_H 1\n#define HAVE_SYS_RESOURCE_H 1\n#define HAVE_SYS_TIME_H 1\n#define HAVE_SYS_UIO_H 1\n#define HAVE_UNISTD_H 1\n" +
			"#define SNAPPY_HAVE_SSSE3 0\n#define SNAPPY_HAVE_BMI2 0\n#define SNAPPY_IS_BIG_ENDIAN 0\n",
		"snappy-stubs-public.h": "#include <cstddef>\n#include <sys/uio.h>\n#define SNAPPY_MAJOR 1\n#define SNAPPY_MINOR 1\n#define SNAPPY_PATCHLEVEL 9\n#define SNAPPY_VERSION ((SNAPPY_MAJOR << 16) | (SNAPPY_MINOR << 8) | SNAPPY_PATCHLEVEL)\n",
	},
	libs: []library{
		{name: "snappy_test_support", srcs: []string{"snappy-test.cc", "snappy_test_data.cc"}, deps: []string{"snappy"}},
		{name: "snappy", srcs: []string{"snappy.cc", "snappy-c.cc", "snappy-sinksource.cc", "snappy-stubs-internal.cc"}},
	},
	tests: []program{{"snappy_unittest", []string{"snappy_unittest.cc"}, []string{"snappy_test_support", "gtest_main"}}},
	edits: edits{
		library: "snappy", unit: "snappy-sinksource.cc",
		reached: [2]string{"memcpy(dest_, data, n);", "memcpy(dest_ + 1, data, n);"}, reachedBy: []string{"snappy_unittest"},
		swap: "void ByteArraySource::Skip(",
	},
}, {
	name:  "tinyxml2",
	flags: []string{"-I{tinyxml2}"},
	libs:  []library{{name: "tinyxml2", srcs: []string{"tinyxml2.cpp"}}},
	tests: []program{{"xmltest", []string{"xmltest.cpp"}, []string{"tinyxml2"}}},
	edits: edits{
		library: "tinyxml2", unit: "tinyxml2.cpp",
		reached: [2]string{"_flags = flags | NEEDS_DELETE;", "_flags = flags + NEEDS_DELETE;"}, reachedBy: []string{"xmltest"},
		table: [2]string{`{ "amp", 3,		'&'  }`, `{ "amp", 3,		'%'  }`}, tableBy: []string{"xmltest"},
		swap: "void XMLUtil::ToStr( int v,",
	},
}, {
	name:  "cjson",
	flags: []string{"-DCJSON_EXPORT_SYMBOLS", "-DENABLE_LOCALES"},
	libs: []library{
		{name: "cjson_utils", srcs: []string{"cJSON_Utils.c"}, deps: []string{"cjson"}},
		{name: "cjson", srcs: []string{"cJSON.c"}, linkopts: []string{"-lm"}},
		{name: "unity", srcs: []string{"tests/unity/src/unity.c"}},
	},
	tests: []program{
		{"json_patch_tests", []string{"tests/json_patch_tests.c"}, []string{"cjson_utils", "unity"}},
		{"misc_utils_tests", []string{"tests/misc_utils_tests.c"}, []string{"cjson_utils", "unity"}},
		{"old_utils_tests", []string{"tests/old_utils_tests.c"}, []string{"cjson_utils", "unity"}},
		{"cjson_test", []string{"test.c"}, []string{"cjson"}},
	},
	edits: edits{
		library: "cjson_utils", unit: "cJSON_Utils.c",
		reached: [2]string{`+ sizeof("")`, "+ 2"}, reachedBy: []string{"json_patch_tests", "misc_utils_tests", "old_utils_tests"},
		swap: "static unsigned char* cJSONUtils_strdup(",
	},
}, {
	name:  "zlib",
	flags: []string{"-I{zlib}", "-DHAVE_UNISTD_H"},
	libs:  []library{{name: "z_built", srcs: []string{"*.c"}}},
	tests: []program{
		{"example", []string{"test/example.c"}, []string{"z_built"}},
		{"minigzip", []string{"test/minigzip.c"}, []string{"z_built"}},
	},
	edits: edits{
		library: "z_built", unit: "compress.c",
		reached: [2]string{"*destLen = 0;", "*destLen = 1;"}, reachedBy: []string{"example"},
		tableIn: "inftrees.c", table: [2]string{"3, 4, 5, 6, 7, 8, 9, 10, 11, 13", "3, 4, 5, 6, 7, 8, 9, 10, 11, 14"}, tableBy: []string{"example", "minigzip"},
		swap: "int ZEXPORT compress2(",
	},
}, {
	name:  "lz4",
	flags: []string{"-I{lz4}/lib", "-DXXH_NAMESPACE=LZ4_"},
	libs:  []library{{name: "lz4", srcs: []string{"lib/lz4.c", "lib/lz4hc.c", "lib/lz4frame.c", "lib/xxhash.c"}}},
	tests: []program{
		{"roundTripTest", []string{"tests/roundTripTest.c"}, []string{"lz4"}},
		{"decompress-partial", []string{"tests/decompress-partial.c"}, []string{"lz4"}},
		{"simple_buffer", []string{"examples/simple_buffer.c"}, []string{"lz4"}},
		{"frameCompress", []string{"examples/frameCompress.c"}, []string{"lz4"}},
	},
	edits: edits{
		library: "lz4", unit: "lib/lz4hc.c",
		reached: [2]string{"cLevel = LZ4HC_CLEVEL_DEFAULT;", "cLevel = 4;"}, reachedBy: []string{"roundTripTest", "frameCompress"},
		table: [2]string{"{ lz4hc,   128, 16 }", "{ lz4hc,   127, 16 }"}, tableBy: []string{"roundTripTest", "frameCompress"},
	},
}, {
	name:  "jansson",
	flags: []string{"-I{jansson}/src", "-DHAVE_CONFIG_H"},
	files: map[string]string{
		"src/jansson_private_config.h": "#define HAVE_ENDIAN_H 1\n#define HAVE_FCNTL_H 1\n#define HAVE_UNISTD_H 1\n#define HAVE_SYS_TIME_H 1\n#define HAVE_SYS_TYPES_H 1\n#define HAVE_STDINT_H 1\n#define HAVE_LOCALE_H 1\n#define HAVE_LOCALECONV 1\n#define HAVE_STRTOLL 1\n" +
			"#define HAVE_GETPID 1\n#define HAVE_GETTIMEOFDAY 1\n#define HAVE_OPEN 1\n#define HAVE_CLOSE 1\n#define HAVE_READ 1\n#define HAVE_ATOMIC_BUILTINS 1\n#define USE_URANDOM 1\n#define INITIAL_HASHTABLE_ORDER 3\n",
		"src/jansson_config.h": "#define JSON_INLINE inline\n#define JSON_INTEGER_IS_LONG_LONG 1\n#define JSON_HAVE_LOCALECONV 1\n#define JSON_HAVE_ATOMIC_BUILTINS 1\n#define JSON_HAVE_SYNC_BUILTINS 1\n#define JSON_PARSER_MAX_DEPTH 2048\n",
	},
	libs: []library{{name: "jansson", srcs: []string{"src/*.c", "!src/dtoa.c"}, linkopts: []string{"-lm"}}},
	tests: []program{
		{"test_array", []string{"test/suites/api/test_array.c"}, []string{"jansson"}},
		{"test_pack", []string{"test/suites/api/test_pack.c"}, []string{"jansson"}},
		{"test_version", []string{"test/suites/api/test_version.c"}, []string{"jansson"}},
	},
	edits: edits{
		library: "jansson", unit: "src/pack_unpack.c",
		reached: [2]string{"s->column = 0;", "s->column = 1;"}, reachedBy: []string{"test_array", "test_pack"},
		table: [2]string{`"object", "array"`, `"objekt", "array"`}, // of unpacking
		swap:  "int json_vunpack_ex(",
	},
}, {
	name:  "lua",
	flags: []string{"-DLUA_USE_POSIX"},
	libs:  []library{{name: "lua_lib", srcs: []string{"src/*.c", "!src/lua.c", "!src/luac.c"}, linkopts: []string{"-lm"}}},
	tests: []program{{"lua", []string{"src/lua.c"}, []string{"lua_lib"}}},
	edits: edits{
		library: "lua_lib", unit: "src/lcorolib.c",
		reached: [2]string{"return r + 1;", "return r + 2;"}, reachedBy: []string{"lua"},
		table: [2]string{`{"create", luaB_cocreate}`, `{"create", luaB_costatus}`}, tableBy: []string{"lua"},
		swap: "static int luaB_yieldable ",
	},
}, {
	name:  "bzip2",
	flags: []string{"-D_FILE_OFFSET_BITS=64"},
	libs: []library{{name: "bz2_built", srcs: []string{
		"blocksort.c", "huffman.c", "crctable.c", "randtable.c", "compress.c", "decompress.c", "bzlib.c",
	}}},
	tests: []program{
		{"bzip2", []string{"bzip2.c"}, []string{"bz2_built"}},
		{"unzcrash", []string{"unzcrash.c"}, []string{"bz2_built"}},
		{"mk251", []string{"mk251.c"}, []string{"bz2_built"}},
	},
	edits: edits{
		library: "bz2_built", unit: "huffman.c",
		reached: [2]string{"if (! tooLong) break;", "if (tooLong == 2) break;"}, reachedBy: []string{"bzip2", "unzcrash"},
		tableIn: "crctable.c", table: [2]string{"0x04c11db7L", "0x04c11db8L"}, tableBy: []string{"bzip2", "unzcrash"},
		swap: "void BZ2_hbAssignCodes ",
	},
}}
