#!/usr/bin/env bash
# packages.sh [NAME...] - runs tests/packages/NAME.sh. Without names it runs all of them. As many
# tests run at once as there are cores, and the longest tests begin first. The script keeps the
# output of each test in build/log/packages/NAME, for the release's TESTED.md. The first line of a
# log has the commit, the day and the system.
set -u
cd "$(dirname "$0")/.." || exit 2
logs=build/log/packages failures=build/log/packages.failed
rm -rf $failures
mkdir -p $logs $failures
if [ $# = 0 ]; then
    set -- static install npm python
    for name in tests/packages/*.sh; do
        name=$(basename "$name" .sh)
        [[ " $* " == *" $name "* ]] || set -- "$@" "$name"
    done
fi
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit+=", changed"
system="$(uname -sm), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null)"

# one NAME: runs the test, then prints its name, its time and its log
one() {
    local log=$logs/$1 start=$SECONDS
    echo "$commit|$(date -u +%Y-%m-%d)|${system%, }" >"$log"
    bash tests/packages/"$1".sh >>"$log" 2>&1 || touch "$failures/$1"
    printf '%s, %s s:\n%s\n' "$1" $((SECONDS - start)) "$(tail -n +2 "$log")"
}

for name in "$@"; do
    name=$(basename "$name" .sh)
    [ -e "tests/packages/$name.sh" ] || { echo "there is no tests/packages/$name.sh" >&2; exit 2; }
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    one "$name" &
done
wait
failed=$(cd $failures && echo *)
[ "$failed" = '*' ] || { echo "failed: $failed" >&2; exit 1; }
