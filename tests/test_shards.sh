#!/usr/bin/env bash
# Tests vit-embed --collect, and vit-embed --tar end to end: valid, damaged, hostile and missing
# shards, killed tasks, and full disks.
#
#     BIN=. bash tests/test_shards.sh
#
# may be called from any folder; BIN, relative to the repository, is the folder that contains
# examples/. KILLS=100 kills more often.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
embed=$root/${BIN:-.}/tools/vit-embed convert=$root/${BIN:-.}/tools/vit-convert
images=$root/tests/data/images
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_STEP_ID \
    SLURM_STEP_NUM_TASKS SLURM_ARRAY_TASK_ID PARALLEL_SEQ

has() { if grep -Fq -- "$2" "$1"; then pass; else fail "$1 lacks $2: $(head -c 600 "$1")"; fi; }
usage() { # MESSAGE: passes if a wrong command line gives this message
    is 2
    err "$1.* \(try 'vit-embed --help'\)$"
}
# Compares the vectors and the metadata of two outputs. Both must have the same files.
same_output() {
    local kind
    for kind in img_emb metadata; do
        if diff -rq "$1/$kind" "$2/$kind" >"$work/err"; then pass; else fail "$1/$kind and $2/$kind"; fi
    done
}
numbers() { find "$1/stats" -name 'stats_*.json' | sed 's/.*stats_//; s/.json//' | sort | xargs; }
pack() { tar --sort=name --owner=0 --group=0 --mtime=@0 -cf "$1" -C "$2" "${@:3}"; } # TAR FOLDER NAME...

: >"$work/out"
: >"$work/err"
cd "$work" || exit 2
mkdir in models
ln -s "$root/models/cifar10-vit.vit" models # where every build finds it
for i in 0 1 2 3 4 5; do # six shards, each of three photos and a file that is none
    mkdir s$i
    cp "$images/baseline.jpg" s$i/000$i.jpg
    echo -n "caption $i" >s$i/000$i.txt
    echo $i >s$i/000$i.cls
    cp "$images/rgb.png" s$i/001.png
    echo '{"caption": "of json", "url": "http://x/'$i'", "width": 3}' >s$i/001.json
    cp "$root/examples/cat.ppm" s$i/002.a.ppm
    echo broken >s$i/003.jpg
    echo other >s$i/004.other
    pack in/part-0000$i.tar s$i 000$i.jpg 000$i.txt 000$i.cls 001.json 001.png 002.a.ppm 003.jpg \
        004.other
done

# --- the output ---------------------------------------------------------------------------------

try "$embed" --tar 'in/part-{00000..00005}.tar' -o made
is 0
err '^vit-embed: part-00000.tar/003.jpg: the file is not an image'
err '^vit-embed: part-00003.tar: 3 images in [0-9.]+ s, [0-9.]+ images/s; 1 unreadable$'
err '^vit-embed: part-00003.tar: another file was skipped: 004.other$'
err '^vit-embed: 6 shards, 0 complete before, 0 failed; 18 images, 6 unreadable$'
try "$embed" s2/0002.jpg s2/001.png s2/002.a.ppm -o plain.npy
is 0
same plain.npy made/img_emb/img_emb_00002.npy
cat >expected <<'X'
{"key": "0002", "image_path": "part-00002.tar/0002.jpg", "caption": "caption 2", "label": 2}
{"key": "001", "image_path": "part-00002.tar/001.png", "caption": "of json", "url": "http://x/2"}
{"key": "002", "image_path": "part-00002.tar/002.a.ppm"}
{"key": "003", "image_path": "part-00002.tar/003.jpg", "error": "the file is not an image of a supported format (JPEG, PNG, BMP, GIF, TGA, PGM, PPM)"}
X
same expected made/metadata/metadata_00002.jsonl
has made/stats/stats_00002.json '"shard": "part-00002.tar"'
has made/stats/stats_00002.json '"images": 3, "unreadable": 1'
has made/stats/stats_00002.json "\"sha256\": \"$(sha256sum <made/img_emb/img_emb_00002.npy | cut -c1-64)\""
has made/stats/stats_00002.json "\"sha256\": \"$(sha256sum <made/metadata/metadata_00002.jsonl | cut -c1-64)\""
# The bytes are the same for shards from a folder, a list, a pipe or the words of a shell. The bytes
# do not depend on the number of threads, the size of batches or the division into tasks.
printf 'in/part-00003.tar\r\n\nin/part-{00004..00005}.tar\n' >list
try "$embed" --tar in -o folder -t 1
is 0
same_output made folder
try "$embed" --tar in/part-0000[0-2].tar --list list -o listed -t 3 -b 1
is 0
same_output made listed
for i in 0 1 2 3 4 5; do
    "$embed" --tar - --shard part-0000$i.tar -o piped -b 2 <in/part-0000$i.tar 2>"$work/err" || fail "pipe $i"
