#!/usr/bin/env bash
# Runs vit-bench from the command line. Its output must be complete and consistent. Times only need
# to be positive, because the speed of the machine may vary. Pages and charts must show the figures
# of tools/bench/figures.
#
#     BIN=. bash tests/test_bench.sh
#
# may be called from any folder; BIN, relative to the repository, is the folder that contains
# tools/.
set -u
cd "$(dirname "$0")/.." || exit 2
bench=$PWD/${BIN:-.}/tools/vit-bench
model=$PWD/models/cifar10-vit.vit
. tests/built.sh programs
. tests/checks.sh
export LC_ALL=C TMPDIR=$work/tmp
mkdir "$TMPDIR"

# --- the framework ------------------------------------------------------------------------

# try OPTIONS...: runs vit-bench. $status is its exit status, and its output is in the files
# $work/out and $work/err.
try() {
    tried="vit-bench $*"
    "$bench" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

# get PATH...: prints the value at PATH in the JSON object
get() { "$work/json_check" "$@" <"$work/out"; }

# holds EXPRESSION: passes if awk's EXPRESSION is true. @NAME is a number of the JSON object
holds() {
    local expression=$1 name
    while [[ $expression =~ @([a-z_]+) ]]; do
        name=${BASH_REMATCH[1]}
        expression=${expression//@$name/($(get "$name"))}
    done
    if awk "BEGIN { exit !($expression) }" 2>/dev/null; then pass; else fail "not: $expression"; fi
}
# Passes if the command fails with STATUS and one line that matches REGEX.
refused() {
    is "$1"
    quiet out
    lines err 1
    err "^vit-bench: .*$2"
}

tried=setup status=0
: >"$work/out"
: >"$work/err"
make_json_check

# --- its output ---------------------------------------------------------------------------

# agrees: passes if all fields exist and are consistent
agrees() {
    local field sum=0
    is 0
    [ "$status" = 0 ] || return
    quiet err
    lines out 1
    for field in ms_median ms_min ms_max gflop gflops peak_gflops percent_of_peak \
        workspace_bytes open_ms cold_ms; do
        holds "@$field > 0"
    done
    holds '@ms_min <= @ms_median && @ms_median <= @ms_max'
    holds '(@gflops * @ms_median / @gflop / 1000 - 1) ^ 2 < 1e-12'
    holds '(@percent_of_peak * @peak_gflops / @gflops / 100 - 1) ^ 2 < 1e-12'
    json 8 phases
    for field in patch_embed norm qkv attention proj fc1 fc2 head; do
        sum="$sum + ($(get phases $field percent))"
        get phases $field ms >/dev/null || fail "phase $field has no ms"
    done
    holds "($sum - 100) ^ 2 < 1"
    if [ "$(get private_bytes)" = null ]; then pass; else holds '@private_bytes > 0'; fi
}

try -m "$model" --runs 3 -t 2 -b 2 --json
agrees
json vit_cifar10_patch4_32 arch
json f16 dtype
json 2 threads
json 2 batch
json 3 runs
# The model has 65 tokens, of which 64 are patches of 48 numbers. It has 10 classes, and 7 blocks of
# width 192, whose MLPs are 384 wide. The last block computes k and v for all tokens, and everything
# else for one token.
block='65 * 192 * 384 + n * (2 * 65 * 192 + 2 * 192 * 192 + 2 * 192 * 384)'
holds "(@gflop * 1e9 / 2 / (64 * 48 * 192 + 6 * (${block//n/65}) + ${block//n/1} + 192 * 10) - 1) \
    ^ 2 < 1e-12"

try -m "$model" --seconds 0 -t 1
is 0
quiet err
out '^vit_cifar10_patch4_32, f16, [a-z0-9-]+, 1 thread, batch of 1$'
out '^  time an image +[0-9.]+ ms    median of 5 runs; min [0-9.]+, max [0-9.]+$'
for word in speed peak workspace open 'cold start' patch_embed attention head; do
    out "^  $word +[0-9.]+ (GFLOP/s|MB|ms)"
done

try --arch test_vit --runs 1 --json
agrees
json test_vit arch
json f32 dtype
json 1 batch
try --arch timm/deit_tiny_distilled_patch16_224.fb_in1k --runs 1 --json
agrees
json deit_tiny_distilled_patch16_224.fb_in1k arch
for dtype in f32 f16 bf16 int8 int4; do
    try --arch test_vit --dtype $dtype --runs 1 --json
    agrees
    json $dtype dtype
done

# Tries every tier. If this machine lacks a tier, the message must contain the name of the tier.
try -m "$model" --isa sse9
names=$(sed -n "s/.*expected auto, \(.*\), found 'sse9'.*/\1/p" "$work/err" | sed 's/,\| or / /g')
[ -n "$names" ] || fail "lists no tiers"
for isa in $names; do
    for dtype in f32 bf16 int8; do
        try --arch test_vit --dtype $dtype --isa "$isa" --runs 1 --json
        if [ $status = 1 ]; then
            refused 1 "cannot run the model with --isa $isa; the machine's best is "
            continue
        fi
        agrees
        json "$isa" isa
        case $isa.$dtype in
        avx512-bf16.bf16) json 'vdpbf16ps zmm' peak_loop ;;
        avx512-*.int*) json 'vpdpbusd zmm' peak_loop ;;
        avx-vnni.int*) json 'vpdpbusd ymm' peak_loop ;;
        avx2.int*) json 'vpmaddubsw ymm' peak_loop ;;
        avx512*) json "$([[ $dtype = int* ]] && echo vpmaddubsw || echo vfmadd231ps) zmm" peak_loop ;;
        avx*) json 'vfmadd231ps ymm' peak_loop ;;
        sse2.int*) json 'pmaddwd xmm' peak_loop ;;
        sse2.*) json 'mulps, addps xmm' peak_loop ;;
        scalar*) json 'plain C' peak_loop ;;
        esac
    done
