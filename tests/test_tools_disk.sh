#!/usr/bin/env bash
# Lets the disk be full at every point: files may not grow beyond so many bytes, told as an error or
# by a signal. What was there before must stay, nothing be left beside it, and the program say so.
set -u
cd "$(dirname "$0")/.."
bin=${BIN:-.}
. tests/checks.sh
model=$work/model.vit

check() {
    if [ "$1" = yes ]; then pass; else fail "$limit bytes: $2"; fi
}

kept() { [ "$(cat "$1")" = before ] && [ -z "$(find "$work" -name '*.tmp-*')" ] && echo yes; }

# writes OUTPUT COMMAND...: with limits from nothing to a byte less than the whole file
writes() {
    local output=$1 status
    shift
    tried=$*
    limit=none
    "$@" >/dev/null 2>"$work/err" </dev/null
    status=$?
    check "$([ $status = 0 ] && [ "$(head -c 6 "$output" | tr -d '\0')" != before ] && echo yes)" "status $status"
    for limit in 0 1 100 512 1000 $(($(stat -c %s "$output") - 1)); do
        echo before >"$output"
        (trap '' XFSZ && exec prlimit --fsize=$limit: "$@") 2>&1 >/dev/null </dev/null |
            cat >"$work/err"
        status=${PIPESTATUS[0]} # the message through a pipe: it is a file too
        check "$([ $status = 1 ] && echo yes)" "status $status"
        check "$(grep -q 'cannot be written: File too large' "$work/err" && echo yes)" "no message"
        check "$(kept "$output")" "files changed"
        { prlimit --fsize=$limit: "$@" >/dev/null 2>&1 </dev/null; } 2>/dev/null
        status=$?
        check "$([ $status != 0 ] && echo yes)" "status $status"
        check "$(kept "$output")" "files changed by a signal"
    done
    limit=none
    tried="${tried//"$output"//proc/no}" # where root cannot write either
    # shellcheck disable=SC2086 # words
    $tried >/dev/null 2>"$work/err" </dev/null
    status=$?
    check "$([ $status = 1 ] && grep -q 'cannot be created' "$work/err" && echo yes)" "status $status"
}

"$bin/tools/vit-convert" tests/data/coverage/option_qk_norm -o "$model" >/dev/null || exit 1
mkdir -p "$work/set/0"
for i in $(seq 60); do cp tests/data/images/rgb.ppm "$work/set/0/$i.ppm"; done
writes "$work/a.vit" "$bin/tools/vit-convert" tests/data/fixtures/plain/model.pth -o "$work/a.vit"
"$bin/tools/vit-convert" tests/data/coverage/vit_base_r50_s16_224 -o "$work/large" >/dev/null || exit 1
writes "$work/b" "$bin/tools/vit-convert" "$work/large" --to safetensors -o "$work/b"
writes "$work/c.h" "$bin/tools/vit-convert" "$model" --c-array -o "$work/c.h"
writes "$work/d.npy" "$bin/tools/vit-run" -m "$model" -i examples/cat.ppm --tokens "$work/d.npy"
writes "$work/f.npy" "$bin/examples/embed" -m "$model" -o "$work/f.npy" "$work/set"
writes "$work/g.png" "$bin/examples/look" filters -m "$model" -o "$work/g.png"
writes "$work/e.csv" "$bin/examples/evaluate" -m "$model" --predictions "$work/e.csv" "$work/set"
summary
