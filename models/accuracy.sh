#!/usr/bin/env bash
# Compares each type of weights with f32, and prints the rows of the table in models/README.md.
#
#     models/accuracy.sh CALIBRATE REPORT CHECKPOINT [options of vit-convert]
#
# CALIBRATE and REPORT are two folders that have no image in common; models/make_photos.py makes
# such folders.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
calibrate=$1 report=$2
shift 2
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

number() { # KEY
    sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$work/json"
}

row() { # TITLE, options
    local title=$1
    shift
    "$root/tools/vit-convert" "$@" --report "$report" --report-max 100000 --json \
        -o "$work/model.vit" >"$work/json"
    printf '| %s | %s | %s of %s | %s of %s | %.6f | %.6f |\n' "$title" "$(number bytes)" \
        "$(number agree)" "$(number images)" "$(number sure_agree)" "$(number sure)" \
        "$(number mean_cosine)" "$(number min_cosine)"
}

echo "| type | bytes | same best class as f32, all images | same best class as f32, sure images | mean cosine | worst cosine |"
echo "|---|---|---|---|---|---|"
for type in f16 bf16 int8 int4; do row $type "$@" --dtype $type; done
for type in bf16 int8 int4; do
    row "$type, calibrated" "$@" --dtype $type --calibrate "$calibrate"
done
