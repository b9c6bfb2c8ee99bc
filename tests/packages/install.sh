#!/usr/bin/env bash
# install.sh [short] - builds programs against an installed copy of vit.h, in each way that
# tools/packaging offers, in C and in C++, and runs them. The programs are built in a separate
# folder and a clean environment, and must not contain the path of this tree. `make test-more` runs
# the short part.
set -u
cd "$(dirname "$0")/../.."
. tests/checks.sh
tree=$PWD
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
model=$work/model.vit
clean="env -i PATH=$PATH HOME=$work"
short=${1-}
cp models/cifar10-vit.vit "$model"

if ! have cmake "all of it" || ! have pkg-config "all of it"; then
    summary
    exit
fi

refused() { # WHAT TEXT COMMAND...: passes if the command fails and prints TEXT
    local what=$1 text=$2
    shift 2
    tried=$*
    if ! "$@" >"$work/out" 2>"$work/err" && cat "$work/out" "$work/err" | tr -s ' \n' ' ' |
        grep -qF -- "$text"; then pass; else fail "$what"; fi
}

runs() { [ "$("$@" "$model")" = "cat, one of 10" ]; }

# project NAME WAY LANGUAGE: copies tests/packages/WAY with its program to $work/NAME
project() {
    local source=main.c
    [ "$3" = CXX ] && source=main.cpp
    mkdir -p "$work/$1"
    cp "tests/packages/$2/CMakeLists.txt" "tests/packages/$source" "$work/$1"
}

# builds NAME WAY LANGUAGE TARGET FLAGS...: builds the project with CMake and runs it
builds() {
    local name=$1 language=$3 target=$4
    project "$name" "$2" "$language"
    shift 4
    check "$name: configures" $clean cmake -S "$work/$name" -B "$work/$name/out" \
        -DLANGUAGE="$language" -DTARGET="$target" "$@"
    check "$name: builds" $clean cmake --build "$work/$name/out"
    check "$name: runs" runs $clean "$work/$name/out/consumer"
    [ "${name#tree}" != "$name" ] ||
        check "$name: does not know $tree" sh -c "! grep -rIlF '$tree' '$work/$name/out'"
}

# --- an installed copy, moved ------------------------------------------------------------------

check "make install" make -s install DESTDIR="$work/stage" PREFIX=/opt/vit
mv "$work/stage/opt/vit" "$work/usr"
find "$work/usr/lib" "$work/usr/share" | sort >"$work/installed"

# --- the programs, their man pages and completions ----------------------------------------------

share=$work/usr/share
for program in "$work"/usr/bin/vit-*; do
    name=${program##*/}
    check "$name: no symbols" sh -c "! nm '$program' 2>/dev/null | grep ."
    page=$share/man/man1/$name.1
    check "$name.1: the version" grep -qF "\"vit.h $version\"" "$page"
    check "$name: options of --help in $name.1" sh -c \
        "for option in \$('$program' --help | sed -n 's/^  .*--\([a-z0-9-]*\).*/\1/p' | sort -u); do
            sed 's/\\\\-/-/g' '$page' | grep -qF -- \"--\$option\" || exit 1; done"
    check "_$name" grep -qx "#compdef $name" "$share/zsh/site-functions/_$name"
done
if have mandoc "what mandoc says of the man pages"; then
    for page in "$share"/man/man1/*; do
        check "${page##*/}: mandoc" sh -c "! mandoc -T lint -W warning '$page' | grep ."
    done
fi
if have man "the man pages by man"; then
    check "man vit-embed" sh -c "MANWIDTH=90 man -l '$share/man/man1/vit-embed.1' | grep -q 'Writes the embedding of each IMAGE'"
fi
offers() { # EXPECTED WORDS...: passes if bash offers exactly EXPECTED for the last word
    local expected=$1 found
    shift
    tried=$*
    # shellcheck disable=SC2016 # for bash
    found=$(cd "$work/photos" && bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "_${1//-/_}"; echo "${COMPREPLY[*]}"' "$share/bash-completion/completions/$1" "$@" 2>&1)
    if [ "$found" = "$expected" ]; then pass; else fail "offers '$found', expected '$expected'"; fi
}
mkdir "$work/photos"
cp examples/cat.jpg "$work/photos/a cat.jpg"
offers '--img-size' vit-classify --im
offers '--keep-download' vit-get --ke
offers '-m' vit-embed -m
offers 'a cat.jpg' vit-classify a
offers 'a cat.jpg' vit-embed --list a
offers '' vit-embed --threads a
offers 'tokens' vit-look to
offers '--foreground' vit-look tokens --fo
if have zsh "zsh's completions"; then
    for file in "$share"/zsh/site-functions/*; do check "${file##*/}" zsh -n "$file"; done
