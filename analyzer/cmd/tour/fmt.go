package main

// fmtlib is the story of {fmt}, a formatting library in C++, mostly templates
// in headers, and of its tests in GoogleTest.
//
// What a test reaches was also found without rules_tasting: in its program,
// linked statically of objects built with -O0 -ffunction-sections, by what
// the linker's --gc-sections leaves in.
var fmtlib = &story{
	name:    "fmt",
	sources: []source{{"fmtlib@11.1.1", "upstream"}, {"googletest@1.18.0", "googletest"}},
	tests:   fmtTests,
	rule:    true,
	chapters: []chapter{
		{
			title:  "first run",
			tells:  "No test has a record: all are executed.",
			expect: expectation{executed: fmtTests},
		},
		{
			title: "a comment",
			tells: "More documentation of fmt::print in base.h, the header that all include: all is compiled.",
			// Behind the last FMT_ASSERT: what is in front of one moves __LINE__.
			edit: replace("upstream/include/fmt/base.h",
				" * Formats `args` according to specifications in `fmt` and writes the output\n * to `stdout`.\n",
				" * Formats `args` according to specifications in `fmt`.\n *\n * The output goes to `stdout`; a program that wants it elsewhere passes a file,\n * or formats to a string first.\n"),
		},
		{
			title: "one function",
			tells: "file::dup, in os.cc, tests its result in another way: the tests that reach it are executed.",
			edit: replace("upstream/src/os.cc",
				"  int new_fd = FMT_POSIX_CALL(dup(fd));\n  if (new_fd == -1)\n",
				"  int new_fd = FMT_POSIX_CALL(dup(fd));\n  if (new_fd < 0)\n"),
			expect: expectation{
				executed: []string{
					"color-test", "compile-test", "format-test", "gtest-extra-test", "os-test", "posix-mock-test", "printf-test",
				},
				others: replayed,
			},
		},
		{
			title: "one template",
			tells: "The formatter of fmt::join, in ranges.h, copies no empty separator: the tests that instantiate it are executed.",
			edit: replace("upstream/include/fmt/ranges.h",
				"    while (it != value.end) {\n      out = detail::copy<Char>(value.sep.begin(), value.sep.end(), out);\n",
				"    while (it != value.end) {\n      if (value.sep.size() != 0)\n        out = detail::copy<Char>(value.sep.begin(), value.sep.end(), out);\n"),
			expect: expectation{
				executed: []string{"compile-test", "ostream-test", "ranges-test", "xchar-test"},
			},
		},
		{
			title: "reverted",
			tells: "The function and the template are as before: every result is on record.",
			edit:  restore("upstream/src", "upstream/include/fmt/ranges.h"),
		},
	},
}

var fmtTests = []string{
	"args-test", "assert-test", "base-test", "chrono-test", "color-test", "compile-test",
	"enforce-checks-test", "format-impl-test", "format-test", "gtest-extra-test",
	"os-test", "ostream-test", "posix-mock-test", "printf-test", "ranges-test", "scan-test", "std-test",
	"unicode-test", "xchar-test",
}
