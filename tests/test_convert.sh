#!/usr/bin/env bash
# Tests vit-convert from the command line: results, refusals and messages. A failure must leave no
# file behind. Run from the root of the repository.
#
#     BIN=. bash tests/test_convert.sh          programs in $BIN/tools; build/asan has sanitized ones
set -u
cd "$(dirname "$0")/.."
BIN=${BIN:-.}
CONVERT=$PWD/$BIN/tools/vit-convert
INFO=$PWD/$BIN/tools/vit-info
RUN=$PWD/$BIN/tools/vit-run
CHECKPOINTS=$PWD/tests/data/checkpoints
ROOT=$PWD
cat=$ROOT/examples/cat.ppm
. tests/built.sh programs
. tests/checks.sh

if ! ${CC:-cc} -O1 -o "$work/random_checkpoint" tests/random_checkpoint.c; then
    echo "0 passed, 1 failed"
    exit 1
fi
cd "$work" || exit 1

# Makes a new m.safetensors.
random() { ./random_checkpoint m.safetensors "$@"; }

# Runs vit-convert. Its output goes to out and err.
convert() { "$CONVERT" "$@" >out 2>err; }

# accepts ARGUMENTS...: passes if m.safetensors converts to m.vit. stderr may contain only lines
# about assumptions and dropped tensors
accepts() {
    rm -f m.vit
    if convert m.safetensors -o m.vit "$@" && [ -s m.vit ] &&
        ! grep -qvE '^vit-convert: (check first:|assumed|dropped|--arch|--config|one input) ' err; then pass
    else fail "should be accepted: $*"; fi
}

# A model without blocks is accepted if an option states that the model has no blocks.
without() { case $* in *depth=0*) echo --set depth=0 ;; esac; }

says() { # TEXT...: passes if stderr has a separate line with each
    local text
    for text in "$@"; do
        if grep -qF -e "vit-convert: $text" -e "vit-convert: check first: $text" err; then pass
        else fail "expected \"$text\" on stderr"; fi
    done
}

ends() { # TEXT: passes if it is the last line on stderr
    if tail -n 1 err | grep -qF -- "vit-convert: $1"; then pass
    else fail "expected \"$1\" in the last line on stderr"; fi
}

# Matches the assumptions that are printed before a question.
BEFORE_IT='^vit-convert: (check first:|assumed|dropped|one input|--arch|--config) '

# refuses STATUS MESSAGE ARGUMENTS...: passes for this exit status and one line on stderr that
# contains MESSAGE. An older m.vit must stay unchanged, and no other file may be left
refuses() { refuses_all 1 "$@"; }

# refuses_all LINES STATUS MESSAGE ARGUMENTS...: like `refuses`, but for a message of LINES lines
refuses_all() {
    local lines=$1 status=$2 message=$3 before after got
    shift 3
    echo older >m.vit
    before=$(ls -A)
    convert m.safetensors -o m.vit "$@"
    got=$?
    after=$(ls -A)
    if [ $got != "$status" ]; then fail "exit status $got, expected $status: $*"
    elif ! grep -qF -- "$message" err; then fail "expected \"$message\": $*"
    elif [ "$(grep -cvE "$BEFORE_IT" err)" != "$lines" ]; then fail "expected $lines lines: $*"
    elif [ -s out ]; then fail "prints something to stdout: $*"
    elif [ "$(cat m.vit)" != older ]; then fail "the older output changed: $*"
    elif [ "$before" != "$after" ]; then fail "files left behind: $after"
    elif ! grep -q '^vit-convert: ' err; then fail "the message does not begin with the program"
    else pass; fi
}

prints() { # TEXT...: passes if the last output has each
    local text
    for text in "$@"; do
        if grep -qF -- "$text" out; then pass; else fail "expected to print \"$text\""; fi
    done
}

sound() { # FILE: passes if its checksums and self-test are right
    if "$INFO" --check "$1" >out 2>err; then pass; else fail "vit-info --check $1"; fi
}

same() { # A B
    if cmp -s "$1" "$2"; then pass; else fail "$1 and $2 differ"; fi
}

H="--set num_heads=2"
random
: >out
: >err
sections

# --- round trip, every option of the architecture -------------------------------------------

for options in "" "dist=1" "patchnorm=1" "bias=0" "repr=24" "repr=24 classes=0" "classes=0" \
    "dist=1 classes=0" "chans=1" "chans=4 patch=3" "patch=5 rows=2 cols=2" "mlp=37" "dim=18" \
    "depth=0" "depth=11" "classes=1" "classes=33" "mlp=4100"; do
    # shellcheck disable=SC2086 # options are words
    random $options
    # shellcheck disable=SC2046,SC2086
    accepts $H --to vit $(without $options)
    sound m.vit
    if convert m.vit --to safetensors -o back.safetensors; then pass; else fail "unpack $options"; fi
    same m.safetensors back.safetensors
done

# A round trip keeps every bit of values in half precision.
for type in f16 bf16; do
    random dtype=${type^^} dim=18
    accepts $H --dtype f32
    convert m.vit --to safetensors -o wide.safetensors
    accepts $H --dtype $type
    prints "$type"
    sound m.vit
    convert m.vit --to safetensors -o back.safetensors
    cp back.safetensors m.safetensors
    accepts $H --dtype f32
    convert m.vit --to safetensors -o again.safetensors
    same wide.safetensors again.safetensors
done

