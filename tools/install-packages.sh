#!/bin/sh
# install-packages.sh SET - installs the missing packages of a set below, by Debian's package
# manager. Prints the packages before it installs them, and does nothing if all are installed.
#
# install-packages.sh missing PACKAGE... - prints the packages that are missing.
set -eu

# PACKAGE:PROOF: the package is installed if PROOF, a command or a file, exists
demo="gcc:gcc libc6-dev:/usr/include/stdio.h libstb-dev:${STB:-/usr/include/stb}/stb_image.h"
jpeg="libjpeg62-turbo-dev:/usr/include/jpeglib.h"
firmware="$demo gcc-arm-none-eabi:arm-none-eabi-gcc qemu-system-arm:qemu-system-arm"
fashion="$firmware dataset-fashion-mnist:/usr/share/datasets/fashion-mnist"
aarch64="gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc
    libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdio.h
    qemu-user-static:qemu-aarch64-static"
others="gcc-s390x-linux-gnu:s390x-linux-gnu-gcc
    libc6-dev-s390x-cross:/usr/s390x-linux-gnu/include/stdio.h
    gcc-i686-linux-gnu:i686-linux-gnu-gcc
    libc6-dev-i386-cross:/usr/i686-linux-gnu/include/stdio.h"
test="$firmware $jpeg g++:g++ clang:clang cmake:cmake
    pkg-config:pkg-config curl:curl mandoc:mandoc zsh:zsh
    libclang-rt-14-dev:/usr/share/doc/libclang-rt-14-dev
    libsimde-dev:/usr/include/simde/x86/avx512.h webp:dwebp libheif-examples:heif-enc
    libavif-bin:avifenc netpbm:pnmtotiff $aarch64 $others"
cross="$demo clang:clang $aarch64 $others
    gcc-arm-linux-gnueabihf:arm-linux-gnueabihf-gcc
    libc6-dev-armhf-cross:/usr/arm-linux-gnueabihf/include/stdio.h
    gcc-riscv64-linux-gnu:riscv64-linux-gnu-gcc
    libc6-dev-riscv64-cross:/usr/riscv64-linux-gnu/include/stdio.h
    gcc-mingw-w64-x86-64:x86_64-w64-mingw32-gcc wine64:/usr/lib/wine/wine64
    clang-19:clang-19 musl-tools:musl-gcc cmake:cmake"
wasm="$demo clang:clang lld:wasm-ld wasi-libc:/usr/include/wasm32-wasi/stdio.h
    libclang-rt-dev-wasm32:/usr/share/doc/libclang-rt-dev-wasm32 nodejs:node zopfli:zopfli"
page="$wasm clang-19:clang-19 lld-19:wasm-ld-19"
npm="$page npm:npm"
web="$npm chromium:chromium"
firefox="$web firefox-esr:firefox-esr"
trust="$test clang-tidy:clang-tidy cppcheck:cppcheck valgrind:valgrind"
python=/usr/lib/python3/dist-packages
peers="$demo python3-torch:$python/torch python3-numpy:$python/numpy python3-onnx:$python/onnx
    python3-pil:$python/PIL
    libopenblas0-openmp:/usr/share/doc/libopenblas0-openmp nodejs:node npm:npm"
wheel="$demo $aarch64 python3-numpy:$python/numpy python3-pil:$python/PIL python3-venv:/usr/share/doc/python3-venv
    python3-pip:$python/pip python3-build:$python/build mypy:mypy python3-torch:$python/torch"
debian="$demo $jpeg dpkg-dev:dpkg-buildpackage debhelper:dh lintian:lintian pkg-config:pkg-config"
ncnn="g++:g++ cmake:cmake git:git"
bindings="g++:g++ clang:clang cargo:cargo golang-go:go zip:zip unzip:unzip"
mca="$demo clang:clang $aarch64 llvm-19:llvm-mca-19"

static="$demo musl-tools:musl-gcc gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc
    linux-libc-dev-arm64-cross:/usr/aarch64-linux-gnu/include/linux/seccomp.h
    gcc-mingw-w64-x86-64:x86_64-w64-mingw32-gcc qemu-user-static:qemu-aarch64-static
    wine64:/usr/lib/wine/wine64 zip:zip unzip:unzip"
cluster="$demo slurmctld:slurmctld slurmd:slurmd slurm-client:sbatch openmpi-bin:mpirun
    parallel:parallel iproute2:ip"

# lacks ENTRY...: prints the packages whose PROOF does not exist
lacks() {
    for entry in "$@"; do
        proof=${entry#*:}
        case $proof in
        /*) [ -e "$proof" ] || printf ' %s' "${entry%%:*}" ;;
        *) command -v "$proof" >/dev/null 2>&1 || printf ' %s' "${entry%%:*}" ;;
        esac
    done
}

# shellcheck disable=SC2086 # one word a package
case "${1-}" in
demo | jpeg | firmware | fashion | test | cross | wasm | page | npm | web | firefox | trust | peers | wheel | debian | bindings | ncnn | mca | static | cluster)
    eval "wanted=\$$1"
    ;;
missing)
    shift
    for package in "$@"; do
        for entry in $cross $web $test; do
            [ "${entry%%:*}" = "$package" ] || continue
            lacks "$entry"
            break
        done
    done
    exit
    ;;
*)
    echo "usage: install-packages.sh demo|jpeg|firmware|fashion|test|cross|wasm|page|npm|web|firefox|trust|peers|wheel|debian|bindings|ncnn|mca|static|cluster" >&2
    exit 2
    ;;
esac

# Only one run installs at a time, even under make -j, because the package manager refuses a second
# run.
if command -v flock >/dev/null 2>&1; then
    exec 9<"$0"
    flock 9
fi

# shellcheck disable=SC2086
missing=$(lacks $wanted)
[ -n "$missing" ] || exit 0

without=
case $missing in
*libstb-dev*) without="
or, without installing: stb_image.h, stb_image_write.h and stb_easy_font.h from
https://github.com/nothings/stb in a folder, and STB=FOLDER behind make" ;;
esac
if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing:$missing (Debian's names): install them, then run make again$without" >&2
    exit 1
fi
root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "missing:$missing; as root: apt-get install$missing$without" >&2
        exit 1
    fi
    root=sudo
fi
echo "Installing from Debian:$missing"
export DEBIAN_FRONTEND=noninteractive
wait="-o DPkg::Lock::Timeout=300" # another installation may hold the lock for minutes
# shellcheck disable=SC2086 # two words
$root apt-get -qq $wait update
# shellcheck disable=SC2086 # one word a package
$root apt-get -qq $wait install -y --no-install-recommends $missing >/dev/null
