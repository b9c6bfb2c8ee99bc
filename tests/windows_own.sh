#!/usr/bin/env bash
# windows_own.sh - runs tests for Windows alone, under Wine: names in Greek, paths of more than 260
# characters, files that another program has opened, full disks, lists with CR and LF, binary pipes.
# The programs must write the same files as on Linux, and CMake must find the DLL. tests/windows.sh
# runs this script. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
bin=$root/build/windows
linux=$root/build/nojpeg/tools # it decodes JPEGs by stb_image, as on Windows
export WINEPREFIX=${WINEPREFIX:-$PWD/build/cross/wine} WINEDEBUG=-all
wine=/usr/lib/wine/wine64
. tests/checks.sh

# try PROGRAM ARGUMENT...: runs the program. Its exit status is in $status, and its output is in the
# files $work/out and $work/err
try() {
    local program=$1
    shift
    tried="$program $*"
    $wine "$program" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
is() { if [ "$status" = "$1" ]; then pass; else fail "exit status $status, expected $1"; fi; }
out() { if grep -q -- "$1" "$work/out"; then pass; else fail "stdout lacks /$1/"; fi; }
err() { if grep -q -- "$1" "$work/err"; then pass; else fail "stderr lacks /$1/"; fi; }
same() { if cmp -s "$1" "$2"; then pass; else fail "$1 and $2 differ"; fi; }
none() { if [ -z "$(find . -name '*.tmp-*')" ]; then pass; else fail "a temporary file is left"; fi; }

# --- a folder named in Greek: the demo ----------------------------------------------------------

mkdir "$work/Εικόνες και μοντέλα"
cd "$work/Εικόνες και μοντέλα" || exit 2
for program in classify embed search look; do cp "$bin/tools/vit-$program.exe" .; done
cp "$bin/tools/vit-run.exe" "$bin/tools/vit-convert.exe" "$bin/tools/vit-info.exe" .
cp "$root/examples/cat.jpg" .
cp "$root/examples/cat.jpg" γάτα.jpg
cp "$root/models/cifar10-vit.vit" μοντέλο.vit
"$linux/vit-classify" -m μοντέλο.vit cat.jpg >linux
try vit-classify.exe -m μοντέλο.vit cat.jpg
is 0
same "$work/out" linux
try vit-classify.exe -m μοντέλο.vit γάτα.jpg
is 0
same "$work/out" linux
try vit-classify.exe -m μοντέλο.vit --json γάτα.jpg
out '"image": "γάτα.jpg"'
out '"label": "cat"'
try vit-classify.exe -m λείπει.vit γάτα.jpg
is 1
err '^vit-classify: λείπει.vit: cannot be opened: No such file or directory$'
try vit-classify.exe -m μοντέλο.vit λείπει.jpg
is 1
err 'λείπει.jpg'

# --- written files, whole and as on Linux -------------------------------------------------------

"$linux/vit-run" -m μοντέλο.vit γάτα.jpg --embedding linux.npy >linux 2>&1
try vit-run.exe -m μοντέλο.vit γάτα.jpg --embedding έξοδος.npy
is 0
same έξοδος.npy linux.npy
try vit-run.exe -m μοντέλο.vit γάτα.jpg --embedding έξοδος.npy # replaces it
is 0
same έξοδος.npy linux.npy
try vit-run.exe -m μοντέλο.vit γάτα.jpg --embedding 'νέος φάκελος/x.npy'
is 1
err 'νέος φάκελος/x.npy: cannot be created: No such file or directory'
try vit-run.exe -m μοντέλο.vit γάτα.jpg --embedding .
err ' is a folder$'
cp μοντέλο.vit αντίγραφο.vit
fixture=$root/tests/data/fixtures/plain/model.safetensors
cp "$fixture" βάρη.safetensors
cp "${fixture%/*}/config.json" .
try vit-convert.exe βάρη.safetensors -o ./βάρη.safetensors
is 1
err 'is an input, βάρη.safetensors: writing the output would destroy the input'
same βάρη.safetensors "$fixture"
for dtype in f32 int8; do
    "$root/tools/vit-convert" -q βάρη.safetensors --dtype $dtype -o linux.vit 2>linux
    try vit-convert.exe -q βάρη.safetensors --dtype $dtype -o windows.vit
    is 0
    same windows.vit linux.vit
done
none

# --- folders and lists ---------------------------------------------------------------------------

mkdir -p φωτογραφίες/μέσα
cp γάτα.jpg φωτογραφίες/α.jpg
cp γάτα.jpg φωτογραφίες/μέσα/β.JPG
echo text >φωτογραφίες/γ.txt
try vit-embed.exe -m μοντέλο.vit φωτογραφίες -o d.npy
is 0
same d.txt <(printf '%s\n' φωτογραφίες/α.jpg φωτογραφίες/μέσα/β.JPG)
printf 'φωτογραφίες/α.jpg\r\n\r\nφωτογραφίες\\μέσα\\β.JPG\r\n' >list
try vit-embed.exe -m μοντέλο.vit --list list -o l.npy
is 0
same <(sed 's/\\\\/\//g; s/^\\//' l.txt) d.txt
same l.npy d.npy
try vit-search.exe d.npy γάτα.jpg -m μοντέλο.vit
is 0
out ' φωτογραφίες/α.jpg$'
printf '\xff\xfe.jpg\n' >list # no UTF-8
try vit-embed.exe -m μοντέλο.vit --list list -o l2.npy
is 1
err 'its name is not UTF-8'

# --- long paths -----------------------------------------------------------------------------------

name=$(printf 'μ%.0s' {1..60})
long=$name/$name/$name/$name/$name # 300 characters, 600 bytes
mkdir -p "$long"
cp μοντέλο.vit γάτα.jpg "$long/"
try vit-classify.exe -m "$long/μοντέλο.vit" "$long/γάτα.jpg"
is 0
out ' cat$'
try vit-run.exe -m "$long/μοντέλο.vit" "$long/γάτα.jpg" --embedding "$long/x.npy"
is 0
same "$long/x.npy" linux.npy
try vit-embed.exe -m μοντέλο.vit "$long" -o long.npy
is 0
try vit-classify.exe -m "$long/λείπει.vit" γάτα.jpg
is 1
err "$name/λείπει.vit: cannot be opened: No such file or directory"

# --- open in another program ----------------------------------------------------------------------

# hold FILE: keeps FILE open until `release` is called
hold() {
    coproc HOLDER { $wine "$bin/tests/windows_hold.exe" "$1" 2>/dev/null; }
    read -r said <&"${HOLDER[0]}"
    tried="windows_hold $1"
    if [ "${said%$'\r'}" = open ]; then pass; else fail "$said"; fi
}
release() {
    local holder=$HOLDER_PID to=${HOLDER[1]}
    exec {to}>&-
    wait "$holder"
}
hold έξοδος.npy
try vit-run.exe -m μοντέλο.vit γάτα.jpg --embedding έξοδος.npy
is 1
err '^vit-run: έξοδος.npy: cannot be written: the file is open in another program$'
release
same έξοδος.npy linux.npy
none
hold αντίγραφο.vit
try vit-classify.exe -m αντίγραφο.vit γάτα.jpg
is 1
err '^vit-classify: αντίγραφο.vit: cannot be opened: the file is open in another program$'
release
hold γάτα.jpg
try vit-classify.exe -m μοντέλο.vit γάτα.jpg
is 1
err 'γάτα.jpg: cannot be opened: the file is open in another program$'
release
try vit-classify.exe -m μοντέλο.vit γάτα.jpg
is 0

# --- disks that are full, or read only -------------------------------------------------------------

mkdir disk
if mount -t tmpfs -o size=64k tmpfs disk 2>/dev/null; then # only root may
    echo before >disk/a.npy
    head -c 64k /dev/zero >disk/ballast 2>/dev/null # Wine reports no reason if a part still fits
    try vit-run.exe -m μοντέλο.vit γάτα.jpg --tokens disk/a.npy
    is 1
    err '^vit-run: disk/a.npy: cannot be written: No space left on device$'
    same disk/a.npy <(echo before)
    try vit-convert.exe -q βάρη.safetensors -o disk/x.vit
    is 1
    err '^vit-convert: disk/x.vit: cannot be written: No space left on device$'
    none
    mount -o remount,ro disk
    try vit-run.exe -m μοντέλο.vit γάτα.jpg --logits disk/a.npy
    is 1
    err '^vit-run: disk/a.npy: cannot be created: Permission denied$'
    same disk/a.npy <(echo before)
    umount disk
else
    skip "a full disk" "no file system can be mounted here"
fi

# --- pipes ----------------------------------------------------------------------------------------

tried='classify -'
$wine vit-classify.exe -m μοντέλο.vit - <cat.jpg 2>"$work/err" | cut -c1-12 >"$work/out"
same "$work/out" <("$linux/vit-classify" -m μοντέλο.vit cat.jpg | cut -c1-12)
tried='vit-run --embedding -'
$wine vit-run.exe -m μοντέλο.vit cat.jpg --embedding - 2>"$work/err" >"$work/out"
same "$work/out" linux.npy
tried='classify --frames'
"$linux/vit-classify" -m μοντέλο.vit --frames auto - <cat.jpg 2>/dev/null | sed 's/,* [0-9.]* ms.*//' >linux
cat cat.jpg | $wine vit-classify.exe -m μοντέλο.vit --frames auto - 2>"$work/err" |
    sed 's/,* [0-9.]* ms.*//' >"$work/out"
same "$work/out" linux

# --- a program of one file, and the compiled library -------------------------------------------------

mingw=x86_64-w64-mingw32-gcc
cd "$root" || exit 2
check "hello.c compiles" $mingw -std=c99 -O2 -I. -isystem build/stb examples/hello.c -static -o "$work/hello.exe"
try "$work/hello.exe" models/cifar10-vit.vit examples/cat.ppm
out '^cat, 78.8 %'
if command -v cmake >/dev/null; then
    windows="-DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$mingw"
    # shellcheck disable=SC2086 # words
    {
        check "the library configures" cmake -S tools/packaging/cmake -B "$work/library" $windows \
            -DCMAKE_INSTALL_PREFIX="$work/usr"
        check "the library builds" cmake --build "$work/library"
        check "the library installs" cmake --install "$work/library"
    }
    x86_64-w64-mingw32-objdump -p "$work/usr/bin/libvit.dll" |
        sed -n 's/^\t\[ *[0-9]*\] \([a-z]\)/\1/p' >"$work/symbols"
    tried='symbols of libvit.dll'
    same "$work/symbols" <(sed -n 's/^symbol //p' tests/abi/list.txt)
    mkdir "$work/consumer"
    cp tests/packages/find/CMakeLists.txt tests/packages/main.c "$work/consumer"
    for target in vit static shared; do
        # shellcheck disable=SC2086 # words
        check "vit::$target is found" cmake -S "$work/consumer" -B "$work/$target" $windows \
            -DCMAKE_PREFIX_PATH="$work/usr" -DLANGUAGE=C -DTARGET=vit::$target
        check "a program builds with vit::$target" cmake --build "$work/$target"
        cp "$work/usr/bin/libvit.dll" "$work/$target/"
        try "$work/$target/consumer.exe" models/cifar10-vit.vit
        out '^cat, one of 10'
    done
fi
summary
