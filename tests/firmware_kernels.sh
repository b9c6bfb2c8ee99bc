#!/usr/bin/env bash
# firmware_kernels.sh - firmware/kernels.c by two compilers, run under QEMU on a Cortex-M3, M4, M7,
# M33 and M55. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
work=build/firmware
board=examples/firmware
mkdir -p "$work"

# QEMU's machine, the linker script, the compilers' flags
machines=(
    "mps2-an385 mps2.ld -mcpu=cortex-m3 -mfloat-abi=soft -DVIT_NO_FMA"
    "mps2-an386 mps2.ld -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard"
    "mps2-an500 mps2.ld -mcpu=cortex-m7 -mfpu=fpv5-sp-d16 -mfloat-abi=hard"
    "mps2-an505 mps2-secure.ld -mcpu=cortex-m33 -mfpu=fpv5-sp-d16 -mfloat-abi=hard"
    "mps3-an547 mps3.ld -mcpu=cortex-m55 -mfloat-abi=hard"
)
compilers=("arm-none-eabi-gcc" "clang --target=arm-none-eabi")
flags="-std=c99 -mthumb -ffreestanding -fno-math-errno -ffunction-sections"
sources="tests/firmware/kernels.c $board/start.c $board/semihosting.c $board/memory.c"

passed=0 failed=0
for entry in "${machines[@]}"; do
    read -r machine script cpu <<<"$entry"
    for compiler in "${compilers[@]}"; do
        for level in -O2 -Os; do
            image=$work/kernels-${compiler%% *}-$machine$level
            objects=
            # shellcheck disable=SC2086 # words
            for source in $sources; do
                objects="$objects $image-$(basename "$source").o"
                $compiler $cpu $flags $level -c "$source" -o "$image-$(basename "$source").o"
            done
            # shellcheck disable=SC2086
            arm-none-eabi-gcc $cpu -mthumb -nostdlib -Wl,--gc-sections -L$board \
                -T $script $objects -lgcc -o "$image.elf"
            echo "$compiler $level, $machine:"
            timeout 60 qemu-system-arm -M "$machine" -nographic -icount shift=0 \
                -semihosting-config enable=on,target=native -kernel "$image.elf" \
                </dev/null >"$image.log" 2>&1
            cat "$image.log"
            line=$(tail -n 1 "$image.log")
            if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
                passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
            else
                failed=$((failed + 1))
            fi
        done
    done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
