package main

// cppgtest is the story of a small C++ library of our own, with tests in
// GoogleTest. It is about code that runs without being named where it runs.
// It is compiled by clang, the others by the compiler that Bazel finds.
var cppgtest = &story{
	name:    "cpp_gtest",
	sources: []source{{"googletest@1.18.0", "googletest"}},
	flags:   []string{"--repo_env=CC=clang"},
	tests:   []string{"basket_test", "discount_test", "money_test", "parse_test"},
	rule:    true,
	chapters: []chapter{
		{
			title:  "first run",
			tells:  "No test has a record: all are executed.",
			expect: expectation{executed: []string{"basket_test", "discount_test", "money_test", "parse_test"}},
		},
		{
			title: "a comment",
			tells: "A comment in money.h, which all include: all is compiled.",
			edit:  replace("money.h", "// An amount of money, in cents.\n", "// An amount of money, in cents,\n// of no particular currency.\n"),
		},
		{
			title:  "a function",
			tells:  "Parse skips a sign in another way.",
			edit:   replace("money.cc", "negative ? text.substr(1) : text;", "text.substr(negative ? 1 : 0);"),
			expect: expectation{executed: []string{"parse_test"}, others: replayed},
		},
		{
			title:  "a template",
			tells:  "Basket::Take reserves nothing, but tests first: one test instantiates it.",
			edit:   replace("basket.h", "    int taken = 0;\n", "    int taken = 0;\n    if (lines_.empty()) return taken;\n"),
			expect: expectation{executed: []string{"basket_test"}},
		},
		{
			title:  "a virtual function",
			tells:  "Percent::Apply, reached through a virtual table that a factory names, rounds down: its test fails.",
			edit:   replace("percent.cc", "return total - total.Percent(percent_);", "return total - total.Percent(percent_) - Money(1);"),
			expect: expectation{executed: []string{"discount_test"}, failed: []string{"discount_test"}},
		},
		{
			title:  "an initialiser",
			tells:  "That is taken back, and vouchers register under another name, before main: the same test fails again.",
			edit:   steps(restore("percent.cc"), replace("voucher.cc", `voucher("voucher",`, `voucher("coupon",`)),
			expect: expectation{executed: []string{"discount_test"}, failed: []string{"discount_test"}},
		},
		{
			title:  "reverted",
			tells:  "All is as before: every result is on record.",
			edit:   restore("."),
			expect: expectation{others: replayed},
		},
	},
}
