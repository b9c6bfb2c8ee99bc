#!/usr/bin/env bash
# Tests vit-look end to end: the output with every option, and the error messages.
#
#     BIN=. bash tests/test_look.sh
#
# may be called from any folder; BIN, relative to the repository, is the folder that contains
# examples/ and tools/.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=$root/${BIN:-.}
data=$root/tests/data
images=$data/images
fixtures=$data/fixtures
layouts=$data/layouts
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
look=$bin/tools/vit-look convert=$bin/tools/vit-convert

usage() { # COMMAND MESSAGE: passes if a wrong command line gives this message
    is 2
    quiet out
    err "^vit-look $1: .*$2.* \(try 'vit-look $1 --help'\)$"
}
refused() { # MESSAGE
    is 1
    quiet out
    err "^vit-look: .*$1"
}
shape() { # FILE TEXT: of a .npy file
    if head -c 128 "$1" | tr -d '\0' | grep -aq "'shape': ($2), }"; then pass; else fail "shape of $1"; fi
}
png() { # FILE [WIDTH HEIGHT]: its header
    local head size=${2:+$(printf '%08x%08x' "$2" "$3")}
    head=$(head -c 24 "$1" | od -An -tx1 | tr -d ' \n')
    case $head in
    89504e470d0a1a0a0000000d49484452$size*) pass ;;
    *) fail "$1 is no such PNG: $head" ;;
    esac
}
# like NAME FILE: passes if the values equal those of PyTorch, NumPy and scikit-learn, except for
# rounding
like() { if "$work/compare_npy" "$2" "$data/look/$1.npy" 1e-5 >/dev/null; then pass; else fail "$1"; fi; }

tried=setup
: >"$work/out"
: >"$work/err"
make_json_check
"${CC:-cc}" -std=c99 -O1 tests/compare_npy.c -lm -o "$work/compare_npy" ||
    fail "compare_npy does not compile"
cd "$work" || exit 2
fixture() { # NAME [OPTIONS...]: NAME.vit
    local options=() file=("$fixtures/$1"/model.*)
    [ -e "$fixtures/$1/options" ] && mapfile -t options <"$fixtures/$1/options"
    try "$convert" "${file[0]}" -o "$1.vit" "${options[@]}" "${@:2}"
    is 0
}
layout() {
    try "$convert" "$layouts/$1/model.safetensors" -o "$1.vit" "${@:2}"
    is 0
}
fixture plain
photo=$images/rgb.png # 11 x 7: the model sees x from 1.6 to 9.4
cat=$root/examples/cat.jpg
plain=(-m plain.vit "$photo")

# --- attention --------------------------------------------------------------------------------

try "$look" attention "${plain[@]}" --heads all -o heads.png --npy heads.npy
is 0
quiet out
quiet err
png heads.png
shape heads.npy '1, 2, 3, 3'
like attention heads.npy
try "$look" attention "${plain[@]}" --heads mean --block 1 -o mean.png --json
is 0
json attention look
json 'class token' query
json 'class token, block 1, mean of 2 heads' maps 0
json 3 grid 0
json 11 images 0 size 0
json 4 images 0 seen
json 3 images 0 values 0 2
json 0 unreadable
try "$look" attention "${plain[@]}" -o default.png --size 320
same default.png mean.png
try "$look" attention "${plain[@]}" --head 1 --json
is 0
json 'class token, block 1, head 1' maps 0
json 1 images 0 values
try "$look" attention "${plain[@]}" --rollout --npy rollout.npy --json
is 0
json 'class token, rollout' maps 0
like rollout rollout.npy
try "$look" attention "${plain[@]}" --at 5.5,3.5 --block 0 --npy at.npy -o at.png --json
is 0
json 'patch, block 0, mean of 2 heads' maps 0
like attention_at at.npy
try "$look" attention "${plain[@]}" -o - --size 64
is 0
png out
try "$look" attention "${plain[@]}" --npy - --threads 2
is 0
shape out '1, 1, 3, 3'
try "$look" attention "${plain[@]}" "$cat" "$photo" --columns 3 --size 50 -o row.png
is 0
png row.png 224 85
try "$look" attention -m plain.vit - -o stdin.png
is 1
err '-: '
"$look" attention -m plain.vit - -o stdin.png <"$photo" || fail "standard input"
png stdin.png

