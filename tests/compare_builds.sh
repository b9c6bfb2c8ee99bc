#!/usr/bin/env bash
# compare_builds.sh - checks that two builds compute the same results. Each checkpoint of tests/data
# and models/ must become the same .vit file, and each model must give the same bits. Run the script
# after changes to the code that must not change any result.
#
#     bash tests/compare_builds.sh OLD NEW [SCRATCH]
#
# OLD and NEW are checkouts in which `make` has run. Checkpoints and images come from the checkout
# of this script. The script compares
#
#   - exit statuses and files of vit-convert: five types, many options, calibration, and back
#   - the output of tests/compare_builds.c, compiled in each checkout: hashes of outputs and traced
#     tensors, on each instruction set of this machine; no workspace may be larger in NEW
#   - the files that vit-run writes, and the results of classify and evaluate
#
# Messages and reports may differ. The script counts these differences, and the commands that fail
# in both builds, and keeps both lists in build/log. ONLY=REGEX selects cases by name. CC, CFLAGS
# and EMULATOR choose how compare_builds.c is compiled and run, for the instruction sets of other
# CPUs:
#
#     CC=aarch64-linux-gnu-gcc CFLAGS='-O2 -static' EMULATOR='qemu-aarch64-static -cpu max' \
#         ONLY='fixtures/.*model.safetensors.(f32|int8)' bash tests/compare_builds.sh OLD NEW
set -u
LC_ALL=C
export LC_ALL

# --- one case: NAME|KIND|ARGUMENTS --------------------------------------------------------------
# Each command runs twice, in $here/old and $here/new, with the same arguments.

# both PROGRAM ARGUMENTS...: PROGRAM is a path in a checkout, or compare_builds
both() {
    local text
    (cd "$here/old" && program "$old" "$@") >"$here/old/out" 2>"$here/old/err" </dev/null
    status_old=$?
    (cd "$here/new" && program "$new" "$@") >"$here/new/out" 2>"$here/new/err" </dev/null
    status_new=$?
    [ $status_old = 0 ] || [ $status_new = 0 ] || echo "$name: $*" >>"$work/refused.$$"
    [ "$1" = compare_builds ] && return
    for text in out err; do
        difference "$text" >"$here/difference" && continue
        { echo "== $name: $*"; cat "$here/difference"; } >>"$work/texts.$$"
    done
}

program() {
    local checkout=$1 name=$2
    shift 2
    case $name in
    compare_builds) $EMULATOR "$work/compare_builds.$(basename "$PWD")" "$@" ;;
    *) "$checkout/$name" "$@" ;;
    esac
}

# Prints the lines that differ, without measured times. JSON is split into lines, so that
# differences are easy to find.
difference() {
    cmp -s "$here/old/$1" "$here/new/$1" ||
        diff <(untimed "$here/old/$1") <(untimed "$here/new/$1")
}

untimed() {
    sed -E 's/"(ms|seconds|images_per_second)": (\{[^}]*\}|[0-9.]+)//g; s/, "/,\n"/g' "$1"
}

# check WHAT COMMAND...: prints "passed", or "FAILED" and the reason
check() {
    local what=$1 reason
    shift
    if reason=$("$@" 2>&1); then
        echo passed
    else
        reason=$(head -n 4 <<<"${reason//"$here/"/}" | tr '\n' ' ')
        echo "FAILED $name: $what: ${reason:0:400}"
    fi
}

same_status() {
    [ "$status_old" = "$status_new" ] && return
    echo "exit status $status_old became $status_new: $(tail -qn 1 "$here/old/err" "$here/new/err")"
    return 1
}

# same FILES...: passes if both exit statuses are equal, and each FILE has the same bytes in both
# folders or is missing from both.
same() {
    local file
    same_status || return
    for file in "$@"; do
        [ -e "$here/old/$file" ] || [ -e "$here/new/$file" ] || continue
        if [ -d "$here/old/$file" ]; then diff -rq "$here/old/$file" "$here/new/$file" || return
        else cmp "$here/old/$file" "$here/new/$file" || return; fi
    done
}

