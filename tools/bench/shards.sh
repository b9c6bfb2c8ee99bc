#!/usr/bin/env bash
# shards.sh - the time of an image in embed --tar beside the sum of its parts: decoding and
# preprocessing without the sandbox, and the forward pass alone, by vit-bench.
#
#     bash tools/bench/shards.sh MODEL.vit PHOTOS.tar [ROUNDS]
#
# With one thread, and with two: the parts are then those of two processes at the same time, since
# two cores share memory and clock. All take turns; the table shows medians of the rounds (default
# 5). It needs `make tools/vit-embed tools/vit-bench`, and a machine that does nothing else.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: bash tools/bench/shards.sh MODEL.vit PHOTOS.tar [ROUNDS]" >&2
    exit 2
fi
model=$(realpath "$1") photos=$(realpath "$2") rounds=${3-5}
cd "$(dirname "$0")/../.."
export LC_ALL=C
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$work"' EXIT

# run NAME OPTION...: embed; its record is left in $work/NAME.json
run() {
    rm -rf "${work:?}/$1"
    tools/vit-embed -m "$model" --tar - --shard p.tar -o "$work/$1" "${@:2}" \
        <"$photos" 2>"$work/$1.err" ||
        { cat "$work/$1.err" >&2 && return 1; }
    cp "$work/$1/stats/stats_p.json" "$work/$1.json"
}
value() { sed -n "s/.*\"$2\": \([0-9.]*\).*/\1/p" "$work/$1.json"; } # NAME KEY
# each NAME KEY TITLE: "TITLE VALUE", milliseconds an image
each() {
    awk -v s="$(value "$1" "$2")" -v n="$(value "$1" images)" -v name="$3" \
        'BEGIN { print name, 1e3 * s / n }'
}

for ((round = 0; round < rounds; round++)); do
    for threads in 1 2; do
        copies=$(seq $threads)
        for c in $copies; do run parts$c -t 1 --no-sandbox & done
        wait
        for c in $copies; do
            each parts$c load_seconds "load-$threads"
        done
        for c in $copies; do
            tools/vit-bench -m "$model" -b 4 -t 1 --seconds 3 --json >"$work/bench$c.json" &
        done
        wait
        for c in $copies; do echo "forward-$threads $(value bench$c ms_median)"; done
        run confined -t $threads
        each confined seconds "confined-$threads"
        run plain -t $threads --no-sandbox
        each plain seconds "plain-$threads"
    done
done | sort -k1,1 -k2,2g | awk '
    { values[$1, ++count[$1]] = $2 }
    function median(name) {
        n = count[name]
        return (values[name, int((n + 1) / 2)] + values[name, int(n / 2) + 1]) / 2
    }
    function row(what, one, two) { printf "| %s | %.2f | %.2f |\n", what, one, two }
    function part(of) {
        row(of, median(of "-1"), median(of "-2") / 2)
        sum1 += median(of "-1")
        sum2 += median(of "-2") / 2
    }
    function whole(what, of) {
        row(what, median(of "-1"), median(of "-2"))
        printf "| of the sum | %.1f %% | %.1f %% |\n",
            100 * sum1 / median(of "-1"), 100 * sum2 / median(of "-2")
    }
    END {
        print "| ms an image | 1 thread | 2 threads |\n|---|--:|--:|"
        part("load"); part("forward")
        row("sum", sum1, sum2)
        whole("embed", "confined")
        whole("embed --no-sandbox", "plain")
    }'
