#!/usr/bin/env bash
# Tests vision transformers that people wrote themselves. Each must be converted and give PyTorch's
# logits, or be refused with a message. tests/make_own.py wrote the plain cases.
# tests/make_evidence.py wrote the cases whose files contain more than tensors. tests/make_code.py
# wrote the cases with an author's Python, and tests/make_families.py wrote the cases of published
# families. Run from the root of the repository.
#
#     BIN=. bash tests/test_own.sh [CASE...]
set -u
cd "$(dirname "$0")/.."
BIN=${BIN:-.}
. tests/built.sh programs
. tests/checks.sh

# converts CASE FILE ARGUMENTS TOLERANCE: passes if the model gives PyTorch's logits within
# TOLERANCE
converts() {
    local output=logits expected=y.npy
    [ ! -f "$DATA/$1/tokens.npy" ] || output=tokens expected=tokens.npy
    [ ! -f "$DATA/$1/merged.npy" ] || output=merged expected=merged.npy
    # On a busy machine, a search needs more than the usual number of seconds.
    [[ $3 != *--match-input* ]] || set -- "$1" "$2" "$3 --match-seconds 100" "$4"
    # shellcheck disable=SC2086 # arguments are words
    if ! "$BIN/tools/vit-convert" "$DATA/$1/$2" -q -o "$work/model.vit" $3 2>"$work/err"; then
        fail "$1: should be converted"
    elif ! "$BIN/tools/vit-run" -m "$work/model.vit" --input "$DATA/$1/x.npy" \
        --$output "$work/y.npy" >/dev/null 2>"$work/err"; then fail "$1: should run"
    elif ! "$work/compare_npy" "$work/y.npy" "$DATA/$1/$expected" "$4" >"$work/err"; then
        fail "$1: other logits than PyTorch's"
    else pass; fi
}

# strict CASE FILE ARGUMENTS: passes if --strict accepts the case, or proposes options that give the
# same logits
strict() {
    local output=logits
    [ ! -f "$DATA/$1/tokens.npy" ] || output=tokens
    [ ! -f "$DATA/$1/merged.npy" ] || output=merged
    # shellcheck disable=SC2086
    "$BIN/tools/vit-convert" "$DATA/$1/$2" --strict -q -o "$work/strict.vit" $3 2>"$work/err" &&
        { pass && return; }
    given=$(sed -n 's/^give your model.s values, for example://p' "$work/err")
    # shellcheck disable=SC2086
    if ! eval "\"$BIN/tools/vit-convert\" \"$DATA/$1/$2\" -q -o \"$work/strict.vit\" $3 $given" \
        2>"$work/err"; then fail "$1: strict:$given"
    elif grep -q "assumed [a-z_]*=" "$work/err"; then fail "$1: still assumes with$given"
    elif ! "$BIN/tools/vit-run" -m "$work/strict.vit" --input "$DATA/$1/x.npy" \
        --$output "$work/strict.npy" >/dev/null 2>"$work/err" ||
        ! cmp -s "$work/strict.npy" "$work/y.npy"; then fail "$1: other logits with$given"
    else pass; fi
}

# refuses CASE FILE ARGUMENTS MESSAGE: passes if the model is refused with MESSAGE
refuses() {
    # shellcheck disable=SC2086
    if "$BIN/tools/vit-convert" "$DATA/$1/$2" -q -o "$work/model.vit" $3 2>"$work/err"; then
        fail "$1: should be refused"
    elif ! grep -qF -- "$4" "$work/err"; then fail "$1: expected \"$4\""
    else pass; fi
}

# reports CASE FILE ARGUMENTS TEXT: passes if the report contains TEXT, for a model without stored
# logits
reports() {
    # shellcheck disable=SC2086
    if ! "$BIN/tools/vit-convert" "$DATA/$1/$2" -o "$work/model.vit" $3 >"$work/out" 2>"$work/err"
    then fail "$1: should be converted"
    elif ! grep -qF -- "$4" "$work/out" "$work/err"; then fail "$1: expected \"$4\""
    else pass; fi
}

