package main

// leveldb is the story of LevelDB, a key-value store in C++, whose tests take
// real time, some of it waiting. The example's BUILD file has plain cc_tests:
// tasting test runs them.
//
// What a test reaches was also found without rules_tasting: as for fmtlib.
var leveldb = &story{
	name:          "leveldb",
	sources:       []source{{"leveldb@1.23", "upstream"}, {"googletest@1.18.0", "googletest"}},
	tests:         leveldbTests,
	sharedObjects: true,
	faster:        true,
	chapters: []chapter{
		{
			title:  "cold",
			tells:  "All is built, but no test has a record: all are executed.",
			expect: expectation{executed: leveldbTests},
		},
		{
			title: "a comment",
			tells: "A comment in slice.h, which nearly all of LevelDB includes: that is compiled.",
			// Behind the last assert: what is in front of one moves __LINE__.
			edit: replace("upstream/include/leveldb/slice.h",
				"inline int Slice::compare(const Slice& b) const {\n",
				"// Bytes are compared as unsigned ones; a prefix comes first.\ninline int Slice::compare(const Slice& b) const {\n"),
			expect: expectation{others: replayed},
		},
		{
			title: "a leaf: crc32c",
			tells: "crc32c::Extend ends its last loop in another way: the tests that reach it are executed.",
			edit: replace("upstream/util/crc32c.cc",
				"  // Process the last few bytes.\n  while (p != e) {\n",
				"  // Process the last few bytes.\n  while (p < e) {\n"),
			expect: expectation{
				executed: []string{
					"c_test", "corruption_test", "crc32c_test", "fault_injection_test", "issue178_test",
					"issue200_test", "issue320_test", "log_test", "memenv_test", "recovery_test", "table_test",
				},
				others: replayed,
			},
		},
		{
			title: "the core: skip list",
			tells: "SkipList::FindGreaterOrEqual ends at its lowest level in another way: the tests that reach it are executed.",
			edit: replace("upstream/db/skiplist.h",
				"      if (level == 0) {\n        return next;\n",
				"      if (level <= 0) {\n        return next;\n"),
			expect: expectation{
				executed: []string{
					"c_test", "corruption_test", "fault_injection_test", "issue178_test", "issue200_test",
					"issue320_test", "memenv_test", "recovery_test", "skiplist_test", "table_test", "write_batch_test",
				},
				others: replayed,
			},
		},
		{
			title:  "reverted",
			tells:  "Both functions are as before: every result is on record.",
			edit:   restore("upstream/util/crc32c.cc", "upstream/db/skiplist.h"),
			expect: expectation{others: replayed},
		},
		{
			title:     "another checkout",
			tells:     "A clone of what was fetched, for whose Bazel everything is new: it shares the records.",
			elsewhere: true,
			expect:    expectation{others: replayed},
		},
	},
}

var leveldbTests = []string{
	"arena_test", "bloom_test", "c_test", "cache_test", "coding_test", "corruption_test", "crc32c_test",
	"dbformat_test", "env_posix_test", "env_test", "fault_injection_test", "filename_test", "filter_block_test", "hash_test",
	"issue178_test", "issue200_test", "issue320_test", "log_test", "logging_test", "memenv_test", "no_destructor_test",
	"recovery_test", "skiplist_test", "status_test", "table_test", "version_edit_test", "version_set_test", "write_batch_test",
}
