#!/usr/bin/env bash
# Tests the files of tools/packaging/embedded. CMake runs the files for ESP-IDF and Zephyr with
# substitutes for these systems' functions, which record their arguments. With the other files,
# CMake builds a project for three Cortex-M CPUs. The test parses the manifests, and compiles each
# system's sources and the program of examples/firmware/EMBEDDED.md. It checks the classes that the
# program finds under QEMU. It also runs the program of examples/firmware/README.md.
set -u
cd "$(dirname "$0")/.."
. tests/built.sh programs
. tests/checks.sh
. examples/firmware/boards.sh
page=examples/firmware/EMBEDDED.md
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
bin=${BIN:-.}

# printed FILE [PAGE]: prints the block of code after the paragraph that begins with FILE
printed() {
    awk -v name="\`$1\`" '
        index($0, name) == 1 { wanted = 1 }
        /^```/ && inside { exit }
        inside
        /^```/ && wanted { inside = 1 }' "${2:-$page}"
}

cp -r tools/packaging/embedded "$work/vit"
for file in "$work"/vit/*.* "$work"/vit/*/*; do
    check "${file#"$work/"}: its first lines say that no SDK has built it" \
        sh -c "head -n 2 '$file' | grep -qiE '(never|no [^.]*) (built|read)( |$)'"
done
mkdir "$work/main"
printed main/classify.c >"$work/main/classify.c"
check "$page prints main/classify.c" test -s "$work/main/classify.c"
cp vit.h "$work/vit/src"
"$bin/tools/vit-convert" -q --c-array models/fashion-vit.vit -o "$work/main/fashion_vit.h" || exit 1

# --- each system's list of sources, then folders ------------------------------------------------

cat >"$work/esp.cmake" <<'END'
function(idf_component_register)
    cmake_parse_arguments(arg "" "" "SRCS;INCLUDE_DIRS;REQUIRES;PRIV_REQUIRES" ${ARGN})
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_SRCS)
        message(FATAL_ERROR "idf_component_register(${ARGN})")
    endif()
    set(COMPONENT_LIB __idf_vit PARENT_SCOPE)
    file(WRITE ${OUT} "${arg_SRCS}\n${arg_INCLUDE_DIRS}\n")
endfunction()
function(target_compile_options target scope)
    if(NOT target STREQUAL __idf_vit)
        message(FATAL_ERROR "target_compile_options(${target})")
    endif()
endfunction()
include(${FOLDER}/CMakeLists.txt)
END
cat >"$work/zephyr.cmake" <<'END'
function(zephyr_library)
    set_property(GLOBAL PROPERTY library ON)
endfunction()
function(zephyr_library_sources)
    get_property(library GLOBAL PROPERTY library)
    if(NOT library)
        message(FATAL_ERROR "sources of no library")
    endif()
    set_property(GLOBAL PROPERTY sources ${ARGN})
endfunction()
function(zephyr_include_directories)
    set_property(GLOBAL PROPERTY folders ${ARGN})
endfunction()
function(zephyr_library_compile_options)
endfunction()
include(${FOLDER}/CMakeLists.txt)
get_property(sources GLOBAL PROPERTY sources)
get_property(folders GLOBAL PROPERTY folders)
file(WRITE ${OUT} "${sources}\n${folders}\n")
END

if have cmake "CMakeLists.txt and library.json"; then
    check "ESP-IDF's CMakeLists.txt" cmake -DFOLDER="$work/vit" -DESP_PLATFORM=1 \
        -DOUT="$work/esp.list" -P "$work/esp.cmake"
    check "Zephyr's CMakeLists.txt" cmake -DFOLDER="$work/vit/zephyr" -DCONFIG_VIT=y \
        -DOUT="$work/zephyr.list" -P "$work/zephyr.cmake"
    check "Zephyr's CMakeLists.txt, without CONFIG_VIT" cmake -DFOLDER="$work/vit/zephyr" \
        -DOUT="$work/zephyr.none" -P "$work/zephyr.cmake"
    check "... compiles nothing" sh -c "[ -z \"\$(tr -d '\n' <'$work/zephyr.none')\" ]"
    cat >"$work/json.cmake" <<'END'
