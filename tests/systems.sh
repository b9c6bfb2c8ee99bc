#!/usr/bin/env bash
# systems.sh - tests systems other than Linux with glibc:
#
#   - musl: programs, linked statically, pass the tests and give the same bits and files as glibc
#   - macOS, the BSDs and bare POSIX: the code compiles with this machine's headers, without the
#     declarations of Linux and GNU; the compiled code is not run
#   - only vit.h, tools/os and the sandbox (for Linux) contain code for a particular system
#
# `systems.sh compile` omits the part with musl. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
. tests/checks.sh
built=build/systems
mkdir -p $built/include
ln -sfn "${STB:-/usr/include/stb}" $built/include/stb
for folder in linux asm-generic "$(gcc -print-multiarch)/asm"; do # kernel headers, for the sandbox
    ln -sfn /usr/include/"$folder" $built/include/"${folder##*/}"
done

# --- one place ----------------------------------------------------------------------------------

only_os() {
    ! grep -nE '__linux__|__APPLE__|_WIN32|__FreeBSD__|/proc/|<(sys/|unistd|fcntl|dirent|windows)' \
        tools/*.c tools/*/*.c tools/*/*.h tools/*/*/*.[ch] examples/*.c |
        grep -vE '^(tools/(os/|bench/peers/|image/sandbox.c)|examples/small.c)'
}
check "systems are told apart in tools/os alone" only_os

# --- compiled as for others -----------------------------------------------------------------------

warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror"
printf '#define VIT_IMPLEMENTATION\n#include "vit.h"\n' >$built/vit.c

# alike NAME COMPILERS FLAG...: compiles vit.h, and checks the modules below, with each of COMPILERS
alike() {
    local name=$1 compilers=$2 compiler file
    shift 2
    for compiler in $compilers; do
        # shellcheck disable=SC2086 # words
        check "$name vit.h $compiler" $compiler -std=c99 -O2 $warnings -I. "$@" -c $built/vit.c \
            -o $built/vit.o
        for file in tools/os/{common,posix}.c tools/base/source.c tools/cli/output.c \
            tools/image/photo_source.c tools/image/photos.c tools/infer/infer.c; do
            # shellcheck disable=SC2086 # words
            check "$name $file $compiler" $compiler -std=c99 $warnings -fsyntax-only -I. -Itools \
                "$@" $file
        done
    done
}

mkdir -p $built/apple/mach-o $built/apple/sys
printf '%s\n' '#include <stdint.h>' 'int _NSGetExecutablePath(char *, uint32_t *);' \
    >$built/apple/mach-o/dyld.h
printf '%s\n' '#include <stddef.h>' \
    'int sysctlbyname(const char *, void *, size_t *, void *, size_t);' >$built/apple/sys/sysctl.h
printf '%s\n' '#pragma GCC system_header' '#include_next <sys/stat.h>' \
    '#define st_mtimespec st_mtim' >$built/apple/sys/stat.h
alike "not Linux" "gcc clang" -U__linux__ -U__linux -U__gnu_linux__
alike "strict POSIX" "gcc clang" -U__linux__ -D_POSIX_C_SOURCE=200809L -UMADV_DONTNEED
alike FreeBSD clang -U__linux__ -D__FreeBSD__=14
alike macOS "gcc clang" -U__linux__ -D__APPLE__ -D__MACH__ -I$built/apple
check "no O_CLOEXEC" gcc -std=c99 -O2 $warnings -I. -include fcntl.h -UO_CLOEXEC -c $built/vit.c \
    -o $built/vit.o
# On 64-bit ARM, each system has its own way to report the CPU's instructions.
check "macOS, ARM" clang --target=aarch64-linux-gnu -std=c99 $warnings -fsyntax-only -I. \
    -U__linux__ -D__APPLE__ -I$built/apple $built/vit.c
check "FreeBSD, ARM" clang --target=aarch64-linux-gnu -std=c99 $warnings -fsyntax-only -I. \
    -U__linux__ -D__FreeBSD__=14 $built/vit.c

if [ "${1-}" = compile ]; then
    summary
    exit
fi

# --- musl ---------------------------------------------------------------------------------------

programs="tools/vit-bench tools/vit-convert tools/vit-info tools/vit-run tools/vit-classify
    tools/vit-evaluate tools/vit-embed tools/vit-get tools/vit-learn tools/vit-search tools/vit-look"
tests="random api load preprocess base checkpoint convert_units frames image infer npy nearest
    layout_units look zero_shot json sandbox"
# shellcheck disable=SC2046,SC2086 # many words
check "musl builds" make -s TARGET=musl CC=musl-gcc CFLAGS=-O2 LDFLAGS=-static \
    CPPFLAGS="-isystem $built/include" $(printf 'build/musl/%s ' $programs) \
    $(printf 'build/musl/tests/test_%s ' $tests)
is_static() { ! readelf -d "$1" | grep -q NEEDED; }
for program in $programs; do check "$program is static" is_static build/musl/"$program"; done

make -s tools/vit-convert tools/vit-classify build/plain/tests/test_random
for name in $tests; do
    arguments=tests/data
    [ "$name" = random ] && arguments="tests/data 60 4 8"
    # shellcheck disable=SC2086 # words
    adds build/musl/tests/test_"$name" $arguments
done
same_bits() {
    [ "$(build/musl/tests/test_random tests/data 60 4 8 | grep ^bits)" = \
        "$(build/plain/tests/test_random tests/data 60 4 8 | grep ^bits)" ]
}
check "musl's bits" same_bits
for dtype in f32 f16 bf16 int8 int4; do
    for program in tools build/musl/tools; do
        $program/vit-convert -q tests/data/fixtures/dist/model_legacy.pth --dtype $dtype \
            -o $built/"${program%%/*}".vit 2>"$work/err"
    done
    check "musl's files, $dtype" cmp $built/tools.vit $built/build.vit
done
adds env BIN=build/musl bash tests/test_options.sh
adds env BIN=build/musl bash tests/test_cli.sh

summary
