#!/usr/bin/env bash
# Tests vit-learn end to end: it learns from folders and lists, adds photos and forgets classes. Its
# files must run in other programs. Every wrong input must be refused.
#
#     BIN=. bash tests/test_learning.sh
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=$root/${BIN:-.}
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
learn=$bin/tools/vit-learn classify=$bin/tools/vit-classify info=$bin/tools/vit-info
evaluate=$bin/tools/vit-evaluate convert=$bin/tools/vit-convert embed=$bin/tools/vit-embed
base=$root/models/cifar10-vit.vit

: >"$work/out"
: >"$work/err"
make_json_check
cd "$work" || exit 2

# photo FILE R G B SEED: makes a photo of 8 x 8 pixels whose colours are near R G B
photo() {
    mkdir -p "${1%/*}"
    awk -v r="$2" -v g="$3" -v b="$4" -v x="$5" 'BEGIN {
        printf "P6\n8 8\n255\n"
        for (i = 0; i < 192; i++) {
            x = (x * 16807 + 11) % 2147483647
            v = (i % 3 == 0 ? r : i % 3 == 1 ? g : b) + x % 61 - 30
            printf "%c", (v < 1 ? 1 : v > 255 ? 255 : v)
        }
    }' >"$1"
}
for i in 1 2 3 4 5 6; do
    photo set/red/$i.ppm 200 40 40 $i
    photo set/green/$i.ppm 40 180 40 1$i
    photo set/blue/$i.ppm 40 60 200 2$i
    photo more/blue/9$i.ppm 40 60 200 3$i
    photo more/grey/$i.ppm 120 120 120 4$i
    photo test/red/$i.ppm 200 40 40 5$i
    photo test/blue/$i.ppm 40 60 200 6$i