for type in f32:float32 f32:fp32 f16:float16 f16:fp16 f16:half bf16:bfloat16; do
    random # with PyTorch's names
    accepts $H --dtype ${type#*:}
    prints "output          m.vit, ${type%:*},"
done

# Quantised weights are exported as f32. If these values are quantised again, int4 weights do not
# change, because int4 rounds scales to f16. In int8, at most the last bit of a scale changes.
for type in int8 int4; do
    for options in "" "dim=18" "dist=1 bias=0" "chans=1 patch=3" "patch=1 chans=1" "mlp=3" "depth=0" \
        "repr=24 classes=0" "mlp=37 patchnorm=1" "classes=33"; do
        # shellcheck disable=SC2086 # options are words
        random $options
        # shellcheck disable=SC2046,SC2086
        accepts $H --dtype $type $(without $options)
        prints "$type"
        sound m.vit
        convert m.vit --to safetensors -o back.safetensors
        cp back.safetensors m.safetensors
        # shellcheck disable=SC2046,SC2086
        accepts $H --dtype $type $(without $options)
        convert m.vit --to safetensors -o again.safetensors
        if [ "$(stat -c %s back.safetensors)" = "$(stat -c %s again.safetensors)" ]; then pass
        else fail "the size changes"; fi
        [ $type = int8 ] || same back.safetensors again.safetensors
    done
done
stored() { # "TENSOR TYPE"...: of m.vit
    local line
    "$INFO" --tensors m.vit >out 2>err
    for line in "$@"; do
        if tr -s ' ' <out | grep -q "^ $line "; then pass; else fail "$line"; fi
    done
}
random dim=32
accepts $H --dtype int8 --keep 'blocks.0.*' --keep 'head.*' --json
stored "patch_embed.proj.weight f16" "blocks.0.mlp.fc1.weight bf16" "blocks.1.mlp.fc1.weight int8" \
    "head.weight bf16" "head.bias f32"
prints "tensors in int8" "tensors in bf16" "option: --keep head.*"
sound m.vit
accepts $H --dtype int4 # a narrow model has some layers in int8
stored "patch_embed.proj.weight f16" "blocks.0.mlp.fc1.weight int8" "blocks.1.mlp.fc1.weight int4" \
    "blocks.1.attn.proj.weight int8" "head.weight int4"
prints "tensors in int4" "tensors in int8"
if grep -qF -- --keep out; then fail "names an option that was not given"; else pass; fi
sound m.vit
accepts $H --dtype int4 --keep none # the report has the option even without effect
stored "blocks.0.mlp.fc1.weight int4" "blocks.1.attn.proj.weight int4"
prints "option: --keep none"
random dim=272 mlp=16
for type in int8 int4; do
    accepts $H --dtype $type --ignore $'a\tb'
    "$INFO" m.vit >out 2>err
    prints 'option: --ignore a\tb'
    if grep -qF -- --keep out; then fail "a wide model keeps nothing"; else pass; fi
done

# The weights of a stem, like those of the patch embedding, are stored with more bits than other
# weights. The tensors of the stem are traced for each image, and do not depend on the batch.
cp "$ROOT/tests/data/layouts/timm_hybrid/model.safetensors" m.safetensors
accepts $H --dtype int8 --keep none
prints "ResNet stem of 1 block"
stored "patch_embed.backbone.stem.conv.weight f16" "blocks.1.mlp.fc2.weight int8" \
    "patch_embed.backbone.stages.0.blocks.0.conv2.weight f16"
sound m.vit
"$RUN" -m m.vit "$cat" --trace one >out 2>err
"$RUN" -m m.vit "$cat" "$cat" --trace two >out 2>err
for name in stem.norm stem stages.0.blocks.0.downsample stages.0.blocks.0; do
    same "one/patch_embed.backbone.$name.npy" "two/patch_embed.backbone.$name.0.npy"
    same "one/patch_embed.backbone.$name.npy" "two/patch_embed.backbone.$name.1.npy"
done
cp "$ROOT/tests/data/layouts/timm_mci/model.safetensors" m.safetensors
accepts $H --dtype bf16
prints "convolutional stem"
sound m.vit

# The same input gives the same bytes in any folder and at any time.
random
accepts $H
cp m.vit first.vit
sleep 1.1
mkdir -p elsewhere
cp m.safetensors elsewhere/m.safetensors
convert elsewhere/m.safetensors -o elsewhere/other.vit --set num_heads=2
same first.vit elsewhere/other.vit
if grep -aqF "$work" first.vit; then fail "an absolute path in the file"; else pass; fi

# --- containers, wrappers, prefixes ----------------------------------------------------------

random
accepts $H
convert m.vit --to safetensors -o plain.safetensors
for prefix in module. model. _orig_mod. backbone. module._orig_mod. timm_model. visual.trunk. student.; do
    random prefix=$prefix
    accepts $H
    prints "names with the prefix $prefix"
    convert m.vit --to safetensors -o back.safetensors
    same plain.safetensors back.safetensors
done
random extra=module.patch_embed.proj.weight:16,3,4,4
refuses 1 "unknown tensor: module.patch_embed.proj.weight [16, 3, 4, 4]" $H
random prefix=module. extra=../model.patch_embed.proj.weight:16,3,4,4
refuses 1 "1 unknown tensor" $H

./random_checkpoint sharded.safetensors.index.json shards=3
if convert sharded.safetensors.index.json -o m.vit $H; then pass; else fail "shards"; fi
sound m.vit
convert m.vit --to safetensors -o back.safetensors
same plain.safetensors back.safetensors
mkdir -p folder
./random_checkpoint folder/model.safetensors.index.json shards=2
if convert folder -o m.vit $H; then pass; else fail "a folder"; fi
cp folder/model.safetensors.index.json-00001 kept
if convert folder -o folder/model.safetensors.index.json-00001 $H; then fail "overwrote a shard"
elif grep -q "is an input" err; then pass; else fail "message for a shard as output"; fi
same kept folder/model.safetensors.index.json-00001
mkdir f
./random_checkpoint f/model.safetensors
printf '{"model_args": {"num_heads": 2}}' >f/config.json
for path in f/ folder/../f/; do
    convert $path -o m.vit
    prints "f/: safetensors" "heads 2 x 8"
done

# --- detected and reported settings ----------------------------------------------------------

random dim=192 mlp=256 rows=2 cols=2
accepts
prints "heads 3 x 64" "mean 0.5"
says "assumed num_heads=3: the value in timm's models of width 192 (" \
    "assumed mean=0.5 std=0.5 crop_pct=0.9 crop_mode=center interpolation=bicubic: as timm"
ends "--config FILE, or --match-folder DIR with labelled pictures, would settle the preprocessing; \
no --arch fits the tensors"
cp "$ROOT/tests/data/trained/heads4.safetensors" m.safetensors # trained weights show the number
accepts
prints "heads 4 x 8"
says "assumed num_heads=4: read from the weights ("
if grep -q "; next best 8: .*(2 moves the output by [0-9]* %; --set num_heads=N)" err; then pass; else fail "the next best"; fi
if "$INFO" m.vit >out 2>err; then prints "  num_heads=4 (read from the weights ("
else fail "vit-info"; fi
accepts $H
if grep -q "read from the weights" out err; then fail "read although it is told"; else pass; fi
cp "$ROOT/tests/data/trained/heads1.safetensors" m.safetensors
refuses 1 "num_heads: the weights show no heads, perhaps because of a single head or little training; give \
--set num_heads=N (1, 2, 4,"
random
refuses 1 "num_heads: the weights show no heads"
refuses 1 "num_heads 3 does not divide" --set num_heads=3
refuses 1 "num_heads 2 x head_dim 4 is not" $H --set head_dim=4
accepts --set head_dim=4
prints "heads 4 x 4"
accepts $H --set mean=0.1,0.2,0.3 --set std=0.4 --set eps=1e-5 --set attn_scale=0.25 \
    --set crop_mode=squash --set interpolation=bilinear --set crop_pct=0.5 --json
prints '"norm_eps": 1e-05' '"attn_scale": 0.25' '"resize_height": 24' '"crop_mode": 1' \
    '"interpolation": 0' '"mean": [0.1, 0.2, 0.3]' '"std": [0.4, 0.4, 0.4]'
refuses 1 "--set gives 2 values of mean for in_chans 3" $H --set mean=1,2
refuses 1 "std 0 is not above 0" $H --set std=0
refuses 1 "crop_pct 0 is not in (0, 4]" $H --set crop_pct=0
random chans=1
accepts $H
random bias=0 repr=24 dist=0
accepts $H --json
prints '"has_qkv_bias": 0' '"representation_dim": 24' '"pre_logits"'
random dist=1 repr=24
refuses 1 "exclude each other" $H
random rows=2 cols=3
refuses 1 "pos_embed has 7 rows for 1 prefix token and the patches, which do not form a square" $H
accepts $H --img-size 8x12
prints "input 3 x 8 x 12"
accepts $H --img-size 8x12 --set crop_mode=squash
prints "squash, 8x13 to 8x12"
random depth=0
refuses 1 "there are no blocks: expected tensors called blocks.{i}.*; give --set depth=0 if" $H
accepts $H --set depth=0
if "$RUN" -m m.vit "$cat" --attention a.npy 2>err; then fail "attention without blocks"
elif grep -qF "m.vit: the model has no blocks, and thus no attention" err; then pass; else fail "no message"; fi
random dist=1
accepts $H
"$INFO" m.vit >out 2>err
prints "patches of 4 x 4, cls_token, dist_token" "the mean of two heads"
random repr=24
refuses 1 "head.weight: expected [5, 16], found [5, 24]" $H --set representation_dim=0
random repr=16
accepts $H --set representation_dim=0
says "dropped 2 tensors not used with these settings: pre_logits.fc.weight, pre_logits.fc.bias"
accepts $H --set num_classes=0
prints "0 classes" "pre_logits 16"
says "dropped 2 tensors not used with these settings: head.weight, head.bias"
random flat=1
accepts $H
convert m.vit --to safetensors -o back.safetensors
random
same m.safetensors back.safetensors
random flat=1 chans=1
accepts $H
says "assumed in_chans=1: this makes patches square (--set in_chans=N)" \
    "assumed patch_order=chw: "
accepts $H --set in_chans=1
if grep -q "assumed in_chans" err; then fail "in_chans is told"; else pass; fi
refuses 1 "a patch of 16 values is not a square of pixels with 3 channels; give --set in_chans=N" $H \
    --set in_chans=3
# The values of trained filters show in which order an unknown layer stores channels and pixels. The
# same weights must give the same model in either order.
ordered() { # [smooth=ORDER]
    random flat=1 patch=8 "$@"
    LC_ALL=C sed -i 's/patch_embed\.proj/patches.of_image/g' m.safetensors
    accepts $H
}
ordered smooth=chw
says "assumed patch_order=chw: read from the weights: neighbouring pixels correlate by 1.000 in this order, but by "
convert m.vit --to safetensors -o chw.safetensors
ordered smooth=hwc
says "assumed patch_order=hwc: read from the weights: neighbouring pixels correlate by 1.000 in this order, but by "
convert m.vit --to safetensors -o hwc.safetensors
same chw.safetensors hwc.safetensors
ordered
says "assumed patch_order=chw: the usual "
random flat=1 chans=2
refuses 1 "in_chans: a patch of 32 values is not a square of pixels with 1 or 3 channels; give --set in_chans=N (2, 8 or 32)" $H

# --- another input size ----------------------------------------------------------------------

random rows=4 cols=4
accepts $H --img-size 24x20
prints "input 3 x 24 x 20" "positions resampled from 4x4 to 6x5 patches"
sound m.vit
accepts $H --img-size 18
prints "input 3 x 18 x 18"
if grep -q resampled out; then fail "a remainder needs no resampling"; else pass; fi
accepts $H --set img_size=32
prints "input 3 x 32 x 32"
refuses 1 "patch_size is larger than the image" $H --img-size 3
for size in x 0 -4 12x 12x0 1.5 12x12x12 99999999999; do
    refuses 2 "expected N or HxW pixels" $H --img-size=$size
done

# --- input sizes chosen at run time ----------------------------------------------------------

# resized SIZE ARGUMENTS...: passes if a file that is resized at run time gives the tensors of a
# file that was converted for this size
resized() {
    local size=$1
    shift
    accepts "$@" --dynamic
    if ! "$RUN" -m m.vit "$ROOT/examples/cat.ppm" --img-size "$size" --dump-input a0.npy \
        --embedding a1.npy --tokens a2.npy >out 2>err; then fail "vit-run --img-size $size"; fi
    accepts "$@" --img-size "$size"
    if ! "$RUN" -m m.vit "$ROOT/examples/cat.ppm" --dump-input b0.npy --embedding b1.npy \
        --tokens b2.npy >out 2>err; then fail "vit-run"; fi
    same a0.npy b0.npy
    same a1.npy b1.npy
    same a2.npy b2.npy
}

random rows=4 cols=4
accepts $H --dynamic --json
prints '"dynamic_img_size": 1' '"crop_pct": 0.9'
accepts $H --set dynamic_img_size=1
prints "any input size"
sound m.vit
accepts $H --dynamic --set resize_height=20 --json
prints '"crop_pct": 0,'
for how in timm transformers torchvision flexivit jax dino naflex par parfac; do
    resized 24x36 $H --set pos_resample=$how
    resized 8 $H --set pos_resample=$how --set crop_pct=0.8
done
resized 22x13 $H --set dynamic_img_pad=1
# resized_layout FILE SIZE ARGUMENTS...: like `resized`, for relative and rotary positions
resized_layout() {
    cp "$ROOT/tests/data/layouts/$1" m.safetensors
    shift
    resized "$@" --set num_heads=2
}
rope='--set norm_eps=1e-6 --img-size 4'
for size in 6x10 8x4 2; do
    for how in timm transformers; do
        resized_layout beit_original/model.pth $size --set norm_eps=1e-6 --set activation=gelu \
            --set pool=avg --set pos_resample=$how
    done
    resized_layout eva02_original/model.pth $size $rope
    resized_layout eva02_original/model.pth $size $rope --set ref_feat_shape=3 \
        --set rope_grid_indexing=xy --set rope_grid_offset=0.5
    resized_layout dinov3_original/model.pth $size --img-size 4
    resized_layout rope_vit_mixed/model.pth $size $rope --set activation=gelu
done
random rows=4 cols=4
resized 34 $H --set crop_mode=squash --set crop_pct=1 --dtype int8
accepts $H --img-size 20x12 --set pos_resample=torchvision
prints "positions resampled from 4x4 to 5x3 patches, as torchvision does"
refuses 2 "expected one of timm transformers torchvision flexivit jax dino naflex par parfac" $H \
    --set pos_resample=nearest
accepts $H
if "$RUN" -m m.vit "$ROOT/examples/cat.ppm" --img-size 24 >out 2>err; then
    fail "vit-run should refuse --img-size"
elif grep -qF "m.vit: --img-size: its input size is fixed" err; then pass
else fail "vit-run: what is wrong with --img-size?"; fi

# --- other patches, other channels -----------------------------------------------------------

random rows=4 cols=4
accepts $H --in-chans 1 --set mean=0.2,0.3,0.7 --set std=0.5,0.25,0.75 --json
prints "patch embedding adapted from 3 x 4 x 4 to 1 x 4 x 4 weights" '"mean": [0.4]' '"std": [0.5]'
sound m.vit
accepts $H --in-chans 5 --set mean=0.2,0.3,0.7 --json
prints '"mean": [0.2, 0.3, 0.7, 0.2, 0.3]' '"in_chans": 5'
accepts $H --in-chans 2 --set mean=0.6,0.1 --dtype int8 --json
prints '"mean": [0.6, 0.1]'
sound m.vit
if "$INFO" m.vit 2>err | grep -qF "option: --in-chans 2"; then pass; else fail "provenance"; fi
accepts $H --in-chans 3
if grep -q adapted out; then fail "nothing was adapted"; else pass; fi
accepts $H --patch-size 8
prints "input 3 x 16 x 16, 5 tokens" "adapted from 3 x 4 x 4 to 3 x 8 x 8 weights" \
    "positions resampled from 4x4 to 2x2 patches"
sound m.vit
accepts $H --patch-size 3 --in-chans 4 --img-size 12 --dtype f16
prints "input 4 x 12 x 12, 17 tokens" "adapted from 3 x 4 x 4 to 4 x 3 x 3 weights"
if grep -q resampled out; then fail "the grid is the same"; else pass; fi
refuses 1 "patch_size is larger than the image" $H --patch-size 17
refuses 2 "--in-chans" $H --in-chans 33
refuses 2 "--patch-size" $H --patch-size 0
random nan=patch_embed.proj.weight
refuses 1 "patch_embed.proj.weight: " $H --patch-size 8
random chans=1
refuses 1 "--in-chans 3: expected a checkpoint of 3 channels, found 1" $H --in-chans 3
accepts $H --patch-size 8
prints "adapted from 1 x 4 x 4 to 1 x 8 x 8 weights"

# --- tensors that do not fit -----------------------------------------------------------------

random skip=blocks.1.mlp.fc2.weight
refuses 1 "m.safetensors: blocks.1.mlp.fc2.weight is missing: other blocks have it" $H
random skip=norm.bias
refuses 1 "norm.bias is missing: expected [16]" $H
random skip=cls_token
refuses_all 5 1 "no class token, and the tensors do not show how the patches are pooled" $H
refuses 1 "pos_embed has 10 rows for 0 prefix tokens" $H --set pool=avg --set activation=gelu
random skip=pos_embed
refuses_all 4 1 "there is no pos_embed to show the input size; give --img-size HxW" $H
refuses 1 "there is no pos_embed, and the tensors show neither rotary" \
    $H --img-size 12
refuses_all 4 1 "for example: --img-size HxW --set rope_type=WORD" $H
accepts $H --img-size 12 --set rope_type=none
prints "no positions"
accepts $H --img-size 12 --set rope_type=cat --set rope_temperature=100
prints "no positions" "rotary positions"
refuses 1 "rope_temperature 0 is not above 0" $H --img-size 12 --set rope_type=cat \
    --set rope_temperature=0
random skip=head.bias
refuses 1 "head.bias is missing: expected [5]" $H
random dist=1 skip=head_dist.weight
refuses 1 "head_dist.weight is missing: its bias exists" $H
random shape=blocks.0.attn.proj.weight:16,17
refuses 1 "blocks.0.attn.proj.weight: expected [16, 16], found [16, 17]" $H
random shape=norm.weight:1,16
refuses 1 "norm.weight: expected [16], found [1, 16]" $H
random shape=pos_embed:1,3,16
refuses 1 "pos_embed has 3 rows for 1 prefix token" $H
random shape=pos_embed:1,9,16
accepts $H
prints "positions for the patches only"
random shape=patch_embed.proj.weight:16,3,4,5
refuses 1 "patch_embed.proj.weight: expected [D, C, P, P], found [16, 3, 4, 5]" $H
random prefix=module. shape=head.weight:5,15
refuses 1 "module.head.weight: expected [5, 16], found [5, 15]" $H
random extra=blocks.7.norm1.weight:16
refuses_all 13 1 "blocks.{2..6}.norm1.weight (5 tensors) are missing: other blocks have it" $H
if grep -qxF "  blocks.{2..7}.mlp.fc2.bias (6 tensors) are missing: other blocks have it" err; then pass
else fail "all that is missing is named"; fi
random extra=blocks.99999.norm1.weight:16
refuses 1 "more than 1024 blocks" $H
random dtype=I8
refuses_all 21 1 "  cls_token: expected floating-point weights, found I8" $H
if grep -qF "blocks.{0..1}.norm1.weight: expected floating-point weights, found I8 (2 tensors)" err
then pass; else fail "the same failure in two blocks is one"; fi

random extra=what.is.this:2,3 extra=and.that:4
refuses_all 4 1 "m.safetensors: 2 things are missing or not known:" $H
says "m.safetensors: 2 things"
for line in "  1 unknown tensor: what.is.this [2, 3] (--ignore PATTERN drops it)" \
    "  1 unknown tensor: and.that [4] (--ignore PATTERN drops it)" \
    "--rename THEIRS=OURS names an unknown tensor"; do
    if grep -qxF -- "$line" err; then pass; else fail "$line"; fi
done
accepts $H --ignore 'what.*' --ignore and.that
says "dropped 2 tensors by --ignore: what.is.this, and.that"
refuses 1 "1 unknown tensor: and.that [4] (--ignore PATTERN drops it); --rename THEIRS=OURS names an unknown tensor" $H --ignore 'what*'
refuses 1 "--ignore: the model reads norm.weight; to run the model without a layer, give a setting" \
    $H --ignore 'what.*' --ignore and.that --ignore 'norm.*'
# shellcheck disable=SC2046 # words
random $(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo extra=x$i:2; done)
refuses_all 14 1 "1 unknown tensor: x12 [2]" $H
accepts $H --ignore 'x*'

# Names that differ only in numbers have one entry in the message, and no name is cut short.
# --ignore is not proposed for a tensor that may be part of the model.
random extra=blocks.0.foo.weight:16,16 extra=blocks.1.foo.weight:16,16 extra=blocks.1.foo.bias:16
refuses_all 4 1 "2 unknown tensors: blocks.{0..1}.foo.weight [16, 16]" $H
if grep -q ignore err; then fail "--ignore for a part of a block"; else pass; fi
long=$(printf 'long_name_%.0s' {1..11})
random extra="$long:16" extra="$long.of.it:3"
refuses_all 4 1 "1 unknown tensor: $long [16]" $H
if grep -qF "$long.of.it [3] (--ignore" err; then pass; else fail "a long name is cut"; fi
random skip=blocks.1.mlp.fc2.weight extra=blocks.1.mlp.out:16,64
refuses_all 4 1 "  blocks.1.mlp.fc2.weight is missing: other blocks have it" $H
if grep -qxF "  1 unknown tensor: blocks.1.mlp.out [16, 64]" err; then pass; else fail "unknown"; fi
random skip=cls_token extra=class:1,1,16 # the name shows what the tensor is
accepts $H
says "assumed pool=token: "
random skip=cls_token extra=thing:1,7 # perhaps a renamed tensor, so pooling is no question
refuses 1 "1 unknown tensor: thing [1, 7] (--ignore PATTERN drops it); --rename" $H
random extra=mask_token:1,1,16 extra=decoder_embed.weight:3,3 extra=head_dist.weight:5,16
accepts $H
says "dropped 1 tensor of pre-training: mask_token" \
    "dropped 1 tensor of pre-training (MAE): decoder_embed.weight" \
    "dropped 1 tensor of the distillation head, which requires a distillation token: head_dist.weight"
accepts $H --json -q
says "dropped 1 tensor of pre-training: mask_token"
prints '"dropped": ["mask_token", "decoder_embed.weight", "head_dist.weight"]'

# A text encoder is recognised only if it has a table of words. A module with blocks is not
# recognised as a head.
random extra=transformer.0.weight:16,16 extra=ln_final.weight:16
refuses_all 4 1 "1 unknown tensor: ln_final.weight [16]" $H
random extra=transformer.0.weight:16,16 extra=ln_final.weight:16 extra=token_embedding.weight:9,16
accepts $H
says "dropped 3 tensors of a text tower: transformer.0.weight, ln_final.weight, token_embedding"
random extra=head.mlp.0.weight:16,16
refuses 1 "1 unknown tensor: head.mlp.0.weight [16, 16]" $H
random extra=decoder_blocks.0.norm.weight:8 extra=decoder_blocks.1.norm.weight:8
accepts $H
says "dropped 2 tensors of pre-training (MAE): decoder_blocks.{0..1}.norm.weight"
random depth=0 extra=transformer.0.weight:16,16
refuses_all 4 1 "there are no blocks" $H
random dist=1 classes=0 extra=head_dist.weight:5,16
accepts $H

# Matrices of equal shape cannot be distinguished if their names have no meaning. Such a checkpoint
# is refused.
random sorted=1 dim=8 mlp=8
bricks() { # THEIRS=OURS...: makes blocks with names that no table has
    renamed=$H
    for name; do renamed="$renamed --rename blocks.*.${name%=*}.*=bricks.*.${name#*=}.*"; done
}
bricks attn.proj=k attn.qkv=l.qkv mlp.fc1=m mlp.fc2=n norm1=norm1 norm2=norm2
# shellcheck disable=SC2086 # words
refuses 1 "the names of bricks.*.k, bricks.*.n do not distinguish attention's projection" \
    $renamed

# A word in the name identifies a distillation token.
random dist=1
bricks attn.proj=attn.proj attn.qkv=attn.qkv mlp.fc1=fc1 mlp.fc2=fc2 norm1=norm1 norm2=norm2
# shellcheck disable=SC2086 # words
if convert m.safetensors --plan $renamed --rename dist_token=distill &&
    grep -q '^  dist_token .*(by its name)$' out; then pass; else fail "no token of distillation"; fi

lacks() { # TENSOR:SHAPE OPTION
    random extra=$1
    refuses 1 "this version of vit.h lacks" $H
    if grep -qF "$2" err; then pass; else fail "expected $2"; fi
}
lacks patch_embed.backbone.layer1.0.conv1.weight:8,3,1,1 "stem"

# --- assumptions -------------------------------------------------------------------------------

random
accepts $H -q
if [ -s out ]; then fail "--quiet prints something"; else pass; fi
says "assumed mean=0.5 std=0.5 crop_pct=0.9 crop_mode=center " \
    "assumed block_type=pre_norm: " "assumed activation=gelu: timm's usual value (relu moves the output by " \
    "assumed pool=token: " "assumed attn_root=head_dim: " "assumed norm_eps=1e-05: " \
    "assumed img_size=12x12: 3 x 3 patches of 4 pixels, side by side (--img-size HxW or --set \
patch_stride=N)" \
    "assumed has_final_norm=1: "
# The most harmful assumption comes first. If several assumptions are wrong equally often, the one
# with the largest effect does the most harm.
if head -n 1 err | grep -q "^vit-convert: check first: assumed has_final_norm=1: .* (has_final_norm=0 \
has_fc_norm=0 moves the output by 1[0-9][0-9] %; --set has_final_norm=0|1)$" &&
    sed -n 2p err | grep -q "assumed block_type=pre_norm: the usual order (post_norm moves the output \
by [0-9]* %; "; then pass
else fail "the order of harm"; fi
accepts $H --json
if [ "$(grep -c assumed err)" = 8 ]; then pass; else fail "--json hides assumptions"; fi
prints '"assumed": [{"setting": "has_final_norm", ' '{"setting": "mean", "value": "0.5", ' \
    '"otherwise": "relu", "effect": 0.' \
    '{"setting": "block_type", "value": "pre_norm", "why": "the usual order", ' \
    '{"setting": "img_size", "value": "12x12", ' '{"setting": "std", "value": "0.5", "why": "as timm'
"$INFO" m.vit >out 2>err
prints "assumed" "  norm_eps=1e-05 (torch.nn.LayerNorm's default; timm has no model 16 wide and 2 deep)" "  mean=0.5 std=0.5 crop_pct=0.9 crop_mode=center"
if grep -q "assumed: " out; then fail "assumptions among the provenance"; else pass; fi
"$INFO" --json m.vit >out 2>err
prints '"mean=0.5 std=0.5 ' '"block_type=pre_norm (the usual order)", ' 'assumed: norm_eps=1e-05 (torch.nn.LayerNorm'
refuses_all 10 1 "m.safetensors: 8 things are assumed, which --strict refuses:" $H --strict
if grep -q "for example: --set has_final_norm=1 --set block_type=pre_norm --img-size 12x12 .*--set \
pool=token .*--set mean=0.5 --set std=0.5 .* --set norm_eps=1e-05$" err; then pass
else fail "what to give"; fi
refuses_all 11 1 "m.safetensors: 9 things are not known:" --strict
# refused_as_json: passes if a refusal as JSON has the questions and the possible assumptions
refused_as_json() {
    if convert "$@" -o m.vit --json; then fail "should be refused: $*"; else pass; fi
    prints '"failure": "'
    have python3 "a refusal as JSON" || return
    if python3 -m json.tool out >/dev/null 2>err; then pass; else fail "--json is not JSON"; fi
}
refused_as_json "$ROOT/tests/data/layouts/hf_clip_no_config/model.safetensors"
prints '"wrong": [], "questions": [{"setting": "activation", ' \
    '"option": "--set", "prefix": "num_heads=", "type": "integer", "choices": [{"value": "1", ' \
    '{"setting": "norm_eps", "value": "1e-05", "why": "as transformers CLIP has it"'
refused_as_json "$ROOT"/tests/data/own/unnamed_asked/model* --plan
prints '"questions": [{' '"mapping": ['
refused_as_json "$ROOT/README.md"
prints '"container": null, "layout": null, "failure": "' '"questions": [], "assumed": []}'
random skip=blocks.0.norm1.weight extra=thing:1,7
refused_as_json m.safetensors $H
prints '"wrong": [{"what": "blocks.0.norm1.weight is missing: ' '"questions": []'
random
accepts $H
told="--set norm_eps=1e-6 --set activation=gelu --set block_type=pre_norm --set pool=token
    --set attn_root=head_dim --set has_final_norm=1 --set mean=0.5 --set std=0.5 --set crop_pct=0.9
    --set crop_mode=center --img-size 12"
# shellcheck disable=SC2086 # words
{
refuses 1 "--strict refuses to assume interpolation=bicubic: as timm has it" $H --strict $told
accepts $H --strict $told --set interpolation=bicubic
}
if [ -s err ]; then fail "everything is told"; else pass; fi
"$INFO" m.vit >out 2>err
if grep -q "assumed" out; then fail "everything is told"; else pass; fi

# --- NaN and infinity ------------------------------------------------------------------------

random nan=blocks.1.attn.qkv.weight
refuses 1 "blocks.1.attn.qkv.weight: 1 weights are NaN or infinite" $H
random inf=norm.bias
refuses 1 "norm.bias: 1 weights are NaN or infinite" $H
accepts $H --set allow_nonfinite=1
"$RUN" -m m.vit "$cat" --json >out 2>err
prints '"prob": null'
for command in "$RUN -m m.vit" "$(dirname "$RUN")/../tools/vit-look tokens -m m.vit -o m.png"; do
    # shellcheck disable=SC2086 # words
    if $command "$cat" >out 2>err; then fail "infinity has exit status 0: $command"
    elif grep -q 'outputs are NaN or infinite; vit-info --check names' err; then pass
    else fail "infinity is not told: $command"; fi
done
random big=head.weight
accepts $H
accepts $H --dtype bf16
refuses 1 "head.weight: 1 weights are too large for f16 (above 65504); use --dtype bf16 or f32" $H \
    --dtype f16

accepts $H --dtype int8
accepts $H --dtype int4
random big=patch_embed.proj.weight
for options in "" "--calibrate $ROOT/tests/data/images/rgb.png"; do
    # shellcheck disable=SC2086 # words
    refuses 1 "1 weights are too large for f16 (above 65504); use --dtype f32" $H --dtype int4 $options
done
random # then 3e38 from the head on
head -c 340 /dev/zero | tr '\0' '\177' |
    dd of=m.safetensors bs=1 seek=$(($(stat -c %s m.safetensors) - 340)) conv=notrunc 2>/dev/null
refuses 1 "m.safetensors: the outputs of the self-test are NaN or infinite: the weights are probably too large" $H
random nan=blocks.1.attn.qkv.weight
refuses 1 "which cannot be quantised" $H --dtype int8 --keep none --set allow_nonfinite=1

# --- calibration and report ------------------------------------------------------------------

PHOTOS=$ROOT/tests/data/images
mkdir -p photos/deep photos/.hidden empty
cp "$PHOTOS"/rgb.png "$PHOTOS"/grey.jpg photos
cp "$PHOTOS"/exif6.jpg photos/deep/UPPER.JPG
cp "$PHOTOS"/rgb.png photos/.hidden
echo "no image" >photos/notes.txt
ln -s .. photos/deep/up
ln -s .. photos/deep/up.jpg
nest=nest$(printf '/n%.0s' {1..40})
mkdir -p "$nest"
cp "$PHOTOS"/rgb.png "$nest"
for type in int8 int4 bf16; do
    for options in "" "dim=18 bias=0" "depth=0" "dist=1" "classes=0" "chans=1" "mlp=3" \
        "repr=24 mlp=37"; do
        # shellcheck disable=SC2086 # options are words
        random $options
        # shellcheck disable=SC2046,SC2086
        accepts $H --dtype $type --calibrate photos $(without $options)
        prints "on 3 images" "error           against f32 on 3 images, the calibration images"
        sound m.vit
        prints "calibrated: on 3 images"
    done
done
random
accepts $H --dtype int8 --calibrate photos --json
prints '"calibrated": 3' '"error": {"images": 3, "mean_cosine": 0.99' '"worst_image": "photos/' \
    '"agree": 3, "top1_agreement": 1.000000, "sure": '
if have python3 "a report as JSON"; then
    if python3 -m json.tool out >/dev/null 2>err; then pass; else fail "--json is not JSON"; fi
fi
cp m.vit first.vit
accepts $H --dtype int8 --calibrate photos # on any number of threads, at any time
same first.vit m.vit
accepts $H --dtype int8 --calibrate photos --report photos/rgb.png --report photos/deep --json
prints '"calibrated": 3' '"error": {"images": 2,'
accepts $H --dtype int8 --calibrate photos --calibrate-max 2 --report photos --report-max 1
prints "on 2 images" "against f32 on 1 images" "(photos/deep/UPPER.JPG)"
accepts $H --dtype int8 --json
prints '"calibrated": 0, "error": null'
accepts $H --dtype f16 --report photos -q
if [ -s out ]; then fail "--quiet prints something"; else pass; fi
random classes=0
accepts $H --dtype f16 --report photos --json
prints '"mean_cosine": 0.9999' '"agree": null' '"sure_agree": null}'
accepts $H --dtype f16 --report photos
prints "cosine of the embeddings 1.0000"
if grep -q "best class" out; then fail "classes of a model without any"; else pass; fi
random
accepts $H --dtype int8 --report photos
prints "cosine of the embeddings " "same best class for 3 of 3 images, 100.00 %" " in f32"
mkdir partly # unreadable images are reported and left out
cp "$PHOTOS"/rgb.png partly/b.png
head -c 60 "$PHOTOS"/rgb.png >partly/a.png
echo text >partly/c.jpg
for type in int8 bf16; do
    if convert m.safetensors -o m.vit $H --dtype $type --calibrate partly -q &&
        [ "$(grep -vE '^vit-convert: (check first:|assumed|one input|--config) ' err)" = "vit-convert: skipped 2 unreadable images of 3: partly/a.png, \
partly/c.jpg" ]; then pass
    else fail "a calibration with images that cannot be read"; fi
    "$INFO" m.vit >out
    prints "calibrated: on 1 images"
    cp m.vit first.vit
    accepts $H --dtype $type --calibrate partly/b.png
    same first.vit m.vit
done
if convert m.safetensors -o m.vit $H --dtype f16 --report partly; then pass
else fail "a report with images that cannot be read"; fi
prints "against f32 on 1 images"
if grep -q "skipped 2 unreadable images of 3" err; then pass; else fail "says nothing of skipped images"; fi
refuses 1 "partly/c.jpg: the file is not an image" $H --dtype int8 --calibrate partly/c.jpg
rm partly/b.png
convert m.safetensors -o m.vit $H --dtype int8 --calibrate partly
if [ $? = 1 ] && grep -q "c.jpg: the file is not an image" err; then pass; else fail "no image is left"; fi
refuses 2 "--calibrate: expected --dtype int8, int4 or bf16" $H --calibrate photos
refuses 2 "--calibrate: expected" $H --calibrate photos --dtype f16
refuses 2 "--report compares with f32" $H --report photos
refuses 2 "--keep: expected --dtype int8 or int4" $H --keep x --dtype bf16
refuses 2 "" $H --dtype int8 --calibrate photos --calibrate-max 0
refuses 1 "missing.png: cannot be opened: No such file" $H --dtype int8 --calibrate missing.png
refuses 1 "empty: the folder has no images in it" $H --dtype int8 --calibrate empty
refuses 1 "/n: the folder is nested in more than 32 folders" $H --dtype int8 --calibrate nest
if ! posix; then :
elif (ulimit -n 24 && convert m.safetensors -o m.vit $H --dtype int8 --calibrate nest); then
    fail "more folders than may be open"
elif grep -q 'nest/n.*/n: cannot be opened: Too many open files' err; then pass
else fail "message of too many open files"; fi
refuses 1 "photos/notes.txt: " $H --dtype int8 --calibrate photos/notes.txt
refuses 1 "photos/rgb.png: the output is an input" $H --dtype int8 --report photos -o photos/rgb.png
random chans=4 patch=3
refuses 1 "only models of 1 or 3 channels take images, found 4" $H --dtype int8 --calibrate photos
random nan=norm.bias
refuses 1 "NaN" $H --dtype bf16 --calibrate photos --set allow_nonfinite=1
rm -r photos/deep/up photos/deep/up.jpg
random chans=1 patch=1 rows=24 cols=24 # more tokens than the calibration samples
# shellcheck disable=SC2046 # words
accepts $H --dtype int8 $(for i in 1 2 3 4 5 6 7 8; do echo --calibrate photos/rgb.png; done)
prints "on 8 images"

# --- architectures ---------------------------------------------------------------------------

# With the name of an architecture, vit-convert accepts every model of this architecture's width and
# depth.
random dim=192 depth=12 mlp=768 patch=16 rows=14 cols=14
accepts --arch deit_tiny_patch16_224
prints "deit_tiny_patch16_224 (--arch)" "shorter side to 248" "mean 0.485 0.456 0.406" "12 x 444,864"
accepts --arch vit_tiny_patch16_224.augreg_in21k
prints "vit_tiny_patch16_224.augreg_in21k" "mean 0.5, std 0.5"
accepts --arch timm/vit_tiny_patch16_224.mine
says "assumed preprocessing of vit_tiny_patch16_224: tag mine is not known (--arch NAME)"
accepts --arch deit_tiny_patch16_224 --json
prints '"architecture": "deit_tiny_patch16_224'
accepts --arch vit_tiny_patch16_224 --img-size 384
prints "positions resampled from 14x14 to 24x24" "shorter side to 426"
TINY="vit_tiny_patch16_224 (mean=0.5 std=0.5); deit_tiny_patch16_224 \
(mean=0.485,0.456,0.406 std=0.229,0.224,0.225)"
accepts
says "check first: assumed num_heads=3: " # only a guess here
says "assumed values are sorted by the usual effect of a wrong value, because the model is too large to measure the effect"
ends "--arch NAME would settle the preprocessing; timm's names that fit the tensors: $TINY"
accepts --set num_heads=3
says "check first: assumed mean=0.5 std=0.5 "
accepts --set mean=0.5 --set std=0.5 # a name would replace no other harmful assumption
ends "--arch NAME or --config FILE would add settings"
refuses 1 "vit_small_patch16_224 has embed_dim 384, but the tensors have 192; --arch: names that fit the \
tensors: $TINY" --arch vit_small_patch16_224
refuses 1 "vit_tiny_patch16_384 has img_size 384x384, but the tensors have 224x224" \
    --arch vit_tiny_patch16_384
refuses 1 "deit_tiny_distilled_patch16_224 has has_dist_token 1, but the tensors have 0" \
    --arch deit_tiny_distilled_patch16_224
refuses 1 "unknown architecture deit_tiny_patch16; nearest: deit_tiny_patch16_224" \
    --arch deit_tiny_patch16
refuses 1 "vit_small_resnet26d_224: this version of vit.h lacks this convolutional stem" \
    --arch vit_small_resnet26d_224
refuses 1 "vit_tiny_r_s16_p8_224 has stem resnet, but the tensors have none" \
    --arch vit_tiny_r_s16_p8_224
refuses 1 "vit_base_patch14_dinov2 has patch_size 14, but the tensors have 16" \
    --arch vit_base_patch14_dinov2
cp m.safetensors deit_tiny_patch16_224-a1b2.pth
convert deit_tiny_patch16_224-a1b2.pth -o m.vit
says "--arch deit_tiny_patch16_224 or --config FILE would add settings"
cp m.safetensors vit_tiny_patch16_224-vit_base_patch16_224_miil.pth
convert vit_tiny_patch16_224-vit_base_patch16_224_miil.pth -o m.vit
says "--arch vit_base_patch16_224_miil or --config FILE would add settings"
random dim=192 depth=12 mlp=768 patch=16 rows=2 cols=7
refuses 1 "has img_size 224x224, but pos_embed has 15 rows and a patch is 16 wide" --arch vit_tiny_patch16_224
random chans=1 dim=192 depth=12 mlp=768 patch=16 rows=14 cols=14
refuses 1 "gives 3 values of mean for in_chans 1; give --set mean=..." --arch deit_tiny_patch16_224
accepts --arch vit_tiny_patch16_224
if convert --list-archs && [ "$(grep -c patch out)" = 253 ] && [ "$(grep -c deit out)" = 16 ]; then pass
else fail "--list-archs"; fi

# --- config.json -----------------------------------------------------------------------------

random
accepts $H
echo '{"architecture": "my_own_vit", "num_classes": 5, "model_args": {"num_heads": 2},
  "label_names": ["a", "b", "c", "d", "e\u00e9"],
  "pretrained_cfg": {"mean": [0.25, 0.25, 0.25], "std": [1, 1, 1], "crop_pct": 1.0}}' >config.json