file(READ ${FILE} text)
foreach(key IN ITEMS name version description license frameworks platforms headers)
    string(JSON value GET "${text}" ${key})
    message(STATUS "${key}: ${value}")
endforeach()
string(JSON sources GET "${text}" build srcDir)
file(WRITE ${OUT} "${sources}/vit.c\n${sources}\n")
END
    check "library.json" cmake -DFILE="$work/vit/library.json" -DOUT="$work/platformio.list" \
        -P "$work/json.cmake"
    cp "$work/out" "$work/json"
    check "library.json: version" grep -qx -- "-- version: $version" "$work/json"
fi
mkdir "$work/libc" # these systems provide a C library, but the compiler alone does not
cat >"$work/libc/string.h" <<'END'
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *a, const void *b, size_t size);
END

# This project has the form of the Pico SDK or of STM32Cube, and sets the compiler and the flags of
# the CPU.
if have cmake "add_subdirectory" && have arm-none-eabi-gcc "add_subdirectory for Cortex-M"; then
    printf '%s\n' "cmake_minimum_required(VERSION 3.13)" "project(board C)" "add_subdirectory(vit)" \
        "add_library(board STATIC main/classify.c)" "target_link_libraries(board vit)" >"$work/CMakeLists.txt"
    for core in "cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard" "cortex-m33 -mfloat-abi=soft" \
        "cortex-m0plus -DVIT_NO_FMA"; do
        built=$work/board/${core%% *}
        check "cmake for ${core%% *}" cmake -S "$work" -B "$built" -DCMAKE_SYSTEM_NAME=Generic \
            -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY -DCMAKE_C_COMPILER=arm-none-eabi-gcc \
            -DCMAKE_C_FLAGS="-mthumb -ffreestanding -isystem $work/libc -mcpu=$core"
        check "cmake builds for ${core%% *}" cmake --build "$built"
        check "its library" sh -c "arm-none-eabi-nm '$built/vit/libvit.a' | grep -q ' T vit_forward'"
    done
fi
printf 'src/vit.c\nsrc\n' >"$work/arduino.list" # its specification compiles all of src

# --- manifests ------------------------------------------------------------------------------------