done
same_output made piped
for dtype in f32 bf16 int8; do # and on any CPU with FMA
    try "$convert" "$root/tests/data/fixtures/plain/model.safetensors" --dtype $dtype -o plain.vit
    try "$embed" -m plain.vit --tar in -o any --isa scalar
    is 0
    for isa in avx2 avx-vnni avx512 avx512-vnni avx512-bf16 neon; do
        try "$embed" -m plain.vit --tar in -o tier --isa $isa -t 1 -b 3
        [ $status = 0 ] || { err "^vit-embed: .*this machine cannot run the model with --isa $isa; " && continue; }
        has tier/stats/stats_00001.json "\"isa\": \"$isa\""
        same_output any tier
        rm -r tier
    done
    rm -r any
done
for i in 3 0 2 1; do
    try "$embed" --tar in -o parts --part $i/4
    is 0
done
same_output made parts
try "$embed" --tar in -o parts --part 0/4 # nothing is left to do
err '^vit-embed: 2 shards, 2 complete before, 0 failed; 0 images, 0 unreadable$'
try "$embed" --tar in/part-00001.tar -o half --f16 --normalize --classify 2 --json
is 0
out '"images": 3, "unreadable": 1'
has half/metadata/metadata_00001.jsonl '"classes": [{"index": '
if head -c 60 half/img_emb/img_emb_00001.npy | grep -aq "'<f2'"; then pass; else fail "no f2"; fi
try "$embed" s1/0001.jpg s1/001.png s1/002.a.ppm -o rounded.npy --f16 --normalize
same rounded.npy half/img_emb/img_emb_00001.npy
try "$embed" --tar - -o unnamed
is 1
err '^vit-embed: -: is empty$'
try "$embed" --tar - --shard part-00009.tar -o unnamed # by its name, among the lines of other tasks
is 1
err '^vit-embed: part-00009.tar: is empty$'
try "$embed" --tar in -o in/part-00000.tar
is 1
err '^vit-embed: in/part-00000.tar: the path exists and is not a folder$'
mkdir texts # valid and invalid labels; a sample without an image
n=0
for text in 3 '"a"' null 3.5 '[1, 2]' '{"a": 1}' true; do
    cp "$images/rgb.png" texts/$n.png
    echo "{\"label\": $text}" >texts/$n.json
    n=$((n + 1))
done
echo alone >texts/7.txt
pack texts.tar texts .
try "$embed" --tar texts.tar -o texts-out
is 0
err '^vit-embed: texts.tar: 1 sample without an image; '
for i in 3 4 5 6; do
    has texts-out/metadata/metadata_texts.jsonl \
        "$i.png\", \"note\": \"label of its .json is neither text nor a whole number\"}"
done
for line in '0.png", "label": 3}' '1.png", "label": "a"}' '2.png"}'; do
    has texts-out/metadata/metadata_texts.jsonl "$line"
done
pack one.tar texts 0.png
try "$embed" --tar one.tar -o one
err '^vit-embed: one.tar: 1 image in '
err '^vit-embed: 1 shard, 0 complete before, 0 failed; 1 image, 0 unreadable$'

# --- names of PAX and GNU, and archives that other programs made ------------------------------------

long=$(printf 'd%.0s' {1..90})/$(printf 'e%.0s' {1..90})/$(printf 'f%.0s' {1..90}).png
mkdir -p "long/${long%/*}"
cp "$images/rgb.png" "long/$long"
for format in gnu pax ustar; do
    tar --format=$format --sort=name -cf long.tar -C long . 2>"$work/err"
    try "$embed" --tar long.tar -o long-$format
    is 0
    if [ $format = ustar ]; then # such archives cannot store it
        has long-$format/stats/stats_long.json '"images": 0'
    else
        has long-$format/metadata/metadata_long.jsonl "\"image_path\": \"long.tar/./$long\""
    fi
