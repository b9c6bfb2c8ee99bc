#!/usr/bin/env bash
# Tests README's statements about the build: its programs compile by the printed commands, and
# classify photos; the links of all pages resolve; `make help` and `make install` work; a program
# elsewhere uses an installed header and model.
set -u
. tests/built.sh programs
. tests/checks.sh

# block LANGUAGE N: prints the Nth block of code in that language from README.md
block() {
    awk -v fence='```'"$1" -v wanted="$2" '
        $0 == "```" { inside = 0 }
        inside
        $0 == fence { inside = ++seen == wanted }' README.md
}

# printed START: prints README.md's command that begins with START
printed() { sed -n "s/^\$ \($1.*\)/\1/p" README.md; }

# A user's folder has README's files, vit.h, the photo and the model, and nothing else.
mkdir "$work/user" "$work/elsewhere"
cp vit.h "$work/user"
ln -s "$PWD/examples" "$PWD/models" "$work/user"
ln -s "$PWD/examples" "$PWD/models" "$work/elsewhere"
block c 1 >"$work/user/hello.c"
block cmake 1 >"$work/user/CMakeLists.txt"
cp "$work/user/hello.c" "$work/elsewhere"

check "README's program compiles against vit.h and stb_image.h, with no flags" \
    sh -c "cd '$work/user' && cc hello.c -o hello -lm"
check "it classifies the cat" \
    sh -c "cd '$work/user' && ./hello | grep '^cat, 82.4 %$' && ./hello examples/cat.ppm | grep '^cat, 78.8 %$'"
for bad in no.jpg models/cifar10-vit.vit; do
    check "it says why not: $bad" sh -c "cd '$work/user' && { ./hello $bad >said; [ \$? = 1 ]; } && grep '[a-z]' said"
done
check "it says what it wants" sh -c "cd '$work/elsewhere' && rm models && { '$work/user/hello' >said; [ \$? = 1 ]; } &&
    grep '^models/cifar10-vit.vit: cannot be opened: No such file or directory$' said; ln -s '$PWD/models' ."
check "README's command for it" \
    sh -c "cd '$work/user' && $(printed 'cc -O2 hello') | grep '^cat, 82.4 %$'"
if have cmake "README's CMakeLists.txt"; then
    check "README's CMakeLists.txt builds, optimised" \
        sh -c "cd '$work/user' && cmake -B out && cmake --build out -v >log && grep -- -O3 log"
    check "its program works" \
        sh -c "cd '$work/user' && out/hello | grep '^cat, 82.4 %$'"
fi

# README fetches a model of timm. In this test, a smaller model with random weights replaces it, and
# a folder replaces the server.
mkdir -p "$work/model/photos"
ln -s "$PWD/tools" "$work/model"
tiny=$work/model/mirror/timm/deit_tiny_patch16_224.fb_in1k/resolve/main
mkdir -p "$tiny"
cp examples/cat.jpg "$work/model/photo.jpg"
cp examples/cat.jpg examples/cat.ppm "$work/model/photos"
cc -O2 -std=c99 tests/random_checkpoint.c -o "$work/model/random" -lm
"$work/model/random" "$tiny/model.safetensors" dim=192 depth=12 mlp=768 patch=16 rows=14 cols=14 classes=1000
for start in get classify embed search; do
    block console 4 | sed -n "s/^\$ \(tools\/vit-$start .*\)/\1/p" | head -n 1
done | sed 's/vit-get vit_small_patch16_224[^ ]*/vit-get deit_tiny_patch16_224.fb_in1k/' >"$work/model/commands"
if have curl "README's commands for a model of timm's"; then
    check "README's four commands for a model of timm's" sh -c "cd '$work/model' && [ \$(grep -c . commands) = 4 ] &&
        VIT_MIRROR=file://\$PWD/mirror sh -e commands >said && grep -c '^ *[0-9.]* %' said | grep '^5$' && grep 'photos/cat.jpg$' said"
fi

