#!/usr/bin/env bash
# static.sh - builds the archives of static programs, unpacks the archives into an empty folder, and
# runs the programs in a clean environment: natively, on QEMU's oldest CPUs and under Wine. All
# programs must give the same class and the same bits of the embedding. A build in another folder
# must give the same bytes. instructions.sh must fail for a file that was compiled for a newer CPU.
# PLATFORMS chooses the archives.
set -u
cd "$(dirname "$0")/../.."
. tests/checks.sh
here=tools/packaging/static out=build/packages/static
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
wine=/usr/lib/wine/wine64

platforms=
have musl-gcc "all of it" || { summary; exit; }
for platform in ${PLATFORMS:-linux-x86_64 linux-aarch64 windows-x86_64}; do
    case $platform in
    linux-aarch64) have aarch64-linux-gnu-gcc "$platform" || continue ;;
    windows-x86_64)
        have x86_64-w64-mingw32-gcc "$platform" || continue
        have zip "$platform" || continue
        have unzip "$platform" || continue
        ;;
    esac
    platforms+=" $platform"
done
builds() { PLATFORMS="$platforms" bash $here/build.sh "$1"; }
rm -rf $out
check "build.sh" builds "$PWD/$out"
cp "$work/out" "$work/sizes"

programs=$(sh tools/packaging/pages.sh names | sed -n 's|man/man1/\(vit-[a-z]*\)[.]1 bash.*|\1|p')
cp examples/cat.jpg examples/cat.ppm "$work"

# uses PLATFORM WHERE RUNNER...: runs the programs of an unpacked archive on the photos, in
# $work/WHERE. The sandbox is off under QEMU, which does not emulate seccomp.
uses() {
    local platform=$1 where=$2 exe='' bin options=()
    shift 2
    [ "$platform" != windows-x86_64 ] || exe=.exe
    [[ ${1-} != *qemu* ]] || options+=(--no-sandbox)
    bin=$work/vit-$version-$platform/bin
    mkdir -p "$work/$where/photos"
    cp "$work"/cat.* "$work/$where/photos"
    [ -z "${isa-}" ] || options+=(--isa "$isa")
    alone=(env -i HOME="$work" PATH=/nowhere WINEDEBUG=-all WINEPREFIX="$PWD/build/cross/wine")
    (cd "$work/$where" && "${alone[@]}" "$@" "$bin/vit-classify$exe" "${options[@]}" --json photos/cat.jpg \
        >class 2>err && "${alone[@]}" "$@" "$bin/vit-embed$exe" "${options[@]}" photos/cat.jpg \
        photos/cat.ppm -o photos.npy 2>>err) || {
        cp "$work/$where/err" "$work/err"
        return 1
    }
    tr -d '\r' <"$work/$where/class" | grep -q '"label": *"cat"'
}
ran() { # PLATFORM WHERE RUNNER...: like `uses`, with a line for the log
    if uses "$@"; then
        pass
        echo "RAN $1 with ${2}: cat"
    else fail "$1 with $2"; fi
}

for platform in $platforms; do
    name=vit-$version-$platform
    case $platform in
    windows-*) check "$name: unpacks" unzip -q -d "$work" $out/$name.zip ;;
    *) check "$name: unpacks" tar -xzf $out/$name.tar.gz -C "$work" ;;
    esac
    folder=$work/$name
    check "$name: at most 12 MB" sh -c "[ \$(cat $out/$name.tar.gz $out/$name.zip 2>/dev/null | wc -c) -le 12000000 ]"
    for program in $programs; do
        exe=; [ $platform != windows-x86_64 ] || exe=.exe
        check "$name: $program has no symbols" sh -c "! nm '$folder/bin/$program$exe' 2>/dev/null | grep ."
        check "$name: $program.1" test -s "$folder/share/man/man1/$program.1"
        case $platform in
        windows-*) check "$name: $program needs only Windows's own libraries" sh -c \
            "! x86_64-w64-mingw32-objdump -p '$folder/bin/$program.exe' | sed -n 's/.*DLL Name: //p' |
                grep -ivE '^(kernel32|msvcrt|advapi32|shell32|user32|ws2_32|bcrypt)[.]dll$'" ;;
        *) check "$name: $program is static" sh -c "! readelf -d '$folder/bin/$program' | grep -q NEEDED" ;;
        esac
    done
    for file in README.md LICENSE share/vit/cifar10-vit.vit sbom.spdx.json licences/stb; do
        check "$name: $file" test -s "$folder/$file"
    done
    check "$name: no path of this tree" sh -c "! grep -rlF '$PWD' '$folder'"
    if have python3 "the SBOM of $platform"; then
        check "$name: SBOM" python3 - "$folder/sbom.spdx.json" "$version" <<'PYTHON'
import json, sys
sbom = json.load(open(sys.argv[1]))
assert sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0"
packages = {p["name"]: p for p in sbom["packages"]}
assert packages["vit.h"]["versionInfo"] == sys.argv[2]
wanted = {"stb_image.h", "stb_image_write.h", "stb_easy_font.h", "libgcc", "cifar10-vit.vit"}
assert wanted | {"musl"} <= set(packages) or wanted | {"mingw-w64 runtime"} <= set(packages), set(packages)
for p in packages.values():
    assert p["licenseDeclared"] and p["versionInfo"] not in ("", "NOASSERTION"), p
