#!/usr/bin/env bash
# mca.sh [aarch64|x86_64] - simulates the inner loops of vit.h's register tiles on several CPUs, as
# gcc and clang compile them. For each loop, prints its speed as a percentage of a loop's that only
# multiplies operands in registers and adds the products. Below 97, also prints the limit of the
# loop: llvm-mca's name of the busiest unit, "front end" (too many instructions), or "latency".
# MCA=llvm-mca-22 selects another version.
set -eu
cd "$(dirname "$0")/../.."
work=build/mca
mkdir -p $work
mca=${MCA-llvm-mca-19}

# simulate TRIPLE CPU FILE: prints the simulated cycles of an iteration, the cycles if only the
# throughput of the units counted, and the limit
simulate() {
    "$mca" -mtriple="$1" -mcpu="$2" -iterations=1000 -instruction-info=0 "$3" 2>"$3.log" | awk '
        /^Total Cycles/ { cycles = $3 / 1000 }
        /^Total uOps/ { uops = $3 / 1000 }
        /^Dispatch Width/ { width = $3 }
        /^Block RThroughput/ { throughput = $3 }
        /^\[[0-9.]+\] +- / { unit[++units] = $3 }
        /^Resource pressure per iteration/ {
            getline
            getline
            for (i = 1; i <= NF; i++) busy[i] = $i
        }
        END {
            if (!cycles) exit
            for (i = 1; i <= units; i++) if (busy[i] > most) { most = busy[i]; limit = unit[i] }
            if (uops / width > 0.98 * most) { most = uops / width; limit = "front end" }
            if (cycles > 1.04 * most) limit = "latency"
            print cycles, throughput, limit
        }'
}

# Keeps only the arithmetic: the multiplications whose products are added up, and these additions.
arithmetic() {
    awk '/[\t ]v?(fn?m|dpbf|pdp|pmadd|mulps|addps|padd)/ ||
        /\t([fsu]ml|[su]mull|[su]adalp|us?dot|sdot|[su]mmla|bf)/ {
            vector = substr($0, match($0, /[xyz]mm[0-9]+$/), 1)
            sub(/[-0-9]*\([^)]*\)(\{1to16\})?/, "%" vector "mm0")
            print
        }' "$1"
}

# loops TARGET COMPILER...: writes loops into $work/TARGET.COMPILER/FUNCTION.s
loops() {
    local target=$1 to=$work/$1.${2##*-}
    shift
    rm -rf "$to"
    mkdir -p "$to"
    printf '#define VIT_IMPLEMENTATION\n#include "vit.h"\n' | "$@" -O2 -I. -S -x c - -o "$to/all.asm"
    awk -f tools/bench/loops.awk "$to/all.asm" |
        awk -v to="$to" '!/^\t/ { file = to "/" $1 ".s"; printf "" >file } /^\t/ { print >file }'
}

# cell TRIPLE FILE CPU: prints the two percentages "gcc / clang", and the limits of those below 97
cell() {
    local compiler file cycles arithmetic rest limit share shares='' limits=''
    for compiler in gcc clang; do
        file=$work/${2/COMPILER/$compiler}
        [ -s "$file" ] || continue
        arithmetic "$file" >"$file.arithmetic"
        read -r cycles rest limit < <(simulate "$1" "$3" "$file") || continue
        read -r rest arithmetic rest < <(simulate "$1" "$3" "$file.arithmetic")
        share=$(awk "BEGIN { printf \"%.0f\", 100 * $arithmetic / $cycles }")
        shares+=${shares:+ / }$share
        [ "$share" -ge 97 ] || [[ $limits == *"$limit"* ]] || limits+=${limits:+, }$limit
    done
    echo "${shares:--}${limits:+ $limits}"
}

# table TARGET TILES CPU...: prints a row for each loop whose function matches the pattern TILES
table() {
    local target=$1 tiles=$2 file name cpu rows=0
    shift 2
    printf '\n| %s, gcc / clang' "$target"
    printf ' | %s' "$@"
    printf ' |\n|---'
    printf '|--:%.0s' "$@"
    echo '|'
    for file in "$work/$target.gcc"/*.s; do
        name=$(basename "$file" .s)
        [[ $name =~ $tiles ]] || continue
        rows=1
        echo -n "| ${name#vit__}"
        for cpu; do printf ' | %s' "$(cell "$target" "$target.COMPILER/$name.s" "$cpu")"; done
        echo ' |'
    done
    [ $rows = 1 ] || { echo "no loop of $target has a name like $tiles" >&2; exit 1; }
}

"$mca" --version | grep -o 'LLVM version.*'
if [ "${1-aarch64}" = aarch64 ]; then
    loops aarch64 aarch64-linux-gnu-gcc
    loops aarch64 clang --target=aarch64-linux-gnu
    table aarch64 '^vit__tile_.*(neon|dotprod|8_i8mm)$' cortex-a76 neoverse-n1 neoverse-v1 apple-m1
fi
if [ "${1-x86_64}" = x86_64 ]; then
    loops x86_64 gcc
    loops x86_64 clang
    table x86_64 '^vit__tile_.*(sse2|avx2|avxvnni)$' haswell skylake alderlake znver3
    table x86_64 '^vit__tile_.*avx512$' znver4 icelake-server sapphirerapids
fi
