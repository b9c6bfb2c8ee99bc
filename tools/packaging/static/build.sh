#!/usr/bin/env bash
# build.sh OUTDIR - makes an archive of static programs for each of PLATFORMS in OUTDIR. The archive
# also contains man pages, the bundled model, licences and an SBOM (SPDX 2.3, also beside the
# archive). Refuses instructions that the oldest CPU of the platform lacks (instructions.sh), and
# archives of more than 12 MB. The same sources, compilers and libraries give the same bytes in any
# folder; all times are the day of the release, or SOURCE_DATE_EPOCH.
set -euo pipefail
umask 022
[ $# = 1 ] || { echo "usage: [PLATFORMS=\"NAME ...\"] build.sh OUTDIR" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/../../.."
here=tools/packaging/static
export LC_ALL=C TZ=UTC
platforms=${PLATFORMS:-linux-x86_64 linux-aarch64 windows-x86_64}
limit=12000000
version=$(sed -n 's/^.* vit\.h - v\([0-9.]*\) .*/\1/p' vit.h)
day=$(sed -n 's/^| [0-9.]* | \([0-9]*-[0-9]*-[0-9]*\) .*/\1/p' .github/CHANGELOG.md | head -n 1)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date -d "$day" +%s)}
stb=${STB:-/usr/include/stb}
make=$(command -v gmake || echo make)

die() { echo "static: $*" >&2; exit 1; }
needs() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || die "$platform needs $1 (Debian: $2; make packages-static installs all)"
}
package_version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || echo NOASSERTION; }

# kernel_headers FOLDER ASM: links to Linux's headers, which the sandbox includes and musl lacks
kernel_headers() {
    local name
    mkdir -p "$built/include"
    for name in linux asm-generic; do ln -sfn "$1/$name" "$built/include/$name"; done
    ln -sfn "$2" "$built/include/asm"
    includes="-isystem $built/include"
}

# Installs Debian's musl for 64-bit ARM below build/. apt downloads and checks it, without adding
# the architecture to this machine.
musl_for_arm() {
    local version root=$built/musl lists=$built/apt apt
    version=$(package_version musl-dev)
    specs=$root/gcc.specs
    [ ! -e "$specs" ] || [ "$(cat "$root/version")" != "$version" ] || return 0
    rm -rf "$root" "$lists"
    mkdir -p "$root" "$lists/partial" "$lists/archives/partial"
    apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
        -o Dir::State::Lists="$PWD/$lists" -o Dir::State::status=/dev/null -o Dir::Cache="$PWD/$lists"
        -o Acquire::Languages=none)
    { "${apt[@]}" update || true; } >"$lists/log" 2>&1
    (cd "$lists" && "${apt[@]}" download "musl-dev=$version") >>"$lists/log" 2>&1 &&
        dpkg-deb -x "$lists"/musl-dev_*_arm64.deb "$root" || {
        tail -n 3 "$lists/log" >&2
        die "linux-aarch64 needs musl-dev $version for arm64, which apt cannot download"
    }
    sed -e "s|/usr/lib/aarch64-linux-musl|$root&|g" -e "s|/usr/include/aarch64-linux-musl|$root&|g" \
        "$root/usr/lib/aarch64-linux-musl/musl-gcc.specs" >"$specs"
    echo "$version" >"$root/version"
    rm -rf "$lists"
}

# set_up PLATFORM: sets the compiler, its flags, and a list of the libraries in the programs, one in
# a line: NAME|VERSION|LICENCE|SUPPLIER|FILE WITH ITS LICENCE
set_up() {
    platform=$1 built=build/static/$1 exe='' includes='' ldflags=-static flags=''
    mkdir -p "$built"
    case $platform in
    linux-x86_64)
        needs musl-gcc musl-tools
        kernel_headers /usr/include "/usr/include/$(gcc -print-multiarch)/asm"
        cc=musl-gcc tools=''
        ;;
    linux-aarch64)
        needs aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
        [ -e /usr/aarch64-linux-gnu/include/linux/seccomp.h ] ||
            die "$platform needs Linux's headers (Debian: linux-libc-dev-arm64-cross)"
        kernel_headers /usr/aarch64-linux-gnu/include /usr/aarch64-linux-gnu/include/asm
        musl_for_arm
        # The flag prevents a test at run time for the atomic instructions, which ARMv8.0 lacks.
        cc="aarch64-linux-gnu-gcc -specs=$specs" tools=aarch64-linux-gnu- flags=-mno-outline-atomics
        ;;
    windows-x86_64)
        needs x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
        needs zip zip
        cc=x86_64-w64-mingw32-gcc tools=x86_64-w64-mingw32- exe=.exe flags=-Wno-float-conversion
        ldflags='-static -Wl,--no-insert-timestamp'
        ;;
    *) die "unknown platform $platform: expected linux-x86_64, linux-aarch64 or windows-x86_64" ;;
    esac
    [ -e "$stb/stb_image.h" ] || die "$stb lacks stb_image.h (Debian: libstb-dev, or STB=DIR)"
    libraries="libgcc|$($cc -dumpfullversion)|GPL-3.0-or-later WITH GCC-exception-3.1|Free Software Foundation|"
    case $platform in
    linux-*) libraries+="
musl|$(package_version musl-dev)|MIT|musl|/usr/share/doc/musl-dev/copyright" ;;
    *) libraries+="
mingw-w64 runtime|$(package_version mingw-w64-x86-64-dev)|ZPL-2.1|mingw-w64|/usr/share/doc/mingw-w64-x86-64-dev/copyright" ;;
    esac
    local file name found
    for file in stb_image stb_image_write stb_easy_font; do
        found=$(sed -n '1s/.* - v\([0-9.]*\) .*/\1/p' "$stb/$file.h")
        libraries+="
