#!/usr/bin/env bash
# Converts every fixture, then compares every traced tensor with PyTorch's.
#
#     BIN=FOLDER tests/test_parity.sh
#
# FOLDER holds tools/vit-convert, and tests/test_parity unless it is "." (then build/plain does).
# Each form of a checkpoint becomes CASE.FORM.f32.vit; of each first form the smaller types are
# made too, in sanitizer builds only of a few cases.
set -eu
cd "$(dirname "$0")/.."
bin=${BIN:-.}
convert=$bin/tools/vit-convert
if [ "$bin" = . ]; then
    bin=build/plain small='!(lib_*)'
else
    small='chans5|classes1003|dist|headdim*|narrow'
fi
work=$bin/parity
fixtures=tests/data/fixtures
mkdir -p "$work"
models=()

# one CHECKPOINT FORM DTYPE
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

# all FOLDER: every form that the case has
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
        if [ $first = yes ] && [[ $(basename "$1") == @($small) ]]; then
            for dtype in f16 bf16 int8 int4; do
                one "$1/$name" $form $dtype
            done
        fi
        first=no
    done
}

shopt -s extglob
for folder in "$fixtures"/*/; do
    all "${folder%/}"
done
exec "$bin/tests/test_parity" "$fixtures" "${models[@]}"
