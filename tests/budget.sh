#!/usr/bin/env bash
# budget.sh - compares figures of the project with their limits. The last row of a figure in
# budget.txt contains the figure's limit
#
#     budget.sh                       fails if a figure has grown by more than 2 %, a time by 10 %
#                                     (on CI machines, which have other load, by 100 %)
#     budget.sh record WHY FIGURE...  appends a row with the current value of each FIGURE
#     budget.sh time NAME COMMAND...  runs a command, and keeps its CPU time as the figure NAME-cpu
#
# Each figure of time is a ratio of CPU times. The divisor is the time in which the same compiler,
# at the same level, compiles stb_image.h on this machine during the run. demo-cpu and test-cpu use
# gcc -O0.
set -u
cd "$(dirname "$0")/.." || exit 2
export LC_ALL=C TIMEFORMAT='%U %S' CCACHE_DISABLE=1 # a cache hides the cost of compiling
table=tests/budget.txt work=build/budget
mkdir -p $work
exec 3>&1 4>&2

# cpu COMMAND...: runs the command. If it succeeds, prints the seconds of CPU time that it took
cpu() {
    local spent status
    spent=$({ time "$@" >&3 2>&4 3>&- 4>&-; } 2>&1)
    status=$?
    [ $status = 0 ] && awk '{ print $1 + $2 }' <<<"$spent"
    return $status
}

# compiles COMPILER LEVEL HEADER MACRO: compiles HEADER with MACRO defined, to $work/unit.o
compiles() {
    echo "#include \"$3\"" >"$work/unit.c"
    "$1" "$2" -std=c99 "-D$4" -I. "-I${STB:-/usr/include/stb}" -c "$work/unit.c" \
        -o "$work/unit.o"
}

# compile_time COMPILER LEVEL: compiles vit.h and stb_image.h in turn, three times, and prints the
# ratio of their shortest times
compile_time() {
    for _ in 1 2 3; do
        echo "$(cpu compiles "$1" "$2" vit.h VIT_IMPLEMENTATION)" \
            "$(cpu compiles "$1" "$2" stb_image.h STB_IMAGE_IMPLEMENTATION)"
    done 4>>$work/log | awk 'NR == 1 || $1 < vit { vit = $1 } NR == 1 || $2 < stb { stb = $2 }
                END { if (stb) printf "%.2f\n", vit / stb }'
}

# measure NAME COMMAND...: runs the command, and writes the figure NAME-cpu. Other load slows the
# command, so the divisor is measured meanwhile, at intervals that grow to ten seconds.
measure() {
    local name=$1 pause=1 spent status
    shift
    rm -f "$work/$name-cpu"
    while true; do
        cpu compiles gcc -O0 stb_image.h STB_IMAGE_IMPLEMENTATION 4>/dev/null
        sleep $pause
        pause=$((pause < 5 ? 2 * pause : 10))
    done >$work/units &
    spent=$(cpu "$@")
    status=$?
    kill $!
    wait $! 2>/dev/null
    [ $status != 0 ] || awk -v spent="$spent" \
        '{ sum += $1 } END { if (NR) printf "%.0f\n", spent * NR / sum }' $work/units \
        >"$work/$name-cpu"
    return $status
}

# fresh_demo: builds and runs the demo in a fresh copy of the files that git tracks
fresh_demo() {
    rm -rf $work/tree
    mkdir -p $work/tree
    git ls-files -z | xargs -0 cp --parents -t $work/tree
    measure demo make -s -C $work/tree demo
    rm -rf $work/tree
}

# firmware_bytes NAME: prints this figure of the Cortex-M4F example compiled by gcc
firmware_bytes() {
    (
        source examples/firmware/boards.sh
        make -s tools/vit-convert && mkdir -p build/firmware &&
            tools/vit-convert -q --c-array models/fashion-vit.vit -o build/firmware/fashion_vit.h &&
            build gcc m4 build/firmware/budget examples/firmware/main.c -Os || exit
        arm-none-eabi-nm -S --radix=d build/firmware/budget |
            awk '$4 == "arena" || $4 == "fashion_vit_data" { print $4, $2 + 0 }'
        arm-none-eabi-size -A build/firmware/budget | awk '$1 == ".text" || $1 == ".data" { print $1, $2 }'
    ) | awk -v name="$1" '{ size[$1] = $2 }
        END { print name == "code" ? size[".text"] + size[".data"] - size["fashion_vit_data"] : size[name] }'
}

