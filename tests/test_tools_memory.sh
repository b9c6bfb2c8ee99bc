#!/usr/bin/env bash
# In each run of a program, another allocation fails, up to 60 of them, also in the C library. The
# run must end by itself, with a message and a failure status, or with its usual output. Each file
# must be complete or must not exist. (test_converter_memory.c finds leaks.)
set -u
cd "$(dirname "$0")/.."
bin=${BIN:-.}
most=60 # failures a program, evenly spaced
. tests/built.sh programs
. tests/checks.sh
model=$work/model.vit

${CC:-cc} -shared -fPIC -O1 tests/failing_malloc.c -o "$work/failing.so" || exit 1
"$bin/tools/vit-convert" tests/data/coverage/option_qk_norm -o "$model" >/dev/null || exit 1

check() {
    if [ "$1" = yes ]; then pass; else fail "allocation $at: $2"; fi
}

# timeless: prints the output without times.
timeless() {
    sed -E 's/"(seconds|images_per_second|search_ms)": [0-9.e+-]*//g' "$1"
}

# program OUTPUT PROGRAM ARGUMENT...: tests PROGRAM. OUTPUT is the file that PROGRAM writes, or - if
# it writes none
program() {
    local output=$1 count step
    shift
    set -- "$bin/$1" "${@:2}"
    tried=$*
    rm -f "$work/out"
    COUNT_TO=$work/count LD_PRELOAD=$work/failing.so "$@" >"$work/good" 2>"$work/err" </dev/null
    count=$(cat "$work/count")
    [ "$output" = - ] || mv "$output" "$work/expected"
    step=$((count / most + 1))
    for ((at = 1; at <= count; at += step)); do
        FAIL_AT=$at LD_PRELOAD=$work/failing.so "$@" >"$work/out" 2>"$work/err" </dev/null
        status=$?
        case $status in
        0) check "$(cmp -s <(timeless "$work/out") <(timeless "$work/good") && echo yes)" \
            "ended well with another output" ;;
        1 | 2) check "$([ -s "$work/err" ] && echo yes)" "no message" ;;
        *) check no "status $status" ;;
        esac
        if [ "$output" != - ] && [ -e "$output" ]; then
            check "$(cmp -s "$output" "$work/expected" && echo yes)" "another file"
            rm -f "$output"
        fi
        check "$([ -z "$(find "$work" -name '*.tmp-*')" ] && echo yes)" "left a temporary file"
    done
    echo "$(basename "$1"): $count allocations"
}

program - tools/vit-info --tensors "$model"
program - tools/vit-info --check --json "$model"
program - tools/vit-run -m "$model" examples/cat.jpg -t 2
program "$work/x.npy" tools/vit-run -m "$model" examples/cat.ppm --logits "$work/x.npy" -t 1
program - tools/vit-classify -m "$model" tests/data/images/rgb16.png tests/data/images/plain.gif
program "$work/y.vit" tools/vit-convert tests/data/fixtures/plain/model.pth -o "$work/y.vit"
program "$work/z" tools/vit-convert "$model" --to safetensors -o "$work/z"
program "$work/z.h" tools/vit-convert "$model" --c-array -o "$work/z.h"
mkdir -p "$work/set/0" && cp tests/data/images/rgb.* "$work/set/0"
program - tools/vit-evaluate -m "$model" --json -t 1 "$work/set"
mkdir -p "$work/two/a" "$work/two/b" && cp tests/data/images/{rgb.ppm,baseline.jpg} "$work/two/a" &&
    cp tests/data/images/grey.png "$work/two/b"
program - tools/vit-learn -q -m "$model" -t 1 "$work/two" -o "$work/learned.vit"
program - tools/vit-evaluate -m "$model" --json -t 1 --knn "$work/set" "$work/set"
program - tools/vit-evaluate -m "$model" -t 1 --probe "$work/set" "$work/set"
printf 'rgb.png,0 1\nrgb.ppm,nosuch\n' >"$work/tags.csv"
program - tools/vit-evaluate -m "$model" --json -t 1 --sigmoid --tags "$work/tags.csv" "$work/set/0"
program "$work/b.npy" tools/vit-run -m "$model" examples/cat.ppm --block all \
    --attention "$work/b.npy" -t 1
program - tools/vit-embed -m "$model" -o "$work/v.npy" -t 1 --overwrite "$work/set"
program - tools/vit-embed -m "$model" -o "$work/v.npy" -t 1 "$work/set"
"$bin/tools/vit-embed" -m "$model" -o "$work/index.npy" "$work/set" 2>/dev/null
program - tools/vit-search "$work/index.npy" -t 1 -k 1 "$work/set/0/rgb.png"
program - tools/vit-classify --classes "$work/index.npy" --class-names "$work/index.txt" "$work/set/0/rgb.png"
program - tools/vit-search "$work/index.npy" -t 1 --duplicates 0.9
tar -cf "$work/0.tar" -C tests/data/images rgb.png rgb16.png plain.gif
"$bin/tools/vit-embed" --no-sandbox -m "$model" --tar "$work/0.tar" -o "$work/folder" 2>/dev/null
program - tools/vit-search "$work/folder" -t 1 -k 2 --json "$work/set/0/rgb.png"
program "$work/l.png" tools/vit-look tokens -m "$model" -t 1 --size 32 -o "$work/l.png" "$work/set/0/rgb.png"
program - tools/vit-look attention -m "$model" -t 1 --rollout --size 32 --json "$work/set"
program "$work/p.npy" tools/vit-look positions -m "$model" --size 32 --npy "$work/p.npy"
program - tools/vit-look filters -m "$model" --json
tar -cf "$work/7.tar" -C tests/data/images rgb16.png plain.gif
program "$work/shards/img_emb/img_emb_7.npy" tools/vit-embed --no-sandbox --tar "$work/7.tar" -o "$work/shards"

summary
