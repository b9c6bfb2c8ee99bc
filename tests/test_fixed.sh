#!/usr/bin/env bash
# Builds for one architecture (VIT_FIXED and other macros for small builds) must give the bits of a
# full build, and must refuse other models. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
. tests/built.sh programs
BIN=${BIN:-.}
work=$BIN/build/fixed # variants run at the same time, so each has its own
rm -rf "$work"
mkdir -p "$work"
warnings="-std=c99 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror"
small="-DVIT_STATIC -DVIT_NO_TEXT -DVIT_NO_TRACE -DVIT_NO_EXECUTOR -DVIT_LOW_MEMORY"
small="$small -DVIT_LOGITS_ONLY -DVIT_BARE_METAL -DVIT_MAX_CHANS=3"

# check NAME DTYPE OTHER COMPILER LEVEL: passes if a small build for the fixture NAME (in
# tests/data/coverage or tests/data/fixtures) gives the bits of a full build and refuses the model
# OTHER
# shellcheck disable=SC2086 # flags are words
check() {
    local name=$1_$2 folder=tests/data/coverage/$1 upper flags head=1 options=()
    [ -d "$folder" ] || folder=tests/data/fixtures/$1
    [ ! -e "$folder/options" ] || mapfile -t options <"$folder/options"
    "$BIN/tools/vit-convert" "$folder" --dtype "$2" -q -o "$work/$name.vit" "${options[@]}" &&
        "$BIN/tools/vit-convert" "$work/$name.vit" --c-array -q -o "$work/$name.h" || return 1
    sed -i '/ALIGN static const/,/^};/d' "$work/$name.h" # the program reads the file
    upper=$(tr '[:lower:]' '[:upper:]' <<<"$name")
    grep -q '"head.weight"' < <("$BIN/tools/vit-info" --json "$work/$name.vit") || head=0
    flags="$warnings -DVIT_NO_SIMD -DINPUT=${upper}_INPUT -DOUTPUT=${upper}_OUTPUT -DHAS_HEAD=$head"
    flags="$flags -DWORKSPACE=${upper}_WORKSPACE_LOW"
    ${CC:-cc} -O1 $flags -include "$work/$name.h" tests/fixed_model.c "$work/vit.o" \
        -o "$work/$name.any" &&
        $4 $5 $flags -DVIT_FIXED="$upper" $small -include "$work/$name.h" tests/fixed_model.c \
            -o "$work/$name.fixed" &&
        "$work/$name.any" "$work/$name.vit" >"$work/$name.expected" &&
        "$work/$name.fixed" "$work/$name.vit" "$work/$3.vit" >"$work/$name.found" &&
        [ -s "$work/$name.found" ] && cmp "$work/$name.expected" "$work/$name.found"
}

passed=0 failed=0
# shellcheck disable=SC2086 # flags are words
${CC:-cc} -O1 $warnings -DVIT_NO_SIMD -DVIT_IMPLEMENTATION -x c -c vit.h \
    -o "$work/vit.o" || failed=1
"$BIN/tools/vit-convert" tests/data/coverage/test_vit --dtype f32 -q -o "$work/other.vit" || failed=1
while read -r name dtype compiler level; do
    if check "$name" "$dtype" other "$compiler" "$level" 2>"$work/errors"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name $dtype $compiler $level"
        head -n 20 "$work/errors"
    fi
done <<'CASES'
deit3_base_patch16_224 f32 gcc -Os
deit_base_distilled_patch16_224 int8 gcc -Os
eva02_base_patch14_224 bf16 gcc -O2
beit_base_patch16_224 int4 clang -Os
vit_so150m_patch16_reg4_map_256 f16 gcc -Os
vit_tiny_r_s16_p8_224 f32 gcc -Os
vit_base_mci_224 int8 gcc -Os
vit_dlittle_patch16_reg1_gap_256 f32 clang -Oz
self int8 gcc -Os
self_res f32 clang -Oz
rep_gelu f32 gcc -Os
rep_relu bf16 gcc -O2
interleaved f32 gcc -Os
cut_unfold f16 clang -Os
cut_reshape int4 gcc -Os
overlap f32 gcc -Os
overlap_odd int8 clang -Oz
CASES

# A build for a model must not compile if it omits a type of weights that the model has.
if ${CC:-cc} -DVIT_NO_INT8 -DVIT_FIXED=SELF_INT8 -DVIT_IMPLEMENTATION -include "$work/self_int8.h" \
    -x c -fsyntax-only vit.h 2>"$work/errors" || ! grep -q 'the model of VIT_FIXED has' "$work/errors"; then
    failed=$((failed + 1))
    echo "FAILED: VIT_NO_INT8 with a model in int8"
else
    passed=$((passed + 1))
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
