#!/usr/bin/env bash
# python.sh - builds the Python package, installs its wheel into an empty environment outside this
# tree, and runs python.py there. PYTHON=COMMAND chooses another Python that has NumPy.
set -u
cd "$(dirname "$0")/../.."
. tests/checks.sh
tree=$PWD
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
python=$(command -v "${PYTHON:-/usr/bin/python3}")
package=tools/packaging/python out=build/packages/python
clean="env -i PATH=/usr/bin:/bin HOME=$work LANG=C.UTF-8"

if [ -z "$python" ] || ! "$python" -c 'import numpy, venv, ensurepip' 2>/dev/null; then
    skip "the Python package" "no Python here with NumPy and venv (Debian: python3-numpy python3-venv)"
    summary
    exit
fi

# --- the archives --------------------------------------------------------------------------------

rm -rf $out
check "build.sh" env PYTHON="$python" bash $package/build.sh $out
wheel=$(echo $out/*"$(uname -m)".whl) archive=$out/vit_h-$version.tar.gz
exists "$archive"
files=2
unpacked() { # WHEEL FOLDER
    "$python" -m zipfile -e "$1" "$2"
}
newest() { # LIBRARY: prints the largest version of glibc that it needs
    objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1
}
check "the wheel can be unpacked" unpacked "$wheel" "$work/wheel"
if [ "$(uname -m)" = x86_64 ] && grep -q GLIBC <(objdump -T "$work/wheel/vit_h/libvit.so"); then
    check "its name: $wheel" [ "${wheel##*/}" = "vit_h-$version-py3-none-manylinux_2_17_x86_64.whl" ]
    needed=$(newest "$work/wheel/vit_h/libvit.so")
    check "it needs glibc 2.17 at most" sh -c "printf '%s\n' $needed 2.17 | sort -CV"
    check "it needs no other library" sh -c "! readelf -d '$work/wheel/vit_h/libvit.so' | grep NEEDED |
        grep -v -e 'libc\.so\.6' -e 'libm\.so\.6' -e 'libpthread\.so\.0'"
    # a build with the symbols that this machine's glibc prefers
    check "with new symbols" env CC=cc CFLAGS=-O0 CPPFLAGS=-DNEW_GLIBC \
        PYTHON="$python" bash $package/build.sh "$work/new"
    check "they can be unpacked" unpacked "$work"/new/*.whl "$work/newer"
    needed=$(newest "$work/newer/vit_h/libvit.so")
    check "the tag has the version of the newest symbol, $needed" [ -e \
        "$work/new/vit_h-$version-py3-none-manylinux_${needed//./_}_x86_64.whl" ]
    if [ "$needed" = 2.14 ]; then skip "another tag for newer symbols" "this glibc has none"; fi
    check "another library is no manylinux" env CC=cc CFLAGS=-O0 \
        LDFLAGS="-Wl,--no-as-needed -lgcc_s" PYTHON="$python" bash $package/build.sh "$work/other"
    exists "$work/other/vit_h-$version-py3-none-linux_x86_64.whl"
fi
arm=vit_h-$version-py3-none-manylinux_2_17_aarch64.whl
if [ "$(uname -m)" = x86_64 ] && have aarch64-linux-gnu-gcc "the wheel for ARM"; then
    files=3
    check "the wheel for ARM can be unpacked" unpacked "$out/$arm" "$work/arm"
    cp "$work/arm/vit_h/libvit.so" "$work"
    check "a program links to its library" aarch64-linux-gnu-gcc -std=c99 -DCOMPILED_LIBRARY -I. \
        tests/packages/native.c "$work/libvit.so" -Wl,-rpath,"$work" -o "$work/native_arm"
    if have qemu-aarch64-static "the library for ARM"; then
        try qemu-aarch64-static -L /usr/aarch64-linux-gnu "$work/native_arm" models/cifar10-vit.vit examples/cat.ppm 1
        is 0
        out ' cat$'
        echo "RAN the library for ARM under QEMU, in a C program"
    fi
fi
check "$files files" [ "$(find $out -type f | wc -l)" = $files ]

try env CC=false PYTHON="$python" bash $package/build.sh "$work/none"
is 1
err '^backend.py: libvit.so cannot be compiled'
try env CC=no-such-compiler PYTHON="$python" bash $package/build.sh "$work/none"
is 1
err '^backend.py: there is no program called no-such-compiler; CC names the C compiler$'
check "no part of a wheel is left" sh -c "! find '$work/none' -name '*.whl*' -o -name '*.part' | grep ."

# From the source archive alone, the standard tools must make the same bytes.
mkdir "$work/source"
tar -xzf "$archive" -C "$work/source"
source=$work/source/vit_h-$version
check "the archive has vit.h" cmp vit.h "$source/vit.h"
if "$python" -m pip --version >/dev/null 2>&1; then
    check "pip wheel" $clean "$python" -m pip wheel -q --no-index --no-deps --no-build-isolation -w "$work/pip" "$source"
    check "pip's wheel is the same" cmp "$wheel" "$work"/pip/*.whl
else
    skip "pip wheel" "no pip here (Debian: python3-pip)"
fi
if "$python" -c 'import build' 2>/dev/null; then
    check "python3 -m build" $clean "$python" -m build -n --outdir "$work/build" "$source"
    check "its wheel is the same" cmp "$wheel" "$work/build/${wheel##*/}"
    check "its archive is the same" cmp "$archive" "$work/build/${archive##*/}"
