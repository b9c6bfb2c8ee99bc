#!/usr/bin/env bash
# Tests vit-embed, vit-search, vit-classify --classes, and vit-evaluate --knn, --probe and --tags
# end to end, with options, files and pipes.
#
#     BIN=. bash tests/test_search.sh
#
# may be called from any folder; BIN, relative to the repository, is the folder that contains
# examples/ and tools/.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=$root/${BIN:-.}
images=$root/tests/data/images
fixtures=$root/tests/data/fixtures
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
embed=$bin/tools/vit-embed search=$bin/tools/vit-search evaluate=$bin/tools/vit-evaluate
classify=$bin/tools/vit-classify
run=$bin/tools/vit-run convert=$bin/tools/vit-convert

usage() { # MESSAGE: passes if a wrong command line gives this message
    is 2
    quiet out
    err "$1.* \(try '$(basename "${tried%% *}") --help'\)$"
}
# shape FILE TEXT: passes if the array in the .npy file has this shape
shape() {
    if head -c 128 "$1" | tr -d '\0' | grep -aq "'shape': ($2), }"; then pass; else fail "shape of $1"; fi
}
# close A.npy B.npy: passes if both arrays are equal except for rounding
close() { if "$work/compare_npy" "$1" "$2" 1e-6 >/dev/null; then pass; else fail "$1 and $2"; fi; }

tried=setup
: >"$work/out"
: >"$work/err"
make_json_check
"${CC:-cc}" -std=c99 -O1 tests/compare_npy.c -lm -o "$work/compare_npy" ||
    fail "compare_npy does not compile"
cd "$work" || exit 2
model=model.vit
try "$convert" "$fixtures/plain/model.safetensors" -o $model
is 0
mkdir -p photos/a/deep photos/b photos/.hidden
cp "$images/baseline.jpg" "$images/rgb.png" photos/a
cp "$images/cmyk.jpg" photos/a/deep/UPPER.JPG
cp "$images/grey.jpg" photos/b
cp "$root/examples/cat.ppm" photos/b/rgb.ppm
cp "$images/rgb.bmp" photos/.hidden
echo text >photos/b/readme.txt
printf '%s\n' photos/a/baseline.jpg photos/a/deep/UPPER.JPG photos/a/rgb.png photos/b/grey.jpg \
    photos/b/rgb.ppm >expected.txt

sections

# --- embed --------------------------------------------------------------------------------

try "$embed" -m $model photos -o all.npy
is 0
quiet out
err '^vit-embed: 5 images in [0-9.]+ s, [0-9.]+ images/s; 0 unreadable$'
shape all.npy '5, 24'
same all.txt expected.txt
cp all.json "$work/out"
json head pool
json null layer
json 5 shape 0
json 24 shape 1
json 5 images
json '' nothing
each=()
while read -r name; do each+=("$name"); done <expected.txt
try "$run" -m $model "${each[@]}" --embedding theirs.npy --tokens t.npy
same all.npy theirs.npy
# The number of threads and the size of batches change no bit.
for options in '-t 1' '-t 2 -b 1' '-t 3 --batch 2' '-t 8 -b 64'; do
    # shellcheck disable=SC2086 # words
    try "$embed" -m $model photos -o other.npy --overwrite $options
    is 0
    same all.npy other.npy
    same all.txt other.txt
done
# The index keeps the order of a list. A list comes from a file or a pipe, and its paths are
# separated by newlines or NULs.
tac expected.txt >list
printf 'photos/b/rgb.ppm\r\n\nphotos/b/grey.jpg\n' >dos
try "$embed" -m $model --list list --list dos -o other.npy
is 0
cat list <(tr -d '\r' <dos | sed '/^$/d') >both
same other.txt both
"$embed" -m $model photos/a/rgb.png --list - --null -o other.npy < <(tr '\n' '\0' <list) 2>"$work/err"
status=$?
is 0
same other.txt <(echo photos/a/rgb.png && cat list)
try "$embed" -m $model --list <(tr '\n' '\0' <list) -o other.npy
is 1
err 'has a NUL byte in a path: a list whose paths end with NUL needs --null'
missing other.npy.tmp*
# 'photos/' as an operand or in a list gives the same index as 'photos'
printf 'photos/\n' >folders
for folders in photos/ '--list folders'; do
    # shellcheck disable=SC2086 # words
    try "$embed" -m $model $folders -o other.npy --overwrite
    is 0
    same all.npy other.npy
    same all.txt other.txt
done
printf '%s\n' photos/a/rgb.png photos/b photos/a/rgb.png >folders
try "$embed" -m $model --list folders -o other.npy
is 0
same other.txt <(echo photos/a/rgb.png && grep photos/b/ expected.txt && echo photos/a/rgb.png)
mkdir none
echo none >folders
try "$embed" -m $model --list folders -o other.npy
is 1
err 'none: the folder has no images in it'
# These names contain characters that must be escaped in a line of output.
if posix; then
    mkdir odd
    cp photos/b/rgb.ppm 'odd/back\slash.ppm'
    cp photos/b/rgb.ppm $'odd/new\nline\r.ppm'
    try "$embed" -m $model odd -o odd.npy
    is 0
    same odd.txt <(printf '%s\n' '\odd/back\\slash.ppm' '\odd/new\nline\r.ppm')