done
mkdir -p all
cp -r set/* all
cp -r more/* all

sections

# --- a folder -------------------------------------------------------------------------------

try "$learn" set -o mine.vit
is 0
quiet err
out '^photos +18 of 3 classes, 6 each$'
out '^right +100\.0 % \(\+-0\.0\) of 18 photos held out, in 10 folds$'
out '^none +0 of the photos held out'
out '^  0 blue +6 +0 +0 +0$'
out '^kept +7008 bytes for --add, 389 per photo'
try "$info" --check mine.vit
is 0
out 'self-test +ok'
out '^labels +4: "blue" \.\.\. "none of these"$'
out '^  learned: 18 photos of 3 classes, one class per photo$'
out '^  source: model.safetensors$'
try "$evaluate" -m mine.vit test
is 0
out '^top-1 +100\.00 %  \(12\)$'
try "$classify" -m mine.vit -k 1 test/red/1.ppm
is 0
out ' %  red$'
try "$learn" --known 0.5 set -o half.vit
out '^none +9 of the photos held out \(50\.0 %\) get the answer "none of these"; for 9 of these, the most likely other class is right$'
try "$learn" --known 1 set -o half.vit
try "$info" half.vit
out '^labels +3: '
# The bytes must not depend on the order and names of the photos, or on the number of runs.
try "$learn" -q -t 1 -b 1 set -o again.vit
is 0
quiet out
same mine.vit again.vit
mkdir -p parts/one parts/two
for class in red green blue; do
    mkdir -p parts/one/$class parts/two/$class
    for i in 1 2 3; do cp set/$class/$i.ppm parts/one/$class/z$i.ppm; done
    for i in 4 5 6; do cp set/$class/$i.ppm parts/two/$class/a$i.ppm; done
done
try "$learn" -q parts/two parts/one -o again.vit
same mine.vit again.vit
try "$learn" -q parts/two -o half.vit
try "$learn" -m half.vit --add parts/one -o again.vit
is 0
out '^ +9 of them learnt earlier$'
same mine.vit again.vit
try "$learn" -q parts/one -o other.vit
try "$learn" -q half.vit other.vit -o again.vit
same mine.vit again.vit
try "$learn" --json set -o again.vit
is 0
json 18 photos
json 1 top1
json blue classes 0
json 'none of these' classes 3
json 7008 kept_bytes
temperature=$("$work/json_check" temperature <"$work/out")
check "a temperature within its bounds, $temperature" \
    awk "BEGIN { exit !($temperature > 0.02 && $temperature < 50) }"

# --- later ----------------------------------------------------------------------------------
# After: a folder

try "$learn" -q all -o all.vit
try "$learn" -q -m mine.vit --add more -o again.vit
is 0
same all.vit again.vit
try "$learn" -q -m all.vit --forget grey --forget green -o less.vit
is 0
rm -r parts/one parts/two
mkdir parts/one
cp -r all/red all/blue parts/one
try "$learn" -q parts/one -o again.vit
same less.vit again.vit
try "$learn" -m all.vit set -o again.vit
is 0
out '^ +the classes that all.vit had learnt are left out; --add keeps them$'
same mine.vit again.vit
# The head of these models is wider than a tile of the kernels. The models are int8 and int4.
for dtype in int8 int4; do
    "$convert" "$root/tests/data/fixtures/plain/model.safetensors" --dtype $dtype -o b.vit >/dev/null 2>&1
    try "$learn" -m b.vit set -o q.vit
    is 0
    out '^right +'
    try "$info" --check q.vit
    is 0
done

# --- lists ----------------------------------------------------------------------------------

{
    echo path,labels
    for i in 1 2 3 4 5 6; do printf 'set/red/%s.ppm,red\nset/blue/%s.ppm,blue\n' $i $i; done
} >one.csv
try "$learn" -q one.csv -o again.vit
is 0
cp -r set parts/three
rm -r parts/three/green
try "$learn" -q parts/three -o expected.vit
same expected.vit again.vit
for i in 1 2 3 4 5 6; do
    printf 'set/red/%s.ppm,warm;deep red\nset/blue/%s.ppm,cold;deep blue\nset/green/%s.ppm,\n' $i $i $i
done >several.csv
try "$learn" several.csv -o several.vit
is 0
out '^photos +18 of 4 classes, 6 each$'
out '^found +mAP 100\.0 %, F1 100\.0 % at 0\.5, of 18 photos held out'
try "$info" several.vit
out '^labels +4: "cold" \.\.\. "warm"$'
out '^  learned: 18 photos of 4 classes, any number of classes per photo$'
try "$classify" -m several.vit --json test/red/1.ppm
is 0
try "$learn" -m several.vit --forget cold -o again.vit
is 0
out '^photos +18 of 3 classes, 6 each$'
try "$learn" -m expected.vit --add several.csv -o bad.vit
is 1
err '^vit-learn: several.csv: the list has photos of several classes or of no class; each photo learnt before'
try "$learn" several.vit expected.vit -o bad.vit
is 1
err '^vit-learn: expected.vit: this model has one class for each photo; the other models have any number of classes$'

# --- rows of vit-embed ----------------------------------------------------------------------

"$embed" -q set -o set.npy
try "$learn" set.npy -o again.vit
is 0
out '^photos +18 of 3 classes, 6 each$'
same mine.vit again.vit
"$embed" -q more -o more.npy
try "$learn" -q -m mine.vit --add more -o expected.vit
"$embed" -q -m mine.vit more -o more_mine.npy
try "$learn" -q -m mine.vit --add more_mine.npy -o again.vit
is 0
same expected.vit again.vit

# These classes are learnt in one pass, with two photos of each class held out.
for class in red green blue; do
    for i in 10 11 12 13 14 15 16 17 18 19 20 21 22 23; do
        case $class in red) photo many/red/$i.ppm 200 40 40 7$i ;;
        green) photo many/green/$i.ppm 40 180 40 8$i ;;
        *) photo many/blue/$i.ppm 40 60 200 9$i ;; esac
    done
    cp set/$class/* many/$class
done
"$embed" -q many -o many.npy
try "$learn" --ridge many.npy -o ridge.vit
is 0
quiet err
out '^photos +60 of 3 classes, 20 each$'
out '^right +100\.0 % \(\+-0\.0\) of 6 photos held out, in 1 fold$'
out '^kept +nothing for --add; covariance shrunk by 0\.1$'
try "$info" --check ridge.vit
is 0
out '^  learned: 60 photos of 3 classes, one class per photo, Gaussians with one covariance$'
try "$learn" -q -t 1 --ridge many.npy -o again.vit # any number of threads
same ridge.vit again.vit
try "$learn" --json --ridge --known 1 set.npy more.npy many.npy -o again.vit
is 0
json 90 photos
json 0.1 shrinkage
json 0 kept_bytes
try "$info" again.vit
out '^labels +4: "blue" \.\.\. "red"$'
try "$evaluate" -m again.vit test
out '^top-1 +100\.00 %  \(12\)$'

# --- one class ------------------------------------------------------------------------------

mkdir -p alone
cp -r set/red alone/mine
try "$learn" alone -o alone.vit
is 0
out '^alone +There is only one class: a photo belongs to the class if'
try "$classify" -m alone.vit -k 1 test/red/1.ppm
out ' %  mine$'
cp -r set/blue 'alone/none of these'
try "$learn" alone -o alone.vit
is 0
out '^photos +12 of 2 classes'
try "$info" alone.vit
out '^labels +2: "mine" \.\.\. "none of these"$'
try "$classify" -m alone.vit -k 1 test/red/1.ppm test/blue/1.ppm
out ' %  mine$'
out ' %  none of these$'

# --- a wrong label --------------------------------------------------------------------------

cp -r set wrong
mv wrong/red/6.ppm wrong/blue/r.ppm
try "$learn" wrong -o wrong.vit
is 0
out '^  wrong/blue/r.ppm: blue [0-9]+ %, red [0-9]+ %$'
try "$learn" --json wrong -o wrong.vit
json wrong/blue/r.ppm doubts 0 path
json red doubts 0 best
json '' doubts 1

# --- wrong input ----------------------------------------------------------------------------

echo before >kept.vit
refused() { # MESSAGE COMMAND...: passes if nothing is overwritten
    local message=$1
    shift
    try "$@" -o kept.vit
    is 1
    err "^vit-learn: $message"
    check "nothing is overwritten" [ "$(cat kept.vit)" = before ]
}
mkdir -p bad/a bad/b
photo bad/a/1.ppm 200 40 40 1
refused "class 'b' has no photo that can be read: add some, or remove its folder$" "$learn" bad
rmdir bad/b
refused 'one photo is too few to learn from' "$learn" bad
cp set/red/[12].ppm bad/a
mkdir bad/b
cp set/red/2.ppm bad/b/other.ppm
refused '1 photo occurs twice, in different classes: leave out one copy of each' "$learn" bad
refused 'bad/a/2.ppm \(a\) and bad/b/other.ppm \(b\) are the same photo$' "$learn" bad
cp set/blue/1.ppm bad/b/other.ppm
mkdir bad/B
refused "the classes '[bB]' and '[bB]' differ only in case, or" "$learn" bad
rmdir bad/B
cp bad/a/2.ppm bad/a/3.ppm
echo none >bad/b/broken.jpg
try "$learn" bad -o fine.vit
is 1
err '^vit-learn: bad/b/broken.jpg: '
out '^photos +3 of 2 classes, 1 to 2 each$'
out '^ +1 left out, because it was given twice$'
out '^ +1 unreadable and left out$'
out '^ +1 not held out: the only photo of a class is never held out$'
exists fine.vit
refused 'none.vit: cannot be opened' "$learn" -m none.vit set
refused "$base: the model has no learnt classes" "$learn" -m "$base" --add set
refused "$base: the model has learnt nothing: expected a file that vit-learn has written" "$learn" "$base"
refused "'violet' is not a learnt class$" "$learn" -m fine.vit --forget violet
refused 'there is no class left to learn$' "$learn" -m fine.vit --forget a --forget b
"$convert" "$root/tests/data/fixtures/plain/model.safetensors" -o other_base.vit >/dev/null 2>&1
refused 'fine.vit: the learnt embeddings are from backbone [0-9a-f]{16}, but this model has backbone [0-9a-f]{16}:' \
    "$learn" -m other_base.vit set fine.vit
: >list.csv
refused "list.csv: expected lines 'PATH,TAGS', found none" "$learn" list.csv
echo 'set/red/1.ppm,' >list.csv
refused "list.csv: the list names no class: expected lines 'PATH,CLASS'$" "$learn" list.csv
mkdir empty
refused 'empty: the folder has no images in subfolders; expected DIR/CLASS/IMAGE$' "$learn" empty
# These embeddings are from another model, or have no classes.
refused 'set.npy: the file has embeddings of another model, .*: embed the photos with the model of -m$' \
    "$learn" -m other_base.vit set.npy
refused 'many.npy: the file has embeddings of another model' "$learn" -m other_base.vit --ridge many.npy
"$embed" -q --normalize set -o unit.npy
refused "unit.npy: the vectors in the file are not inputs of the model's head: embed" "$learn" unit.npy
"$embed" -q --pool avg set -o avg.npy
refused "avg.npy: the vectors in the file are not inputs of the model's head: embed" "$learn" avg.npy
cp set.npy alone.npy
cp set.txt alone.txt
refused 'alone.npy: the file needs a .json file beside it, in which vit-embed names the model$' "$learn" alone.npy
cp set.json alone.json
sed 's|.*/||' set.txt >alone.txt
refused "alone.npy: '1.ppm' is in no folder; expected CLASS/PHOTO in each line of the .txt file$" \
    "$learn" alone.npy