else
    skip "python3 -m build" "no build here (Debian: python3-build)"
fi

# --- installed -----------------------------------------------------------------------------------

# environment NAME WHEEL
environment() {
    $clean "$python" -m venv --system-site-packages "$work/$1" &&
        cp "$2" "$work" && $clean "$work/$1/bin/python" -m pip install -q --no-index --no-deps "$work/${2##*/}"
}
use() { (cd "$work/empty" && $clean "$work/env/bin/python" -B "$@"); }
mkdir "$work/empty" "$work/data"
check "the wheel is installed" environment env "$wheel"
check "nothing knows $tree" sh -c "! grep -rlF '$tree' '$work'/env/lib/python3*/site-packages/vit_h*"

data=$work/data model=models/cifar10-vit.vit
check "native.c" "${CC:-cc}" -std=c99 -O2 -I. tests/packages/native.c -o "$data/native" -lm -lpthread
check "examples/cat.jpg, decoded once" "$python" - "$data" <<'END' || cp examples/cat.ppm "$data/cat.ppm"
import sys
from PIL import Image
Image.open("examples/cat.jpg").convert("RGB").save(sys.argv[1] + "/cat.ppm")
END
cat=$data/cat.ppm
check "classes" sh -c "tools/vit-classify --json '$cat' >'$data/classes.json'"
check "classes by words" sh -c \
    "tools/vit-classify --json --classes 'a kitten, a puppy, an empty street' '$cat' >'$data/words.json'"
check "embedding" tools/vit-embed -q "$cat" -o "$data/cat.npy"
check "normalised" tools/vit-embed -q --normalize "$cat" -o "$data/cat_normal.npy"
printf 'a cat\na dog\n' >"$data/texts.txt"
check "texts" tools/vit-embed -q --texts "$data/texts.txt" -o "$data/texts.npy" --names "$data/texts.names"
check "tokens" tools/vit-run "$cat" --tokens "$data/tokens.npy" --attention "$data/attention.npy"
check "tokens of a block" tools/vit-run "$cat" --block 2 --block-tokens "$data/block2.npy"
images=()
for name in exif2 exif3 exif4 exif5 exif6 exif7 exif8 grey palette grey_alpha; do images+=("tests/data/images/$name.png"); done
check "images of all kinds" tools/vit-embed -q "${images[@]}" -o "$data/exif.npy"
fixtures=tests/data/fixtures
check "a model without a head" tools/vit-convert -q $fixtures/headless/model.pth -o "$data/headless.vit"
check "a model of any size" tools/vit-convert -q --dynamic $fixtures/dynamic/model.pth -o "$data/dynamic.vit"
check "its embedding" tools/vit-embed -q -m "$data/dynamic.vit" --img-size 32x24 "$cat" -o "$data/dynamic.npy"
check "PyTorch's model" tools/vit-convert -q $fixtures/plain/model.safetensors -o "$data/plain.vit"
check "random_checkpoint" "${CC:-cc}" -std=c99 -O1 tests/random_checkpoint.c -o "$work/random_checkpoint"
check "weights of ViT-Ti/16" "$work/random_checkpoint" "$work/tiny.safetensors" \
    dim=192 depth=12 mlp=768 patch=16 rows=14 cols=14 classes=1000
