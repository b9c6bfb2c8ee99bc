#!/usr/bin/env bash
# Compiles vit.h in every language, with the least and the most optimisation, with every macro, and
# for a bare Cortex-M4F; warnings are errors. Checks the objects: no writable data, and no undefined
# symbols except those of a short list. For warnings, only the compiler's front end runs, which
# takes a tenth of the time. With LONG=yes, the compiler makes whole objects. The last line is "N
# passed, N failed".
set -u
cd "$(dirname "$0")/.."
work=build/compile
rm -rf "$work"
mkdir -p "$work"

both="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wcast-align"
both="$both -Wcast-qual -Wdouble-promotion -Wvla -Werror -I."
c="$both -Wstrict-prototypes -Wmissing-prototypes"
cxx="$both -x c++"

# --- running checks two at a time --------------------------------------------------------------

TIMEFORMAT='%U'
jobs_started=0

# check NAME COMMAND...: passes if the command succeeds; $work/NAME.log keeps its output
check() {
    local name=${1// /_}
    shift
    (
        if { time "$@" >"$work/$name.log" 2>&1; } 2>"$work/$name.time"; then
            echo passed >"$work/$name.result"
        else
            echo failed >"$work/$name.result"
        fi
    ) &
    jobs_started=$((jobs_started + 1))
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
}

# refuses COMMAND...: passes if the command fails. The header must refuse some sets of macros.
refuses() {
    ! "$@"
}

summary() {
    local result name passed=0 failed=0
    wait
    for result in "$work"/*.result; do
        name=$(basename "$result" .result)
        if [ "$(cat "$result")" = passed ]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "FAILED $name"
            head -n 20 "$work/$name.log"
        fi
    done
    [ $((passed + failed)) = "$jobs_started" ] || failed=$((failed + 1))
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}

# --- sources -----------------------------------------------------------------------------------

cat >"$work/declarations.c" <<'END'
#include "vit.h"
#include "vit.h"
END
cat >"$work/implementation.c" <<'END'
#define VIT_IMPLEMENTATION
#include "vit.h"
#include "vit.h"
END
# Two private copies in one program must not conflict.
for unit in one two; do
    cat >"$work/static_$unit.c" <<END
#define VIT_STATIC
#define VIT_IMPLEMENTATION
#include "vit.h"
extern int version_$unit(void);
int version_$unit(void) { return vit_detect_isa() ? VIT_VERSION : 0; }
END
done
cat >"$work/static_main.c" <<'END'
extern int version_one(void);
extern int version_two(void);
int main(void) { return version_one() == version_two() ? 0 : 1; }
END
# In a program of two languages, one language has the implementation and the other language calls
# it.
cat >"$work/user.c" <<'END'
#include "vit.h"
int main(void) {
    vit_model model;
    return vit_model_open("build/compile/no such file", 0, &model) == VIT_ERROR_IO ? 0 : 1;
}
END

# --- every compiler, language and optimisation -------------------------------------------------

# build NAME COMPILER STANDARD LEVEL SOURCE FLAGS...: the object is $work/NAME.o
build() {
    local name=$1 compiler=$2 standard=$3 level=$4 source=$5 flags=$c
    shift 5
    case $standard in c++*) flags=$cxx ;; esac
    # shellcheck disable=SC2086 # flags are words
    check "$name" "$compiler" -std="$standard" "$level" $flags "$@" -c "$work/$source.c" \
        -o "$work/$name.o"
}

# object NAME COMPILER STANDARD SOURCE FLAGS...: makes an unoptimised object. A flag keeps gcc from
# optimising the kernels, which would take most of the time.
object() {
    local plain=-DVIT_UNOPTIMIZED
    [ "${LONG-}" = yes ] && plain=
    # shellcheck disable=SC2086 # there or not
    build "$1" "$2" "$3" -O0 "$4" $plain "${@:5}"
}

# parse NAME COMPILER STANDARD SOURCE FLAGS...: checks only the warnings of the compiler's front
# end. Only clang's front end reports unused functions; gcc finds them in a later stage.
parse() {
    local only=-fsyntax-only
    [ "${LONG-}" = yes ] && only=
    # shellcheck disable=SC2086 # there or not
    build "$1" "$2" "$3" -O0 "$4" $only "${@:5}"
}

for level in -O0 -O2; do
    build "gcc-c99$level" gcc c99 $level implementation
    build "clang-c99$level" clang c99 $level implementation
done
build g++-c++17 g++ c++17 -O0 implementation # optimised kernels need nothing of C++
object clang++-c++17 clang++ c++17 implementation
parse clang-c11 clang c11 implementation
for standard in c++11 c++20; do
    parse "g++-$standard" g++ $standard implementation
    parse "clang++-$standard" clang++ $standard implementation
done
if [ "${LONG-}" = yes ]; then
    # If these flags enable vectors, the header's other tiers must still compile.
    if [ "$(uname -m)" = x86_64 ]; then
        build gcc-c11-O3-v3 gcc c11 -O3 implementation -march=x86-64-v3
        build gcc-c11-O3-v4 gcc c11 -O3 implementation -march=x86-64-v4
    fi
    for standard in c99 c11; do
        build "gcc-$standard-O1" gcc $standard -O1 implementation
        build "clang-$standard-O1" clang $standard -O1 implementation
    done
    build g++-c++11-O1 g++ c++11 -O1 implementation
    build g++-c++17-O2 g++ c++17 -O2 implementation
    build clang++-c++20-O2 clang++ c++20 -O2 implementation
fi

# The API's macros cause no warning in a user's file.
for compiler in g++ clang++; do
    parse "user-$compiler" $compiler c++11 user -Wold-style-cast
done
for compiler in gcc clang; do
    parse "declarations-$compiler-c99" $compiler c99 declarations
    parse "declarations-$compiler-static" $compiler c99 declarations -DVIT_BARE_METAL
done
parse declarations-g++-c++11 g++ c++11 declarations
parse declarations-clang++-c++17 clang++ c++17 declarations

# --- every configuration macro -----------------------------------------------------------------

# The macros of one line are set together.
while read -r macros; do
    flags=()
    for macro in $macros; do flags+=("-D$macro"); done
    name=${macros//[ ()]/_}
    how=parse
    # Some macros need whole objects. Some of the objects are inspected below. Other macros change
    # the instruction sets, which the front end does not check.
    case $macros in
    VIT_NO_SIMD | VIT_NO_AVX* | VIT_NO_FMA | VIT_BARE_METAL | *VIT_NO_BF16) how=object ;;
    esac
    $how "gcc-$name" gcc c99 implementation "${flags[@]}"
    $how "clang-$name" clang c99 implementation "${flags[@]}"
done <<'END'
VIT_STATIC
VIT_NO_STDIO
VIT_NO_MMAP
VIT_NO_MALLOC
VIT_NO_THREADS
VIT_NO_SIMD
VIT_NO_SSE2
VIT_NO_AVX2
VIT_NO_AVX2 VIT_NO_SSE2
VIT_NO_AVX512
VIT_NO_WASM_SIMD
VIT_NO_FMA
VIT_NO_PREPROCESS
VIT_BARE_METAL
VIT_MAX_THREADS=2
VIT_UNOPTIMIZED
VIT_MAX_CHANS=3
VIT_NO_DOUBLE
VIT_NO_F16
VIT_NO_INT4
VIT_NO_INT8
VIT_NO_INT8 VIT_NO_INT4 VIT_NO_F16 VIT_NO_BF16
VIT_NO_TEXT
VIT_TEXT_ENCODER
VIT_TEXT_ENCODER VIT_STATIC
VIT_NO_TRACE VIT_NO_EXECUTOR VIT_LOW_MEMORY VIT_LOGITS_ONLY
VIT_NO_MMAP VIT_NO_MALLOC
VIT_NO_STDIO VIT_NO_MALLOC
VIT_NO_THREADS VIT_NO_MALLOC
VIT_NO_PREPROCESS VIT_NO_MALLOC
VIT_NO_SIMD VIT_NO_FMA
VIT_STATIC VIT_BARE_METAL
VIT_BARE_METAL VIT_NO_PREPROCESS VIT_NO_SIMD
VIT_API=extern
END
parse g++-VIT_STATIC g++ c++17 implementation -DVIT_STATIC
object g++-VIT_BARE_METAL g++ c++17 implementation -DVIT_BARE_METAL -fno-exceptions
# With VIT_STATIC, no function of an omitted option may remain.
for macro in VIT_NO_STDIO VIT_NO_MMAP VIT_NO_MALLOC VIT_NO_THREADS VIT_NO_SIMD VIT_NO_PREPROCESS; do
    parse "clang-static-$macro" clang c99 implementation -DVIT_STATIC -D$macro
done
parse gcc-own-malloc gcc c99 implementation -include stdlib.h \
    '-DVIT_MALLOC(size)=malloc(size)' '-DVIT_FREE(ptr)=free(ptr)'
check "VIT_MALLOC alone is refused" refuses \
    gcc -std=c99 -I. '-DVIT_MALLOC(size)=0' -fsyntax-only "$work/implementation.c"
check "VIT_FREE alone is refused" refuses \
    gcc -std=c99 -I. '-DVIT_FREE(ptr)=0' -fsyntax-only "$work/implementation.c"

# --- programs of several units -----------------------------------------------------------------

link_and_run() {
    local program=$1
    shift
    "$@" -o "$program" -lpthread && "$program"
}

# The declarations include only stddef.h, stdint.h and the headers that these two include, and no
# header for printing.
lean() {
    ! gcc -std=c99 -I. -E "$work/declarations.c" | grep -E 'printf|malloc|memcpy|pthread'
}

check "declarations are lean" lean
check "two private copies, C" link_and_run "$work/static_c" \
    clang -std=c99 -I. "$work"/static_*.c
check "two private copies, C++" link_and_run "$work/static_cxx" \
    clang++ -std=c++17 -I. -x c++ "$work"/static_one.c "$work"/static_two.c \
    "$work"/static_main.c
wait
check "C uses C" link_and_run "$work/user_c" \
    gcc -std=c99 -I. "$work/user.c" "$work/gcc-c99-O2.o"
check "C uses C++" link_and_run "$work/user_cxx" \
    gcc -std=c99 -I. "$work/user.c" "$work/g++-c++17.o" -lstdc++
check "C++ uses C" link_and_run "$work/cxx_user" \
    g++ -std=c++17 -I. -x c++ "$work/user.c" -x none "$work/clang-c99-O2.o"

# --- what the objects contain ------------------------------------------------------------------

# only PATTERN OBJECT: passes if every undefined symbol matches
only() {
    ! nm -u "$2" | awk '{ print $2 }' | grep -vxE "$1"
}

# No function prints, exits, or reads the environment or the locale. No function of libm is used.
# strlen is allowed, because gcc turns a loop into a call of strlen.
files='open|close|fstat|mmap|munmap|fopen|fclose|fread|fgets|fseek|ftell|sysconf|prctl'
files="$files|__errno_location"
threads='pthread_(create|join|self|mutex_(init|destroy|lock|unlock)|cond_(init|destroy|wait|broadcast))'
hosted="mem(cpy|set|cmp|move)|bcmp|strlen|malloc|calloc|free|_GLOBAL_OFFSET_TABLE_|$files|$threads"

# There is no .data and no .bss; tables that only need relocation are allowed.
no_writable_data() {
    ! objdump -h "$1" | awk '$2 ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $2 !~ /^\.data\.rel\.ro/ &&
        $3 != "00000000"' | grep .
}

for object in gcc-c99-O0 gcc-c99-O2 clang-c99-O0 clang-c99-O2 g++-c++17 clang++-c++17; do
    check "symbols of $object" only "$hosted" "$work/$object.o"
    check "data of $object" no_writable_data "$work/$object.o"
done
for compiler in gcc clang g++; do
    check "symbols of $compiler-VIT_BARE_METAL" only \
        'mem(cpy|set|cmp|move)|bcmp|_GLOBAL_OFFSET_TABLE_' "$work/$compiler-VIT_BARE_METAL.o"
done

# An omitted type has no kernels, except with gcc -O0, which does not remove unused functions.
lacks() {
    ! nm "$2" | grep -E "$1"
}

check "kernels of clang without types" lacks 'vit__tile_(i8|i4|i16|f16|bf16|dot|odd|wide)_' \
    "$work/clang-VIT_NO_INT8_VIT_NO_INT4_VIT_NO_F16_VIT_NO_BF16.o"

# --- Cortex-M, all options; tests/firmware.sh has the rest -------------------------------------

# The only undefined symbols are mem* and the compiler's arithmetic.
bare_object() {
    local object=$work/bare-$1.o
    shift
    # shellcheck disable=SC2086 # flags are words
    arm-none-eabi-gcc -std=c99 -O2 -mthumb -ffreestanding $c "$@" -DVIT_BARE_METAL \
        -c "$work/implementation.c" -o "$object" &&
        ! arm-none-eabi-nm -u "$object" | awk '{ print $2 }' |
        grep -vE '^(mem(cpy|set|cmp|move)|__aeabi_.*)$' && no_writable_data "$object"
}

check "Cortex-M4F object" bare_object m4 -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard
check "Cortex-M3 object" bare_object m3 -mcpu=cortex-m3 -mfloat-abi=soft

wait
echo "gcc -O2 compiles vit.h in $(tail -n 1 "$work/gcc-c99-O2.time") s of processor time (goal: 4)"
summary