fi
# Tests all choices of vectors.
try "$embed" -m $model photos -o tokens.npy --pool tokens
shape tokens.npy '5, 10, 24'
same tokens.npy t.npy
try "$embed" -m $model photos -o cls.npy --pool cls
close cls.npy all.npy # the input of this model's head
try "$embed" -m $model photos -o avg.npy --pool avg
shape avg.npy '5, 24'
try "$run" -m $model "${each[@]}" --trace steps
try "$embed" -m $model photos -o block.npy --pool tokens --block 0
same block.npy steps/blocks.0.npy
try "$embed" -m $model photos -o block.npy --overwrite --pool tokens --block 1 -b 2 -t 2
same block.npy steps/blocks.1.npy
try "$embed" -m $model photos -o block.npy --overwrite --block 1
shape block.npy '5, 24'
cp block.json "$work/out"
json 1 layer
json cls pool
try "$embed" -m $model photos -o unit.npy --normalize
is 0
try "$embed" -m $model photos -o named.npy --names other.names --json
is 0
quiet err
json named.npy output
json other.names names
json 5 images
json 0 unreadable
same other.names expected.txt
missing named.txt
try "$embed" -m "$root/models/cifar10-vit.vit" photos -o bundled.npy --no-exif
is 0
shape bundled.npy '5, 192'

# Unreadable photos are reported, counted and left out.
cp -r photos damaged
echo "not an image" >damaged/b/bad.jpg
: >damaged/a/empty.png
head -c 300 damaged/a/baseline.jpg >damaged/a/short.jpg
for threads in 1 3; do
    try "$embed" -m $model damaged -o some.npy --overwrite -t $threads
    is 1
    err '^vit-embed: damaged/b/bad.jpg: the file is not an image'
    err '^vit-embed: damaged/a/empty.png: is empty$'
    err '^vit-embed: damaged/a/short.jpg: the image is truncated$'
    err '^vit-embed: 5 images in .* 3 unreadable$'
    same <(tail -c +129 some.npy) <(tail -c +129 all.npy)
    same some.txt <(sed s/photos/damaged/ expected.txt)
done
echo kept >none.npy
try "$embed" -m $model damaged/b/bad.jpg -o none.npy
is 1
err 'no image could be read; nothing was written'
same none.npy <(echo kept)
missing none.txt
if [ -z "$(find . -name '*.tmp-*')" ]; then pass; else fail "temporary file left"; fi

# wrong command lines and files
try "$embed" photos
usage 'missing -o OUT.npy'
try "$embed" -o x.npy
usage 'missing IMAGE, FOLDER or --list FILE'
try "$embed" photos -o x.npy --null
usage '--null needs --list FILE'
for wrong in '--batch 0' '--batch x' '--block -1' '--threads 257' '--img-size 0'; do
    # shellcheck disable=SC2086 # words
    try "$embed" photos -o x.npy $wrong
    is 2
done
while IFS='|' read -r options message; do
    # shellcheck disable=SC2086 # words
    try "$embed" -m $model photos -o x.npy $options
    is 1
    err "$message"
    missing x.npy
done <<'END'
--pool max|--pool: expected head, logits, cls, avg or tokens, found 'max'
--block 2|--block: the model has blocks 0 to 1, found 2
--block 0 --pool head|for a block, choose cls, avg or tokens
--img-size 24|its input size is fixed
--list nosuch|nosuch: cannot be opened
--list .|\.: cannot be [a-z]*: Is a directory
nosuch.jpg|nosuch.jpg: cannot be opened: No such file
-m nosuch.vit|nosuch.vit: cannot be opened
END
try "$embed" -m $model photos -o x.npy --names x.npy
is 2
err '^vit-embed: x.npy: this output is the same file as the output x.npy'
missing x.npy
mkdir empty
try "$embed" -m $model empty -o x.npy
is 1
err 'empty: the folder has no images in it'
for target in photos nosuch/x.npy $model photos/a/rgb.png; do
    try "$embed" -m $model photos/a/rgb.png -o "$target"
    is 1
    err "$target: (is a folder|cannot be created|the output is an input)"
done
try "$embed" -m $model photos -o /dev/full --names x.txt
is 1
err '/dev/full: (cannot be written: No space left|cannot be created)'
if posix; then
    mkfifo pipe.npy
    cat pipe.npy >out &
    try "$embed" -m $model photos -o pipe.npy
    is 1
    err 'the output is a pipe, but the number of images at its beginning is known only at the end'
    wait
    rm pipe.npy
fi
try "$embed" -m $model photos -o -
is 2
err "-o cannot be '-', because other files are written beside it"
try "$convert" "$fixtures/chans4/model.pth" -o chans4.vit
try "$embed" -m chans4.vit photos -o x.npy
is 1
err 'models of 1 or 3 channels take images, found 4'

# -q omits the summary. It also omits the progress, which appears only on terminals.
try "$embed" -m $model photos -o other.npy -q
is 0
quiet err
quiet out
try "$embed" -m $model --tar shards.tar -o quiet -q
is 1 # there is none
lines err 1
if posix && terminal "the progress of the programs"; then
    mkdir -p most/cat
    for i in {1..2500}; do ln -s "$root/examples/cat.jpg" most/cat/$i.jpg; done
    find most -name "*.jpg" >most.txt
    printf 'cat 3\n' >most.map
    for command in "vit-embed -m $model most -o other.npy --overwrite" \
        "vit-embed -m $model --list most.txt -o other.npy --overwrite" \
        "vit-classify -m $model most" "vit-evaluate -m $model --map most.map most" "vit-search all.npy most"; do
        for option in '' -q; do
            script -qec "$bin/tools/$command $option >most.out" /dev/null >most.seen </dev/null
            if grep -q $'\r.*\e\[K' most.seen; then found=progress; else found=; fi
            expected=
            [ "$option" ] || expected=progress
            if [ "$found" = "$expected" ]; then pass
            else tried="$command $option" && fail "'$found', expected '$expected'"; fi
        done
    done
fi

# --- search -------------------------------------------------------------------------------
# After: embed

