#!/usr/bin/env bash
# What the build promises: README's program compiles as it stands and classifies; `make help`
# and `make install` work; an installed header and model serve a program elsewhere.
set -u
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() { # check DESCRIPTION COMMAND...
    local what=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        cat "$work/out"
    fi
}

sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$work/readme.c"
check "README's program is examples/hello.c" diff "$work/readme.c" examples/hello.c

mkdir "$work/user"
cp vit.h "$work/user"
cp "$work/readme.c" "$work/user/hello.c"
check "it compiles against vit.h alone, with no flags" \
    sh -c "cd '$work/user' && cc hello.c -o hello"
check "it classifies the cat" \
    sh -c "'$work/user/hello' <examples/cat.ppm | grep '^cat,'"

check "make help lists demo" sh -c "make help | grep '^make demo'"
check "make install" make -s install PREFIX="$work/usr"
check "the installed header compiles" \
    sh -c "echo '#include <vit.h>' | cc -std=c99 -I'$work/usr/include' -x c -fsyntax-only -"
check "pkg-config file names version and folder" \
    sh -c "grep '^Version: [0-9]' '$work/usr/share/pkgconfig/vit.pc' && grep '^prefix=$work/usr' '$work/usr/share/pkgconfig/vit.pc'"
check "the installed classifier finds its model from anywhere" \
    sh -c "cp examples/cat.jpg '$work' && cd / && '$work/usr/bin/vit-classify' '$work/cat.jpg' | grep cat"
check "make uninstall leaves nothing" \
    sh -c "make -s uninstall PREFIX='$work/usr' && [ -z \"\$(find '$work/usr' -type f)\" ]"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
