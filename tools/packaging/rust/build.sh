#!/usr/bin/env bash
# build.sh OUTDIR - writes OUTDIR/vit-h-VERSION.crate, which contains vit.h, after cargo has compiled
# it. Needs cargo and a C compiler, and no network. To publish the crate, run cargo publish in an
# unpacked copy.
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh OUTDIR" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")"
root=$(realpath ../../..)
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' "$root/vit.h")
cargo=$(command -v "${CARGO:-cargo}") ||
    { echo "build.sh: there is no ${CARGO:-cargo} (Debian: cargo)" >&2; exit 1; }

work=$(mktemp -d) # outside of any git repository, whose ignored files cargo would leave out
trap 'rm -rf "$work"' EXIT
mkdir "$work/c"
cp -r build.rs README.md src tests "$work"
cp "$root/vit.h" ../handles.c ../handles.h "$work/c"
cp "$root/LICENSE" "$work"
cp "$root/models/fashion-vit.vit" "$work/tests"
sed -e '1,/^\[package\]/{/^#/d}' -e "s/^version = .*/version = \"$version\"/" Cargo.toml >"$work/Cargo.toml"
(cd "$work" && env -u MAKEFLAGS -u CARGO_TARGET_DIR "$cargo" package --quiet --offline)
install -m 644 "$work/target/package/vit-h-$version.crate" "$out"
