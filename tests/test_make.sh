#!/usr/bin/env bash
# Tests the Makefile in a copy that records its commands instead of running them. Each target must
# run the same commands on a machine without packages as on a machine with them. A change of flags
# must rebuild only the affected files.
set -u
. tests/checks.sh
make=$(command -v make)
tree=$work/tree log=$work/log
mkdir "$tree"
cp -r Makefile vit.h tools examples "$tree"
ln -s "$PWD/tests" "$PWD/models" "$tree"
"$make" -s -C "$tree" clean

# --- packages -----------------------------------------------------------------------------------

# These are the commands that the packages install. make looks only for these.
commands=$(sed -n '/^demo=/,/^case/p' tools/install-packages.sh | grep -o ':[a-z][a-z0-9_-]*' | tr -d : | sort -u)
basic="cat cc cmp find grep mkdir nproc sed sh uname"

# This is a shell for make. It answers make's queries, but only records all other commands. If a
# command installs packages, the shell links the packages' commands to /bin/true.
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

# said TARGET...: prints the commands that make would run for these targets
said() {
    : >"$log"
    env -u MAKEFLAGS -u MAKELEVEL PATH="$work/bin" "$make" -j1 -s -C "$tree" SHELL="$work/shell" "$@" \
        >/dev/null 2>&1
    cat "$log"
}

installing=0
# same TARGET...: passes if make runs the same commands on a machine without packages as on a
# machine with all packages
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

# compiled ARGS...: makes $targets with these arguments of make. Prints how often each of five files
# was compiled
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

# --- the decoder of JPEGs -----------------------------------------------------------------------

# The simulated machine has no libjpeg-turbo. Programs link with it only if the file $work/installed
# exists. The substitute for apt-get makes this file, unless the simulated machine is offline.
mkdir "$work/bare"
for name in ar awk cat chmod cp date dirname find flock getconf grep ln ls make mkdir nproc od printf rm \
    sed sh sort tail touch tr uname wc; do ln -s "$(command -v $name)" "$work/bare"; done
cat >"$work/bare/cc" <<END
#!/bin/sh
case "\$*" in *-ljpeg*) echo "link \$*" >>"$log"; [ -e "$work/installed" ] || exit 1 ;; esac
while [ \$# -gt 1 ]; do [ "\$1" = -o ] && : >"\$2"; shift; done
END
cat >"$work/apt-get" <<END
#!/bin/sh
echo "apt-get \$*" >>"$log"
[ ! -e "$work/offline" ] || exit 100
case "\$*" in *" install "*libjpeg62-turbo-dev) touch "$work/installed" ;; esac
END
printf '#!/bin/sh\ncat "%s"\n' "$work/user" >"$work/bare/id"
chmod +x "$work/bare/cc" "$work/apt-get" "$work/bare/id"
sed -i "s|:/usr/include/jpeglib.h|:$work/installed|" "$tree/tools/install-packages.sh"

# built WHAT LIBS INSTALLED ARGS...: makes one program. The program must link with LIBS, and make
# must run apt-get INSTALLED times
built() {
    : >"$log"
    env -u MAKEFLAGS -u MAKELEVEL PATH="$work/bare" "$make" -s -C "$tree" PROGRAMS=tools/vit-info MODULES= \
        EXAMPLES= "${@:4}" >"$work/said" 2>&1 || fail "$1: make failed"
    check "$1: links with '$2'" test "$(cat "$tree/build/plain/libs")" = "$2"
    check "$1: apt-get runs $3 times" test "$(grep -c '^apt-get ' "$log")" = "$3"
}
# afresh USER: restores a state with nothing built or installed
afresh() {
    rm -rf "$tree/build" "$tree/tools/vit-info" "$work/installed"
    mkdir -p "$tree/build/plain"
    echo "$1" >"$work/user"
}
none='no libjpeg-turbo (Debian: libjpeg62-turbo-dev): stb_image decodes JPEGs, at half the speed'
says() { # one line
    check "make says '$1'" test "$(cat "$work/said")" = "$1"
}

afresh 0
built "no apt" '' 0
says "$none"
mv "$work/apt-get" "$work/bare"
built "a build that has decided" '' 0
afresh 1000
built "no root" '' 0
afresh 0
built "root, DECODER=stb" '' 0 DECODER=stb
afresh 0
built "another compiler" '' 0 CC="$work/bare/cc"
afresh 0
built "one target" '' 0 tools/vit-info
afresh 0
built root -ljpeg 2
says 'Installing from Debian: libjpeg62-turbo-dev'
built "it is there" -ljpeg 0
built DECODER=stb '' 0 DECODER=stb
built "no DECODER" -ljpeg 0
afresh 0
touch "$work/offline"
built offline '' 1
check "it says why not" grep -qF "$none" "$work/said"
built "offline, again" '' 0
rm "$work/offline"

summary
