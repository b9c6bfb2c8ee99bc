#!/usr/bin/env bash
# compare_speed.sh - compares the speed of two builds, and the compile time of vit.h in each with
# that of stb_image.h. The builds run alternately. The script reports the minimum of all rounds.
#
#     bash tests/compare_speed.sh OLD NEW [ROUNDS [OPTIONS]]     OPTIONS of vit-bench: --isa avx2
#
# OLD and NEW are checkouts in which `make` has run. Both builds run on one thread, unless OPTIONS
# set another number of threads.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: bash tests/compare_speed.sh OLD NEW [ROUNDS [OPTIONS]]" >&2
    exit 2
fi
old=$(realpath "$1") new=$(realpath "$2") rounds=${3-5} root=$(realpath "$(dirname "$0")/..")
shift $(($# < 3 ? $# : 3))
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL

# table TITLE UNIT: reads lines "CELL WHO VALUE". Prints the minimum of each cell, and its ratio to
# the minimum of the first WHO
table() {
    awk -v title="$1" -v unit="$2" '
        !($1 in cells) { cells[$1]; order[++count] = $1 }
        !($2 in known) { known[$2]; who[++all] = $2 }
        !(($1, $2) in least) || $3 < least[$1, $2] { least[$1, $2] = $3 }
        END {
            printf "%-28s", title
            for (w = 1; w <= all; w++) printf " %10s", who[w]
            for (w = 2; w <= all; w++) printf "  %s/%s", who[w], who[1]
            print "   " unit
            for (c = 1; c <= count; c++) {
                printf "%-28s", order[c]
                for (w = 1; w <= all; w++) printf " %10.3f", least[order[c], who[w]]
                for (w = 2; w <= all; w++)
                    printf "  %*.3f", length(who[w] who[1]) + 1,
                        least[order[c], who[w]] / least[order[c], who[1]]
                print ""
            }
        }'
}

progress() {
    [ ! -t 2 ] || printf '\r\033[K%s' "$*" >&2
}

# --- compiling ----------------------------------------------------------------------------------

# compile CELL WHO COMPILER HEADER DEFINE: prints the CPU seconds of compiling HEADER
compile() {
    local TIMEFORMAT='%U %S' seconds
    printf '#define %s\n#include "%s"\n' "$5" "$4" >"$work/one.c"
    seconds=$({ time "$3" -O2 -w -c "$work/one.c" -o "$work/one.o"; } 2>&1)
    echo "$1 $2 $(awk '{ print $1 + $2 }' <<<"$seconds")"
}

stb=${STB:-/usr/include/stb}/stb_image.h
for round in $(seq "$rounds"); do
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        progress "$compiler, round $round of $rounds"
        [ ! -e $stb ] ||
            compile "$compiler,-O2" stb_image $compiler $stb STB_IMAGE_IMPLEMENTATION
        compile "$compiler,-O2" old $compiler "$old/vit.h" VIT_IMPLEMENTATION
        compile "$compiler,-O2" new $compiler "$new/vit.h" VIT_IMPLEMENTATION
    done
done >"$work/compiling"
progress
table "compiling vit.h" "CPU seconds" <"$work/compiling"

# --- running ------------------------------------------------------------------------------------

# model NAME ARCH SIZES...: makes a model with random weights in f32, and one in int8
model() {
    local name=$1 arch=$2 dtype
    shift 2
    progress "making $name"
    "$work/random" "$work/checkpoint" "$@" classes=1000 patch=16 rows=14 cols=14
    for dtype in f32 int8; do
        "$old/tools/vit-convert" -q "$work/checkpoint" -o "$work/$name,$dtype" --arch "$arch" \
            --dtype $dtype --set selftest_tolerance=0
    done
    rm "$work/checkpoint"
}

# bench CELL WHO CHECKOUT OPTIONS...: prints the milliseconds for each image
bench() {
    local cell=$1 who=$2 checkout=$3
    shift 3
    echo "$cell $who $("$checkout/tools/vit-bench" -m "$work/$cell" --seconds 1 --json "$@" |
        sed 's/.*"ms_min": \([0-9.]*\).*/\1/')"
}

cc -O1 -o "$work/random" "$root/tests/random_checkpoint.c"
model B16 vit_base_patch16_224 dim=768 depth=12 mlp=3072
model Ti16 vit_tiny_patch16_224 dim=192 depth=12 mlp=768
for round in $(seq "$rounds"); do
    for cell in B16,f32 B16,int8 Ti16,f32 Ti16,int8; do
        progress "$cell, round $round of $rounds"
        bench $cell old "$old" -t 1 "$@"
        bench $cell new "$new" -t 1 "$@"
    done
done >"$work/running"
progress
table "one image" ms <"$work/running"