"${CC:-cc}" -std=c99 -O1 tests/compare_npy.c -lm -o "$work/compare_npy" 2>"$work/err" ||
    fail "compare_npy does not compile"

for DATA in tests/data/evidence tests/data/code tests/data/families tests/data/own; do
while IFS='|' read -r name file options result; do
    name=$(trim "$name") file=$(trim "$file") options=$(trim "$options") result=$(trim "$result")
    wanted "$name" || continue
    case $result in
    [0-9]*)
        converts "$name" "$file" "$options" "$result"
        [[ $BIN != . || $options == *--match* ]] || strict "$name" "$file" "$options"
        ;;
    =*) reports "$name" "$file" "$options" "${result#=}" ;;
    *) refuses "$name" "$file" "$options" "$result" ;;
    esac
done <"$DATA/cases.txt"
done

# --plan prints the mapping even if questions are open. One line stands for all blocks.
if wanted unnamed_asked; then
    "$BIN/tools/vit-convert" "$DATA/unnamed_asked/"model* --plan -q >"$work/out" 2>"$work/err" &&
        fail "unnamed_asked: should ask"
    if [ "$(grep -c '^  blocks\.{0\.\.1}\.' "$work/out")" = 12 ]; then pass
    else fail "unnamed_asked: expected 12 lines for both blocks"; fi
fi

# The converter reads the Python code at the root of a repository, two folders above the checkpoint.
if wanted far; then
    mkdir "$work/far" && cp -r tests/data/code/far/model "$work/far" && mkdir "$work/far/.git" &&
        cp tests/data/code/relu/model.py "$work/far"
    if "$BIN/tools/vit-convert" "$work/far/model/mnist/model.pt" -q -o "$work/far.vit" 2>"$work/err"
    then pass; else fail "far: the code is two folders above"; fi
fi

# Python that nests without an end must not make the converter crash.
if wanted unnamed_asked; then
    { echo 'if x: y = 1' && for ((i = 0; i < 200000; i++)); do echo 'elif x: y = 1'; done; } >"$work/long.py"
    "$BIN/tools/vit-convert" "$DATA/unnamed_asked/"model* --code "$work/long.py" -q -o "$work/long.vit" \
        >"$work/out" 2>"$work/err"
    if [ $? = 1 ]; then pass; else fail "a long chain of elif"; fi
fi

