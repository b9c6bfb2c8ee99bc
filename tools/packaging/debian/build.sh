#!/usr/bin/env bash
# build.sh OUTDIR - makes Debian packages by running dpkg-buildpackage in a copy of this tree.
# DEBFULLNAME and DEBEMAIL name the maintainer; without DEBEMAIL, the address is root's address,
# which archives refuse.
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh OUTDIR" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
for tool in dpkg-buildpackage dh; do
    command -v $tool >/dev/null || { echo "build.sh: no $tool here (Debian: dpkg-dev debhelper)" >&2; exit 1; }
done
cd "$(dirname "$0")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/vit
mkdir -p "$tree/debian/source"

list=tools/packaging/files.txt # in an unpacked release
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$PWD" ]; then
    git ls-files -co --exclude-standard
elif [ -e $list ]; then
    cat $list
else
    echo "build.sh: neither a checkout nor an unpacked release: there is no $list" >&2
    exit 1
fi | grep -v '^tests/' | tar -cf - -T - | tar -xf - -C "$tree"

version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
day=$(sed -n "s/^| $version | \([0-9-]*\) .*/\1/p" .github/CHANGELOG.md)
[ -n "$day" ] || { echo "build.sh: .github/CHANGELOG.md has no day for $version" >&2; exit 1; }
maintainer="${DEBFULLNAME:-the vit.h authors} <${DEBEMAIL:-root@$(hostname -f)}>"
from=tools/packaging/debian to=$tree/debian
sed "s/@MAINTAINER@/${maintainer//\//\\/}/" $from/control >"$to/control"
sed -n '5,$p' LICENSE | sed 's/^$/./; s/^/ /' >"$work/license"
sed -e "/@LICENSE@/{r $work/license" -e 'd}' $from/copyright >"$to/copyright"
install -m 755 $from/rules "$to/rules"
echo "3.0 (quilt)" >"$to/source/format"
cat >"$to/changelog" <<END
vit ($version-1) unstable; urgency=medium

  * Version $version; its changes are in .github/CHANGELOG.md of the source.

 -- $maintainer  $(LC_ALL=C TZ=UTC date -d "$day" '+%a, %d %b %Y %H:%M:%S +0000')
END
export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-} parallel=$(nproc) noautodbgsym"
(cd "$tree" && dpkg-buildpackage -us -uc -b >"$work/log" 2>&1) ||
    { tail -n 30 "$work/log" >&2; exit 1; }
rm -f "$out"/*_"$version"-1_*.deb
cp "$work"/*.deb "$out"
(cd "$out" && ls ./*_"$version"-1_*.deb)
