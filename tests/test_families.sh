#!/usr/bin/env bash
# Tests two tables of models/COVERAGE.md. The first table lists families beyond timm's list of
# 2026-08; tests/make_families.py wrote the models and PyTorch's outputs. The second table lists
# models that give the same tensors, settings and output as safetensors, GGUF (F32) and ONNX;
# tests/make_containers.py wrote the files. The test compares the rows of COVERAGE.md with the rows
# that it computes, except for the digits of differences.
#
#     bash tests/test_families.sh            compares
#     bash tests/test_families.sh --table    prints the tables for COVERAGE.md
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=${BIN:-.}
. tests/built.sh programs
. tests/checks.sh
tables=$work/tables

# opens FILE OPTIONS: converts FILE. Writes its tensors to FILE.tensors and its settings to
# FILE.config, in $work
opens() {
    local name
    name=$work/$(basename "$1")
    # shellcheck disable=SC2086 # options are words
    "$BIN/tools/vit-convert" "$1" -o "$name.vit" --json $2 >"$work/out" 2>"$work/err" &&
        grep -o '"config": {[^}]*}' "$work/out" >"$name.config" &&
        "$BIN/tools/vit-convert" "$name.vit" --to safetensors -o "$name.tensors" >/dev/null 2>"$work/err" &&
        "$BIN/tools/vit-run" -m "$name.vit" --input tests/data/containers/x.npy "$output" "$name.npy" \
            >/dev/null 2>"$work/err"
}

# same NAME CONTAINER WHAT: passes if the container gives the same WHAT as the safetensors file
same() {
    if cmp -s "$work/$1.safetensors.$3" "$work/$1.$2.$3"; then pass
    else fail "$1.$2: other $3 than those of the safetensors" && is_same=no; fi
}

# distance OURS THEIRS: sets `difference` to the largest difference of the two arrays, and fails if
# it is above 2e-5
distance() {
    if "$work/compare_npy" "$1" "$2" 2e-5 >"$work/err"; then pass; else fail "$2: too far"; fi
    difference=$(cat "$work/err")
}

"${CC:-cc}" -std=c99 -O1 tests/compare_npy.c -lm -o "$work/compare_npy" 2>"$work/err" ||
    fail "compare_npy.c: should compile"

# line CASE FILE: prints the line of CASE in the list FILE
line() { sed -n "s/^$1 *| *//p" "$2"; }

# runs CASE: converts and runs the case. Sets supported, compared and difference
runs() {
    local folder=tests/data/families/$1 file options result what=logits
    IFS='|' read -r file options result <<<"$(line "$1" tests/data/families/cases.txt)"
    result=$(trim "$result") supported=yes
    if [[ ! $result =~ ^[0-9] ]]; then # test_own.sh shows the refusal
        supported="no: $result" compared="" difference=""
        return
    fi
    [ ! -f "$folder/tokens.npy" ] || what=tokens
    [ ! -f "$folder/merged.npy" ] || what=merged
    # shellcheck disable=SC2086
    check "$1 should be converted" "$BIN/tools/vit-convert" "$folder/$(trim "$file")" -q -o "$work/m.vit" $options
    check "$1 should run" "$BIN/tools/vit-run" -m "$work/m.vit" --input "$folder/x.npy" "--$what" "$work/y.npy"
    compared=$what
    if [ $what != logits ]; then distance "$work/y.npy" "$folder/$what.npy"
    else distance "$work/y.npy" "$folder/y.npy"; fi
}

# renamed CASE: sets the variables of `runs`, for a layout that test_layouts.sh converts
renamed() {
    local file options twin message
    IFS='|' read -r file options twin message <<<"$(line "$1" tests/data/layouts/cases.txt)"
    twin=$(trim "$twin") difference="" compared="" supported="no: $(trim "$message")"
    [ -n "$twin" ] || return 0
    supported=yes compared="the tensors and settings of $twin" difference=none
}

