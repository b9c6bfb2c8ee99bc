#!/usr/bin/env bash
# Tests vit-classify, vit-evaluate, vit-info and vit-run end to end, with options, files and pipes.
#
#     BIN=. bash tests/test_cli.sh
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

classify=$bin/tools/vit-classify evaluate=$bin/tools/vit-evaluate
info=$bin/tools/vit-info run=$bin/tools/vit-run convert=$bin/tools/vit-convert

# --- the framework ------------------------------------------------------------------------

# Passes for a wrong command line: status 2, and one line on stderr that begins with the program's
# name.
usage() {
    is 2
    quiet out
    lines err 1
    err "$1"
}

# --- the common input -------------------------------------------------------------------

tried=setup
: >"$work/out"
: >"$work/err"
make_json_check
printf '%s\n' 'n00000000 tabby, tabby cat' 'n00000001 dog' 'n00000002 Sports Car' \
    'n00000003 crane, bird' 'n00000004 crane, machine' 'n00000005 maillot' \
    'n00000006 maillot, tank suit' 'n00000007 "quoted" \ caf'$'\303\251' 'n00000008 eight_ball' \
    'n00000009 nine' >"$work/labels.txt"
model=$work/model.vit
try "$convert" "$fixtures/plain/model.safetensors" --labels "$work/labels.txt" -o "$model"
is 0
nameless=$work/nameless.vit headless=$work/headless.vit
try "$convert" "$fixtures/plain/model.safetensors" -o "$nameless"
is 0
try "$convert" "$fixtures/headless/model.pth" -o "$headless"
is 0
cat=$work/cat.jpg other=$work/other.png
cp "$images/baseline.jpg" "$cat"
cp "$images/rgb.png" "$other"
echo "not an image" >"$work/bad.jpg"
: >"$work/empty.png"
head -c 300 "$cat" >"$work/short.jpg"

sections

# --- options, the same everywhere ---------------------------------------------------------

for program in "$bin"/tools/vit-{bench,classify,convert,embed,evaluate,get,info,look,run,search}; do
    for command in '' $([[ $program != */vit-look ]] || echo attention tokens similarity positions filters); do
        try "$program" $command --help
        is 0
        if grep -qF '(null)' "$work/out"; then fail 'prints NULL'; else pass; fi
    done
done
for program in "$classify" "$evaluate" "$info" "$run"; do
    name=$(basename "$program")
    try "$program" --help
    is 0
    quiet err
    out "^usage: $name "
    out '--json'
    out 'Exit status: 0'
    if awk 'length > 100 { bad = 1 } END { exit bad }' "$work/out"; then pass; else fail wide; fi
    try "$program" -h
    is 0
    try "$program" x --nonsense --help
    is 0
    try "$program" --version
    is 0
    case $name in # programs for photos print the decoder of JPEGs
    vit-bench | vit-info) out "^$name \(vit\.h [0-9]+\.[0-9]+\.[0-9]+\)$" ;;
    *) out "^$name \(vit\.h [0-9]+\.[0-9]+\.[0-9]+; JPEGs by (libjpeg(-turbo)?|stb_image) [0-9.]+\)$" ;;
    esac
    try "$program" --nonsense
    usage "^$name: unknown option '--nonsense' \(try '$name --help'\)$"
    try "$program" --jsno
    usage "unknown option '--jsno', did you mean '--json'\?"
    try "$program" -Z
    usage "unknown option '-Z'"
    try "$program" --json=yes x
    usage "option '--json=yes' takes no value"
    try "$program" x --threads
    usage "option '--threads' needs a value: N"
    for bad in '' x 1x -1 257 99999999999999999999 ' 1' 0x10 1.5 \
        0000000000000000000000000000000000000000000000000000000000000001; do
        try "$program" --threads "$bad" x
        usage "--threads: expected a whole number from 0 to 256, found '$bad'"
    done
    try "$program"
    usage "^$name: missing "
    try "$program" --help
    "$program" --help >/dev/full 2>"$work/err"
    status=$?
    is 1
    err "^$name: standard output: (No space left on device|write failed)$" # lost before the end
done

# In all programs, the text of --help ends with the meaning of the exit status. The message about an
# unknown option contains --help and the name under which the program was called.
mkdir "$work/called"
for program in "$bin"/tools/vit-{bench,classify,convert,embed,evaluate,get,info,look,run,search}; do
    name=${program##*/}
    options=() # vit-look has options for each command
    [ "$name" != vit-look ] || options=(tokens)
    try "$program" "${options[@]}" --help
    is 0
    quiet err
    out '^Exit status: 0 on success, 1 if '
    if tail -n 2 "$work/out" | grep -q 'command'; then pass; else fail "--help ends otherwise"; fi
    if grep -q '@' "$work/out"; then fail "@ for the name"; else pass; fi
    try "$program" "${options[@]}" --nonsense
    usage "^$name.*: unknown option '--nonsense' \(try '$name.* --help'\)$"
    posix || continue
    ln -s "$program" "$work/called/my-${name#vit-}.exe"
    try "$work/called/my-${name#vit-}.exe" "${options[@]}" --help
    out "^usage: my-${name#vit-} "
    if grep -q "^ *$name \|[|'] *$name " "$work/out"; then fail "calls itself $name"; else pass; fi
    try "$work/called/my-${name#vit-}.exe" "${options[@]}" --nonsense
    usage "^my-${name#vit-}.*: unknown option '--nonsense' \(try 'my-${name#vit-}.* --help'\)$"
    for none in '' / $'\e[31m' "$(printf '%70s' x | tr ' ' x)"; do
        (exec -a "$none" "$program" --version) >"$work/out" 2>"$work/err"
        out "^$name \(vit\.h "
    done
done

# An option has the same letter in all programs. If it takes a value in one program, it takes a
# value in all programs. (Exceptions: --labels prints a model's labels in vit-info, and takes a file
# in vit-convert. --list prints models in vit-get, and takes a list of photos in other programs.)
: >"$work/rows"
for program in bench classify convert embed evaluate get info learn 'look '{attention,tokens,similarity,positions,filters} run search; do
    # shellcheck disable=SC2086 # words
    "$bin"/tools/vit-$program --help |
        awk -v program="${program% *}" '/^options:/ { here = 1 } /^$/ { here = 0 }
            here && match($0, /^  (-., |    )--[a-z0-9-]+/) {
                name = letter = substr($0, 3, RLENGTH - 2)
                sub(/.*--/, "", name)
                letter = letter ~ /^-/ ? substr(letter, 2, 1) : "."
                print name, letter (substr($0, 3 + RLENGTH - 2) ~ /^ [^ ]/ ? "=" : ""), program }' \
            >>"$work/rows"
done
different=$(awk '$1 != "labels" && $1 != "list" { if ($1 in seen && seen[$1] != $2) print $1; seen[$1] = $2 }' \
    "$work/rows")
if [ -z "$different" ]; then pass; else fail "differs between programs: $different"; fi
has() { # OPTION LETTER PROGRAMS: exactly these have the option
    local found
    found=$(awk -v name="$1" -v letter="$2" '$1 == name && $2 == letter { print $3 }' "$work/rows" |
        sort -u | tr '\n' ' ')
    if [ "$found" = "$3 " ]; then pass; else fail "--$1, -$2: $found, expected $3"; fi
}
has model m= 'bench classify embed evaluate learn look run search'
has threads t= 'bench classify embed evaluate info learn look run search'
has isa .= 'bench classify embed evaluate info learn look run search'
has batch b= 'bench classify embed evaluate learn run search'
has top k= 'classify run search'
has img-size .= 'classify convert embed evaluate look run search'
has list .= 'classify embed look run search'
has null 0 'classify embed look run search'
has decoder .= 'classify convert embed evaluate learn look run search'
has no-sandbox . 'classify convert embed evaluate learn look run search'
has max-pixels .= 'classify embed evaluate learn look run search'
has no-exif . 'classify embed evaluate learn look run search'
has json . 'bench classify convert embed evaluate get info learn look run search'
has csv . 'classify search'
has quiet q 'classify convert embed evaluate get learn search'
has block .= 'embed look run search'
has output o= 'convert embed get learn look'
has help h 'bench classify convert embed evaluate get info learn look run search'
has version . 'bench classify convert embed evaluate get info learn look run search'

# In all programs that take images, a folder or a list stands for the images in it.
mkdir -p "$work/tree/b"
cp "$cat" "$work/tree/b/two.jpg"
cp "$other" "$work/tree/one.png"
printf '%s\0' "$work/tree/b/two.jpg" "$work/tree/one.png" >"$work/tree.nul"
tr '\0' '\n' <"$work/tree.nul" >"$work/tree.txt"
sees() { # IMAGES COMMAND...: passes if --json or the lines have these names
    local expected=$1 found
    shift
    try "$@"
    is 0
    found=$(grep -aoE '"(image|name)": "[^"]*"|^[^ ].*(jpg|png)$' "$work/out" | grep -aoE '(one|two)\.(jpg|png)' | tr '\n' ' ')
    if [ "$found" = "$expected" ]; then pass; else fail "sees $found, expected $expected"; fi
}
for command in "classify -m $model" "run -m $model" "look tokens -m $model --npy $work/x.npy --json"; do
    for form in "$work/tree" "--list $work/tree.txt" "--list $work/tree.nul -0" \
        "$work/tree/one.png --list $work/tree.txt"; do
        expected="two.jpg one.png "
        case $form in *one.png*) expected="one.png $expected" ;; esac
        # shellcheck disable=SC2086 # words
        sees "$expected" "$bin"/tools/vit-$command $form
    done
    # shellcheck disable=SC2086 # words
    try "$bin"/tools/vit-$command -0 "$cat"
    usage '--null needs --list FILE'
    # shellcheck disable=SC2086 # words
    try "$bin"/tools/vit-$command --list "$work/nosuch.txt"
    is 1
    err 'nosuch.txt: cannot be opened: No such file or directory'
