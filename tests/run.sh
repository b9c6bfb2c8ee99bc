#!/usr/bin/env bash
# Builds and runs every test, or those whose names begin with one of the arguments. With LONG=yes
# nothing is left out that only adds more of the same: `make test-long`.
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

# every COMMAND: for each test, COMMAND with its name and the words that run it
every() {
    "$1" compile bash tests/compile.sh # long ones first
    "$1" cross bash tests/cross.sh short
    "$1" loops bash tests/loops.sh
    "$1" firmware bash tests/firmware.sh
    "$1" packages bash tests/packages.sh short
    "$1" test_parity env BIN=. bash tests/test_parity.sh
    "$1" test_parity.sanitized env BIN=build/asan bash tests/test_parity.sh
    for source in tests/test_*.c; do
        name=$(basename "$source" .c)
        [ "$name" = test_parity ] && continue # by its driver, above
        "$1" "$name" "build/plain/tests/$name" tests/data ${part[$name]-}
        "$1" "$name.sanitized" "build/asan/tests/$name" tests/data ${fewer[$name]-}
    done
    "$1" test_api.threads build/tsan/tests/test_api tests/data
    "$1" test_threads.threads build/tsan/tests/test_threads
    "$1" test_random.threads build/tsan/tests/test_random tests/data 150 # models, slow as they are here
    if grep -qw avx2 /proc/cpuinfo; then # tiers that this CPU lacks, emulated
        "$1" test_math.simde build/simde/tests/test_math
        "$1" test_random.simde build/simde/tests/test_random tests/data ${part[test_random.simde]-}
    fi
    for script in tests/test_*.sh; do
        name=$(basename "$script" .sh)
        [ "$name" = test_parity ] && continue
        "$1" "$name" env BIN=. bash "$script"
        [[ $unsanitized == *" $name "* ]] && continue
        "$1" "$name.sanitized" env BIN=build/asan bash "$script"
    done
    for fuzzer in tests/fuzz/fuzz_*.c; do
        name=$(basename "$fuzzer" .c)
        "$1" "$name" bash tests/fuzz/fuzz.sh $fuzz "${name#fuzz_}"
    done
}

# For `every`: notes what make must build for that test.
declare -A targets=()
needs() {
    local word name=$1
    wanted "$name" || return 0
    for word in "${@:2}"; do
        case $word in
        build/*) targets[$word]=1 ;;
        BIN=build/asan) targets[build/asan/programs]=1 ;;
        tests/fuzz/fuzz.sh)
            targets[build/fuzz/${name#fuzz_}]=1
            targets[build/plain/tests/fuzz/make_corpus]=1
            ;;
        tests/test_parity.sh)
            targets[build/plain/tests/test_parity]=1
            targets[build/asan/tests/test_parity]=1
            ;;&
        tests/test_confined.sh) targets[build/evil/programs]=1 ;;&
        tests/*.sh) targets[all]=1 targets[libraries]=1 ;;
        esac
    done
}

every needs
[ ${#targets[@]} -gt 0 ] || { echo "run.sh: no test's name begins with: $*" >&2; exit 2; }
make --no-print-directory -s -j"$cores" "${!targets[@]}" || exit 2
export BUILT=yes # tests/built.sh
every run

finish