accepts
prints "heads 2 x 8" "mean 0.25, std 1" "5 from config.json, the first \"a\""
says "assumed architecture=my_own_vit: config.json names this architecture, but timm has no such model"
"$INFO" --labels m.vit >out 2>err
prints "eé"
accepts --set mean=0.75
prints "mean 0.75, std 1"
printf '{"model_args": {"num_heads": 4}}' >other.json
accepts --config other.json
prints "heads 4 x 4"
printf '{"model_args": {"num_heads": 4, "depth": 3}}' >other.json
refuses 1 "other.json has depth 3, but the tensors have 2" --config other.json
accepts --config other.json --set depth=2
printf '{"num_classes": 7}' >other.json
refuses 1 "other.json has num_classes 7, but the tensors have 5" --config other.json $H
printf '{"pretrained_cfg": {"input_size": [3, 16, 16]}}' >other.json
refuses 1 "other.json has img_size 16x16, but the tensors have 12x12" --config other.json $H
accepts --config other.json $H --img-size 16
printf '{"pretrained_cfg": {"input_size": [3, 14, 15]}}' >other.json
accepts --config other.json $H
prints "input 3 x 14 x 15"
printf '{"model_args": {"mlp_ratio": 3}}' >other.json
refuses 1 "other.json has mlp_dim 48, but the tensors have 64" --config other.json $H
printf '{"architecture": "vit_base_resnet50d_224"}' >other.json
refuses 1 "other.json: architecture vit_base_resnet50d_224: this version of vit.h lacks" \
    --config other.json $H
