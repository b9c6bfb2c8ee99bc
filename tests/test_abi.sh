#!/usr/bin/env bash
# Tests the compiled library. Its symbols, structs and constants must be those of
# tests/abi/list.txt. `make abi` writes this list (test_abi.sh record). Programs that were compiled
# with an older or newer vit.h, or without the header, must run with the library or be refused with
# a message.
set -u
cd "$(dirname "$0")/.."
. tests/built.sh libraries
. tests/checks.sh
cc=${CC:-cc}

library=build/lib/libvit.so
if [ ! -e $library ] || [ "$($cc -dM -E -x c /dev/null | grep -c '__LP64__\|__x86_64__\|__aarch64__')" = 0 ]; then
    skip "the list of symbols and sizes" "no shared library here, or another ABI than that of 64-bit Unix"
    summary
    exit
fi

# --- the list ----------------------------------------------------------------------------------

interface() { # HEADER'S FOLDER
    nm -D --defined-only $library | awk '{ print "symbol " $3 }' | LC_ALL=C sort
    readelf -d $library | sed -n 's/.*Library soname: \[\(.*\)\]/soname \1/p'
    $cc -E -P -DVIT_TOOLS -I"$1" "$1/vit.h" | awk -f tests/abi/layout.awk >"$work/layout.c"
    $cc -DVIT_TOOLS -I"$1" "$work/layout.c" -o "$work/layout" && "$work/layout"
}

if [ "${1-}" = record ]; then
    interface . >"$work/list" && cp "$work/list" tests/abi/list.txt && wc -l tests/abi/list.txt
    exit
fi

interface . >"$work/list"
check "tests/abi/list.txt is as recorded; if meant, VIT_ABI + 1 and make abi" \
    diff tests/abi/list.txt "$work/list"
check "a member more is seen" sh -c "mkdir '$work/more' &&
    sed 's/    int num_patches; /    int more; int num_patches;/' vit.h >'$work/more/vit.h'"
interface "$work/more" >"$work/list"
# shellcheck disable=SC2016 # grep's
check "a member more is seen" sh -c "diff tests/abi/list.txt '$work/list' | grep 'vit_config.more'"

only_public() { ! nm "$@" --defined-only | awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | grep -v '^vit_[a-z]'; }
check "libvit.so has no symbols but vit_*" only_public -D $library
check "libvit.a has no symbols but vit_*" only_public -g build/lib/libvit.a
declared() { sed -n 's/^VIT_API [a-z0-9_ *]*[ *(]\(vit_[a-z0-9][a-z_0-9]*\))*(.*/\1/p' vit.h | sort -u; }
check "every function of the API is there" \
    sh -c "nm -D --defined-only $library | awk '{ print \$3 }' | sort >'$work/there'"
declared >"$work/declared"
check "every function of the API is there, and no other" diff "$work/declared" "$work/there"

visible() { sed 's/^VIT_API /VISIBLE /' vit.h | $cc -E -P "$@" -x c - | grep -c '^VISIBLE '; }
check "a program sees 24 functions at most without VIT_TOOLS" [ "$(visible)" -le 24 ]
check "VIT_TOOLS declares them all" [ "$(visible -DVIT_TOOLS -DVIT_TEXT_ENCODER)" = "$(wc -l <"$work/declared")" ]

# --- programs and libraries of different versions ----------------------------------------------

# header NAME SED...: makes a folder NAME with a vit.h that SED has changed. The change must have an
# effect
header() {
    mkdir -p "$work/$1"
    sed "${@:2}" vit.h >"$work/$1/vit.h"
    check "$1: vit.h is changed" sh -c "! cmp -s vit.h '$work/$1/vit.h'"
}

# program NAME FOLDER FLAGS...: compiles a program with the vit.h in FOLDER, and links it to our
# library
program() {
    check "$1 compiles" "$cc" -std=c99 -I"$2" "${@:3}" tests/abi/program.c -Lbuild/lib -lvit \
        -o "$work/$1"
}

# library FOLDER: makes libvit.so.2 in FOLDER from the vit.h there. The library has only the plain C
# kernels, because they compile fast
library() {
    check "$1: the library compiles" "$cc" -std=c99 -O1 -fPIC -shared -fvisibility=hidden \
        '-DVIT_API=__attribute__((visibility("default"))) extern' -DVIT_NO_SIMD -I"$work/$1" \
        tools/packaging/vit.c -Wl,-soname,libvit.so.2 -lpthread -o "$work/$1/libvit.so.2"
}