# README downloads CLIP for words. In this test, tiny encoders replace CLIP; their tensors have
# transformers' names. The encoders take the name of another publisher's CLIP, because vit-get has
# the checksum of CLIP's own weights and would refuse the encoders.
words=CLIP-ViT-B-32-laion2B-s34B-b79K
mkdir -p "$work/words/mirror/laion/$words/resolve/main"
ln -s "$PWD/tools" "$work/words"
cp tests/data/text/hf_clip/model.safetensors tests/data/text/hf_clip/config.json \
    tests/data/text/tokenizer/* "$work/words/mirror/laion/$words/resolve/main"
for file in preprocessor_config tokenizer_config; do
    echo '{}' >"$work/words/mirror/laion/$words/resolve/main/$file.json"
done
cp examples/cat.jpg "$work/words/photo.jpg"
ln -s "$PWD/examples" "$PWD/models" "$work/words"
block console 3 | sed "s/^\\$ //; s/^make && //; s/vit-get clip-vit-base-patch32/vit-get $words/" >"$work/words/commands"
sed -i '/vit-search/i tools/vit-embed -m clip.vit photo.jpg -o photos.npy -q' "$work/words/commands"
if have curl "README's commands with words"; then
    check "README's commands with words" sh -c "cd '$work/words' && [ \$(grep -c . commands) = 4 ] &&
        VIT_MIRROR=file://\$PWD/mirror sh -e commands >said && grep '^ *[0-9.]* %  an empty street$' said && grep '^-*0\.[0-9]*  photo.jpg$' said"
fi

# dead PAGE: prints links of the page to missing files (relative to its folder) and missing
# headings; fails if there are any
dead() {
    local link file heading
    sed 's/](/\n&/g' "$1" | sed -n 's/^](\([^)]*\)).*/\1/p' | grep -v '^https:' | while read -r link; do
        file=$(dirname "$1")/${link%%#*} heading=${link#*#}
        [ "${link%%#*}" ] || file=$1
        [ -e "$file" ] || echo "$link: no such file"
        [ "$heading" = "$link" ] || sed -n 's/^#\{1,6\} //p' "$file" | tr '[:upper:]' '[:lower:]' |
            sed 's/[^a-z0-9 _-]//g; s/ /-/g' | grep -qxF -- "$heading" || echo "$link: no such heading"
    done | { ! grep .; }
}
for page in $(find . -path ./build -prune -o -name node_modules -prune -o -name '*.md' -print); do
    check "the links of $page" dead "$page"
done
printf '%s\n' '# A heading' '[1](README.md) [2](#a-heading) [3](none.md) [4](#none)' >"$work/README.md"
check "dead links are found" sh -c "[ \"\$(cat)\" = 'none.md: no such file
#none: no such heading' ]" < <(dead "$work/README.md")

# This is as on a machine without stb_image. make's variable STB names a folder with its headers.
mkdir -p "$work/tree" "$work/stb"
ln -s "$PWD"/{Makefile,vit.h,tools,examples} "$work/tree"
check "no stb_image.h: one line, no compiler's error" sh -c "cd '$work/tree' &&
    : >'$work/stb/stb_image.h' && { ! make -s STB= CPPFLAGS=-nostdinc build/plain/tools/picture/stb.o 2>said; } && ! grep fatal said &&
    [ \$(grep -vc '^make' said) = 1 ] && grep 'libstb-dev.*make STB=DIR' said"
ln -s "$PWD"/tests "$work/tree"
for target in all install libraries soak abi windows "build/nocc/stb TARGET=nocc"; do
    check "no compiler, make $target: one line, which names it" sh -c "cd '$work/tree' &&
        { ! make -s CC=no_such_cc WINDOWS='TARGET=windows CC=no_such_cc' $target 2>said; } && cat said &&
        [ \$(grep -vc '^make' said) = 1 ] && grep 'no compiler called no_such_cc.*Debian: gcc' said"