sed 's|.*/|../|' set.txt >alone.txt
refused "alone.npy: '../1.ppm' is in no folder" "$learn" alone.npy
refused '--ridge holds out photos of classes with at least 10 photos, but no class has so many: omit --ridge$' \
    "$learn" --ridge set.npy
mkdir single
cp -r many/red single
"$embed" -q single -o single.npy
refused '--ridge needs photos of at least two classes; a single class can be learnt without --ridge$' "$learn" --ridge single.npy
sed 's|/red/|/BLUE/|' many.txt >twins.txt
cp many.npy twins.npy
cp many.json twins.json
refused "the classes 'blue' and 'BLUE' differ only in case, or" "$learn" --ridge twins.npy
refused "the classes '[bB].*' and '[bB].*' differ only in case, or" "$learn" twins.npy
try "$learn" --ridge set -o x.vit
is 2
err '^vit-learn: --ridge takes only files OUT.npy of vit-embed '
try "$learn" --ridge --folds 3 many.npy -o x.vit
is 2
err '^vit-learn: --ridge takes neither --add, --forget, --several nor --folds '
for name in set many; do # NaN in the last row
    cp $name.npy nan.npy
    cp $name.txt nan.txt
    cp $name.json nan.json
    printf '\0\0\300\177' | dd of=nan.npy bs=1 seek=$(($(wc -c <nan.npy) - 4)) conv=notrunc 2>/dev/null
    case $name in
    set) refused 'set/red/6.ppm: its embedding has the value -?nan at index 191; expected -65504 to 65504' "$learn" nan.npy ;;
    *) refused 'many/red/[0-9]+.ppm: its embedding has the value -?nan at index 191; expected -65504 to 65504' \
        "$learn" --ridge nan.npy ;;
    esac