done

# Tests -q, and comma-separated values.
printf 'P6\n8 8\n255\n%0192d' 0 >"$work/one.ppm"
cat "$work/one.ppm" "$work/one.ppm" >"$work/two.ppms"
try "$classify" -m "$model" --frames auto "$work/two.ppms"
err '^vit-classify: 2 frames; '
cp "$work/out" "$work/frames"
try "$classify" -m "$model" --frames auto "$work/two.ppms" -q
is 0
quiet err
same "$work/out" "$work/frames"
try "$classify" -m "$model" --frames auto "$work/two.ppms" --csv
is 0
lines out 3
out '^frame,rank,index,label,prob,logit$'
out '^2,1,[0-9],".*",0\.[0-9]+,-?[0-9.]+$'
try "$classify" -m "$model" --csv -k 10 "$cat" "$other"
is 0
lines out 21
out '"""quoted"" \\ caf'
cut -d, -f1,2 "$work/out" | sed -n '2p;12p' >"$work/first"
same "$work/first" <(printf '"%s",1\n' "$cat" "$other")
try "$classify" -m "$nameless" --csv -k 1 "$cat"
out ',1,[0-9],"",0'
try "$classify" -m "$model" --csv --json "$cat"
usage 'either --json or --csv, not both'
# If there are many photos, each thread computes its own photos. If there are few photos, all
# threads compute each photo together. The number of threads and the size of batches change no
# result.
try "$classify" -m "$model" "$work/tree" "$cat" "$other"
is 0
cp "$work/out" "$work/all_of_them"
for option in '-b 1' '-b 3 -t 1' '-t 2' '-t 3 -b 2'; do
    # shellcheck disable=SC2086 # words
    try "$classify" -m "$model" $option "$work/tree" "$cat" "$other"
    is 0
    same "$work/out" "$work/all_of_them"
done
try "$classify" -m "$model" --frames auto -b 2 "$work/two.ppms"
usage '--frames takes one frame at a time and excludes --batch'
try "$classify" -m "$model" --frames auto --list "$work/tree.txt"
usage '--list is for images'

# Every program has the same message about a missing file.
gone="$work/gone.jpg: cannot be opened: No such file or directory$"
for command in "tools/vit-classify $work/gone.jpg" "tools/vit-embed -o $work/x.npy $work/gone.jpg" \
    "tools/vit-evaluate $work/gone.jpg" "tools/vit-evaluate --knn $work/gone.jpg $work" \
    "tools/vit-look tokens $work/gone.jpg -o $work/x.png" "tools/vit-search $work/gone.jpg $cat" \
    "tools/vit-search --classes $work/gone.jpg $cat" \
    "tools/vit-learn $work/gone.jpg -o $work/x.vit" \
    "tools/vit-learn -m $work/gone.jpg $work -o $work/x.vit" \
    "tools/vit-run -m $model $work/gone.jpg" "tools/vit-run -m $work/gone.jpg $cat" \
    "tools/vit-info $work/gone.jpg" "tools/vit-info --sha256 $(printf '%064d' 0) $work/gone.jpg" \
    "tools/vit-bench -m $work/gone.jpg" "tools/vit-convert $work/gone.jpg -o $work/x.vit" \
    "tools/vit-convert --c-array $work/gone.jpg -o $work/x.h" \
    "tools/vit-convert --to safetensors $work/gone.jpg -o $work/x.safetensors"; do
    # shellcheck disable=SC2086 # words
    try "$bin"/$command
    is 1
    err "$gone"
    lines err 1
done
for to in --c-array '--to safetensors'; do # prints only the reason, once
    # shellcheck disable=SC2086 # words
    try "$convert" $to "$work/empty.png" -o "$work/x"
    is 1
    err "^vit-convert: $work/empty.png: is empty$"
done

# Every program that runs a model takes --isa; all instruction sets with FMA give the same results.
mkdir -p "$work/isa/dog"
cp "$cat" "$work/isa/dog/dog.jpg"
for command in "classify $cat" "evaluate -b 3 $work/isa" "look tokens --npy - $cat"; do
    # shellcheck disable=SC2086 # words
    try "$bin"/tools/vit-$command -m "$model"
    is 0
    grep -av images/s "$work/out" >"$work/auto"
    # shellcheck disable=SC2086 # words
    try "$bin"/tools/vit-$command -m "$model" --isa scalar
    is 0
    grep -av images/s "$work/out" >"$work/scalar"
    same "$work/auto" "$work/scalar"
    # shellcheck disable=SC2086 # words
    try "$bin"/tools/vit-$command -m "$model" --isa sse
    usage "--isa: expected auto, scalar, .*, found 'sse'"
done
try "$classify" -m "$model" --isa scalar --json "$cat"
json scalar isa
for isa in auto scalar; do
    try "$bin/tools/vit-embed" -m "$model" -b 2 --isa $isa "$cat" -o "$work/$isa.npy"
    is 0
done
same "$work/auto.npy" "$work/scalar.npy"

# --- invalid models -----------------------------------------------------------------------

# opens FILE MESSAGE: passes if vit-info, run, evaluate, classify and bench refuse FILE with MESSAGE
opens() {
    local program
    for program in "$info $1" "$run -m $1 $root/examples/cat.ppm" "$evaluate -m $1 $work" \
        "$classify -m $1 $root/examples/cat.ppm" "$bin/tools/vit-bench -m $1"; do
        # shellcheck disable=SC2086 # words
        try $program
        is 1
        lines err 1
        err "$2"
    done
}
checkpoints=$root/tests/data/checkpoints
for name in zip legacy; do
    opens "$checkpoints/$name.pt" \
        "$name\.pt: the file is a PyTorch checkpoint; convert it first: vit-convert .* -o $name\.vit$"
