#!/usr/bin/env bash
# Vision transformers that people wrote themselves. Each is converted and must give PyTorch's
# logits, or is refused with a message. tests/make_own.py wrote the cases; tests/make_evidence.py
# wrote those whose files hold more than tensors, tests/make_code.py those with their Python,
# tests/make_families.py published families. Run from the root of the repository.
#
#     BIN=. bash tests/test_own.sh [CASE...]
set -u
cd "$(dirname "$0")/.."
BIN=${BIN:-.}
. tests/built.sh programs
. tests/checks.sh

# converts CASE FILE ARGUMENTS TOLERANCE
converts() {
    local output=logits expected=y.npy
    [ ! -f "$DATA/$1/tokens.npy" ] || output=tokens expected=tokens.npy
    # shellcheck disable=SC2086 # arguments are words
    if ! "$BIN/tools/vit-convert" "$DATA/$1/$2" -q -o "$work/model.vit" $3 2>"$work/err"; then
        fail "$1: should be converted"
    elif ! "$BIN/tools/vit-run" -m "$work/model.vit" --input "$DATA/$1/x.npy" \
        --$output "$work/y.npy" >/dev/null 2>"$work/err"; then fail "$1: should run"
    elif ! "$work/compare_npy" "$work/y.npy" "$DATA/$1/$expected" "$4" >"$work/err"; then
        fail "$1: other logits than PyTorch's"
    else pass; fi
}

# The options that --strict proposes give the same model as the assumptions.
# strict CASE FILE ARGUMENTS
strict() {
    local output=logits
    [ ! -f "$DATA/$1/tokens.npy" ] || output=tokens
    # shellcheck disable=SC2086
    "$BIN/tools/vit-convert" "$DATA/$1/$2" --strict -q -o "$work/strict.vit" $3 2>"$work/err" &&
        { pass && return; }
    given=$(sed -n 's/^give your model.s values, for example://p' "$work/err")
    # shellcheck disable=SC2086
    if ! eval "\"$BIN/tools/vit-convert\" \"$DATA/$1/$2\" -q -o \"$work/strict.vit\" $3 $given" \
        2>"$work/err"; then fail "$1: strict:$given"
    elif grep -q "assumed [a-z_]*=" "$work/err"; then fail "$1: still assumes with$given"
    elif ! "$BIN/tools/vit-run" -m "$work/strict.vit" --input "$DATA/$1/x.npy" \
        --$output "$work/strict.npy" >/dev/null 2>"$work/err" ||
        ! cmp -s "$work/strict.npy" "$work/y.npy"; then fail "$1: other logits with$given"
    else pass; fi
}

# refuses CASE FILE ARGUMENTS MESSAGE
refuses() {
    # shellcheck disable=SC2086
    if "$BIN/tools/vit-convert" "$DATA/$1/$2" -q -o "$work/model.vit" $3 2>"$work/err"; then
        fail "$1: should be refused"
    elif ! grep -qF -- "$4" "$work/err"; then fail "$1: expected \"$4\""
    else pass; fi
}

# reports CASE FILE ARGUMENTS TEXT: TEXT is printed about a model without stored logits
reports() {
    # shellcheck disable=SC2086
    if ! "$BIN/tools/vit-convert" "$DATA/$1/$2" -o "$work/model.vit" $3 >"$work/out" 2>"$work/err"
    then fail "$1: should be converted"
    elif ! grep -qF -- "$4" "$work/out" "$work/err"; then fail "$1: expected \"$4\""
    else pass; fi
}

"${CC:-cc}" -std=c99 -O1 tests/compare_npy.c -lm -o "$work/compare_npy" 2>"$work/err" ||
    fail "compare_npy does not compile"

for DATA in tests/data/evidence tests/data/code tests/data/families tests/data/own; do
while IFS='|' read -r name file options result; do
    name=$(trim "$name") file=$(trim "$file") options=$(trim "$options") result=$(trim "$result")
    wanted "$name" || continue
    case $result in
    [0-9]*)
        converts "$name" "$file" "$options" "$result"
        [[ $BIN != . || $options == *--match* ]] || strict "$name" "$file" "$options"
        ;;
    =*) reports "$name" "$file" "$options" "${result#=}" ;;
    *) refuses "$name" "$file" "$options" "$result" ;;
    esac
done <"$DATA/cases.txt"
done

# --plan prints the mapping in spite of open questions, with all blocks in one line.
if wanted unnamed_asked; then
    "$BIN/tools/vit-convert" "$DATA/unnamed_asked/"model* --plan -q >"$work/out" 2>"$work/err" &&
        fail "unnamed_asked: should ask"
    if [ "$(grep -c '^  blocks\.{0\.\.1}\.' "$work/out")" = 12 ]; then pass
    else fail "unnamed_asked: expected 12 lines for both blocks"; fi
fi

# The Python at the root of a repository is that of the checkpoints two folders inside.
if wanted far; then
    mkdir "$work/far" && cp -r tests/data/code/far/model "$work/far" && mkdir "$work/far/.git" &&
        cp tests/data/code/relu/model.py "$work/far"
    if "$BIN/tools/vit-convert" "$work/far/model/mnist/model.pt" -q -o "$work/far.vit" 2>"$work/err"
    then pass; else fail "far: the code is two folders above"; fi
fi

# Python that nests without an end does not end the converter.
if wanted unnamed_asked; then
    { echo 'if x: y = 1' && for ((i = 0; i < 200000; i++)); do echo 'elif x: y = 1'; done; } >"$work/long.py"
    "$BIN/tools/vit-convert" "$DATA/unnamed_asked/"model* --code "$work/long.py" -q -o "$work/long.vit" \
        >"$work/out" 2>"$work/err"
    if [ $? = 1 ]; then pass; else fail "a long chain of elif"; fi
fi

# SigLIP 2 NaFlex: every photo at its own aspect ratio, with PyTorch's embeddings (make_naflex.py).
if wanted naflex; then
    naflex=tests/data/naflex
    photos=("$naflex/wide.ppm" "$naflex/tall.ppm" "$naflex/square.ppm" "$naflex/thin.ppm")
    if ! "$BIN/tools/vit-convert" $naflex -q -o "$work/naflex.vit" >"$work/out" 2>"$work/err"
    then fail "naflex: should be converted"
    elif ! "$BIN/tools/vit-embed" -m "$work/naflex.vit" "${photos[@]}" -q -o "$work/naflex.npy" \
        >"$work/out" 2>"$work/err"; then fail "naflex: should have embeddings"
    elif ! "$work/compare_npy" "$work/naflex.npy" $naflex/y.npy 1e-5 >"$work/err"
    then fail "naflex: other embeddings than PyTorch's"
    elif "$BIN/tools/vit-embed" -m "$work/naflex.vit" --pool tokens -o "$work/t.npy" "${photos[@]}" \
        >"$work/out" 2>"$work/err" || ! grep -q "its own number of tokens" "$work/err"
    then fail "naflex: --tokens should be refused"
    elif "$BIN/tools/vit-run" -m "$work/naflex.vit" --embedding "$work/t.npy" "${photos[0]}" \
        >"$work/out" 2>"$work/err" || ! grep -q "tokens\|crop_mode=squash\|unsupported" "$work/err"
    then fail "naflex: vit-run should refuse it"
    else pass; fi
fi

summary
