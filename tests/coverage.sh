#!/usr/bin/env bash
# coverage.sh [NAME...] - runs the tests of build/coverage, prints the branches that they took, room
# by room, and fails below the shares of coverage.txt. build/coverage/report has a page for each file.
# With names of tests, these alone are run, beside what ran before. `make coverage` builds them first.
set -u
cd "$(dirname "$0")/.."
. tests/jobs.sh
only=("$@")
counts=build/coverage
export BIN=$counts
[ $# -gt 0 ] || find $counts -name '*.gcda' -delete

# What test_fixed.sh compiles, all of it for size: its loops are counted as well.
export COUNT="gcc -O0 --coverage -Dalways_inline=unused -D__OPTIMIZE_SIZE__"

# of the longest a part: test_random's models of each group; test_damage's damages
declare -A fewer=([test_random]="340 14 40" [test_damage]=20)
for source in tests/test_*.c; do
    name=$(basename "$source" .c)
    [ "$name" = test_parity ] && continue # the same layers as test_random, far slower
    run "$name" "$counts/tests/$name" tests/data ${fewer[$name]-}
done
${CC:-cc} -shared -fPIC -O1 tests/failing_malloc.c -o $counts/failing_malloc.so || exit 1
for script in $(grep -l BIN tests/test_*.sh); do # the others run no program of BIN
    name=$(basename "$script" .sh)
    case $name in
    test_parity | test_bench) ;; # nothing that is counted here
    test_build) ;;               # installs programs of its own
    # its limits are not to be those of the counts' files
    test_tools_disk) run "$name" env LD_PRELOAD="$PWD/$counts/failing_malloc.so" bash "$script" ;;
    *) run "$name" bash "$script" ;;
    esac
done
finish
status=$?

# gcov leaves files where it runs, which must look like the root: so not there.
rm -rf $counts/gcov $counts/report
mkdir -p $counts/gcov $counts/report
ln -s ../../../{tools,tests,examples,vit.h} $counts/gcov
gcovr -r $counts/gcov --object-directory "$PWD/$counts/gcov" --exclude '.*tests/' \
    --exclude '.*bench.*' --exclude-unreachable-branches --branches \
    --csv $counts/report/report.csv --html-details $counts/report/index.html $counts || exit 1

# The folders of coverage.txt share their files' branches.
awk -F, '
    FNR == NR { if (!/^#/ && NF) { split($0, word, " "); least[word[1]] = word[2] } next }
    FNR > 1 {
        room = $1
        if (!(room in least)) sub("/[^/]*$", "", room)
        all[room] += $5
        taken[room] += $6
        if (!(room in least)) print "FAILED " $1 ": coverage.txt has no row for " room, failed++
    }
    END {
        for (room in least) {
            share = all[room] ? 100 * taken[room] / all[room] : 0
            below = share < least[room]
            failed += below
            printf "%-18s %5d branches, %5.1f %% taken, at least %s %s\n", room, all[room], share,
                   least[room], below ? "FAILED" : ""
        }
        exit failed > 0
    }' tests/coverage.txt $counts/report/report.csv || status=1
exit $status
