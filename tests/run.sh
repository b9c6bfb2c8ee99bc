#!/usr/bin/env bash
# Runs every test, or those whose names begin with one of the arguments; `make test` builds them
# first. With LONG=yes nothing is left out that only adds more of the same: `make test-long`.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/jobs.sh
only=("$@")
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

# What sanitizers make slow: there a part of what the plain run does whole.
declare -A fewer=([test_converter_memory]=40 [test_damage]=10 [test_layout_damage]=4
    [test_match]=6 [test_random]="330 6 24" [test_structure]=20)
# The plain run's part of what takes half a minute or more when whole.
declare -A part=([test_damage]=3 [test_match]=40 [test_random]="400 60 150"
    [test_random.simde]="330 6 24")
fuzz=1 # second; `make fuzz` takes longer
# What has no sanitized program in it, or only to convert what others convert as well; the last one
# has its own malloc.
unsanitized=" test_abi test_build test_confined test_embedded test_fixed test_floors test_languages "
unsanitized+="test_make test_planning test_tools_memory "
if [ "${LONG-}" = yes ]; then
    part=() fuzz=30
else
    unsanitized="$unsanitized test_look " # its rooms are: test_look.c
fi

run compile bash tests/compile.sh # long ones first
run cross bash tests/cross.sh short
run loops bash tests/loops.sh
run firmware bash tests/firmware.sh
run packages bash tests/packages.sh short
run test_parity env BIN=. bash tests/test_parity.sh
run test_parity.sanitized env BIN=build/asan bash tests/test_parity.sh
for source in tests/test_*.c; do
    name=$(basename "$source" .c)
    [ "$name" = test_parity ] && continue # by its driver, above
    run "$name" "build/plain/tests/$name" tests/data ${part[$name]-}
    run "$name.sanitized" "build/asan/tests/$name" tests/data ${fewer[$name]-}
done
run test_api.threads build/tsan/tests/test_api tests/data
run test_threads.threads build/tsan/tests/test_threads
run test_random.threads build/tsan/tests/test_random tests/data 150 # models, slow as they are here
if grep -qw avx2 /proc/cpuinfo; then # tiers that this CPU lacks, emulated
    run test_math.simde build/simde/tests/test_math
    run test_random.simde build/simde/tests/test_random tests/data ${part[test_random.simde]-}
fi
for script in tests/test_*.sh; do
    name=$(basename "$script" .sh)
    [ "$name" = test_parity ] && continue
    run "$name" env BIN=. bash "$script"
    [[ $unsanitized == *" $name "* ]] && continue
    run "$name.sanitized" env BIN=build/asan bash "$script"
done
for fuzzer in tests/fuzz/fuzz_*.c; do
    name=$(basename "$fuzzer" .c)
    run "$name" bash tests/fuzz/fuzz.sh $fuzz "${name#fuzz_}"
done

finish