check "ViT-Ti/16" tools/vit-convert -q "$work/tiny.safetensors" -o "$data/tiny.vit"
check "NaFlex" tools/vit-convert -q tests/data/naflex -o "$data/naflex.vit"
"$python" - "$data" <<'END'
import sys
import numpy as np
with open(sys.argv[1] + "/noise.ppm", "wb") as file:
    file.write(b"P6 50 40 255\n" + np.random.default_rng(1).integers(0, 256, (70, 40, 50, 3), np.uint8)[0].tobytes())
END
check "its embeddings" tools/vit-embed -q -m "$data/naflex.vit" "$cat" "$data/noise.ppm" -o "$data/naflex.npy"
head -c 4000000 $model >"$data/cut.vit"
{ head -c 3000000 $model && printf '\377\376' && tail -c +3000003 $model; } >"$data/flipped.vit"
head -c 9000 examples/cat.jpg >"$data/cut.jpg"

adds use "$tree/tests/packages/python.py" "$data" "$tree"
grep -v ' passed, ' "$work/log"
milliseconds() { # CODE: prints the CPU time of the fastest of five runs
    for _ in 1 2 3 4 5; do
        use -c "import time, numpy
start = time.process_time()
$1
print(1e3 * (time.process_time() - start))"
    done | sort -n | head -n 1
}
import=$(milliseconds "import vit_h")
echo "RAN import vit_h, after NumPy: ${import%.*} ms of CPU time"
check "import takes at most 100 ms" [ "${import%.*}" -le 100 ]
check "vit_h imports no Pillow" use -c "import sys, vit_h; assert 'PIL' not in sys.modules"

# The package must refuse a library compiled from a vit.h with other structs.
sed -i 's/^    int width, height;     .*/    int more, width, height;/' "$source/vit.h"
check "vit.h is changed" sh -c "! cmp -s vit.h '$source/vit.h'"
check "another layout compiles" env CFLAGS=-O0 "$python" -B "$source/backend.py" "$work/changed"
check "it is installed" environment changed "$work"/changed/*.whl
tried="import vit_h"
(cd "$work/empty" && $clean "$work/changed/bin/python" -c "import vit_h") >"$work/out" 2>"$work/err"
status=$?
is 1
err 'ImportError: libvit.so has another layout: vit_image at byte 0, of 32 bytes; expected at 0, of 24'

# --- types ---------------------------------------------------------------------------------------

if "$python" -c 'import mypy' 2>/dev/null; then
    cat >"$work/empty/right.py" <<'END'
from pathlib import Path
from typing import List

import numpy as np
import numpy.typing as npt
import vit_h

model = vit_h.Model(Path("a.vit"), threads=2, img_size=(224, 224))
pixels: npt.NDArray[np.uint8] = np.zeros((2, 2, 3), np.uint8)
one: List[vit_h.Prediction] = model.classify(pixels, 3)
two: List[vit_h.Prediction] = model.classify("a.jpg", words=["a cat"])
many: List[List[vit_h.Prediction]] = model.classify(["a.jpg", Path("b.jpg"), pixels])
vectors: npt.NDArray[np.float32] = model.embed(p for p in [pixels])
score: float = one[0].score
text: npt.NDArray[np.float32] = model.text(["a", "b"], normalize=True)
END
    cat >"$work/empty/wrong.py" <<'END'
import vit_h

model = vit_h.Model(3)
model.embed(3.5)
model.classify("a.jpg", "five")
label: int = model.classify("a.jpg")[0].label
model.text(3)
END
    mypy="$work/env/bin/python -m mypy --strict --cache-dir $work/mypy"
    check "types" sh -c "cd '$work/empty' && $clean $mypy right.py"
    try sh -c "cd '$work/empty' && $clean $mypy wrong.py"
    is 1
    out '^Found 5 errors'
    check "types of the package" sh -c "cd '$work/empty' && $clean $mypy --python-version 3.9 -p vit_h"
else
    skip "types" "no mypy here (Debian: mypy)"
fi

check "it is removed" $clean "$work/env/bin/python" -m pip uninstall -q -y vit_h
check "nothing is left" sh -c "! find '$work/env' -path '*vit_h*' | grep ."
summary
