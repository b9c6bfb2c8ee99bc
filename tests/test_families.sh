#!/usr/bin/env bash
# The same model in three containers, safetensors, GGUF (F32) and ONNX, gives the same tensors,
# settings and output. tests/make_containers.py wrote the models. models/COVERAGE.md states what this
# finds in a table, whose rows are compared, except for the last digits of differences.
#
#     bash tests/test_families.sh            compares
#     bash tests/test_families.sh --table    prints the table for COVERAGE.md
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=${BIN:-.}
. tests/built.sh programs
. tests/checks.sh
tables=$work/tables

# opens FILE OPTIONS: its tensors in FILE.tensors, its settings in FILE.config, both in $work
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

# same NAME CONTAINER WHAT: as from the safetensors
same() {
    if cmp -s "$work/$1.safetensors.$3" "$work/$1.$2.$3"; then pass
    else fail "$1.$2: other $3 than those of the safetensors" && is_same=no; fi
}

# distance OURS THEIRS: sets difference to the largest, and fails beyond 2e-5
distance() {
    if "$work/compare_npy" "$1" "$2" 2e-5 >"$work/err"; then pass; else fail "$2: too far"; fi
    difference=$(cat "$work/err")
}

"${CC:-cc}" -std=c99 -O1 tests/compare_npy.c -lm -o "$work/compare_npy" 2>"$work/err" ||
    fail "compare_npy.c: should compile"

# containers: the rows of the first table
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
## The same model as safetensors, GGUF and ONNX, by tests/test_families.sh

tests/make_containers.py wrote each model in three containers. The tensors, the settings and all bits
of the output are compared. Differences are the largest from PyTorch's output, relative to the largest
output.

| model | tensors | settings | the same from all three | difference |
|---|---|---|---|---|
END
containers

if [ "${1-}" = --table ]; then
    cat "$tables"
    summary >&2
    exit
fi
digits='s/[0-9.]*e-[0-9]*/E/g' # other instructions round otherwise
case=
if diff <(sed -n '/^## The same model/,$p' models/COVERAGE.md | sed "$digits") <(sed "$digits" "$tables") >"$work/err"
then pass; else fail "models/COVERAGE.md: run tests/test_families.sh --table"; fi

summary
