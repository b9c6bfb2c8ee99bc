#!/usr/bin/env bash
# debian.sh [built] - builds the Debian packages, installs them with dpkg into an empty root, runs
# the programs and compiles against the library there, and removes the packages again. With the word
# `built`, uses the packages of the last run.
set -u
cd "$(dirname "$0")/../.."
. tests/checks.sh
version=$(sed -n '1s/.* v\([0-9.]*\) .*/\1/p' vit.h)
out=build/packages/debian root=$work/root
clean="env -i PATH=/usr/bin:/bin HOME=$work LANG=C.UTF-8"

have dpkg-buildpackage "Debian packages" && have dh "Debian packages" || {
    summary
    exit
}

if [ "${1-}" != built ]; then
    rm -rf $out
    check "build.sh" bash tools/packaging/debian/build.sh $out
fi
package() { echo $out/"$1"_"$version"-1_*.deb; }
for name in libvit2 libvit-dev vit-tools; do exists "$(package $name)"; done
if have lintian "what lintian says"; then
    ours=() # only the publisher can give an address
    [ -n "${DEBEMAIL-}" ] ||
        ours=(--suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact)
    check "lintian has no error" lintian --allow-root --fail-on error "${ours[@]}" \
        "$(package libvit2)" "$(package libvit-dev)" "$(package vit-tools)"
    grep -h '^[EW]: ' "$work/out"
    echo "RAN lintian"
fi

# The root gets no other packages: the programs use the libraries of this machine.
mkdir -p "$root/var/lib/dpkg/"{info,updates} "$root/var/log"
touch "$root/var/lib/dpkg/"{status,available}
dpkg_root() { dpkg --root="$root" --force-depends --force-not-root --force-script-chrootless --force-bad-path "$@"; }
echo "RAN dpkg -i in an empty root, without the packages of Debian that they depend on"
check "dpkg -i" dpkg_root -i "$(package libvit2)" "$(package libvit-dev)" "$(package vit-tools)"
check "all are installed" [ "$(dpkg_root -l | grep -c '^ii ')" = 3 ]
check "dpkg --verify" sh -c "! dpkg --root='$root' --verify | grep ."
try $clean "$root/usr/bin/vit-classify" examples/cat.ppm
is 0
out '78\.8 *%? *cat|cat.*78\.8|0\.788.*cat|cat.*0\.788'
for program in tools/vit-*.c; do
    name=$(basename "$program" .c)
    check "$name --version" sh -c "$clean '$root/usr/bin/$name' --version | grep -qF '$version'"
    exists "$root/usr/share/man/man1/$name.1.gz"
done
library=$(dirname "$(find "$root/usr/lib" -name libvit.so)")
for name in vit libvit; do
    words=-lm
    [ $name = libvit ] || words="-lm -DVIT_IMPLEMENTATION"
    # shellcheck disable=SC2046,SC2086 # words
    check "a program by $name.pc" cc tests/packages/main.c -o "$work/$name" $words \
        $(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$library/pkgconfig:$root/usr/share/pkgconfig \
            pkg-config --cflags --libs $name)
    check "it runs" [ "$(LD_LIBRARY_PATH=$library "$work/$name" models/cifar10-vit.vit)" = "cat, one of 10" ]
done
check "the program needs the package's library" sh -c "readelf -d '$work/libvit' | grep -q 'NEEDED.*libvit\.so\.2'"
check "dpkg --purge" dpkg_root --purge vit-tools libvit-dev libvit2
check "nothing is left" sh -c "! find '$root/usr' ! -type d | grep ."
summary
