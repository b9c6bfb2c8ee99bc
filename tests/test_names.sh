#!/usr/bin/env bash
# Passes hostile names through every program and mode: labels, provenance, configurations and file
# names with control sequences. Also tests outputs whose path leads to an input under another name.
#
#     BIN=FOLDER tests/test_names.sh
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=$root/${BIN:-.}
data=$root/tests/data
plain=$data/fixtures/plain
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
run=$bin/tools/vit-run info=$bin/tools/vit-info convert=$bin/tools/vit-convert
classify=$bin/tools/vit-classify embed=$bin/tools/vit-embed search=$bin/tools/vit-search
evaluate=$bin/tools/vit-evaluate look=$bin/tools/vit-look

make_json_check
"${CC:-cc}" -std=c99 -O1 tests/hostile_model.c -lm -lpthread -o "$work/hostile" ||
    fail "hostile_model does not compile"
cd "$work" || exit 2

# --- control sequences ----------------------------------------------------------------------------

# Passes if the output contains only newlines, tabs and printable UTF-8, and if no newline in a name
# begins a line of the output.
shown() {
    local file
    for file in out err; do
        if iconv -f UTF-8 -t UTF-8 $file >/dev/null 2>&1 &&
            ! grep -aqP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c' $file &&
            ! grep -aqP '\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]' $file &&
            ! grep -aq '^9\.9999  forged' $file; then
            pass
        else
            fail "std$file is obeyed"
        fi
    done
}

# shows STATUS REGEX COMMAND...: passes if stdout or stderr matches
shows() {
    try "${@:3}"
    is "$1"
    shown
    if grep -Eq -- "$2" out err; then pass; else fail "nothing shows /$2/"; fi
}

bad=$'\e]0;t\a\e[31m\n9.9999  forged\n\r\b\x7f\x80\x9b\xff\xc2\x85\xc2\x9b\xd8\x9c\xe2\x80\x8e'
bad+=$'\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6'
mark='\\x1b\]0;t\\x07'
at=@@@@@@@@@@
for class in 0 1 2 3 4 5 6 7 8 9; do echo "$class$at$at$at$at$at$at"; done >labels.txt
check "a model" "$convert" -q "$plain/model.safetensors" --labels labels.txt \
    --ignore "x$at$at$at$at$at$at$at" -o marked.vit
./hostile marked.vit >evil.vit || fail "a hostile model"
mkdir -p "p/$bad" "t/$bad"
cp "$data/images/rgb.png" "p/$bad/$bad.png"
cp "$data/images/rgb.png" "p/$bad/grün.png"
cp "$data/images/baseline.jpg" p/plain.jpg
echo nothing >"p/$bad/z$bad.png"
cp evil.vit "$bad.vit"
photo=p/$bad/$bad.png broken=p/$bad/z$bad.png
model=$bad.vit

