#!/usr/bin/env bash
# Tests formats that a command decodes (--decoder): how the command is called, its limits, and its
# failures. Then it tests the decoders of Debian's packages, if they are installed.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD bin=$PWD/${BIN:-.}
export LC_ALL=C TMPDIR
. tests/built.sh programs
. tests/checks.sh
classify=$bin/tools/vit-classify embed=$bin/tools/vit-embed
model=$root/models/cifar10-vit.vit cat=$root/examples/cat.ppm
TMPDIR=$work/tmp
mkdir "$TMPDIR"
cd "$work" || exit 2
unset VIT_DECODER

# heic FILE: prints the first bytes of a HEIC and then FILE, a PPM. The programs cannot decode the
# result themselves
heic() { printf '\0\0\0\x18ftypheic\0\0\0\0' && cat "$1"; }
heic "$cat" >photo.heic
"$classify" -m "$model" "$cat" >expected

# decoder NAME <<END: makes a script that serves as a decoder
decoder() {
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}
decoder strip <<'END'
tail -c +17 "${1:--}" >"${2:-/dev/stdout}"
END

# decodes COMMAND: passes if the command gives the same classes as for the PPM
decodes() {
    try "$classify" -m "$model" --decoder "$1" photo.heic
    is 0
    cp out found
    check "$1: other classes" cmp expected found
}

# fails COMMAND REGEX: passes if the photo cannot be read, with this reason
fails() {
    try "$classify" -m "$model" --decoder "$1" photo.heic
    is 1
    err "photo.heic: $2"
}

# --- the contract ------------------------------------------------------------------------------

decodes './strip %i %o'
decodes './strip %i'
decodes './strip - %o'
decodes './strip'
decodes "  '$work/strip'  \"%i\"  %o "
mkdir here
ln -s "$work/strip" here/other_name
TMPDIR=here PATH=here:$PATH decodes 'other_name %i %o'
decodes 'sh -c "tail -c +17 %i >%o"'
decoder 'in quotes' <<'END'
[ "$1" = 'a "word\' ] && [ "$2" = '%100%' ] && [ "$3" = '' ] && [ "$4" = 'b c' ] && [ $# = 5 ] || exit 5
case $5 in in=/*/photo.heic) ;; *) exit 6 ;; esac
tail -c +17 "${5#in=}"
END
decodes "'./in quotes' \"a \\\"word\\\\\" %%100%% '' b\\ c in=%i"
VIT_DECODER='./strip' try "$classify" -m "$model" photo.heic
is 0
VIT_DECODER='./strip' try "$classify" -m "$model" --decoder 'false' photo.heic
is 1
err "'false' failed with status 1$"
VIT_DECODER='' try "$classify" -m "$model" photo.heic
is 1
err "photo.heic: the file is a HEIC image, which needs a command to decode it: apt install libheif-examples, then --decoder 'heif-convert %i %o', or set VIT_DECODER to this command$"

# wrong REGEX COMMAND: passes if the command prints this message before the first photo
wrong() {
    try "$classify" -m "$model" --decoder "$2" none.heic "$cat"
    is 1
    lines out 0
    err "--decoder: $1"
}
wrong "'no_such_program' cannot be run: No such file" 'no_such_program %i'
wrong "'./expected' cannot be run: Permission denied" './expected %i'
wrong "expected %i, %o or %%, found '%x'" 'true %x'
wrong "expected %i, %o or %%, found '%'" 'true %'
wrong 'a quote has no end' "true '%i"
wrong 'the command names no program' ' '
wrong 'the command has too many words' "true$(printf ' %d' {1..40})"
wrong 'the command has more than 200 bytes' "true $(printf '%0200d' 0)"

# Formats that the programs read themselves are never passed to the command.
decoder never <<END
touch "$work/was_called"
END
for name in "$root"/tests/data/images/*.*; do
    [[ $name = */expected.txt ]] || try "$classify" -m "$model" --decoder ./never "$name"
    is 0
