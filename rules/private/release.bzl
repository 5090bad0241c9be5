"""Which release this is. A checkout is none: the analyzer is built from source there.

tools/release puts a file like this one into the archive of a release.
"""

visibility(["//rules"])

# The prebuilt `tasting` programs by the CPU that runs them, as in `@platforms//cpu`:
# struct(urls, sha256).
PROGRAMS = {}
