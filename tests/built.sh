# shellcheck shell=bash
# built.sh - to be sourced by a test of programs. `. tests/built.sh programs` requires the programs
# in BIN, `. tests/built.sh TARGET...` these targets of make. If programs are missing, or are older
# than their sources and would test another version, ends the test with one line. run.sh builds them
# all.
is_built() { # a function, as `set` in a sourced file changes the arguments of the test
    local targets=("$@")
    case $*:${BIN:-.} in
    programs:.) targets=(all) ;;
    programs:build/asan) targets=(build/asan/programs) ;;
    programs:*) # by flags that this does not know: there, or not
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
# The bundled model is found from the folder of the programs.
[ "${BIN:-.}" = . ] || ln -sfn "$PWD/models" "$BIN/models"
