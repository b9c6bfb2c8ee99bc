#!/usr/bin/env bash
# Tests the examples that need only vit.h and stb_image.h. The commands in the first comment of an
# example must compile it against an installed copy, as C99 and as C++17, without a warning. The
# example must print the output in that comment, and refuse wrong input. With BIN=build/asan, the
# examples run under the sanitizers instead. Arguments such as `hello.c` choose examples. The last
# line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 2
bin=${BIN:-.}
if [ "$bin" = . ]; then . tests/built.sh all libraries; else . tests/built.sh programs; fi
. tests/checks.sh
root=$PWD
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wcast-align
    -Wcast-qual -Wdouble-promotion -Wvla -Werror -Wno-unused-command-line-argument"
export ASAN_OPTIONS=detect_leaks=0 # after an error, a program ends without freeing memory

# --- an installed copy, and compilers that take flags from $FLAGS --------------------------------------

printf '#define STB_IMAGE_IMPLEMENTATION\n#include <stb/stb_image.h>\n' >"$work/stb.c"
check "stb_image.h compiles" "${CC:-cc}" -O2 ${STB:+-isystem build/stb} -c "$work/stb.c" -o "$work/stb.o"
if [ "$bin" = . ]; then
    check "make install" make -s install DESTDIR="$work" PREFIX=/usr
    include=$work/usr/include programs=$work/usr/bin library=$work/usr/lib/libvit.a sanitize=
else
    include=$root:$root/tools/packaging/cpp programs=$root/$bin/tools library=$root/$bin/tools/base/vit.o
    sanitize="-O1 -g -fsanitize=address,undefined"