done
opens "$checkpoints/small.safetensors" "is a safetensors checkpoint; .* -o small\.vit$"
opens "$root/tests/data/layouts/jax_map/model.npz" "is an \.npz of NumPy arrays; .* -o model\.vit$"
opens "$root/tests/data/layouts/gguf_clip/model.gguf" "is a GGUF file; .* -o model\.vit$"
opens "$work/nosuch.vit" 'nosuch\.vit: cannot be opened: No such file or directory$'
opens "$checkpoints" 'checkpoints: the path is a folder, not a \.vit file$'
opens "$root/README.md" 'README\.md: it has no \.vit magic number$'

# --- classify -----------------------------------------------------------------------------

try "$classify" -m "$model" "$cat"
is 0
quiet err
lines out 5
out '^ *[0-9]+\.[0-9] %  [a-z"S]'
cp "$work/out" "$work/five"
for count in '-k 3' -k3 --top=3 '--top 3'; do
    # shellcheck disable=SC2086 # words
    try "$classify" -m "$model" $count "$cat"
    is 0
    lines out 3
    head -n 3 "$work/five" >"$work/three"
    same "$work/out" "$work/three"
done
# If a model with a variable input size is resized by --img-size, it gives the same results as a
# model that was converted for this size.
dynamic=$work/dynamic.vit fixed=$work/fixed.vit
try "$convert" "$fixtures/dynamic/model.pth" -o "$dynamic" --set norm_eps=1e-6
is 0
try "$convert" "$fixtures/dynamic/model.pth" -o "$fixed" --set norm_eps=1e-6 --img-size 20x32
is 0
try "$classify" -m "$fixed" "$cat"
is 0
cp "$work/out" "$work/wide"
try "$classify" -m "$dynamic" --img-size 20x32 "$cat"
is 0
same "$work/out" "$work/wide"
try "$classify" -m "$model" --img-size 32 "$cat"
is 1
err "model.vit: --img-size: its input size is fixed"
try "$classify" -m "$dynamic" --img-size 3 "$cat"
is 1
err "dynamic.vit: --img-size: patch_size is larger than the image"
for bad in '' x 0 12x 12x0 16385 8x8x8 99999999999 0000000000000000000000000000000032; do
    try "$classify" --img-size "$bad" "$cat"
    usage "--img-size: expected N.HxW with sides from 1 to 16384, found '$bad'"
done
try "$classify" -m "$model" -k 100 "$cat"
is 0
lines out 10
# With --sigmoid, or if the file requires a sigmoid, the scores are independent and several classes
# may be right.
tagger=$work/tagger.vit
try "$convert" "$fixtures/plain/model.safetensors" -o "$tagger" --labels "$work/labels.txt" \
    --set head_activation=sigmoid
is 0
try "$info" "$tagger"
out '^  options .*any number of classes at once \(sigmoid\)'
try "$info" --json "$tagger"
json 1 config head_activation
try "$classify" -m "$tagger" --json -k 10 "$cat"
is 0
json 10 top
probs=()
for i in 0 1 2 3 4 5 6 7 8 9; do
    probs+=("$("$work/json_check" top $i prob <"$work/out")")
    logit=$("$work/json_check" top $i logit <"$work/out")
    if awk "BEGIN { d = ${probs[i]} - 1 / (1 + exp(-($logit))); exit !(d * d < 1e-13) }"; then pass
    else fail "${probs[i]} is not the sigmoid of $logit"; fi
done
try "$classify" -m "$tagger" -k 10 "$cat"
cp "$work/out" "$work/tags"
try "$classify" -m "$model" -k 10 --sigmoid "$cat"
same "$work/out" "$work/tags"
try "$classify" -m "$tagger" --above "$(awk "BEGIN { print (${probs[1]} + ${probs[2]}) / 2 }")" "$cat"
is 0
lines out 2
try "$classify" -m "$tagger" --above 0 "$cat"
same "$work/out" "$work/tags"
try "$classify" -m "$tagger" --above 1 "$cat"
is 0
out '^ +no class reaches the probability of --above$'
try "$classify" -m "$tagger" --above 1 --json "$cat"
json 0 top
try "$run" -m "$tagger" -k 10 "$cat"
same "$work/out" "$work/tags"
try "$classify" -m "$model" --above 0.2 -k 3 "$cat"
usage "vit-classify: either --top or --above, not both"
try "$classify" -m "$model" --above 1.5 "$cat"
usage "--above: expected a number from 0 to 1, found '1.5'"
try "$classify" -m "$model" -- "$cat"
same "$work/out" "$work/five"
for threads in 1 2 3; do
    try "$classify" -m "$model" -t $threads "$cat"
    same "$work/out" "$work/five"
done
try "$classify" -m "$nameless" -k 10 "$cat"
is 0
out '^ *[0-9.]+ %  class 9$'

# If one of several images cannot be read, it is reported, and the others are classified.
try "$classify" -m "$model" "$cat" "$other"
is 0
lines out 12
out "^$cat$"
out "^$other$"
for bad in bad.jpg empty.png short.jpg nosuch.png; do
    try "$classify" -m "$model" "$cat" "$work/$bad" "$other"
    is 1
    lines out 12
    lines err 1
    err "^vit-classify: $work/$bad: ((the file|the image|the archive) )?(is|cannot be) [a-z]"
done
try "$classify" -m "$model" "$work/bad.jpg"
is 1
quiet out
err 'is not an image of a supported format \(JPEG, PNG'
try "$classify" -m "$model" "$work/empty.png"
err 'is empty'
try "$classify" -m "$model" "$work/short.jpg"
err 'is truncated'
try "$classify" -m "$model" "$work/nosuch.png"
err 'cannot be opened: No such file or directory'
mkdir "$work/none"
try "$classify" -m "$model" "$work/none"
is 1
err 'none: the folder has no images in it$'
try "$classify" -m "$model" "$model"
is 1
err 'model\.vit: the file is a model, not an image; give a model with -m$'
# These formats are recognised, but the programs cannot decode them.
kind() { # BYTES WHAT PACKAGE COMMAND
    printf "$1" >"$work/photo"
    try "$classify" -m "$model" "$work/photo"
    is 1
    err "photo: the file is an? $2, which needs a command to decode it: apt install $3, then --decoder '$4',"
}
kind 'RIFF\x10\0\0\0WEBPVP8 ' 'WebP image' webp 'dwebp %i -o %o'
kind 'II*\0\x08\0\0\0\0\0' 'TIFF image' netpbm 'tifftopnm %i'
kind 'MM\0*\0\0\0\x08\0\0' 'TIFF image' netpbm 'tifftopnm %i'
for brand in heic heix hevc mif1 msf1; do
    kind '\0\0\0\x18ftyp'$brand'\0\0\0\0' 'HEI[CF] image' libheif-examples 'heif-convert %i %o'
done
kind '\0\0\0\x18ftypavif\0\0\0\0' 'AVIF image' libavif-bin 'avifdec %i %o'
# The limits of size are the same in every program that reads photos.
printf 'P5 12000 12000 255\n' >"$work/large.pgm"
try "$classify" -m "$model" "$work/large.pgm"
is 1
err 'is too large: found 12000 x 12000, limit 134217728 pixels'
if [ "${BIN:-.}" = . ]; then # not under a sanitizer
    head -c 144000000 /dev/zero >>"$work/large.pgm"
    try "$classify" -m "$model" --max-pixels 150 "$work/large.pgm"
    is 0
fi
mkdir -p "$work/large/dog"
{ printf 'P5 1001 1000 255\n'; head -c 1001000 /dev/zero; } >"$work/large/dog/a.pgm"
rm "$work/large.pgm"
for command in "$classify" "$run" "$evaluate" "$bin/tools/vit-embed -o $work/e.npy" \
    "$bin/tools/vit-look attention --json" "$bin/tools/vit-look tokens --json"; do
    read -r program rest <<<"$command"
    photo=$work/large/dog/a.pgm
    [ "$program" = "$evaluate" ] && photo=$work/large
    # shellcheck disable=SC2086 # words
    try "$program" $rest "$photo" -m "$model" --max-pixels 1
    is 1
    err 'a\.pgm: the image is too large: found 1001 x 1000, limit 1000000 pixels'
    # shellcheck disable=SC2086 # words
    try "$program" $rest "$photo" -m "$model" --max-pixels 2
    is 0
