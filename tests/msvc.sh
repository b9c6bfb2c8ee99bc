#!/usr/bin/env bash
# msvc.sh - tests vit.h in the dialect of Microsoft's compiler, which is not available here. clang
# compiles vit.h with MinGW-w64's headers, and the programs run under Wine:
#
#   - no warning at level 4, in C and in C++, with each configuration. For 64-bit ARM the script
#     only compiles the object, because there are no libraries to link
#   - if tests/msvc/cl.h hides clang from vit.h, the code uses nothing of GNU C. The code still
#     compiles, runs and gives the same bits
#   - the tests of the header pass. vit.h chooses the best tier, and gives the bits of the build for
#     Linux
#   - no tier is much slower than in the build of MinGW-w64's gcc. `msvc.sh speed` only measures
#     speed. This mode takes longer, and also compares with the build for Linux. It fails if the
#     difference is above 5 %
#
# `make test-cross` installs the packages that this script needs. The last line is "N passed, N
# failed".
set -u
cd "$(dirname "$0")/.."
. tests/checks.sh
built=build/msvc
mkdir -p $built/models
export WINEPREFIX=${WINEPREFIX:-$PWD/build/cross/wine} WINEDEBUG=-all
wine=/usr/lib/wine/wine64
mingw=/usr/x86_64-w64-mingw32/include
[ -d "$WINEPREFIX/drive_c" ] || $wine wineboot --init >/dev/null 2>&1
compilers="clang"
command -v clang-19 >/dev/null && compilers="clang clang-19"

# dialect CPU COMPILER ARGUMENT...: runs clang with arguments of clang-cl
dialect() {
    local cpu=$1 compiler=$2
    shift 2
    "$compiler" --driver-mode=cl --target="$cpu-pc-windows-msvc" /c /GS- /Itests/msvc /I. /Itools \
        /clang:-idirafter$mingw /FItests/msvc/shim.h "$@"
}

# link OUT OBJECT...: links the objects to OUT
link() {
    local out=$1
    shift
    x86_64-w64-mingw32-gcc "$@" -Wl,--defsym,__chkstk=___chkstk_ms -static -lpthread -o "$out"
}

# compile WHERE COMPILER FLAGS: compiles vit.h to $built/WHERE/vit.a
compile() {
    local to=$built/$1 compiler=$2 flags=$3
    mkdir -p "$to"
    # shellcheck disable=SC2086 # several words
    dialect x86_64 "$compiler" /O2 /W4 /WX $flags /Fo"$to/vit.obj" tools/base/vit.c &&
        rm -f "$to/vit.a" && ar rcs "$to/vit.a" "$to/vit.obj"
}

# program WHERE COMPILER FLAGS SOURCE: builds $built/WHERE/NAME.exe with WHERE's vit.a
program() {
    local to=$built/$1 compiler=$2 flags=$3 name
    name=$(basename "$4" .c)
    # shellcheck disable=SC2086 # several words
    dialect x86_64 "$compiler" /O2 $flags /Fo"$to/$name.obj" "$4" &&
        link "$to/$name.exe" "$to/$name.obj" "$to/vit.a"
}

# --- speed ------------------------------------------------------------------------------------

models() {
    local dtype
    cc -O1 -o $built/random tests/random_checkpoint.c &&
        $built/random $built/tiny.safetensors dim=192 depth=3 mlp=768 patch=16 rows=14 cols=14 \
            classes=1000 || return
    for dtype in f32 f16 bf16 int8 int4; do
        tools/vit-convert -q $built/tiny.safetensors --dtype $dtype -o $built/models/$dtype.vit \
            2>"$work/err" || return
    done
}

