#!/usr/bin/env bash
# fuzz.sh - runs the fuzzers, as many at once as there are cores.
#
#     tests/fuzz/fuzz.sh SECONDS [NAME...]       each for SECONDS
#     tests/fuzz/fuzz.sh RUNSx [NAME...]         each for RUNS runs ("100000000x")
#
# BIN=build/msan chooses the fuzzers with the memory sanitizer. With "0x", these fuzzers only run
# the findings of the other fuzzers and the seeds. Each fuzzer begins with the seeds of make_corpus,
# and with its earlier findings in build/fuzz/found/NAME. A failing input is kept as
# build/fuzz/NAME-crash-...; pass it to build/fuzz/NAME to reproduce the failure. The last line is
# "N passed, N failed": each fuzzer counts once.
set -u
cd "$(dirname "$0")/../.."
amount=$1
shift
: "${BIN:=build/fuzz}"
[ $# -gt 0 ] || set -- vit zip pickle script safetensors npz ggml onnx json labels image tar preprocess \
    structure tokens web code
# shellcheck disable=SC1091 # relative to the root
. tests/built.sh build/plain/tests/fuzz/make_corpus "${@/#/$BIN/}"
export ASAN_OPTIONS=detect_leaks=1:quarantine_size_mb=1:malloc_context_size=4
export UBSAN_OPTIONS=print_stacktrace=1

limit=-max_total_time=$amount
[[ $amount != *x ]] || limit=-runs=${amount%x}
mkdir -p build/fuzz
seeds=build/fuzz/corpus.$$ # several may run beside each other
trap 'rm -rf "$seeds"' EXIT
build/plain/tests/fuzz/make_corpus tests/data "$seeds" >/dev/null || exit 1

# one NAME: runs the fuzzer, prints its line, and makes a file if it passed
one() {
    local name=$1 log=$BIN/$1.log options=()
    [ ! -e "tests/fuzz/$name.dict" ] || options=("-dict=tests/fuzz/$name.dict")
    mkdir -p "build/fuzz/found/$name" "$seeds/$name"
    if "$BIN/$name" "$limit" "${options[@]}" -max_len=8192 -timeout=10 -rss_limit_mb=512 \
        -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$BIN/$name-" \
        "build/fuzz/found/$name" "$seeds/$name" >"$log" 2>&1; then
        touch "$seeds/$name.passed"
        echo "fuzz $name: $(sed -n 's/^stat::number_of_executed_units: //p' "$log") runs of" \
            "$(find "$seeds/$name" -type f | wc -l) seeds"
    else
        tail -n 40 "$log"
        echo "fuzz $name: failed"
    fi
}

for name in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    one "$name" &
done
wait
passed=$(find "$seeds" -name '*.passed' | wc -l)
echo "$passed passed, $(($# - passed)) failed"
[ "$passed" = $# ]
