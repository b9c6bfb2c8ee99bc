#!/usr/bin/env bash
# Tests how programs use texts: the conversion of a text encoder with its tokenizer, classes and
# searches by texts, and every wrong input. The models have random weights (make_text.py), so the
# test checks that programs agree with each other.
#
#     BIN=. bash tests/test_words.sh
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=$root/${BIN:-.}
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
convert=$bin/tools/vit-convert classify=$bin/tools/vit-classify info=$bin/tools/vit-info
embed=$bin/tools/vit-embed search=$bin/tools/vit-search evaluate=$bin/tools/vit-evaluate
data=$root/tests/data/text

: >"$work/out"
: >"$work/err"
make_json_check
cd "$work" || exit 2
mkdir clip photos
cp "$data/hf_clip/model.safetensors" "$data/hf_clip/config.json" "$data"/tokenizer/* clip
cp "$root/examples/cat.jpg" photos/cat.jpg
cp "$root/examples/cat.ppm" photos/small.ppm

sections

# --- convert: the tokenizer --------------------------------------------------------------------

try "$convert" clip -o clip.vit
is 0
try "$info" --check clip.vit
is 0
out '^  input +9 tokens from a vocabulary of 522, causal attention$'
out '^  tokenizer +ok: [1-9][0-9]* of'
try "$info" --json clip.vit
json 522 text_encoder vocab_size
json 12 text_encoder dim
try "$convert" "$data/hf_siglip/model.safetensors" --tokenizer "$data/tokenizer" -o siglip.vit
is 0
try "$info" siglip.vit
out '^  probabilities +sigmoid\(7\.38906 x cosine-10\)$'
try "$convert" "$data/open_clip/model.safetensors" -o plain.vit
is 0
err 'no text encoder.*no tokenizer is beside the weights: expected tokenizer\.json'
try "$classify" -m plain.vit --classes "a, b" photos/cat.jpg
is 1
err 'plain\.vit: the model has no text encoder'
try "$convert" clip --tokenizer none -o none.vit
is 0
err 'dropped .* of a text tower'
try "$convert" clip --tokenizer missing -o new.vit
is 1
err 'missing'
missing new.vit
mkdir narrow
cp clip/* narrow
sed s/visual_projection/visual_projectiom/ clip/model.safetensors >narrow/model.safetensors
try "$convert" narrow --ignore visual_projectiom.weight --set num_classes=0 -o new.vit
is 1
err 'text: expected 8 values, like the embedding of an image, found 12'
missing new.vit
mkdir early
sed 's/"<|startoftext|>"/"<|endoftext|>_"/; s/"<|endoftext|>"/"<|startoftext|>"/; s/<|endoftext|>_/<|endoftext|>/' \
    clip/vocab.json >early/vocab.json
cp clip/merges.txt early
try "$convert" clip --tokenizer early -o new.vit
is 1
err 'early: the text encoder reads the token with the largest id, .* in token 521, but this tokenizer ends texts in token 520'
missing new.vit
mkdir large
printf '{"<|startoftext|>": 0, "<|endoftext|>": 99999}' >large/vocab.json
cp clip/merges.txt large
try "$convert" clip --tokenizer large -o new.vit
is 1
missing new.vit
cp clip.vit damaged.vit
printf X | dd of=damaged.vit bs=1 seek=$(($(wc -c <damaged.vit) - 70)) conv=notrunc 2>/dev/null
try "$info" --check damaged.vit
is 1

# --- embed: texts --------------------------------------------------------------------------
# After: convert

printf 'the cat\r\n\n  a dog \nin the cat\n' >texts.list
try "$embed" -m clip.vit --texts texts.list -o texts.npy
is 0
quiet err
out '^texts\.npy: 3 texts, 12 values each$'
printf 'the cat\na dog\nin the cat\n' >expected
same texts.txt expected
try "$embed" -m clip.vit --texts texts.list -o nowhere/texts.npy
is 1
err 'nowhere/texts\.npy'
try sh -c "'$embed' -m clip.vit --texts - -o piped.npy --json <texts.list"
is 0
json 3 texts
same texts.npy piped.npy
try "$embed" -m clip.vit --texts texts.list photos -o x.npy
is 2
try "$embed" -m clip.vit --texts texts.txt -o texts.npy
is 1
same texts.txt expected
: >empty
try "$embed" -m clip.vit --texts empty -o x.npy
is 1
err 'expected texts, found none'
missing x.npy
printf 'a\0b\n' >zero
try "$embed" -m clip.vit --texts zero -o x.npy
is 1
err 'NUL byte'

# --- classify: texts -----------------------------------------------------------------------
# After: convert

try "$classify" -m clip.vit --classes "the cat, a dog,in the cat" photos/cat.jpg
is 0
quiet err
lines out 3
cp "$work/out" by_texts
try "$embed" -m clip.vit --texts texts.list -o own.npy -q
scale=$("$info" --json clip.vit | sed 's/.*"logit_scale": \([0-9.]*\).*/\1/')
try "$classify" -m clip.vit --classes own.npy --class-names own.txt --scale "$scale" photos/cat.jpg
same "$work/out" by_texts
try "$classify" -m clip.vit --classes own.txt photos/cat.jpg
same "$work/out" by_texts
try "$classify" -m clip.vit --classes "The   CAT, A dog, In The cat" --json photos/cat.jpg
is 0
out '"label": "In The cat"'
try "$classify" -m clip.vit --classes "cat, dog" --template "the {} in" --json photos/cat.jpg
is 0
cp "$work/out" one
try "$classify" -m clip.vit --classes "cat, dog" --template "a {}" --json photos/cat.jpg
differ "$work/out" one
try "$classify" -m clip.vit --classes "cat, dog" --template "no gap" photos/cat.jpg
is 1
err 'expected \{\} in place of the class'
try "$classify" -m clip.vit --classes "cat, dog,cat" photos/cat.jpg
is 1
err "'cat' occurs twice"
try "$classify" -m clip.vit --classes " , " photos/cat.jpg
is 1
err 'expected texts, found none'
if posix; then # Windows has no arguments that are not UTF-8, and Wine converts some others
    try "$classify" -m clip.vit --classes $'cat,d\xffg' photos/cat.jpg
    is 1
    err 'byte 1 is not UTF-8'
    try "$classify" -m clip.vit --classes "cat, cafÃ©" photos/cat.jpg
    is 0
    err "^vit-classify: 'cafÃ©' looks like UTF-8 read as Windows-1252; the text is used unchanged\$"
