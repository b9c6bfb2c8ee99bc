# shellcheck shell=bash
# built.sh - to be sourced by a test of programs: . tests/built.sh [TARGET...]. Ends it with one line
# where they are missing, or older than their sources: that would test another version. The targets
# are those of make; none: the programs in BIN. run.sh has built them all.
if [ -z "${BUILT-}" ]; then
    case $#:${BIN:-.} in
    0:.) set -- all ;;
    0:build/asan) set -- build/asan/programs ;;
    0:*) set -- "$BIN/tools/vit-convert" ;; # by flags that this does not know: there, or not
    esac
    if [[ $1 == "${BIN-}/tools/vit-convert" ]]; then
        [ -e "$1" ] || { echo "${0##*/}: $1 is missing: build the programs of $BIN first"; exit 2; }
    elif ! make -q "$@" 2>/dev/null; then
        echo "${0##*/}: missing, or older than the sources; first: make -j2 $*"
        exit 2
    fi >&2
fi