done

# --- hostile archives ---------------------------------------------------------------------------

mkdir evil
cp "$images/rgb.png" evil/a.png
ln -s /etc/passwd evil/b.jpg
ln evil/a.png evil/c.png
truncate -s 1M evil/d.jpg
cp "$images/rgb.png" $'evil/e\033[2J.png'
tar -cf hostile.tar -C evil a.png b.jpg c.png
tar -rSf hostile.tar -C evil d.jpg
tar -rf hostile.tar -C evil $'e\033[2J.png'
tar -rPf hostile.tar -C evil --transform='s|^a|../../outside|' a.png
tar -rPf hostile.tar -C evil --transform='s|^a|/tmp/outside|' a.png
try "$embed" --tar hostile.tar -o hostile
is 0
has hostile/stats/stats_hostile.json '"images": 1, "unreadable": 6'
for line in 'b.jpg", "error": "is a symbolic link"' 'c.png", "error": "is a hard link"' \
    'd.jpg", "error": "is a sparse file"' 'e?[2J.png", "error": "has control characters in its name"' \
    '../../outside.png", "error": "has a name that leads out of the archive"' \
    '/tmp/outside.png", "error": "has a name that leads out of the archive"'; do
    has hostile/metadata/metadata_hostile.jsonl "$line"
done
# sized SUM: makes an archive whose first header has the size 2^60, in GNU's form, and this checksum
sized() { # SUM, of six digits
    head -c 124 in/part-00000.tar
    printf '\x80\0\0\0\x10\0\0\0\0\0\0\0'
    head -c 148 in/part-00000.tar | tail -c +137
    printf '%s\0 ' "$1"
    tail -c +157 in/part-00000.tar
}
{ sized 000000 | head -c 148; printf '        '; tail -c +157 in/part-00000.tar; } | head -c 512 >head
sum=$(od -An -v -tu1 head | awk '{ for (i = 1; i <= NF; i++) sum += $i } END { printf "%06o", sum }')
sized "$sum" >huge.tar
try "$embed" --tar huge.tar -o nothing
is 1
err '^vit-embed: huge.tar: the archive is cut short: it ends at byte [0-9]*, inside a member$'
missing nothing/stats/stats_huge.json

# --- shards that are damaged, and the others ---------------------------------------------------------

mkdir cut
cp in/part-0000[0-2].tar cut
head -c 900 in/part-00001.tar >cut/part-00001.tar
try "$embed" --tar 'cut/part-{00000..00003}.tar' -o cut-out
is 1
err '^vit-embed: cut/part-00001.tar: the archive is cut short: it ends at byte 900, inside a member$'
err '^vit-embed: cut/part-00003.tar: cannot be opened: No such file'
if [ "$(numbers cut-out)" = '00000 00002' ]; then pass; else fail "$(numbers cut-out)"; fi
missing cut-out/img_emb/img_emb_00001.npy
if [ -z "$(find cut-out -name '*.tmp*')" ]; then pass; else fail 'temporary files are left'; fi
gzip -c in/part-00000.tar >cut/part-00001.tar
try "$embed" --tar cut/part-00001.tar -o cut-out
is 1
err 'is compressed by gzip; give it unpacked: gzip -dc'
gzip -dc cut/part-00001.tar >cut/unpacked && mv cut/unpacked cut/part-00001.tar
try "$embed" --tar cut -o cut-out
is 0
err '^vit-embed: 3 shards, 2 complete before, 0 failed; 3 images'
cp in/part-00001.tar cut
try "$embed" --tar cut -o cut-out # the run compares only names and lengths, which are the same
is 0
cat in/part-00000.tar in/part-00001.tar >cut/part-00000.tar
try "$embed" --tar cut -o cut-out
is 1
err 'part-00000.tar: the archive no longer has the [0-9]+ bytes that its record names; the shard is embedded again'
err 'part-00000.tar: the archive has data after its end'

# --- outputs that are damaged, or of something else ---------------------------------------------------

