#!/usr/bin/env bash
# One model under the names of each library must give the same .vit tensors, bit for bit, and the
# same settings. If a model has a feature that vit.h cannot run, the refusal must name the feature.
# tests/make_layouts.py wrote the cases. Run from the root of the repository.
#
#     BIN=. bash tests/test_layouts.sh [CASE...]
set -u
cd "$(dirname "$0")/.."
BIN=${BIN:-.}
CONVERT=$PWD/$BIN/tools/vit-convert
DATA=$PWD/tests/data/layouts
. tests/built.sh programs
. tests/checks.sh

# convert FILE OUTPUT ARGUMENTS...: writes the model without a self-test, and its settings to
# OUTPUT.config
convert() {
    local file=$1 output=$2
    shift 2
    "$CONVERT" "$file" -o "$output.vit" --json --set selftest_tolerance=0 "$@" \
        >"$work/out" 2>"$work/err" || return 1
    grep -o '"config": {[^}]*}' "$work/out" >"$output.config"
    "$CONVERT" "$output.vit" --to safetensors -o "$output.safetensors" >/dev/null 2>"$work/err"
}

says() { # MESSAGE: passes if the output has each part
    local rest=$1
    while [ "${rest#* ... }" != "$rest" ]; do
        grep -qF -- "${rest%% ... *}" "$work/err" || return 1
        rest=${rest#* ... }
    done
    grep -qF -- "$rest" "$work/err"
}

# Passes if the model is refused with one line that contains MESSAGE. If MESSAGE has N texts with
# "..." between them, there must be a heading and N lines, which contain these texts in order.
refused() { # CASE FILE ARGUMENTS MESSAGE
    local rest=$4 lines=1
    case $rest in *" ... "*) lines=$(grep -o ' \.\.\. ' <<<"$rest" | wc -l); lines=$((lines + 2)) ;; esac
    # shellcheck disable=SC2086 # arguments are words
    if "$CONVERT" "$DATA/$1/$2" -o "$work/refused.vit" $3 >"$work/out" 2>"$work/err"; then
        fail "$1: should be refused"
    elif ! says "$rest"; then fail "$1: expected \"$4\""
    elif [ "$(grep -cvE '^vit-convert: (check first:|assumed|dropped|one input|--arch|--config) ' "$work/err")" != $lines ]
    then fail "$1: expected $lines lines"
    else pass; fi
}

equal() { # CASE FILE ARGUMENTS TWIN TWIN_ARGUMENTS
    # shellcheck disable=SC2086
    if ! convert "$DATA/$1/$2" "$work/a" $3; then fail "$1: should be converted"
    elif ! convert "$DATA/twins/$4.safetensors" "$work/b" $5; then fail "$1: its twin"
    elif ! cmp -s "$work/a.safetensors" "$work/b.safetensors"; then fail "$1: tensors differ"
    elif ! diff <(tr , '\n' <"$work/a.config") <(tr , '\n' <"$work/b.config") >"$work/err"; then
        fail "$1: settings differ"
    # If the result is converted back, it must give the same model, number for number.
    elif ! same_numbers "$work/a.safetensors" "$DATA/twins/$4.safetensors"; then
        fail "$1: differs from the twin's file"
    else pass; fi
}

# prints CASE OPTIONS TEXT...: passes if the report of vit-convert has each TEXT
prints() {
    local name=$1 options=$2 text
    shift 2
    wanted "$name" || return 0
    # shellcheck disable=SC2086,SC2144
    if ! "$CONVERT" "$DATA/$name"/model.* -o "$work/report.vit" --set selftest_tolerance=0 $options \
        >"$work/out" 2>"$work/err"; then
        fail "$name: should be converted"
        return
    fi
    for text in "$@"; do
        if cat "$work/out" "$work/err" | grep -qF -- "$text"; then pass
        else fail "$name: should print \"$text\""; fi
    done
}

# Compares the data of both files, which have the same tensors in the same order. vit-convert writes
# a longer header with its own metadata, so only the bytes after the header are compared.
same_numbers() {
    local size
    size=$(data_size "$2")
    [ "$(data_size "$1")" = "$size" ] &&
        cmp -s <(tail -c "$size" "$1") <(tail -c "$size" "$2")
}

