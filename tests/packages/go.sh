#!/usr/bin/env bash
# go.sh - tests the Go module. tools/packaging/go/build.sh packs it. A program outside the tree uses
# the module from its archive, through a proxy in a folder and without a network. The class and the
# bits must be those of vit-embed.
set -u
cd "$(dirname "$0")/../.."
. tests/checks.sh
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
out=build/packages/go tree=$PWD

if ! have go "all of it" || ! have zip "all of it"; then
    summary
    exit
fi
rm -rf "$out"
check "build.sh" tools/packaging/go/build.sh "$out"
archive=$out/vit-go-$version.zip
exists "$archive"
check "at most 300 KB" [ "$(wc -c <"$archive")" -le 300000 ]
cp "$archive" "$work/first.zip"
check "build.sh, again" tools/packaging/go/build.sh "$out"
same "$archive" "$work/first.zip"
try env MODULE=example.org/other tools/packaging/go/build.sh "$work"
is 1
err "ends in /v${version%%.*}"

# A proxy is a folder of four files for each version.
module=example.org/vit/v${version%%.*}
proxy=$work/proxy/$module/@v
mkdir -p "$proxy"
cp "$archive" "$proxy/v$version.zip"
unzip -q -p "$archive" "$module@v$version/go.mod" >"$proxy/v$version.mod"
printf '{"Version":"v%s"}' "$version" >"$proxy/v$version.info"
echo "v$version" >"$proxy/list"
check "the tree's vit.h" sh -c "unzip -q -p '$archive' '$module@v$version/vit.h' | cmp - vit.h"
check "no path of this tree" sh -c "! unzip -q -p '$archive' | grep -aF '$tree'"

mkdir "$work/main"
cp tests/packages/go.go "$work/main/main.go"
# in_main WORDS...: runs the go command with these words, without this machine's environment
in_main() {
    (cd "$work/main" && env -i PATH="$PATH" HOME="$work" GOPROXY="file://$work/proxy" GONOSUMDB='*' GOFLAGS=-modcacherw \
        ${compiler:+CC="$compiler"} go "$@")
}
compiler=
check "go mod init" in_main mod init main
check "go get" in_main get "$module@v$version"
check "no dependencies" [ "$(grep -c "$module" "$work/main/go.mod")" = "$(grep -c 'v[0-9]*\.' "$work/main/go.mod")" ]
for compiler in gcc clang; do
    have $compiler "go with $compiler" || continue
    check "go build, with $compiler" in_main build -o main
    try "$work/main/main" models/cifar10-vit.vit examples/cat.ppm "$work/embedding"
    is 0
    out '^cat 0\.7876$'
    tools/vit-embed examples/cat.ppm -q -o "$work/expected.npy" || fail "vit-embed"
    tail -c +129 "$work/expected.npy" >"$work/expected"
    same "$work/embedding" "$work/expected"
    sed "s|^|RAN $(go version), $compiler: $(wc -c <"$work/main/main") bytes, |" "$work/err"
done
compiler=
check "go vet" in_main vet "$module"
try in_main test -v "$module"
is 0
tried="the module's own tests"
check "all of them" [ "$(grep -c '^--- PASS' "$work/out")" = "$(grep -c '^func Test' tools/packaging/go/vit_test.go)" ]
summary