# SigLIP 2 NaFlex runs every photo at its own aspect ratio. The embeddings are PyTorch's
# (make_naflex.py).
if wanted naflex; then
    naflex=tests/data/naflex
    photos=("$naflex/wide.ppm" "$naflex/tall.ppm" "$naflex/square.ppm" "$naflex/thin.ppm")
    if ! "$BIN/tools/vit-convert" $naflex -q -o "$work/naflex.vit" >"$work/out" 2>"$work/err"
    then fail "naflex: should be converted"
    elif ! "$BIN/tools/vit-embed" -m "$work/naflex.vit" "${photos[@]}" -q -o "$work/naflex.npy" \
        >"$work/out" 2>"$work/err"; then fail "naflex: should have embeddings"
    elif ! "$work/compare_npy" "$work/naflex.npy" $naflex/y.npy 1e-5 >"$work/err"
    then fail "naflex: other embeddings than PyTorch's"
    else pass; fi

    # --max-patches, --set and preprocessor_config.json set other numbers of patches.
    embed=("$BIN/tools/vit-embed" "${photos[@]}" -q --overwrite)
    few=("${embed[@]}" -m "$work/naflex.vit" --max-patches 100)
    cp -r $naflex "$work/naflex300"
    sed -i 's/"max_num_patches": 256/"max_num_patches": 300/' "$work/naflex300/preprocessor_config.json"
    if ! "${few[@]}" --pool tokens -o "$work/t.npy" >"$work/out" 2>"$work/err" ||
        ! "$work/compare_npy" "$work/t.npy" $naflex/tokens100.npy 2e-5 >"$work/err"
    then fail "naflex: other tokens than PyTorch's for 100 patches"
    elif ! grep -q '"grids": \[\[6, 16\], \[20, 5\], \[10, 10\], \[1, 67\]\]' "$work/t.json"
    then fail "naflex: wrong grids"
    elif "$BIN/tools/vit-embed" -m "$work/naflex.vit" --tar t.tar -o "$work/t" --pool tokens \
        2>"$work/err" || ! grep -q "photos with equal numbers of tokens" "$work/err"; then fail "naflex: --tar"
    else pass; fi
    for how in file option; do
        if [ $how = file ]; then from=("$work/naflex300"); else from=($naflex --set max_patches=300); fi
        if ! "$BIN/tools/vit-convert" "${from[@]}" -q -o "$work/300.vit" >"$work/out" 2>"$work/err" ||
            ! "${embed[@]}" -m "$work/300.vit" -o "$work/300.npy" >"$work/out" 2>"$work/err"
        then fail "naflex: 300 patches by $how"
        elif ! "$work/compare_npy" "$work/300.npy" $naflex/y300.npy 1e-5 >"$work/err"
        then fail "naflex: other embeddings than PyTorch's for 300 patches by $how"
        else pass; fi
    done
    for wrong in 0.5 -1 9973; do
        if "$BIN/tools/vit-convert" $naflex --set max_patches=$wrong -q -o "$work/no.vit" \
            >"$work/out" 2>"$work/err" || ! grep -q "max_patches" "$work/err"
        then fail "naflex: max_patches=$wrong"; else pass; fi
    done

    if "${few[@]}" --pool avg -o "$work/avg.npy" >"$work/out" 2>"$work/err" &&
        "$work/compare_npy" "$work/avg.npy" $naflex/mean100.npy 1e-5 >"$work/err"
    then pass; else fail "naflex: --pool avg should not count the padding"; fi

    # vit-run uses one size for a batch. vit-look shows a map for each photo.
    run=("$BIN/tools/vit-run" -m "$work/naflex.vit")
    if ! "${run[@]}" "${photos[0]}" --max-patches 100 --tokens "$work/r.npy" --dump-input "$work/x.npy" \
        >"$work/out" 2>"$work/err"; then fail "naflex: vit-run"
    elif ! "${run[@]}" --input "$work/x.npy" --tokens "$work/r2.npy" >"$work/out" 2>"$work/err" ||
        ! cmp -s "$work/r.npy" "$work/r2.npy"; then fail "naflex: vit-run --input"
    elif "${run[@]}" "${photos[@]}" --embedding "$work/t.npy" >"$work/out" 2>"$work/err" ||
        ! grep -q "expected 9 x 27 patches as in the first image, found 31 x 8" "$work/err"
    then fail "naflex: vit-run should refuse a batch of several sizes"
    elif ! "$BIN/tools/vit-look" tokens -m "$work/naflex.vit" "${photos[@]}" -o "$work/look.png" --json \
        --foreground >"$work/out" 2>"$work/err" || ! grep -q '"grid": \[31, 8\]' "$work/out"
    then fail "naflex: vit-look tokens"
    elif ! "$BIN/tools/vit-look" similarity --at 90,5 -m "$work/naflex.vit" "${photos[@]}" --json \
        >"$work/out" 2>"$work/err" || ! grep -q '"row": 1, "column": 25' "$work/out"
    then fail "naflex: vit-look similarity"
    elif "$BIN/tools/vit-look" attention -m "$work/naflex.vit" "${photos[@]}" --npy "$work/a.npy" \
        >"$work/out" 2>"$work/err" || ! grep -q "photos of one shape" "$work/err"
    then fail "naflex: vit-look --npy should refuse several shapes"
    else pass; fi

    # Calibration and the comparison run each photo at its own size.
    mkdir "$work/four" && cp "${photos[@]}" "$work/four"
    if "$BIN/tools/vit-convert" $naflex --dtype int8 --calibrate "$work/four" -o "$work/int8.vit" \
        >"$work/out" 2>"$work/err" && grep -q "calibrated *on 4 images" "$work/out" &&
        grep -q "cosine of the embeddings 0.9999[0-9]* on average, 0.9999" "$work/out"
    then pass; else fail "naflex: calibration"; fi