done
missing was_called
try "$classify" -m "$model" --decoder ./never "$model"
err 'is a model, not an image'
missing was_called
echo text >text.jpg
try "$classify" -m "$model" --decoder ./never text.jpg
is 1
err "text.jpg: './never' did not write a PNG, JPEG or PPM$"
exists was_called

# For a folder of photos that need a decoder, the first message has the advice, and the last message
# has the number of images.
mkdir folder
for i in 1 2 3; do cp photo.heic folder/$i.heic; done
cp "$cat" folder/4.ppm
try "$embed" -m "$model" folder -o folder.npy
is 1
err '^vit-embed: folder/[123].heic: the file is a HEIC image, which needs a command to decode it: '
err '^vit-embed: 3 images need a --decoder; the first message names a command$'
check "the advice stands once" test "$(grep -c 'apt install' err)" = 1
try "$embed" -m "$model" -t 3 --decoder ./strip folder -o folder.npy --json
is 0
out '"images": 4, "unreadable": 0, "decoder": "(libjpeg[^",]*, reduced|stb_image [0-9.]+), others by .\./strip.'

# A shard records its recipe: the model and the options, with the command of the decoder. A run with
# another command must refuse the shard.
tar cf part-00000.tar -C folder 1.heic 4.ppm
check "a shard" "$embed" -m "$model" --decoder ./strip --tar part-00000.tar -o shards
try "$embed" -m "$model" --decoder './strip %i' --tar part-00000.tar -o shards
is 1
err "was made with other settings: found '.*others by '\./strip'', .*others by '\./strip %i''"

# --- what it may do ----------------------------------------------------------------------------

decoder where <<END
case \$PWD in $TMPDIR/vit-*/0) ;; *) echo "works in \$PWD" >&2; exit 3 ;; esac
[ "\$TMPDIR" = "\$PWD" ] || exit 4
[ "\$(find . | sort | tr '\n' ' ')" = '. ./errors ./output ./photo.heic ' ] || exit 5
[ "\$(stat -c %a ..)" = 700 ] || exit 6
ls /proc/\$\$/fd >fds
while read -r open; do case \$open in [0-2] | 1[01] | 255) ;; *) exit 7 ;; esac; done <fds
[ -z "\$(cat)" ] || exit 8
tail -c +17 "\$1"
END
if [ -d /proc/self/fd ]; then decodes './where %i'; fi

if "$classify" -m "$model" "$cat" 2>&1 | grep -q 'without a sandbox'; then
    skip "a command without network" "$(uname -s -m)"
else
    decoder leaves <<'END'
setsid true 2>/dev/null && exit 3
bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>&1 | grep -q 'Operation not permitted' || exit 4
tail -c +17 "$1"
END
    decodes './leaves %i'
    fails './leaves %i %o' "'./leaves %i %o' wrote no picture"
    try "$classify" -m "$model" --no-sandbox --decoder './leaves %i' photo.heic
    err 'failed with status 3'
fi

# --- how it fails ------------------------------------------------------------------------------