cp -r made harmed
printf x | dd of=harmed/img_emb/img_emb_00000.npy bs=1 seek=200 conv=notrunc status=none
truncate -s -1 harmed/metadata/metadata_00001.jsonl
rm harmed/img_emb/img_emb_00002.npy harmed/stats/stats_00004.json
echo '{' >harmed/stats/stats_00003.json
try "$embed" --collect harmed
is 1
out '^1 shard complete, 1 missing, 4 damaged; 3 images, 1 unreadable'
err 'img_emb_00000.npy: the file does not match the checksum in its record$'
err 'metadata_00001.jsonl: has [0-9]+ bytes, expected [0-9]+$'
err 'img_emb_00002.npy: cannot be opened'
err 'stats_00003.json: '
err '^vit-embed: 00004 is missing$'
err 'img_emb_00004.npy: the file has no record'
try "$embed" --tar in -o harmed
is 0
err 'img_emb_00000.npy: the file does not match the checksum in its record; the shard is embedded again$'
err '^vit-embed: 6 shards, 1 complete before, 0 failed; 15 images'
same_output made harmed
try "$embed" --collect harmed in
is 0
out '^6 shards complete, 0 missing, 0 damaged; 18 images, 6 unreadable'
try "$embed" --collect harmed 'in/part-{00000..00007}.tar' --json
is 1
out '"complete": 6, "missing": 2, "damaged": 0'
err 'stats_00007.json: is missing$'
cp -r made harmed2
echo '[]' >harmed2/stats/stats_00000.json
echo '{"vectors": {"bytes": 5}}' >harmed2/stats/stats_00001.json
try "$embed" --collect harmed2
is 1
for i in 0 1; do err "stats_0000$i.json: the file is not a shard's record: expected numbers in vectors.bytes"; done
try "$embed" --collect none-such
is 1
err '^vit-embed: none-such: the folder has no records of shards$'
mkdir none # before any task has begun
try "$embed" --collect none in
is 1
out '^0 shards complete, 6 missing, 0 damaged'
exact= # a different recipe if libjpeg-turbo decodes
grep -q libjpeg made/stats/stats_00000.json && exact=--exact
for option in --f16 --normalize '--classify 3' '--img-size 32' --no-exif $exact; do
    # shellcheck disable=SC2086 # words
    try "$embed" --tar in -o made $option
    [ "$option" = '--img-size 32' ] && continue # which the model has anyway, or refuses
    is 1
    err "stats_00000.json: the shard was made with other settings: found 'model [0-9a-f]+, 32x32, pool head, f32, (libjpeg|stb_image)"
done
cp in/part-00000.tar in2-00000.tar
try "$embed" --tar in2-00000.tar -o made
is 1
err 'stats_00000.json: the record belongs to the shard part-00000.tar, not to in2-00000.tar'
same_output made folder

# --- parts ------------------------------------------------------------------------------------

# part EXPECTED VARIABLES -- OPTIONS: checks that a task with these environment variables makes the
# expected shards
part() {
    local expected=$1 environment=()
    shift
    while [ "$1" != -- ]; do environment+=("$1") && shift; done
    rm -rf part
    try env "${environment[@]}" "$embed" --tar in -o part --part auto "${@:2}"
    is 0
    if [ "$(numbers part)" = "$expected" ]; then pass; else fail "$(numbers part), expected $expected"; fi
}
part '00001 00004' OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 SLURM_STEP_ID=0 SLURM_PROCID=0 \
    SLURM_STEP_NUM_TASKS=1 --
part '00002 00005' PMI_RANK=2 PMI_SIZE=3 --
part '00003' SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=6 SLURM_NTASKS=9 --
part '00000 00003' SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_COUNT=1 SLURM_PROCID=0 -- --parts 3
part '00005' SLURM_ARRAY_TASK_ID=2 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 -- --parts 3
part '00001' PARALLEL_SEQ=2 -- --parts 6
try env SLURM_PROCID=0 SLURM_NTASKS=4 "$embed" --tar in -o part --part auto # sbatch -n 4: one script
is 1
err 'no variable of Open MPI'
try env SLURM_ARRAY_TASK_ID=0 "$embed" --tar in -o part --part auto
is 1
err 'SLURM_ARRAY_TASK_ID is set, but no variable gives the number of all jobs; give --parts N'
try env SLURM_ARRAY_TASK_ID=3 "$embed" --tar in -o part --part auto --parts 3
err "SLURM_ARRAY_TASK_ID is '3'; with --parts 3, expected 0 to 2"
try env PARALLEL_SEQ=0 "$embed" --tar in -o part --part auto --parts 3
err "PARALLEL_SEQ is '0'; with --parts 3, expected 1 to 3"
try env PARALLEL_SEQ=1 SLURM_ARRAY_TASK_ID=1 "$embed" --tar in -o part --part auto --parts 3
err 'both SLURM_ARRAY_TASK_ID and PARALLEL_SEQ are set'
try env OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=3 "$embed" --tar in -o part --part auto
err "OMPI_COMM_WORLD_RANK is '3' and OMPI_COMM_WORLD_SIZE is '3': expected a rank below the size"
try env OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 "$embed" --tar in -o part --part auto --parts 2
err 'is for an array of jobs, but neither'
for wrong in 3/3 -1/3 1 1/ /3 1/0 x/y 1/3/5; do
    try "$embed" --tar in -o part --part $wrong
    is 1
    err -- '--part: expected auto or I/N'
