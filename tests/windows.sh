#!/usr/bin/env bash
# windows.sh [NAME...] - programs and tests built by MinGW-w64, run under Wine: the C tests, the
# scripts that test the programs, and what is Windows' own; only those whose names begin with one of
# the arguments. `make test-windows` builds what this needs.
set -u
cd "$(dirname "$0")/.."
. tests/jobs.sh
only=("$@")
bin=$PWD/build/windows
work=$bin/work
export WINEPREFIX=${WINEPREFIX:-$PWD/build/cross/wine} WINEDEBUG=-all
wine=/usr/lib/wine/wine64
mkdir -p "$work" "$WINEPREFIX"
[ -d "$WINEPREFIX/drive_c" ] || $wine wineboot --init >/dev/null 2>&1

# A program by its name, as scripts call it: beside a copy of itself, or from build/windows.
for program in tools/vit-bench tools/vit-convert tools/vit-info tools/vit-run examples/classify \
    examples/evaluate examples/embed examples/search examples/look tests/test_parity; do
    mkdir -p "$work/bin/${program%/*}"
    cat >"$work/bin/$program" <<EOF
#!/bin/sh
exe=\$(dirname "\$0")/$(basename $program).exe
[ -f "\$exe" ] || exe=$bin/$program.exe
exec $wine "\$exe" "\$@"
EOF
    chmod +x "$work/bin/$program"
done
ln -sfn "$PWD/models" "$bin/models"

# What takes long, in part, as tests/run.sh has it.
declare -A part=([test_damage]=10 [test_match]=6 [test_structure]=20)


run windows bash tests/windows_own.sh
for name in cli convert search look options own bench parity; do
    run "test_$name.sh.windows" env WINDOWS=yes BIN="${work#"$PWD"/}/bin" bash tests/test_$name.sh
done

# The bits and the best tier of Linux's build.
same_bits() {
    local output bits
    output=$($wine "$bin/tests/test_random.exe" tests/data 120 10 20 | tr -d '\r')
    bits=$(build/plain/tests/test_random tests/data 120 10 20 | grep '^bits')
    printf '%s\n' "$output"
    [[ $output == *"$bits"* ]] || printf 'expected: %s\n0 passed, 1 failed\n' "$bits"
}
run test_random.windows same_bits
# shellcheck disable=SC2086 # several words
for source in tests/test_*.c; do
    name=$(basename "$source" .c)
    [ -e "$bin/tests/$name.exe" ] || continue # the Makefile leaves some out
    [[ $name == test_parity || $name == test_random ]] && continue # above
    run "$name.windows" $wine "$bin/tests/$name.exe" tests/data ${part[$name]-}
done
finish
