#!/usr/bin/env bash
# Every program and mode decodes photos in confined processes. Here the decoder opens a file for
# each photo (evil_decoder.h). A confined decoder is killed and makes no file. With --no-sandbox the
# file appears, which proves that the mode decodes photos.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/checks.sh
root=$PWD evil=$PWD/build/evil
export LC_ALL=C EVIDENCE=$work/evidence
images=$root/tests/data/images
checkpoint=$root/tests/data/fixtures/plain/model.safetensors
cat=$root/examples/cat.jpg model=$root/models/cifar10-vit.vit
# shellcheck disable=SC2046 # words
make -s $(printf 'build/evil/%s ' tools/vit-{run,convert,classify,evaluate,embed,search,look}) ||
    exit 1
ln -sfn "$root/models" "$evil/models"
cd "$work" || exit 2

EVIDENCE='' "$evil/tools/vit-classify" "$cat" >out 2>err
if grep -q 'without a sandbox' err; then
    skip "decoders that open files" "$(cat err)"
    summary
    exit
fi

# The inputs are folders, lists, an archive, an index and shards. With the evil decoder, only
# --no-sandbox can make the index and the shards.
mkdir -p set/{cat,ship} ten/{0..9}
for i in {0..9}; do cp "$cat" ten/$i; done
cp "$cat" "$images/rgb.png" set/cat
cp "$images/baseline.jpg" "$images/cmyk.jpg" set/ship
printf '%s\n' cat/cat.jpg,cat ship/baseline.jpg,ship >tags.csv
printf '%s\n' set/*/* >list.txt
tar cf part-00000.tar -C set cat ship
"$evil/tools/vit-embed" --no-sandbox set -o index.npy 2>err || fail 'no index'
"$evil/tools/vit-embed" --no-sandbox --tar part-00000.tar -o shards 2>err || fail 'no shards'

input=/dev/null ends=0 # standard input, and the expected status with --no-sandbox

# run OPTION: runs $program with OPTION before $arguments, but after the command of vit-look
run() {
    rm -rf "$EVIDENCE" new new.*
    if [[ $program = */vit-look ]]; then set -- "${arguments[0]}" "$@" "${arguments[@]:1}"
    else set -- "$@" "${arguments[@]}"; fi
    tried="$program $*"
    "$evil/$program" "$@" >out 2>err <"$input"
    status=$?
}

# decodes PROGRAM ARGUMENT...: passes if the program decodes photos in confined processes, and with
# --no-sandbox in its own process. Its outputs must be new.* or the folder new
decodes() {
    program=$1 arguments=("${@:2}")
    run
    missing "$EVIDENCE"
    if [ $status -le 1 ]; then pass; else fail "exit status $status"; fi
    # A sheet shows a grey square for a photo that cannot be read. All other modes print the reason.
    [[ $* == *--sheet* ]] ||
        err 'the decoder of the image was stopped: it made a system call that decoding does not need'
    run --no-sandbox
    is "$ends"
    exists "$EVIDENCE"
    run --help
    out '^ +--no-sandbox +decode images in this process, not in confined processes \(Linux\)$'
}

decodes tools/vit-classify "$cat"
decodes tools/vit-classify --classes index.npy --class-names index.txt "$cat"
input=$cat decodes tools/vit-classify -
input=$cat decodes tools/vit-classify --frames auto
input=$cat decodes tools/vit-classify --frames auto --realtime
decodes tools/vit-embed set -o new.npy
decodes tools/vit-embed --list list.txt -o new.npy
decodes tools/vit-embed --tar part-00000.tar -o new
decodes tools/vit-search index.npy "$cat"
decodes tools/vit-search index.npy --vector index.npy --sheet new.png
decodes tools/vit-search --classes index.npy --class-names index.txt "$cat"
decodes tools/vit-search shards "$cat"
decodes tools/vit-evaluate set
decodes tools/vit-evaluate --knn set set
decodes tools/vit-evaluate --probe set set
decodes tools/vit-evaluate --sigmoid --tags tags.csv set
decodes tools/vit-learn set -o new.vit
decodes tools/vit-look attention "$cat" -o new.png
decodes tools/vit-look tokens set -o new.png
decodes tools/vit-look similarity "$cat" --at 150,100 -o new.png
decodes tools/vit-run -m "$model" "$cat"
decodes tools/vit-convert "$checkpoint" --dtype int8 --calibrate set -o new.vit
decodes tools/vit-convert "$checkpoint" --dtype int8 --report set -o new.vit
ends=1 decodes tools/vit-convert "$checkpoint" --match-folder ten -o new.vit # status 1: it only guesses
summary