done
try "$embed" --tar in -o part --parts 3
err -- '--parts needs --part auto'

# --- names of shards ------------------------------------------------------------------------------

mkdir -p names/a names/b
cp in/part-00000.tar names/a/7.tar
cp in/part-00000.tar names/b/7.tar
cp in/part-00000.tar names/birds.tar
cp in/part-00000.tar 'names/odd{1}.tar'
try "$embed" --tar 'names/{a,b}/7.tar' -o n
is 1
err 'expected a range such as \{00000..00999\}, found \{a,b\}'
try "$embed" --tar names/a/7.tar names/b/7.tar -o n
is 1
err 'names/a/7.tar and names/b/7.tar would both write img_emb_7.npy'
try "$embed" --tar names/a names/birds.tar 'names/odd{1}.tar' -o n
is 0
if [ "$(numbers n)" = '7 birds odd{1}' ]; then pass; else fail "$(numbers n)"; fi
for wrong in '{1..' '{}' '{..}' '{3..1}' '{1..x}' '{1..9999999999}'; do
    try "$embed" --tar "names/$wrong.tar" -o n
    is 1
    err 'expected a range'
done
try "$embed" --tar 'in/{part-0000,x}{8..9}.tar' -o n
is 1
try "$embed" --tar 'x{8..9}{08..11}.tar' -o n # no such files, but all their names
for name in x808 x911; do err "^vit-embed: $name.tar: cannot be opened"; done
err '^vit-embed: 8 shards, 0 complete before, 8 failed'
mkdir bare
try "$embed" --tar bare -o n
is 1
err '^vit-embed: bare: has no .tar file$'
printf '\n\r\n' >blank
for list in - blank /dev/null; do # a list without shards is an error
    try "$embed" --tar --list $list -o never
    is 1
    err "^vit-embed: $list: has no shard$"
    try "$embed" --collect out --list $list
    is 1
    err "^vit-embed: $list: has no shard$"
done
missing never

# --- command lines --------------------------------------------------------------------------------

try "$embed" --tar in
usage 'missing -o OUT'
try "$embed" --tar -o x
usage 'missing SHARD'
try "$embed" in -o x.npy --part 0/2
usage 'need --tar'
try "$embed" --tar in -o x --shard y
usage "--shard names the shard on standard input"
try "$embed" --collect x -o y
usage '--collect writes no files'
try "$embed" --tar in -o x --names y
usage '--tar writes the names of the images into the metadata'

# --- images that end in the middle ---------------------------------------------------------------

mkdir ends
for image in baseline.jpg progressive.jpg rgb.png interlaced.png rgb.bmp plain.gif rgb.tga rgb.ppm; do
    head -c $(($(stat -c %s "$images/$image") / 2)) "$images/$image" >"ends/${image/./_}.${image#*.}"
done
: >ends/empty.jpg
cp "$images/grey.png" ends/whole.png
tar --sort=name -cf ends.tar -C ends .
try "$embed" --tar ends.tar -o ends-out
is 0
try "$embed" ends -o ends.npy # the same ones, by the same decoders
same ends.npy ends-out/img_emb/img_emb_ends.npy
if [ "$(grep -c '"error"' ends-out/metadata/metadata_ends.jsonl)" = "$(grep -c '^vit-embed: ends/' "$work/err")" ] &&
    [ "$(wc -l <ends-out/metadata/metadata_ends.jsonl)" = 10 ]; then pass
else fail "$(cat ends-out/metadata/metadata_ends.jsonl "$work/err")"; fi

# --- faults ----------------------------------------------------------------------------------------