printf '{"global_pool": "avg"}' >other.json
accepts --config other.json $H
prints "mean of the patches"
printf '{"model_args": {"attn_layer": "diff"}}' >other.json
refuses 1 "other.json has has_diff_attn 1, but the tensors have 0" --config other.json $H
printf '{"num_classes": ' >other.json
refuses 1 "other.json: " --config other.json $H
printf '{"num_classes": "x"}' >other.json
refuses 1 "other.json: num_classes: expected a whole number, found x" --config other.json $H
printf '{"label_names": ["a", "b"]}' >other.json
refuses 1 "other.json: 2 labels for 5 classes" --config other.json $H
accepts --config other.json $H --set num_classes=0
refuses 1 "missing.json: " --config missing.json $H
printf '{"model_type": "resnet", "hidden_size": 16}' >config.json
refuses 1 "config.json: model_type resnet: expected timm's form" --config config.json $H
accepts $H
says "assumed no configuration: config.json beside the checkpoint is not in timm's form and was"
printf '{"model_type": "vit", "num_attention_heads": 2}' >config.json
accepts
prints "heads 2 x 8" "mean 0.5, std 0.5"
printf 'not json' >config.json
refuses 1 "config.json: " $H
rm config.json

# --- labels ----------------------------------------------------------------------------------