try "$search" all.npy photos/a/rgb.png
is 0
quiet err
lines out 5
if [ "$(head -n 1 "$work/out")" = "1.0000  photos/a/rgb.png" ]; then pass; else fail first; fi
cp "$work/out" one
for options in '-t 1' '-t 3' "-m $model" '--pool head' '--pool cls' '--no-exif'; do
    # shellcheck disable=SC2086 # words
    try "$search" all.npy $options photos/a/rgb.png
    same "$work/out" one
done
try "$search" all.npy -k 2 photos/a/rgb.png photos/b/grey.jpg
lines out 2
out ' photos/a/rgb.png$'
out ' photos/b/grey.jpg$'
try "$search" --json all.npy -k 1 photos/b/grey.jpg
json 5 vectors
json 24 dim
json 3 nearest 0 row
json photos/b/grey.jpg nearest 0 name
json 0 unreadable
try "$search" unit.npy photos/a/rgb.png # cosines do not depend on the vectors' lengths
same <(cut -c1-5 "$work/out") <(cut -c1-5 one)
if posix; then
    try "$search" odd.npy photos/b/rgb.ppm --json
    json $'odd/new\nline\r.ppm' nearest 1 name
fi
try "$search" block.npy photos/a/rgb.png -k 1 # block.json has the layer
out '^1.0000  photos/a/rgb.png$'
# Queries may be vectors in files. This also works with an index that has no description.
cp all.npy bare.npy
try "$search" bare.npy --names all.txt --vector theirs.npy
is 0
lines out 5
try "$search" bare.npy --vector theirs.npy
is 1
err 'bare.txt: cannot be opened'
printf "\x93NUMPY\x01\x00\x76\x00%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 24), }" >none.npy
try "$search" all.npy --vector none.npy
is 1
err '^vit-search: none.npy: expected an array \[24\] or \[n, 24\], found 2 dimensions, the last of 24 numbers, and 0 numbers in all$'
cp all.txt bare.txt
try "$search" bare.npy photos/a/rgb.png
is 1
err 'the model that made bare.npy is unknown'
try "$search" bare.npy photos/a/rgb.png -m $model
same "$work/out" one
try "$convert" "$fixtures/plain/model.safetensors" --dtype f16 -o half.vit
try "$search" all.npy -m half.vit photos/a/rgb.png
is 0
err 'half.vit: this is not the model that made all.npy, so cosines may be meaningless'
try "$search" all.npy damaged/b/bad.jpg photos/a/rgb.png
is 1
same "$work/out" one
try "$search" all.npy damaged/b/bad.jpg
is 1
err 'none of the photos to search for could be read'

# A list of queries gives the same result as queries on the command line. The test also covers
# comma-separated values.
printf '%s\n' photos/a/rgb.png photos/b/grey.jpg >two.txt
tr '\n' '\0' <two.txt >two.nul
try "$search" all.npy photos/a/rgb.png photos/b/grey.jpg
cp "$work/out" two
for options in '--list two.txt' '--list two.nul -0' 'photos/a/rgb.png --list rest.txt'; do
    tail -n 1 two.txt >rest.txt
    # shellcheck disable=SC2086 # words
    try "$search" all.npy $options
    is 0
    same "$work/out" two
done
# This index was made at another input size than the model's. vit-search takes the size from the
# index's .json file.
try "$convert" "$fixtures/plain/model.safetensors" -o sizes.vit --dynamic -q
try "$embed" -m sizes.vit --img-size 20 photos/a -o sizes.npy -q
try "$search" sizes.npy photos/a/rgb.png -k 1
out '^1.0000  photos/a/rgb.png$'
try "$search" sizes.npy photos/a/rgb.png -k 1 --img-size 12
out '^0\.[0-9]*  photos/a/rgb.png$'
try "$embed" -m sizes.vit --max-patches 12 photos/a -o sizes.npy -q
try "$search" sizes.npy photos/a/rgb.png -k 1
out '^1.0000  photos/a/rgb.png$'

# Tests photos that no longer exist. If the index's paths are relative to another folder than the
# current one, no photo counts as missing.
mv photos/b/grey.jpg kept.jpg
try "$search" all.npy photos/a/rgb.png
is 0
lines out 5
err '^vit-search: 1 of the 5 photos found no longer exist, such as photos/b/grey.jpg; run vit-embed again to update the index$'
try "$search" all.npy photos/a/rgb.png -q
quiet err
mv kept.jpg photos/b/grey.jpg
cd photos || exit 2
try "$search" ../all.npy a/rgb.png -m ../$model
quiet err
cd .. || exit 2
try "$search" all.npy photos/a/rgb.png -0
is 2
err '^vit-search: --null needs --list FILE'
try "$search" all.npy --csv --json photos/a/rgb.png
is 2
err '^vit-search: either --json or --csv, not both'
try "$search" all.npy --csv -k 2 photos/a/rgb.png
is 0
lines out 3
if [ "$(sed -n 1,2p "$work/out")" = "$(printf 'cosine,row,name\n%s,2,"photos/a/rgb.png"' \
    "$(sed -n '2s/,.*//p' "$work/out")")" ]; then pass; else fail csv; fi

# a contact sheet of the results
try "$search" all.npy photos/a/rgb.png --sheet sheet.png
is 0
lines out 5
if [ "$(head -c 4 sheet.png | tail -c 3)" = PNG ]; then pass; else fail "no PNG"; fi
for target in all.npy nosuch/sheet.png; do
    try "$search" all.npy photos/a/rgb.png --sheet $target
    is 1
    err "$target: (the output is an input|cannot be created)"
done

# --- search in a folder of shards ----------------------------------------------------------
# After: search