done
for options in '--max-pixels 1' '--max-pixels 2'; do
    # shellcheck disable=SC2086 # words
    try "$bin/tools/vit-search" "$work/e.npy" "$work/large/dog/a.pgm" $options
    if [ "$options" = '--max-pixels 2' ]; then is 0; else err 'limit 1000000 pixels'; fi
done
for wrong in 0 501 x; do
    try "$classify" --max-pixels $wrong "$cat"
    usage "--max-pixels: expected a whole number from 1 to 500, found '$wrong'"
done

# standard input
"$classify" -m "$model" - <"$cat" >"$work/out" 2>"$work/err"
same "$work/out" "$work/five"
"$classify" -m "$model" - "$other" - <"$cat" >"$work/out" 2>"$work/err"
status=$?
is 1
err '^vit-classify: -: is empty$'
lines out 12
cat "$cat" | "$classify" -m "$model" - >"$work/out" 2>"$work/err"
same "$work/out" "$work/five"
{ cat "$cat"; head -c 100000 /dev/zero; } | "$classify" -m "$model" - >"$work/out" 2>"$work/err"
same "$work/out" "$work/five"

# streams of frames
ppm=$images/rgb.ppm
feed() { # FILE OPTIONS...: classify reads it from a pipe
    local file=$1
    shift
    tried="$* <$file"
    cat "$file" | "$classify" -m "$model" "$@" >"$work/out" 2>"$work/err"
    status=$?
}
cat "$ppm" "$images/grey.pgm" "$ppm" >"$work/three.ppm"
feed "$work/three.ppm" -
is 1
quiet out
err '^vit-classify: -: more images follow the first; vit-classify --frames auto .* stream of frames$'
"$run" -m "$model" - <"$work/three.ppm" >"$work/out" 2>"$work/err"
status=$?
is 1
err '^vit-run: -: more images follow'
feed "$work/three.ppm" --frames auto
is 0
lines out 3
lines err 1
out '^     1   *[0-9.]+ %  '
out '^     3   *[0-9.]+ %  '
err '^vit-classify: 3 frames; [0-9.]+ a second; latency [0-9.]+ ms on average, [0-9.]+ ms at most$'
feed "$ppm" -k 1 -
sed 's/^/     1  /' "$work/out" >"$work/one"
feed "$work/three.ppm" --frames auto -
head -n 1 "$work/out" >"$work/first"
same "$work/one" "$work/first"
try "$classify" -m "$model" --frames auto "$work/three.ppm"
is 0
lines out 3
cat "$cat" "$images/progressive.jpg" "$images/exif6.jpg" "$cat" >"$work/four.mjpeg"
feed "$work/four.mjpeg" --frames auto --every 3
is 0
lines out 2
out '^     4 '
feed "$work/four.mjpeg" --frames auto --json -k 2
is 0
lines out 4
tail -n 1 "$work/out" >"$work/last" && cp "$work/last" "$work/out"
json 4 frame
json 2 top
for key in load forward latency; do
    if "$work/json_check" ms $key <"$work/out" >/dev/null; then pass; else fail "no $key"; fi
done
feed "$work/four.mjpeg" --frames auto --realtime
is 0
out '^     4 '
err '^vit-classify: [1-4] frames, [0-3] dropped; '
head -c -9 "$work/four.mjpeg" >"$work/cut.mjpeg"
for mode in --json --realtime; do
    feed "$work/cut.mjpeg" --frames auto $mode
    is 1
    err '^vit-classify: -: frame 4 is truncated: the stream ends after [0-9]+ bytes of a JPEG'
done
# A damaged frame is reported, and the other frames are classified.
{ cat "$ppm"; printf '\377\330\377\331'; cat "$ppm"; } >"$work/damaged"
feed "$work/damaged" --frames auto
is 1
lines out 2
err '^vit-classify: frame 2: the image is damaged'
err '2 frames, 1 unreadable'
feed /dev/null --frames auto
is 1
err '^vit-classify: -: has no frames$'
feed "$model" --frames auto
is 1
err 'frame 1 begins with the bytes 89 56: expected a JPEG, PGM or PPM image'
# Raw frames give the same answer as the same pixels in each lossless format.
size=$(head -n 2 "$ppm" | grep -Eao '[0-9]+ [0-9]+' | head -n 1)
wide=${size% *} high=${size#* }
tail -c $((3 * wide * high)) "$ppm" >"$work/rgb24"
feed "$work/rgb24" --frames "${wide}x$high"
is 0
same "$work/one" "$work/out"
feed "$work/rgb24" --frames "${wide}x$high" --pixels rgb24
same "$work/one" "$work/out"
turned=$(od -An -v -tx1 -w3 "$work/rgb24" | awk '{ printf "\\x%s\\x%s\\x%s", $3, $2, $1 }')
printf "$turned" >"$work/bgr24"
feed "$work/bgr24" --frames "${wide}x$high" --pixels bgr24
same "$work/one" "$work/out"
head -c 4096 /dev/zero >"$work/zero"
for pixels in gray yuyv nv12 rgb565 rgba bgra; do
    feed "$work/zero" --frames 16x8 --pixels $pixels
    lines out "$(awk -v p=$pixels 'BEGIN {
        split("gray 1 yuyv 2 nv12 1.5 rgb565 2 rgba 4 bgra 4", w)
        for (i = 1; w[i] != p;) i++
        print int(4096 / (128 * w[i + 1])) }')"
done
err 'vit-classify: 8 frames; '
feed "$work/zero" --frames 16x7
is 1
err 'frame 13 is truncated: the stream ends after 64 bytes of 336$'
# Each line contains all requested classes.
feed "$work/three.ppm" --frames auto -k 3
lines out 3
out '^     2 ( *[0-9.]+ %  [^;]*;){2} *[0-9.]+ %  [^;]*$'
"$classify" -m "$tagger" --frames auto --above 0 "$work/three.ppm" >"$work/tagged" 2>&1
feed "$work/three.ppm" --frames auto --above 0 --sigmoid
lines out 3
out '^     3 ( *[0-9.]+ %  [^;]*;){9} '
same <(head -n 3 "$work/tagged") "$work/out"
feed "$work/three.ppm" --frames auto --above 1
out '^     1 +no class reaches the probability of --above$'
# Smoothing changes neither the first frame nor a stream of equal frames.
cat "$ppm" "$ppm" "$ppm" >"$work/still"
feed "$work/still" --frames auto --smooth 2
is 0
same <(cut -c7- "$work/out" | sort -u) <(cut -c7- "$work/one")
cat "$ppm" "$cat" "$images/grey.pgm" >"$work/moving"
probs() { # FRAME: class and probability, by class
    sed -n "${1}p" "$work/out" | grep -o '"index":[ 0-9]*\|"prob":[ 0-9.e-]*' | tr -d ' ' |
        paste - - | sed 's/"index":\([0-9]*\).*"prob":/\1 /' | sort -n
}
feed "$work/moving" --frames auto --json -k 10
for i in 1 2 3; do probs $i >"$work/prob$i"; done
feed "$work/moving" --frames auto --json -k 10 --smooth 2
same <(probs 1) "$work/prob1"
for i in 2 3; do
    paste "$work/prob$((i - 1))" "$work/prob$i" <(probs $i) |
        awk '{ d = ($2 + $4) / 2 - $6; if (d > 1e-6 || d < -1e-6) bad = 1 }
             END { exit bad || NR != 10 }'
    status=$?
    is 0
