#!/usr/bin/env bash
# One model under the names of each library must become the same .vit tensors, bit for bit, and
# the same settings; what vit.h cannot run is refused by its name. tests/make_layouts.py wrote
# the cases. Run from the root of the repository.
#
#     BIN=. bash tests/test_layouts.sh [CASE...]
set -u
cd "$(dirname "$0")/.."
BIN=${BIN:-.}
CONVERT=$PWD/$BIN/tools/vit-convert
DATA=$PWD/tests/data/layouts
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) # much is written and synced
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
only=("$@")

pass() { passed=$((passed + 1)); }
fail() { # WHAT
    failed=$((failed + 1))
    echo "FAILED $1"
    sed 's/^/    /' "$work/err" 2>/dev/null | head -n 5
}

# convert FILE OUTPUT ARGUMENTS...: the model without a self-test, its settings in OUTPUT.config
convert() {
    local file=$1 output=$2
    shift 2
    "$CONVERT" "$file" -o "$output.vit" --json --set selftest_tolerance=0 "$@" \
        >"$work/out" 2>"$work/err" || return 1
    grep -o '"config": {[^}]*}' "$work/out" >"$output.config"
    "$CONVERT" "$output.vit" --to safetensors -o "$output.safetensors" >/dev/null 2>"$work/err"
}

refused() { # CASE FILE ARGUMENTS MESSAGE
    # shellcheck disable=SC2086 # arguments are words
    if "$CONVERT" "$DATA/$1/$2" -o "$work/refused.vit" $3 >"$work/out" 2>"$work/err"; then
        fail "$1: should be refused"
    elif ! grep -qF -- "$4" "$work/err"; then fail "$1: expected \"$4\""
    elif [ "$(wc -l <"$work/err")" != 1 ]; then fail "$1: more than one line"
    else pass; fi
}

equal() { # CASE FILE ARGUMENTS TWIN TWIN_ARGUMENTS
    # shellcheck disable=SC2086
    if ! convert "$DATA/$1/$2" "$work/a" $3; then fail "$1: should be converted"
    elif ! convert "$DATA/twins/$4.safetensors" "$work/b" $5; then fail "$1: its twin"
    elif ! cmp -s "$work/a.safetensors" "$work/b.safetensors"; then fail "$1: tensors differ"
    elif ! diff <(tr , '\n' <"$work/a.config") <(tr , '\n' <"$work/b.config") >"$work/err"; then
        fail "$1: settings differ"
    # back again: what was taken apart and put together is the twin, number for number
    elif ! same_numbers "$work/a.safetensors" "$DATA/twins/$4.safetensors"; then
        fail "$1: differs from the twin's file"
    else pass; fi
}

# The data of both files, which hold the same tensors in the same order. vit-convert writes a
# longer header (its own metadata), so only what follows it is compared.
same_numbers() {
    local size
    size=$(data_size "$2")
    [ "$(data_size "$1")" = "$size" ] &&
        cmp -s <(tail -c "$size" "$1") <(tail -c "$size" "$2")
}

data_size() { # FILE: bytes behind a safetensors header
    local header
    header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    echo $(($(wc -c <"$1") - header - 8))
}

trim() {
    local text=$1
    text=${text#"${text%%[! ]*}"}
    echo "${text%"${text##*[! ]}"}"
}

wanted() {
    local name
    [ ${#only[@]} = 0 ] && return 0
    for name in "${only[@]}"; do [ "$1" = "$name" ] && return 0; done
    return 1
}

while IFS='|' read -r name file options twin last; do
    name=$(trim "$name") file=$(trim "$file") options=$(trim "$options")
    twin=$(trim "$twin") last=$(trim "$last")
    wanted "$name" || continue
    if [ -n "$twin" ]; then equal "$name" "$file" "$options" "$twin" "$last"
    else refused "$name" "$file" "$options" "$last"; fi
done <"$DATA/cases.txt"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