# The disk is full. The run must fail, and must leave no temporary file.
if [ "${BIN:-.}" = . ] && mkdir full && mount -t tmpfs -o size=64k tmpfs full 2>/dev/null; then
    head -c 40k /dev/zero >full/ballast
    try "$embed" --tar in -o full/out --pool tokens
    is 1
    err 'No space left on device'
    if [ -z "$(find full -name '*.tmp*')" ]; then pass; else fail 'temporary files are left'; fi
    umount full
else
    [ "${BIN:-.}" != . ] || skip 'a full disk' 'it needs root and a tmpfs'
fi
# Without /proc, as in a chroot, there is no sandbox. Nothing is decoded, and the message contains
# the reason.
if [ "${BIN:-.}" = . ] && unshare -m mount -t tmpfs tmpfs /proc 2>/dev/null; then
    # shellcheck disable=SC2016 # it has arguments of its own
    try unshare -m sh -c 'mount -t tmpfs tmpfs /proc && exec "$@"' - "$embed" --tar one.tar -o no-proc
    is 1
    err '/0.png: no sandbox is available to decode the image: /proc/self/statm cannot be read: No such file or directory'
    if [ -z "$(find no-proc -type f)" ]; then pass; else fail 'files of a shard are left'; fi
else
    [ "${BIN:-.}" != . ] || skip 'a system without /proc' 'it needs root'
fi
# If another file replaces the model's file, the run keeps the model that it has opened. If the
# model's file is overwritten in place, the run fails.
is_open() { # PID FILE: waits until the process has opened the file
    for _ in $(seq 200); do
        grep -q "/$2$" "/proc/$1/maps" && break
        sleep 0.1
    done
    sleep 0.1 # for another time of the file
}
[ -z "${WINDOWS-}" ] || is_open() { sleep 3; } # Wine starts slowly
meanwhile() { # MODEL FOLDER COMMAND...: when the model is open and half a shard is read
    local pid
    mkfifo shard
    "$embed" -m "$1" --tar - --shard part-00001.tar -o "$2" <shard 2>"$work/err" &
    pid=$!
    exec 3>shard
    head -c 1000 in/part-00001.tar >&3
    is_open $pid "$1"
    "${@:3}"
    tail -c +1001 in/part-00001.tar >&3
    exec 3>&-
    wait $pid
    status=$?
    rm shard
}
tried=
cp "$root/models/cifar10-vit.vit" replaced.vit
echo none >other
meanwhile replaced.vit replaced mv other replaced.vit
is 0
same made/img_emb/img_emb_00001.npy replaced/img_emb/img_emb_00001.npy
cp "$root/models/cifar10-vit.vit" written.vit
echo x >x
meanwhile written.vit written dd if=x of=written.vit bs=1 seek=500000 conv=notrunc status=none
is 1
err '^vit-embed: written.vit: the model file changed while it was in use'
missing written/stats/stats_00001.json
# While vit-embed makes a shard again, the shard's record is missing until its other files exist.
cp -r made again
truncate -s -1 again/metadata/metadata_00001.jsonl
block() { rm again/img_emb/img_emb_00001.npy && mkdir again/img_emb/img_emb_00001.npy; }
cp "$root/models/cifar10-vit.vit" again.vit
meanwhile again.vit again block
is 1
err 'img_emb_00001.npy: cannot be written: '
missing again/stats/stats_00001.json
# After each kill -9 at a random moment, all records must be right. A last run makes the rest.
tried='kill -9'
landed=0
for ((i = 0; i < ${KILLS:-8}; i++)); do
    "$embed" --tar in -o killed -t 1 2>/dev/null &
    sleep "0.0$((RANDOM % 60 + 10))"
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    [ $? != 137 ] || landed=$((landed + 1))
    if "$embed" --collect killed in >/dev/null 2>"$work/err"; then
        pass
        rm -r killed # complete: from the start
    elif grep -Ev 'has no record:' "$work/err" |
        grep -Eq 'img_emb|metadata|expected|has not'; then
        fail 'a record of what is not there'
    else pass; fi
done
echo "$landed of ${KILLS:-8} kills came while it worked"
try "$embed" --tar in -o killed
is 0
find killed -name '*.tmp-*' -delete
same_output made killed
# Two processes write the same shards.
rm -rf twice
"$embed" --tar in -o twice 2>/dev/null &
try "$embed" --tar in -o twice
is 0
wait
try "$embed" --collect twice in
is 0
same_output made twice

summary
