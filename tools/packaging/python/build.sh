#!/usr/bin/env bash
# build.sh OUTDIR - makes the source archive of the Python package and its wheel. On x86-64, with
# Debian's cross compiler, also makes the wheel for 64-bit ARM. CC and other variables have the
# same meaning as for make. If CC is set, makes only one wheel.
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh OUTDIR" >&2; exit 2; }
build() { "${PYTHON:-python3}" -B "$(dirname "$0")/backend.py" "$1"; }
build "$1"
if [ -z "${CC-}" ] && [ "$(uname -m)" = x86_64 ] && command -v aarch64-linux-gnu-gcc >/dev/null; then
    CC=aarch64-linux-gnu-gcc build "$1"
fi