data_size() { # FILE: bytes after a safetensors header
    local header
    header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    echo $(($(wc -c <"$1") - header - 8))
}

# adapted: passes if the model and its twin give the same tensors with another patch size and more
# channels. Each layout orders the values of a patch in its own way.
adapted() { # CASE FILE ARGUMENTS TWIN TWIN_ARGUMENTS
    local how="--patch-size 3 --in-chans 4 --img-size 6 --set pos_resample=flexivit"
    # shellcheck disable=SC2086
    if ! convert "$DATA/$1/$2" "$work/a" $3 $how; then fail "$1: should be adapted"
    elif ! convert "$DATA/twins/$4.safetensors" "$work/b" $5 $how; then fail "$1: its twin"
    elif ! cmp -s "$work/a.safetensors" "$work/b.safetensors"; then fail "$1: adapted, differs"
    else pass; fi
}

# Every table must be in LAYOUT_LIST, because no other table is tried. Exceptions are the tables of
# structure_*.c (own*) and those of text encoders.
for name in $(sed -n 's/^const layout layout_\([a-z0-9_]*\) = .*/\1/p' tools/layout/tables*.c); do
    [ ${#only[@]} = 0 ] || break
    [[ $name == own* ]] && continue
    if grep -q "X($name)\|&layout_$name," tools/layout/{layout.h,tables.c}; then pass
    else fail "layout_$name is not in LAYOUT_LIST of tools/layout/layout.h"; fi
done

while IFS='|' read -r name file options twin last; do
    name=$(trim "$name") file=$(trim "$file") options=$(trim "$options")
    twin=$(trim "$twin") last=$(trim "$last")
    wanted "$name" || continue
    case $name in
    flat_patch | hf_vit | hf_siglip | jax | lucidrains | openai | torchvision)
        adapted "$name" "$file" "$options" "$twin" "$last" ;;
    esac
    if [ -n "$twin" ]; then equal "$name" "$file" "$options" "$twin" "$last"
    else refused "$name" "$file" "$options" "$last"; fi
done <"$DATA/cases.txt"

prints hf_vit "" "transformers ViT layout, names with the prefix vit." '5 from config.json, the first "class 0"' \
    "squash to 4x4" "bilinear, mean 0.5, std 0.5"
prints hf_clip "" "transformers CLIP layout, names with the prefix vision_model." "heads 2 x 4"
prints hf_deit_distilled "--img-size 224" "squash to 256, crop the centre to 224x224, bicubic"
prints hf_dinov2 "" "assumed img_size=224x224" "positions resampled from 2x2 to 112x112 patches"
prints hf_dinov2 "--img-size 224" "shorter side to 256, crop the centre to 224x224, bicubic"
prints torchvision "--set num_heads=2 --img-size 224" \
    "shorter side to 256, crop the centre to 224x224, bilinear, mean 0.485 0.456 0.406"
prints dino "--set num_heads=2 --set norm_eps=1e-6 --set activation=gelu" "in the state dict teacher" \
    "names with the prefix backbone."
prints einops "--set num_heads=2" "the einops tutorial layout" \
    "squash to 4x4, bilinear, mean 0, std 1" \
    "vit-convert: assumed block_type=pre_norm" \
    "vit-convert: assumed activation=gelu: as" "vit-convert: assumed pool=avg: as" \
    "vit-convert: assumed attn_root=embed_dim_after: as" "vit-convert: assumed pool_prefix=1: as" \
    "vit-convert: assumed norm_eps=1e-05: as" \
    "vit-convert: check first: assumed mean=0 std=1 crop_pct=1 crop_mode=squash interpolation=bilinear: as the" \
    "the original divides attention by 2.82842712 after the softmax"
prints torch_nn_matrix "--set num_heads=2 --set pool=token --set block_type=post_norm --set \
    activation=relu --set patch_order=chw --img-size 4 --set pos_first_rows=1" \
    "pos_embed has 16 rows, of which the first 5 are used"
prints jax "" "npz, JAX layout" "heads 2 x 4"

# Qwen's processor keeps each photo's size. The converter must report that the model squashes photos
# to one size instead. Rotary positions alone must not cause this report.
squashed="assumed img_size=4x4: every photo is squashed to this size"
prints qwen3_vl "--set num_heads=2 --set pool=avg" "$squashed"
if wanted hf_vit; then
    mkdir "$work/own"
    cp "$DATA"/hf_vit/* "$work/own"
    sed -i '1s/{/{ "image_processor_type": "Qwen2VLImageProcessor",/' "$work/own/preprocessor_config.json"
    if "$CONVERT" "$work/own/model.safetensors" -o "$work/own/own.vit" >"$work/out" 2>"$work/err" &&
        says "$squashed"; then pass
    else fail "hf_vit: the size of Qwen's processor should be assumed"; fi
    if "$CONVERT" "$DATA/twins/qwen3_vl.safetensors" --set num_heads=2 --set rope_type=qwen --set pool=avg \
        --set norm_eps=1e-6 --set activation=gelu_tanh --set has_final_norm=0 -o "$work/own/own.vit" \
        >"$work/out" 2>"$work/err" &&
        ! says "every photo"; then pass
    else fail "qwen3_vl's twin: no size should be assumed"; fi
fi

# Tests positions that are resampled for another grid. Each library resamples in its own way.
more="positions resampled from 2x2 to 3x3 patches, as"
prints hf_vit "--img-size 6" "$more transformers does"
prints hf_vit "--img-size 4x6" "positions resampled from 2x2 to 2x3 patches"
prints hf_dinov2 "--img-size 6" "$more transformers does"
prints hf_dinov2_reg "--img-size 6" "$more timm does"
prints hf_clip "--img-size 6" "$more transformers does"
prints hf_siglip "--img-size 6" "$more transformers does"
prints hf_siglip "--img-size 6 --set pos_resample=dino" "$more dino does"
prints torchvision "--img-size 6 --set num_heads=2" "$more torchvision does"
prints jax "--img-size 6" "$more flexivit does"
prints beit_shared "--set norm_eps=1e-6 --set activation=gelu --set pool=avg --img-size 6" \
    "$more timm does"
prints hf_beit "--img-size 6" "$more transformers does"
prints openai "--img-size 6 --set num_heads=2" "$more timm does"
plain="--set num_heads=2 --set norm_eps=1e-6 --set activation=gelu"
wanted timm_hybrid && refused timm_hybrid model.safetensors "$plain --patch-size 2" \
    "--patch-size: expected patches cut from the input itself, found a convol"
prints timm_hybrid "$plain --in-chans 1" "of the stem adapted from 3 to 1 channels"
prints jax_hybrid "--in-chans 4" "of the stem adapted from 3 to 4 channels"
prints timm_mci "$plain --in-chans 4" "of the stem adapted from 3 to 4 channels"
# The expected output of the tower is computed by make_layouts.py.
for name in gguf_clip gguf_gemma3 gguf_internvl gguf_llava; do
    wanted $name || continue
    if "$CONVERT" "$DATA/$name/model.gguf" --match-input "$DATA/$name/x.npy" \
        --match-logits "$DATA/$name/y.npy" --match-tolerance 2e-5 -o "$work/matched.vit" \
        >"$work/out" 2>"$work/err"; then pass
    else fail "$name: another output"; fi
done
prints gguf_clip "" "GGUF, llama.cpp layout, names with the prefix v." "heads 2 x 4" "no patch bias, norm before the blocks, quick" \
    "vit-convert: dropped 2 tensors of a text tower: t.token_embd.weight, text_projection.weight"
prints gguf_llava "" "depth 2" "dropped 16 tensors of later blocks, whose outputs the language model does not use" \
    "vit-convert: dropped 4 tensors of the projector to a language model; the projector reads the tokens \
after these blocks, without a norm; the original tower may have more blocks: mm.{0..2}.weight" \
    "dropped 1 tensor of a language model: model.image_newline"
prints gguf_gemma3 "" "a language model; the projector reads the tokens after the last norm: mm.{0..2}.weight"
prints gguf_dinov2 "" "transformers DINOv2 layout" '5 from model.gguf, the first "class 0"'
prints vit_cpp "" "vit.cpp, timm layout" "heads 2 x 16" '5 from model.gguf, the first "class 0"'

summary