decoder says <<'END'
printf 'the first line\nit is \033[31m broken\n\n' >&2
exit 3
END
fails ./says "'./says' failed with status 3: it is \\\\x1b\[31m broken$"
decoder crashes <<'END'
echo before >&2
kill -SEGV $$
END
fails ./crashes "'./crashes' was ended by signal 11: before$"
fails true "'true' did not write a PNG, JPEG or PPM$"
fails 'true %o' "'true %o' wrote no picture$"
fails 'mkdir %o' "'mkdir %o' wrote no picture$"
fails 'ln -s /dev/zero %o' "'ln -s /dev/zero %o' wrote no picture$"
fails 'mkfifo %o' "'mkfifo %o' wrote no picture$"
fails 'echo garbage' "'echo garbage' did not write a PNG, JPEG or PPM$"
fails 'cat %i' "'cat %i' did not write a PNG, JPEG or PPM$"
fails 'printf "P6 30000 30000 255\n"' "the output of 'printf .*': the image is too large: found 30000 x 30000, limit"
fails 'printf "P6 3 3 255\n"' "the output of 'printf .*': the image is truncated$"
fails 'head -c 300M /dev/zero' "'head -c 300M /dev/zero' was stopped: it wrote more than 256 MiB$"
: >empty.heic
try "$classify" -m "$model" --decoder ./strip empty.heic
err 'empty.heic: is empty$'
echo nothing >noexec
chmod +x noexec
fails ./noexec "'./noexec' cannot be run( confined)?: Exec format error$"
decoder spins <<'END'
while :; do :; done
END
(
    ulimit -t 1
    try "$classify" -m "$model" --decoder ./spins photo.heic
    err "'./spins' was ended by signal (9|24)$"
)
fails 'dd if=/dev/zero bs=6G count=1' "'dd .*' failed with status 1: dd: memory exhausted"

# If the command leaves processes or files behind, the processes are killed and the files are
# removed.
decoder forks <<END
(sleep 1000 & echo \$! >"$work/left"; wait) >/dev/null 2>&1 &
mkdir -p a/b/c
chmod 000 a/b
while [ ! -s "$work/left" ]; do :; done
tail -c +17 "\$1"
END
decodes './forks %i'
check "a process is left" sh -c "for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 $(cat left) 2>/dev/null || exit 0
    grep -q '^State:.Z' /proc/$(cat left)/status 2>/dev/null && exit 0; sleep 0.1; done; exit 1"
check "something is left in $TMPDIR" sh -c "[ -z \"\$(ls '$TMPDIR')\" ]"
decoder waits <<END
touch "$work/waiting"
sleep 1000
END
"$classify" -m "$model" --decoder ./waits photo.heic 2>/dev/null &
while [ ! -e waiting ]; do sleep 0.05; done
[ -n "$(ls "$TMPDIR")" ] && pass || fail "no folder"
kill -TERM $!
wait $!
check "Ctrl-C leaves a folder in $TMPDIR" sh -c "for i in 1 2 3 4 5 6 7 8 9 10; do
    [ -z \"\$(ls '$TMPDIR')\" ] && exit 0; sleep 0.1; done; exit 1"

# --- Debian's ----------------------------------------------------------------------------------

# real COMMAND FILE: passes if the command gives the class of the cat
real() {
    try "$classify" -m "$model" -k 1 --decoder "$1" "$2"
    is 0
    out '^ [78][0-9]\.[0-9] %  cat$'
}
if have dwebp 'dwebp (webp)' && have cwebp 'dwebp (webp)'; then
    check cwebp cwebp -quiet -lossless "$cat" -o cat.webp
    real 'dwebp %i -o %o' cat.webp
    real 'dwebp -ppm -o - -- -' cat.webp
fi
if have heif-convert 'heif-convert (libheif-examples)' && have heif-enc 'heif-convert (libheif-examples)'; then
    check heif-enc heif-enc -q 95 "$root/examples/cat.jpg" -o cat.heic
    real 'heif-convert %i %o' cat.heic
    # heif-convert writes a PNG with the EXIF orientation, which it may already have applied.
    check heif-enc heif-enc -L "$root/tests/data/images/exif6.jpg" -o exif.heic
    try "$bin/tools/vit-look" attention -m "$model" --decoder 'heif-convert %i %o' exif.heic -o exif.png
    is 0
fi
if have avifdec 'avifdec (libavif-bin)' && have avifenc 'avifdec (libavif-bin)'; then
    check avifenc avifenc "$root/examples/cat.jpg" cat.avif
    real 'avifdec %i %o' cat.avif
fi
if have tifftopnm 'tifftopnm (netpbm)' && have pnmtotiff 'tifftopnm (netpbm)'; then
    pnmtotiff "$cat" >cat.tif 2>/dev/null
    real 'tifftopnm %i' cat.tif
fi

summary
