# jobs.sh - to be sourced: runs tests, as many at once as there are cores, prints a line for each
# and the sum at the end. A test is a program or script whose last line is "N passed, N failed".
# Those whose names begin with a word of `only` are run, or all; output is kept in build/log/.
mkdir -p build/log
cores=$(nproc) names=() only=()
TIMEFORMAT=%U+%S

wanted() {
    local name
    [ ${#only[@]} = 0 ] && return 0
    for name in "${only[@]}"; do [[ $1 == "$name"* ]] && return 0; done
    return 1
}

# perform NAME COMMAND...: its line on the terminal, its numbers in build/log/NAME.sum
perform() {
    local name=$1 log=build/log/$1.log status start=$SECONDS line passed=0 failed=1 cpu
    shift
    cpu=$({ time "$@" >"$log" 2>&1 </dev/null; } 2>&1)
    status=$?
    line=$(tail -n 1 "$log")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
        passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]}
        [ $status != 0 ] && [ "$failed" = 0 ] && failed=1
    fi
    printf '%s: %s passed, %s failed (%s s, %s of a processor)\n' "$name" "$passed" "$failed" \
        "$((SECONDS - start))" "$cpu"
    echo "$passed $failed $status" >"build/log/$name.sum"
}

# run NAME COMMAND...: as many at once as there are cores
run() {
    wanted "$1" || return 0
    while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n; done
    rm -f "build/log/$1.sum"
    names+=("$1")
    perform "$@" &
}

# What failed, with the end of its log, and the sum of all; fails if anything did.
finish() {
    local name passed failed status total_passed=0 total_failed=0
    wait
    for name in "${names[@]}"; do
        read -r passed failed status <"build/log/$name.sum" || passed=0 failed=1 status=none
        total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
        [ "$failed" = 0 ] && continue
        echo "--- $name failed (exit status $status); the end of build/log/$name.log:"
        tail -n 20 "build/log/$name.log"
    done
    echo "$total_passed passed, $total_failed failed"
    [ $total_failed = 0 ]
}