fi

# NaFlexVit of timm needs its config.json (make_naflex.py wrote the files), or pos_resample.
if wanted naflexvit; then
    photos=(tests/data/naflex/{wide,tall,square,thin}.ppm)
    for folder in tests/data/naflexvit/*; do
        name=${folder##*/}
        pool=logits
        case $name in *_siglip) pool=head ;; esac
        embed=("$BIN/tools/vit-embed" -m "$work/$name.vit" "${photos[@]}" -q --overwrite)
        if ! "$BIN/tools/vit-convert" "$folder" -q -o "$work/$name.vit" >"$work/out" 2>"$work/err" ||
            ! "${embed[@]}" --pool tokens -o "$work/t.npy" >"$work/out" 2>"$work/err" ||
            ! "${embed[@]}" --pool $pool -o "$work/y.npy" >"$work/out" 2>"$work/err"
        then fail "$name"
        elif ! "$work/compare_npy" "$work/t.npy" "$folder/tokens.npy" 2e-5 >"$work/err" ||
            ! "$work/compare_npy" "$work/y.npy" "$folder/y.npy" 2e-5 >"$work/err"
        then fail "$name: other tokens or outputs than timm's"
        else pass; fi
    done
    cp "$folder/model.safetensors" "$work/naflexvit.safetensors"
    if "$BIN/tools/vit-convert" "$work/naflexvit.safetensors" --set num_heads=2 -q -o "$work/no.vit" \
        >"$work/out" 2>"$work/err" || ! grep -q "pos_resample: not stored in a checkpoint" "$work/err"
    then fail "naflexvit: pos_resample should be a question"; else pass; fi
fi

# The model chooses sizes as transformers' DPTImageProcessor does. The model gives each photo the
# same tokens as a model that is converted for the size of this photo alone.
if wanted dpt; then
    mkdir "$work/dpt" && cp tests/data/layouts/hf_dinov2/{config.json,model.safetensors} "$work/dpt"
    sed -i 's/"model_type": "dinov2"/"model_type": "depth_anything"/' "$work/dpt/config.json"
    echo '{"do_normalize": true, "do_pad": false, "do_rescale": true, "do_resize": true, "resample": 3,
           "ensure_multiple_of": 2, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
           "image_processor_type": "DPTImageProcessor", "keep_aspect_ratio": true, "size_divisor": null,
           "rescale_factor": 0.00392156862745098, "size": {"height": 18, "width": 18}}' \
        >"$work/dpt/preprocessor_config.json"
    check "dpt: converted" "$BIN/tools/vit-convert" "$work/dpt" -q -o "$work/dpt.vit"
    while read -r photo size; do
        if "$BIN/tools/vit-run" -m "$work/dpt.vit" "tests/data/naflex/$photo.ppm" --tokens "$work/any.npy" \
            >"$work/out" 2>"$work/err" && "$BIN/tools/vit-convert" "$work/dpt" -q -o "$work/one.vit" \
            --img-size "$size" --set crop_mode=squash >"$work/out" 2>"$work/err" &&
            "$BIN/tools/vit-run" -m "$work/one.vit" "tests/data/naflex/$photo.ppm" --tokens "$work/one.npy" \
                >"$work/out" 2>"$work/err" && "$work/compare_npy" "$work/any.npy" "$work/one.npy" 1e-6 >"$work/err"
        then pass; else fail "dpt: $photo at $size"; fi
        rm -f "$work/one.vit"
    done <<<$'wide 18x52\ntall 68x18\nsquare 18x18\nthin 2x18'
    embed=("$BIN/tools/vit-embed" -m "$work/dpt.vit" tests/data/naflex/wide.ppm -q -o "$work/dpt.npy")
    if "${embed[@]}" --pool avg >"$work/out" 2>"$work/err" ||
        ! grep -q "any number of patches" "$work/err"; then fail "dpt: --pool avg should be refused"
    elif "${embed[@]}" --pool tokens --max-patches 30 --overwrite >"$work/out" 2>"$work/err" &&
        grep -q '"grids": \[\[3, 9\]\]' "$work/dpt.json"; then pass; else fail "dpt: --max-patches"; fi
