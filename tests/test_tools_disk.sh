#!/usr/bin/env bash
# Simulates a disk that becomes full, at several sizes of each output. A limit on file sizes causes
# an error or a signal. Earlier files must stay, no other file may be left, and the program must
# report the failure.
set -u
cd "$(dirname "$0")/.."
bin=${BIN:-.}
. tests/built.sh programs
. tests/checks.sh
model=$work/model.vit

check() {
    if [ "$1" = yes ]; then pass; else fail "$limit bytes: $2"; fi
}

kept() { [ "$(cat "$1")" = before ] && [ -z "$(find "$work" -name '*.tmp-*')" ] && echo yes; }

# writes OUTPUT COMMAND...: runs COMMAND with limits on the file size, from 0 to one byte less than
# OUTPUT needs
writes() {
    local output=$1 status
    shift
    tried=$*
    limit=none
    "$@" >/dev/null 2>"$work/err" </dev/null
    status=$?
    check "$([ $status = 0 ] && [ "$(head -c 6 "$output" | tr -d '\0')" != before ] && echo yes)" "status $status"
    for limit in 0 1 100 512 1000 $(($(stat -c %s "$output") - 1)); do
        echo before >"$output"
        (trap '' XFSZ && exec prlimit --fsize=$limit: "$@") 2>&1 >/dev/null </dev/null |
            cat >"$work/err"
        status=${PIPESTATUS[0]} # a pipe, because the limit would apply to a file
        check "$([ $status = 1 ] && echo yes)" "status $status"
        check "$(grep -q 'cannot be written: File too large' "$work/err" && echo yes)" "no message"
        check "$(kept "$output")" "files changed"
        { prlimit --fsize=$limit: "$@" >/dev/null 2>&1 </dev/null; } 2>/dev/null
        status=$?
        check "$([ $status != 0 ] && echo yes)" "status $status"
        check "$(kept "$output")" "files changed by a signal"
    done
    limit=none
    tried="${tried//"$output"//proc/no}" # even root cannot write there
    # shellcheck disable=SC2086 # words
    $tried >/dev/null 2>"$work/err" </dev/null
    status=$?
    check "$([ $status = 1 ] && grep -q 'cannot be created' "$work/err" && echo yes)" "status $status"
}

"$bin/tools/vit-convert" tests/data/coverage/option_qk_norm -o "$model" >/dev/null || exit 1
mkdir -p "$work/set/0"
for i in $(seq 60); do cp tests/data/images/rgb.ppm "$work/set/0/$i.ppm"; done
writes "$work/a.vit" "$bin/tools/vit-convert" tests/data/fixtures/plain/model.pth -o "$work/a.vit"
"$bin/tools/vit-convert" tests/data/coverage/vit_base_r50_s16_224 -o "$work/large" >/dev/null || exit 1
writes "$work/b" "$bin/tools/vit-convert" "$work/large" --to safetensors -o "$work/b"
writes "$work/c.h" "$bin/tools/vit-convert" "$model" --c-array -o "$work/c.h"
writes "$work/d.npy" "$bin/tools/vit-run" -m "$model" examples/cat.ppm --tokens "$work/d.npy"
writes "$work/f.npy" "$bin/tools/vit-embed" -m "$model" -o "$work/f.npy" "$work/set"
mkdir -p "$work/two/a" "$work/two/b" && cp tests/data/images/{rgb.ppm,baseline.jpg} "$work/two/a" &&
    cp tests/data/images/grey.png "$work/two/b"
writes "$work/l.vit" "$bin/tools/vit-learn" -m "$model" -o "$work/l.vit" "$work/two"
writes "$work/g.png" "$bin/tools/vit-look" filters -m "$model" -o "$work/g.png"
writes "$work/e.csv" "$bin/tools/vit-evaluate" -m "$model" --predictions "$work/e.csv" "$work/set"

# If one of the outputs cannot be replaced, all old outputs must stay.
limit=none
mkdir "$work/few"
for name in v.npy v.txt v.json; do echo before >"$work/few/$name"; done
for full in v.txt v.json v.npy; do
    mv "$work/few/$full" "$work/kept"
    ln -s /dev/full "$work/few/$full"
    tried="embed, with $full on a full disk"
    "$bin/tools/vit-embed" -m "$model" -o "$work/few/v.npy" examples/cat.ppm >"$work/out" 2>"$work/err"
    status=$?
    check "$([ $status = 1 ] && grep -q 'cannot be written: No space' "$work/err" && echo yes)" "status $status"
    mv "$work/kept" "$work/few/$full"
    for name in v.npy v.txt v.json; do
        check "$([ "$(cat "$work/few/$name")" = before ] && echo yes)" "$name has changed"
    done
    check "$([ -z "$(find "$work" -name '*.tmp-*')" ] && echo yes)" "something is left"
done

# --- names and folders -----------------------------------------------------------------------------

limit=none
photo=examples/cat.ppm