mkdir tars flat
for i in 0 1 2; do tar -cf tars/part-$i.tar --sort=name --exclude=.hidden --exclude=readme.txt photos; done
tar -rf tars/part-1.tar damaged/b/bad.jpg
for out in shards halves; do
    f16=
    [ $out = shards ] || f16=--f16
    # shellcheck disable=SC2086 # a word or none
    "$embed" -m $model --tar tars -o $out $f16 2>"$work/err"
    for i in 0 1 2; do # the bytes of one file with all rows
        dd if=$out/img_emb/img_emb_$i.npy bs=128 skip=1 status=none
    done >$out.rows
done
{ printf '\223NUMPY\1\0v\0' &&
    printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (15, 24), }"; } >whole.npy
cat shards.rows >>whole.npy
for i in 0 1 2; do sed "s|^photos|part-$i.tar/photos|" all.txt; done >whole.txt
hits() { grep -o '"\(name\|cosine\)": [^,}]*' "$work/out"; }
try "$search" whole.npy --vector theirs.npy --json
is 0
hits >whole.hits
for options in '-t 1' '-t 2' '-t 3' '-t 1 --int8' '-t 2 --int8' '-t 3 --int8'; do
    # shellcheck disable=SC2086 # words
    try "$search" shards --vector theirs.npy --json $options
    is 0
    quiet err
    json 15 vectors
    json 3 shards
    json 0 left_out
    same <(hits) whole.hits
    # shellcheck disable=SC2086 # words
    try "$search" halves --vector theirs.npy --json $options
    is 0
    hits >halves.hits
    [ -e first.halves ] || cp halves.hits first.halves
    same halves.hits first.halves
done
try "$search" shards photos/a/rgb.png -k 1 # by the model that the records name
is 0
out '^1.0000  part-0.tar/photos/a/rgb.png$'
try "$search" shards --vector theirs.npy -k 15 --json # bad.jpg has lines, but no vectors
is 0
# Int8 copies that are cut short, or older than their vectors, must be made again.
touch shards/img_emb/img_emb_1.npy
truncate -s -1 shards/img_emb/img_emb_2.i8
try "$search" shards --vector theirs.npy --json --int8
is 0
err 'img_emb_1.i8: the file does not match the .npy file; it is made again'
err 'img_emb_2.i8: the file does not match the .npy file; it is made again'
same <(hits) whole.hits
# A shard is written again during a search.
if posix; then
    mkfifo photo.png
    for option in '' --int8; do
        rm -rf anew
        cp -r shards anew
        "$search" anew photo.png $option >out 2>err &
        exec 3>photo.png # the shards are open
        sed 's/grey/gray/' anew/metadata/metadata_0.jsonl >anew/other
        mv anew/other anew/metadata/metadata_0.jsonl
        cat photos/a/rgb.png >&3
        exec 3>&-
        wait $!
        status=$?
        tried="search anew $option, of which the metadata are replaced"
        is 1
        err 'metadata_0.jsonl: the file was rewritten after the search began'
        quiet out
    done
    rm -r anew photo.png
fi
# Tests .npy files with a file of names, and files without names.
cp all.npy flat/a.npy
cp all.txt flat/a.txt
cp all.json flat/a.json
cp unit.npy flat/b.npy
cp unit.txt flat/b.txt
cp unit.json flat/b.json
try "$search" flat photos/a/rgb.png -k 2 --json
is 0
json photos/a/rgb.png nearest 1 name
rm flat/b.txt
try "$search" flat --vector theirs.npy -k 10
is 0
out 'flat/b.npy#4$'
lines='{"url": "u"}\n{"key": "k"}\n{"image_path": "p"}\n[]\n'
cp all.npy flat/img_emb_0.npy
cp all.json flat/img_emb_0.json
printf "$lines{}\n" >flat/metadata_0.jsonl # rows without names
try "$search" flat --vector theirs.npy -k 15
is 0
for name in 'flat/img_emb_0.npy#0' k p 'flat/img_emb_0.npy#3' 'flat/img_emb_0.npy#4'; do out "  $name$"; done
printf "$lines{\n" >flat/metadata_0.jsonl
try "$search" flat --vector theirs.npy -k 15
is 1
err 'flat/metadata_0.jsonl: line 5: JSON, byte '
rm flat/*_0.*
head -n 4 all.txt >flat/b.txt
try "$search" flat --vector theirs.npy -k 10
is 1
err 'flat/b.txt: has 4 lines for 5 vectors'
cp block.json flat/b.json # another layer
try "$search" flat --vector theirs.npy
is 1
err 'flat/b.npy: the file was made with another model, pooling or block than flat/a.npy'
cp logits5.npy flat/b.npy 2>/dev/null || "$embed" -m $model photos -o flat/b.npy --pool logits 2>"$work/err"
try "$search" flat --vector theirs.npy
is 1
err 'flat/b.npy: the file has vectors of 10 values; those of flat/a.npy have 24'
# Shards are missing or damaged.
damage() { # COMMAND MESSAGE: done to a copy
    rm -rf worse
    cp -r shards worse
    (cd worse && eval "$1")
    try "$search" worse --vector theirs.npy --json
    is 1
    err "$2"
    json 1 left_out
    json 2 shards
}
damage 'rm img_emb/img_emb_1.npy' 'img_emb_1.npy: '
damage 'rm metadata/metadata_1.jsonl' 'metadata_1.jsonl: '
damage 'truncate -s -4 img_emb/img_emb_1.npy' 'img_emb_1.npy: has [0-9]* bytes, expected [0-9]*; the shard is left out'
damage 'sed -i 1d metadata/metadata_1.jsonl' 'metadata_1.jsonl: has [0-9]* bytes, expected'
damage 'echo { >stats/stats_1.json' 'stats_1.json: '
damage 'rm stats/stats_2.json' 'img_emb_2.npy: the file has no record: .*; the shard is left out'
damage 'rm */*_1.*' 'worse: 1 is missing'
try "$search" empty --vector theirs.npy
is 1
err 'empty: the folder has no vectors: expected img_emb/img_emb_N.npy, or .npy files'
tar -cf none.tar -T /dev/null
"$embed" -m $model --tar none.tar -o none 2>"$work/err"
try "$search" none --vector theirs.npy
is 1
err 'none: the folder has no vectors: all its shards are empty$'
while IFS='|' read -r options message; do
    # shellcheck disable=SC2086 # words
    try "$search" $options
    is 1
    err "$message"