# Tests the bundled model, a folder of photos, and EXIF.
try "$look" attention -m "$root/models/cifar10-vit.vit" "$cat" -o cat.png --npy cat.npy
is 0
shape cat.npy '1, 1, 8, 8'
mkdir folder
cp "$cat" "$images/exif6.jpg" folder
try "$look" attention -m plain.vit folder --json
is 0
json 2 images
json 16 images 1 size 0
try "$look" attention -m plain.vit folder --json --no-exif
json 24 images 1 size 0

# For a model without a class token, the mean attention of all tokens is shown.
fixture siglip
try "$look" attention -m siglip.vit "$photo" --json
is 0
json 'mean of all' query
# Tests prefix tokens, oblong grids, one channel, and other patches.
for name in nonsquare_reg dist_reg dinov2_reg map_reg chans1 overlap overlap_odd remainder \
    dynamic_pad pool_avgmax; do
    fixture $name
    try "$look" attention -m $name.vit "$cat" --rollout -o $name.png
    is 0
    try "$look" tokens -m $name.vit "$cat" -o $name.png --npy $name.npy
    is 0
    png $name.png
done
shape nonsquare_reg.npy '1, 3, 2, 5'
try "$convert" "$layouts/jax_hybrid/model.npz" -o jax_hybrid.vit
try "$look" attention -m jax_hybrid.vit "$cat" -o hybrid.png
is 0
fixture dynamic --dynamic
try "$look" attention -m dynamic.vit "$cat" --img-size 20x16 --npy dynamic.npy
is 0
shape dynamic.npy '1, 1, 5, 4'

fixture self
try "$look" attention -m self.vit "$photo" -o none.png
refused 'self.vit: there is no attention to show: each token of this model attends only to itself'
missing none.png
fixture interleaved
try "$look" attention -m interleaved.vit "$photo" -o none.png
refused 'rgb.png: the patches of this model are not squares of the photo'
fixture chans4
try "$look" attention -m chans4.vit "$photo" -o none.png
refused 'only models of 1 or 3 channels take images, found 4'
try "$look" attention "${plain[@]}" --block 2 -o none.png
refused 'plain.vit: --block 2: the model has blocks 0 to 1'
try "$look" attention "${plain[@]}" --head 2 -o none.png
refused 'plain.vit: --head 2: the model has heads 0 to 1'
try "$look" attention "${plain[@]}" --at 1,3 -o none.png
refused "no patch is at 1,3: of the photo's 11 x 7 pixels, the model gets x from 2 to 9 and y from 0 to 6"
try "$look" attention "${plain[@]}" --img-size 16 -o none.png
refused 'plain.vit: '
try "$look" attention -m nosuch.vit "$photo" -o none.png
refused 'nosuch.vit: cannot be opened'
missing none.png

# --- tokens -----------------------------------------------------------------------------------

try "$look" tokens "${plain[@]}" -o tokens.png --npy tokens.npy --json
is 0
png tokens.png
like tokens tokens.npy
shape tokens.npy '1, 3, 3, 3'
json 3 variance
json 3 explained
first=$("$work/json_check" explained 0 <out)
try "$look" tokens "${plain[@]}" --block 1 -o block.png --npy block.npy
is 0
differ block.npy tokens.npy
try "$look" tokens "${plain[@]}" "$cat" --foreground --json -o foreground.png
is 0
out 'null'
try "$look" tokens "${plain[@]}" "$photo" --json
json "$first" explained 0 # the same photo twice
try "$look" tokens "${plain[@]}" --block 9 -o none.png
refused 'plain.vit: --block 9: the model has blocks 0 to 1'

# --- similarity -------------------------------------------------------------------------------

