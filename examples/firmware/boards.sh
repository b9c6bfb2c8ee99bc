# boards.sh - functions that compile and link programs for six microcontrollers, and run them in
# QEMU. run.sh and tests source this file. It needs gcc-arm-none-eabi and qemu-system-arm. COMPILER
# may also be clang.
# shellcheck shell=bash

firmware=$(dirname "${BASH_SOURCE[0]}")

# Name, QEMU's machine, linker script, nanoseconds per tick of the board's clock, compiler flags. On
# CPUs without fused multiply-add, VIT_NO_FMA avoids its emulation.
board_table="
m0  microbit   microbit    62.5  -mcpu=cortex-m0 -mfloat-abi=soft -DVIT_NO_FMA
m3  mps2-an385 mps2        40    -mcpu=cortex-m3 -mfloat-abi=soft -DVIT_NO_FMA
m4  mps2-an386 mps2        40    -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard
m7  mps2-an500 mps2        40    -mcpu=cortex-m7 -mfpu=fpv5-sp-d16 -mfloat-abi=hard
m33 mps2-an505 mps2-secure 50    -mcpu=cortex-m33 -mfpu=fpv5-sp-d16 -mfloat-abi=hard
m55 mps3-an547 mps3        31.25 -mcpu=cortex-m55 -mfloat-abi=hard"
all_boards="m0 m3 m4 m7 m33 m55"

# board NAME: sets machine, memory, tick and cpu
board() {
    local name
    # shellcheck disable=SC2034 # for the scripts that source this
    while read -r name machine memory tick cpu; do
        [ "$name" = "$1" ] && return
    done <<<"$board_table"
    echo "no such board: $1 (there are $all_boards)" >&2
    return 1
}

warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wcast-align
    -Wcast-qual -Wdouble-promotion -Wvla -Wstrict-prototypes -Wmissing-prototypes -Werror"
flags="-std=c99 -mthumb -ffreestanding -fno-math-errno -ffunction-sections -fdata-sections
    -fstack-usage $warnings"

# compile COMPILER BOARD OBJECT SOURCE FLAGS...: COMPILER is gcc or clang
# shellcheck disable=SC2086 # flags are words
compile() {
    local compiler=arm-none-eabi-gcc board=$2 object=$3 source=$4
    [ "$1" = clang ] && compiler="clang --target=arm-none-eabi -fshort-enums"
    shift 4
    board "$board" && $compiler $cpu $flags "$@" -c "$source" -o "$object"
}

# link BOARD PROGRAM OBJECTS...: the GNU linker adds the start-up code and libgcc's arithmetic
# shellcheck disable=SC2086
link() {
    local board=$1 program=$2
    shift 2
    board "$board" && arm-none-eabi-gcc $cpu -mthumb -nostdlib -z noexecstack -Wl,--gc-sections \
        -L "$firmware" -T "$firmware/$memory.ld" "$@" -lgcc -o "$program"
}

# build COMPILER BOARD PROGRAM SOURCE FLAGS...: SOURCE has main(), and can include files from the
# folder of PROGRAM
build() {
    local compiler=$1 board=$2 program=$3 source=$4 folder part objects=()
    shift 4
    folder=$(dirname "$program")
    for part in start semihosting memory; do
        objects+=("$program.$part.o")
        compile "$compiler" "$board" "$program.$part.o" "$firmware/$part.c" -O2 || return
    done
    compile "$compiler" "$board" "$program.o" "$source" "-I$folder" "-I$firmware" "$@" &&
        link "$board" "$program" "$program.o" "${objects[@]}"
}

# run BOARD PROGRAM [CAMERA [QEMU-OPTIONS...]]: CAMERA is a file. Each instruction takes one
# nanosecond of emulated time, so the clock counts instructions
run() {
    local board=$1 program=$2 camera=${3-}
    shift $(($# < 3 ? $# : 3))
    board "$board" && timeout 3600 qemu-system-arm -M "$machine" -display none -serial none \
        -monitor none -icount shift=0 -kernel "$program" "$@" \
        -semihosting-config "enable=on,target=native,arg=$camera" 2>&1
}