$file.h|${found:-NOASSERTION}|MIT OR Unlicense|Sean Barrett|/usr/share/doc/libstb-dev/copyright"
    done
}

# sbom NAME: writes SPDX 2.3 as JSON
sbom() {
    local list=$libraries
    list="vit.h|$version|MIT|vit.h|LICENSE
cifar10-vit.vit|$version|MIT|vit.h|LICENSE
$list"
    awk -F '|' -v name="$1" -v created="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
        -v sum="$(cat "$stage"/bin/* | sha256sum | cut -c1-32)" '
        function text(s) { return "\"" s "\"" }
        {
            id = "SPDXRef-" $1
            gsub(/[^A-Za-z0-9.-]+/, "-", id)
            packages = packages (NR > 1 ? "," : "") "\n    {\n      \"SPDXID\": " text(id) ",\n      \"name\": " text($1) \
                ",\n      \"versionInfo\": " text($2) ",\n      \"supplier\": " text("Organization: " $4) \
                ",\n      \"downloadLocation\": \"NOASSERTION\",\n      \"filesAnalyzed\": false" \
                ",\n      \"licenseConcluded\": " text($3) ",\n      \"licenseDeclared\": " text($3) \
                ",\n      \"copyrightText\": \"NOASSERTION\"\n    }"
            if (NR == 1) { first = id; from = "SPDXRef-DOCUMENT"; how = "DESCRIBES" }
            else { from = first; how = id ~ /[.]vit$/ ? "CONTAINS" : "STATIC_LINK" }
            relations = relations (NR > 1 ? "," : "") "\n    {\"spdxElementId\": " text(from) \
                ", \"relationshipType\": " text(how) ", \"relatedSpdxElement\": " text(id) "}"
        }
        END {
            print "{\n  \"spdxVersion\": \"SPDX-2.3\",\n  \"dataLicense\": \"CC0-1.0\",\n  \"SPDXID\": \"SPDXRef-DOCUMENT\","
            print "  \"name\": " text(name) ",\n  \"documentNamespace\": " text("https://spdx.org/spdxdocs/" name "-" sum) ","
            print "  \"creationInfo\": {\"created\": " text(created) ", \"creators\": [\"Tool: vit.h-build.sh\"]},"
            print "  \"packages\": [" packages "\n  ],\n  \"relationships\": [" relations "\n  ]\n}"
        }' <<<"$list"
}

compile() { # PLATFORM
    set_up "$1"
    "$make" --no-print-directory -s "TARGET=static/$platform" "CC=$cc" DECODER=stb "STB=$stb" \
        "CFLAGS=-O2 -ffile-prefix-map=$PWD=. $flags" "CPPFLAGS=$includes" "LDFLAGS=$ldflags" \
        "$built/programs" 2> >(grep -v 'no libjpeg-turbo' >&2) || die "$platform does not compile"
}

build() { # PLATFORM
    local names program archive file size name
    compile "$1"
    names=$(sh tools/packaging/pages.sh names | sed -n 's|man/man1/\(vit-[a-z]*\)[.]1 bash.*|\1|p')
    # shellcheck disable=SC2086 # one word a program
    "$here"/instructions.sh $(for program in $names; do echo "$built/tools/$program$exe"; done) \
        >"$built/instructions" || die "$platform has instructions that its oldest CPU lacks"

    name=vit-$version-$platform stage=$built/$name
    rm -rf "$stage"
    mkdir -p "$stage/bin" "$stage/share/vit" "$stage/licences"
    for program in $names; do
        install -m 755 "$built/tools/$program$exe" "$stage/bin"
        "${tools}strip" "$stage/bin/$program$exe"
    done
    install -m 644 models/cifar10-vit.vit "$stage/share/vit"
    install -m 644 LICENSE $here/README.md "$stage"
    sh tools/packaging/pages.sh "$pages" "$stage/share" "$version" "$day"
    [ "$exe" = '' ] || rm -r "$stage/share/bash-completion" "$stage/share/zsh"
    while IFS='|' read -r program _ _ _ file; do
        [ -z "$file" ] || [ ! -e "$file" ] || install -m 644 "$file" "$stage/licences/${program%%[. _]*}"
    done <<<"$libraries"
    sbom "$name" >"$stage/sbom.spdx.json"

    archive=$name.tar.gz
    if [ "$exe" ]; then
        archive=$name.zip
        find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
        rm -f "$out/.$archive"
        (cd "$built" && find "$name" | sort | zip -q -9 -X -@ "$out/.$archive")
    else
        tar -cf - -C "$built" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
            --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$name" | gzip -n -9 >"$out/.$archive"
    fi
    size=$(wc -c <"$out/.$archive")
    [ "$size" -le $limit ] || { rm "$out/.$archive"; die "$archive has $size bytes, more than $limit"; }
    install -m 644 "$stage/sbom.spdx.json" "$out/$name.spdx.json"
    mv "$out/.$archive" "$out/$archive"
    made+=" $archive $name.spdx.json"
    echo "$archive: $size bytes"
}

made=''
# The man pages are made from the --help of programs, which must therefore run here.
[ "$(uname -sm)" = "Linux x86_64" ] || die "expected Linux on x86-64, found $(uname -sm)"
pages=build/static/linux-x86_64/tools
case " $platforms " in *" linux-x86_64 "*) ;; *) compile linux-x86_64 ;; esac
for name in $platforms; do [ "$name" != linux-x86_64 ] || build "$name"; done
for name in $platforms; do [ "$name" = linux-x86_64 ] || build "$name"; done
# shellcheck disable=SC2086 # one word a file
(cd "$out" && sha256sum $made >SHA256SUMS)
