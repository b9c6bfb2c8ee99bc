#!/usr/bin/env bash
# Tests the output of vit-convert and vit-info about options of an architecture: derived options,
# given options, and questions.
#
#     BIN=FOLDER tests/test_options.sh
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=${BIN:-.}
[ "${bin:0:1}" = / ] || bin=$root/$bin
convert=$bin/tools/vit-convert
info=$bin/tools/vit-info
. tests/built.sh programs
. tests/checks.sh

# Copies the checkpoint of a fixture, without the files beside it. config.json becomes said.json.
take() { # CASE
    local source
    source=$(ls "$root/tests/data/fixtures/$1"/model*)
    rm -f "$work"/model.* "$work/config.json"
    cp "$source" "$work/model.ckpt"
    cp "$root/tests/data/fixtures/$1/config.json" "$work/said.json"
}

run() { # ARGUMENTS...
    (cd "$work" && "$convert" model.ckpt -o m.vit "$@" >out 2>err)
}

accepts() {
    if run "$@"; then pass; else fail "$*"; fi
}

asks() { # MESSAGE ARGUMENTS...
    local message=$1
    shift
    if run "$@"; then fail "accepted: $*"; return; fi
    if grep -qF -e "$message" "$work/err"; then pass; else fail "expected \"$message\""; fi
}

prints() { # TEXT...
    local text
    for text; do
        if grep -qF -e "$text" "$work/out"; then pass; else fail "expected to print \"$text\""; fi
    done
}

says() { # TEXT...: on stderr
    local text
    for text; do
        if grep -qF -e "vit-convert: $text" -e "check first: $text" "$work/err"; then pass
        else fail "expected \"$text\" on stderr"; fi
    done
}

# --- one message requires all settings that no tensor shows ---------------------------------------

take clip
asks "num_heads: the weights show no heads, perhaps because of a single head or little training; give \
--set num_heads=N (1, 2," --set norm_eps=1e-5 --set activation=quick_gelu
h="--set num_heads=1"
# shellcheck disable=SC2086 # words
{
asks "norm_eps: cannot be seen in the tensors; give --set norm_eps=N" $h
asks "activation: cannot be seen in the tensors; give --set activation=gelu|gelu_tanh" $h \
    --set norm_eps=1e-5
accepts $h --set norm_eps=1e-5 --set act_layer=quick_gelu
prints "no patch bias, norm before the blocks, quick GELU"
asks "expected one of gelu gelu_tanh quick_gelu silu relu, found \"nonsense\"" --set activation=nonsense
asks "--set gives positions=patches" --set positions=patches $h --set norm_eps=1e-5 --set activation=gelu

take siglip_gap
h="--set num_heads=2"
asks "there is no class token, and the tensors do not show how the patches are pooled" $h
asks "activation: cannot be seen" $h --set pool=avg
accepts $h --set pool=max --set activation=gelu_tanh
prints "no class token" "tanh GELU" "maximum of the patches"
"$info" "$work/m.vit" >"$work/out" 2>"$work/err"
if grep -q ", cls_token" "$work/out"; then fail "a class token"; else pass; fi
prints "patches of 4 x 4"

take siglip_heads
h="--set num_heads=3"
asks "activation: cannot be seen" $h
accepts $h --set activation=gelu
prints "attention pooling"

take eva
h="--set num_heads=2"
asks "fc_norm exists, so the head may read an average" $h
accepts $h --set global_pool=avg
prints "mean of the patches, norm after pooling"
says "assumed activation=gelu: timm's" \
    "assumed attn_root=head_dim: " "assumed too (rarely important): pool_prefix=0 (" \
    "assumed too (other values move the output by less than 0.01 %): norm_eps=1e-05 ("

take test_vit4
asks "the norms have no bias, so they are RMS norms" $h --set pool=avg
asks "2 things are not known" $h --set pool=avg
asks "norm_eps: cannot be seen" $h --set pool=avg --set norm_type=rms
accepts $h --set pool=avg --set norm_type=rms --set eps=1e-6 --set activation=gelu
prints "1 register token, RMS norms, LayerScale" "norm after pooling"

take beit3
asks "norm_eps: cannot be seen" $h --set pool=avg
accepts $h --set pool=avg --set norm_eps=1e-5 --json
prints '"has_attn_norm": 1' '"has_mlp_norm": 1' '"has_fc_norm": 1' '"has_final_norm": 0'

take dinov2_reg
h="--set num_heads=1"
asks "a gated MLP" $h
accepts $h --set activation=silu
prints "4 register tokens, positions for the patches only, LayerScale, SiLU, gated MLP" "mlp_dim 48"

take nopos
h="--set num_heads=2"
asks "there is no pos_embed to show the input size; give --img-size HxW" $h
asks "the tensors show neither rotary nor other computed positions" $h --img-size 8x12
h="$h --set rope_type=none"
accepts $h --img-size 8x12
prints "input 3 x 8 x 12, 9 tokens" "no positions"
asks "patch_size is larger than the image" $h --img-size 2

take dinov2
accepts $h
prints "class token joined to the mean of the patches" "LayerScale"

take torch_post
asks "norm.weight is missing: every model of this layout has it; give --set has_final_norm=0 if" $h
accepts $h --set block_type=post_norm --set norm_eps=1e-5 --set activation=relu --set final_norm=0
prints "post-norm blocks, ReLU, no final norm"
}

