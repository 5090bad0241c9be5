"""Public symbols of rules_tasting.

Load from this file only: everything under `//rules/private` may change at any
time. Flags are documented beside their definition in `//rules/BUILD.bazel`,
and all of it in docs/reference/rules.md.
"""

load("//rules/private:aspect.bzl", _tasting_aspect = "tasting_aspect")
load("//rules/private:cc_test.bzl", _tasting_cc_test = "tasting_cc_test")
load("//rules/private:providers.bzl", _TastingInfo = "TastingInfo")
load("//rules/private:test_runner.bzl", _tasting_test_runner_toolchain = "tasting_test_runner_toolchain")
load("//rules/private:toolchain.bzl", _tasting_toolchain = "tasting_toolchain")

tasting_cc_test = _tasting_cc_test
tasting_aspect = _tasting_aspect
tasting_toolchain = _tasting_toolchain
tasting_test_runner_toolchain = _tasting_test_runner_toolchain
TastingInfo = _TastingInfo
