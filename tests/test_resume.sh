#!/usr/bin/env bash
# A finished index must always have the same bytes as one that an uninterrupted run makes: even
# after vit-embed was killed or stopped, after a full disk, after photos were added, changed,
# renamed or deleted, and with a damaged journal.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=$root/${BIN:-.}
images=$root/tests/data/images
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
embed=$bin/tools/vit-embed
tried=setup
: >"$work/out"
: >"$work/err"
make_json_check
cd "$work" || exit 2
"$bin/tools/vit-convert" "$root/tests/data/fixtures/plain/model.safetensors" -o other.vit >out 2>err || exit 1

# photo NUMBER FILE: makes a photo that depends on NUMBER
photo() {
    cat "$images/baseline.jpg" - <<<"$1" >"$2"
    touch -d "2020-01-01 $(printf %02d:%02d $(($1 / 60)) $(($1 % 60)))" "$2"
}
mkdir -p photos/a photos/b
for i in {100..199}; do photo "$i" "photos/a/$i.jpg"; done
for i in {300..349}; do photo "$i" "photos/b/$i.jpg"; done
kept() { # the photos, for tests that change them
    rm -rf set run.*
    cp -rp photos set
}
# reference: makes the index of the photos in `set` by a single run
reference() {
    rm -f one.*
    "$embed" "$@" set -o one.npy 2>err || fail "the reference"
    rm one.rows
}
# equal [NAME]: passes if the index equals that of `reference`
equal() {
    local suffix
    for suffix in npy txt json; do
        if cmp -s "one.$suffix" "${1-run}.$suffix"; then pass; else fail "$suffix differs"; fi
    done
    if [ -z "$(find . -name '*.tmp-*')" ]; then pass; else fail "temporary file left"; fi
}
# again COUNT [OPTION...]: passes if the next run computes COUNT images and gives the bytes of a
# single run
again() {
    local count=$1
    shift
    try "$embed" set -o run.npy --json "$@"
    is 0
    json "$count" computed
    equal
}

sections

# --- ended ----------------------------------------------------------------------------------

# kill -9 ends the run at random moments. No computed row may be lost.
kept
reference
killed=0 rows=0
for round in {1..60}; do
    "$embed" -t $((round % 2 + 1)) -b 1 -q set -o run.npy 2>err &
    sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
    { kill -9 $! && killed=$((killed + 1)); } 2>/dev/null
    wait $! 2>/dev/null
    [ -e run.npy ] && break
    size=$(stat -c %s run.rows 2>/dev/null || echo 0)
    if [ "$size" -ge $rows ]; then pass; else fail "the journal has become shorter"; fi
    rows=$size
done
rm -f ./*.tmp-* # killed runs leave these files
tried="killed $killed times"
if [ $killed -ge 3 ]; then pass; else fail "not killed often enough"; fi
[ -e run.npy ] || "$embed" -q set -o run.npy
equal
again 0
# Ctrl-C and the signals of batch systems end the run.
for signal in INT TERM HUP; do
    rm -f run.*
    stopped=
    for wait in 0.{1..9}; do
        try timeout --preserve-status -s $signal $wait "$embed" -t 1 -b 1 set -o run.npy
        grep -q 'stopped after' err && stopped=yes && break
        rm -f run.*
    done
    if [ "$stopped" ]; then pass; else fail "never stopped"; fi
    is $((128 + $(kill -l $signal)))
    err 'vit-embed: stopped after [0-9]+ of 150 images; the same command continues the run$'
    missing run.npy
    rows=$(sed -n 's/.*stopped after \([0-9]*\) of.*/\1/p' err)
    again $((150 - rows)) # exactly the missing rows
done

# --- changed --------------------------------------------------------------------------------

kept
reference
again 150
again 0
again 0 -t 2 -b 3
# There are new photos at the beginning and in the middle, and some photos are gone.
photo 500 set/a/000.jpg
photo 501 set/a/150a.jpg
reference
again 2
rm set/a/1[0-4]*.jpg
reference
again 0
# Deleted photos are restored. The journal drops the records of deleted photos when they outnumber
# the other records.
cp -p photos/a/1[0-4]*.jpg set/a
reference
again 0
rm -r set/a
reference
again 0
cp -rp photos/a set
reference
again 100
# A photo gets another modification time, but keeps its bytes. Then two photos get other bytes and
# other times, and one photo gets another size, but keeps its time.
touch set/b/310.jpg
reference
again 0
photo 511 set/b/311.jpg
photo 512 set/b/312.jpg
echo more >>set/b/313.jpg
touch -r photos/b/313.jpg set/b/313.jpg
reference
again 3
# This photo is damaged, but can be decoded. Each run must decode it again and report it.
printf x | dd of=set/b/314.jpg bs=1 seek=700 conv=notrunc status=none
reference
for _ in 1 2; do
    again 1
    err 'set/b/314.jpg: the image is damaged, and decoded nevertheless'