asks "--calibrate needs pre-norm blocks (block_type=pre_norm) and attention=all" \
    --dtype int8 --calibrate "$root/examples/cat.ppm" --set num_heads=2 --set block_type=post_norm \
    --set norm_eps=1e-5 --set activation=relu --set final_norm=0

# --- models that people write ---------------------------------------------------------------------

take self
h="--set num_heads=2 --set norm_eps=1e-6 --set activation=gelu"
# shellcheck disable=SC2086
{
accepts --set norm_eps=1e-6 --set activation=gelu --set attention=self # requires no heads
prints "each token attends only to itself"
accepts $h --set attention=self --set attn_root=embed_dim_after
asks "expected one of all self" $h --set attention=own
asks "--calibrate needs pre-norm blocks (block_type=pre_norm) and attention=all" \
    --dtype int8 --calibrate "$root/examples/cat.ppm" $h --set attention=self
}

take no_mlp
# shellcheck disable=SC2086
{
accepts --set num_heads=2 --set norm_eps=1e-6
prints "no MLP" "LayerScale"
sed -i "s|\"mlp_ratio\": 0|\"mlp_ratio\": 4|" "$work/said.json"
asks "said.json has mlp_dim 80, but the tensors have 0" --config said.json
accepts --set num_heads=2 --set norm_eps=1e-6 --dtype int8 --calibrate "$root/examples/cat.ppm"
}

take interleaved
h="--set num_heads=2 --set norm_eps=1e-6 --set activation=gelu --img-size 8x12"
# shellcheck disable=SC2086
{
accepts $h --set patch_cut=interleaved
prints "interleaved patches"
accepts $h --set patch_cut=reshape --set patch_order=chw
asks "patch_cut=unfold keep the order of the values" $h --set patch_cut=reshape \
    --set patch_order=hwc
asks "--patch-size: expected patches that are squares of the input, found patch_cut=unfold" $h \
    --set patch_cut=unfold --patch-size 8
asks "--in-chans: expected patches that are squares" $h --set patch_cut=unfold --in-chans 1
asks "the positions are for 2x3 patches, but the input has 4x6" --set num_heads=2 \
    --set norm_eps=1e-6 --set activation=gelu --set patch_cut=interleaved --img-size 16x24 \
    --config said.json
}

take overlap
h="--set num_heads=2 --set norm_eps=1e-6 --set activation=gelu"
# shellcheck disable=SC2086
{
accepts $h --set patch_stride=2 --img-size 8x10
prints "patches 2 pixels apart"
accepts $h --set patch_stride=2 --img-size 9x11 --set dynamic_img_size=1
accepts $h --set patch_stride=2 --img-size 8x10 --in-chans 1
asks "--patch-size: expected patches side by side, found patch_stride=2" $h --img-size 8x10 \
    --set patch_stride=2 --patch-size 8
asks "patch_stride excludes patch_cut" $h --img-size 8x10 --set patch_stride=2 \
    --set patch_cut=interleaved --config said.json
asks "patch_stride 1025 is out of range" $h --img-size 8x10 --set patch_stride=1025
asks "--set patch_stride: expected a whole number" $h --img-size 8x10 --set patch_stride=-1
}

# --- config.json ----------------------------------------------------------------------------------

take dinov2_reg
accepts --config said.json
prints "gated MLP" "mlp_dim 48"
sed 's/"reg_tokens": 4/"reg_tokens": 3/' "$work/said.json" >"$work/other.json"
asks "other.json has num_reg_tokens 3, but the tensors have 4" --config other.json
sed 's/"SwiGLUPacked"/"GluMlp"/' "$work/said.json" >"$work/other.json"
asks "mlp_layer: expected mlp, swiglu, swiglupacked, found GluMlp" --config other.json
sed 's/"no_embed_class": true/"no_embed_class": false/' "$work/said.json" >"$work/other.json"
asks "other.json gives positions=all" --config other.json
sed 's/"class_token": true/"class_token": false/; s/"reg_tokens"/"class_token": false, "reg_tokens"/' \
    "$work/said.json" >"$work/other.json"
asks "other.json has has_cls_token 0, but the tensors have 1" --config other.json

take xp
sed 's/"rmsnorm"/"layernorm"/' "$work/said.json" >"$work/other.json"
asks "missing" --config other.json --set norm_eps=1e-6

take raw_norm
asks "--patch-size: expected patches cut from the input itself, found a norm before" \
    --config said.json --set norm_eps=1e-6 --patch-size 2
asks "--in-chans: expected patches" --config said.json --set norm_eps=1e-6 --in-chans 1

# --- names ----------------------------------------------------------------------------------------

take eva
asks "vit_base_patch16_224 has patch_size 16, but the tensors have 4" --arch vit_base_patch16_224
asks "side by side (block_fn)" --arch vit_small_patch16_18x2_224

# --- vit-info -------------------------------------------------------------------------------------

take clip
accepts --config said.json --set norm_eps=1e-5
"$info" "$work/m.vit" >"$work/out" 2>"$work/err"
prints "options         no patch bias, norm before the blocks, quick GELU" "norm_eps        1e-05"
"$info" --json "$work/m.vit" >"$work/out" 2>"$work/err"
prints '"has_pre_norm": 1' '"activation": 2'
"$convert" --help settings >"$work/out" 2>&1
prints "activation           activation of every MLP: gelu gelu_tanh quick_gelu silu relu" \
    "pool                 input of the head: token avg max avgmax map token_avg"

summary
