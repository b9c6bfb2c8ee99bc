#!/bin/sh
# Converts every fixture, then compares every traced tensor with PyTorch's.
#
#     tests/test_parity.sh VIT-CONVERT TEST-PARITY WORK-FOLDER [f32]
#
# Each form of a checkpoint becomes CASE.FORM.f32.vit, the first form also f16 and bf16, unless
# the last argument is f32. Converted files that are newer than their sources are kept, so that
# a second build of the test (sanitizers) converts nothing.
set -eu
convert=$1 test=$2 work=$3 only=${4:-}
fixtures=$(dirname "$0")/data/fixtures
mkdir -p "$work"
models=

# one CHECKPOINT FORM DTYPE: adds to $models
one() {
    folder=$(dirname "$1")
    out=$work/$(basename "$folder").$2.$3.vit
    if [ ! -e "$out" ] || [ "$1" -nt "$out" ] || [ "$convert" -nt "$out" ]; then
        options=
        if [ -e "$folder/options" ]; then
            options=$(cat "$folder/options")
        fi
        # shellcheck disable=SC2086 # options are words
        if ! "$convert" "$1" -o "$out" --dtype "$3" $options >"$out.log" 2>&1; then
            cat "$out.log"
            echo "$convert failed on $1"
            echo "0 passed, 1 failed"
            exit 1
        fi
    fi
    models="$models $out"
}

for folder in "$fixtures"/*/; do
    folder=${folder%/}
    first=yes
    for name in model.safetensors model.pth model_legacy.pth; do
        if [ ! -e "$folder/$name" ]; then
            continue
        fi
        case $name in
        *.safetensors) form=safetensors ;;
        *_legacy.pth) form=legacy ;;
        *) form=zip ;;
        esac
        one "$folder/$name" "$form" f32
        if [ "$first" = yes ] && [ "$only" != f32 ]; then
            one "$folder/$name" "$form" f16
            one "$folder/$name" "$form" bf16
        fi
        first=no
    done
done
# shellcheck disable=SC2086 # models are words
exec "$test" "$fixtures" $models