# says TEXT PROGRAM [LIBRARY'S FOLDER]: passes if PROGRAM prints TEXT and overwrites no memory
says() {
    tried="$2 with ${3-build/lib}"
    LD_LIBRARY_PATH=${3-build/lib} "$work/$2" models/cifar10-vit.vit examples/cat.ppm \
        >"$work/out" 2>"$work/err"
    if grep -qF -- "$1" "$work/out" && grep -qx whole "$work/out" && [ ! -s "$work/err" ]; then
        pass
    else
        fail "expected $1"
    fi
}

abi=$(sed -n 's/^#define VIT_ABI \([0-9]*\)$/\1/p' vit.h)
oldest=$(sed -n 's/^#define VIT_ABI_OLDEST \([0-9]*\)$/\1/p' vit.h)
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)

program same .
says "cat 0.78" same

# A library accepts programs with an older vit.h, down to VIT_ABI_OLDEST.
header newer -e "s/^#define VIT_ABI $abi\$/#define VIT_ABI $((abi + 1))/" \
    -e 's/^    VIT_RESERVED(int, 24) .*/    int option_to_come;\n    VIT_RESERVED(int, 23)/' \
    -e '/^    void \*phase_user;/{n;s/.*/    void *param_to_come;\n    VIT_RESERVED(void *, 7)/}' \
    -e '0,/^    VIT_RESERVED(void \*, 5)/s//    void *input_to_come;\n    VIT_RESERVED(void *, 4)/' \
    -e 's/^    VIT_RESERVED(void \*, 5)/    void *output_to_come;\n    VIT_RESERVED(void *, 4)/' \
    -e 's/^    VIT_RESERVED(void \*, 16)/    void *state_to_come;\n    VIT_RESERVED(void *, 15)/'
check "newer: members take the place of what was reserved" \
    sh -c "[ \$(grep -c '_to_come;' '$work/newer/vit.h') = 5 ]"
library newer
says "cat 0.78" same "$work/newer"

# A newer program may need functions that an older library does not have.
program newer_program "$work/newer"
says "compiled for ABI $((abi + 1)); this is vit.h $version, which takes $oldest to $abi" newer_program
says "-11: program and library come from different vit.h" newer_program
says "cat 0.78" newer_program "$work/newer"

# A later library may drop support for old programs.
header forgetful -e "s/^#define VIT_ABI $abi\$/#define VIT_ABI $((abi + 2))/" \
    -e "s/^#define VIT_ABI_OLDEST .*/#define VIT_ABI_OLDEST $((abi + 1))/"
library forgetful
says "compiled for ABI $abi; this is vit.h $version, which takes $((abi + 1)) to $((abi + 2))" \
    same "$work/forgetful"

# These macros make the program's structs smaller or larger than the library's.
program fewer_chans . -DVIT_MAX_CHANS=3
says "sizeof(vit_model) in the program, by VIT_MAX_CHANS and others: expected " fewer_chans
program more_chans . -DVIT_MAX_CHANS=300
says "sizeof(vit_model) in the program, by VIT_MAX_CHANS and others: expected " more_chans
program no_texts . -DVIT_NO_TEXT
says "-11: program and library come from different vit.h: " no_texts

# This program calls the functions without the macros of the header.
program silent . -DBY_POINTER=0
says "the program names no ABI: pass vit_abi(); this is vit.h $version" silent
program well_said . '-DBY_POINTER=vit_abi()'
says "cat 0.78" well_said
program too_small . -DBY_POINTER="$(printf '0x000001%02xu' "$abi")"
says "-11: program and library" too_small

# The library is built with a macro for firmware, but the program is compiled without this macro.
cat >"$work/bare.c" <<'END'
#include "vit.h"
int main(void) {
    static vit_model model;
    return vit_model_open_memory("", 0, 0, &model) == VIT_ERROR_ABI ? 0 : 1;
}
END
check "firmware's compiles" "$cc" -std=c99 -I. -O1 -DVIT_BARE_METAL -DVIT_NO_SIMD \
    -c tools/packaging/vit.c -o "$work/bare.o"
for macro in -DNOTHING -DVIT_BARE_METAL; do
    check "it links with $macro" "$cc" -std=c99 -I. $macro "$work/bare.c" "$work/bare.o" \
        -o "$work/bare"
    "$work/bare"
    status=$?
    check "VIT_BARE_METAL in one file only is refused" \
        [ "$status" = "$([ $macro = -DNOTHING ] && echo 0 || echo 1)" ]
done

# A program may link the static library instead.
check "the static library links" "$cc" -std=c99 -I. tests/abi/program.c build/lib/libvit.a -lpthread \
    -o "$work/static"
says "cat 0.78" static
summary
