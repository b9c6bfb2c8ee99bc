#!/usr/bin/env bash
# make_versions.sh NAME - adds files of the current vit-convert to tests/data/versions:
# NAME_TYPE.vit for each type of weights, with its logits. Run this script when a version is
# released or the format is extended. `git status` then shows the new files; those of earlier
# versions stay unchanged.
set -eu
cd "$(dirname "$0")/.."
name=${1:?a name, such as v1.0.0}
folder=tests/data/versions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O1 tests/random_checkpoint.c -o "$work/random_checkpoint"
"$work/random_checkpoint" "$work/random.safetensors" dim=16 depth=1 mlp=32 patch=4 rows=2 cols=2 \
    classes=5 seed=7
mkdir "$work/photos"
cp examples/cat.ppm "$work/photos"
for dtype in f32 f16 bf16 int8 int4; do
    file=${name}_$dtype.vit options=
    case $dtype in int*) options="--keep none --calibrate $work/photos" ;; esac
    # shellcheck disable=SC2086 # words
    tools/vit-convert -q "$work/random.safetensors" --dtype $dtype --set num_heads=2 \
        --set img_size=8 --set crop_pct=1 $options -o "$folder/$file" 2>/dev/null
    tools/vit-run -m "$folder/$file" --input $folder/x.npy --isa scalar \
        --logits "$work/logits.npy" >/dev/null
    sed -i "/^$file /d" $folder/list.txt
    echo "$file bits $(tail -c 20 "$work/logits.npy" | od -An -tx4 -w20 | xargs)" >>$folder/list.txt
done
