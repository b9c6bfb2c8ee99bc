#!/usr/bin/env bash
# dist.sh VERSION - writes a release to build/dist: source archives, the header alone, and their
# SHA-256. vit-VERSION.tar.gz has at most 6 MB, without tests/ and the pages' pictures;
# vit-VERSION-full.tar.gz has everything. Each run gives the same bytes: files are sorted, have no
# owners, and have the day of the release (.github/CHANGELOG.md) as time. dist.sh runs in git or in
# an unpacked archive. In the unpacked smaller archive, it makes only the smaller archive.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C TZ=UTC
version=$1
out=build/dist name=vit-$version list=tools/packaging/files.txt
rm -rf "$out"
mkdir -p "$out"

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
archive() { # FILE LIST: the files of the list, and the list for the next archive, made without git
    mkdir -p "$out/$name"
    tar -cf - -T "$2" | tar -xf - -C "$out/$name"
    cp "$2" "$out/$name/$list"
    tar -cf - -C "$out" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX --mtime="@$seconds" "$name" | gzip -n -9 >"$out/$1"
    rm -r "${out:?}/$name"
    made+=("$1")
}
made=("$name.h")
grep -Ev '^(tests|examples/pictures)/' "$out/files" >"$out/some"
archive "$name.tar.gz" "$out/some"
cmp -s "$out/files" "$out/some" || archive "$name-full.tar.gz" "$out/files"
rm "$out/files" "$out/some"
size=$(wc -c <"$out/$name.tar.gz")
[ "$size" -le 6000000 ] || { echo "dist: $name.tar.gz has $size bytes, more than 6000000" >&2; exit 1; }
install -m 644 vit.h "$out/$name.h"
(cd "$out" && sha256sum "${made[@]}" | tee SHA256SUMS)
