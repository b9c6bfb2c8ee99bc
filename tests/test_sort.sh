#!/usr/bin/env bash
# vit-classify --sort puts photos into folders by class, as links, copies or moved files. It never
# replaces a file, and it continues an interrupted run.
#
#     BIN=. bash tests/test_sort.sh
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=${BIN:-.}
[ "${bin:0:1}" = / ] || bin=$root/$bin
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh
classify=$bin/tools/vit-classify
convert=$bin/tools/vit-convert
usage() { # REGEX
    is 2
    quiet out
    lines err 1
    err "$1"
}
cd "$work" || exit 2

# Most of these ten labels cannot be names of folders as they are. `folders` has the names that must
# replace them.
printf '%s\n' 'a/b\c' 'con' '.hidden' 'Car' 'car' 'what?' 'dots...' '"x" <y> | *' 'caf'$'\303\251' \
    "$(printf 'long%.0s' {1..60})" >labels.txt
: >out
: >err
try "$convert" "$root/tests/data/fixtures/plain/model.safetensors" --labels labels.txt -o m.vit
is 0
folders=('a_b_c' '_con' '_hidden' 'Car (3)' 'car (4)' 'what_' 'dots.._' '_x_ _y_ _ _' \
    'caf'$'\303\251' "$(printf 'long%.0s' {1..30})")

# Each photo has one colour. The model puts the colours into several classes.
photo() { # FILE RED GREEN BLUE
    { printf 'P6\n8 8\n255\n'
      for _ in {1..64}; do printf "\\x$(printf %02x "$2")\\x$(printf %02x "$3")\\x$(printf %02x "$4")"; done; } >"$1"
}
mkdir -p in/a in/b
n=0
for red in 0 128 255; do
    for green in 0 128 255; do
        n=$((n + 1))
        photo in/a/$n.ppm $red $green 60
    done
done
photo in/b/1.ppm 3 3 61 # another photo of this name
cp in/a/2.ppm in/b/2.ppm # an equal one
echo 'no image' >in/b/bad.jpg
total=11

class_of() { # PHOTO: its folder
    local index
    index=$("$classify" -m m.vit --csv -k 1 "$1" | sed -n '2s/.*,1,\([0-9]*\),.*/\1/p')
    echo "${folders[$index]}"
}
try "$classify" -m m.vit --csv -k 1 in/a
if [ "$(sed 1d out | cut -d, -f3 | sort -u | wc -l)" -ge 2 ]; then pass; else fail "too few classes"; fi
declare -A class
for image in in/*/*.ppm; do class[$image]=$(class_of "$image"); done

# The same photo gets each of the ten labels in turn.
middle=$("$classify" -m m.vit --csv -k 1 in/a/5.ppm | sed -n '2s/.*,1,\([0-9]*\),.*/\1/p')
for i in {0..9}; do
    { tail -n +$((i + 1)) labels.txt && head -n $i labels.txt; } >turned.txt
    { [ "$middle" = 0 ] || { tail -n "$middle" turned.txt && head -n -"$middle" turned.txt; }; } >labelled.txt
    [ "$middle" != 0 ] || cp turned.txt labelled.txt
    "$convert" -q "$root/tests/data/fixtures/plain/model.safetensors" --labels labelled.txt -o turned.vit 2>err
    try "$classify" -m turned.vit --sort names-$i --copy -q in/a/5.ppm
    is 0
    name=${folders[$i]}
    exists "names-$i/${name/([34])/($middle)}/5.ppm"
done

# --- wrong command lines --------------------------------------------------------------------------

for option in --copy --move --dry-run; do
    try "$classify" $option in
    usage '--copy, --move and --dry-run need --sort DIR'
done
try "$classify" --sort out --copy --move in
usage 'either --copy or --move, not both'
try "$classify" --sort out --copy -
usage '--sort cannot sort standard input'
try "$classify" --sort '' --copy in
usage '--sort: the folder has an empty name'
try "$classify" --sort s --copy --frames auto in/a/1.ppm
usage '--sort is for image files, not for --frames'
if ! posix; then
    try "$classify" --sort s in
    usage 'add --copy or --move'
fi

# --- links, copies, moves -------------------------------------------------------------------------