# Passes if the exit status and standard output are the same.
same_output() {
    same_status && difference out
}

# Passes if compare_builds.c gives the same results in both builds, and NEW's workspaces are not
# larger.
same_bits() {
    local size='s/ workspace [0-9]*//'
    same_status && diff <(sed "$size" "$here/old/out") <(sed "$size" "$here/new/out") &&
        paste -d '\n' "$here/old/out" "$here/new/out" | awk '/ workspace / {
            size = $0; sub(/.* workspace /, "", size); size += 0
            if (++count % 2) old = size
            else if (size > old) { print "a workspace of " old " bytes became " size; exit 1 }
        }'
}

# convert ARGUMENTS...: makes m.vit. If the builds make different files, later steps of the case run
# both builds on OLD's file.
convert() {
    both tools/vit-convert "$@" -o m.vit
    check "vit-convert $*" same m.vit
    [ ! -e "$here/old/m.vit" ] || cp "$here/old/m.vit" "$here/new/m.vit"
}

# pick N WORDS...: prints one of the words
pick() {
    local n=$1
    shift
    shift $((n % $#))
    echo "$1"
}

# Runs both builds on m.vit: vit.h, vit-convert, vit-info and vit-run.
use() {
    local number isa pictures=() i rest
    [ -e "$here/old/m.vit" ] && [ -e "$here/new/m.vit" ] || return 0
    both compare_builds m.vit
    check "vit.h" same_bits
    both tools/vit-convert m.vit --to safetensors -o m.safetensors
    check "vit-convert --to safetensors" same m.safetensors
    both tools/vit-convert m.vit --c-array -o m.h
    check "vit-convert --c-array" same m.h
    both tools/vit-info --json m.vit
    both tools/vit-info m.vit
    check "vit-info" same_status
    number=$(cksum <<<"$name" | cut -d ' ' -f 1) # varies the settings
    # shellcheck disable=SC2086 # names
    isa=$(pick "$number" $isas)
    for i in 0 7 31; do pictures+=(-i "$(pick $((number / 5 + i)) "${all_pictures[@]}")"); done
    mkdir "$here/old/run" "$here/new/run"
    # A model without a head refuses --logits, and a model without blocks refuses --attention.
    for rest in "--logits run/logits.npy --attention run/attention.npy" "--logits run/logits.npy" \
        "--attention run/attention.npy" ""; do
        # shellcheck disable=SC2086 # words
        both tools/vit-run -m m.vit --isa "$isa" -t $((1 + number / 7 % 2)) \
            --batch $((1 + number / 11 % 3)) "${pictures[@]}" --json --dump-input run/input.npy \
            --embedding run/embedding.npy --tokens run/tokens.npy --trace run/trace $rest
        [ "$status_old" = 0 ] && [ "$status_new" = 0 ] && break
    done
    check "vit-run --isa $isa ${pictures[*]}" same run
}

# Converts without config.json, from only the name of the architecture and the sizes.
named() {
    local arch size
    both tools/vit-convert "$1" -o m.vit --json
    arch=$(sed -n 's/.*"architecture": "\([^" ]*\).*/\1/p' "$here/old/out")
    set -- model.safetensors --arch "$arch" --json
    for size in img_height img_width patch_size embed_dim depth num_heads; do
        set -- "$@" --set "$size=$(sed -n "s/.*\"$size\": \([0-9]*\).*/\1/p" "$here/old/out")"
    done
    rm -f "$here"/*/m.vit
    convert "$@"
}

classify() {
    both tools/vit-classify "$@" "${all_pictures[@]}"
    check "classify $*" same_output
}

one_case() {
    local here=$work/case.$$ status_old status_new name kind words
    IFS='|' read -r name kind words <<<"$1"
    set -f
    # shellcheck disable=SC2086 # words
    set -- $words
    set +f
    rm -rf "$here"
    mkdir -p "$here/old" "$here/new"
    case $kind in
    convert) convert "$@" ;;
    model) convert "$@" && use ;;
    vit) cp "$1" "$here/old/m.vit" && cp "$1" "$here/new/m.vit" && use ;;
    named)
        ln -s "$1/model.safetensors" "$here/old/" && ln -s "$1/model.safetensors" "$here/new/"
        named "$1"
        ;;
    classify) classify "$@" ;;
    evaluate)
        both tools/vit-evaluate "$@" --predictions m.predictions
        check "evaluate $*" same_output
        check "evaluate $*, files" same m.predictions
        ;;
    esac
    rm -rf "$here"
    echo "case"
}

if [ "${1-}" = --cases ]; then # called by xargs, below
    shift
    mapfile -t all_pictures <"$work/pictures.txt"
    for line in "$@"; do one_case "$line"; done
    exit
fi

# --- all cases ----------------------------------------------------------------------------------

# in_types NAME KIND ARGUMENTS: prints a case for each type of weights. f32 prints the report as
# text
in_types() {
    local dtype
    echo "$1.f32|$2|$3"
    for dtype in f16 bf16 int8 int4; do echo "$1.$dtype|$2|$3 --dtype $dtype --json"; done
}

list_fixtures() {
    local folder file options kind
    for folder in "$data"/fixtures/*/; do
        folder=${folder%/} options='' kind=model
        [ -e "$folder/options" ] && options=$(tr '\n' ' ' <"$folder/options")
        for file in model.safetensors model.pth model_legacy.pth; do
            [ -e "$folder/$file" ] || continue
            in_types "fixtures/${folder##*/}/$file" $kind "$folder/$file $options"
            kind=convert
        done
    done
}

list_coverage() {
    local folder file what name
    for folder in "$data"/coverage/*/; do
        folder=${folder%/} name=coverage/${folder##*/}
        in_types "$name" model "$folder"
        echo "$name.named|named|$folder"
        echo "$name.dynamic|model|$folder --dynamic"
        for file in "$folder"/img_size_* "$folder"/in_chans_*; do
            [ -e "$file" ] || continue
            what=$(basename "$file" .safetensors)
            in_types "$name.$what" model "$folder --${what%_*} ${what##*_}"
        done
    done | sed 's/--img_size/--img-size/; s/--in_chans/--in-chans/'
}

