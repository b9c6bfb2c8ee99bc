#!/usr/bin/env bash
# Converts every fixture, then compares every traced tensor with PyTorch's.
#
#     BIN=FOLDER tests/test_parity.sh
#
# FOLDER contains tools/vit-convert and tests/test_parity. If FOLDER is ".", tests/test_parity is in
# build/plain. Each form of a checkpoint becomes CASE.FORM.f32.vit. For some of the cases, the first
# form is also converted to the smaller types. Builds with sanitizers convert only every second
# case. LONG=yes converts everything.
set -eu
cd "$(dirname "$0")/.."
. tests/built.sh programs
bin=${BIN:-.}
convert=$bin/tools/vit-convert
if [ "$bin" = . ]; then
    bin=build/plain every=1 small=3
else
    every=2 small=20
fi
[ "${LONG-}" = yes ] && every=1 small=1
work=$bin/parity
fixtures=tests/data/fixtures
mkdir -p "$work"
models=()

# one CHECKPOINT FORM DTYPE: converts one form of a checkpoint
one() {
    local folder out options=()
    folder=$(dirname "$1")
    out=$work/$(basename "$folder").$2.$3.vit
    [ ! -e "$folder/options" ] || mapfile -t options <"$folder/options"
    if ! "$convert" "$1" -o "$out" --dtype "$3" "${options[@]}" >"$out.log" 2>&1; then
        cat "$out.log"
        echo "$convert failed on $1"
        echo "0 passed, 1 failed"
        exit 1
    fi
    models+=("$out")
}

# all FOLDER: converts every form of the case
all() {
    local name form dtype first=yes
    for name in model.safetensors model.pth model_legacy.pth; do
        [ -e "$1/$name" ] || continue
        case $name in
        *.safetensors) form=safetensors ;;
        *_legacy.pth) form=legacy ;;
        *) form=zip ;;
        esac
        one "$1/$name" $form f32
        if [ $first = yes ] && [ $((number % small)) = 0 ] && [[ $1 != */lib_* ]]; then
            for dtype in f16 bf16 int8 int4; do
                one "$1/$name" $form $dtype
            done
        fi
        first=no
    done
}

number=0
for folder in "$fixtures"/*/; do
    number=$((number + 1))
    [ $((number % every)) != 0 ] || all "${folder%/}"
done
exec "$bin/tests/test_parity" "$fixtures" "${models[@]}"