# refused TEXT COMMAND...: passes if COMMAND exits with status 1, prints a message that contains
# TEXT, and leaves no temporary file behind
refused() {
    local text=$1 status
    shift
    tried=$*
    "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    check "$([ $status = 1 ] && grep -qF -- "$text" "$work/err" && echo yes)" "status $status: $text"
    check "$([ -z "$(find "$work" -name '*.tmp-*')" ] && echo yes)" "something is left"
}

# writes_to OUTPUT COMMAND...: passes if the command writes OUTPUT
writes_to() {
    tried=${*:2}
    "${@:2}" >"$work/out" 2>"$work/err" </dev/null
    check "$([ -s "$1" ] && echo yes)" "nothing is written"
    rm -f "$1"
}

many() { printf "%0.s$1" $(seq "$2"); }
folder=$work/$(many d 150)/$(many e 150) # a path of more than 300 characters
mkdir -p "$folder"
cp $photo "$folder/photo.ppm"
cp "$model" "$folder/model.vit"
long=$(many n 250).npy      # a valid name, but too long for any suffix
too_long=$(many n 300).npy
latin1=$work/$'caf\xe9' latin1_json='caf\xef\xbf\xbd' # no UTF-8; in JSON, U+FFFD stands for it
greek=$work/$(many α 120).npy
mkdir "$latin1"
cp $photo "$latin1/caf"$'\xe9'.ppm
cp "$model" "$latin1/mod"$'\xe8'le.vit

writes_to "$folder/a.npy" "$bin/tools/vit-run" -m "$folder/model.vit" "$folder/photo.ppm" \
    --logits "$folder/a.npy"
writes_to "$folder/b.vit" "$bin/tools/vit-convert" tests/data/fixtures/plain/model.pth \
    -o "$folder/b.vit"
writes_to "$folder/$long" "$bin/tools/vit-embed" -m "$model" -o "$folder/$long" "$folder/photo.ppm"
writes_to "$greek" "$bin/tools/vit-run" -m "$model" $photo --logits "$greek"
refused "$too_long: cannot be created: File name too long" "$bin/tools/vit-run" -m "$model" \
    $photo --logits "$work/$too_long"
refused "$too_long: cannot be opened: File name too long" "$bin/tools/vit-classify" -m "$model" \
    "$work/$too_long"
refused "cannot be opened" "$bin/tools/vit-classify" -m "$work/$too_long" $photo
writes_to "$latin1/a.npy" "$bin/tools/vit-run" -m "$latin1/mod"$'\xe8'le.vit \
    "$latin1/caf"$'\xe9'.ppm --logits "$latin1/a.npy"
writes_to "$latin1"/$'\xff.npy' "$bin/tools/vit-embed" -m "$model" -o "$latin1"/$'\xff.npy' "$latin1"
check "$(LC_ALL=C grep -q $'caf\xe9/caf\xe9.ppm$' "$latin1"/$'\xff.txt' && echo yes)" \
    "the list has other names"
refused 'no\xe9.vit: cannot be opened' "$bin/tools/vit-classify" -m "$latin1"/$'no\xe9.vit' $photo
"$bin/tools/vit-classify" -m "$model" --json "$latin1/caf"$'\xe9'.ppm >"$work/out" 2>"$work/err"
check "$(LC_ALL=C grep -q "$(printf '%b' "$latin1_json")" "$work/out" &&
    iconv -f utf-8 -t utf-8 "$work/out" >/dev/null && echo yes)" "JSON that is no UTF-8"

for command in "tools/vit-run -m $model $photo --logits" "tools/vit-embed -m $model $photo -o" \
    "tools/vit-look filters -m $model -o" "tools/vit-convert $model --to safetensors -o" \
    "tools/vit-evaluate -m $model $work/set --predictions"; do
    # shellcheck disable=SC2086 # words
    refused "an output has an empty name" "$bin"/$command ''
done
check "$([ ! -e .json ] && [ ! -e .txt ] && echo yes)" "files without a name are left"

# A folder that is nested too deeply to be read whole is reported.
deep=$work/deep/$(printf 's/%.0s' {1..33})
mkdir -p "$deep"
cp $photo "$deep"
cp $photo "$work/deep"
refused "s/s: the folder is nested in more than 32 folders" "$bin/tools/vit-embed" -m "$model" -o "$work/a.npy" "$work/deep"
rm -r "$work/deep/s"
ln -s nowhere "$work/deep/broken.jpg"
ln -s nowhere "$work/deep/broken"
refused "deep/broken.jpg: cannot be opened: No such file or directory" "$bin/tools/vit-embed" \
    -m "$model" -o "$work/a.npy" "$work/deep"
check "$([ "$(cat "$work/a.txt")" = "$work/deep/cat.ppm" ] && echo yes)" "the others are not there"
if [ "$bin" = . ]; then # simulates a failing disk
    echo '#include <errno.h>