printf 'n01440764 tench, Tinca tinca\r\nn01443537 goldfish\r\nn01484850 shark\r\nn00000001 x\r\nn00000002 y\r\n' >labels.txt
accepts $H --labels labels.txt
prints '5 from labels.txt, the first "tench, Tinca tinca"'
printf 'a\nb\nc\n' >labels.txt
refuses 1 "labels.txt: 3 labels for 5 classes" $H --labels labels.txt
printf 'a\n\nc\nd\ne\n' >labels.txt
refuses 1 "labels.txt: line 2: expected a label, found an empty line" $H --labels labels.txt
refuses 1 "missing.txt: " $H --labels missing.txt
refuses 1 "imagenet: expected a model of the 1000 classes of ImageNet-1k, found 5" $H \
    --labels imagenet

published="dim=64 depth=6 mlp=192 patch=16 rows=2 cols=2" # as test_vit
# shellcheck disable=SC2086
random $published classes=1000
accepts --set num_heads=2
says "assumed labels=imagenet: the checkpoint names none of its 1000 classes. It has the size of \
test_vit, which is published for ImageNet-1k (--labels FILE|none)"
prints '1000 from ImageNet-1k, the first "tench"'
"$INFO" --labels m.vit >out 2>err
prints "n02124075" "Egyptian cat" "n03710721" "maillot, tank suit"
if convert m.safetensors -o strict.vit --set num_heads=2 --strict; then fail "--strict"
elif grep -q "for example: .* --labels imagenet " err; then pass
else fail "--strict does not propose --labels imagenet"; fi
for labels in none imagenet; do
    accepts --set num_heads=2 --labels $labels
    if grep -q "assumed labels" err; then fail "--labels $labels is told"; else pass; fi
    if grep -q "labels  *none" out; then found=none; else found=imagenet; fi
    if [ $found = $labels ]; then pass; else fail "--labels $labels"; fi