done
first() { sed -n "${1}p" "$work/out" | "$work/json_check" top 0 prob; } # the most likely one
if [ "$(first 3)" = "$(probs 3 | sort -rgk2 | head -n 1 | cut -d' ' -f2)" ]; then pass
else fail "not sorted by the mean"; fi
# wrong command lines
for wrong in '--frames 0x4|--frames: expected auto, or WIDTHxHEIGHT' \
    '--frames x|--frames: expected' '--frames auto --pixels gray|--pixels needs a size' \
    '--frames auto a b|--frames reads one' \
    '--frames 4x4 --pixels rgb|--pixels: expected rgb24, bgr24' '--every 2 x|need --frames' \
    '--frames 5x4 --pixels yuyv|needs even sides' '--frames 4x5 --pixels nv12|needs even sides' \
    '--realtime x|need --frames' '--smooth 5 x|need --frames' '--pixels gray x|need --frames' \
    '--frames auto --smooth 0|--smooth: expected a whole number from 1 to 1000' \
    '-k 1|missing IMAGE' '--frames auto --above 0 -k 1|either --top or --above' \
    '--frames 4|--frames: expected auto' \
    '--frames auto --every 0|--every: expected a whole number from 1'; do
    # shellcheck disable=SC2086 # words
    try "$classify" -m "$model" ${wrong%%|*}
    usage "${wrong#*|}"
done
try "$classify" -m "$model" --frames auto "$work/nosuch"
is 1
err 'nosuch: cannot be opened: No such file'

# EXIF
try "$classify" -m "$model" --json "$images/exif6.jpg"
cut -d'"' -f5- "$work/out" | sed 's/"ms".*//' >"$work/turned"
try "$classify" -m "$model" --json --no-exif "$images/exif6.jpg"
cut -d'"' -f5- "$work/out" | sed 's/"ms".*//' >"$work/lying"
differ "$work/turned" "$work/lying"

# JSON
try "$classify" -m "$model" --json -k 10 "$cat"
is 0
lines out 1
json "$cat" image
json 10 top
"$work/json_check" isa <"$work/out" >/dev/null
status=$?
is 0
for i in 0 9; do
    for key in index label prob logit; do
        try "$classify" -m "$model" --json -k 10 "$cat"
        "$work/json_check" top $i $key <"$work/out" >/dev/null
        status=$?
        is 0
    done
done
for key in load forward; do
    if "$work/json_check" ms $key <"$work/out" >/dev/null; then pass; else fail "no $key"; fi
done
label=$("$work/json_check" top 0 label <"$work/out")
best=$(head -n 1 "$work/five" | sed 's/.*%  //')
if [ "$best" = "$label" ]; then pass; else fail "top label"; fi
out 'quoted\\" \\\\ caf'
try "$classify" -m "$nameless" --json "$cat"
json null top 0 label
if posix; then # only POSIX allows such names
    cp "$cat" "$work/a\"b\\c"$'\n'"d.jpg"
    try "$classify" -m "$model" --json "$work/a\"b\\c"$'\n'"d.jpg"
    is 0
    lines out 1
    json "$work/a\"b\\c"$'\n'"d.jpg" image
fi
try "$classify" -m "$model" "$work/no"$'\033'"[31m"$'\n\177'"file"
lines err 1
err '/no\\x1b\[31m\\n\\x7ffile: cannot be opened'
try "$classify" -m "$model" --json "$cat" "$work/bad.jpg" "$other"
is 1
lines out 2
while IFS= read -r line; do
    if printf '%s' "$line" | "$work/json_check" >/dev/null; then pass; else fail "bad JSON"; fi
done <"$work/out"

# The names of options may have any length. Their values may be attached or separate.
for unknown in --a-name-that-is-longer-than-all-of-the-known-ones -a-name-of-another-kind; do
    try "$classify" $unknown
    usage "unknown option '$unknown' \(try"
done
try "$info" -t 5x "$model"
usage "-t: expected a whole number from 0 to 256, found '5x'"
for bad in 1.x 1.5.5 . e ''; do
    try "$convert" x -o y --set "crop_pct=$bad"
    usage "--set crop_pct: expected a number, found \"$bad\""
done

# These models are invalid.
head -c 1000 "$model" >"$work/short.vit"
for bad in nosuch.vit cat.jpg empty.png short.vit; do
    try "$classify" -m "$work/$bad" "$cat"
    is 1
    quiet out
    lines err 1
    err "^vit-classify: $work/$bad: .{8}"
done
try "$classify" -m "$headless" "$cat"
is 1
err 'names no classes'

# Programs find the bundled model by the path of their own file, from any current folder.
mkdir -p "$work/tree/bin" "$work/tree/models" "$work/else" "$work/installed/bin" \
    "$work/installed/share/vit"
for tree in tree/models installed/share/vit; do
    rm -f "$work/found"
    cp "$classify" "$work/${tree%%/*}/bin/classify"
    posix || cp "$root/build/windows/tools/vit-classify.exe" "$work/${tree%%/*}/bin/"
    cp "$model" "$work/$tree/cifar10-vit.vit"
    (cd "$work/else" && "$work/${tree%%/*}/bin/classify" "$cat") >"$work/out" 2>"$work/err"
    same "$work/out" "$work/five"
done
rm "$work/tree/models/cifar10-vit.vit"
(cd "$work/else" && "$work/tree/bin/classify" "$cat") >"$work/out" 2>"$work/err"
status=$?
is 1
err 'bundled model was not found; give a model with -m'

# These programs cannot write their output, because the disk is full.
for pair in "$classify -m $model $cat" "$info $model" "$run -m $model $cat" \
    "$info --json $model"; do
    tried="$pair >/dev/full"
    # shellcheck disable=SC2086 # words
    $pair >/dev/full 2>"$work/err"
    status=$?
    is 1
    err 'standard output: (No space left on device|write failed)'
    tried="$pair, closed pipe"
    # shellcheck disable=SC2086 # words
    (trap '' PIPE; sleep 0.3; $pair 2>"$work/err"; echo $? >"$work/status") | true
    status=$(cat "$work/status")
    is 1
    err 'standard output: (Broken pipe|write failed|Invalid argument)' # the last is on Windows
done

# --- vit-info -----------------------------------------------------------------------------

try "$info" "$model"
is 0
quiet err
for word in architecture preprocessing parameters sizes labels synsets provenance 'bicubic' \
    '^  total +[0-9,]+$' '^  blocks ' '^runs on +[a-z0-9_-]+$'; do
    out "$word"
done
try "$info" --check "$model"
is 0
out 'checksums +ok'
out 'self-test +(ok|none)'
try "$info" --check --isa scalar --json "$model"
is 0
json scalar check isa
try "$info" --check --isa sse9 "$model"
usage "--isa: expected auto, scalar, .*, found 'sse9'"
try "$info" --tensors --labels "$model"
out '^  blocks\.1\.mlp\.fc2\.weight +f32 +panels .*\[24, 96\]$'
out '^      0  n00000000  tabby, tabby cat$'
try "$info" --json --check --tensors --labels "$model"
is 0
lines out 1
json "$model" file
json 10 config num_classes
json "$(grep -c '^  .*\[' <("$info" --tensors "$model"))" num_tensors
json "$("$work/json_check" check isa <"$work/out")" isa
json 10 labels
json 'tabby, tabby cat' labels 0
json n00000009 synsets 9
json ok check checksums
json ok check selftest
json blocks.0.norm1.weight tensors "$("$info" --tensors "$model" | sed -n '/^tensors/,$p' |
    grep -n '  blocks.0.norm1.weight ' | awk -F: '{ print $1 - 3 }')" name
try "$info" --json "$nameless" "$headless"
lines out 2
try "$info" "$nameless" "$root/models/cifar10-vit.vit"
is 0
out ' [0-9.]+ KB$'
out ' [0-9.]+ MB$'
printf '%s\n' a b c d e f g h i j >"$work/plain.txt"
untested=$work/untested.vit
try "$convert" "$fixtures/plain/model.safetensors" --labels "$work/plain.txt" -o "$untested" \
    --set selftest_tolerance=0
