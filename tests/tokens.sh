#!/usr/bin/env bash
# Compares ids with those of other tokenizers, on COUNT random texts for each (default 1,000,000):
#
#     BPE=bpe_simple_vocab_16e6.txt.gz MODULE=node_modules/tokenizers JSON="a/tokenizer.json ..." \
#     MODELS="a.model ..." bash tests/tokens.sh [COUNT [SEED]]
#
# BPE requires ftfy and Debian's python3-regex, JSON requires the npm package tokenizers, and MODELS
# requires Debian's python3-sentencepiece. If one of these variables is not set, the part of the
# test that uses it is skipped. The script compares 100,000 texts at a time. The last line is "N
# passed, N failed", where N counts parts.
set -u
cd "$(dirname "$0")/.."
count=${1:-1000000}
seed=${2:-1}
python=${PYTHON:-python3}
program=${TOKEN_IDS:-build/plain/tests/token_ids}
[ -x "$program" ] || make -s "$program" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# part NAME ARGUMENTS-OF-token_ids -- COMMAND...: compares the ids with those that the command gives
# for the same texts
part() {
    local name=$1 ours=() done=0 each=100000 differ=0 total=0 line
    shift
    while [ "$1" != -- ]; do ours+=("$1") && shift; done
    shift
    while [ "$done" -lt "$count" ]; do
        [ $((count - done)) -ge "$each" ] || each=$((count - done))
        "$python" tests/token_texts.py texts "$each" $((seed * 100000 + done / 100000)) >"$work/texts"
        "$program" "${ours[@]}" <"$work/texts" >"$work/ours" 2>"$work/facts" &&
            "$@" <"$work/texts" >"$work/theirs" || differ=$((differ + 1))
        "$python" tests/token_texts.py show "$work/texts" "$work/ours" "$work/theirs" >"$work/shown"
        line=$(tail -n 1 "$work/shown")
        case $line in
        *" texts, "*" differ") ;;
        *) line="0 texts, 1 differ" ;;
        esac
        total=$((total + ${line%% *}))
        line=${line#*, }
        differ=$((differ + ${line%% *}))
        [ "${line%% *}" = 0 ] || head -n 6 "$work/shown"
        done=$((done + each))
    done
    echo "$name: $total texts compared, $differ differ"
    if [ "$differ" = 0 ] && [ "$total" = "$count" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

if [ "${BPE-}" ]; then
    part "CLIP, OpenAI's" "$BPE" 1 -- "$python" tests/token_texts.py openai "$BPE" no-repair
fi
for file in ${JSON-}; do
    part "$file" "$file" 0 64 -- node tests/token_reference.mjs "$MODULE" "$file" 64
done
for file in ${MODELS-}; do
    part "$file, plain" "$file" 3 64 -- "$python" tests/token_texts.py sentencepiece "$file" plain 64
    part "$file, open_clip's" "$file" 2 64 -- \
        "$python" tests/token_texts.py sentencepiece "$file" canonical 64
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