try "$look" similarity "${plain[@]}" --at 5.5,3.5 -o similar.png --npy similar.npy
is 0
like similarity similar.npy
try "$look" similarity "${plain[@]}" "$cat" "$photo" --at 5.5,3.5 --block 0 --json -o similar.png
is 0
json 3 images
json 1 images 2 values 0 1 1 # itself
json 1 at row
json 5.5 at x
try "$look" similarity "${plain[@]}" --at 11,3 -o none.png
refused 'rgb.png: no patch is at 11,3'
try "$look" similarity "${plain[@]}" -o none.png
usage similarity 'missing --at X,Y'
for at in 5 '5,' ',5' 'a,b' '5,5,5' '-1,5' '1e9,5'; do
    try "$look" similarity "${plain[@]}" --at="$at" -o none.png
    usage similarity '--at expects X,Y in pixels, such as 120,80'
done

# --- positions --------------------------------------------------------------------------------

try "$look" positions -m plain.vit -o positions.png --npy positions.npy --json
is 0
like embedding positions.npy
shape positions.npy '1, 9, 9'
json embedding models 0 kind
json 9 models 0 cosines 8
json 24 models 0 dim
if grep -q '"block"' out; then fail "positions of no block have one"; else pass; fi
layout hf_beit
layout hf_dinov3
for block in 0 1; do
    try "$look" positions -m hf_beit.vit --block $block -o relative.png --npy relative.npy --json
    is 0
    like relative$block relative.npy
    json relative models 0 kind
    json $block models 0 block
done
try "$look" positions -m hf_dinov3.vit --kind rotary -o rotary.png --npy rotary.npy
is 0
like rotary rotary.npy
try "$convert" "$layouts/rope_vit_mixed/model.pth" --set num_heads=2 --set norm_eps=1e-6 \
    --set activation=gelu --img-size 4 -o mixed.vit
try "$look" positions -m mixed.vit --kind rotary --block 1 --json
is 0
json 1 models 0 block
json 8 models 0 dim # 2 heads, 2 pairs, cosine and sine
try "$look" positions --compare hf_beit.vit hf_dinov3.vit -o compare.png --npy compare.npy --json
is 0
json 2 models
shape compare.npy '2, 4, 4'
try "$look" positions --compare plain.vit hf_beit.vit -o compare.png
is 0
try "$look" positions --compare plain.vit hf_beit.vit --npy none.npy
refused '--npy needs models with the same number of positions, found 9 and 4'
try "$look" positions -m plain.vit --kind rotary -o none.png
refused 'plain.vit: the model has no positions of the kind rotary'
fixture nopos
try "$look" positions -m nopos.vit -o none.png
refused 'nopos.vit: the model has no positions'
try "$look" positions -m hf_beit.vit --block 2 -o none.png
refused 'hf_beit.vit: --block 2: the model has blocks 0 to 1'
try "$look" positions --compare plain.vit nosuch.vit -o none.png
refused 'nosuch.vit: cannot be opened'
try "$look" positions --compare plain.vit -o none.png
usage positions '--compare needs two models: A.vit B.vit'
try "$look" positions plain.vit -o none.png
usage positions 'give one model with -m, or several models after --compare'
try "$look" positions --compare plain.vit plain.vit -m plain.vit -o none.png
usage positions 'give all models after --compare, without -m'
try "$look" positions --kind learned -o none.png
usage positions '--kind: expected embedding, rotary or relative'
missing none.png
missing none.npy

# --- filters ----------------------------------------------------------------------------------

try "$look" filters -m plain.vit --count 5 -o filters.png --npy filters.npy --json
is 0
like filters filters.npy
shape filters.npy '5, 3, 4, 4'
json 5 filters
json 48 filters 0
try "$look" filters -m chans1.vit -o filters.png --npy grey.npy
is 0
shape grey.npy '[0-9]*, 1, 4, 4'
try "$look" filters -m chans4.vit -o none.png
refused 'chans4.vit: filters of 1 or 3 channels can be shown, found 4'
try "$look" filters -m jax_hybrid.vit -o none.png
refused 'jax_hybrid.vit: the patch embedding of this model reads the output of a stem, not pixels'
try "$look" filters -m interleaved.vit -o none.png
refused 'interleaved.vit: the patches of this model are not squares of the photo'
missing none.png

# --- wrong input ------------------------------------------------------------------------------