done <<'END'
shards --vector theirs.npy --sheet x.png|--sheet is for one INDEX.npy
shards --vector theirs.npy --names all.txt|--names is for one INDEX.npy
all.npy --vector theirs.npy --int8|--int8 is for a folder of shards; all.npy is not a folder
END

# near-duplicates
mkdir twins
cp photos/a/rgb.png twins/1.png
cp photos/a/rgb.png twins/2.png
cp photos/b/grey.jpg twins/3.jpg
cp photos/a/rgb.png twins/4.png
try "$embed" -m $model twins photos/b/grey.jpg -o twins.npy
try "$search" twins.npy --duplicates 0.99999
is 0
same "$work/out" <(printf '1.0000  %s\n' twins/1.png twins/2.png twins/4.png && echo &&
    printf '1.0000  %s\n' twins/3.jpg photos/b/grey.jpg)
try "$search" twins.npy --duplicates 0.99999 --json
json 3 groups 0 2 row
json photos/b/grey.jpg groups 1 1 name
try "$search" twins.npy --duplicates 0.99999 --csv
is 0
same <(sed -E 's/,(1|1\.0000[0-9]*|0\.99999[0-9]*),/,1,/' "$work/out") <(printf '%s\n' group,cosine,row,name \
    '0,1,0,"twins/1.png"' '0,1,1,"twins/2.png"' '0,1,3,"twins/4.png"' '1,1,2,"twins/3.jpg"' '1,1,4,"photos/b/grey.jpg"')
# The same photos, split into several indexes in a folder, give the same groups. Row numbers count
# within each file.
mkdir -p many
try "$embed" -m $model twins/1.png twins/2.png twins/3.jpg -o many/a.npy
try "$embed" -m $model twins/4.png photos/b/grey.jpg -o many/b.npy --f16
for options in -t\ 1 -t\ 2 -t\ 5; do
    # shellcheck disable=SC2086 # words
    try "$search" many --duplicates 0.999 $options
    is 0
    same "$work/out" <(printf '1.0000  %s\n' twins/1.png twins/2.png twins/4.png && echo &&
        printf '1.0000  %s\n' twins/3.jpg photos/b/grey.jpg)
done
try "$search" many --duplicates 0.999 --json
json many index
json 2 shards
json 0 groups 0 2 row
json many/b.npy groups 0 2 shard
json photos/b/grey.jpg groups 1 1 name
try "$search" many --duplicates 0.999 --csv
out '^0,[01][.0-9]*,0,"twins/4.png","many/b.npy"$'
lines out 6
try "$search" many twins/3.jpg -k 2
out '  twins/3.jpg$'
out '  photos/b/grey.jpg$'
try "$search" many --duplicates 0.9 --int8
usage '--int8 is for a search, not for --duplicates'
try "$search" all.npy --duplicates 1
out '^no pair has a cosine of 1 or more$'

# Tests classes from texts. Vectors of photos serve as the vectors of texts.
printf '%s\n' one two three four five >words
try "$search" -m $model --classes all.npy --class-names words photos/b/grey.jpg -k 2
is 0
lines out 2
out '^ *[0-9.]+ %  four$'
try "$search" -m $model --classes all.npy --class-names words photos/a/rgb.png photos/b/grey.jpg --json \
    --scale 1000
json 2 images 0 top 0 index
json four images 1 top 0 label
try "$search" -m $model --classes all.npy --class-names words photos/b/grey.jpg --sigmoid \
    --scale 10 --bias -10 -k 1
out '^ 50.0 %  four$' # the cosine is 1
try "$search" -m $model --classes all.npy --class-names words photos/a/rgb.png photos/b/grey.jpg -k 1
lines out 4

try "$search" -m $model --classes all.npy --class-names words photos/b/grey.jpg --csv -k 1
is 0
same <(sed 's/,0\.[0-9]*$/,P/' "$work/out") <(printf 'image,index,label,prob\n"photos/b/grey.jpg",3,"four",P\n')
try "$search" -m $model --classes all.npy --class-names words -k 1 photos/b
lines out 4 # the message names the images of a folder

