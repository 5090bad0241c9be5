package main

// cjson is the story of cJSON, a JSON library in C. Its tests include cJSON.c,
// so that every edit of that file changes every test program: the hardest case
// for a build system that compares files, and a common one.
//
// What a test reaches was also counted without rules_tasting, in the
// relocations of the tests' objects built with -O0 -ffunction-sections.
var cjson = &story{
	name:    "cjson",
	sources: []source{{"cjson@1.7.18", "upstream"}},
	tests:   cjsonTests,
	rule:    true,
	chapters: []chapter{
		{
			title:  "first run",
			tells:  "No test has a record: all are executed.",
			expect: expectation{executed: cjsonTests},
		},
		{
			title:  "no change",
			tells:  "The same command again: Bazel itself has nothing to do.",
			expect: expectation{others: cached},
		},
		{
			title: "comments and layout",
			tells: "cJSON.c is indented anew, with more comments; no test is executed.",
			edit:  reformat("upstream/cJSON.c"),
		},
		{
			title:  "one function",
			tells:  "cJSON_Compare compares pointers before strings: the tests that reach it are executed.",
			edit:   steps(restore("."), editCompare),
			expect: expectation{executed: reachCompare, others: replayed},
		},
		{
			title:  "reverted",
			tells:  "cJSON_Compare is as before: every result is on record.",
			edit:   restore("."),
			expect: expectation{others: replayed},
		},
		{
			title: "one type",
			tells: "A new field in struct printbuffer: the tests that reach a user of the type are executed.",
			edit: replace("upstream/cJSON.c",
				"    internal_hooks hooks;\n} printbuffer;",
				"    internal_hooks hooks;\n    size_t high_water_mark;\n} printbuffer;"),
			expect: expectation{
				executed: []string{
					"json_patch_tests", "misc_tests", "old_utils_tests", "parse_examples", "print_array", "print_number",
					"print_object", "print_string", "print_value", "readme_examples",
				},
				others: replayed,
			},
		},
		{
			title: "a bug",
			tells: "minify_string no longer knows \\\": both tests that reach it are executed, one of them fails.",
			edit: steps(restore("."), replace("upstream/cJSON.c",
				`} else if (((*input)[0] == '\\') && ((*input)[1] == '\"')) {`,
				`} else if (((*input)[0] == '/') && ((*input)[1] == '\"')) {`)),
			expect: expectation{
				executed: []string{"minify_tests", "misc_tests"},
				failed:   []string{"minify_tests"},
				others:   replayed,
			},
		},
		{
			title:  "bug fixed",
			tells:  "The failure left no record that could be replayed; the passes before it did.",
			edit:   restore("."),
			expect: expectation{others: replayed},
		},
		{
			title:  "another branch",
			tells:  "A new branch gets the change of cJSON_Compare from above: those results are on record as well.",
			edit:   steps(git("switch", "--quiet", "--create", "compare"), editCompare, func(c checkout) error { return c.commit("Compare pointers first") }),
			expect: expectation{others: replayed},
		},
		{
			title:     "another checkout",
			tells:     "A clone of that branch elsewhere, for whose Bazel everything is new: it shares the records.",
			elsewhere: true,
			edit:      git("switch", "--quiet", "compare"),
			expect:    expectation{others: replayed},
		},
	},
}

var cjsonTests = []string{
	"cjson_add", "compare_tests", "json_patch_tests", "minify_tests", "misc_tests", "misc_utils_tests",
	"old_utils_tests", "parse_array", "parse_examples", "parse_hex4", "parse_number", "parse_object",
	"parse_string", "parse_value", "parse_with_opts", "print_array", "print_number", "print_object",
	"print_string", "print_value", "readme_examples",
}

// reachCompare are the tests that reach cJSON_Compare.
var reachCompare = []string{"compare_tests", "json_patch_tests", "misc_tests", "parse_with_opts"}

var editCompare = replace("upstream/cJSON.c",
	"if (strcmp(a->valuestring, b->valuestring) == 0)",
	"if (a->valuestring == b->valuestring || strcmp(a->valuestring, b->valuestring) == 0)")
