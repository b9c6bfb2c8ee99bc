#!/usr/bin/env bash
# coverage.sh - runs the tests of build/coverage and says which branches they took, file by file;
# build/coverage/report has a page for each file. `make coverage` builds them first.
set -u
cd "$(dirname "$0")/.."
find build/coverage -name '*.gcda' -delete
export BIN=build/coverage
# of the longest a part: test_random's models, test_damage's damages
declare -A fewer=([test_random]=370 [test_damage]=20)
for source in tests/test_*.c; do
    name=$(basename "$source" .c)
    [ "$name" = test_parity ] && continue # the same layers as test_random, far slower
    echo "$name: $("build/coverage/tests/$name" tests/data ${fewer[$name]-} 2>&1 | tail -n 1)"
done
for name in test_convert test_layouts test_options test_cli; do
    echo "$name: $(bash tests/$name.sh 2>&1 | tail -n 1)"
done
mkdir -p build/coverage/report
common=(-r . --object-directory build/coverage --exclude tests --exclude '.*bench.*'
    --exclude-unreachable-branches)
gcovr "${common[@]}" --branches --txt --html-details build/coverage/report/index.html