done
# Every model has an embedding. If the model has no head, its output is the embedding.
"$convert" "$root/tests/data/fixtures/headless/model.pth" -o headless.vit >/dev/null 2>&1
try "$learn" -m headless.vit set -o fine.vit
is 0
refused 'set.txt: it has no .vit magic number$' "$learn" -m set.txt set
# This writes NaN into a weight that affects the embedding. A tensor's record begins with its name,
# and has its offset at byte 96.
place=$(grep -abo 'norm\.weight' "$base" | tail -n 1 | cut -d: -f1)
place=$(od -An -tu8 -j $((place + 96)) -N 8 "$base")
cp "$base" nan.vit
printf '\0\0\300\177' | dd of=nan.vit bs=1 seek=$((place)) conv=notrunc 2>/dev/null
refused "set: the model's outputs for set/blue/[1-6].ppm are NaN or infinite; vit-info --check names" "$learn" -m nan.vit set
try "$learn" set
is 2
err '^vit-learn: missing -o OUT.vit'
try "$learn" -o x.vit
is 2
err '^vit-learn: missing PHOTOS'
try "$learn" -m fine.vit --add -o x.vit
is 2
err '^vit-learn: --add needs PHOTOS'
try "$learn" --known 0.2 set -o x.vit
is 2

summary
