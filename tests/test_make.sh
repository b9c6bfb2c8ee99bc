#!/usr/bin/env bash
# The Makefile itself, in a copy whose commands are written down instead of run: on a machine where
# packages are missing each target does what it does where they are there; what was built with other
# flags is built anew, and nothing else.
set -u
. tests/checks.sh
make=$(command -v make)
tree=$work/tree log=$work/log
mkdir "$tree"
cp -r Makefile vit.h tools examples "$tree"
ln -s "$PWD/tests" "$PWD/models" "$tree"
"$make" -s -C "$tree" clean

# --- packages -----------------------------------------------------------------------------------

# The commands that the packages bring; make can look for nothing else of them.
commands=$(sed -n '/^demo=/,/^case/p' tools/install-packages.sh | grep -o ':[a-z][a-z0-9_-]*' | tr -d : | sort -u)
basic="cat cc cmp find grep mkdir nproc sed sh uname"

# Make's shell: it answers what make asks, installs, and writes down the rest.
cat >"$work/shell" <<END
#!/bin/sh
case \$2 in
command\ *|find\ *|nproc*|sed\ *|uname*) exec /bin/sh -c "\$2" ;;
esac
echo "\$2" >>"$log"
case \$2 in
*install-packages.sh*) for name in $(echo $commands); do /bin/ln -sf /bin/true "$work/bin/\$name"; done ;;
esac
END
chmod +x "$work/shell"

# said TARGET...: what make runs for it
said() {
    : >"$log"
    env -u MAKEFLAGS -u MAKELEVEL PATH="$work/bin" "$make" -j1 -s -C "$tree" SHELL="$work/shell" "$@" \
        >/dev/null 2>&1
    cat "$log"
}

installing=0
# same TARGET...: on a bare machine and on one that has all
same() {
    local first
    rm -rf "$work/bin"
    mkdir "$work/bin"
    for name in $basic; do ln -s "$(command -v "$name")" "$work/bin"; done
    first=$(said "$@")
    [[ $first == *install-packages.sh* ]] || return
    installing=$((installing + 1))
    said "$@" >"$work/second"
    check "make $*: the first time as the second" diff <(echo "$first") "$work/second"
}

for target in $("$make" -C "$tree" -pn help | sed -n 's/^\.PHONY://p'); do
    case $target in
    FORCE | all | clean | dist | help | install | libraries | uninstall) ;;
    *) same "$target" ;;
    esac
done
same test-web SUITES=firefox
same bench-programs NCNN=ncnn BENCH_FLAGS=--wasm
check "targets that install: $installing" test $installing -gt 20

# --- flags --------------------------------------------------------------------------------------

cat >"$work/cc" <<END
#!/bin/sh
echo "\$*" >>"$log"
while [ \$# -gt 1 ]; do [ "\$1" = -o ] && : >"\$2"; shift; done
END
chmod +x "$work/cc"

targets="tools/vit-info build/asan/tools/vit-info examples/classify build/lib/libvit.a
    examples/web/vit/vit-scalar.wasm build/wasi/tools/vit-convert.o"

# compiled WHAT ARGS...: makes $targets; the number of files compiled for each of them
compiled() {
    : >"$log"
    PATH="$work:$PATH" "$make" -s -C "$tree" CC="$work/cc" WASM_CC="$work/cc" "$@" $targets \
        >"$work/out" 2>"$work/err" || fail "make $*"
    cp "$work/err" "$work/said"
    for name in vit-info classify packaging/vit module.c vit-convert; do
        grep -c -- "[/ ]$name[. ]" "$log"
    done | tr '\n' ' '
}

ln -s cc "$work/clang"
all=$(compiled)
is() { check "$1: compiled $2, expected $3" test "$2" = "$3"; }
none="0 0 0 0 0 "
check "all are compiled: $all" test "${all/0/}" = "$all"
is "nothing has changed" "$(compiled)" "$none"
other=$(compiled CFLAGS=-O1)
check "other flags, native builds: $other" test "${other% * * }" = "${all% * * }"
check "make says so" grep -q '^new flags: build/plain is compiled anew$' "$work/said"
is "the same flags" "$(compiled CFLAGS=-O1)" "$none"
compiled >/dev/null
sed -i 's/^demo: .* ## 1: /&x/' "$tree/Makefile"
is "another text of help" "$(compiled)" "$none"
sed -i 's/^WARNINGS = /&-Wx /' "$tree/Makefile"
is "another warning" "$(compiled)" "$all"
sed -i 's/^WASM_FLAGS   = /&-Wy /' "$tree/Makefile"
check "another flag of WebAssembly" test "$(compiled | cut -d ' ' -f 4)" != 0
is "again" "$(compiled)" "$none"

summary
