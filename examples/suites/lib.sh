# What these scripts share: sourced, not run.

# outside_tmp PATH...: nothing that one workspace uses of another place may be below /tmp.
outside_tmp() {
    for path; do
        case $(readlink -m -- "$path") in
        /tmp | /tmp/*)
            echo "${0##*/}: $path is below /tmp. Bazel's sandbox has a /tmp of its own, in which a workspace elsewhere finds nothing of it: name a path outside, such as ${HOME:-/var/tmp}/suites" >&2
            exit 2
            ;;
        esac
    done
}
