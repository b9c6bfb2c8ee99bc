#!/usr/bin/env bash
# cross.sh - builds three tests for 64-bit ARM with gcc and clang and runs them under QEMU on CPUs
# that lack or have sdot, smmla and bfmlal. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.."
work=build/cross
mkdir -p "$work"
passed=0 failed=0
for compiler in aarch64-linux-gnu-gcc "clang --target=aarch64-linux-gnu"; do
    for name in test_math test_random test_api; do
        # shellcheck disable=SC2086 # the compiler is words
        if ! $compiler -std=c99 -O2 -static -DVIT_IMPLEMENTATION= -I. -Itools tests/$name.c -o "$work/$name" -lm -lpthread; then
            failed=$((failed + 1))
            continue
        fi
        for cpu in cortex-a53 cortex-a76 max; do
            # of test_random 200 models: a CPU in software is slow
            line=$(qemu-aarch64-static -cpu $cpu "$work/$name" tests/data 200 2>&1 | tail -n 1)
            echo "$compiler, $cpu, $name: $line"
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
