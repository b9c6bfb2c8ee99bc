# shellcheck shell=bash
# built.sh - sourced by tests of programs. `. tests/built.sh programs` checks the programs in BIN.
# `. tests/built.sh TARGET...` checks these targets of make. If a program is missing or older than
# its sources, the test ends with a line that names the command of make. run.sh builds all of them.
is_built() { # a function, because `set` in a sourced file changes the test's arguments
    local targets=("$@")
    case $*:${BIN:-.} in
    programs:.) targets=(all) ;;
    programs:build/asan) targets=(build/asan/programs) ;;
    programs:*) # the flags are unknown, so only existence is checked
        [ -e "$BIN/tools/vit-convert" ] && return
        echo "${0##*/}: $BIN/tools/vit-convert is missing: build the programs of $BIN first"
        return 1
        ;;
    esac
    make -q --no-print-directory "${targets[@]}" >/dev/null 2>&1 && return
    echo "${0##*/}: missing, or older than the sources; first: make ${targets[*]}"
    return 1
}
[ -n "${BUILT-}" ] || is_built "$@" >&2 || exit 2
# The programs find the bundled model from their own folder.
[ "${BIN:-.}" = . ] || ln -sfn "$PWD/models" "$BIN/models"