is 0
try "$info" --check --labels "$untested"
is 0
out 'self-test +none in this file$'
out '^      9  j$'
try "$info" --check --json "$untested"
is 0
json ok check checksums
json null check selftest
json null check error
try "$info" --json --labels "$untested"
json null synsets 0
try "$convert" "$fixtures/dist/model_legacy.pth" -o "$work/dist.vit"
try "$info" "$work/dist.vit"
out ', cls_token, dist_token$'
try "$info" "$model" "$work/nosuch.vit" "$nameless"
is 1
lines err 1
err '^vit-info: .*nosuch.vit: '
out "^$nameless$"

# If one bit of the last tensor is flipped, the model opens, but the check fails.
size=$(stat -c %s "$model")
cp "$model" "$work/flipped.vit"
at=$((size - 1200))
byte=$(dd if="$model" bs=1 skip=$at count=1 2>/dev/null | od -An -tu1 | tr -d ' ')
printf "\\$(printf %o $((byte ^ 64)))" |
    dd of="$work/flipped.vit" bs=1 seek=$at conv=notrunc 2>/dev/null
try "$info" "$work/flipped.vit"
is 0
try "$info" --check "$work/flipped.vit"
is 1
out 'checksums +WRONG: '
err 'the check failed'
try "$info" --check --json "$work/flipped.vit"
is 1
lines out 1
if "$work/json_check" <"$work/out" >/dev/null; then pass; else fail "bad JSON"; fi

# Here a byte in the expected outputs of the self-test is changed.
cp "$model" "$work/unexpected.vit"
printf '\177' | dd of="$work/unexpected.vit" bs=1 seek=$((size - 29)) conv=notrunc 2>/dev/null
try "$info" --check "$work/unexpected.vit"
is 1
out 'checksums +WRONG: selftest.logits'
out 'self-test +FAILED on [a-z0-9_-]+: error [0-9.e+-]+, tolerance 2e-05$'

try "$info" --labels "$nameless"
is 0
out '^      9  $'

# --sha256 takes the checksum of the file as a hash, or as a list of hashes and names.
sum=$(sha256sum <"$model" | cut -c1-64)
printf '%064d  other.vit\n%s *some/%s\n' 0 "$sum" "$(basename "$model")" >"$work/sums"
for given in "$sum" "$(tr a-f A-F <<<"$sum")" "$work/sums"; do
    try "$info" --sha256 "$given" "$model"
    is 0
    quiet err
done
cp "$work/flipped.vit" "$work/$(basename "$model")"
try "$info" --sha256 "$work/sums" "$work/$(basename "$model")"
is 1
quiet out
lines err 1
err "the file's SHA-256 is [0-9a-f]{64}, expected $sum"
try "$info" --sha256 "$work/sums" "$work/flipped.vit"
is 1
err 'sums: the list has no SHA-256 of flipped.vit'
try "$info" --sha256 "${sum%?}" "$model"
is 1
err 'cannot be opened'
try "$info" --sha256 "${sum%?}x" "$model"
is 1
err 'cannot be opened'
try "$info" --sha256 "$sum" "$work/nosuch.vit"
is 1
err 'nosuch.vit: cannot be opened: No such file'
name=$(basename "$model")
for line in "$sum" "$sum-$name" "$sum -$name" "${sum%?}  $name" "${sum%?}x  $name"; do
    echo "$line" >"$work/sums"
    try "$info" --sha256 "$work/sums" "$model"
    is 1
    err 'sums: the list has no SHA-256 of model.vit'
done
head -c 2200000 /dev/zero >"$work/sums"
try "$info" --sha256 "$work/sums" "$model"
is 1
err 'sums: the list has no SHA-256 of model.vit'

# --- vit-run ------------------------------------------------------------------------------
# After: classify

try "$run" -m "$model" "$cat"
is 0
same "$work/out" "$work/five"
try "$run" -m "$model" "$cat" "$other"
lines out 12
cp "$work/out" "$work/two"
try "$run" -m "$model" "$cat" "$other"
is 0
same "$work/out" "$work/two"
cd "$work" || exit 2
try "$run" -m "$model" "$cat" "$other" --dump-input x.npy --logits l.npy --embedding e.npy \
    --tokens t.npy --attention a.npy --json
is 0
json 2 batch
json 5 written
json x.npy written 0 file
json 12 written 0 shape 3
json 24 written 2 shape 1
json 10 written 3 shape 1
json 2 written 4 shape 1
json 10 written 4 shape 3
for file in x:2x3x12x12 l:2x10 e:2x24 t:2x10x24 a:2x2x10x10; do
    shape=$(head -c 128 "${file%%:*}.npy" | tr -d '\0' |
        sed -n "s/.*'shape': (\([0-9, ]*\)).*/\1/p" | sed 's/, /x/g')
    if [ "$shape" = "${file#*:}" ]; then pass; else fail "shape of $file is $shape"; fi
done
for options in '--batch 1' '--batch 2' '-t 1' '-t 3' '--isa scalar' '--isa auto' '--trace steps'; do
    # shellcheck disable=SC2086 # words
    try "$run" -m "$model" --input x.npy --logits l2.npy --attention a2.npy $options
    is 0
    quiet out
    same l.npy l2.npy
    same a.npy a2.npy
done
for name in patch_embed pos_embed blocks.0.norm1 blocks.1.attn.qkv blocks.1 norm head; do
    exists "steps/$name.npy"
done
same steps/head.npy l.npy
same steps/norm.npy t.npy
try "$run" -m "$model" --input x.npy --attention first.npy --block 0
is 0
differ first.npy a.npy
try "$run" -m "$model" --input x.npy --attention last.npy --block 1
same last.npy a.npy
# If several blocks are requested, the output has a header of the same size, and then the data of
# each block in turn.
for blocks in all 0,1 1,0; do
    try "$run" -m "$model" --input x.npy --attention a2.npy --block-tokens t2.npy --block "$blocks"
    is 0
    parts=(first.npy last.npy) tokens=(steps/blocks.0.npy steps/blocks.1.npy)
    if [ "$blocks" = 1,0 ]; then
        parts=(last.npy first.npy) tokens=(steps/blocks.1.npy steps/blocks.0.npy)
    fi
    same <(tail -c +129 a2.npy) <(for part in "${parts[@]}"; do tail -c +129 "$part"; done)
    same <(tail -c +129 t2.npy) <(for part in "${tokens[@]}"; do tail -c +129 "$part"; done)
done
if head -c 128 a2.npy | grep -aq "'shape': (2, 2, "; then pass; else fail "shape"; fi
try "$run" -m "$model" --input x.npy --block-tokens t2.npy
same t2.npy steps/blocks.1.npy
try "$run" -m "$model" --input x.npy --trace steps2
is 0
exists steps2/head.npy
try "$run" -m "$headless" --input x.npy --trace steps3 --embedding e2.npy
is 0
"$run" -m "$model" --input - --logits - <x.npy >"$work/out" 2>"$work/err"
same "$work/out" l.npy
"$run" -m "$model" --input - --logits l2.npy <x.npy >"$work/out" 2>"$work/err"
same l2.npy l.npy
try "$run" -m "$model" --input x.npy --json -k 2
json 2 top
json 2 top 1
try "$run" -m "$model" --input x.npy -k 1
out '^x.npy \[1\]$'
try "$run" -m "$nameless" --input x.npy -k 10
out '%  class 9$'
try "$run" -m "$nameless" --input x.npy --json
json null top 0 0 label
try "$run" -m "$model" "$images/exif6.jpg" --no-exif --dump-input lying.npy --json
is 0
json 1 written
if grep -q '"isa"' "$work/out"; then fail "nothing was run"; else pass; fi
try "$run" -m "$model" "$images/exif6.jpg" --dump-input turned.npy
differ lying.npy turned.npy