list_layouts() {
    local name file options twin last change
    while IFS='|' read -r name file options twin last; do
        name=${name// /} file=$data/layouts/$name/${file// /} twin=${twin// /}
        in_types "layouts/$name" convert "$file $options"
        for change in "--img-size 6" "--img-size 4x6" --dynamic "--in-chans 4" \
            "--patch-size 3 --in-chans 4 --img-size 6 --set pos_resample=flexivit" \
            "--set num_classes=0 --set crop_mode=border"; do
            echo "layouts/$name $change|convert|$file $options $change"
        done
        [ -n "$twin" ] || continue
        change="$data/layouts/twins/$twin.safetensors $last"
        echo "layouts/twins/$twin for $name|model|$change"
        in_types "layouts/twins/$twin for $name" convert "$change"
    done <"$data/layouts/cases.txt"
    for change in timm transformers torchvision flexivit jax dino naflex par parfac; do
        twin="$data/layouts/twins/plain.safetensors --set num_heads=2 --set norm_eps=1e-6"
        twin="$twin --set activation=gelu --set pos_resample=$change"
        echo "layouts resampled, $change|model|$twin --img-size 10x14 --dtype bf16"
        echo "layouts dynamic, $change|model|$twin --dynamic --dtype f16"
    done
}

# Most of these files are not models: both builds must refuse them with the same exit status.
list_checkpoints() {
    local file
    while read -r file; do
        echo "checkpoints/${file##*/}|convert|$file"
    done < <(find "$data/checkpoints" -type f -o -name shards | sort)
}

# Cases that the fixtures do not cover: larger models, calibration, and the other options of
# vit-convert.
list_random() {
    local random=$work/random dtype tiny small
    "$random" "$work/small.safetensors" dim=96 depth=3 mlp=384 patch=8 rows=6 cols=6 classes=40
    "$random" "$work/grey.safetensors" dim=72 depth=2 mlp=100 patch=7 chans=1 rows=4 cols=4 \
        classes=3
    "$random" "$work/tiny.safetensors" dim=192 depth=12 mlp=768 patch=16 rows=14 cols=14 \
        classes=1000
    seq -f 'class %g' 40 >"$work/labels.txt"
    small="$work/small.safetensors --set num_heads=3"
    tiny="$work/tiny.safetensors --arch deit_tiny_patch16_224 --set selftest_tolerance=0"
    in_types random/small model "$small --labels $work/labels.txt"
    in_types random/grey model "$work/grey.safetensors --set num_heads=4"
    in_types random/tiny convert "$tiny"
    for dtype in bf16 int8 int4; do
        echo "random/small.$dtype.calibrated|model|$small --dtype $dtype --calibrate $data/images" \
            "--report $root/examples/cat.jpg --calibrate-max 12"
        echo "random/grey.$dtype.calibrated|model|$work/grey.safetensors --set num_heads=4" \
            "--dtype $dtype --calibrate $data/images"
        echo "coverage.$dtype.calibrated|model|$data/coverage/deit3_base_patch16_224" \
            "--dtype $dtype --calibrate $data/images --report $data/images --report-max 5"
        echo "stem.$dtype.calibrated|model|$data/coverage/vit_base_r50_s16_224 --dtype $dtype" \
            "--calibrate $data/images --keep none"
    done
    echo "random/keep.int8|model|$small --dtype int8 --keep none"
    echo "random/keep.int4|model|$small --dtype int4 --keep blocks.0.* --keep head.weight"
    echo "random/rename|convert|$small --rename blocks.*=layers.* --ignore norm.*"
    echo "random/headless|model|$small --set num_classes=0 --set pool=avg"
    echo "random/settings|model|$small --set norm_eps=1e-3 --set activation=quick_gelu" \
        "--set mean=0.1,0.2,0.3 --set std=0.5 --set crop_pct=0.7 --set crop_mode=border --dtype f16"
    echo "random/positions|convert|$small --set no_such=1"
    echo "random/classes|convert|$small --set num_classes=7"
    echo "random/type|convert|$small --dtype f8"
}

list_pictures() {
    local model file
    for model in "$root"/models/*.vit; do
        echo "models/${model##*/}|vit|$model"
        echo "classify ${model##*/}|classify|-m $model --json"
        echo "classify ${model##*/} text|classify|-m $model -k 3 -t 2 --no-exif"
        mkdir -p "$work/set/0" "$work/set/1"
        for file in "${all_pictures[@]}"; do ln -sf "$file" "$work/set/$((${#file} % 2))/"; done
        echo "evaluate ${model##*/}|evaluate|-m $model --json $work/set"
    done
}

