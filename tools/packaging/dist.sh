#!/usr/bin/env bash
# dist.sh VERSION - makes the files of a release in build/dist: the source as vit-VERSION.tar.gz,
# the header alone, their SHA-256. The bytes are the same each time, from git or from such an
# archive: sorted, without owners, and with the day of the release (.github/CHANGELOG.md) for all
# times.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C TZ=UTC
version=$1
out=build/dist name=vit-$version list=tools/packaging/files.txt
rm -rf "$out"
mkdir -p "$out/$name"

day=$(sed -n 's/^| [0-9.]* | \([0-9]*-[0-9]*-[0-9]*\) .*/\1/p' .github/CHANGELOG.md | head -n 1)
[ -n "$day" ] || { echo "dist: .github/CHANGELOG.md has no release with a day" >&2; exit 1; }
seconds=${SOURCE_DATE_EPOCH:-$(date -d "$day" +%s)}

if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$PWD" ]; then
    git status --porcelain | sed 's/^/dist: not committed: /' >&2
    git ls-files -z | tr '\0' '\n' | sort >"$out/files"
elif [ -e $list ]; then
    sort $list >"$out/files"
else
    echo "dist: neither a checkout nor an unpacked release: there is no $list" >&2
    exit 1
fi
tar -cf - -T "$out/files" | tar -xf - -C "$out/$name"
cp "$out/files" "$out/$name/$list" # for the next archive, made without git
rm "$out/files"
tar -cf - -C "$out" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX --mtime="@$seconds" "$name" | gzip -n -9 >"$out/$name.tar.gz"
rm -r "${out:?}/$name"
install -m 644 vit.h "$out/$name.h"
(cd "$out" && sha256sum "$name.tar.gz" "$name.h" | tee SHA256SUMS)
