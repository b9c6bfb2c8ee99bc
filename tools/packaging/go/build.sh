#!/usr/bin/env bash
# build.sh OUTDIR - writes OUTDIR/vit-go-VERSION.zip, the module with vit.h inside, in the form in
# which Go's proxies store modules. MODULE is the path of the module, with the major version at its
# end: MODULE=github.com/NAME/REPOSITORY/v2. Needs zip and no network. To publish the module, put
# the files of the zip into the repository that MODULE names, and tag it vVERSION.
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh OUTDIR" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")"
root=$(realpath ../../..)
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' "$root/vit.h")
module=${MODULE:-$(sed -n 's/^module //p' go.mod)}
case $module in
*/v"${version%%.*}") ;;
*) echo "build.sh: the path of version $version ends in /v${version%%.*}, unlike $module" >&2; exit 1 ;;
esac
command -v zip >/dev/null || { echo "build.sh: there is no zip (Debian: zip)" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/$module@v$version
mkdir -p "$folder/testdata"
cp vit.go vit_test.go ../handles.c ../handles.h "$root/vit.h" "$root/LICENSE" "$folder"
cp "$root/models/fashion-vit.vit" "$folder/testdata"
sed "s|^module .*|module $module|" go.mod >"$folder/go.mod"
# Each run gives the same bytes: files are sorted, have the day of the release, and have no owners.
day=$(sed -n 's/^| [0-9.]* | \([0-9]*-[0-9]*-[0-9]*\) .*/\1/p' "$root/.github/CHANGELOG.md" | head -n 1)
find "$work" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-$(date -u -d "$day" +%s)}" {} +
rm -f "$out/vit-go-$version.zip"
(cd "$work" && find . -type f | sed 's|^\./||' | LC_ALL=C sort | TZ=UTC zip -q -X -9 "$out/vit-go-$version.zip" -@)
