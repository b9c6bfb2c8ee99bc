#!/usr/bin/env bash
# cpp.sh - tests vit.hpp from an installed copy. gcc and clang must compile it in C++17 and C++20
# without a warning. packages/cpp.cpp runs with the libraries, with the implementation in C++, and
# under the address, undefined-behaviour and thread sanitizers.
set -u
cd "$(dirname "$0")/../.."
. tests/checks.sh
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wcast-align
    -Wcast-qual -Wdouble-promotion -Wvla -Werror"
model=models/cifar10-vit.vit photo=examples/cat.ppm

if ! have g++ "all of it"; then
    summary
    exit
fi
check "make install" make -s install DESTDIR="$work/stage" PREFIX=/opt/vit
mv "$work/stage/opt/vit" "$work/usr"
check "vit.hpp is installed" test -s "$work/usr/include/vit.hpp"
check "a model" tools/vit-convert tests/data/naflex -q -o "$work/naflex.vit"
printf '#define STB_IMAGE_IMPLEMENTATION\n#include <stb/stb_image.h>\n' >"$work/stb.c"
check "stb_image.h compiles" "${CC:-cc}" -O2 ${STB:+-isystem build/stb} -c "$work/stb.c" -o "$work/stb.o"
printf '#define VIT_IMPLEMENTATION\n#include <vit.hpp>\n' >"$work/vit.cpp"
cp tests/packages/cpp.cpp "$work"

# compiles NAME COMPILER FLAGS...: passes if there is no warning
compiles() {
    # shellcheck disable=SC2086 # words
    check "$1 compiles" "${@:2:1}" $warnings -I"$work/usr/include" ${STB:+-isystem build/stb} "${@:3}"
}

# runs NAME: runs all tests of cpp.cpp
runs() {
    try env LD_LIBRARY_PATH="$work/usr/lib" "$work/$1" $model $photo "$work/naflex.vit"
    is 0
    quiet err
    out '^cat 0\.7876 [0-9]+$'
}

# builds NAME COMPILER FLAGS...: builds cpp.cpp and runs it
builds() {
    compiles "$1" "$2" "$work/cpp.cpp" "$work/stb.o" "${@:3}" -pthread -o "$work/$1"
    runs "$1"
}

builds static g++ -std=c++17 -O2 "$work/usr/lib/libvit.a"
have clang++ "clang" && builds shared clang++ -std=c++20 -O2 "-L$work/usr/lib" -lvit
builds address g++ -std=c++17 -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all "$work/vit.cpp"
builds thread g++ -std=c++17 -O1 -g1 -fsanitize=thread "$work/vit.cpp"
for macro in NOTHING VIT_TEXT_ENCODER VIT_NO_THREADS VIT_NO_TRACE VIT_NO_STDIO VIT_NO_PREPROCESS \
    VIT_NO_DOUBLE VIT_NO_EXECUTOR; do
    compiles $macro g++ -std=c++17 -D$macro -fsyntax-only -x c++ - </dev/null -include vit.hpp
done
compiles VIT_STATIC g++ -std=c++17 -DVIT_STATIC -DVIT_IMPLEMENTATION -fsyntax-only -x c++ - </dev/null -include vit.hpp
check "VIT_NO_MALLOC is refused" sh -c \
    "g++ -std=c++17 -I'$work/usr/include' -DVIT_NO_MALLOC -fsyntax-only -x c++ -include vit.hpp - </dev/null 2>&1 |
        grep 'error: #error \"vit.hpp allocates'"

# CMake's targets also provide vit.hpp, from the installed copy and from the tree.
if have cmake "CMake's targets"; then
    cat >"$work/main.cpp" <<'END_OF_PROGRAM'
#include <iostream>
#include <vit.hpp>
int main(int, char **argv) {
    const vit::Model model(argv[1]);
    std::cout << model.label(3) << ", one of " << model.num_classes() << '\n';
}
END_OF_PROGRAM
    for way in find subdirectory; do
        mkdir "$work/$way"
        cp "$work/main.cpp" "tests/packages/$way/CMakeLists.txt" "$work/$way"
        check "$way: configures" cmake -S "$work/$way" -B "$work/$way/out" -DLANGUAGE=CXX \
            -DTARGET=vit::static -DCMAKE_PREFIX_PATH="$work/usr" -DVIT="$PWD/tools/packaging/cmake"
        check "$way: builds" cmake --build "$work/$way/out"
        check "$way: runs" sh -c "'$work/$way/out/consumer' $model | grep -x 'cat, one of 10'"
    done
fi
summary