# vit-classify gives the same classes as vit-search, with every form of output.
texts=(--classes all.npy --class-names words)
try "$search" -m $model "${texts[@]}" photos/a/rgb.png photos/b/grey.jpg -k 5
cp "$work/out" by_search
try "$classify" -m $model "${texts[@]}" photos/a/rgb.png photos/b/grey.jpg
is 0
quiet err
same "$work/out" by_search
try "$classify" "${texts[@]}" photos/b/grey.jpg -k 1 # all.json has the model
out '^ *[0-9.]+ %  four$'
try "$classify" "${texts[@]}" photos/b/grey.jpg -k 2 --json
is 0
json all.npy classes
json photos/b/grey.jpg image
json 2 top
json four top 0 label
json 3 top 0 index
json 100 top 0 logit
try "$classify" "${texts[@]}" photos/b/grey.jpg --sigmoid --scale 10 --bias -10 --json
json 0 top 0 logit
json 0.5 top 0 prob
try "$classify" "${texts[@]}" photos/b/grey.jpg --sigmoid --scale 10 --bias -10 --above 0.5
lines out 1
out '^ 50.0 %  four$'
try "$classify" "${texts[@]}" photos/b/grey.jpg --sigmoid --scale 10 --bias -20 --above 0.5
is 0
out 'no class reaches the probability of --above'
try "$classify" "${texts[@]}" nosuch.jpg photos/b/grey.jpg -k 1
is 1
err '^vit-classify: nosuch.jpg: cannot be opened'
out ' four$'
# The fifth text matches the first frame. The probabilities of two frames are averaged.
cat photos/b/rgb.ppm "$images/grey.pgm" >frames
probs() { # LINE: of the five classes, in order
    sed -n "$1p" "$work/out" | grep -o '"index":[ 0-9]*\|"prob":[ 0-9.e-]*' | tr -d ' ' | paste - - |
        sed 's/"index":\([0-9]*\).*"prob":/\1 /' | sort -n
}
try "$classify" "${texts[@]}" --frames auto frames
is 0
lines out 2
out '^     1  [ 0-9.]+ %  five$'
err '^vit-classify: 2 frames; '
try "$classify" "${texts[@]}" --frames auto frames --json -k 5
if [ "$(grep -c '"frame": [12], "classes": "all.npy"' "$work/out")" = 2 ]; then pass
else fail "not named in each line"; fi
probs 1 >frame1
probs 2 >frame2
try "$classify" "${texts[@]}" --frames auto frames --json -k 5 --smooth 2
same <(probs 1) frame1
paste frame1 frame2 <(probs 2) |
    awk '{ d = ($2 + $4) / 2 - $6; if (d > 1e-6 || d < -1e-6) bad = 1 } END { exit bad || NR != 5 }'
status=$?
is 0

# The head of this model is a projection into the space of texts, as in CLIP. The output of the head
# is compared with the texts.
try "$embed" -m $model photos -o logits5.npy --pool logits
is 0
shape logits5.npy '5, 10'
try "$run" -m $model "${each[@]}" --logits theirs10.npy
same logits5.npy theirs10.npy
mv logits5.json logits5.made
for how in described bare; do
    [ $how = bare ] || cp logits5.made logits5.json
    try "$classify" -m $model --classes logits5.npy --class-names words photos/b/grey.jpg -k 1 \
        --sigmoid --scale 10 --bias -10
    is 0
    quiet err
    out '^ 50.0 %  four$'
    try "$search" -m $model --classes logits5.npy --class-names words photos/b/grey.jpg -k 1 \
        --sigmoid --scale 10 --bias -10
    out '^ 50.0 %  four$'
    rm -f logits5.json
done
try "$search" -m $model logits5.npy photos/b/grey.jpg -k 1
out '^1.0000  photos/b/grey.jpg$'
# This model has no head, like SigLIP.
try "$convert" "$fixtures/headless/model.pth" -o bare.vit
try "$embed" -m bare.vit photos -o bare5.npy
try "$classify" --classes bare5.npy --class-names words photos/b/grey.jpg --json -k 1
json four top 0 label
try "$embed" -m bare.vit photos -o none.npy --pool logits
is 1
err 'the model has no head; --pool head gives'
try "$embed" -m $model photos -o none.npy --pool logits --block 0
is 1
err '--pool logits is the model.s output; for a block, choose cls, avg or tokens'
try "$classify" -m bare.vit photos/b/grey.jpg
is 1
err '^vit-classify: bare.vit: the model names no classes; give texts with --classes'
try "$classify" -m half.vit "${texts[@]}" photos/b/grey.jpg -k 1
is 0
err '^vit-classify: half.vit: this is not the model that made all.npy, so cosines may be meaningless$'
out ' four$'
# wrong input
while IFS='|' read -r options message; do
    # shellcheck disable=SC2086 # words
    try "$classify" $options
    usage "vit-classify: $message"
done <<'END'
--classes all.npy x.jpg|--classes TEXT.npy needs --class-names FILE, with a name for each vector
--class-names words x.jpg|--class-names needs --classes TEXT.npy
--scale 5 x.jpg|--scale and --bias need --classes
--sigmoid --bias 5 x.jpg|--scale and --bias need --classes
--classes all.npy --class-names words --bias 5 x.jpg|--bias needs --sigmoid
--classes all.npy --class-names words --sigmoid x.jpg|--sigmoid needs the model's --scale
--classes all.npy --class-names words|missing IMAGE
--classes all.npy --class-names words -k 1 --above 0 x.jpg|either --top or --above
--classes all.npy --class-names words --scale -1 x.jpg|--scale: expected a number from 0 to
END
head -n 4 words >four.words
cp words words.npy
for program in "$classify" "$search"; do
    while IFS='|' read -r options message; do
        # shellcheck disable=SC2086 # words
        try "$program" -m $model $options photos/b/grey.jpg
        is 1
        quiet out
        err "^${program##*/}: $message"
    done <<'END'
--classes nosuch.npy --class-names words|nosuch.npy: cannot be opened
--classes words.npy --class-names words|words.npy: 
--classes all.npy --class-names nosuch|nosuch: cannot be opened
--classes all.npy --class-names four.words|four.words: has 4 names for 5 vectors
--classes tokens.npy --class-names words|tokens.npy: expected vectors \[n, dim\], found 3
--classes bundled.npy --class-names bundled.txt|model.vit: the model makes vectors of 24 values and logits of 10; those of bundled.npy have 192
END
done

# wrong command lines and files
while IFS='|' read -r options message; do
    # shellcheck disable=SC2086 # words
    try "$search" $options
    usage "$message"