# as SHAPE BYTES: makes as.npy from x.npy, with SHAPE in the header and BYTES of the data
as() {
    head -c 128 x.npy | sed "s/'shape': ([0-9, ]*), }/'shape': $1, }/" | head -c 127 >as.npy
    printf '%*s\n' $((127 - $(stat -c %s as.npy))) '' >>as.npy
    tail -c +129 x.npy | head -c "$2" >>as.npy
}
as '(3, 12, 12)' 1728
try "$run" -m "$model" --input as.npy --logits one.npy
is 0
same <(tail -c 40 one.npy) <(tail -c 80 l.npy | head -c 40)
for shape in '0 (0, 3, 12, 12)' '0 (1000001, 3, 0, 12)' '1728 (3, 1, 12, 12)' \
    '1728 (2, 3, 6, 12)' '1728 (2, 3, 12, 6)' '1728 (432,)'; do
    as "${shape#* }" "${shape%% *}"
    try "$run" -m "$model" --input as.npy --logits z.npy
    is 1
    err '^vit-run: as.npy: expected shape '
    missing z.npy
done
mkdir -p blocked/norm.npy
try "$run" -m "$model" --input x.npy --trace blocked
is 1
lines err 1
err 'blocked/norm.npy: is a folder'
ln -s nowhere dangling
for folder in nosuch/steps dangling; do
    try "$run" -m "$model" --input x.npy --trace $folder
    is 1
    err "$folder: cannot be created: "
done
try "$run" -m nosuch.vit --input x.npy
is 1
err 'nosuch.vit: '
try "$convert" "$fixtures/chans4/model.pth" -o chans4.vit
try "$run" -m chans4.vit "$cat"
is 1
err "^vit-run: $cat: only models of 1 or 3 channels take images, found 4$"
try "$classify" -m chans4.vit "$cat"
is 1
err '^vit-classify: only models of 1 or 3 channels take images, found 4$'
mkdir -p numbered/0
cp "$cat" numbered/0
try "$evaluate" -m chans4.vit numbered
is 1
err '^vit-evaluate: only models of 1 or 3 channels take images, found 4$'

# wrong command lines
try "$run" -m "$model"
usage 'missing IMAGE or --input X.npy'
mkdir -p "$work/run/bin" "$work/run/models" # the bundled model
cp "$run" "$work/run/bin/vit-run"
posix || cp "$root/build/windows/tools/vit-run.exe" "$work/run/bin/"
cp "$model" "$work/run/models/cifar10-vit.vit"
try "$work/run/bin/vit-run" "$cat"
is 0
out ' %  '
try "$run" -m "$model" "$cat" --input x.npy
usage 'either images or --input'
try "$run" -m "$model" "$cat" --block 1
usage '--block needs --attention A.npy or --block-tokens T.npy'
for blocks in x -1 1, ,1 1,,0 0.5 1024 all,1 ''; do
    try "$run" -m "$model" "$cat" --attention z.npy --block="$blocks"
    usage '--block: expected a number from 0 on, several such as 0,5,11, or all'
done
try "$run" -m "$model" "$cat" --isa sse9
usage '--isa: expected auto, scalar'
try "$run" -m "$model" "$cat" --logits z.npy --tokens z.npy
usage 'is the same file as the output'
try "$run" -m "$model" --input x.npy more
usage 'either images or --input'

# vit-run refuses wrong files, and leaves no output behind.
try "$run" -m "$model" bad.jpg --logits z.npy
is 1
err 'bad.jpg: the file is not an image'
missing z.npy
try "$run" -m "$model" --input l.npy --logits z.npy
is 1
err 'l.npy: expected shape \[B, 3, 12, 12\] or \[3, 12, 12\], found \[2, 10\]'
head -c 500 x.npy >short.npy
try "$run" -m "$model" --input short.npy --logits z.npy
is 1
err 'short.npy: [0-9]+ bytes of elements expected, [0-9]+ found'
try "$run" -m "$model" --input "$cat" --logits z.npy
err 'not a .npy file'
try "$run" -m "$model" --input x.npy --attention z.npy --block 2
is 1
err 'has blocks 0 to 1; there is no --block 2'
try "$run" -m "$headless" --input x.npy --logits z.npy
is 1
err 'has no classes'
try "$run" -m "$headless" --input x.npy
is 1
missing z.npy
for target in /dev/full nosuch/z.npy steps; do
    try "$run" -m "$model" --input x.npy --logits $target
    is 1
    quiet out
    err "^vit-run: $target: (cannot be (written: No space left|created: No such file)|is a folder)"
done
try "$run" -m "$model" "$cat" "$cat" "$cat" --dump-input /dev/full   # the disk is full
is 1
err '^vit-run: /dev/full: cannot be written: No space left'
try "$run" -m "$model" --input x.npy --trace x.npy
is 1
err 'x.npy: cannot be created'

# An input is never overwritten, whatever name the output has.
cp x.npy kept.npy
cp "$model" kept.vit
cp "$cat" kept.jpg
ln x.npy hard.npy
ln -s "$model" soft.npy
for target in x.npy ./x.npy hard.npy "$model" soft.npy; do
    try "$run" -m "$model" --input x.npy --logits "$target"
    is 1
    err "^vit-run: $target: the output is an input(, [^:]*)?: writing the output would destroy the input"
done
try "$run" -m "$model" "$cat" --dump-input "$cat"
is 1
same x.npy kept.npy
same "$model" kept.vit
same "$cat" kept.jpg

# A link stays a link, and permissions stay. The output appears under its name only when it is
# complete.
echo old >real.npy
chmod 640 real.npy
ln -s real.npy link.npy
try "$run" -m "$model" --input x.npy --logits link.npy
is 0
if [ -L link.npy ]; then pass; else fail "link replaced"; fi
same real.npy l.npy
if ! posix || [ "$(stat -c %a real.npy)" = 640 ]; then pass; else fail "permissions changed"; fi
if ls -A | grep -q 'tmp-'; then fail "temporary file left"; else pass; fi

# --- evaluate -----------------------------------------------------------------------------
# After: classify
cd "$work" && cp "$model" kept.vit || exit 2

mkdir -p set/Tabby_Cat set/DOG set/n00000002 set/3 set/.hidden set/maillot
cp "$images/baseline.jpg" "$images/grey.jpg" "$images/rgb.png" set/Tabby_Cat
cp "$images/rgb.ppm" "$images/plain.gif" set/DOG
cp "$images/rgb.bmp" set/n00000002/UPPER.BMP
cp "$images/rgb.tga" set/3
cp "$images/cmyk.jpg" set/maillot
cp "$images/rgb.png" set/.hidden
echo "not an image" >set/DOG/readme.txt
echo "hidden" >set/DOG/.x.jpg
try "$evaluate" -m "$model" set
is 0
quiet err
out '^images +8$'
out '^top-1 +[0-9.]+ %  \([0-9]+\)$'
out '^top-5 '
out '^cross-entropy +[0-9.]+$'
out '^images/s '
out '^confusion '
try "$evaluate" -m "$model" --json set
is 0
lines out 1
json 8 images
json 0 unreadable
json 5 classes
json 0 classes 0 index
json 3 classes 0 images
json 3 classes 3 index
json 5 classes 4 index
for threads in 1 2 3 8; do
    try "$evaluate" -m "$model" --json -t $threads --confusion c$threads.csv \
        --predictions p$threads.csv set
    is 0
    sed 's/"seconds".*"images_per_second": [0-9.]*//' "$work/out" >"j$threads.json"
    same j$threads.json j1.json
    same c$threads.csv c1.csv
    same p$threads.csv p1.csv
done
if [ "$(wc -l <p1.csv)" = 9 ]; then pass; else fail "lines of predictions"; fi
if [ "$(head -n 1 p1.csv)" = path,true,true_label,predicted,predicted_label,prob ]; then pass; else fail "head line"; fi
if [ "$(sed -n 2p p1.csv | cut -d, -f1,2)" = '"set/3/rgb.tga",3' ]; then pass; else fail "order"; fi
if grep -Eq '^"set/maillot/cmyk.jpg",5,"maillot",[0-9],"[^,]+(, [a-z ]+)?",0\.[0-9]+$' p1.csv; then pass; else fail "maillot"; fi
# Each image is counted once in the matrix.
sum=$(tail -n +2 c1.csv | sed 's/^"\([^"]\|""\)*"//' | tr ',' '\n' |
    awk '{ s += $1 } END { print s }')
