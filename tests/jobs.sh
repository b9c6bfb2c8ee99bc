# jobs.sh - sourced by scripts: runs tests, one per core at a time, and prints a line for each test,
# and the sum of all counts. A test is a program or script whose last line is "N passed, N failed".
# Lines "SKIPPED what: why" report parts that cannot run here; the last line of such a test also has
# "N skipped". A test fails if it has neither a passed nor a skipped check. The script runs all
# tests or, if `only` has words, the tests whose names begin with one of them. build/log/ keeps the
# output.
mkdir -p build/log
cores=$(nproc) names=() only=()
TIMEFORMAT=%U+%S
shopt -s extglob
builds="larger|sanitized|threads|simde" # suffixes, behind a dot, of tests in other builds

wanted() {
    local name
    [ ${#only[@]} = 0 ] && return 0
    for name in "${only[@]}"; do [[ $1 == "$name"* ]] && return 0; done
    return 1
}

# perform NAME COMMAND...: runs a test, prints its line, and writes its numbers to
# build/log/NAME.sum
perform() {
    local name=$1 log=build/log/$1.log status start=$SECONDS line passed=0 failed=1 skipped=0 cpu
    shift
    cpu=$({ time "$@" >"$log" 2>&1 </dev/null; } 2>&1)
    status=$?
    line=$(tail -n 1 "$log")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)? ]]; then
        passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]} skipped=${BASH_REMATCH[4]:-0}
        [ "$failed" = 0 ] && { [ $status != 0 ] || [ $((passed + skipped)) = 0 ]; } && failed=1
    fi
    printf '%s: %s passed, %s failed%s (%s s, %s of a processor)\n' "$name" "$passed" "$failed" \
        "$([ "$skipped" = 0 ] || echo ", $skipped skipped")" "$((SECONDS - start))" "$cpu"
    echo "$passed $failed $skipped $status" >"build/log/$name.sum"
}

# run NAME COMMAND...: runs a test in the background. As many tests run at once as there are cores
run() {
    wanted "$1" || return 0
    while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n; done
    rm -f "build/log/$1.sum"
    names+=("$1")
    perform "$@" &
}

# omit NAME PACKAGES: reports a test that needs missing packages
omit() {
    wanted "$1" || return 0
    names+=("$1")
    echo "SKIPPED $1: no $2 here" >"build/log/$1.log"
    echo "0 0 1 none" >"build/log/$1.sum"
}

# Prints the end of the log of each failed test, all skipped parts, and the sum. A test that also
# runs in other builds, such as test_api.sanitized, counts once. Fails if a test failed or, if CI is
# "true", if a test skipped a part.
finish() {
    local name passed failed skipped status total_passed=0 total_failed=0 total_skipped=0 again=0
    local -A most=()
    wait
    for name in "${names[@]}"; do
        read -r passed failed skipped status <"build/log/$name.sum" ||
            passed=0 failed=1 skipped=0 status=none
        total_failed=$((total_failed + failed)) total_skipped=$((total_skipped + skipped))
        name=${name%.@($builds)}
        [ -z "${most[$name]-}" ] || again=$((again + 1))
        [ "${most[$name]:--1}" -ge "$passed" ] || most[$name]=$passed
    done
    for passed in "${most[@]}"; do total_passed=$((total_passed + passed)); done
    for name in "${names[@]}"; do
        read -r passed failed skipped status <"build/log/$name.sum" || failed=1 status=none
        [ "$failed" = 0 ] && continue
        echo "--- $name failed (exit status $status); the end of build/log/$name.log:"
        tail -n 20 "build/log/$name.log"
    done
    for name in "${names[@]}"; do sed -n "s/^SKIPPED /skipped in ${name//\//.}: /p" "build/log/$name.log"; done
    echo "$total_passed passed, $total_failed failed, $total_skipped skipped:" \
        "assertions of ${#most[@]} tests$([ $again = 0 ] || echo ", $again of them in another build, too")"
    [ $total_failed = 0 ] && [ $total_passed -gt 0 ] && { [ "${CI-}" != true ] || [ $total_skipped = 0 ]; }
}
