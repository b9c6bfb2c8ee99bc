#!/usr/bin/env bash
# Draws the pictures of examples/look.md, smaller than by default and with few colours:
#
#     bash examples/pictures/make.sh deit.vit PHOTOS    (python3-pil)
#
# deit.vit is DeiT-Ti (deit_tiny_patch16_224), and PHOTOS is the folder of scikit-image's
# chelsea.png, coffee.png and rocket.jpg.
set -eu
model=$(realpath "$1") photos=$(realpath "$2")
cd "$(dirname "$0")/../.."
all=("$photos"/{chelsea.png,coffee.png,rocket.jpg})

look() { # NAME COLOURS COMMAND...
    local name=$1 colours=$2
    shift 2
    tools/vit-look "$@" -o "examples/pictures/$name.png"
    /usr/bin/python3 - "examples/pictures/$name.png" "$colours" <<'END'
import sys
from PIL import Image

colours = int(sys.argv[2])
method = Image.Quantize.FASTOCTREE if colours == 256 else Image.Quantize.MEDIANCUT
picture = Image.open(sys.argv[1]).convert("RGB")
picture = picture.quantize(colours, method, dither=Image.Dither.NONE)
picture.save(sys.argv[1], optimize=True)
END
}

look cat 128 attention examples/cat.jpg --size 240
look attention 128 attention -m "$model" "${all[@]}" --block 7 --size 150 --columns 3
look heads 128 attention -m "$model" "$photos/chelsea.png" --block 7 --heads all --size 150 --columns 3
look tokens 128 tokens -m "$model" "${all[@]}" --size 112 --columns 6
look similarity 256 similarity -m "$model" "$photos"/{chelsea.png,coffee.png} --at 190,120 --size 180
look positions 128 positions --compare "$model" models/cifar10-vit.vit --size 160
look filters 128 filters -m "$model" --size 300 --columns 7
