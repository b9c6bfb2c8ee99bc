# shellcheck shell=bash
# built.sh - to be sourced by a test of programs: . tests/built.sh TARGET... Ends it with one line
# where they are missing, or older than their sources: that would test another version. The targets
# are those of make; "programs" are the programs in BIN. run.sh has built them all. The test's own
# arguments stay: `set` would change them.
if [ -z "${BUILT-}" ]; then
    built=("$@")
    case $*:${BIN:-.} in
    programs:.) built=(all) ;;
    programs:build/asan) built=(build/asan/programs) ;;
    programs:*) built=("$BIN/tools/vit-convert") ;; # its flags are not known here
    esac
    if [[ ${built[0]} == "${BIN-}/tools/vit-convert" ]]; then
        [ -e "${built[0]}" ] ||
            { echo "${0##*/}: ${built[0]} is missing: build the programs of $BIN first"; exit 2; }
    elif ! make -q "${built[@]}" 2>/dev/null; then
        echo "${0##*/}: missing, or older than the sources; first: make -j2 ${built[*]}"
        exit 2
    fi >&2
fi
