#!/usr/bin/env bash
# run.sh - builds main.c for some boards, classifies images on each board under QEMU, compares the
# results with this machine's results, and prints the size of each program. `make firmware` calls
# it.
#
#     run.sh [-c gcc|clang] [-O LEVEL] [-m MODEL.vit] [-a] [BOARD]...
#
# -a classifies all 10,000 test images of Fashion-MNIST (Debian's dataset-fashion-mnist) instead of
# 16.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=examples/firmware/boards.sh
source examples/firmware/boards.sh

compiler=gcc model=models/fashion-vit.vit optimise=-Os all=false
while getopts c:O:m:a option; do
    case $option in
    c) compiler=$OPTARG ;;
    O) optimise=-O$OPTARG ;;
    m) model=$OPTARG ;;
    a) all=true ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# != 0 ] || set -- m4 m55 m0

out=build/firmware
images=examples/firmware/sample-images.idx3 labels=examples/firmware/sample-labels.idx1
mkdir -p $out
if $all; then
    images=$out/test-images.idx3 labels=$out/test-labels.idx1
    zcat /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz >$images
    zcat /usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz >$labels
fi
tail -c +17 $images >$out/camera
tools/vit-convert -q --c-array "$model" -o $out/fashion_vit.h

# expected NAME FLAGS...: compiles accuracy.c with FLAGS for this machine, and computes its results
expected() {
    local program=$out/accuracy-$1 name=$1
    shift
    cc -std=c99 -O2 "$@" examples/firmware/accuracy.c -lpthread -o "$program"
    "$program" "$model" $images >"$out/expected-$name"
    "$program" "$model" $images $labels
}

# figure NAME FILE: prints the number after NAME
figure() {
    awk -v name="$1" '$1 == name { print $2 }' "$2"
}

# size_of SYMBOL PROGRAM: prints the symbol's bytes
size_of() {
    printf '%d' "0x$(arm-none-eabi-nm -S "$2" | awk -v name="$1" '$4 == name { print $2 }')"
}

# section NAME PROGRAM: prints the section's bytes
section() {
    arm-none-eabi-size -A "$2" | awk -v name="$1" '$1 == name { size = $2 } END { print size + 0 }'
}

# figures PROGRAM OUTPUT: prints the program's sizes, each line with a name and a number
figures() {
    local model arena text data bss
    model=$(size_of fashion_vit_data "$1") arena=$(size_of arena "$1")
    text=$(section .text "$1") data=$(section .data "$1") bss=$(section .bss "$1")
    echo "code $((text + data - model))"
    echo "model $model"
    echo "arena $arena"
    echo "static $((data + bss - arena))"
    echo "stack $(figure stack "$2")"
    awk -v tick="$tick" '$1 == "ticks" { print "instructions", int($2 * tick / $3) }' "$2"
}

# classify BOARD: builds and runs the program; the predictions must equal $out/expected-*
classify() {
    local board=$1 program=$out/$compiler-$1 same=fma
    echo "$board, $compiler:"
    build "$compiler" "$board" "$program" examples/firmware/main.c "$optimise"
    run "$board" "$program" $out/camera >"$program.txt" || { cat "$program.txt"; return 1; }
    board "$board"
    [[ $cpu != *VIT_NO_FMA* ]] || same=no-fma
    grep '^image' "$program.txt" | diff - "$out/expected-$same" || return
    figures "$program" "$program.txt" >"$program.figures"
    awk '{ printf "%16d %s\n", $2, /^instr/ ? $1 " an image" : "bytes of " $1 }' "$program.figures"
}

echo "this machine, with and without fused multiply-add:"
expected fma
expected no-fma -DVIT_NO_FMA -DVIT_NO_SIMD
$all || cut -d ' ' -f 2- $out/expected-fma
for board in "$@"; do classify "$board"; done
echo "every board: the same predictions as this machine, to the last bit of the logits"
