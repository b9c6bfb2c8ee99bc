#!/usr/bin/env bash
# npm.sh - tests the package for npm, its program and its types. The package is installed from its
# archive into an empty folder. The package runs in Node 18, the installed Node, Deno, Bun and
# Cloudflare's workerd. It also runs in Chromium and Firefox, both without a bundler and bundled by
# esbuild, Vite and webpack. Everywhere the photo must give the class and, bit for bit, the
# embedding of the native program without fused multiply-add.
set -u
cd "$(dirname "$0")/../.."
. tests/checks.sh
tree=$PWD
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
tools=$tree/build/packages/npm/tools
lacking=$(sh tools/install-packages.sh missing libstb-dev clang lld wasi-libc libclang-rt-dev-wasm32 zopfli \
    clang-19 lld-19)
command -v npm >/dev/null || lacking="$lacking npm"
if [ "$lacking" ]; then
    skip "the package of npm" "no$lacking here"
    summary
    exit
fi

# --- the archive ----------------------------------------------------------------------------------

check "make npm" make -s npm
archive=$tree/build/packages/npm/vit-h-$version.tgz
sum=$(sha256sum "$archive")
check "once more" bash tools/packaging/npm/build.sh build/packages/npm
check "the same bytes" test "$sum" = "$(sha256sum "$archive")"
check "at most 5 MB" test "$(stat -c %s "$archive")" -le 5000000

