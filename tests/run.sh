#!/usr/bin/env bash
# Runs every test, prints a line for each and the sum at the end; `make test` builds them first.
# A test is a program or script whose last line is "N passed, N failed". Arguments, if any, pick
# tests by name. Output is kept in build/log/.
set -u
cd "$(dirname "$0")/.."
mkdir -p build/log
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
total_passed=0 total_failed=0
cores=$(nproc) names=()
only=("$@")
TIMEFORMAT=%U+%S

wanted() {
    local name
    [ ${#only[@]} = 0 ] && return 0
    for name in "${only[@]}"; do [[ $1 == "$name"* ]] && return 0; done
    return 1
}

# perform NAME COMMAND...: its line on the terminal, its numbers in build/log/NAME.sum
perform() {
    local name=$1 log=build/log/$1.log status start=$SECONDS line passed=0 failed=1 text= cpu
    shift
    cpu=$({ time "$@" >"$log" 2>&1 </dev/null; } 2>&1)
    status=$?
    line=$(tail -n 1 "$log")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
        passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
        [ $status != 0 ] && [ "$failed" = 0 ] && failed=1
    fi
    if [ "$failed" != 0 ]; then
        text="--- $name failed (exit status $status); the end of $log:
$(tail -n 30 "$log")
"
    fi
    printf '%s%s: %s passed, %s failed (%s s, %s of a processor)\n' "$text" "$name" "$passed" \
        "$failed" "$((SECONDS - start))" "$cpu"
    echo "$passed $failed" >"build/log/$name.sum"
}

# run NAME COMMAND...: as many at once as there are cores
run() {
    wanted "$1" || return 0
    while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n; done
    rm -f "build/log/$1.sum"
    names+=("$1")
    perform "$@" &
}

# What sanitizers make slow: there a part of what the plain run does whole.
declare -A fewer=([test_converter_memory]=40 [test_damage]=10 [test_random]=360)

run compile bash tests/compile.sh # long ones first
run test_parity env BIN=. bash tests/test_parity.sh
run test_parity.sanitized env BIN=build/asan bash tests/test_parity.sh
for source in tests/test_*.c; do
    name=$(basename "$source" .c)
    [ "$name" = test_parity ] && continue # by its driver, above
    run "$name" "build/plain/tests/$name" tests/data
    run "$name.sanitized" "build/asan/tests/$name" tests/data ${fewer[$name]-}
done
run test_api.threads build/tsan/tests/test_api tests/data
run test_random.threads build/tsan/tests/test_random tests/data 150 # models, slow as they are here
for script in tests/test_*.sh; do
    name=$(basename "$script" .sh)
    [ "$name" = test_parity ] && continue
    run "$name" env BIN=. bash "$script"
    [ "$name" = test_tools_memory ] && continue # a sanitizer has its own malloc
    run "$name.sanitized" env BIN=build/asan bash "$script"
done
for fuzzer in tests/fuzz/fuzz_*.c; do
    name=$(basename "$fuzzer" .c)
    run "$name" bash tests/fuzz/fuzz.sh 6 "${name#fuzz_}"
done

wait
for name in "${names[@]}"; do
    read -r passed failed <"build/log/$name.sum" || passed=0 failed=1
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
done
echo "$total_passed passed, $total_failed failed"
[ $total_failed = 0 ]
