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

# Findings in Debian's stb_image do not count. All other findings listed here are false: above them,
# a comment has a reason for each line. Each listed finding must still occur.
except=(
    '^/usr/include/'
    # An example that ends because of an error leaves its memory to the system.
    'examples/(attention|camera|similar).c:.*leak'
    # The checkpoint owns the block, and frees it.
    'checkpoint/contents.c:.*leak of .<unknown>.'
    # Plans, images, parts and names are elements of lists. The owner of a list frees its elements.
    '(convert/match_model|layout/structure_(parts|rest|tensors)).c:.*leak of'
    # The whole array is copied, including the bytes after the text that it contains.
    'convert/match_options.c:.*uninitialized value'
    # config_path is NULL once it has been freed. If is_close is set, there is a layout. Each part
    # has a tensor. An unknown name adds a part. Missing values are not read.
    'convert/convert.c:.*(is_open|after it is freed)'
    'layout/structure_parts.c:.*null pointer'
    'layout/evidence.c:.*ctuuninitvar'
    # tag_lists_free frees both lists. A folder always has photos.
    '(infer/tags.c|base/report.h):.*leak of .<unknown>.'
    'infer/probe.c:.*allocation size of 0 bytes'
    # A sum of exp() values contains the term 1, so it is not zero.
    '(convert/match_folder|tools/vit-evaluate).c:.*invalidFunctionArg: Invalid log'
    # read_lambda frees all four values in a loop. The caller always frees a sample and the ranges.
    'layout/values.c:.*leak of .<unknown>.'
    'convert/quantise.c:.*Potential memory leak'
    "checkpoint/safetensors.c:.*leak of memory pointed to by 'range'"
    # fill_values and list_members set every value that is read later. A plan without a layout is
    # never printed. Lists and journals own their photos and rows.
    'infer/learned.c:.*uninitialized value'
    'tools/vit-search.c:.*subscript is undefined'
    'convert/report.c:.*(null pointer|leak of)'
    'image/photo_source.c:.*Potential memory leak'
    'infer/embedding.c:.*leak of'
    # Both names of a --rename have the same number of '*'. Any other --rename has been refused
    # before.
    'checkpoint/read.c:.*(null pointer|garbage|uninitialized)'
    # The array is set element by element before it is read. The other finding is about the last
    # assignment in a list of fields.
    'convert/c_array.c:.*uninitvar: .*upper'
    'convert/vit_writer.c:.*uselessAssignmentPtrArg'
    # An output without a name has been refused before. The bytes of the number 1 show the byte
    # order of this CPU. Every storage that was read is in the list. The list has memory for more
    # words than are accepted.
    'tools/vit-convert.c:.*1st parameter .*nonnull'
    'base/npy.c:.*object representation'
    'checkpoint/torch_files.c:.*dereference of NULL .(place|found)'
    'cli/options.c:.*field .items.. results in a null pointer'
    # There are no labels if memory is exhausted. A refused photo has no pixels, and the job of the
    # photo frees it.
    'checkpoint/torch_state_dict.c:.*memleak: .*labels'
    'image/photos.c:.*garbage'
    'look/write.c:.*leak of'
    # The sheet owns a caption (sheet_free). The caller owns the texts of a row that was found
    # (indexed_row_free).
    'picture/picture.c:.*leak of .copy.'
    'shards/shard_index.c:.*leak of'
    # The memory `room` is only for halves. Rows of floats do not use it.
    'numbers/nearest.c:.*(null pointer|NULL .room)'
    # gcc 12 and cppcheck do not follow loops that set the elements of vectors. Only cosines that
    # were computed are read.
    'numbers/nearest.c:.*(shift by count|[Uu]ninitialized)'
    'numbers/nearest.c:.*uninitialized value .cosines'
    # A loop sets all three colours. A block of a PNG is in the list before it grows.
    'picture/picture.c:.*uninitialized'
    'picture/stb.c:.*(uninitialized|after it is freed)'
    # WORDS_FLAG and VIT__ONE_MORE are defined before they are used. Compilers parse this code, but
    # cppcheck 2.10 cannot parse it.
    '(model/settings.c|vit.h):.*unknownMacro'
    'vit.h:.*internalAstError'
    # A block that was read has bytes. A reader without nodes has no inputs.
    'checkpoint/onnx(_graph)?.c:.*(null pointer)'
    # Only decoded pixels are turned upright. Every model has tensors.
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

# With the kernels of larger instruction sets, gcc's analyser would take hours.
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
    >"$work/cppcheck" 2>&1 & # takes one core, for as long as the others
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