ids = {p["SPDXID"] for p in packages.values()} | {"SPDXRef-DOCUMENT"}
related = {r["relatedSpdxElement"] for r in sbom["relationships"]}
assert related | {"SPDXRef-DOCUMENT"} == ids
PYTHON
    fi
done
check "SHA256SUMS" sh -c "cd $out && sha256sum -c SHA256SUMS"

# --- the same class and bits --------------------------------------------------------------------

case $platforms in *linux-x86_64*)
    ran linux-x86_64 "this CPU"
    native="$work/this CPU/photos.npy"
    isa=sse2 ran linux-x86_64 "this CPU, SSE2"
    # The plain build may decode JPEGs by another library. cat.ppm needs no decoder.
    bits() { # FILE: the embedding of its last photo, cat.ppm
        tail -c $((($(wc -c <"$1") - 128) / 2)) "$1" | cksum
    }
    if have tools/vit-embed "the bits of a build with glibc"; then
        check "tools/vit-embed" tools/vit-embed examples/cat.ppm examples/cat.ppm -o "$work/plain.npy"
        check "the bits of a build with glibc" sh -c "[ '$(bits "$work/plain.npy")' = '$(bits "$native")' ]"
    fi
    if have qemu-x86_64-static "linux-x86_64 under QEMU"; then
        old=Opteron_G1,-sse3
        ran linux-x86_64 "QEMU, SSE2 alone" "$(command -v qemu-x86_64-static)" -cpu $old
        check "SSE2's tier" grep -q '"isa": *"sse2"' "$work/QEMU, SSE2 alone/class"
        same "$work/this CPU, SSE2/photos.npy" "$work/QEMU, SSE2 alone/photos.npy"
        # QEMU must refuse newer instructions, or the runs on old CPUs would prove nothing.
        printf '#include <immintrin.h>\nint main(int n, char **v) { (void)v; return _mm_extract_epi8(_mm_shuffle_epi8(_mm_set1_epi8((char)n), _mm_set1_epi8(0)), 0) != 1; }\n' |
            musl-gcc -O1 -msse4.1 -static -xc - -o "$work/newer"
        check "a program with SSE4.1 runs here" "$work/newer"
        refuses() { ! qemu-x86_64-static -cpu $old "$1" 2>/dev/null; }
        check "QEMU refuses it" refuses "$work/newer"
    fi
    ;;
esac
case $platforms in *linux-aarch64*)
    if have qemu-aarch64-static "linux-aarch64 under QEMU"; then
        ran linux-aarch64 "QEMU's Cortex-A53" "$(command -v qemu-aarch64-static)" -cpu cortex-a53
        [ -z "${native-}" ] || same "$native" "$work/QEMU's Cortex-A53/photos.npy"
    fi
    ;;
esac
case $platforms in *windows-x86_64*)
    if have $wine "windows-x86_64 under Wine"; then
        mkdir -p build/cross/wine
        ran windows-x86_64 Wine $wine
        [ -z "${native-}" ] || same "$native" "$work/Wine/photos.npy"
    fi
    ;;
esac

# --- instructions --------------------------------------------------------------------------------

# finds FLAG: passes if instructions.sh refuses a program that contains a file compiled with FLAG
finds() {
    local file=tools/base/text.c
    musl-gcc -std=c99 -O2 -D_FILE_OFFSET_BITS=64 "$1" -I. -Itools -isystem build/static/linux-x86_64/include \
        -c $file -o "$work/text.o" || return
    musl-gcc -static build/static/linux-x86_64/tools/vit-info.o "$work/text.o" \
        build/static/linux-x86_64/modules.a -o "$work/vit-info" || return
    ! $here/instructions.sh "$work/vit-info"
}
case $platforms in *linux-x86_64*)
    for flag in -mavx2 -mavx512vl; do
        check "a file with $flag is found" finds $flag
        cp "$work/err" "$work/found"
        check "$flag: its function is named" grep -Eq '^    [a-z_0-9.]+: v.*%[xy]mm' "$work/found"
    done
    finds_none() { ! finds -O2; }
    check "a file without such flags passes" finds_none
    stripped() { ! $here/instructions.sh "$work/vit-$version-linux-x86_64/bin/vit-info"; }
    check "a stripped program is refused" stripped
    ;;
esac

# --- the same bytes in another folder --------------------------------------------------------------

# With LONG=yes, all archives are built again; by default only those of Linux on x86-64 and of
# Windows.
[ "${LONG-}" = yes ] || platforms=${platforms/linux-aarch64/}
other=$work/another/folder
mkdir -p "$other"
git ls-files -z | xargs -0 tar -cf - | tar -xf - -C "$other"
again() { (cd "$other" && CCACHE_DISABLE=1 builds "$work/again"); }
check "a build elsewhere" again
for file in "$work"/again/vit-*; do check "the same ${file##*/}" cmp "$file" $out/"${file##*/}"; done

cat "$work/sizes"
summary