done

try --list-archs
is 0
out '^vit_base_patch16_224$'
try --help
is 0
quiet err
out '^usage: vit-bench '
out 'Exit status: 0'
if awk 'length > 100 { bad = 1 } END { exit bad }' "$work/out"; then pass; else fail "too wide"; fi

# --- wrong input --------------------------------------------------------------------------

try
try --seconds 0.01 --json # the bundled model
is 0
if [ "$(get batch)" = 1 ]; then pass; else fail "no batch"; fi
out vit_cifar10
try -m "$model" --arch test_vit
refused 2 'either -m or --arch'
try -m "$model" --dtype f16
refused 2 '--dtype needs --arch'
try --arch test_vit --dtype f8
refused 2 '--dtype: expected f32, f16'
try --arch vit_bas_patch16_224
refused 2 'nearest: vit_base_patch16_224'
try --arch vit_base_resnet50d_224
refused 2 'lacks this convolutional stem'
try -m "$model" --isa sse9
refused 2 '--isa: expected auto, scalar'
for option in '--runs 0' '-b 0' '-t 257' '--seconds -1'; do
    # shellcheck disable=SC2086 # words
    try -m "$model" $option
    refused 2 'expected a (whole )?number from'
done
try -m "$model" more
refused 2 "unexpected 'more'"
try -m "$work/nosuch.vit"
refused 1 'nosuch.vit: cannot be opened'
try -m "$bench"
refused 1 "no \.vit magic"
if posix; then # Wine has its own files there
    TMPDIR=$work/nosuch try --arch test_vit
    refused 1 'nosuch/vit-bench.vit: cannot be created: No such file'
fi
"$bench" -m "$model" --runs 1 >/dev/full 2>"$work/err"
status=$?
is 1
err 'standard output: (No space left|write failed)'

# --- pages and charts show the recorded figures ------------------------------------------------

if have python3 "pages and charts beside their figures"; then
    tried=figures.py
    mkdir -p "$work/copy/tools/bench"
    cp README.md "$work/copy"
    cp -r tools/bench/README.md tools/bench/figures tools/bench/peers "$work/copy/tools/bench"
    cp "${BIN:-.}/tools/vit-get" "$work/copy/tools"
    (cd "$work/copy" && python3 -B tools/bench/peers/figures.py) >"$work/out" 2>"$work/err"
    status=$?
    is 0
    for made in README.md tools/bench/README.md tools/bench/figures; do
        if diff -r $made "$work/copy/$made" >"$work/out"; then pass; else fail "$made is old"; fi
    done
fi

# --- the file of random weights is gone at the end, and when interrupted -----------------------

if ! posix || [ -z "$(ls -A "$TMPDIR")" ]; then pass; else fail "left in TMPDIR: $(ls -A "$TMPDIR")"; fi
tried="vit-bench, terminated"
"$bench" --arch test_vit --seconds 600 >"$work/out" 2>"$work/err" </dev/null &
for _ in $(seq 100); do
    if [ -n "$(ls -A "$TMPDIR")" ]; then break; fi
    sleep 0.1
done
if [ -n "$(ls -A "$TMPDIR")" ]; then pass; else fail "no file in TMPDIR"; fi
kill -TERM $!
wait $! 2>/dev/null
status=$?
is 143
if ! posix || [ -z "$(ls -A "$TMPDIR")" ]; then pass; else fail "left in TMPDIR: $(ls -A "$TMPDIR")"; fi

summary