done <<'END'
|missing INDEX.npy
all.npy|missing PHOTO, --words TEXT, --list FILE or --vector FILE.npy
all.npy x.jpg --duplicates 0.9|--duplicates takes INDEX.npy or FOLDER alone
all.npy --vector x.npy --duplicates 0.9|--duplicates takes INDEX.npy or FOLDER alone
--classes all.npy x.jpg|--classes TEXT.npy needs --class-names FILE
--class-names words x.jpg|--class-names needs --classes TEXT.npy
--classes all.npy --class-names words|missing PHOTO
--classes all.npy --class-names words --duplicates 0.9 x.jpg|either --classes or --duplicates
--classes all.npy --class-names words --names words x.jpg|--names is for INDEX.npy
--classes all.npy --class-names words --vector v.npy x.jpg|--vector is for a search
all.npy x.jpg --sigmoid|--sigmoid needs --classes TEXT.npy
all.npy --duplicates 0.9 --sheet s.png|--sheet is for a search in INDEX.npy
all.npy x.jpg --scale 5|--scale and --bias need --classes
--classes all.npy --class-names words x.jpg --bias 5|--bias needs --sigmoid
--classes all.npy --class-names words x.jpg --sigmoid|--sigmoid needs the model's --scale
all.npy --duplicates 1.5|--duplicates: expected a number from -1 to 1, found '1.5'
all.npy x.jpg -k 0|-k: expected a whole number
END
head -n 4 all.txt >four.txt
head -c 400 all.npy >cut.npy
cp all.txt cut.txt
echo '{' >bad.json
cp all.npy bad.npy
cp all.txt bad.txt
echo '{"pool": "sum"}' >sum.json
cp all.npy sum.npy
cp all.txt sum.txt
try "$run" -m $model photos/a/rgb.png --logits logits.npy
while IFS='|' read -r options message; do
    # shellcheck disable=SC2086 # words
    try "$search" $options
    is 1
    err "^vit-search: .*$message"
done <<'END'
nosuch.npy x.jpg|nosuch.npy: cannot be opened
all.npy nosuch.jpg|nosuch.jpg: cannot be opened: No such file
all.npy --names four.txt photos|four.txt: has 4 names for 5 vectors
cut.npy photos|cut.npy: 480 bytes of elements expected, 272 found
tokens.npy photos|tokens.npy: expected vectors \[n, dim\], found 3 dimensions
bad.npy photos|bad.json:
sum.npy photos|sum.json: --pool: expected head
all.npy --vector logits.npy|logits.npy: expected an array \[24\] or \[n, 24\], found 2 dimensions, the last of 10
all.npy --vector tokens.npy|tokens.npy: expected
all.npy --pool tokens photos|model.vit: --pool tokens gives many vectors for a photo
all.npy --block 9 photos|--block: the model has blocks 0 to 1
bundled.npy -m model.vit photos|model.vit: the model makes vectors of 24 values and logits of 10; those of bundled.npy have 192
all.npy -m nosuch.vit photos|nosuch.vit: cannot be opened
END
try "$search" --help
is 0
for program in "$embed" "$search"; do
    try "$program" --help
    is 0
    out 'Exit status: 0'
    if awk 'length > 100 { bad = 1 } END { exit bad }' "$work/out"; then pass; else fail wide; fi
    try "$program" --jsno
    usage "unknown option '--jsno', did you mean '--json'"
    "$program" --help >/dev/full 2>"$work/err"
    status=$?
    is 1
done

# --- evaluate --knn -----------------------------------------------------------------------
# After: embed

mkdir -p train/cat train/dog train/unused test/cat test/dog
cp "$images/baseline.jpg" "$images/rgb.png" train/cat
cp "$images/grey.jpg" "$images/cmyk.jpg" train/dog
cp "$images/baseline.jpg" test/cat
cp "$images/grey.jpg" test/dog
try "$evaluate" -m $model --knn train test --neighbors 1
is 0
quiet err
out '^training images  4$'
out '^images           2$'
out '^  1-NN top-1     100.00 %  \(2\)$'
try "$evaluate" -m $model --knn train test -k 1 # elsewhere that is --top
is 2
err "unknown option '-k'"
try "$evaluate" -m $model --knn train test --limit 1
out '^training images  1$'
out '^images           1$'
try "$evaluate" -m $model --knn train test --json
is 0
json 20 neighbors
json 0.07 temperature
json 4 train_images
json 2 images
json 2 correct5
cp "$work/out" knn.json
for threads in 1 3; do
    try "$evaluate" -m $model --knn train test --json -t $threads
    same "$work/out" knn.json
done
try "$evaluate" -m $model --knn train test --json --limit 1
json 1 train_images
json 1 images
try "$convert" "$fixtures/headless/model.pth" -o headless.vit # no classes are needed
try "$evaluate" -m headless.vit --knn train test
is 0
cp damaged/b/bad.jpg test/dog
try "$evaluate" -m $model --knn train test --neighbors 1
is 1
out '^images           2  \(and 1 unreadable\)$'
err '^vit-evaluate: test/dog/bad.jpg: the file is not an image'
mkdir test/horse
try "$evaluate" -m $model --knn train test
is 1
err "test: folder horse is not in the training set"
try "$evaluate" -m $model --knn nosuch test
is 1
err 'nosuch: cannot be opened'
try "$evaluate" -m $model --knn empty test
is 1
err 'empty: the folder has no images in subfolders'
try "$evaluate" --neighbors 5 test
usage '--neighbors needs --knn TRAIN'
try "$evaluate" --knn train --confusion x.csv test
usage '--knn excludes --map, --confusion and --predictions'

# --- evaluate --probe ---------------------------------------------------------------------
# After: evaluate --knn

rm -r test/horse test/dog/bad.jpg
try "$evaluate" -m headless.vit --probe train test
is 0
quiet err
out '^training images  4$'
out '^linear top-1     [0-9.]+ %  \([0-9]\)$'
try "$evaluate" -m $model --probe train test --json
is 0
json 10 c
json 2 correct5
cp "$work/out" probe.json
for threads in 1 3; do
    try "$evaluate" -m $model --probe train test --json -t $threads
    same "$work/out" probe.json