done
for other in "dim=64 depth=5 mlp=192 patch=16 rows=2 cols=2 classes=1000" "$published classes=999"; do
    # shellcheck disable=SC2086
    random $other
    accepts --set num_heads=2
    if grep -q "assumed labels" err; then fail "assumes labels of $other"; else pass; fi
    prints "labels          none; --labels FILE names the classes, one name per line"
done
random

# --- files -----------------------------------------------------------------------------------

cp m.safetensors kept
refuses 1 "is an input" $H -o m.safetensors
ln -sf m.safetensors link
refuses 1 "is an input" $H -o link
ln -f m.safetensors hard
refuses 1 "is an input" $H -o hard
printf 'a\nb\nc\nd\ne\n' >labels.txt
refuses 1 "is an input" $H --labels labels.txt -o labels.txt
same kept m.safetensors
refuses 1 "no/such/folder/m.vit" $H -o no/such/folder/m.vit
mkdir -p folder
refuses 1 "is a folder" $H -o folder
refuses 1 "/dev/full: expected the name of a file, found a pipe or a device" $H -o /dev/full
refuses 1 "found a pipe or a device" $H -o -
if [ "$(id -u)" != 0 ]; then
    mkdir -p locked && chmod 500 locked
    refuses 1 "locked/m.vit: cannot be created" $H -o locked/m.vit