bytes() { # FILE...
    make -s "$@" >&2 && stat -c %s "$@"
}

# The figures. Each line has the NAME of a figure, and then the command that prints it.
figures() {
    cat <<'FIGURES'
header-lines     grep -c '' vit.h
header-api-lines awk '/^#if defined\(VIT_IMPLEMENTATION\)/ { print NR; exit }' vit.h
header-functions sed 's/^VIT_API /VISIBLE /' vit.h | gcc -E -P -x c - | grep -c '^VISIBLE '
header-tiles     compiles gcc -O2 vit.h VIT_IMPLEMENTATION && nm $work/unit.o | grep -c ' t vit__tile_'
header-defines   grep -c '^ *# *define' vit.h
header-ifs       grep -cE '^ *# *(if|ifdef|ifndef|elif)\b' vit.h
header-text      compiles gcc -O2 vit.h VIT_IMPLEMENTATION && size $work/unit.o | awk 'NR == 2 { print $1 }'
compile-gcc-O2   compile_time gcc -O2
compile-gcc-O0   compile_time gcc -O0
compile-clang-O2 compile_time clang -O2
firmware-code    firmware_bytes code
firmware-arena   firmware_bytes arena
demo-cpu         cat $work/demo-cpu
test-cpu         cat $work/test-cpu
tools-files      git ls-files tools | grep -c ''
tools-lines      git ls-files tools | grep '\.[ch]$' | xargs cat | grep -c ''
page-scalar      bytes examples/web/vit/vit-scalar.wasm.gz
page-simd        bytes examples/web/vit/vit.wasm.gz
page-relaxed     bytes examples/web/vit/vit-relaxed.wasm.gz
page-converter   bytes examples/web/vit/convert.wasm.gz
page-learner     bytes examples/web/vit/learn.wasm.gz
page-words       bytes examples/web/vit/words.wasm.gz
FIGURES
}

# figure NAME: prints the figure
figure() {
    local command
    command=$(figures | sed -n "s/^$1  *//p")
    [ -n "$command" ] || { echo "budget.sh: there is no figure $1" >&2; return 2; }
    eval "$command"
}

# limit NAME: prints the value in the figure's last row
limit() {
    awk -v name="$1" '$1 == name { last = $3 } END { print last }' $table 2>/dev/null
}

check() {
    local name now most status=0
    [ -n "${CI-}" ] || fresh_demo >$work/demo.log 2>&1
    printf '%-17s %10s %10s\n' figure limit now
    for name in $(figures | cut -d' ' -f1); do
        most=$(limit "$name")
        now=$(figure "$name" 2>$work/log | tail -n 1)
        if [ -z "$now" ] && [ "$name" = test-cpu ] && [ -z "${CI-}" ]; then
            printf '%-17s %10s %10s  (bash tests/budget.sh time test make test)\n' "$name" "$most" -
            continue
        fi
        awk -v name="$name" -v most="$most" -v now="$now" -v ci="${CI-}" 'BEGIN {
            part = name !~ /^compile-|-cpu$/ ? 0.02 : ci == "" ? 0.1 : 1
            if (most > 0) grown = now / most - 1
            if (now == "") said = "FAILED: not measured"
            else if (most == "") said = "FAILED: has no row"
            else if (grown > part) said = sprintf("FAILED: %+.1f %%", 100 * grown)
            else if (grown < -part) said = sprintf("%+.1f %%: record it", 100 * grown)
            printf "%-17s %10s %10s  %s\n", name, most, now, said
            exit said ~ /FAILED/
        }' || { status=1; [ -n "$now" ] || tail -n 3 $work/log; }
    done
    [ $status = 0 ] ||
        echo "budget.sh: a figure that has to grow takes a row: bash tests/budget.sh record WHY FIGURE"
    return $status
}

case ${1-} in
'') check ;;
record)
    why=$2
    shift 2
    for name in "$@"; do
        now=$(figure "$name" | tail -n 1)
        [ -n "$now" ] || { echo "budget.sh: $name: not measured" >&2; exit 1; }
        printf '%-16s %s %9s  %s\n' "$name" "$(date -u +%F)" "$now" "$why" >>$table
    done
    ;;
time)
    shift
    measure "$@"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