fi
check "an installed program finds its model" $clean "$work/usr/bin/vit-classify" examples/cat.jpg

# A user without root installs the built programs; uninstall removes everything.
home=$work/home
as=()
mkdir "$home"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chown 65534 "$home"
    chmod 755 "$work"
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
local_make() { "${as[@]}" env HOME="$home" make -s "$1" PREFIX="$home/.local"; }
if [ ${#as[@]} = 0 ] || "${as[@]}" test -r "$tree/Makefile"; then
    check "make install PREFIX=~/.local" local_make install
    check "vit-classify of ~/.local" "${as[@]}" "$home/.local/bin/vit-classify" examples/cat.jpg
    check "man page of ~/.local" test -s "$home/.local/share/man/man1/vit-classify.1"
    check "make uninstall" local_make uninstall
    check "nothing is left" sh -c "! find '$home/.local' -type f -o -type l | grep ."
fi

# --- CMake and pkg-config -----------------------------------------------------------------------

find_vit="-DCMAKE_PREFIX_PATH=$work/usr"
builds find-static-C find C vit::static "$find_vit"
builds find-shared-CXX find CXX vit::shared "$find_vit"
project wanted find C
wanted() { # WORDS...
    local IFS=';' # a list, for CMake
    local words="$*"
    unset IFS
    $clean cmake -S "$work/wanted" -B "$work/wanted/out" -DLANGUAGE=C -DTARGET=vit::static \
        "$find_vit" "-DWANTED=$words"
}
check "find_package(vit $version)" wanted "$version"
check "find_package(vit ${version%.*})" wanted "${version%.*}"
check "find_package(vit, components)" wanted COMPONENTS static shared vit
refused "find_package(vit 99)" "requested version \"99\"" wanted 99
refused "find_package(vit 0.0.1)" "requested version \"0.0.1\"" wanted 0.0.1
refused "find_package(vit) of another kind" "installed without vit::framework" wanted COMPONENTS framework

pc() { $clean PKG_CONFIG_PATH="$work/usr/share/pkgconfig:$work/usr/lib/pkgconfig" \
    pkg-config --define-variable=prefix="$work/usr" --define-variable=libdir="$work/usr/lib" "$@"; }
check "vit.pc, libvit.pc: versions" \
    sh -c "[ '$(pc --modversion vit libvit | uniq)' = '$version' ]"
# shellcheck disable=SC2046 # words
pc_builds() { # OUTPUT SOURCE FLAGS... -- PKG-CONFIG'S WORDS...
    local output=$1 compiler=cc source=$2 flags=()
    case $source in *.cpp) compiler=c++ ;; esac
    shift 2
    while [ "$1" != -- ]; do flags+=("$1") && shift; done
    shift
    check "$output compiles" $clean $compiler -O2 "$work/$source" "${flags[@]}" $(pc "$@") \
        -o "$work/$output"
}
cp tests/packages/main.c tests/packages/main.cpp "$work"
pc_builds pc-static main.c -static -- --static --cflags --libs libvit
check "pc-static runs" runs $clean "$work/pc-static"
pc_builds pc-shared main.cpp -- --cflags --libs libvit
check "pc-shared runs" runs $clean LD_LIBRARY_PATH="$work/usr/lib" "$work/pc-shared"
refused "pc-shared without its library names it" libvit.so.2 $clean "$work/pc-shared" "$model"
if [ "$short" = short ]; then
    summary
    exit
fi

# --- header-only, from the installed copy and from the tree ----------------------------------------

pc_builds pc-static-cxx main.cpp -static -- --static --cflags --libs libvit
check "pc-static-cxx runs" runs $clean "$work/pc-static-cxx"
pc_builds pc-shared-c main.c -- --cflags --libs libvit
check "pc-shared-c runs" runs $clean LD_LIBRARY_PATH="$work/usr/lib" "$work/pc-shared-c"
builds find-header-C find C vit::vit "$find_vit"
builds find-header-CXX find CXX vit::vit "$find_vit"
builds find-static-CXX find CXX vit::static "$find_vit"
builds find-shared-C find C vit::shared "$find_vit"
printf '#define VIT_IMPLEMENTATION\n' | cat - tests/packages/main.c >"$work/header.c"
printf '#define VIT_IMPLEMENTATION\n' | cat - tests/packages/main.cpp >"$work/header.cpp"
pc_builds pc-header-c header.c -- --cflags --libs vit
check "pc-header-c runs" runs $clean "$work/pc-header-c"
pc_builds pc-header-cxx header.cpp -- --cflags --libs vit
check "pc-header-cxx runs" runs $clean "$work/pc-header-cxx"
for language in C CXX; do
    for target in vit::vit vit::static vit::shared; do
        builds "tree-$language-${target#vit::}" subdirectory $language $target \
            "-DVIT=$tree/tools/packaging/cmake"
    done
done

# If a project uses one of the programs, CMake builds it.
mkdir "$work/programs"
cp tests/packages/programs/CMakeLists.txt "$work/programs"
check "programs: configures" $clean cmake -S "$work/programs" -B "$work/programs/out" \
    -DVIT="$tree/tools/packaging/cmake" -DMODEL="$model" -DPHOTO="$tree/examples/cat.jpg"
check "programs: builds and runs" $clean cmake --build "$work/programs/out" -j2
check "programs: the cat" grep -q ' cat$' "$work/programs/out/class.txt"
refused "programs without stb" "stb_image.h is missing there" $clean cmake -S "$work/programs" \
    -B "$work/programs/none" -DVIT="$tree/tools/packaging/cmake" -DSTB="$work/photos"

# CMake's installation must work like `make install`. STB=DIR is the folder of stb's headers.
stb=$(echo '#include <stb/stb_image.h>' | cc -E - | sed -n 's|^# 1 "\(.*\)/stb_image.h".*|\1|p' | head -n 1)
check "cmake configures" $clean cmake -S tools/packaging/cmake -B "$work/cmake" \
    -DCMAKE_INSTALL_PREFIX="$work/usr2" -DCMAKE_INSTALL_LIBDIR=lib -DVIT_BUILD_PROGRAMS=ON \
    -DSTB="$stb"
check "cmake builds" $clean cmake --build "$work/cmake" -j2
check "cmake installs" $clean cmake --install "$work/cmake" --strip
(cd "$work/usr2" && find bin lib share | sort) >"$work/by_cmake"
(cd "$work/usr" && find bin lib share | sort) >"$work/by_make"
check "make and cmake install the same files" diff "$work/by_make" "$work/by_cmake"
for file in share/vit/vit-config-version.cmake share/vit/vit.c include/vit.h share/doc/vit/LICENSE \
    share/man/man1/vit-look-tokens.1 share/bash-completion/completions/vit-run; do
    check "the same $file" cmp "$work/usr/$file" "$work/usr2/$file"
done
nm -D --defined-only "$work/usr/lib/libvit.so" | awk '{ print $3 }' >"$work/by_make"
nm -D --defined-only "$work/usr2/lib/libvit.so" | awk '{ print $3 }' >"$work/by_cmake"
check "the same symbols" diff "$work/by_make" "$work/by_cmake"
check "the soname" sh -c "readelf -d '$work/usr2/lib/libvit.so' | grep -F '[libvit.so.2]'"
builds cmake-shared-C find C vit::shared "-DCMAKE_PREFIX_PATH=$work/usr2"
builds cmake-static-CXX find CXX vit::static "-DCMAKE_PREFIX_PATH=$work/usr2"

# --- a release --------------------------------------------------------------------------------

check "make dist" make -s dist
cp -r build/dist "$work/dist"
tar -xzf "$work/dist/vit-$version-full.tar.gz" -C "$work"
check "make dist, from the archive" sh -c "umask 077 && make -s -C '$work/vit-$version' dist"
check "the same bytes" diff -r "$work/dist" "$work/vit-$version/build/dist"
mkdir "$work/small"
tar -xzf "$work/dist/vit-$version.tar.gz" -C "$work/small"
check "make dist, from the archive without tests" make -s -C "$work/small/vit-$version" dist
check "it makes itself" cmp "$work/dist/vit-$version.tar.gz" \
    "$work/small/vit-$version/build/dist/vit-$version.tar.gz"
refused "make test, without tests" "has no tests: take vit-$version-full.tar.gz" \
    make -s -C "$work/small/vit-$version" test
check "the sums" sh -c "cd '$work/dist' && sha256sum -c SHA256SUMS"
archive=$work/dist/vit-$version.tar.gz
sha256=$(sha256sum "$archive" | cut -d' ' -f1)
for language in C CXX; do
    for target in vit::vit vit::static vit::shared; do
        builds "fetch-$language-${target#vit::}" fetch $language $target \
            "-DURL=file://$archive" "-DSHA256=$sha256"
    done
done
summary