fi
if have prlimit "a full disk"; then # a limit on the file's size replaces a full disk
    echo older >m.vit
    (trap '' XFSZ; prlimit --fsize=4096 "$CONVERT" m.safetensors -o m.vit $H >out 2>err)
    if [ $? = 1 ] && grep -q "cannot be written" err && [ "$(cat m.vit)" = older ] &&
        [ -z "$(find . -name '*.tmp*' -o -name '.m.vit*')" ]; then pass
    else fail "a full disk"; fi
fi

head -c 5000 m.safetensors >cut.safetensors
cp m.safetensors whole && cp cut.safetensors m.safetensors
refuses 1 "m.safetensors: " $H
: >m.safetensors
refuses 1 "m.safetensors: " $H
head -c 3000 /dev/urandom >m.safetensors
refuses 1 "m.safetensors: " $H
rm m.safetensors
refuses 1 "m.safetensors: " $H
cp whole m.safetensors

accepts $H
cp m.vit kept.vit
cp m.vit m.safetensors
refuses 1 ".vit file: a model, not a checkpoint; --to safetensors turns a .vit file back" $H
cp whole m.safetensors
refuses 1 "is a safetensors checkpoint" --to safetensors

# Tests an int4 file that version 0.1.0 of vit-convert wrote.
old="blocks.0.attn.qkv.weight: int4 of vit.h 0.1.0, which computed it in f32: convert the checkpoint"
cp "$ROOT/tests/data/convert/int4_v0.1.0.vit" m.safetensors
refuses 1 "$old" --to safetensors
refuses 1 "$old" --c-array
if "$INFO" m.safetensors >out 2>err || ! grep -qF "$old" err; then fail "vit-info: old int4"
else pass; fi
if "$RUN" -m m.safetensors "$cat" >out 2>err || ! grep -qF "$old" err; then
    fail "vit-run: old int4"