if [ "$sum" = 8 ]; then pass; else fail "matrix adds up to $sum"; fi
# vit-classify and vit-evaluate give the same class
best=$("$classify" -m "$model" --json set/DOG/rgb.ppm | "$work/json_check" top 0 index)
if grep -q "^\"set/DOG/rgb.ppm\",1,\"dog\",$best,\"" p1.csv; then pass; else fail "classify disagrees"; fi
try "$evaluate" -m "$model" --limit 4 --json set
json 4 images
try "$evaluate" -m "$model" --limit 100 --json set
json 8 images
try "$evaluate" -m "$model" --predictions - set
is 0
out '^"set/3/rgb.tga",3,'

# Images that cannot be read are reported and counted.
cp bad.jpg empty.png set/DOG
cp "$cat" set/DOG/photo.webp
try "$evaluate" -m "$model" --json --predictions p.csv set
is 1
lines err 2   # photo.webp is a JPEG by its content
err '^vit-evaluate: set/DOG/bad.jpg: the file is not an image'
err '^vit-evaluate: set/DOG/empty.png: is empty'
json 9 images
json 2 unreadable
if grep -q '^"set/DOG/empty.png",1,"dog",,,$' p.csv; then pass; else fail "unreadable prediction"; fi
try "$evaluate" -m "$model" set
is 1
out '^images +9  \(and 2 unreadable\)$'
rm set/DOG/bad.jpg set/DOG/empty.png set/DOG/photo.webp
mkdir only only/dog
cp bad.jpg only/dog
try "$evaluate" -m "$model" only
is 1
out '^top-1 +0.00 %  \(0\)$'

# These paths contain special characters, and only dog/cat.jpg counts as an image.
quoted='a "quoted", name' in_csv='"a ""quoted"", name/dog/cat.jpg"'
posix || quoted='a, name' in_csv='"a, name/dog/cat.jpg"'
mkdir "$quoted" "$quoted/dog" "$quoted/dog/folder.png"
cp "$cat" "$quoted/dog"
cp "$cat" "$quoted/dog/noimage"
cp "$cat" "$quoted/cat.jpg"
try "$evaluate" -m "$model" --no-exif --predictions - "$quoted"
is 0
out "^$in_csv,1,"

# One of these names is no class, and the other matches several. --map gives classes to both.
mkdir set/zebra set/crane
cp "$cat" set/zebra
try "$evaluate" -m "$model" set
is 1
quiet out
lines err 2
err "^vit-evaluate: zebra: the name is not a class of the model; map the folder in a file for --map"
err "^vit-evaluate: crane: the name matches several of the model's classes"
printf '# comment\n\nzebra\tcrane, bird\ncrane 4\r\n' >map.txt
try "$evaluate" -m "$model" --map map.txt --json set
is 0
json 9 images
json 2 classes 3 images
for bad in 'zebra' 'zebra horse' 'zebra 10' 'zebra crane' 'zebra -1'; do
    echo "$bad" >bad.txt
    try "$evaluate" -m "$model" --map bad.txt set
    is 1
    lines err 1
    err '^vit-evaluate: bad.txt: line 1: '
done
for i in $(seq 12); do mkdir -p "set/unknown $i"; done
try "$evaluate" -m "$model" set
is 1
err '^vit-evaluate: and 4 more folders like these$'
rmdir set/unknown*
printf 'zebra' >bad.txt
try "$evaluate" -m "$model" --map bad.txt set
err "^vit-evaluate: bad.txt: line 1: expected 'FOLDER CLASS'$"
printf '\v\n' >bad.txt
try "$evaluate" -m "$model" --map bad.txt set
err "^vit-evaluate: bad.txt: line 1: expected 'FOLDER CLASS'$"
printf '\tdog\n' >bad.txt
try "$evaluate" -m "$model" --map bad.txt set
err "^vit-evaluate: bad.txt: line 1: expected 'FOLDER CLASS'$"
printf '# nothing\n\n' >bad.txt
try "$evaluate" -m "$model" --map bad.txt set
is 1
err "^vit-evaluate: bad.txt: expected lines 'FOLDER<tab>CLASS', found none$"
try "$evaluate" -m "$model" --map . set
is 1
err '^vit-evaluate: .: cannot be (read|opened): Is a directory$'
try "$evaluate" -m "$model" --map nosuch.txt set
is 1
err 'nosuch.txt: cannot be opened'
rm -r set/zebra set/crane
try "$evaluate" -m "$nameless" set
is 1
err 'DOG: the name is not a class'
mkdir -p 'ball/EIGHT ball'
cp "$cat" ball/EIGHT*
ln -s nowhere ball/gone
try "$evaluate" -m "$model" --json ball
is 0
json 8 classes 0 index
deep=.$(printf "/$(printf 'd%.0s' {1..250})%.0s" {1..16})
mkdir -p "$deep"
(cd "$deep" && mkdir "$(printf 'd%.0s' {1..99})")
try "$evaluate" -m "$model" "$deep"   # contains a path that is too long for system calls
is 1
err 'has no images in subfolders'
mkdir numbers numbers/0 numbers/00007
cp "$cat" numbers/0
cp "$other" numbers/00007
try "$evaluate" -m "$nameless" --json numbers
is 0
json 7 classes 1 index
json null classes 1 label

# If there are too many classes for a table, the most frequent confusions are listed in order.
try "$convert" "$fixtures/classes21/model.safetensors" -o many.vit
mkdir folders
for i in $(seq 0 20); do
    mkdir "folders/$i"
    cp "$cat" "$other" "folders/$i"
done
cp "$cat" folders/20/again.jpg
try "$evaluate" -m many.vit folders
is 0
out '^most frequent confusions$'
sed -n '/^most/,$p' "$work/out" | awk 'NR > 1 { print $1 }' >counts
if [ "$(wc -l <counts)" -gt 5 ]; then pass; else fail "few confusions"; fi
same counts <(sort -rn counts)
rm -r folders/[2-9] folders/1?
try "$evaluate" -m many.vit folders
is 0

# The remaining tests of both programs follow.
for program in "$evaluate" "$classify"; do
    cp "$program" "$work/alone"
    posix || cp "$root/build/windows/tools/${program##*/}.exe" "$work"
    (cd "$work/else" && "$work/alone" "$work/set") >"$work/out" 2>"$work/err"
    status=$?
    is 1
    err 'bundled model was not found; give a model with -m'
done
try "$evaluate" -m nosuch.vit set
is 1
err 'nosuch.vit: '
try "$evaluate" -m "$model" nosuch
is 1
err 'nosuch: cannot be opened'
mkdir nothing nothing/dog
try "$evaluate" -m "$model" nothing
is 1
err 'expected DIR/CLASS/IMAGE'
try "$evaluate" -m "$headless" set
is 1
try "$evaluate" -m "$model" set set
usage "unexpected 'set'"
try "$evaluate" -m "$model" --confusion "$model" set
is 1
err 'is an input'
same "$model" kept.vit
try "$evaluate" -m "$model" --confusion /dev/full set
is 1
err '/dev/full: cannot be written: No space left'

# The progress bar appears only on a terminal, and is erased at the end.
mkdir many many/dog
for i in $(seq 40); do cp "$root/examples/cat.jpg" "many/dog/$i.jpg"; done
try "$evaluate" -m "$model" -t 1 many
is 0
quiet err
if terminal "the bar of a terminal"; then
    TERM=xterm script -qec "'$evaluate' -m '$model' -t 1 many >/dev/null" /dev/null \
        >"$work/out" 2>/dev/null </dev/null
    if grep -q 'evaluate \[#*\.*\]' "$work/out"; then
        pass
        if tail -c 8 "$work/out" | grep -q $'\r\033\[K'; then pass; else fail "bar stays"; fi
    fi   # a fast machine needs no bar, which comes after a tenth of a second
fi

summary
