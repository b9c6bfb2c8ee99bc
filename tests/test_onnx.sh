#!/usr/bin/env bash
# Tests models in ONNX graphs of tests/make_onnx.py. Each graph must give the same tensors as the
# same weights in safetensors, and PyTorch's logits. A graph that is not a plain ViT must be
# refused, with the name of a node that shows this.
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=${BIN:-.}
. tests/built.sh programs
. tests/checks.sh
data=tests/data/onnx

# tensors FILE OUTPUT [OPTION...]: writes the tensors that vit-convert stores
tensors() {
    "$BIN/tools/vit-convert" "$1" -q -o "$work/model.vit" "${@:3}" 2>"$work/err" &&
        "$BIN/tools/vit-convert" "$work/model.vit" --to safetensors -o "$2" >/dev/null 2>>"$work/err"
}

# converts NAME TOLERANCE: passes if the graph gives the same tensors, and logits within TOLERANCE
converts() {
    local pool=token
    [[ $1 != *avg* ]] || pool=avg
    if ! tensors "$data/$1.safetensors" "$work/weights.safetensors" --set num_heads=2 \
        --set activation=gelu --set pool=$pool; then # weights alone do not show these
        fail "$1.safetensors: should be converted"
    elif ! tensors "$data/$1.onnx" "$work/graph.safetensors"; then
        fail "$1.onnx: should be converted"
    elif ! cmp -s "$work/weights.safetensors" "$work/graph.safetensors"; then
        fail "$1: other tensors than those of the weights"
    elif grep -q "assumed \(has\|attn\|num\|act\|norm\|pool\|block\)" "$work/err"; then
        fail "$1: the graph says this"
    elif ! "$BIN/tools/vit-run" -m "$work/model.vit" --input "$data/x.npy" --logits "$work/y.npy" \
        >/dev/null 2>"$work/err"; then fail "$1: should run"
    elif ! "$work/compare_npy" "$work/y.npy" "$data/$1.npy" "$2" >"$work/err"; then
        fail "$1: other logits than PyTorch's"
    else pass; fi
}

# refuses FILE MESSAGE: passes if the graph is refused with MESSAGE
refuses() {
    if "$BIN/tools/vit-convert" "$1" -q -o "$work/model.vit" 2>"$work/err"; then
        fail "$1: should be refused"
    elif ! grep -qF -- "$2" "$work/err"; then fail "$1: expected \"$2\""
    else pass; fi
}

"${CC:-cc}" -std=c99 -O1 tests/compare_npy.c -lm -o "$work/compare_npy" 2>"$work/err" ||
    fail "compare_npy.c: should compile"

for graph in "$data"/*.onnx; do
    name=$(basename "$graph" .onnx)
    [[ $name == refused-* ]] || converts "$name" 2e-5
done

refuses $data/refused-missing.onnx 'nowhere.onnx_data: cannot be opened'
refuses $data/refused-outside.onnx \
    "external data: \"../timm-external.onnx_data\" must be the name of a file in the model's folder"
refuses $data/refused-hardswish.onnx \
    'node "/blocks/blocks.0/mlp/act/HardSwish" (HardSwish, input "/blocks/blocks.0/mlp/fc1/Add_output_0")'
refuses $data/refused-normalized.onnx 'node "/Sub" (Sub, input "pixel_values"): no plain ViT has'
refuses $data/refused-factor.onnx 'q k^T has the factor 0.3, expected 1 / sqrt(8)'
refuses $data/refused-positions.onnx 'node "/blocks/blocks.0/attn/Add" (Add, input "/blocks/blocks.0/attn/MatMul_output_0"): a mask'
refuses $data/refused-rotary.onnx 'node "/blocks/blocks.0/attn/Add" (Add'
refuses $data/refused-windows.onnx 'node "/Add" (Add, input "/patch_embed/Transpose_output_0"): not a residual'
refuses $data/refused-after-norm.onnx 'node "/Add" (Add, input "/patch_embed/Transpose_output_0"): not a r'
refuses $data/refused-twice.onnx 'node "/patch_embed/proj/Conv" (Conv, input "/Conv_output_0"): a conv'
refuses $data/refused-idle.onnx 'blocks.0.mlp.fc1.bias is missing: other blocks have it'

summary