# yaml FILE: parses mappings that are indented by two spaces per level, and prints lines "a.b:
# value"
yaml() {
    awk '
        /^# / { next }
        !/^( *)[a-z_]+:( ("[^"]*"|[^"#:]+))?$/ { print "not YAML: " $0; exit 1 }
        { match($0, /^ */); level = RLENGTH / 2; split($0, part, ":"); gsub(/ /, "", part[1])
          if (level > deepest || level != int(level)) { print "indented: " $0; exit 1 }
          path[level] = part[1]; name = path[0]
          for (i = 1; i <= level; i++) name = name "." path[i]
          sub(/^[^:]*: ?/, ""); gsub(/"/, ""); print name ": " $0
          deepest = $0 == "" ? level + 1 : level }' "$1"
}
has() { # FILE LINE: passes if yaml prints LINE
    yaml "$1" >"$work/yaml" && grep -qxF -- "$2" "$work/yaml"
}
check "idf_component.yml" has "$work/vit/idf_component.yml" "version: $version"
check "idf_component.yml: dependencies" has "$work/vit/idf_component.yml" "dependencies.idf: >=4.4"
check "module.yml" has "$work/vit/zephyr/module.yml" "name: vit"
check "module.yml: cmake" has "$work/vit/zephyr/module.yml" "build.cmake: zephyr"
check "module.yml: kconfig" has "$work/vit/zephyr/module.yml" "build.kconfig: zephyr/Kconfig"
check "Kconfig" awk '/^config VIT$/ { seen++ } /^\tbool "[^"]+"$/ { seen++ } /^\thelp$/ { seen++ }
    !/^(# .*|config VIT|\tbool ".*"|\thelp|\t  .*)$/ { exit 1 } END { exit seen != 3 }' \
    "$work/vit/zephyr/Kconfig"
for key in name version author maintainer sentence paragraph category url architectures; do
    check "library.properties: $key" grep -q "^$key=." "$work/vit/library.properties"
done
check "library.properties: nothing else" \
    sh -c "! grep -v '^# \\|^[a-z_]*=[^ ].*' '$work/vit/library.properties'"
check "library.properties: version" grep -qx "version=$version" "$work/vit/library.properties"

# --- the program ----------------------------------------------------------------------------------

cat >"$work/main/main.c" <<'END'
#include "board.h"
extern const char *classify(const unsigned char *grey);
int main(void) {
    static unsigned char grey[28 * 28];
    while (board_read(grey, sizeof grey)) {
        board_print(classify(grey));
        board_print("\n");
    }
    return 0;
}
END

# Builds the program of README.md with a camera and a display.
mkdir "$work/readme"
printed program.c examples/firmware/README.md >"$work/readme/program.c"
"$bin/tools/vit-convert" -q --c-array models/fashion-vit.vit -o "$work/readme/mine.h" || exit 1
cat >"$work/readme/board.c" <<'END'
#include "program.c"
#include "board.h"
int camera(unsigned char *seen) { return board_read(seen, MINE_INPUT); }
void show(const char *text) {
    board_print(text);
    board_print("\n");
}
END

# object BOARD OBJECT SOURCE FLAGS...: compiles like a user, without our warnings
# shellcheck disable=SC2154,SC2086 # cpu is of boards.sh; words
object() {
    local board=$1 object=$2 source=$3
    shift 3
    board "$board" && arm-none-eabi-gcc $cpu -mthumb -ffreestanding -isystem "$work/libc" \
        -Wall -Wextra -Werror -ffunction-sections -fdata-sections -O2 "$@" -c "$source" -o "$object"
}

# The list of each system names a source file and an include folder. Both must exist.
named() { # SYSTEM
    local at=$work/vit
    [ "$1" = zephyr ] && at=$at/zephyr
    sed "s|^|$at/|" "$work/$1.list" | xargs -d '\n' realpath -e
}

compiles() { # SYSTEM BOARD
    local source folder part=$work/$1.$2
    source=$(named "$1" | sed -n 1p) folder=$(named "$1" | sed -n 2p)
    object "$2" "$part.vit.o" "$source" -I"$folder" &&
        object "$2" "$part.app.o" "$work/main/classify.c" -I"$folder" -I"$work/main"
}

links() { # SYSTEM BOARD
    local part=$work/$1.$2 name objects=()
    object "$2" "$part.main.o" "$work/main/main.c" -Iexamples/firmware || return
    for name in start semihosting memory; do
        object "$2" "$work/$2.$name.o" examples/firmware/$name.c || return
        objects+=("$work/$2.$name.o")
    done
    link "$2" "$part" "$part.vit.o" "$part.app.o" "$part.main.o" "${objects[@]}"
}

if have arm-none-eabi-gcc "compiling for Cortex-M"; then
    for system in esp zephyr platformio; do # the same file and folder: compiled once
        [ -e "$work/$system.list" ] || continue
        check "$system: what it compiles" [ "$(named $system)" = "$(named arduino)" ]
    done
    check "it compiles for Cortex-M4F" compiles arduino m4
    check "it compiles for Cortex-M3" compiles arduino m3
    if have qemu-system-arm "running on Cortex-M4F"; then
        check "the program links" links arduino m4
        tail -c +17 examples/firmware/sample-images.idx3 >"$work/camera"
        run m4 "$work/arduino.m4" "$work/camera" >"$work/said"
        # All 16 classes must be right. They are compared with the labels, which are the bytes after
        # a header of 8 bytes.
        tail -c +9 examples/firmware/sample-labels.idx1 | od -An -v -tu1 -w1 |
            while read -r label; do
                "$bin/tools/vit-info" models/fashion-vit.vit --labels | sed -n "s/^ *$label  //p"
            done >"$work/labels"
        check "16 pictures are named" sh -c "[ \$(wc -l <'$work/said') = 16 ]"
        check "as the labels say" diff "$work/said" "$work/labels"
        check "README.md's program is built" \
            build gcc m4 "$work/readme/board" "$work/readme/board.c" -Os -I.
        run m4 "$work/readme/board" "$work/camera" >"$work/said"
        check "it names them too" diff "$work/said" "$work/labels"
    fi
fi
summary
