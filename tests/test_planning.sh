#!/usr/bin/env bash
# examples/cluster/plan.c: compiles, prints what planning.md shows, and agrees with the formula for
# work that is done in vain.
#
#     bash tests/test_planning.sh
set -u
cd "$(dirname "$0")/.." || exit 2
page=$PWD/examples/cluster/planning.md
. tests/checks.sh
"${CC:-cc}" -std=c99 -O2 -Wall -Wextra -Wpedantic -Werror examples/cluster/plan.c -lm -o "$work/plan" ||
    fail 'plan.c does not compile'
cd "$work" || exit 2

# each command of the page, and what follows it up to the next or the end of the block
commands=0
shown=
compare() {
    [ -n "$command" ] || return 0
    commands=$((commands + 1))
    if [ "$($command)" = "$(printf '%s' "$shown" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}')" ]; then pass
    else fail "planning.md: \$ $command prints something else"; fi
}
command=
while IFS= read -r line; do
    case $line in
    '$ ./plan'*) compare && command=${line#"$ "} shown= ;;
    '```'*) compare && command= ;;
    *) [ -z "$command" ] || shown+=$line$'\n' ;;
    esac
done <"$page"
[ "$commands" -ge 3 ] || fail "planning.md: $commands commands"

# 10,000 shards of some 17 minutes, machines that fail every hour
try ./plan --images 1e10 --shard 1000000 --machines 10,1000 --mtbf 1 --slow 0
is 0
if awk 'NF == 9 && $1 + 0 { if ($8 < $9 * 0.95 || $8 > $9 * 1.05) bad = 1; rows++ }
        END { exit bad || rows != 2 }' "$work/out"; then pass; else fail 'redone work is not as expected'; fi
try ./plan --slow 0 --mtbf 1e9 --start 0 --images 96000000 --machines 100 --shard 10000
is 0 # 96 shards a machine of 10,000 images at 960 a second, and none of it again
if awk 'NR == 4 { exit !($4 == "0.3" && $7 == 0 && $8 == 0) }' "$work/out"; then pass; else fail 'hours'; fi

for wrong in '--shard 0' '--shard 10,x' '--machines 0' '--rate -1' '--rate x' '--rate 0' '--nothing 1' \
    '--rate' 'rate 1' '--shard 1'; do
    # shellcheck disable=SC2086 # words
    try ./plan $wrong
    is 2
done
try ./plan --help
is 0
out '^  --mtbf '
summary