try "$look"
is 2
err "^vit-look: missing COMMAND"
try "$look" paint
is 2
err "^vit-look: there is no command 'paint' \(try 'vit-look --help'\)$"
try "$look" --help
is 0
out '^usage: vit-look COMMAND'
out '^Exit status: 0'
try "$look" --version
is 0
for command in attention tokens similarity positions filters; do
    try "$look" $command --help
    is 0
    out "^usage: vit-look $command "
    at=()
    [ $command = similarity ] && at=(--at 5,3)
    operand=("$photo")
    case $command in
    positions | filters) operand=() ;;
    *)
        try "$look" $command "${at[@]}" -o none.png
        usage $command 'missing IMAGE'
        ;;
    esac
    run=("$look" $command -m plain.vit "${operand[@]}" "${at[@]}")
    try "${run[@]}"
    usage $command 'missing -o OUT.png, --npy OUT.npy or --json'
    try "${run[@]}" -o x.jpg
    usage $command 'the picture is a PNG; its name must end in .png'
    try "${run[@]}" -o x --npy x
    usage $command 'x: this output is the same file as the output x'
    try "${run[@]}" -o - --json
    usage $command 'only one output can go to standard output'
    try "${run[@]}" --npy - -o -
    usage $command 'is the same file as the output -'
    try "${run[@]}" -o nosuch/x.png
    refused 'nosuch/x.png: cannot be created'
    try "${run[@]}" -o plain.vit
    refused 'plain.vit: the output is an input'
    try "${run[@]}" --npy plain.vit
    refused 'plain.vit: the output is an input'
    try "${run[@]}" -o none.png --size 1
    is 2
    [ -c /dev/full ] && {
        try "${run[@]}" -o /dev/full
        refused '/dev/full: '
        try "${run[@]}" --npy /dev/full
        refused '/dev/full: '
    }
done
try "$look" filters -m plain.vit "$photo" -o none.png
is 2
cp "$photo" copy.png
try "$look" tokens -m plain.vit copy.png -o copy.png
refused 'copy.png: the output is an input'
same copy.png "$photo"
try "$look" attention "${plain[@]}" --heads some -o none.png
usage attention '--heads: expected all or mean'
try "$look" attention "${plain[@]}" --heads all --head 1 -o none.png
usage attention '--head and --heads exclude each other'
for other in '--block 1' '--head 1' '--heads all'; do
    # shellcheck disable=SC2086
    try "$look" attention "${plain[@]}" --rollout $other -o none.png
    usage attention '--rollout covers all heads and blocks: it excludes --block, --head and --heads'
done

# If an output is NaN or infinite, vit-look writes no picture.
"${CC:-cc}" -O1 -o random_checkpoint "$root/tests/random_checkpoint.c" || fail "it does not compile"
for at in filters:patch_embed.proj.weight positions:pos_embed; do
    ./random_checkpoint unfit.safetensors nan="${at#*:}"
    try "$convert" unfit.safetensors -o unfit.vit --set num_heads=2 --set allow_nonfinite=1
    is 0
    try "$look" "${at%:*}" -m unfit.vit -o none.png
    refused "unfit.vit: some values of ${at#*:} are NaN or infinite"
    missing none.png
done

# Photos that cannot be read are reported and left out.
echo text >bad.jpg
try "$look" tokens -m plain.vit bad.jpg "$photo" -o some.png --json
is 1
err '^vit-look: bad.jpg: the file is not an image'
json 1 images
json 1 unreadable
png some.png
try "$look" tokens -m plain.vit bad.jpg -o none.png
refused 'no image could be read'
try "$look" similarity -m plain.vit bad.jpg "$photo" --at 5,3 -o none.png
refused '--at 5,3 needs the first photo, which cannot be read'
try "$look" tokens -m plain.vit nosuch.jpg -o none.png
refused 'nosuch.jpg: cannot be opened: No such file'
mkdir empty
try "$look" tokens -m plain.vit empty -o none.png
refused 'empty: the folder has no images in it'
try "$look" attention "${plain[@]}" --size 3000 -o large.png
is 0
png large.png
photos=()
for _ in {1..5}; do photos+=("$photo"); done
try "$look" attention -m plain.vit "${photos[@]}" --size 8192 --columns 5 -o none.png
refused 'the picture would be .* pixels; the limit is'
missing none.png

summary
