#!/usr/bin/env bash
# firmware.sh - verifies under QEMU the goals of examples/firmware/README.md: the same bits as on
# this machine, no undefined symbols except the compiler's, no double, refused updates, reported
# faults. No figure of tests/firmware/figures.txt may grow. The last line is "N passed, N failed".
#
#     firmware.sh           Cortex-M4F and M55 by gcc: part of make test-more
#     firmware.sh all       every board by two compilers, and ViT-Ti: make firmware-check
#     firmware.sh record    the same as `all`, and writes figures.txt anew
set -u
export CCACHE_DISABLE=1 # a cache keeps no .ci files
cd "$(dirname "$0")/.." || exit
# shellcheck source=examples/firmware/boards.sh
source examples/firmware/boards.sh
. tests/built.sh tools/vit-convert tools/vit-run
mode=${1:-short}
work=build/firmware
figures=tests/firmware/figures.txt
mkdir -p $work
passed=0 failed=0

# check NAME COMMAND...: passes if the command succeeds
check() {
    local name=$1
    shift
    if "$@" >$work/log 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        tail -n 20 $work/log
    fi
}

# --- models -------------------------------------------------------------------------------------

cc -std=c99 -O1 tests/random_checkpoint.c -o $work/random_checkpoint

# random_model NAME HEADS SIZES... classes=N: makes $work/NAME.vit in int8, and NAME.h with this
# file as an array
random_model() {
    local name=$1 heads=$2 last=${!#}
    shift 2
    seq -f 'class %g' "${last#classes=}" >$work/labels.txt
    $work/random_checkpoint "$work/$name.safetensors" "$@" &&
        tools/vit-convert -q "$work/$name.safetensors" -o "$work/$name.vit" --dtype int8 \
            --keep none --set "num_heads=$heads" --set crop_pct=1 --labels $work/labels.txt &&
        tools/vit-convert -q --c-array "$work/$name.vit" -o "$work/$name.h"
}

# Makes $work/f32/least.h and $work/int8/least.h from $work/least.*
least_models() {
    mkdir -p $work/f32 $work/int8
    mv $work/least.h $work/int8 &&
        tools/vit-convert -q $work/least.safetensors -o $work/least.vit --set num_heads=3 &&
        tools/vit-convert -q --c-array $work/least.vit -o $work/f32/least.h
}

check "a small random model" \
    random_model small_model 2 dim=8 depth=1 mlp=8 patch=4 chans=1 rows=2 cols=2 classes=3
check "a random model for size.c" \
    random_model least 3 dim=48 depth=3 mlp=72 patch=7 chans=1 rows=4 cols=4 classes=10
check "the same in f32" least_models

# --- on the boards ------------------------------------------------------------------------------

# predictions COMPILER BOARD...: run.sh compares the output of main.c on the boards with the output
# on this machine. At least 14 of 16 predictions must be right, with and without fused multiply-add.
predictions() {
    bash examples/firmware/run.sh -c "$@" >"$work/predictions" &&
        [ "$(grep -c '^1[4-6] of 16 right' "$work/predictions")" = 2 ]
}

# records BUTTON:IMAGE...: writes the camera's records for learn.c, from the sample images
records() {
    local record
    for record in "$@"; do
        printf "\\x0${record%:*}"
        tail -c +$((17 + 784 * ${record#*:})) examples/firmware/sample-images.idx3 | head -c 784
    done
}

# learns: runs examples/firmware/learn.c. After it has learnt only trousers (2) and sandals (8), it
# takes a sneaker (12) for a sandal. After it has learnt another sneaker (9) and was reset, all
# classes are right.
learns() {
    local out=$work/learn-$1-$2
    build "$1" "$2" "$out" examples/firmware/learn.c -Os -Itools/numbers || return
    rm -f "$out"*.flash
    records 1:2 2:8 0:12 3:9 0:12 >"$out.lesson"
    records 0:12 0:15 0:11 0:3 0:5 >"$out.exam"
    run "$2" "$out" "$out.lesson" | tee "$out.said" &&
        mv "$out.lesson.flash" "$out.exam.flash" &&
        run "$2" "$out" "$out.exam" | tee -a "$out.said" &&
        [ "$(tr -cd 0-9 <"$out.said")" = 1223331211 ]
}

# verify: runs tests/firmware/check.c, which tests the arena, the weights, the self-test and damaged
# updates
verify() {
    build "$1" "$2" "$work/check-$1-$2" tests/firmware/check.c -Os && run "$2" "$work/check-$1-$2"
}

# kernels COMPILER BOARD LEVEL: runs tests/firmware/kernels.c, compiled at LEVEL. It compares the
# bits of the matrix products, and counts their instructions
kernels() {
    build "$1" "$2" "$work/kernels-$1-$2" tests/firmware/kernels.c "$3" &&
        run "$2" "$work/kernels-$1-$2"
}

# An invalid access must end the run with an error.
faults() {
    local said
    build "$1" "$2" "$work/wild-$1-$2" tests/firmware/wild.c -Os || return
    said=$(run "$2" "$work/wild-$1-$2") && return 1
    [ "$said" = fault ]
}

# --- a large model ------------------------------------------------------------------------------

# words FILE.npy COUNT: prints the last COUNT floats, each as eight hexadecimal digits
words() {
    tail -c $((4 * $2)) "$1" | od -An -v -tx4 -w4 | tr -d ' '
}

# whole COMPILER BOARD NAME INPUTS CLASSES: on the board, the model $work/NAME.vit lies in memory at
# 0x60000000. The model must classify the cat with the same bits as on this machine
whole() {
    local compiler=$1 board=$2 name=$3 inputs=$4 classes=$5 model=$work/$3.vit size arena
    size=$(stat -c %s "$model")
    arena=$(awk '/define.*_WORKSPACE_LOW/ { print $3 }' "$work/$name.h")
    tools/vit-run -m "$model" examples/cat.jpg --dump-input "$work/$name.input.npy" \
        --logits "$work/$name.logits.npy" || return
    tail -c $((4 * inputs)) "$work/$name.input.npy" >"$work/$name.input"
    words "$work/$name.logits.npy" "$classes" >"$work/$name.expected"
    build "$compiler" "$board" "$work/$name" tests/firmware/whole.c -O2 -DWEIGHTS=0x60000000u \
        -DWEIGHTS_SIZE="$size" -DWORKSPACE="$arena" &&
        run "$board" "$work/$name" "$work/$name.input" \
            -device "loader,file=$model,addr=0x60000000,force-raw=on" |
        diff - "$work/$name.expected"
}

# --- the compiled code --------------------------------------------------------------------------

symbols="model_data model_size arena arena_size input logits memcpy memmove memset memcmp
    __aeabi_memcpy __aeabi_memcpy4 __aeabi_memclr __aeabi_memclr4 __aeabi_memclr8 __aeabi_memset
    __aeabi_memset4 __aeabi_memmove __aeabi_memmove4" # used by a program and its C library

# least COMPILER BOARD DTYPE FLAGS...: makes $least.o of tests/firmware/size.c, and $least.elf,
# which defines the symbols above as addresses without code or data
# shellcheck disable=SC2086 # flags are words
least() {
    local compiler=$1 board=$2 dtype=$3 define=
    shift 3
    least=$work/$dtype/least-$compiler-$board
    for symbol in $symbols; do define="$define,--defsym=$symbol=0"; done
    compile "$compiler" "$board" "$least.o" tests/firmware/size.c -Os "-I$work/$dtype" \
        -Wno-unused-const-variable "$@" && board "$board" &&
        arm-none-eabi-gcc $cpu -mthumb -nostdlib -z noexecstack \
            -Wl,--gc-sections,-e,main$define "$least.o" -lgcc -o "$least.elf"
}

# size_of COMPILER BOARD DTYPE: prints how many bytes of code and constants the least program has
size_of() {
    least "$@" && arm-none-eabi-size "$least.elf" | awk 'NR == 2 { print $1 + $2 }'
}

# at_most CEILING FOUND: passes if FOUND is not above CEILING
at_most() {
    echo "$2 bytes, at most $1 are allowed"
    [ "$2" -le "$1" ]
}

# Prints its input. Fails if the input is not empty.
nothing() {
    ! grep .
}

# The only undefined symbols are mem* and the compiler's arithmetic.
needs_nothing() {
    local program="(model|arena)_(data|size)|arena|input|logits"
    arm-none-eabi-nm -u "$least.o" | awk '{ print $2 }' |
        grep -vxE "$program|mem(cpy|set|cmp|move)|__(aeabi|gnu)_[a-z0-9_]+" | nothing
}

# No function for double is linked.
no_double() {
    arm-none-eabi-nm "$least.elf" |
        grep -E ' __aeabi_(c?d[a-z0-9]+|u?[il]2d|f2d)$' | nothing
}

# vit.h has no writable static variables. The static variables of the program are `model`,
# `session` and `outputs`.
no_variables() {
    arm-none-eabi-nm "$least.o" | grep -i ' [bdc] ' |
        grep -vE ' (main\.)?(model|session|outputs)(\.[0-9]+)?$' | nothing
}

# Every function takes a constant number of bytes of stack, at most 512.
frames() {
    awk -F '\t' '$2 > 512 || $3 != "static"' "$least.su" | nothing
}

# In gcc's graph of direct calls, no function calls itself, and tsort finds no loop.
no_recursion() {
    local calls
    calls=$(sed -nE 's/^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)".*/\1 \2/p' "$least.ci")
    [ "$(wc -l <<<"$calls")" -gt 50 ] && awk '$1 == $2' <<<"$calls" | nothing &&
        tsort <<<"$calls" >/dev/null
}

# --- figures that may not grow ------------------------------------------------------------------

# version_of COMPILER: prints the version, on which the figures of code size depend
version_of() {
    local compiler=$1
    [ "$1" = gcc ] && compiler=arm-none-eabi-gcc
    echo "$1 $($compiler -dumpversion)"
}

# figures_of COMPILER BOARD: prints a line with the code, arena, static memory, stack and
# instructions of main.c. For the board "least", it prints the code size of size.c
figures_of() {
    if [ "$2" = least ]; then
        echo "gcc least f32 $f32 int8 $((int8 - f32)) soft $soft"
    else
        echo "$1 $2 $(awk '$1 != "model" { printf "%s %s ", $1, $2 }' "$work/$1-$2.figures")"
    fi
}

# No figure may exceed its value in $figures by more than 1 %. The arena does not depend on the
# compiler, and must not grow by a byte. The values belong to one version of each compiler; growth
# with another version is only reported.
no_growth() {
    figures_of "$1" "$2" | awk -v file=$figures -v version="$(version_of "$1")" '
        { for (i = 3; i < NF; i += 2) found[$i] = $(i + 1); compiler = $1; board = $2 }
        END {
            while ((getline < file) > 0) {
                if ($0 == version) same = 1
                if ($1 != compiler || $2 != board) continue
                for (i = 3; i < NF; i += 2) {
                    known++
                    if (found[$i] <= $(i + 1) * ($i == "arena" ? 1 : 1.01)) continue
                    print compiler, board ":", $i, found[$i], "was", $(i + 1)
                    if (same || $i == "arena") bad = 1
                }
            }
            exit bad || !known
        }'
}

# Prints the lines and words of examples/firmware/README.md that state figures, from $figures.
stated() {
    sed -n '1,2s/^image: //p' $work/expected-fma
    awk '
        function thousands(n) {
            return n < 1000 ? n : int(n / 1000) "," sprintf("%03d", n % 1000)
        }
        { for (i = 3; i < NF; i += 2) figure[$1, $2, $i] = $(i + 1) }
        $3 == "code" && !($2 in seen) { seen[$2] = 1; boards[++count] = $2 }
        END {
            name["m0"] = "Cortex-M0 (micro:bit, soft float)"
            name["m3"] = "Cortex-M3 (soft float)"
            name["m4"] = "Cortex-M4F"
            for (i = 1; i <= count; i++) {
                b = boards[i]
                printf "| %s |", b in name ? name[b] : "Cortex-M" substr(b, 2)
                printf " %s, %s |", thousands(figure["gcc", b, "code"]),
                    thousands(figure["clang", b, "code"])
                printf " %s, %s |", thousands(figure["gcc", b, "stack"]),
                    thousands(figure["clang", b, "stack"])
                printf " %.1f, %.1f |\n", figure["gcc", b, "instructions"] / 1e6,
                    figure["clang", b, "instructions"] / 1e6
            }
            for (key in figure) {
                split(key, part, SUBSEP)
                if (part[3] != "stack") continue
                if (!least || figure[key] < least) least = figure[key]
                if (figure[key] > most) most = figure[key]
            }
            print "the whole program " thousands(least) " to " thousands(most) " |"
            n = split("code arena static stack", words, " ")
            for (i = 1; i <= n; i++)
                printf "%16d bytes of %s\n", figure["gcc", "m4", words[i]], words[i]
            printf "%16d instructions an image\n", figure["gcc", "m4", "instructions"]
            print "The arena takes " thousands(figure["gcc", "m4", "arena"]) " bytes of RAM;"
            print "and the session take " thousands(figure["gcc", "m4", "static"]) "."
            print thousands(figure["gcc", "least", "f32"]) " and " \
                thousands(figure["gcc", "least", "soft"]) " bytes, including libgcc"
            print "| " thousands(figure["gcc", "least", "int8"]) " bytes |"
        }' $figures
}

# The page must contain these lines and words.
is_stated() {
    stated | while read -r line; do
        grep -qF -- "$line" examples/firmware/README.md || echo "examples/firmware/README.md lacks: $line"
    done | nothing
}

# A second run must take the same number of instructions.
same_twice() {
    local out=$work/$1-$2
    run "$2" "$out" $work/camera | diff - "$out.txt"
}

# --- all of it ----------------------------------------------------------------------------------

# check_board COMPILER BOARD: runs the checks that every mode makes on a board
check_board() {
    local by="of $2 by $1" own=-fcallgraph-info
    [ "$1" = clang ] && own=-fno-inline-functions # else one function takes 800 bytes
    check "faults $by" faults "$1" "$2"
    [ "$2" = m0 ] || check "kernels $by" kernels "$1" "$2" -O2 # too large for 16 KB
    [ "$2" = m0 ] || check "three classes learnt $by" learns "$1" "$2" # the same
    check "the least program $by" least "$1" "$2" int8 $own
    check "symbols $by" needs_nothing
    check "variables $by" no_variables
    check "stack $by" frames
    [ "$1" = clang ] || check "recursion $by" no_recursion
    check "double $by" no_double
}

boards="m4 m55" compilers=gcc
[ "$mode" = short ] || boards=$all_boards compilers="gcc clang"
for compiler in $compilers; do
    # shellcheck disable=SC2086 # words
    check "predictions by $compiler" predictions $compiler $boards
    for board in $boards; do
        check_board $compiler "$board"
        [ "$mode $board" = "short m55" ] ||
            check "arena, weights and damage of $board by $compiler" verify $compiler "$board"
        [ "$mode" = short ] && continue
        [ "$board" = m0 ] ||
            check "small kernels of $board by $compiler" kernels $compiler "$board" -Os
        check "a second run of $board by $compiler" same_twice $compiler "$board"
    done
done

f32=$(size_of gcc m4 f32) int8=$(size_of gcc m4 int8) soft=$(size_of gcc m3 f32)
check "f32 on Cortex-M4F in 8 KB" at_most 8192 "$f32"
check "int8 on Cortex-M4F in 6 KB more" at_most 6144 $((int8 - f32))
check "f32 with soft float on Cortex-M3 in 10 KB" at_most 10240 "$soft"

# each COMMAND...: calls COMMAND for each pair of a compiler and a board
each() {
    local compiler board
    for compiler in $compilers; do
        for board in $boards; do "$@" $compiler "$board" || return; done
    done
    "$@" gcc least
}
if [ "$mode" = record ]; then
    { for compiler in $compilers; do version_of $compiler; done && each figures_of; } >$figures
fi
for compiler in $compilers; do
    grep -qx "$(version_of $compiler)" $figures ||
        echo "$figures is not of $(version_of $compiler): of it, only the arena is compared"
done
each check "growth" no_growth
check "figures in examples/firmware/README.md" is_stated
echo "bytes of code and constants: f32 $f32, int8 $((int8 - f32)) more, f32 with soft float $soft"

if [ "$mode" != short ]; then
    check "a random model of ViT-Ti's size" random_model vit_ti 3 dim=192 depth=12 mlp=768 \
        patch=16 rows=14 cols=14 classes=1000
    check "ViT-Ti on Cortex-M55" whole gcc m55 vit_ti $((3 * 224 * 224)) 1000
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]
