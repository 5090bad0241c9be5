"""Lanes of tests: what decides quickly, and what is exhaustive (CONTRIBUTING.md)."""

def _exhaustive_test_impl(ctx):
    executable = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = executable, target_file = ctx.executable.of, is_executable = True)
    providers = [p for p in [RunEnvironmentInfo, testing.ExecutionInfo] if p in ctx.attr.of]
    return [
        DefaultInfo(executable = executable, runfiles = ctx.runfiles([executable]).merge(ctx.attr.of[DefaultInfo].default_runfiles)),
    ] + [ctx.attr.of[p] for p in providers]

_exhaustive_test = rule(
    implementation = _exhaustive_test_impl,
    test = True,
    attrs = {"of": attr.label(mandatory = True, executable = True, cfg = "target")},
)

def exhaustive_test(name, tags = [], **kwargs):
    """A test once more, with other arguments: cases that take too long for each call.

    Args:
      name: name of the test.
      tags: its tags. `manual` keeps it out of `//...`; `//:exhaustive` has it.
      **kwargs: `of`, the test whose program it runs; every other attribute of a test.
    """
    _exhaustive_test(name = name, tags = tags + ["manual"], **kwargs)
