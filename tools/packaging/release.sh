#!/usr/bin/env bash
# release.sh OUTDIR VERSION - writes a release to OUTDIR: the source archives and the header
# (dist.sh), the archives of tools/packaging/*/build.sh, SHA256SUMS, and TESTED.md (from the logs of
# `make test-packages`). Refuses a version without a day and a section in the change log. Works in
# OUTDIR.part, which replaces OUTDIR only if everything was made and no test of this commit failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C
out=$1 version=$2 log=.github/CHANGELOG.md logs=build/log/packages problems=()
part=$out.part

grep -Eq "^\| ${version//./[.]} \| [0-9]{4}-[0-9]{2}-[0-9]{2} \|" $log ||
    { echo "release: $log: expected a row \"| $version | YYYY-MM-DD | ...\", found none" >&2; exit 1; }
grep -qx "## ${version//./[.]}" $log ||
    { echo "release: $log: expected a section \"## $version\", found none" >&2; exit 1; }

rm -rf "$part"
mkdir -p "$part"
bash tools/packaging/dist.sh "$version" >/dev/null
cp build/dist/vit-* "$part"
for script in tools/packaging/*/build.sh; do
    name=$(basename "$(dirname "$script")")
    echo "$name:"
    bash "$script" "$part" || problems+=("$name was not made")
done

commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit+=", changed"
{
    printf '# Tests of the packages of vit.h %s\n\nThe files were made from commit %s.\n\n' "$version" "$commit"
    printf '| package | result | system | day | commit |\n|---|---|---|---|---|\n'
    for script in tests/packages/*.sh; do
        name=$(basename "$script" .sh)
        result="not tested" of='' day='' system=''
        if [ -s "$logs/$name" ]; then
            IFS='|' read -r of day system <"$logs/$name"
            result=$(tail -n 1 "$logs/$name")
        fi
        echo "| $name | $result | $system | $day | $of |"
    done
    printf '\nEach package was installed from its archive into an empty folder. Parts, as the tests named them:\n\n'
    for file in "$logs"/*; do
        [ ! -e "$file" ] || sed -n "s/^\(RAN\|SKIPPED\) \(.*\)/- ${file##*/}: \1 \2/p" "$file"
    done | sed 's/: RAN /: /; s/: SKIPPED /: skipped: /'
} >"$part/TESTED.md"
for file in "$logs"/*; do
    [ -e "$file" ] || continue
    IFS='|' read -r of _ <"$file"
    [ "$of" != "$commit" ] || tail -n 1 "$file" | grep -q ', 0 failed' || problems+=("the test of ${file##*/} failed")
done

(cd "$part" && rm -f SHA256SUMS && find . -type f | sed 's|^[.]/||' | sort | tr '\n' '\0' |
    xargs -0 sha256sum >../.sums && mv ../.sums SHA256SUMS)
if [ ${#problems[@]} != 0 ]; then
    printf 'release: %s\n' "${problems[@]}" "the other files are in $part" >&2
    exit 1
fi
rm -rf "$out"
mv "$part" "$out"
cat "$out/SHA256SUMS"
