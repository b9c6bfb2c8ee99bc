#!/usr/bin/env bash
# Follows the proposals of vit-convert's messages literally. Each hand-written model of
# tests/make_own.py is converted without options. tests/data/own/cases.txt has the true options.
# The test then adds true options one after another, but only those that the last message contains.
# So each question must offer the true answer. If a model gives other logits than PyTorch's, a
# message must contain the wrong assumption. Each --rename or --ignore that a message spells out
# must lead to PyTorch's logits or to another message; if several proposals exclude each other, one
# of these proposals must lead there.
#
#     BIN=. bash tests/test_proposals.sh [CASE...]
set -u
cd "$(dirname "$0")/.."
BIN=${BIN:-.}
. tests/built.sh programs
. tests/checks.sh

DATA=tests/data/own

# convert OPTION...: returns 0 for PyTorch's logits, 1 for other logits, 2 for a refusal
convert() {
    tried="vit-convert $* $DATA/$name/$file"
    "$BIN/tools/vit-convert" "$DATA/$name/$file" -o "$work/model.vit" "$@" \
        >"$work/out" 2>"$work/err" || return 2
    "$BIN/tools/vit-run" -m "$work/model.vit" --input "$DATA/$name/x.npy" --logits "$work/y.npy" \
        >"$work/run" 2>&1 || return 1
    "$work/compare_npy" "$work/y.npy" "$DATA/$name/y.npy" "$tolerance" >"$work/far"
}

# names OPTION VALUE: true if the last message proposes this option with this value, or with a
# placeholder
names() {
    local key=${2%%=*} value=${2#*=} word='[^a-z_0-9.]'
    case $1 in
    --set) grep -qE "(^|$word)$key=((.*$word)?$value($word|\$)|[NMS]($word|\$))" "$work/err" ;;
    --img-size) grep -q -- "--img-size HxW" "$work/err" ;;
    --rename) grep -qF -- "--rename '$2'" "$work/err" ||
        grep -qF -- "--rename '$key=${value#*.}'" "$work/err" ;; # the message omits the common path
    *) grep -qF -- "$1 '$2'" "$work/err" ;;
    esac
}

# Prints the options that the message spells out with their values, one on each line. Options in
# assumptions do not count, because they are alternatives to the values that were used.
spelled_out() {
    grep -v "^vit-convert: assumed " "$work/err" | grep -oE -- "--(rename|ignore) '[^']*'" | tr -d "'"
}

# follow [none]: follows each proposal of the last message, together with the true options other
# than --rename and --ignore. With `none` no logits are known, so the result must be a refusal.
follow() {
    local option value right=0 wrong= others=()
    spelled_out | sort -u >"$work/proposed"
    [ -s "$work/proposed" ] || return 0
    for ((i = 0; i < ${#known[@]}; i += 2)); do
        [[ ${known[i]} == --[ri][eg]* ]] || others+=("${known[i]}" "${known[i + 1]}")
    done
    cp "$work/err" "$work/first"
    while read -r option value; do
        convert "${others[@]}" "$option" "$value"
        case $? in
        0) right=1 ;;
        1) wrong="$option $value" ;;
        2) if cmp -s "$work/err" "$work/first"; then fail "$name: the same message again"; fi ;;
        esac
    done <"$work/proposed"
    if [ -z "$wrong" ] || { [ $right = 1 ] && [ $# = 0 ]; }; then pass
    else fail "$name: other logits with what is proposed, $wrong"; fi
    cp "$work/first" "$work/err"
}

# answer: adds a true option that the last message contains. Fails if the message contains none
answer() {
    local i
    for ((i = 0; i < ${#known[@]}; i += 2)); do
        [[ " ${given[*]} " == *" ${known[i]} ${known[i + 1]} "* ]] && continue
        names "${known[i]}" "${known[i + 1]}" || continue
        given+=("${known[i]}" "${known[i + 1]}")
        return 0
    done
    return 1
}

# proceeds: converts again and again, each time with one more true option
proceeds() {
    local status
    given=()
    while true; do
        convert "${given[@]}"
        status=$?
        [ $status != 0 ] || { pass && return; }
        [ $status != 2 ] || follow
        answer && continue
        if [ $status = 1 ]; then # some lines are shortened
            convert --strict "${given[@]}"
            answer && continue
        fi
        if [ $status = 1 ]; then fail "$name: other logits, and no line names ${known[*]}"
        else fail "$name: no message names what is left of ${known[*]}"; fi
        return
    done
}

"${CC:-cc}" -std=c99 -O1 tests/compare_npy.c -lm -o "$work/compare_npy" 2>"$work/err" ||
    fail "compare_npy does not compile"

# refused: for a model without logits, follows the options that the message spells out. If `like`
# names a case that is the same model with logits, the result must have these logits
refused() {
    local model
    declare -A like=([autoencoder_asked]=autoencoder_ignored [added_or_positions]=added_patch
        [norms_asked]=norms_sorted [norm_of_all_asked]=norm_of_all)
    convert "${known[@]}"
    [ $? = 2 ] || return
    model=${like[$name]-}
    if [ -z "$model" ]; then follow none
    else
        name=$model tolerance=1e-5
        follow
    fi
}

while IFS='|' read -r name file options tolerance; do
    name=$(trim "$name") file=$(trim "$file") tolerance=$(trim "$tolerance")
    [[ $options != *--match* ]] || continue
    wanted "$name" || continue
    read -ra known <<<"${options//--strict/}"
    if [[ $tolerance == [0-9]* ]]; then proceeds; else refused; fi
done <"$DATA/cases.txt"

summary