# measure ROUNDS RUNS BUILD...: each round runs each build's speed.c, and adds to its .times
measure() {
    local rounds=$1 runs=$2 round build
    shift 2
    for build in "$@"; do : >"$built/$build.times"; done
    for ((round = 0; round < rounds; round++)); do
        for build in "$@"; do
            case $build in
            linux) $built/linux/speed "$runs" models/cifar10-vit.vit $built/models/*.vit ;;
            *) $wine $built/"$build"/speed.exe "$runs" models/cifar10-vit.vit $built/models/*.vit ;;
            esac | tr -d '\r' >>"$built/$build.times"
        done
    done
}

# compare BUILD WITH LIMIT: prints for each tier BUILD's times relative to WITH's; fails if the mean
# of a tier exceeds LIMIT
compare() {
    awk -v limit="$3" -v names="$1 / $2" '
        { key = $1 " " $2 }
        NR == FNR { if (!(key in a) || $3 < a[key]) a[key] = $3; next }
        !(key in b) || $3 < b[key] { b[key] = $3; tier[key] = $1 }
        END {
            for (key in b) {
                if (!(key in a)) { print key " is missing"; bad = 1; continue }
                ratio = a[key] / b[key]
                sum[tier[key]] += log(ratio); count[tier[key]]++; total += log(ratio); all++
                if (!(tier[key] in most) || ratio > most[tier[key]]) most[tier[key]] = ratio
            }
            for (t in sum) {
                mean = exp(sum[t] / count[t])
                printf "%s %s: %.3f of the time, at most %.3f\n", names, t, mean, most[t]
                if (mean > limit) bad = 1
            }
            if (all) printf "%s, all tiers: %.3f\n", names, exp(total / all)
            exit bad || !all
        }' "$built/$1.times" "$built/$2.times"
}

speed_programs() {
    local compiler
    mkdir -p $built/gcc $built/linux
    make -s tools/vit-convert && models || return
    cc -O2 -std=c99 -I. tests/msvc/speed.c tools/base/vit.c -lpthread -o $built/linux/speed ||
        return
    x86_64-w64-mingw32-gcc -O2 -std=c99 -I. tests/msvc/speed.c tools/base/vit.c -static \
        -o $built/gcc/speed.exe || return
    for compiler in $compilers; do
        compile "$compiler" "$compiler" "" && program "$compiler" "$compiler" "" tests/msvc/speed.c ||
            return
    done
}

if [ "${1-}" = speed ]; then
    speed_programs || exit
    # shellcheck disable=SC2086 # several words
    measure 12 20 linux gcc $compilers
    status=0
    for build in gcc $compilers; do compare $build linux 1.05 || status=1; done
    for build in $compilers; do compare $build gcc 1.05 || status=1; done
    exit $status
fi

# --- warnings -----------------------------------------------------------------------------------

printf '#define VIT_IMPLEMENTATION\n#define VIT_STATIC\n#include "vit.h"\n' >$built/static.c
printf '#include "vit.h"\n#include "vit.h"\n' >$built/declarations.c
for macro in VIT_NO_STDIO VIT_NO_MMAP VIT_NO_MALLOC VIT_NO_THREADS VIT_NO_SIMD VIT_NO_SSE2 \
    VIT_NO_AVX2 VIT_NO_AVX512 VIT_NO_FMA VIT_NO_PREPROCESS VIT_BARE_METAL VIT_NO_TEXT; do
    check $macro dialect x86_64 "${compilers##* }" /W4 /WX /D$macro /clang:-fsyntax-only \
        tools/base/vit.c
done
for compiler in $compilers; do
    check "$compiler debug" dialect x86_64 "$compiler" /Od /W4 /WX /Fo$built/debug.obj \
        tools/base/vit.c
    check "$compiler C11" dialect x86_64 "$compiler" /W4 /WX /std:c11 /clang:-fsyntax-only \
        tools/base/vit.c
    check "$compiler C++" dialect x86_64 "$compiler" /O2 /W4 /WX /EHsc /TP /Fo$built/cxx.obj \
        tools/base/vit.c
    check "$compiler static" dialect x86_64 "$compiler" /W4 /WX /Fo$built/static.obj \
        $built/static.c
    check "$compiler declarations" dialect x86_64 "$compiler" /W4 /WX /clang:-fsyntax-only \
        $built/declarations.c
    check "$compiler ARM" dialect aarch64 "$compiler" /O2 /W4 /WX /Fo$built/arm64.$compiler.obj \
        tools/base/vit.c
    tier=neon # higher tiers need clang 16 or later
    [ "$compiler" = clang ] || tier=neon_bf16
    check "$compiler ARM has $tier" grep -q "vit__kernels_$tier" $built/arm64.$compiler.obj
done

# --- nothing of GNU C ---------------------------------------------------------------------------

hidden="-fms-compatibility-version=19.33 /FItests/msvc/cl.h -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl
    -mavx512vnni -mavx512bf16 -mavxvnni -mxsave"

# plain: passes if the code of vit.h, with its macros expanded, has nothing of GNU C. The macros of
# other headers are not expanded, because they may use clang's builtins.
plain() {
    local builtins
    builtins=$(grep -o '__builtin_[a-z0-9_]*' vit.h | sort -u | paste -sd '|')
    # shellcheck disable=SC2086 # several words
    dialect x86_64 clang $hidden /E $built/static.c 2>/dev/null |
        awk '/^# |^#line/ { own = /vit\.h"/; next } own' >$built/static.i &&
        grep -q vit__tile_dot_avx512 $built/static.i &&
        ! grep -nE "__attribute__|__asm|[^t]__atomic_|$builtins|_Pragma|#pragma (GCC|clang)" \
            $built/static.i
}
check "nothing of GNU C" plain

# --- tests --------------------------------------------------------------------------------------

tested="math random api load preprocess"
make -s build/plain/tests/test_random
bits=$(build/plain/tests/test_random tests/data 60 4 8 | sed -n 's/^\(bits.*\)/\1/p')

# The bits and the best tier must be those of Linux.
same_bits() {
    [ "$(sed -n 's/^\(bits[^\r]*\)\r*$/\1/p' "$work/log")" = "$1" ]
}

run_tests() {
    local where=$1 compiler=$2 flags=$3 wanted=$4 name arguments
    check "$where" compile "$where" "$compiler" "$flags"
    for name in $tested; do
        arguments=tests/data
        [ $name = random ] && arguments="tests/data 60 4 8"
        check "$where test_$name" program "$where" "$compiler" "$flags" tests/test_$name.c
        # shellcheck disable=SC2086 # several words
        adds $wine "$built/$where/test_$name.exe" $arguments
        [ $name != random ] || check "$where bits" same_bits "$wanted"
    done
}

# The tests compare each tier with plain C.
for compiler in $compilers; do run_tests "$compiler" "$compiler" "/DVIT_SCALAR /DVIT_TEXT_ENCODER" "$bits"; done
# clang may use the instruction sets of the command line in any function, so the CPU must have them
# all.
if grep -qw avx_vnni /proc/cpuinfo && grep -qw avx512_bf16 /proc/cpuinfo; then
    tested="random load" run_tests hidden clang "$hidden /DVIT_SCALAR /DVIT_TEXT_ENCODER" "$bits"
else
    check hidden compile hidden clang "$hidden"
    echo "msvc.sh: no AVX-VNNI or no AVX-512 here: what hides clang is compiled, not run"
fi

# --- speed: no tier is much slower ----------------------------------------------------------------

check "programs for speed" speed_programs
# shellcheck disable=SC2086 # several words
measure 3 6 gcc $compilers
for compiler in $compilers; do
    check "speed of $compiler" compare "$compiler" gcc 1.5
    grep 'all tiers' "$work/out"
done

summary