# The pictures are the bundled images, and generated images of unusual sizes.
make_pictures() {
    local size width height
    mkdir -p "$work/pictures"
    for size in 1x1 3x200 301x7 33x31 224x224 640x479; do
        width=${size%x*} height=${size#*x}
        {
            printf 'P6\n%d %d\n255\n' "$width" "$height"
            tail -c $((3 * width * height)) "$root/models/cifar10-vit.vit"
        } >"$work/pictures/$size.ppm"
    done
    find "$work/pictures" "$data/images" "$root/examples" -name '*.[bgjpt][gimnp][adfgmp]' | sort
}

# --- doing it -----------------------------------------------------------------------------------

# compile NAME CHECKOUT. With -mfma (see below) the plain C tier uses the CPU's fused multiply-add,
# which gives the same bits in less time. The programs of the checkouts are built without -mfma.
compile() {
    # shellcheck disable=SC2086 # flags are words
    $CC -std=c99 -D_FILE_OFFSET_BITS=64 $CFLAGS -I"$2" "$2/tests/compare_builds.c" \
        -o "$work/compare_builds.$1" -lpthread -lm
}

# collect WHAT [PATTERN]: joins the files of all processes and prints the number of lines that match
collect() {
    mkdir -p "$root/build/log"
    find "$work" -name "$1.*" -exec cat {} + >"$root/build/log/compare_builds.$1"
    grep -c "${2-}" "$root/build/log/compare_builds.$1"
}

# count CASES: adds up the lines of all cases, prints failures and, on a terminal, progress.
count() {
    local line cases=0 passed=0 failed=0
    while IFS= read -r line; do
        case $line in
        case) cases=$((cases + 1)) ;;
        passed) passed=$((passed + 1)) ;;
        *) failed=$((failed + 1)) && printf '%s\n' "$line" ;;
        esac
        [ ! -t 2 ] || printf '\r\033[K%d of %d cases, %d failed ' $cases "$1" $failed >&2
    done
    [ ! -t 2 ] || printf '\r\033[K' >&2
    if [ $cases != "$1" ]; then
        echo "FAILED $cases of $1 cases ended"
        failed=$((failed + 1))
    fi
    echo "$(collect refused) commands fail in both: build/log/compare_builds.refused"
    echo "$(collect texts ^==) messages and reports differ: build/log/compare_builds.texts"
    echo "$passed passed, $failed failed"
    [ $failed = 0 ] && [ $passed -gt 0 ]
}

