#!/usr/bin/env bash
# The parent of a program may close standard streams, ignore signals or set low limits. The program
# must give the same output, or fail with a reason, and never hang.
#
#     BIN=. bash tests/test_environment.sh
#
# may be called from any folder; BIN, relative to the repository, is the folder that contains
# examples/ and tools/.
set -u
cd "$(dirname "$0")/.." || exit 2
for open in {3..20}; do eval "exec $open>&-"; done # limits below would count these
bin=$PWD/${BIN:-.}
data=$PWD/tests/data
models=$PWD/models
export LC_ALL=C
. tests/built.sh programs
. tests/checks.sh

classify=$bin/tools/vit-classify evaluate=$bin/tools/vit-evaluate embed=$bin/tools/vit-embed
search=$bin/tools/vit-search look=$bin/tools/vit-look
bench=$bin/tools/vit-bench convert=$bin/tools/vit-convert info=$bin/tools/vit-info
run=$bin/tools/vit-run

cd "$work" || exit 2
cp "$data/images/baseline.jpg" a.jpg
cp "$data/images/rgb.png" b.png
head -c 300 /dev/urandom >bad.jpg
cp "$data"/fixtures/plain/{model.safetensors,config.json} .
mkdir -p set/cat set/dog
cp a.jpg set/cat
cp b.png set/dog
printf 'cat 0\ndog 1\n' >map.txt
cat a.jpg a.jpg >stream.mjpeg
tar cf 0.tar a.jpg bad.jpg b.png
try "$convert" model.safetensors -o model.vit
is 0
try "$embed" -m model.vit a.jpg b.png -o index.npy
is 0

# --- closed standard streams ----------------------------------------------------------------------

# closed STREAMS COMMAND...: closes some of the streams 'in out err', and runs the command.
closed() {
    local streams=$1
    shift
    tried="$* with $streams closed"
    (
        exec </dev/null >"$work/out" 2>"$work/err"
        [[ $streams == *in* ]] && exec <&-
        [[ $streams == *out* ]] && exec >&-
        [[ $streams == *err* ]] && exec 2>&-
        exec timeout 100 "$@"
    )
    status=$?
}

# Timings are not compared.
masked() { if [ "$mask" = yes ]; then sed -E 's/[0-9][0-9.e+-]*/N/g; s/ +/ /g' "$1"; else cat "$1"; fi; }

# alike COMMAND...: passes if the command gives the same output, and the same files result*, as with
# all streams open. If stdout is closed and the command prints something, it must fail.
mask=no
alike() {
    local expected streams
    rm -rf result* expected
    try timeout 100 "$@"
    expected=$status
    if [ "$expected" -lt 2 ]; then pass; else fail "exit status $expected"; fi
    mkdir expected
    masked out >expected/out
    masked err >expected/err
    mv result* expected 2>/dev/null
    for streams in in err "in err" out "in out err"; do
        : >out >err
        closed "$streams" "$@"
        if [[ $streams == *out* ]]; then
            if [ -s expected/out ]; then is 1; else is "$expected"; fi
            [ "$streams" = out ] && [ -s expected/out ] && err 'standard output: '
        else
            is "$expected"
            masked out >masked
            same expected/out masked
        fi
        if [ "$streams" = in ]; then
            masked err >masked
            same expected/err masked
        fi
        for file in expected/result*; do
            [ -e "$file" ] || continue
            [ -s expected/out ] && [[ $streams == *out* ]] && [ ! -e "${file#*/}" ] && continue
            tried="$* with $streams closed: ${file#*/}"
            check 'the file differs' diff -r "$file" "${file#*/}"
        done
        rm -rf result*
    done
}

# fails STREAMS COMMAND...: passes if the command fails. The command must print a message unless
# stderr is closed.
fails() {
    closed "$@"
    is 1
    [[ $1 == *err* ]] || err '^[a-z-]*: .*(Bad file descriptor|cannot be read|Is a directory|is a folder|not a regular file)'
    missing result.npy
}

