"""Persistent workers: one process of the analyzer runs many actions.

Each action reads small files for some milliseconds. A process and a sandbox of
its own would cost several times as much. Bazel falls back to these where it has
no workers, and under remote execution.
"""

visibility(["//rules", "//rules/..."])

# Execution requirements of an action whose arguments are the name of a command
# and then parameters().
WORKER = {
    "supports-multiplex-workers": "1",
    "supports-workers": "1",
}

def parameters(ctx):
    """Arguments that are handed to a worker.

    Args:
      ctx: context of a rule or aspect.

    Returns:
      Args, one on a line of a file
    """
    args = ctx.actions.args()
    args.set_param_file_format("multiline")
    args.use_param_file("@%s", use_always = True)
    return args