void *readdir(void *folder) { return errno = EIO, (void)folder, (void *)0; }
void *readdir64(void *folder) { return readdir(folder); }' |
        ${CC:-cc} -shared -fPIC -x c - -o "$work/unread.so" || exit 1
    refused "deep: cannot be read: Input/output error" env LD_PRELOAD="$work/unread.so" \
        "$bin/tools/vit-embed" -m "$model" -o "$work/a.npy" "$work/deep"

    # Once a file with $CUT in its path is mapped, the file is truncated to one page.
    cat >"$work/cut.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
void *mmap(void *at, size_t size, int access, int flags, int file, off_t offset)
{
    void *(*map)(void *, size_t, int, int, int, off_t);
    char link[64], path[4096] = "";
    void *data;
    *(void **)&map = dlsym(RTLD_NEXT, "mmap");
    data = map(at, size, access, flags, file, offset);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (file >= 0 && readlink(link, path, sizeof path - 1) > 0 && strstr(path, getenv("CUT")))
        if (truncate(path, 4096) != 0) perror(path);
    return data;
}
void *mmap64(void *at, size_t size, int access, int flags, int file, off_t offset)
{
    return mmap(at, size, access, flags, file, offset);
}
END
    ${CC:-cc} -shared -fPIC "$work/cut.c" -ldl -o "$work/cut.so" || exit 1
    # loses CUT COMMAND...: passes if COMMAND reports that a file with CUT in its path became shorter
    loses() {
        refused "a file was truncated while it was in use" \
            env CUT="$1" LD_PRELOAD="$work/cut.so" "${@:2}"
        check "$([ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] && echo yes)" \
            "more is said"
    }
    large=models/cifar10-vit.vit
    for command in "tools/vit-info --check" "tools/vit-run $photo -m" "tools/vit-bench -m" \
        "tools/vit-convert --to safetensors -o $work/x" "tools/vit-convert --c-array -o $work/x.h" \
        "tools/vit-classify $photo -m" "tools/vit-embed $photo -o $work/x.npy -m" \
        "tools/vit-evaluate $work/set -m" "tools/vit-look filters -o $work/x.png -m" \
        "tools/vit-look attention $photo -o $work/x.png -m"; do
        # shellcheck disable=SC2086 # words
        cp $large "$work/cut.vit" && loses cut.vit "$bin"/$command "$work/cut.vit"
    done
    tar -cf "$work/0.tar" -C "$work/set/0" .
    "$bin/tools/vit-embed" -m $large --tar "$work/0.tar" -o "$work/shards" 2>"$work/err"
    "$bin/tools/vit-embed" -m $large "$work/set" -o "$work/index.npy" 2>"$work/err"
    loses index.npy "$bin/tools/vit-search" -m $large "$work/index.npy" $photo
    loses .i8 "$bin/tools/vit-search" -m $large "$work/shards" $photo --int8
fi

# A folder is removed while a program works, either before the output exists or together with the
# output.
for command in "tools/vit-run -m $model - --logits" "tools/vit-embed -m $model --list - -o" \
    "tools/vit-look attention -m $model - -o"; do
    given=$photo
    mkdir "$work/removed"
    [[ $command != *--list* ]] || echo $photo >"$work/list"
    [[ $command != *--list* ]] || given=$work/list
    # shellcheck disable=SC2086 # words
    {
        for ((w = 0; w < 10; w++)); do [ -z "$(ls "$work/removed")" ] && sleep 0.05; done
        rm -r "$work/removed"
        cat "$given"
    } | "$bin"/$command "$work/removed/x.npy" >"$work/out" 2>"$work/err"
    status=$?
    tried=$command
    grep -q 'removed/x.*: cannot be .*: No such file' "$work/err" || status=unsaid
    check "$([ $status = 1 ] && echo yes)" "status $status"
done

# This folder is read-only. root may write in such a folder, so the test runs as the user nobody if
# possible.
mkdir "$work/locked"
echo before >"$work/locked/a.npy"
chmod 555 "$work/locked"
chmod 755 "$work"
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid=65534 --regid=65534 --clear-groups"
if $as test -x "$bin/tools/vit-run" -a -r "$model" 2>/dev/null && ! $as test -w "$work/locked"; then
    for program in tools/vit-run tools/vit-embed; do
        option=--logits
        [ $program = tools/vit-embed ] && option=-o
        # shellcheck disable=SC2086 # words
        refused "a.npy: cannot be created: Permission denied" $as "$bin/$program" -m "$model" \
            $option "$work/locked/a.npy" $photo
        check "$([ "$(cat "$work/locked/a.npy")" = before ] && echo yes)" "the file has changed"
    done
    rm "$work"/deep/broken*
    mkdir -m 777 "$work/open"
    chmod 644 "$work/deep" # names, and nothing behind them
    # shellcheck disable=SC2086 # words
    refused "deep/cat.ppm: cannot be opened: Permission denied" $as "$bin/tools/vit-embed" \
        -m "$model" -o "$work/open/a.npy" "$work/deep"
else
    skip "a folder that is read-only" "who runs this may write anywhere"
fi
summary