done
try "$evaluate" --probe train --predictions x.csv test
usage '--probe excludes --map, --confusion and --predictions'
try "$evaluate" --probe train --neighbors 3 test
usage '--neighbors needs --knn TRAIN'

# --- evaluate --tags ----------------------------------------------------------------------
# After: evaluate --probe

for i in $(seq 0 9); do echo "label $i"; done >labels.txt
try "$convert" "$fixtures/plain/model.safetensors" --labels labels.txt -o labelled.vit
is 0
try "$convert" "$fixtures/plain/model.safetensors" --labels labels.txt \
    --set head_activation=sigmoid -o tagger.vit
is 0
printf '%s\n' path,tags 'cat/baseline.jpg,label_0 label_3' 'cat/rgb.png,"label 3;label 7"' \
    'dog/grey.jpg,' 'dog/cmyk.jpg,label_9 9 nosuch nosuch other' >tags.csv
try "$evaluate" -m tagger.vit --tags tags.csv train
is 0
lines err 2
err "^vit-evaluate: tags.csv: 'nosuch' is not a class of the model and is left out$"
out '^images          4$'
out '^classes         4 of 10 occur$'
out '^left out        2 tags that are not classes of the model; they occur 3 times$'
out '^mAP             [0-9.]+ %$'
out '^above 0.5$'
out '^  F1, macro     [0-9.]+ %$'
try "$evaluate" -m tagger.vit --tags tags.csv --json --predictions found.csv train
is 0
json 4 images
json 2 unknown_tags
json 3 dropped
json 0.5 above
json 4 occurring_classes
sed 's/"seconds": [0-9.]*//' "$work/out" >tags.json
cp found.csv first.csv
for threads in 1 3; do # the same from standard input, with a model whose file has no sigmoid
    "$evaluate" -m labelled.vit --sigmoid --tags - --json --predictions found.csv \
        train -t $threads <tags.csv 2>"$work/err" | sed 's/"seconds": [0-9.]*//; s/"tags": "-"/"tags": "tags.csv"/
            s/"model": "[^"]*"/"model": "tagger.vit"/' >again.json
    same again.json tags.json
    same found.csv first.csv
done
# Each score is equal to that of vit-classify. There are rows only for classes that are right, or
# were found, or both.
if [ "$(head -n 1 found.csv)" = path,class,label,true,found,score ]; then pass; else fail head; fi
try "$bin/tools/vit-classify" -m tagger.vit --json -k 10 train/cat/rgb.png
for i in $(seq 0 9); do
    index=$("$work/json_check" top "$i" index <"$work/out")
    row=$(grep "^\"train/cat/rgb.png\",$index,\"label $index\"," found.csv)
    score=$("$work/json_check" top "$i" prob <"$work/out")
    right=0 found=0
    if [ "$index" = 3 ] || [ "$index" = 7 ]; then right=1; fi
    if awk "BEGIN { exit !($score >= 0.5) }"; then found=1; fi
    expected=
    [ $right$found = 00 ] ||
        expected="\"train/cat/rgb.png\",$index,\"label $index\",$right,$found,$score"
    if [ "$row" = "$expected" ]; then pass; else fail "class $index: '$row', no '$expected'"; fi
done
try "$evaluate" -m tagger.vit --tags tags.csv --above 0 --json train
json 1 recall
try "$evaluate" -m tagger.vit --tags tags.csv --above 1 --json train
json 0 f1_micro
json 0 classes 0 found
try "$evaluate" -m tagger.vit --tags tags.csv --limit 2 --json train
json 2 images
json 0 dropped
echo 'gone.jpg,label_1' >>tags.csv
try "$evaluate" -m tagger.vit --tags tags.csv --json --predictions found.csv train
is 1
err '^vit-evaluate: train/gone.jpg: '
json 1 unreadable
json 4 occurring_classes
if grep -q gone found.csv; then fail "a score of a photo that is not there"; else pass; fi
try "$evaluate" -m $model --tags tags.csv train
is 1
err 'model.vit: the model gives each image one class \(softmax\), but --tags needs'
try "$evaluate" -m tagger.vit --tags nosuch.csv train
is 1
err 'nosuch.csv: cannot be opened'
echo cat >bad.csv
try "$evaluate" -m tagger.vit --tags bad.csv train
is 1
err "^vit-evaluate: bad.csv: line 1: expected 'PATH,TAGS' or 'PATH<tab>TAGS'$"
cp tags.csv kept.csv
try "$evaluate" -m tagger.vit --tags tags.csv --predictions tags.csv train
is 1
err 'is an input'
same tags.csv kept.csv
try "$evaluate" -m tagger.vit --tags tags.csv --predictions /dev/full train
is 1
err '/dev/full: cannot be written'
try "$evaluate" -m headless.vit --tags tags.csv train
is 1
err 'names no classes'
try "$evaluate" -m tagger.vit --json train # one class for each, by folders
is 1
err "cat: the name is not a class of the model"
mkdir -p 'alone/label 3'
cp "$images/rgb.png" 'alone/label 3'
try "$evaluate" -m tagger.vit --json alone
is 0
json null cross_entropy
try "$evaluate" -m tagger.vit alone
is 0
if grep -q cross-entropy "$work/out"; then fail "of a softmax that is not there"; else pass; fi
try "$evaluate" --tags tags.csv --knn train test
usage '--knn, --probe, --tags and --zero-shot exclude each other'
try "$evaluate" --tags tags.csv --confusion x.csv train
usage '--tags excludes --map and --confusion'
try "$evaluate" --above 0.5 train
usage '--above needs --tags FILE'
try "$evaluate" --knn train --sigmoid test
usage '--sigmoid excludes --knn and --probe, which compute no scores'

summary
