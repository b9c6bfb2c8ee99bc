#!/usr/bin/env bash
# rust.sh - tests the crate. tools/packaging/rust/build.sh packs it. A program outside the tree uses
# the crate from its archive, without a network. Each installed cargo (rustup's and Debian's) builds
# this program. The class and the bits must be those of vit-embed.
set -u
cd "$(dirname "$0")/../.."
. tests/checks.sh
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
out=build/packages/rust tree=$PWD

if ! have cargo "all of it"; then
    summary
    exit
fi
rm -rf "$out"
check "build.sh" tools/packaging/rust/build.sh "$out"
archive=$out/vit-h-$version.crate
exists "$archive"
check "at most 300 KB" [ "$(wc -c <"$archive")" -le 300000 ]
mkdir "$work/vendor"
tar -xzf "$archive" -C "$work/vendor"
crate=$work/vendor/vit-h-$version
check "the tree's vit.h" cmp vit.h "$crate/c/vit.h"
check "one package: no dependencies" [ "$(grep -c '^\[\[package\]\]' "$crate/Cargo.lock")" = 1 ]
check "no path of this tree" sh -c "! grep -rIF '$tree' '$crate'"
cp -r "$crate" "$work/alone"
printf '{"files":{},"package":"%s"}' "$(sha256sum "$archive" | cut -d' ' -f1)" >"$crate/.cargo-checksum.json"

# The crate of a program that uses the folder vendor as its registry.
mkdir -p "$work/main/src" "$work/main/.cargo"
cp tests/packages/rust.rs "$work/main/src/main.rs"
printf '[package]\nname = "main"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nvit-h = "%s"\n' \
    "$version" >"$work/main/Cargo.toml"
printf '[source.crates-io]\nreplace-with = "vendor"\n[source.vendor]\ndirectory = "../vendor"\n' \
    >"$work/main/.cargo/config.toml"
tools/vit-embed examples/cat.ppm -q -o "$work/expected.npy" || fail "vit-embed"
tail -c +129 "$work/expected.npy" >"$work/expected"

# in_folder FOLDER CARGO WORDS...: runs cargo with these words, without this machine's environment
rustup=${RUSTUP_HOME:-$HOME/.rustup} compiler=
in_folder() {
    (cd "$1" && env -i PATH="${2%/*}:/usr/bin:/bin" HOME="$work" RUSTUP_HOME="$rustup" \
        ${compiler:+CC="$compiler"} cargo "${@:3}" --offline)
}
cargos=("$(command -v cargo)")
[ ! -x /usr/bin/cargo ] || [ /usr/bin/cargo -ef "${cargos[0]}" ] || cargos+=(/usr/bin/cargo)
for cargo in "${cargos[@]}"; do
    rm -rf "$work/main/target" "$work/main/Cargo.lock"
    check "$cargo builds" in_folder "$work/main" "$cargo" build --release
    try "$work/main/target/release/main" models/cifar10-vit.vit examples/cat.ppm "$work/embedding"
    is 0
    out '^cat 0\.7876$'
    same "$work/embedding" "$work/expected"
    sed "s|^|RAN $("$cargo" --version), ${compiler:-cc}: $(wc -c <"$work/main/target/release/main") bytes, |" "$work/err"
    ! command -v clang >/dev/null || compiler=clang # for the next
done
compiler=
try in_folder "$work/alone" "${cargos[0]}" test
is 0
out '^test result: ok\. 8 passed'
out '^test result: ok\. 1 passed' # the page's program
compiler=no-compiler
try in_folder "$work/main" "${cargos[0]}" build
is 101
err 'vit-h needs a C compiler'
summary
