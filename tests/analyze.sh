#!/usr/bin/env bash
# analyze.sh [FILE...] - runs gcc's analyser, clang-tidy and cppcheck over the library, the tools
# and the examples, and fails for any finding. .clang-tidy lists the disabled checks. The last line
# is "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
work=build/analyze
rm -rf "$work"
mkdir -p "$work"
passed=0 failed=0 whole=no
if [ $# = 0 ]; then
    whole=yes
    mkdir "$work/examples" # the implementation is analysed once; small.c needs model.h
    for file in examples/*.c; do
        [ "$file" = examples/small.c ] || sed '/^#define \(VIT\|STB_IMAGE\)_IMPLEMENTATION$/d' "$file" \
            >"$work/$file"
    done
    set -- tools/*.c tools/*/*.c "$work"/examples/*.c
fi

# Findings in Debian's stb_image do not count. All other findings listed here are false; the comment
# above each gives the reason. Each must still occur.
except=(
    '^/usr/include/'
    # an example that ends because of an error leaves its memory to the system
    'examples/(attention|camera|similar).c:.*leak'
    # a block belongs to the checkpoint, which frees it
    'checkpoint/contents.c:.*leak of .<unknown>.'
    # plans, images, parts and names are in lists that their owner frees
    '(convert/match_model|layout/structure_(parts|rest|tensors)).c:.*leak of'
    # a text in an array of one size is copied whole
    'convert/match_options.c:.*uninitialized value'
    # config_path is NULL once it is freed; a close layout is a layout; each part has a tensor, and
    # an unknown name adds a part; missing values are not read
    'convert/convert.c:.*(is_open|after it is freed)'
    'layout/structure_parts.c:.*null pointer'
    'layout/evidence.c:.*ctuuninitvar'
    # tag_lists_free frees both lists; a folder has photos
    '(infer/tags.c|base/report.h):.*leak of .<unknown>.'
    'infer/probe.c:.*allocation size of 0 bytes'
    # a sum of exp() has a term that is 1
    '(convert/match_folder|tools/vit-evaluate).c:.*invalidFunctionArg: Invalid log'
    # read_lambda frees all four in a loop; the caller always frees a sample and the ranges
    'layout/values.c:.*leak of .<unknown>.'
    'convert/quantise.c:.*Potential memory leak'
    "checkpoint/safetensors.c:.*leak of memory pointed to by 'range'"
    # fill_values and list_members set every value that is read later; a plan without a layout is
    # never printed; lists and journals own their photos and rows
    'infer/learned.c:.*uninitialized value'
    'tools/vit-search.c:.*subscript is undefined'
    'convert/report.c:.*(null pointer|leak of)'
    'image/photo_source.c:.*Potential memory leak'
    'infer/embedding.c:.*leak of'
    # --rename was refused unless both names have as many '*'
    'checkpoint/read.c:.*(null pointer|garbage|uninitialized)'
    # the array is set element by element before it is read; the other finding is the last
    # assignment of a list of fields
    'convert/c_array.c:.*uninitvar: .*upper'
    'convert/vit_writer.c:.*uselessAssignmentPtrArg'
    # an output without a name was refused before; the bytes of the number 1 show this CPU's byte
    # order; every storage that was read is in the list; the list has room for more words than are
    # accepted
    'tools/vit-convert.c:.*1st parameter .*nonnull'
    'base/npy.c:.*object representation'
    'checkpoint/torch_files.c:.*dereference of NULL .(place|found)'
    'cli/options.c:.*field .items.. results in a null pointer'
    # there are no labels if memory ran out; a refused photo has no pixels, and its job frees it
    'checkpoint/torch_state_dict.c:.*memleak: .*labels'
    'image/photos.c:.*garbage'
    'look/write.c:.*leak of'
    # the sheet owns a caption (sheet_free), the caller the texts of a found row (indexed_row_free)
    'picture/picture.c:.*leak of .copy.'
    'shards/shard_index.c:.*leak of'
    # `room` is for halves; rows of floats need none
    'numbers/nearest.c:.*(null pointer|NULL .room)'
    # gcc 12 and cppcheck do not follow loops that set the elements of vectors; only computed
    # cosines are read
    'numbers/nearest.c:.*(shift by count|[Uu]ninitialized)'
    'numbers/nearest.c:.*uninitialized value .cosines'
    # a loop sets all three colours; a block of a PNG is in the list before it grows
    'picture/picture.c:.*uninitialized'
    'picture/stb.c:.*(uninitialized|after it is freed)'
    # WORDS_FLAG and VIT__ONE_MORE are defined above their uses; compilers parse the code that
    # cppcheck 2.10 cannot
    '(model/settings.c|vit.h):.*unknownMacro'
    'vit.h:.*internalAstError'
    # a block that was read has bytes; a reader without nodes has no inputs
    'checkpoint/onnx(_graph)?.c:.*(null pointer)'
    # only decoded pixels are turned upright; every model has tensors
    'image/image_file.h:.*2nd parameter expecting .nonnull.'
    'convert/vit_writer.c:.*allocation size of 0 bytes'
)
printf '%s\n' "${except[@]}" >"$work/except"

verdict() {
    local name=$1
    if grep -hE '^[^ ]+:[0-9]+:.*(warning|error)' "$work/$name" | grep -vEf "$work/except"; then
        echo "FAILED $name, all of it in $work/"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

# The kernels of larger instruction sets would keep gcc's analyser for hours.
one() {
    local name=${1//\//_}
    gcc -std=c99 -O1 -fanalyzer -DVIT_NO_SIMD -I. -Itools -c "$1" -o /dev/null \
        >"$work/$name.gcc" 2>&1 || echo "$1:0: error: gcc failed" >>"$work/$name.gcc"
    clang-tidy --quiet "$1" -- -std=c99 -I. -Itools >"$work/$name.tidy" 2>"$work/$name.err" ||
        echo "$1:0: error: clang-tidy failed" >>"$work/$name.tidy"
}

cppcheck --std=c99 --quiet --enable=warning,performance,portability --inline-suppr -I. -Itools \
    --suppress=toomanyconfigs \
    --template='{file}:{line}: warning: {id}: {message}' "$@" \
    >"$work/cppcheck" 2>&1 & # takes one processor, and as long as the other analysers
for file in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    one "$file" &
done
wait
for file in "$@"; do
    verdict "${file//\//_}.gcc"
    verdict "${file//\//_}.tidy"
done
verdict cppcheck
for pattern in "${except[@]}"; do
    [ $whole = no ] || grep -qE -- "$pattern" "$work"/*.{gcc,tidy} "$work/cppcheck" && continue
    echo "FAILED: nothing is said of '$pattern' any more"
    failed=$((failed + 1))
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