shows 0 "$mark" "$classify" -m "$model" "$photo" p/plain.jpg
shows 1 "$mark" "$classify" -m "$model" "$broken"
shows 1 "$mark" "$classify" -m "$model" "no$bad"
shows 2 "$mark" "$classify" "--no$bad"
shows 0 u001b "$classify" -m "$model" --json "$photo"
if "$work/json_check" image <out >json; then pass; else fail "no JSON"; fi
shows 0 x1b "$classify" -m "$model" --frames 4x4 <(head -c 96 /dev/zero)
shows 0 "$mark" "$run" -m "$model" "$photo" p/plain.jpg
shows 0 u001b "$run" -m "$model" --json "$photo"
shows 1 "$mark" "$run" -m "$model" "$broken"
shows 1 "$mark" "$run" -m "$model" "$photo" --logits "no$bad/x.npy"
shows 0 "$mark" "$info" --labels --tensors --check "$model"
shows 0 'option: --ignore x\\x1b' "$info" "$model"
shows 0 u001b "$info" --json --labels "$model"
shows 1 "$mark" "$info" --sha256 "no$bad" "$model"
shows 1 "$mark" "$embed" -m "$model" p -o "n$bad.npy" --names names
shows 1 unreadable "$embed" -m "$model" p -o n.npy --json
shows 0 "$mark" "$search" -m evil.vit n.npy "$photo"
shows 0 u001b "$search" -m evil.vit --json n.npy "$photo"
shows 0 "$mark" "$search" n.npy --duplicates 0.5
shows 0 u001b "$search" --json n.npy --duplicates 0.5
shows 1 "$mark" "$search" n.npy "no$bad"
shows 1 "$mark" "$search" n.npy "$photo" --sheet "no$bad/x.png"
if [ "$(wc -l <n.txt)" = 3 ]; then pass; else fail "a row of n.txt is forged"; fi
# This row of --json contains the exact name.
try "$search" -m evil.vit n.npy --json "$photo"
row=$("$work/json_check" nearest 0 row <out)
name=$(sed -n "$((row + 1))p" n.txt)
name=${name#\\}
if [ "$(printf %b "$name")" = "$photo" ] || [ "$name" = "p/$bad/grün.png" ] ||
    [ "$(printf %b "$name")" = "p/$bad/grün.png" ]; then pass; else fail "n.txt has another name"; fi
shows 1 "$mark" "$look" attention -m "$model" "$photo" "$broken" -o "no$bad/x.png"
shows 0 u001b "$look" attention -m "$model" "$photo" --json

# These folders have the names of classes. The test covers all tables. CSV keeps every byte of a
# name, in quotes if necessary.
mkdir -p e/3 "e/x$bad"
cp p/plain.jpg e/3
cp p/plain.jpg "e/x$bad"
printf '3\t3\n' >map
shows 1 'x\\x1b' "$evaluate" -m "$model" e
rm -r "e/x$bad"
cp p/plain.jpg "e/3/$bad.jpg"
shows 0 'x1b' "$evaluate" -m "$model" e --map map
shows 0 u001b "$evaluate" -m "$model" e --json --map map --predictions predictions.csv --confusion matrix.csv
if [ "$(grep -ac '^"e/3/.*' predictions.csv)" = 2 ]; then pass; else fail "rows of the CSV"; fi
shows 1 x1b "$evaluate" -m "$model" e --tags "no$bad"
printf 'plain.jpg,%s;3\n' "${bad//$'\n'/}" >tags.csv
shows 0 x1b "$evaluate" -m "$model" e/3 --sigmoid --tags tags.csv
shows 1 "$mark" "$evaluate" -m "$model" e --knn "no$bad"

# The columns of a table are aligned by the width of the characters on the screen.
for class in 0 1 2 3 4 5 6 7 8; do echo "größe中$class"; done >labels.txt
echo plain >>labels.txt
check "a model" "$convert" -q "$plain/model.safetensors" --labels labels.txt -o wide.vit
try "$evaluate" -m wide.vit e --map map
is 0
out '^  0 größe中0 {10}0 '
out '^  9 plain {13}0 '

# Tests hostile checkpoints, their configurations, and the names of their tensors.
sed "s/vit_fixture_plain/evil\\\\u001b[31m\\\\n9.9999  forged\\\\u009b\\\\u202e/" "$plain/config.json" \
    >"c$bad.json"
cp "$plain/model.safetensors" "m$bad.safetensors"
for options in '' --json --plan '--json --plan' --strict; do
    # shellcheck disable=SC2086 # words
    shows "$([ "$options" = --strict ] && echo 1 || echo 0)" '(x1b|u001b)' \
        "$convert" "m$bad.safetensors" --config "c$bad.json" -o "m$bad.vit" $options
done
shows 0 'x1b' "$info" "m$bad.vit"
shows 0 'x1b' "$convert" "m$bad.vit" --to safetensors -o "back$bad"
shows 0 'x1b' "$convert" "m$bad.vit" --c-array -o "array$bad.h"
shows 1 'x1b' "$convert" "no$bad" -o x.vit
shows 2 'x1b' "$convert" "$plain/model.safetensors" --set "no$bad=1" -o x.vit --json
rename=$'norm.weight=n\xc2\x9b\xe2\x80\xae\xe2\x80\xa8' # a name that a tensor may have
for options in '' --json --plan; do
    # shellcheck disable=SC2086 # words
    shows 1 'u009b' "$convert" "$plain/model.safetensors" --rename "$rename" -o x.vit $options
done
shows 1 '(x1b|safetensors)' "$convert" "$plain/model.safetensors" --rename "$bad=$bad" -o x.vit
for kind in match-input calibrate report match-folder labels config weights; do
    try "$convert" "$plain/model.safetensors" --dtype int8 --$kind "no$bad" -o x.vit
    shown
done
shows 1 "$mark" "$convert" "$plain/model.safetensors" --dtype int8 --calibrate "$broken" -o x.vit
shows 0 "$mark" "$convert" "$plain/model.safetensors" --dtype int8 --report p -o x.vit

# Tests shards: the names of members, of other files, and of the archive.
mkdir tar
control=${bad//./,} # a point separates the key and the kind of a member
bad=$'\x9b\xff\xc2\x9b\xe2\x80\xae' # which archives may have
cp "$photo" "tar/0$bad.png"
echo "$bad" >"tar/0$bad.txt"
echo nothing >"tar/1$bad.png"
echo other >"tar/2$bad.xyz"
echo refused >"tar/3$control.png"
(cd tar && tar --sort=name -cf "../part$bad-00000.tar" -- *)
shows 0 x9b "$embed" -m "$model" --tar "part$bad-00000.tar" -o "out$bad"
shows 0 x9b "$embed" -m evil.vit --tar "part$bad-00000.tar" -o OUT --json
shows 0 complete "$embed" --collect "out$bad"
shows 1 x9b "$embed" --collect "no$bad"
shows 0 u009b "$search" -m "$model" "out$bad" "$photo"
shows 0 u009b "$search" -m "$model" "out$bad" "$photo" --json

# --- no output is an input -------------------------------------------------------------------------

mkdir b
cd b || exit 2
: >../out
: >../err
mkdir -p p f/0 trace OUT
cp "$data/images/rgb.png" q.png
cp "$data/images/rgb.png" p/a.png
cp "$data/images/rgb.bmp" p/b.bmp
cp "$data/images/rgb.png" f/0/a.png
cp "$plain/model.safetensors" "$plain/config.json" "$plain/input.npy" "$plain/logits.npy" .
for class in 0 1 2 3 4 5 6 7 8 9; do echo "label $class"; done >labels.txt
echo p/a.png >list
ln -s q.png soft.png
printf '0\t0\n' >map
printf '0/a.png,label 0\n' >tags.csv
check "a model" "$convert" -q model.safetensors -o m.vit
check "an index" "$embed" -m m.vit p -o n.npy
tar -cf part-00000.tar -C p a.png
check "shards" "$embed" -m m.vit --tar part-00000.tar -o OUT
echo old >OUT/stats/stats_00000.json # is written again
rm OUT/img_emb/*.npy
ln part-00000.tar OUT/img_emb/img_emb_00000.npy
ln -s ../m.vit trace/norm.npy
ln q.png hard.png
ln -s p folder
cp n.npy v.npy
cp -a . ../kept

everything() { (cd "$1" && find . -type f -exec sha256sum {} + | sort -k 2; find . -type l | sort); }
everything . >../before

# keeps INPUT COMMAND...: passes if the command refuses an output that is the same file as INPUT.
# The output is the last word of the command. If INPUT is -, two outputs of the command are the same
# file
keeps() {
    local input=$1 output=${*: -1}
    shift
    tried=$*
    "$@" >../out 2>../err <"${stdin:-/dev/null}"
    status=$?
    case $status in 1 | 2) pass ;; *) fail "exit status $status" ;; esac
    if [ "$input" = - ]; then
        err 'is the same file as the output'
    elif [ "$input" = "$output" ]; then
        err "$output: the output is an input(, .*/$input)?: writing the output would destroy the input"
    else
        err "$output: the output is an input, (.*/)?$input: writing the output would destroy the input"
    fi
    everything . >../after
    if cmp -s ../before ../after; then pass; else
        fail "files changed"
        find . -delete 2>/dev/null
        cp -a ../kept/. .
    fi
}

for name in q.png ./q.png hard.png soft.png folder/../q.png; do
    keeps q.png "$search" n.npy q.png --sheet "$name"
    keeps q.png "$look" attention -m m.vit q.png -o "$name"
    keeps q.png "$look" attention -m m.vit q.png -o x.png --npy "$name"
    keeps q.png "$run" -m m.vit q.png --logits "$name"
    keeps q.png "$embed" -m m.vit q.png -o "$name"
    keeps q.png "$embed" -m m.vit q.png -o x.npy --names "$name"
    keeps q.png "$convert" model.safetensors --dtype int8 --calibrate q.png -o "$name"
    keeps q.png "$convert" model.safetensors --dtype int8 --report q.png -o "$name"
done
for option in logits embedding tokens attention block-tokens dump-input; do
    keeps q.png "$run" -m m.vit q.png --$option q.png
    keeps m.vit "$run" -m m.vit q.png --$option m.vit
    keeps input.npy "$run" -m m.vit --input input.npy --$option input.npy
done
keeps m.vit "$run" -m m.vit q.png --trace trace --tokens m.vit
for name in p/a.png n.txt n.json n.npy m.vit; do
    keeps "$name" "$search" n.npy q.png --sheet "$name"
done
keeps v.npy "$search" n.npy q.png --vector v.npy --sheet v.npy
keeps p/a.png "$embed" -m m.vit p -o p/a.png
keeps p/a.png "$embed" -m m.vit p -o x.npy --names p/a.png
keeps p/a.png "$embed" -m m.vit p -o x.npy --names folder/a.png
keeps p/a.png "$embed" -m m.vit --list list -o x.npy --names p/a.png
keeps list "$embed" -m m.vit --list list -o x.npy --names list
keeps m.vit "$embed" -m m.vit p -o m.vit
stdin=q.png keeps 'standard input' "$embed" -m m.vit - -o q.png
stdin=list keeps 'standard input' "$embed" -m m.vit --list - -o list
stdin=q.png keeps 'standard input' "$look" attention -m m.vit - -o soft.png
for option in confusion predictions; do
    for name in f/0/a.png map m.vit; do
        keeps "$name" "$evaluate" -m m.vit f --map map --$option "$name"
    done
done
for name in f/0/a.png tags.csv m.vit; do
    keeps "$name" "$evaluate" -m m.vit f --sigmoid --tags tags.csv --predictions "$name"
done
for name in p/a.png m.vit; do keeps "$name" "$look" tokens -m m.vit p -o "$name"; done
keeps m.vit "$look" filters -m m.vit -o m.vit
keeps m.vit "$look" positions --compare m.vit m.vit -o m.vit
keeps config.json "$convert" model.safetensors -o config.json
keeps labels.txt "$convert" model.safetensors --labels labels.txt -o labels.txt
for name in input.npy logits.npy; do
    keeps "$name" "$convert" model.safetensors --match-input input.npy --match-logits logits.npy \
        -o "$name"
done
keeps p/a.png "$convert" model.safetensors --dtype int8 --calibrate p -o p/a.png
keeps p/b.bmp "$convert" model.safetensors --dtype int8 --report p -o folder/b.bmp
keeps model.safetensors "$convert" model.safetensors -o ./model.safetensors
keeps m.vit "$convert" m.vit --to safetensors -o m.vit
keeps m.vit "$convert" m.vit --c-array -o ./m.vit

# Tests outputs whose names are known only during the run.
run_trace() { "$run" -m m.vit q.png --trace trace; }
tried='--trace into a folder with a link to the model'
run_trace >../out 2>../err </dev/null
status=$?
is 1
err 'trace/norm.npy: the output is an input, m.vit: writing the output would destroy the input'
rm -f trace/[!n]* trace/norm[!.]*
tried='--tar onto its archive'
"$embed" -m m.vit --tar part-00000.tar -o OUT >../out 2>../err </dev/null
status=$?
is 1
err 'img_emb_00000.npy: the output is an input, part-00000.tar: writing the output would destroy the input'
everything . >../after
same ../before ../after

# Tests two outputs that are the same file. This file exists before the run, or it does not exist
# yet.
for name in x ./x folder/../x; do
    keeps - "$embed" -m m.vit p -o x --names "$name"
    keeps - "$run" -m m.vit q.png --logits x --tokens "$name"
    keeps - "$look" attention -m m.vit q.png -o x --npy "$name"
    keeps - "$evaluate" -m m.vit f --confusion x --predictions "$name"
done
keeps - "$embed" -m m.vit p -o y.npy --names y.json
keeps - "$embed" -m m.vit p -o y.npy --names folder/../y.json
echo old >x
ln x y
cp -a x y ../kept
everything . >../before
keeps - "$embed" -m m.vit p -o x --names y
keeps - "$run" -m m.vit q.png --logits x --tokens y

# An output may replace a file that no option reads. Several outputs may be the same device.
tried='outputs of their own'
check "again" "$embed" -m m.vit p -o n.npy
check "again" "$run" -m m.vit q.png --logits x --trace t
check "again" "$run" -m m.vit q.png --logits x --trace t
check "devices" "$run" -m m.vit q.png --logits /dev/null --tokens /dev/null
check "again" "$convert" -q model.safetensors --dtype int8 --report p -o m8.vit
check "again" "$convert" -q model.safetensors --dtype int8 --report p -o m8.vit

summary