done
cp -p photos/b/314.jpg set/b
# Photos are renamed and copied, and the whole folder gets another path.
mv set/b/320.jpg set/b/001.jpg
cp set/b/321.jpg set/b/002.jpg
reference
again 0
cp -p run.rows moved.rows
try "$embed" "$work/set/b" ./set/a -o moved.npy --json
is 0
json 0 computed
rm run.*
try "$embed" "$work/set/b" ./set/a -o run.npy
same moved.npy run.npy
same moved.txt run.txt
# A link now leads to another photo.
ln -s ../b/330.jpg set/a/link.jpg
reference
again 0
ln -sf ../b/331.jpg set/a/link.jpg
reference
again 0
# With --f16, the same rows are rounded to f16.
reference --f16
again 0 --f16

# --- unreadable -----------------------------------------------------------------------------

kept
cp set/a/100.jpg kept.jpg
head -c 300 kept.jpg >set/a/100.jpg
try "$embed" set -o one.npy --json
is 1
json 149 images
json 1 unreadable
rm one.rows
for computed in 149 0; do
    try "$embed" set -o run.npy --json
    is 1
    err 'set/a/100.jpg: the image is truncated'
    json $computed computed
    json 1 unreadable
    equal
done
rm -r set/a/1[1-9]*.jpg set/b # now most rows of the journal are obsolete
for _ in 1 2; do
    try "$embed" set -o run.npy --json
    is 1
    json 0 computed
    json 9 images
    if [ "$(stat -c %s run.rows)" -lt 10000 ]; then pass; else fail "it keeps obsolete rows"; fi
done
cp kept.jpg set/a/100.jpg
reference
again 1
try "$embed" set/nosuch -o none.npy
is 1
missing none.rows
head -c 300 kept.jpg >bad.jpg
try "$embed" bad.jpg -o none.npy
is 1
missing none.rows

# --- other options --------------------------------------------------------------------------

kept
try "$embed" set/b -o run.npy
cp run.npy before.npy
while IFS='|' read -r options message; do
    # shellcheck disable=SC2086 # words
    try "$embed" set/b -o run.npy $options
    is 1
    err "^vit-embed: run.rows: the file was made with '$message': choose another -o, or --overwrite to start over$"
    same run.npy before.npy
done <<'END'
-m other.vit|model [0-9a-f]{16}.*', this run uses 'model [0-9a-f]{16}.*
--pool avg|pool head', this run uses 'pool avg
--normalize|.*', this run uses '.*normalized.*
--no-exif|.*', this run uses '.*no-exif.*
END
if [ "$(uname -m)" = x86_64 ] && grep -q ' fma ' /proc/cpuinfo; then
    try "$embed" set/b -o run.npy --isa sse2
    is 1
    err "run.rows: the file was made with '.*', this run uses '.*, without FMA'"
    try "$embed" set/b -o run.npy --isa avx2 --json
    json 0 computed
fi
try "$embed" set/b -o run.npy --overwrite --pool avg --json
is 0
json 50 computed
try "$embed" set/b -o run.npy --pool avg --json
is 0
json 0 computed
try "$embed" set/b -o run.npy --pool avg --overwrite --json
json 50 computed
try "$embed" --tar x.tar -o run.npy --overwrite
is 2

# --- the journal ----------------------------------------------------------------------------

# The journal is truncated, is followed by other bytes, or is damaged. vit-embed uses all complete
# records before the first defect.
kept
reference
again 150
size=$(stat -c %s run.rows) header=568
cp run.rows whole
for cut in 0 1 100 $((header - 1)) $header $((header + 1)) 700 $((size / 2)) $((size - 1)); do
    head -c "$cut" whole >run.rows
    again "$([ "$cut" -lt $header ] && echo 150 || echo $((150 - (cut - header) * 150 / (size - header))))"
done
cp whole run.rows
head -c 1000 "$images/baseline.jpg" >>run.rows
again 0
err 'run.rows: the file is damaged after 150 images; the rest is dropped'
again 0
quiet err
printf '\377' | dd of=run.rows bs=1 seek=$((size / 2)) conv=notrunc status=none
try "$embed" set -o run.npy --json
err 'run.rows: the file is damaged after 7[0-9] images; the rest is dropped'
equal
for other in whole.jpg zeros; do
    cp "$images/baseline.jpg" whole.jpg
    head -c 2000 /dev/zero >zeros
    cp $other run.rows
    try "$embed" set -o run.npy
    is 1
    err 'run.rows: the file is not from vit-embed, or its beginning is damaged: choose another -o, or '
    same run.rows $other
done
again 150 --overwrite
# Only one process at a time can write an index.
rm run.*
"$embed" -t 1 -b 1 -q set -o run.npy &
for _ in {1..1000}; do [ -s run.rows ] || sleep 0.01; done
try "$embed" -q set -o run.npy
if [ "$status" = 1 ]; then
    err 'run.rows: another process is writing this file: wait, or choose another -o'
else
    fail "it was not refused"
fi
wait
equal
# The disk is full, or no file can be created in the folder.
rm run.*
try prlimit --fsize=50000: bash -c "trap '' XFSZ; exec '$embed' -q set -o run.npy 2>&1 | cat"
out 'run.rows: cannot be written: File too large'
missing run.npy
try "$embed" set -o run.npy --json
json "$((150 - (50000 - header) * 150 / (size - header)))" computed
equal
try "$embed" set -o /proc/no/run.npy
is 1
err 'cannot be created'
# If the output is a device, there is no journal.
try "$embed" set/b -o /dev/null --names names
is 0
missing /dev/null.rows
rm -f /dev/null.json

summary