if [ $# != 2 ] && [ $# != 3 ]; then
    echo "usage: bash tests/compare_builds.sh OLD NEW [SCRATCH]" >&2
    exit 2
fi
old=$(realpath "$1") new=$(realpath "$2") root=$(realpath "$(dirname "$0")/..")
data=$root/tests/data
work=${3-$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)} # much is written and synced
mkdir -p "$work" && work=$(realpath "$work") && rm -rf "$work"/{case,refused,texts}.* || exit
[ $# = 3 ] || trap 'rm -rf "$work"' EXIT
if [ -z "${CFLAGS-}" ]; then
    CFLAGS=-O2
    grep -qw fma /proc/cpuinfo && [ "$(uname -m)" = x86_64 ] && CFLAGS="$CFLAGS -mfma"
fi
CC=${CC:-cc} EMULATOR=${EMULATOR-}
for checkout in "$old" "$new"; do
    for program in tools/vit-{convert,info,run,classify,evaluate}; do
        [ -x "$checkout/$program" ] && continue
        echo "$checkout/$program is not there: run make first" >&2
        exit 2
    done
done
compile old "$old" && compile new "$new" &&
    cc -O1 -o "$work/random" "$root/tests/random_checkpoint.c" || exit
for isa in scalar sse2 avx2 avx-vnni avx512{,-vnni,-bf16} neon{,-dotprod,-i8mm,-bf16}; do
    "$old/tools/vit-run" --isa "$isa" -m "$root/models/fashion-vit.vit" \
        "$root/examples/cat.ppm" >"$work/out" 2>&1 && isas="${isas-} $isa"
done
export old new root data work CC CFLAGS EMULATOR isas

make_pictures >"$work/pictures.txt"
mapfile -t all_pictures <"$work/pictures.txt"
{ list_pictures; list_random; list_coverage; list_fixtures; list_layouts; list_checkpoints; } |
    grep -E "^[^|]*(${ONLY-})" >"$work/cases.txt"
tr '\n' '\0' <"$work/cases.txt" |
    xargs -0 -n 8 -P "$(nproc)" bash "$0" --cases | count "$(wc -l <"$work/cases.txt")"