bundled=(-m "$models/cifar10-vit.vit")
photos=(-m model.vit a.jpg bad.jpg b.png)
alike "$classify" "${bundled[@]}" a.jpg bad.jpg b.png bad.jpg a.jpg bad.jpg "$PWD/b.png"
alike "$search" index.npy bad.jpg a.jpg
alike "$search" index.npy --duplicates 0.9
alike "$look" filters -m model.vit -o result.png
alike "$look" attention -m model.vit a.jpg -o result.png
alike "$info" --check model.vit
alike "$run" -m model.vit a.jpg
alike "$run" -m model.vit a.jpg --logits result.npy
alike "$convert" model.safetensors -o result.vit
alike "$convert" --plan model.safetensors
mask=yes
alike "$classify" -m model.vit --frames auto stream.mjpeg
alike "$evaluate" -m model.vit --map map.txt --predictions result.csv set
alike "$embed" -t 2 "${photos[@]}" -o result.npy
alike "$bench" -m model.vit --runs 5
mask=no
for program in "$classify" "$evaluate" "$search" "$look" "$info" "$run" "$convert" "$bench" "$embed"; do
    alike "$program" --help
    alike "$program" --version
done

for streams in in "in out err"; do
    fails "$streams" "$classify" -m model.vit -
    fails "$streams" "$classify" -m model.vit /dev/stdin
    fails "$streams" "$classify" -m model.vit --frames auto
    fails "$streams" "$classify" -m model.vit --frames 8x8
    fails "$streams" "$embed" -m model.vit --list - -o result.npy
    fails "$streams" "$embed" -m model.vit --list /dev/stdin -o result.npy
    fails "$streams" "$embed" -m model.vit --tar - --shard 00000 -o shards
    fails "$streams" "$search" index.npy -
    fails "$streams" "$evaluate" -m model.vit --sigmoid --tags - set
    fails "$streams" "$look" attention -m model.vit - -o result.png
    fails "$streams" "$run" -m model.vit -
done
fails out "$convert" model.safetensors -o /dev/stdout
fails out "$run" -m model.vit a.jpg --logits /dev/stdout

# --- ignored children ---------------------------------------------------------------------------------

ignoring() { (trap '' CHLD && exec "$@"); }
mask=yes
tried="vit-bench, children ignored"
"$bench" -m model.vit --runs 5 >out 2>err
masked out >expected.out
check "status" ignoring "$bench" -m model.vit --runs 5
masked out >masked
same expected.out masked
mask=no

# --- limits -----------------------------------------------------------------------------------------

# under LIMIT COMMAND...: runs the command with ulimit LIMIT.
under() {
    tried="${*:2} under ulimit $1"
    # shellcheck disable=SC2086 # several words
    (ulimit $1 && shift && exec "$@") >out 2>err </dev/null
    status=$?
}

try "$classify" "${bundled[@]}" a.jpg b.png
is 0
cp out expected.out
for limit in "-n 6" "-t 100" "-c 0" "-s 1000"; do
    under "$limit" "$classify" "${bundled[@]}" a.jpg b.png
    is 0
    same expected.out out
    quiet err
done
for tunable in 1 2; do # gives malloc huge pages
    try env GLIBC_TUNABLES=glibc.malloc.hugetlb=$tunable "$classify" "${bundled[@]}" a.jpg b.png
    is 0
    same expected.out out
done
tried='classify under ulimit -f 0'
(ulimit -f 0 && exec "$classify" "${bundled[@]}" a.jpg b.png) 2>&1 </dev/null | cat >out
same expected.out out
under "-n 4" "$classify" "${bundled[@]}" a.jpg b.png
is 1
lines err 1
err '^vit-classify: a.jpg: no sandbox is available to decode the image: .*Too many open files \(--no-sandbox '
under "-n 4" "$classify" --no-sandbox "${bundled[@]}" a.jpg b.png
is 0
same expected.out out
if [ "${BIN:-.}" = . ]; then # a sanitizer needs all addresses
    under "-v 3000000" "$classify" "${bundled[@]}" a.jpg b.png
    is 0
    same expected.out out
    quiet err
    under "-v 3000000" "$embed" -t 16 -m model.vit a.jpg b.png a.jpg b.png -o few.npy
    is 0
    try "$embed" -t 16 -m model.vit a.jpg b.png a.jpg b.png -o many.npy
    same few.npy many.npy
    under "-v 600000" "$classify" "${bundled[@]}" a.jpg
    is 1
    err '^vit-classify: a.jpg: no sandbox is available to decode the image: no shared memory: '
    under "-v 600000" "$embed" -m model.vit a.jpg b.png -o result.npy
    is 1
    lines err 1
    missing result.npy
fi

summary