fi

# Tests the dense tokens of DINOv2, also with registers, and of DINOv3, at any aspect ratio. The
# expected outputs come from the models' own code (make_naflex.py). DINOv2 and timm differ in how
# they resample positions for another grid.
if wanted dense; then
    photos=(tests/data/naflex/{wide,tall,square,thin}.ppm)
    dense() { # NAME OPTION...: the tokens into $work/t.npy
        "$BIN/tools/vit-convert" "tests/data/dense/$1/model.safetensors" -q -o "$work/dense.vit" --dynamic \
            --set num_heads=2 --set activation=gelu --set pool=token --set mean=0.485,0.456,0.406 \
            --set std=0.229,0.224,0.225 "${@:2}" >"$work/out" 2>"$work/err" &&
            "$BIN/tools/vit-embed" -m "$work/dense.vit" "${photos[@]}" --max-patches 40 --pool tokens \
                -q --overwrite -o "$work/t.npy" >"$work/out" 2>"$work/err"
    }
    like() { "$work/compare_npy" "$work/t.npy" "tests/data/dense/$1/tokens.npy" 2e-5 >"$work/err"; }
    if dense dinov2 --set norm_eps=1e-6 --set pos_resample=dino && like dinov2; then pass
    else fail "dense: dinov2"; fi
    if dense dinov2 --set norm_eps=1e-6 --set pos_resample=timm && ! like dinov2; then pass
    else fail "dense: dinov2 resampled as timm should differ"; fi
    if dense dinov2_reg --set norm_eps=1e-6 --set pos_resample=timm && like dinov2_reg; then pass
    else fail "dense: dinov2_reg"; fi
    if dense dinov3 --img-size 20 && like dinov3; then pass; else fail "dense: dinov3"; fi

    # vit-run and vit-look take --max-patches too. A model with a fixed input size refuses this
    # option.
    run=("$BIN/tools/vit-run" -m "$work/dense.vit" "${photos[0]}" --max-patches 40 --tokens "$work/r.npy")
    if "${run[@]}" >"$work/out" 2>"$work/err" && "$BIN/tools/vit-look" tokens -m "$work/dense.vit" \
        "${photos[0]}" --max-patches 40 --json >"$work/out" 2>"$work/err" &&
        grep -q '"grid": \[4, 10\]' "$work/out"; then pass; else fail "dense: vit-run, vit-look"; fi
    if "$BIN/tools/vit-convert" tests/data/dense/dinov3/model.safetensors -q -o "$work/fixed.vit" \
        --set num_heads=2 --set activation=gelu --set pool=token --img-size 20 >"$work/out" 2>"$work/err" &&
        ! "$BIN/tools/vit-run" -m "$work/fixed.vit" "${photos[0]}" --max-patches 40 --tokens "$work/r.npy" \
            >"$work/out" 2>"$work/err" && grep -q "max-patches: the model's input size is fixed" "$work/err"
    then pass; else fail "dense: --max-patches of a model of one size"; fi
fi

summary