fi
try "$classify" -m clip.vit --classes words.json photos/cat.jpg
is 1
err 'words\.json: .*No such file'
try "$classify" -m clip.vit --classes "é’s, 5 £, à la, MÃE, ñ…" photos/cat.jpg
is 0
quiet err
try "$classify" -m clip.vit --classes "cat,one two three four five six seven" photos/cat.jpg
is 0
err 'tokens too many: the model reads 9$'
try "$classify" -m siglip.vit --classes "cat, dog" photos/cat.jpg
is 0
try "$classify" -m clip.vit photos/cat.jpg
is 1
err 'give texts with --classes'
try "$classify" -m clip.vit --template "a {}" photos/cat.jpg
is 2

# --- search: words --------------------------------------------------------------------------
# After: convert

printf 'the cat\n' >text
try "$embed" -m clip.vit --texts text -o text.npy -q
try "$embed" -m clip.vit photos -o index.npy -q
is 0
try "$search" index.npy --words "the cat"
is 0
quiet err
lines out 2
cp "$work/out" found
try "$search" index.npy --vector text.npy
same "$work/out" found
try "$search" index.npy --words "the cat" --words "a dog" --minus "a dog" --json
is 0
json 2 vectors
try "$search" index.npy --words "the cat" photos/cat.jpg
is 0
lines out 2
try "$search" index.npy --minus "the cat"
is 0
if posix; then
    try "$search" index.npy --words $'\xc3'
    is 1
    err 'not UTF-8'
fi
try "$embed" -m none.vit photos -o other.npy -q
try "$search" other.npy --words "the cat"
is 1
err 'has no text encoder'
try "$search" index.npy --duplicates 0.9 --words x
is 2
try "$search" index.npy
is 2

# --- evaluate: the names of folders ------------------------------------------------------------
# After: convert

mkdir -p set/cat set/the_dog
cp photos/cat.jpg set/cat
cp photos/cat.jpg set/the_dog
try "$evaluate" -m clip.vit --zero-shot set
is 0
quiet err
out '^texts  top-1 +50\.00 %  \(1\)$'
try "$evaluate" -m clip.vit --zero-shot --template "a {}" --template "{} in" --json set
is 0
json 1 correct
json 2 correct5
try "$evaluate" -m none.vit --zero-shot set
is 1
err 'has no text encoder'
try "$evaluate" -m clip.vit --zero-shot --knn set set
is 2
try "$evaluate" -m clip.vit --template "a {}" set
is 2

# --- the bundled model, which learned words ----------------------------------------------------

try "$classify" --classes "a puppy, a kitten, an empty street" photos/cat.jpg
is 0
out '^ *9[0-9]\.[0-9] %  a kitten$'
try "$classify" --classes "a lorry, an animal, a cup of coffee" --template "a photo of {}" photos/cat.jpg
is 0
out '^ *9[0-9]\.[0-9] %  an animal$'
try "$classify" photos/cat.jpg
out '%  cat$'
try "$info" --check "$root/models/cifar10-vit.vit"
is 0
out '^  tokenizer +ok: 64 of 64'

# --- programs that write such a file again ------------------------------------------------------
# After: convert

try "$convert" clip.vit --to safetensors -o clip.safetensors
is 0
err '^vit-convert: clip\.vit: left out: the text encoder and its tokenizer$'
try "$convert" none.vit --to safetensors -o none.safetensors
quiet err
mkdir -p taught/cat taught/small
cp photos/cat.jpg taught/cat
cp photos/small.ppm taught/small
try "$bin/tools/vit-learn" -m "$root/models/cifar10-vit.vit" taught -o learned.vit -q
is 0
try "$info" --check learned.vit
is 0
out '^  tokenizer +ok: 64 of 64'
try "$classify" -m learned.vit --classes "a puppy, a kitten" photos/cat.jpg
is 0
out '%  a kitten$'

summary
