#!/usr/bin/env bash
# loops.sh - checks the inner loops of the register tiles, as gcc and clang compile them for x86-64
# and 64-bit ARM: no sum may be kept on the stack for lack of registers. The script counts all
# accesses to the stack. One access per 24 multiplications is allowed, for an address or a count: a
# sum on the stack would take two. Two loops may have any number: clang's int4 for NEON without dot
# products (3 accesses per 24 multiplications) and clang's bf16 for SSE2 (one, for an index). The
# last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit
work=build/loops
mkdir -p $work
printf '#define VIT_IMPLEMENTATION\n#include "vit.h"\n' >$work/one.c
passed=0 failed=0

# compile NAME COMPILER...: writes the loops to $work/NAME
compile() {
    local name=$work/$1
    shift
    rm -f "$name"
    "$@" -O2 -w -I. -S $work/one.c -o "$name.s" &&
        awk -f tools/bench/loops.awk "$name.s" | grep -v '^	' >"$name"
}

# check NAME LEAST: checks each loop. Fails if fewer than LEAST loops were found, because the search
# must then be wrong
check() {
    local name=$1 least=$2 loops=0 function multiplications instructions stack
    while read -r function multiplications instructions stack; do
        [[ $function != *_scalar ]] || continue
        [[ $function =~ ^vit__(tile|gemm|attend) ]] || continue
        loops=$((loops + 1))
        [[ $name-$function =~ ^(aarch64.clang-vit__tile_i4_neon|x86_64.clang-vit__tile_odd_sse2)$ ]] && stack=0
        [ $((24 * stack)) -le "$multiplications" ] && passed=$((passed + 1)) && continue
        failed=$((failed + 1))
        echo "$name: $function: $stack of $instructions instructions touch the stack"
    done <$work/"$name"
    echo "$name: $loops loops"
    [ $loops -ge "$least" ] || failed=$((failed + 1))
}

if [ "$(uname -m)" = x86_64 ]; then
    compile x86_64.gcc gcc &
    compile x86_64.clang clang &
    wait
    check x86_64.gcc 34
    check x86_64.clang 34
fi
compile aarch64.gcc aarch64-linux-gnu-gcc &
compile aarch64.clang clang --target=aarch64-linux-gnu &
wait
check aarch64.gcc 16
check aarch64.clang 16
echo "$passed passed, $failed failed"
[ $failed = 0 ]
