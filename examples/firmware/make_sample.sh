#!/usr/bin/env bash
# make_sample.sh - extracts the first 16 test images of Fashion-MNIST (Debian's
# dataset-fashion-mnist) and their labels, as sample-images.idx3 and sample-labels.idx1 in this
# folder.
set -eu
cd "$(dirname "$0")"
data=/usr/share/datasets/fashion-mnist/t10k
count=16

# sample ENDING HEADER SIZE OUT: copies the first items, SIZE bytes each, of a file whose header has
# HEADER bytes, and corrects the count in the header
sample() {
    local from=$data-$1-ubyte.gz header=$2 size=$3 out=$4
    {
        zcat "$from" | head -c 4
        printf '\0\0\0\x10'
        zcat "$from" | head -c "$header" | tail -c "+9"
        zcat "$from" | tail -c "+$((header + 1))" | head -c $((count * size))
    } >"$out"
}

sample images-idx3 16 784 sample-images.idx3
sample labels-idx1 8 1 sample-labels.idx1
