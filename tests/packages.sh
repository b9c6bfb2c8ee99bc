#!/usr/bin/env bash
# packages.sh [NAME...] - runs tests/packages/NAME.sh, or all without names. It keeps the output of
# each in build/log/packages/NAME, for the release's TESTED.md. The first line of a log has the
# commit, the day and the system.
set -u
cd "$(dirname "$0")/.." || exit 2
logs=build/log/packages failed=
mkdir -p $logs
[ $# -gt 0 ] || set -- tests/packages/*.sh
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit+=", changed"
system="$(uname -sm), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null)"
for name in "$@"; do
    name=$(basename "$name" .sh)
    [ -e "tests/packages/$name.sh" ] || { echo "there is no tests/packages/$name.sh" >&2; exit 2; }
    echo "$name:"
    echo "$commit|$(date -u +%Y-%m-%d)|${system%, }" >$logs/"$name"
    bash tests/packages/"$name".sh 2>&1 | tee -a $logs/"$name"
    [ "${PIPESTATUS[0]}" = 0 ] || failed+=" $name"
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
