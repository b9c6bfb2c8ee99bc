#!/usr/bin/env bash
# build.sh OUTDIR - builds the modules of examples/web/vit. Then packs them as
# OUTDIR/vit-h-VERSION.tgz for npm.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tools/packaging/npm web=examples/web out=$1
package=build/packages/npm/package
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
make -s npm-modules
rm -rf "$package"
mkdir -p "$out" "$package/vit" "$package/models"
install -m 644 "$here"/{README.md,index.d.mts,index.mjs,worker.mjs} LICENSE "$package"
install -m 755 "$here/cli.mjs" "$package"
sed "s/\"0\.0\.0\"/\"$version\"/" "$here/package.json" >"$package/package.json"
modules=("$web"/vit/{check,convert,engine,features,files,learn,load,pool,thread,vit,wasi,words}.mjs)
install -m 644 "${modules[@]}" "$web"/vit/*.d.mts "$web/decode.mjs" "$here/photos.mjs" build/wasm/photo.wasm "$package/vit"
for name in vit vit-scalar vit-relaxed words convert learn; do
    if [ $name = vit-relaxed ] && [ ! -e "$web/vit/$name.wasm" ]; then
        echo "build.sh: there is no vit-relaxed.wasm, as clang-19 is missing" >&2
    else
        install -m 644 "$web/vit/$name.wasm" "$package/vit"
    fi
done
install -m 644 models/cifar10-vit.vit "$package/models"
npm pack --silent --ignore-scripts --pack-destination "$out" "./$package"