else pass; fi
cp whole m.safetensors
refuses 2 "--to: expected vit or safetensors" --to onnx
cp kept.vit sound.vit
convert kept.vit --to safetensors -o kept.vit
if grep -q "is an input" err; then pass; else fail "unpacking onto itself"; fi
same sound.vit kept.vit
if convert kept.vit --to safetensors -o - && cmp -s out whole; then pass
else fail "unpacking to standard output"; fi
convert kept.vit --to safetensors -o back.safetensors --json
prints '{"output": "back.safetensors", "tensors": ' '"parameters": 7637, "bytes": '
convert kept.vit --to safetensors -o back.safetensors -q
if [ -s out ]; then fail "--quiet prints something"; else pass; fi
if convert kept.vit --to safetensors -o /dev/full; then fail "unpacking to a full disk"
elif grep -q "/dev/full: cannot be written" err; then pass; else fail "message of a full disk"; fi
printf '\x55' | dd of=kept.vit bs=1 seek=$(($(stat -c %s kept.vit) - 200)) conv=notrunc 2>/dev/null
if convert kept.vit --to safetensors -o damaged.safetensors; then fail "unpacks damaged weights"
elif grep -q "its checksum differs" err && [ ! -e damaged.safetensors ]; then pass
else fail "message of damaged weights"; fi

# The checksum in the zip archive detects a changed byte of a weight in a stored entry. The file is
# called m.safetensors, because the format is recognised by the content and not by the suffix.
cp "$ROOT/tests/data/fixtures/plain/model.pth" m.safetensors
cp "$ROOT/tests/data/fixtures/plain/config.json" .
accepts
damage() { # FILE OFFSET
    printf '\x55' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
damage m.safetensors $(($(stat -c %s m.safetensors) / 2))
refuses 1 "CRC"
rm config.json
random

# --- the command line ------------------------------------------------------------------------

refuses 2 "expected f32, f16, bf16, int8 or int4" --dtype int2
refuses 2 "expected KEY=VALUE" --set num_heads
refuses 2 "there is no setting \"heads2\"" --set heads2=1
refuses 2 "expected a whole number" --set num_heads=two
for number in 1e 1e31 -1e31; do refuses 2 "expected a number" --set norm_eps=$number; done
refuses 2 "expected one CHECKPOINT" another.safetensors
refuses 2 "" --no-such-option
convert m.safetensors
if [ $? = 2 ] && grep -q "expected -o FILE" err; then pass; else fail "no -o"; fi
convert -o m.vit
if [ $? = 2 ] && grep -q "expected one CHECKPOINT" err; then pass; else fail "no operand"; fi
if convert --help && [ "$(wc -l <out)" -le 60 ] && grep -q -- "--ignore" out &&
    ! grep -q "num_heads" out; then pass
else fail "--help: one screen"; fi
if grep -A1 -- "--report IMAGES" out | grep -q "default: the photos of --calibrate"; then pass
else fail "--help: the photos of --report"; fi
for topic in settings:num_heads match:np.save types:--keep names:imagenet; do
    if convert --help "${topic%:*}" && grep -q -- "${topic#*:}" out; then pass
    else fail "--help ${topic%:*}"; fi
done
accepts $H -q
if [ -s out ]; then fail "--quiet prints something"; else pass; fi
accepts $H --json
if have python3 "what was converted, as JSON"; then
    if python3 -m json.tool out >/dev/null 2>err; then pass; else fail "--json is not JSON"; fi
fi
prints '"total": 7637' '"container": "safetensors"' '"layout": "timm"' '"dropped": []'
"$CONVERT" m.safetensors -o m.vit $H >/dev/full 2>err # the file exists, but not the report
if [ $? = 1 ] && [ -s m.vit ] && [ -s err ]; then pass; else fail "a report that cannot be written"; fi

# The array in a C header equals the .vit file, and the sizes in the header equal those that the
# library computes.
random
accepts $H
cat >array.c <<'END'
#define VIT_IMPLEMENTATION
#define VIT_BARE_METAL
#include "vit.h"
#include "1-tiny_model.h"
#include <stdio.h>
static unsigned char arena[_1_TINY_MODEL_WORKSPACE_LOW];
int main(void) {
    static const vit_params low = { VIT_ISA_SCALAR, { 0, 0, 0 }, 1, 0, 0, 0, 0, 0 };
    vit_params params = low;
    vit_session session;
    vit_model model;
    FILE *file = fopen("m.vit", "rb");
    size_t i;
    for (i = 0; i < _1_TINY_MODEL_SIZE; i++)
        if (getc(file) != _1_tiny_model_data[i]) return 1;
    if (getc(file) != EOF) return 2;
    if (vit_model_open_memory(_1_tiny_model_data, _1_TINY_MODEL_SIZE, VIT_OPEN_VERIFY, &model))
        return 3;
    if (vit_workspace_size(&model, &params) != _1_TINY_MODEL_WORKSPACE_LOW) return 4;
    if (vit_session_init(&session, &model, &params, arena, sizeof arena)) return 5;
    params.low_memory = 0;
    return vit_workspace_size(&model, &params) != _1_TINY_MODEL_WORKSPACE;
}
END
if convert m.vit --c-array -o 1-tiny_model.h && ${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror \
    -DVIT_SCALAR -I"$ROOT" -I. array.c -o array 2>err && ./array; then pass; else fail "--c-array, exit status $?"; fi
prints "1-tiny_model.h: _1_tiny_model_data, "
convert m.vit --c-array -o - && cp out array.h
convert m.vit --c-array -o .h
prints ".h: model_data, "
same array.h .h
convert m.vit --c-array -o .h --json
prints '{"output": ".h", "name": "model", "bytes": ' '"workspace_low": '
convert m.vit --c-array -o .h -q
if [ -s out ]; then fail "--quiet prints something"; else pass; fi
convert "$ROOT/tests/data/layouts/vit_cpp/model.gguf" -o m.vit --set num_classes=0
prints "labels          none"
width=$("$INFO" --json m.vit | sed -n 's/.*"embed_dim": \([0-9]*\).*/\1/p')
convert m.vit --c-array -o -
prints "#define MODEL_OUTPUT $width"
refuses 1 "m.safetensors: the file is a safetensors checkpoint" --c-array
refuses 2 "--c-array and --to exclude each other" --c-array --to vit
refuses 2 "--match-input and --match-logits need each other" --match-input x.npy
# The search prints its time limit, except with -q.
other=$ROOT/tests/data/own/head_norm
searches() {
    convert "$ROOT/tests/data/own/norm_names_alpha/model.safetensors" -o m.vit \
        --match-input "$other/x.npy" --match-logits "$other/y.npy" --match-seconds 2 "$@" &&
        fail "should not match"
    grep -c "searching other settings for at most 2 s (--match-seconds)" err
}
# The .vit file records the softmax or sigmoid at the end of the original model, although vit-run
# does not apply it.
convert "$ROOT/tests/data/evidence/ends_sigmoid/model.pt" -o m.vit --json
prints '"head_activation": 1' '"original_gives": "a probability for each class (sigmoid)"'
if "$INFO" m.vit | grep -qx "  original: gives a probability for each class (sigmoid); this file \
gives the values before this last step"; then pass; else fail "vit-info: the original's last step"; fi

if [ "$(searches)" = 1 ] && [ "$(searches -q)" = 0 ]; then pass; else fail "how long it searches"; fi

summary