# tags PATTERN: sets the variables of `runs`, for the tags of timm in COVERAGE.md
tags() {
    awk -F ' [|] ' -v pattern="^[|] $1" '
        $0 !~ pattern || !/[.]/ { next }
        { tags++ }
        $2 == "yes" { yes++ }
        { for (i = 3; i <= 5; i++) if ($i + 0 > most) most = $i + 0 }
        END { printf "%d of %d tags|%.1e\n", yes, tags, most }' models/COVERAGE.md >"$work/tags"
    IFS='|' read -r compared difference <"$work/tags"
    supported=yes
    if [[ $compared =~ ^([1-9][0-9]*)\ of\ ([0-9]+) && ${BASH_REMATCH[1]} = "${BASH_REMATCH[2]}" ]]; then pass
    else fail "$1: $compared"; fi
}

# places TEXTS: counts the entries in "FILE:TEXT , FILE:TEXT". Each text must be in its source file.
# Sets count and files
places() {
    local place rest=$1
    count=0 files=""
    while [ -n "$rest" ]; do
        place=$(trim "${rest%% , *}")
        if grep -qF -- "${place#*:}" "${place%%:*}"; then pass; else fail "$place: not there"; fi
        count=$((count + 1))
        [[ " $files " == *" $(basename "${place%%:*}") "* ]] || files="$files $(basename "${place%%:*}")"
        [[ $rest == *" , "* ]] && rest=${rest#* , } || rest=
    done
    if [ $count = 0 ]; then files=none; else files="$count:${files// /, }"; fi
    files=${files/:,/ in}
}

families() {
    local family weights fixture sources supported compared difference count files
    while IFS='|' read -r family weights fixture sources; do
        fixture=$(trim "$fixture") case=$(trim "$family")
        case $fixture in
        tags\ *) tags "${fixture#tags }" ;;
        layouts\ *) renamed "${fixture#layouts }" ;;
        *) runs "$fixture" ;;
        esac
        case=$(trim "$family")
        places "$(trim "$sources")"
        echo "| $case | $(trim "$weights") | $supported | $compared | $difference | $files |" >>"$tables"
    done <tests/data/families/families.txt
}

# containers: prints a row for each model
containers() {
    local name title options container output is_same
    while IFS='|' read -r name title options[0] options[1] options[2]; do
        name=$(trim "$name") case=$name is_same=yes output=--logits
        [ "$name" != siglip ] && [ "$name" != dinov2 ] || output=--embedding # neither has a head
        for container in safetensors gguf onnx; do
            opens "tests/data/containers/$name.$container" "${options[0]}" || fail "$name.$container: should run"
            options=("${options[@]:1}")
        done
        for container in gguf onnx; do
            same "$name" $container tensors
            same "$name" $container config
            same "$name" $container npy
        done
        distance "$work/$name.safetensors.npy" "tests/data/containers/$name.npy"
        echo "| $(trim "$title") | $(grep -ao '"shape"' "$work/$name.safetensors.tensors" | wc -l) |" \
            "$(grep -o '"[a-z_]*": ' "$work/$name.safetensors.config" | wc -l) | $is_same | $difference |" >>"$tables"
    done <tests/data/containers/cases.txt
}

cat >"$tables" <<'END'
## Families beyond timm's list, by tests/test_families.sh

tests/make_families.py defines each family after its published code, with two or three blocks and
random weights; PyTorch computes the outputs. The table shows the largest difference, relative to the
largest output. A family is supported if its difference is below 2e-05. The tags in the
column "compared" are rows of the tables above. The last column counts the places in the source
code that were changed for a family.

| family | weights | supported | compared | difference | places |
|---|---|---|---|---|---|
END
families
cat >>"$tables" <<'END'

## The same model as safetensors, GGUF and ONNX, by tests/test_families.sh

tests/make_containers.py wrote each model in three containers. The test compares the tensors, the
settings and all bits of the output. The last column shows the largest difference from PyTorch's
output, relative to the largest output.

| model | tensors | settings | the same from all three | difference |
|---|---|---|---|---|
END
containers

if [ "${1-}" = --table ]; then
    cat "$tables"
    summary >&2
    exit
fi
digits='s/[0-9.]*e-[0-9]*/E/g' # other instructions round differently
case=
if diff <(sed -n '/^## Families beyond/,$p' models/COVERAGE.md | sed "$digits") <(sed "$digits" "$tables") >"$work/err"
then pass; else fail "models/COVERAGE.md: run tests/test_families.sh --table"; fi

summary