fi
[ -z "${STB-}" ] || include=$include:$root/build/stb
export C_INCLUDE_PATH=$include CPLUS_INCLUDE_PATH=$include
mkdir "$work/compilers"
cpp=
have "${CXX:-c++}" "examples in C++17" && cpp=yes
for compiler in "cc ${CC:-cc}" ${cpp:+"c++ ${CXX:-c++}"}; do
    # shellcheck disable=SC2016 # the script written here expands them
    printf '#!/bin/sh\nPATH="%s" exec %s $FLAGS "$@"\n' "$PATH" "$(command -v "${compiler#* }")" \
        >"$work/compilers/${compiler% *}"
done
chmod +x "$work"/compilers/*
export PATH=$work/compilers:$programs:$PATH

# --- the first comment ----------------------------------------------------------------------------

# comment FILE: prints the text of the first comment
comment() {
    case $1 in
    *.py) sed -n '2,/"""$/{ s/^"""//; s/"""$//; p; }' "$1" ;;
    *) sed -n '/^#/q; s/^\( \*\|\/\/\|\/\*\) \{0,1\}//p' "$1" ;;
    esac
}
# builds FILE: prints the commands that build FILE. shows FILE: prints the commands whose output its
# comment contains. prints FILE: prints this output
builds() { comment "$1" | sed -n 's/^    \(\(cc\|c++\|make\|vit-convert\) .*\)/\1/p'; }
shows() { comment "$1" | sed -n 's/^    \$ \(.*\)/\1/p'; }
prints() {
    comment "$1" | awk '/^    [$] / { on = 1; next } !/^    / { on = 0 } on { print substr($0, 5) }'
}

# alike FOUND EXPECTED: passes if both have the same lines, in any order. The last digit of a number
# may differ by one
alike() {
    [ -s "$2" ] && paste -d '\n' <(sort "$1") <(sort "$2") | awk '
        function differ(a, b) {
            if (a == b) return 0
            sub(/[,:]$/, "", a) && sub(/[,:]$/, "", b)
            if (a !~ /^-?[0-9]+([.][0-9]+)?$/ || b !~ /^-?[0-9]+([.][0-9]+)?$/) return 1
            digits = b ~ /[.]/ ? length(b) - index(b, ".") : 0
            return (a - b) * (a - b) > 1.1 / 100 ^ digits
        }
        NR % 2 { n = split($0, found); next }
        n != split($0, expected) { exit 1 }
        { for (i = 1; i <= n; i++) if (differ(found[i], expected[i])) exit 1 }'
}

# --- each example -----------------------------------------------------------------------------------

# in_folder COMMAND: runs the command by a shell in the folder of the example
in_folder() { (cd "$folder" && FLAGS=${FLAGS-} bash -c "$1"); }

# compiles FILE: runs the commands of its first comment. hello.c and small.c compile the
# implementation. To save time, all other examples link an object file of the implementation.
compiles() {
    local command in_c in_cpp
    in_c="-std=c99 $warnings -Wstrict-prototypes -Wmissing-prototypes -fsyntax-only"
    in_cpp="-std=c++17 -x c++ $warnings -Wno-missing-field-initializers -fsyntax-only"
    mkdir "$folder"
    ln -s "$root"/{examples,models,build} "$folder"
    case $bin:$1 in
    .:hello.c* | *:small.c) cp "examples/$1" "$folder" ;;
    *) sed '/^#define \(VIT\|STB_IMAGE\)_IMPLEMENTATION$/d' "examples/$1" >"$folder/$1" ;;
    esac
    builds "examples/$1" >"$work/commands"
    check "$1 says how it is built" test -s "$work/commands"
    while read -r command; do
        case $command in
        vit-convert*)
            check "$1: $command" in_folder "$command"
            continue
            ;;
        *-fopenmp*)
            in_folder 'echo "int main(void) { return 0; }" | cc -fopenmp -x c - -o t' 2>/dev/null ||
                { skip "$1" "no OpenMP here" && return 1; }
            ;;
        esac
        if [ "$bin" = . ]; then
            [[ $1 = *.cpp ]] || FLAGS=$in_c check "$1 in C99" in_folder "$command"
            [ -z "$cpp" ] || FLAGS=$in_cpp check "$1 in C++17" in_folder "c++ ${command#* }"
        fi
        case $bin:$1 in
        .:hello.c | *:small.c) ;;
        .:hello.cpp) sed -i '/_IMPLEMENTATION$/d' "$folder/$1" ;;&
        *) command=${command/ $1/ $1 $work/stb.o $library} ;;
        esac
        FLAGS=$sanitize check "$1: $command" in_folder "$command"
    done <"$work/commands"
}

# shown FILE: passes if the commands print the output in the comment of FILE
shown() {
    shows "examples/$1" >"$work/commands"
    prints "examples/$1" >"$work/expected"
    check "$1 says what it prints" test -s "$work/commands"
    tried=$(cat "$work/commands")
    in_folder "$tried" >"$work/out" 2>&1 </dev/null
    : >"$work/err"
    if alike "$work/out" "$work/expected"; then pass; else fail "$1 does not print what it shows"; fi
}

# refuses STATUS TEXT COMMAND: passes if the command exits with STATUS, prints TEXT on stderr, and
# prints nothing on stdout
refuses() {
    try in_folder "./$3"
    is "$1"
    quiet out
    if grep -qF -- "$2" "$work/err"; then pass; else fail "the message lacks '$2'"; fi
}

headless=$work/headless.vit model=models/cifar10-vit.vit
check "a model without classes" vit-convert -q tests/data/fixtures/headless/model.pth -o "$headless"
head -c 1000 $model >"$work/cut.vit"
printf 'P6\n4 4\n255\nshort' >"$work/short.ppm"

refuses_models() { # NAME [WORDS]: tries wrong models; WORDS follow the model
    refuses 1 "no.vit: can" "$1 no.vit ${2-}"
    refuses 1 "cat.jpg: " "$1 examples/cat.jpg ${2-}"
    refuses 1 "cut.vit: " "$1 $work/cut.vit ${2-}"
}
refuses_photos() { # COMMAND [WORDS]: tries wrong photos between COMMAND and WORDS
    refuses 1 "no.jpg: can't fopen" "$1 no.jpg ${2-}"
    refuses 1 "examples/cat.txt: unknown image type" "$1 examples/cat.txt ${2-}"
}

for file in examples/*.c examples/*.cpp examples/*.py; do
    name=$(basename "$file")
    wanted "$name" || continue
    limit=60
    case $name in classify.c) limit=80 ;; learn_vit.c) limit=230 ;; esac
    check "$name has at most $limit lines" test "$(wc -l <"$file")" -le $limit
    check "$name includes nothing but vit.h and stb_image.h" sh -c "! grep '#.*include *\"' $file |
        grep -v -e '\"vit.h\"' -e '\"vit.hpp\"' -e '\"model.h\"' && ! grep '#.*include.*/' $file | grep -v '<stb/stb_image.h>'"
    row="^| \[$name\]($name) | $(wc -l <"$file") | .* | \`$(builds "$file" | tail -n 1)\` |$"
    check "examples/README.md has the row $row" grep -q -- "$row" examples/README.md
    folder=$work/$name
    if [ "$name" = hello.py ]; then
        [ "$bin" = . ] || continue
        have python3 "$name" || continue
        folder=$root
    else
        [[ $cpp || $name != *.cpp ]] || continue
        compiles "$name" || continue
    fi
    shown "$name"
    program=${name%.*}
    case $name in
    attention.c | batch.c | executor.c | hello.c | hello.cpp | learn_vit.c | memory.c | similar.c | \
        threads.c)
        refuses 2 "usage: $program MODEL.vit PHOTO" "$program"
        again=
        [ "$name" != similar.c ] || again=" examples/cat.jpg"
        refuses_models "$program" "examples/cat.jpg$again"
        refuses_photos "$program $model$again"
        ;;&
    batch.c | executor.c | hello.c | hello.cpp | learn_vit.c | memory.c | threads.c)
        refuses 1 "the model names no classes" "$program $headless examples/cat.jpg"
        ;;&
    learn_vit.c)
        make_model() { # NAME CLASSES OPTION...: a small model of PyTorch's
            local path=$root/tests/data/fixtures/$1/model
            [ -e "$path.pth" ] || path+=_legacy
            in_folder "seq $2 >labels && vit-convert -q $path.pth --labels labels ${*:3} -o $1.vit"
        }
        for made in "dist 13" "eps5 10" "nonsquare 10"; do
            # shellcheck disable=SC2086 # words
            check "a model: $made" make_model $made
            for photo in cat.jpg cat.ppm pictures/cat.png; do
                try in_folder "./learn_vit ${made% *}.vit examples/$photo"
                out '^largest difference from vit.h: 0\.00[01] %$'
            done
        done
        check "a model with LayerScale" make_model deit3 6
        refuses 1 "deit3.vit: expected a plain ViT or DeiT" "learn_vit deit3.vit examples/cat.jpg"
        check "a model in int8" make_model dist 13 --dtype int8
        refuses 1 "blocks.0.attn.qkv.weight: expected f32 or f16" "learn_vit dist.vit examples/cat.jpg"
        ;;
    words.c)
        refuses 2 "usage: words MODEL.vit PHOTO TEXT..." "words $model examples/cat.jpg"
        refuses_models words "examples/cat.jpg a"
        refuses_photos "words $model" a
        refuses 1 "the file has no text encoder" "$program $headless examples/cat.jpg a"
        try in_folder "./words $model examples/cat.jpg 'a lorry' 'an animal'"
        out '^ 99\.[0-9] %  an animal$'
        ;;
    similar.c)
        { printf 'P6\n32 32\n255\n' && head -c 3072 /dev/zero; } >"$folder/black.ppm"
        try in_folder "./similar $model examples/cat.jpg black.ppm"
        out '^0\.[0-8]'
        try in_folder "./similar $headless examples/cat.jpg examples/cat.jpg"
        out '^1\.000$'
        ;;
    classify.c)
        refuses 2 "usage: classify [-m MODEL.vit] PHOTO..." classify
        refuses 2 "usage: classify [-m MODEL.vit] PHOTO..." "classify -m $model"
        refuses_models "classify -m" examples/cat.jpg
        refuses_photos classify
        refuses 1 "the model has no classes, only embeddings" "classify -m $headless examples/cat.jpg"
        try in_folder "./classify examples/cat.ppm no.jpg examples/cat.jpg"
        is 1
        out '78\.8 %  cat'
        out '82\.4 %  cat'
        lines out 13
        ;;
    server.c)
        refuses 2 "usage: server MODEL.vit" server
        refuses_models server
        refuses 1 "the model names no classes" "server $headless"
        long=$(printf '%05000d' 0)
        try in_folder "printf '%s\r\n' '' $long . models examples/cat.jpg | ./server $model"
        is 0
        lines out 5
        out '^cat 0\.824'
        check "each request has one answer" test "$(grep -c '^error: .' "$work/out")" = 4
        try in_folder "echo examples/cat.jpg | ./server $model >/dev/full"
        is 1
        err 'the answers cannot be written'
        ;;
    camera.c)
        refuses 2 "usage: camera MODEL.vit rgb24|nv12" camera
        refuses_models camera "nv12 128 128 30"
        refuses 1 "the model names no classes" "camera $headless nv12 128 128 30"
        for size in "yuv 8 8" "nv12 7 8" "nv12 8 7" "nv12 0 8" "rgb24 -8 8" "rgb24 8 16386" "rgb24 x 8"; do
            refuses 2 "expected rgb24 or nv12" "camera $model $size 30"
        done
        refuses 1 "the input ends within a frame" "camera $model rgb24 128 128 30 <examples/cat.ppm >frames"
        # This is the cat in NV12 without its colours: a plane of brightness, and then a plane of
        # 128.
        tail -c 49152 examples/cat.ppm | od -An -v -tu1 -w3 |
            LC_ALL=C awk '{ printf "%c", 16 + (65.5 * $1 + 128.6 * $2 + 25 * $3) / 255 }' >"$folder/nv12"
        head -c 8192 /dev/zero | tr '\0' '\200' >>"$folder/nv12"
        try in_folder "cat nv12 nv12 nv12 | ./camera $model nv12 128 128 0"
        is 0
        lines out 3
        out '^frame 2: cat'
        try in_folder "cat nv12 nv12 nv12 | ./camera $model nv12 128 128 1e6"
        is 0
        lines out 1 # the other frames arrived during the first
        ;;
    small.c)
        try in_folder "head -c 1000 /dev/zero | ./small"
        is 0
        lines out 1
        if [ "$bin" = . ]; then
            check "small has no malloc" sh -c "! nm '$folder/small' | grep -w -e malloc -e fopen -e pthread_create"
        fi
        ;;
    hello.py)
        py="python3 -B examples/hello.py build/lib/libvit.so.2"
        "$bin/tools/vit-embed" -m $model -o "$work/e.npy" examples/cat.ppm 2>"$work/err"
        first=$(tail -c +129 "$work/e.npy" | od -An -tf4 -N4 | tr -d ' ')
        try $py $model examples/cat.ppm
        out "^embedding of 192 numbers, the first $(LC_ALL=C printf %.3f "$first")$"
        cp $model "$work/mod"$'\xe8'le.vit # a name that is not UTF-8
        try $py "$work/mod"$'\xe8'le.vit examples/cat.ppm
        out '^cat, 78\.8 %$'
        try $py
        is 2
        err '^usage: hello.py'
        try $py no.vit examples/cat.ppm
        is 1
        err '^no.vit: cannot be opened'
        try $py "$work/cut.vit" examples/cat.ppm
        is 1
        err 'cut.vit: '
        try $py $model "$work/short.ppm"
        is 1
        err 'short.ppm: not a whole PPM'
        try $py "$headless" examples/cat.ppm
        is 1
        err 'invalid argument'
        try python3 -B examples/hello.py no/lib.so $model examples/cat.ppm
        is 1
        err 'no/lib.so'
        lines err 1
        ;;
    esac
done
summary