done
echo 'int the_headers_of_STB = ;' >"$work/stb/stb_image_write.h"
check "STB lacks a header: a line names the folder" sh -c "cd '$work/tree' &&
    make -s STB='$work/stb' CPPFLAGS=-nostdinc build/plain/tools/picture/stb.o 2>&1 |
        grep '^$work/stb lacks .*stb_easy_font.h'"
: >"$work/stb/stb_easy_font.h"
for variant in plain asan tsan windows; do
    check "STB=DIR, $variant" sh -c "cd '$work/tree' && make -s STB='$work/stb' TARGET=windows CPPFLAGS=-DSTB \
        build/$variant/tools/picture/stb.o 2>&1 | grep 'the_headers_of_STB'"
done
check "STB=DIR, WebAssembly" sh -c "make -n STB='$work/stb' -W tools/checkpoint/inflate.c \
    build/wasi/tools/checkpoint/inflate.o | grep -e '-isystem build/stb'"
mkdir -p "$work/bare/tests"
ln -s "$PWD/Makefile" "$work/bare"
ln -s "$PWD"/tests/{built,checks,test_own}.sh "$work/bare/tests"
check "a test of programs that are not built says so" sh -c "cd '$work/bare' && unset BUILT BIN &&
    export MAKELEVEL=1 && # a sub-make prints the folders in which it works
    { bash tests/test_own.sh 2>said; [ \$? = 2 ]; } && [ \$(wc -l <said) = 1 ] && grep 'make all' said"
check "so does one of programs elsewhere" sh -c "unset BUILT && { BIN='$work/none' \
    bash tests/test_own.sh 2>'$work/said'; [ \$? = 2 ]; } && grep 'is missing' '$work/said'"
check "run.sh finds no such test" sh -c "{ bash tests/run.sh no_such_test 2>'$work/said'
    [ \$? = 2 ]; } && grep 'begins with: no_such_test' '$work/said'"

check "make help lists demo" sh -c "make help | grep '^  make demo  *[a-z]'"
check "make install" sh -c "umask 077; make -s install PREFIX='$work/usr'"
check "all that is installed is readable for all" \
    sh -c "[ -z \"\$(find '$work/usr' -not -type l \( -not -perm -444 -o -type d -not -perm -555 \))\" ]"
check "the installed header compiles" \
    sh -c "echo '#include <vit.h>' | cc -std=c99 -I'$work/usr/include' -x c -fsyntax-only -"
check "pkg-config file names version and folder" \
    sh -c "grep '^Version: [0-9]' '$work/usr/share/pkgconfig/vit.pc' && grep '^prefix=$work/usr' '$work/usr/share/pkgconfig/vit.pc'"
if have pkg-config "README's command with it"; then
    # shellcheck disable=SC2016 # the backquotes are README's
    line=$(sed -n 's/.*`\(cc -O2 .*pkg-config[^`]*\)`.*/\1/p' README.md)
    check "README's command with pkg-config" \
        sh -c "cd '$work/elsewhere' && PKG_CONFIG_PATH='$work/usr/share/pkgconfig' && \
            export PKG_CONFIG_PATH && $line && ./hello | grep '^cat, 82.4 %$'"
fi
check "the programs are stripped" sh -c "! readelf -S '$work'/usr/bin/* '$work'/usr/lib/libvit.so.*.* |
    grep -q '\.debug_info'"
check "the licence is there" diff LICENSE "$work/usr/share/doc/vit/LICENSE"
for program in "$work"/usr/bin/*; do
    check "it calls itself $(basename "$program")" \
        sh -c "'$program' --version | grep '^$(basename "$program") (vit.h '"
done
: >"$work/usr/share/vit/mine.vit"
check "the installed classifier finds its model from anywhere" \
    sh -c "cp examples/cat.jpg '$work' && cd / && '$work/usr/bin/vit-classify' '$work/cat.jpg' | grep cat"
check "make uninstall leaves nothing but others' files" sh -c "make -s uninstall PREFIX='$work/usr' &&
    [ \"\$(find '$work/usr' -type f)\" = '$work/usr/share/vit/mine.vit' ]"

summary
