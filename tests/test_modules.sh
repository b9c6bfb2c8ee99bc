#!/usr/bin/env bash
# Tests models that were saved whole, from the command line. A command without options must give the
# same result as a command that converts the bare weights with all settings as options. Run from the
# root of the repository.
#
#     BIN=. bash tests/test_modules.sh         programs in $BIN/tools; build/asan has sanitized ones
set -u
cd "$(dirname "$0")/.."
BIN=${BIN:-.}
CONVERT=$PWD/$BIN/tools/vit-convert
RUN=$PWD/$BIN/tools/vit-run
modules=$PWD/tests/data/modules
cat=$PWD/examples/cat.ppm
. tests/built.sh programs
. tests/checks.sh
cd "$work" || exit 1

# logits FILE OPTIONS...: converts FILE and writes its logits to logits.npy
logits() {
    local file=$1
    shift
    rm -f logits.npy
    "$CONVERT" "$modules/$file" -o m.vit "$@" >out 2>err &&
        "$RUN" -m m.vit "$cat" --logits logits.npy >/dev/null
}

# same FILE OPTIONS...: passes if the result is equal to that of the conversion with options
same() {
    if logits "$@" && cmp -s logits.npy expected.npy; then pass; else fail "$*: other logits"; fi
}

# says TEXT: passes if the report or stderr contains TEXT
says() { if grep -qF -- "$1" out err; then pass; else fail "expected \"$1\""; fi; }

hand=(--set num_heads=2 --set norm_eps=1e-5 --set activation=gelu_tanh)
if logits tensors4.pkl "${hand[@]}"; then pass; else fail "tensors4.pkl"; fi
mv logits.npy expected.npy

for file in whole.pt whole_legacy.pt whole_protocol4.pt whole.pkl data_parallel.pt \
    beside_optimizer.pt trainer.pt traced.pt scripted.pt whole_protocol{0,1}.pkl \
    whole{,_legacy}_protocol1.pt; do
    same $file
    says "the checkpoint contains num_heads=2"
    if grep -qE "assumed (num_heads|norm_eps|activation)" err; then fail "$file: assumes"
    else pass; fi
done
for file in arrays.pt arrays{0,1,2,3,4,5,_python2}.pkl tensors{0,1,2,3,4,5}.pkl one.tar; do
    same $file "${hand[@]}"
done

# The patches of this model overlap.
told=(--set patch_order=chw)
for file in overlap_conv.pt overlap_linear.pt; do
    if logits $file "${told[@]}"; then pass; else fail $file; fi
    says "patches 2 pixels apart"
    says "pool=avg (pool)"
    says "img_size=8x8: 3 x 3 patches of 4 pixels, with this patch_stride"
done
if logits overlap_padded.pt "${told[@]}"; then fail "overlap_padded.pt"; else pass; fi
says "cut cuts patches out of a padded input, which vit.h does not support"
if logits overlap_uneven.pt "${told[@]}"; then fail "overlap_uneven.pt"; else pass; fi
says "embed has several strides"
if logits overlap_uneven.pt "${told[@]}" --set patch_stride=4; then pass; else fail "told"; fi
says "img_size=12x12: 3 x 3 patches of 4 pixels, side by side"

# Options have priority over the file.
if logits whole.pt --set activation=relu && ! cmp -s logits.npy expected.npy; then pass
else fail "--set activation"; fi
says "ReLU"

# If a file has several state dicts, they are reported even with -q, unless an option chooses one.
same several.pt -q "${hand[@]}"
says "assumed weights=model_ema.module: one of several state dicts: model model_ema.module"
same several.pt --weights model "${hand[@]}"
if grep -q "assumed weights" err; then fail "assumes what was asked for"; else pass; fi
says "in the state dict model"
if logits several.pt --weights teacher; then fail "--weights teacher"; else pass; fi
says "no state dict \"teacher\"; expected one of model, model_ema.module"

# The names of the classes are stored beside the weights.
same labels.pt "${hand[@]}"
says 'labels          3 from labels.pt, the first "bird"'
same more_labels.pt "${hand[@]}"
says "labels          none: the checkpoint names 4 classes, but the model has 3"

# In a checkpoint without names, tensors are named after the operators that read them.
same frozen.pt --set crop_mode=center --set crop_pct=0.9 --set interpolation=bicubic

summary