sorted() { # FOLDER: passes if each photo is once in the folder of its class
    local image name found=0 base
    for image in "${!class[@]}"; do
        name=${image##*/} base=${name%.ppm}
        for place in "$1/${class[$image]}/$base.ppm" "$1/${class[$image]}/$base-2.ppm"; do
            if cmp -s "kept/${image#in/}" "$place"; then found=$((found + 1)) && break; fi
        done
    done
    if [ "$found" = $total ]; then pass; else fail "$found of $total photos are in $1"; fi
}
cp -r in kept
ways=(--copy --move)
! posix || ways=('' --copy --move)
for way in "${ways[@]}"; do
    rm -rf in s
    cp -r kept in
    done=linked
    [ "$way" != --copy ] || done=copied
    [ "$way" != --move ] || done=moved
    # shellcheck disable=SC2086 # words
    {
    try "$classify" -m m.vit --sort s $way --dry-run in
    is 1
    lines out $total
    err "^vit-classify: $total to be sorted, 1 unreadable$"
    missing s
    same in/a/1.ppm kept/a/1.ppm
    out "^in/a/1.ppm -> s/${class[in/a/1.ppm]//[()]/.}$"

    try "$classify" -m m.vit --sort s $way in
    is 1
    err '^vit-classify: in/b/bad.jpg: the file is not an image'
    if [ "$way" = --copy ]; then err '^vit-classify: 10 copied, 1 there already, 1 unreadable$'
    else err "^vit-classify: $total $done, 1 unreadable$"; fi
    lines out $total
    lines err 2
    sorted s
    if [ "$way" = --move ]; then missing in/a/1.ppm; else same in/a/1.ppm kept/a/1.ppm; fi
    if [ "$way" = --copy ]; then
        if [ "$(find s -type f -newer labels.txt | wc -l)" -gt 0 ] && [ s/*/3.ppm -nt labels.txt ]; then pass
        else fail "times"; fi
    fi
    exists in/b/bad.jpg
    find s | sort >first

    # A second run adds no files.
    try "$classify" -m m.vit --sort s $way in
    is 1
    [ "$way" = --move ] && err 'no image\|0 moved, 1 unreadable|0 moved' ||
        err "^vit-classify: 0 $done, $total there already, 1 unreadable$"
    find s | sort >second
    same first second
    sorted s
    }
done

# Links are valid from other folders too.
if posix; then
    rm -rf in s
    cp -r kept in
    mkdir deep
    (cd deep && "$classify" -m ../m.vit --sort ../s ../in >/dev/null 2>&1)
    sorted s
    if [ "$(readlink s/*/3.ppm)" = "$(realpath in/a/3.ppm)" ]; then pass; else fail "link"; fi
fi

# A file or folder that already has the name of a photo stays. The photo then gets the name NAME-2.
rm -rf in s
cp -r kept in
place="s/${class[in/a/1.ppm]}"
mkdir -p "$place"
echo mine >"$place/1.ppm"
for way in --copy --move; do
    try "$classify" -m m.vit --sort s $way in/a/1.ppm
    is 0
    out ' -> s/.*/1-2.ppm$'
    if [ "$(cat "$place/1.ppm")" = mine ]; then pass; else fail "was replaced"; fi
    same "$place/1-2.ppm" kept/a/1.ppm
    rm "$place/1-2.ppm"
done
if posix; then
    ln -sf nowhere "$place/1.ppm" # a dangling link counts as a file
    cp kept/a/1.ppm in/a/1.ppm
    try "$classify" -m m.vit --sort s in/a/1.ppm
    is 0
    if [ "$(readlink "$place/1.ppm")" = nowhere ]; then pass; else fail "a link was replaced"; fi
    same "$place/1-2.ppm" kept/a/1.ppm
fi

# A photo that the command line names twice is moved once. The second time, the photo is reported as
# missing.
rm -rf in s
cp -r kept in
try "$classify" -m m.vit --sort s --move in/a/1.ppm in/a/1.ppm in/a/2.ppm
is 1
err '^vit-classify: in/a/1.ppm: (the image no longer exists: it was moved or removed, or it was given twice|cannot be opened: .*)$'
same "s/${class[in/a/2.ppm]}/2.ppm" kept/a/2.ppm
same "s/${class[in/a/1.ppm]}/1.ppm" kept/a/1.ppm

# With --above, photos whose class is not likely enough are not sorted. --json and --csv contain the
# new path of each photo.
rm -rf in s
cp -r kept in
try "$classify" -m m.vit --sort s --copy --above 1 in/a
is 0
lines out 0
err '^vit-classify: 0 copied, 9 below the probability of --above$'
missing s
try "$classify" -m m.vit --sort s --copy --csv -k 2 in/a/3.ppm
is 0
lines out 3
out '^image,rank,index,label,prob,logit,sorted$'
out '^"in/a/3.ppm",2,.*,"s/.*/3.ppm"$'
try "$classify" -m m.vit --sort s --copy --json -q in/a/3.ppm
is 0
quiet err
out '"sorted": "s/.*/3.ppm"'
try "$classify" -m m.vit --sort s --copy --json --above 1 in/a/3.ppm
out '"sorted": null'

# Tests labels whose folders would have the same name even with the class numbers appended.
printf '%s\n' a A 'a (0)' d e f g h i j >alike.txt
try "$convert" "$root/tests/data/fixtures/plain/model.safetensors" --labels alike.txt -o alike.vit
try "$classify" -m alike.vit --sort s2 --copy in/a/3.ppm
is 1
err "^vit-classify: classes [02] and [02] would share the folder 'a \(0\)'$"
missing s2

# --- failures -------------------------------------------------------------------------------------

# A file already has the name of the output folder.
: >taken
try "$classify" -m m.vit --sort taken --copy in/a
is 1
err '^vit-classify: taken: the path exists and is not a folder$'
if posix && [ "$(id -u)" != 0 ]; then
    mkdir locked
    chmod 555 locked
    for way in '' --copy --move; do
        # shellcheck disable=SC2086
        try "$classify" -m m.vit --sort locked $way in/a
        is 1
        err '^vit-classify: locked/.*: cannot be made: Permission denied$'
    done
fi
for image in kept/a/*; do same "$image" "in/a/${image##*/}"; done

# A small disk becomes full, if mount is allowed. No incomplete file stays, and no photo is lost.
if posix && mkdir small && mount -t tmpfs -o size=64k none small 2>/dev/null; then
    mkdir big
    for i in 1 2 3 4 5 6; do { printf 'P6\n100 60\n255\n' && head -c 18000 /dev/zero | tr '\0' "\\$i"; } >big/$i.ppm; done
    cp -r big big2
    for way in --copy --move; do
        rm -rf small/*
        try "$classify" -m m.vit --sort small/s $way big
        is 1
        err 'No space left on device$'
        if ! find small -name '*tmp*' | grep -q .; then pass; else fail "a half-written file stays"; fi
        for i in 1 2 3 4 5 6; do
            if cmp -s big/$i.ppm big2/$i.ppm || cmp -s big2/$i.ppm small/s/*/$i.ppm; then pass
            else fail "$way: $i.ppm is lost"; fi
        done
        rm -rf big
        cp -r big2 big
    done
    umount small
else
    echo "test_sort.sh: no disk can be mounted here: a full one is not tried"
fi

# After a run was killed and started again, each photo must be sorted, and be complete.
mkdir many
for i in {1..60}; do cp "kept/a/$((i % 9 + 1)).ppm" many/$i.ppm; done
cp -r many all
for way in "${ways[@]}"; do
    for signal in KILL INT; do
        rm -rf many s
        cp -r all many
        # shellcheck disable=SC2086
        "$classify" -m m.vit --sort s $way many >/dev/null 2>&1 &
        pid=$!
        for _ in {1..200}; do # until some photos are there
            [ "$(find s -name '*.ppm' 2>/dev/null | wc -l)" -ge 5 ] && break
            sleep 0.005
        done
        kill -$signal $pid 2>/dev/null
        wait $pid 2>/dev/null
        if [ -n "$(ls many)" ]; then
            # shellcheck disable=SC2086
            try "$classify" -m m.vit --sort s $way many
            is 0
        fi
        found=0
        for i in {1..60}; do
            for place in s/*/$i.ppm s/*/$i-2.ppm; do
                if cmp -s all/$i.ppm "$place"; then found=$((found + 1)) && break; fi
            done
        done
        if [ "$found" = 60 ]; then pass; else fail "$way, $signal: $found of 60"; fi
    done
done
summary
