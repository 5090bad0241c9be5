"""The rule that cJSON's tests use.

This is all that a project changes to have recorded results replayed: the
tour's plain Bazel reads `unity_test = cc_test` below, and nothing else differs.
"""

load("@rules_tasting//rules:defs.bzl", "tasting_cc_test")

unity_test = tasting_cc_test