used=$work/used
clean=(env -i PATH="$PATH" HOME="$work" npm_config_update_notifier=false)
mkdir "$used"
echo '{ "private": true, "type": "module" }' >"$used/package.json"
cp tests/packages/npm/*.{mjs,mts,capnp} examples/cat.jpg "$used"
cd "$used" || exit
check "npm install" "${clean[@]}" npm install --offline --silent --no-audit --no-fund "$archive"
check "no other package" test "$(ls node_modules)" = vit-h
check "no path of this tree" sh -c "! grep -rIlF '$tree' node_modules/vit-h"
check "its version" sh -c "grep -qF '\"version\": \"$version\"' node_modules/vit-h/package.json"
# Every file that package.json names must exist.
# shellcheck disable=SC2016 # JavaScript
check "its exports" node --input-type=module -e '
    import { existsSync, readFileSync } from "node:fs";
    const { exports: all, bin } = JSON.parse(readFileSync("node_modules/vit-h/package.json"));
    const names = JSON.stringify([all, bin]).match(/"\.?\/?[a-z./-]+\.m?[jt]s"/g).map((text) => JSON.parse(text));
    const missing = names.filter((name) => !existsSync(`node_modules/vit-h/${name}`));
    if (missing.length || names.length < 10) throw new Error(`${names.length} names; missing: ${missing}`);'

# --- the expected line: the class and the bits of the embedding -----------------------------------

cd "$tree" || exit
flags='-DVIT_NO_FMA -DVIT_NO_SIMD'
check "the native program" make -s TARGET=nofma CPPFLAGS="$flags" build/nofma/tools/vit-run \
    build/nofma/tools/vit-classify
check "the native decoder" make -s build/web/reference
check "the pixels" build/web/reference "$work" models/cifar10-vit.vit examples/cat.jpg
mv "$work/0.ppm" "$used/cat.ppm"
native=build/nofma/tools
check "the embedding" $native/vit-run "$used/cat.ppm" --embedding "$work/embedding.npy"
label=$($native/vit-classify --top 1 "$used/cat.ppm" | sed 's/.*%  //')
width=$(($(stat -c %s "$work/embedding.npy") / 4 - 32)) # its header has 128 bytes
echo "$label$(tail -c +129 "$work/embedding.npy" | od -An -v -tx4 | tr -d '\n')" >"$work/expected"
check "a cat, and 192 floats" test "$label $width" = "cat 192"

# --- what runs it: from npm, in the versions of package.json ------------------------------------------

mkdir -p "$tools"
if ! cmp -s tests/packages/npm/package.json "$tools/package.json" || [ ! -e "$tools/installed" ]; then
    rm -rf "$tools/installed" && cp tests/packages/npm/package.json "$tools"
    (cd "$tools" && npm install --silent --no-audit --no-fund >"$work/log" 2>&1 && touch installed) ||
        tail -n 3 "$work/log"
fi
bin=$tools/node_modules/.bin
cd "$used" || exit

# runs WHAT COMMAND...: passes if the command runs main.mjs and prints the expected lines
errors="PhotoError: the photo: the image is truncated
Error: none.jpg: no such file
VitError: .*
TypeError: expected a photo.*
class 3, 192 numbers"
runs() {
    local what=$1
    shift
    if [ ! -x "$(command -v "$1")" ]; then
        skip "$what" "npm has not installed it"
        return
    fi
    case=$what
    try timeout 120 "${clean[@]}" "$@" main.mjs cat.jpg
    is 0
    head -n 1 "$work/out" >"$work/line"
    tail -n +2 "$work/out" >"$work/messages"
    check "$what: the line" diff "$work/expected" "$work/line"
    check "$what: the errors, the other modules" same_errors
    case=
}
same_errors() {
    local pattern message
    while read -r pattern && read -r message <&3; do
        [[ $message =~ ^$pattern$ ]] || { echo "$message: expected $pattern" && return 1; }
    done <<<"$errors" 3<"$work/messages"
    [ "$(wc -l <"$work/messages")" = 5 ]
}
runs "Node $(node --version)" node
runs "Node 18" "$tools/node_modules/node18/bin/node"
runs "Deno" "$bin/deno" run --allow-all
runs "Bun" "$bin/bun"

# --- the program ------------------------------------------------------------------------------------

offline=()
unshare -rn true 2>/dev/null && offline=(unshare -rn) # without a network
program=("${offline[@]}" "${clean[@]}" npx --offline vit-h)
try "${program[@]}" classify cat.ppm
is 0
mv "$work/out" "$work/said"
check "vit-h classify" diff <("$tree/$native/vit-classify" -m "$tree/models/cifar10-vit.vit" cat.ppm) "$work/said"
try "${program[@]}" embed cat.jpg
is 0
node -e "
    const { embedding } = JSON.parse(require('fs').readFileSync('$work/out', 'utf8'));
    const bits = [...new Uint32Array(Float32Array.from(embedding).buffer)];
    console.log(['cat', ...bits.map((word) => word.toString(16).padStart(8, '0'))].join(' '));" >"$work/line"
check "vit-h embed" diff "$work/expected" "$work/line"
try "${program[@]}" classify --json --top 2 --threads 1 cat.jpg cat.ppm
is 0
lines out 2
out '^\{"file":"cat.ppm","classes":\[\{"index":3,"label":"cat","score":0\.8'
try "${program[@]}" info
out '"num_labels":10'
try "${program[@]}" classify cat.jpg package.json none.jpg
is 1
err '^vit-h: package.json: the file is not an image of a supported format'
err '^vit-h: none.jpg: no such file'
try "${program[@]}" classify --model cat.jpg cat.jpg
is 1
err '^vit-h: cat.jpg: '
try "${program[@]}" classify --top 0 cat.jpg
is 2
try "${program[@]}" look cat.jpg
is 2
err "there is no command 'look'"
try "${program[@]}" --version
out "^$version\$"

# --- workerd ----------------------------------------------------------------------------------------

if [ ! -x "$bin/workerd" ] || [ ! -x "$bin/esbuild" ]; then
    skip "workerd" "npm has not installed it"
else
    bundle=("${clean[@]}" "$bin/esbuild" --bundle --format=esm --log-level=warning --asset-names='[name]')
    check "worker.mjs is bundled" "${bundle[@]}" worker.mjs --conditions=workerd,worker,browser \
        --loader:.wasm=copy --loader:.vit=copy --outdir=worker
    cp worker.capnp worker
    "$bin/workerd" serve --control-fd=3 worker/worker.capnp 3>"$work/port" 2>"$work/workerd" &
    server=$!
    for ((i = 0; i < 100; i++)); do grep -q port "$work/port" && break; sleep 0.1; done
    port=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p' "$work/port")
    node -e "
        const body = require('fs').readFileSync('cat.jpg');
        fetch('http://127.0.0.1:$port', { method: 'POST', body }).then((answer) => answer.text())
            .then(console.log, console.error);" >"$work/line"
    check "workerd: the line" diff "$work/expected" "$work/line"
    kill $server
    wait $server 2>/dev/null
fi

# --- pages: modules as they are; bundles of esbuild, one with all in it; of Vite; of webpack --------

if [ ! -d "$tools/node_modules/puppeteer-core" ]; then
    skip "pages" "npm has not installed puppeteer-core"
else
    body() { echo "<!doctype html><meta charset=utf-8><link rel=icon href=data:,><body>$1</body>"; }
    module='<script type="module" src='
    imports='<script type="importmap">{ "imports": { "vit-h": "./node_modules/vit-h/index.mjs" } }</script>'
    lines=("$work"/expected{,,,,})
    whole() { cat "${lines[@]}" && printf 'cat cat cat cat cat\nrelaxed, %s\n' "$1"; }
    pages=(plain.html)
    body "$imports$module\"page.mjs\"></script>" >plain.html
    whole threads >"$work/page"
    if [ -x "$bin/esbuild" ]; then
        check "page.mjs is bundled" "${bundle[@]}" page.mjs --minify --outdir=bundle
        cp -r node_modules/vit-h/vit/*.{wasm,mjs} node_modules/vit-h/models bundle
        check "single.mjs is bundled" "${bundle[@]}" single.mjs --minify --outfile=single.js \
            --loader:.wasm=binary --loader:.vit=binary
        body "$module\"bundle/page.js\"></script>" >bundle.html
        body "$module\"single.js\"></script>" >single.html
        whole threads | cat - "$work/expected" >>"$work/page"
        pages+=(bundle.html single.html)
    else skip "a bundle of esbuild" "npm has not installed it"; fi
    if [ -x "$bin/vite" ]; then
        body "$module\"./page.mjs\"></script>" >index.html
        check "vite build" "${clean[@]}" "$bin/vite" build --base ./ --outDir vite
        cp cat.jpg cat.ppm vite
        whole "1 thread" >>"$work/page"
        pages+=(vite/index.html)
    else skip "a bundle of Vite" "npm has not installed it"; fi
    if [ -x "$bin/webpack" ]; then
        check "webpack" "${clean[@]}" "$bin/webpack" --mode production --entry ./page.mjs \
            --output-path webpack
        cp cat.jpg cat.ppm webpack
        body "$module\"main.js\"></script>" >webpack/index.html
        whole "1 thread" >>"$work/page"
        pages+=(webpack/index.html)
    else skip "a bundle of webpack" "npm has not installed it"; fi
    for browser in chrome:"${CHROMIUM:-/usr/bin/chromium}" firefox:"${FIREFOX:-/usr/bin/firefox-esr}"; do
        if [ ! -x "${browser#*:}" ]; then
            skip "pages in ${browser%%:*}" "no ${browser#*:} here"
            continue
        fi
        case=$browser
        check "pages in $browser" node browser.mjs "$tools" . "${browser%%:*}" "${pages[@]}"
        mv "$work/out" "$work/said"
        check "the pages' lines, no message" diff "$work/page" "$work/said"
        echo "RAN ${pages[*]} in $("${browser#*:}" --version 2>/dev/null | head -n 1)"
        case=
    done
fi

# --- types ------------------------------------------------------------------------------------------

if [ ! -x "$bin/tsc" ]; then
    skip "types" "npm has not installed TypeScript"
else
    types() { # WHAT FLAGS...
        local what=$1
        shift
        check "types: $what" "${clean[@]}" "$bin/tsc" --noEmit --strict --noUncheckedIndexedAccess \
            --exactOptionalPropertyTypes --target es2022 --module nodenext "$@"
    }
    types "a page" --lib es2022,dom consumer.mts picture.mts
    types "Node" --lib es2022 --typeRoots "$tools/node_modules/@types" --types node consumer.mts
    types "a bundler" --lib es2022,dom --module esnext --moduleResolution bundler consumer.mts
fi
cd "$tree" || exit
summary
