#!/usr/bin/env bash
# windows.sh [NAME...] - runs programs and tests that MinGW-w64 has built, under Wine: the C tests,
# the scripts that test programs, and tests for Windows alone. With arguments, it runs only the
# tests whose names begin with one of them. The same tests also run on Linux. A table at the end has
# the counts on both systems. For each difference between them, this script must contain a reason.
# `make test-windows` builds the programs that this script needs.
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

# For each program, makes a script with the name that the tests call. The script runs the .exe in
# its own folder or, if there is none, the .exe in build/windows.
for program in tools/vit-bench tools/vit-convert tools/vit-info tools/vit-run tools/vit-classify \
    tools/vit-evaluate tools/vit-embed tools/vit-get tools/vit-learn tools/vit-search tools/vit-look tests/test_parity; do
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

# The programs for Linux get a folder with the same layout, so that the test scripts run in the same
# way on both systems.
linux=$work/linux
mkdir -p "$linux"
ln -sfn "$PWD/tools" "$PWD/examples" "$linux"
ln -sfn "$PWD/build/plain/tests" "$linux/tests"

# Only parts of long tests are run, as in tests/run.sh.
declare -A part=([test_damage]=10 [test_match]=6 [test_structure]=20 [test_random]="120 10 20")

# For each test that does not run under Wine, or has other counts there than on Linux: the reason.
declare -A why=(
    [test_api]="failures of pthreads, of mmap and of what the CPU says"
    [test_bench]="Wine has its own folder for temporary files"
    [test_cli]="names with quotes and line ends"
    [test_convert]="a limit on open files"
    [test_converter_memory]="the linker wraps glibc's functions"
    [test_cores]="/proc and control groups"
    [test_frames]="a pipe by its name; frames come too late, some more, some fewer"
    [test_confined]="Linux's seccomp"
    [test_image]="stb_image decodes JPEGs there"
    [test_make]="Debian's packages"
    [test_resume]="signals, locks and full disks of POSIX"
    [test_shards]="how many kills come in time"
    [test_infer]="frames come too late, some more, some fewer"
    [test_layout_damage]="the linker wraps functions"
    [test_math]="the C library's fmaf is wrong in the last bit"
    [test_sandbox]="Linux's system calls"
    [test_search]="names with backslashes and line ends"
    [test_sort]="symbolic links, a full disk, signals"
    [test_threads]="fork, failures of pthreads"
    [test_abi]="ELF; the DLL is in windows_own.sh"
    [test_build]="README's commands"
    [test_embedded]="what is built here for boards"
    [test_environment]="descriptors, signals and limits of POSIX"
    [test_formats]="no command decodes there"
    [test_fixed]="what is built here for one model"
    [test_names]="names with control characters; windows_own.sh has an output that is an input"
    [test_get]="no curl there"
    [test_floors]="reads the sources alone"
    [test_examples]="what is compiled here, Python; hello.c is in windows_own.sh"
    [test_tools_disk]="limits on the size of files; windows_own.sh has full disks, names and paths"
    [test_tools_memory]="LD_PRELOAD"
    [test_words]="arguments that are not UTF-8, or that Wine converts"
)

scripts="cli convert search look options own bench parity layouts modules shards learning families
    onnx proposals words"

# The build for Windows must give the same bits as the build for Linux, and choose the same best
# tier.
same_bits() {
    local output bits
    # shellcheck disable=SC2086 # several words
    output=$($wine "$bin/tests/test_random.exe" tests/data ${part[test_random]} | tr -d '\r')
    # shellcheck disable=SC2086
    bits=$(build/plain/tests/test_random tests/data ${part[test_random]} | grep '^bits')
    printf '%s\n' "$output"
    [[ $output == *"$bits"* ]] || printf 'expected: %s\n0 passed, 1 failed\n' "$bits"
}

run windows bash tests/windows_own.sh
for name in $scripts; do
    run "test_$name.sh.windows" env WINDOWS=yes BIN="${work#"$PWD"/}/bin" bash tests/test_$name.sh
    run "test_$name.sh.linux" env BIN="${linux#"$PWD"/}" bash tests/test_$name.sh
done
# shellcheck disable=SC2086 # several words
for source in tests/test_*.c; do
    name=$(basename "$source" .c)
    [ -e "$bin/tests/$name.exe" ] || continue # the Makefile does not build all tests for Windows
    [ "$name" = test_parity ] && continue # by its driver, above
    if [ "$name" = test_random ]; then run test_random.windows same_bits
    else run "$name.windows" $wine "$bin/tests/$name.exe" tests/data ${part[$name]-}; fi
    run "$name.linux" "build/plain/tests/$name" tests/data ${part[$name]-}
done

# Prints a row for each test. A row passes if both counts are equal, or if the difference has a
# known reason.
counts() {
    local source name windows linux reason rows=0 bad=0 of_windows=0 of_linux=0 failed
    printf '%-26s %9s %9s\n' '' Windows Linux
    for source in tests/test_*.c tests/test_*.sh; do
        name=$(basename "$source" .c)
        [ "$name" = test_parity ] && continue # counted with its driver
        rows=$((rows + 1)) windows=- linux=- reason=
        read -r windows failed 2>/dev/null <"build/log/$name.windows.sum"
        read -r linux failed 2>/dev/null <"build/log/$name.linux.sum"
        if [ "$windows" = - ] || [ "$windows" != "$linux" ]; then
            reason=${why[${name%.sh}]-}
            [ -n "$reason" ] || reason='NO REASON IS KNOWN' bad=$((bad + 1))
        fi
        printf '%-26s %9s %9s  %s\n' "$name" "$windows" "$linux" "$reason"
        of_windows=$((of_windows + ${windows/-/0})) of_linux=$((of_linux + ${linux/-/0}))
    done
    printf '%-26s %9s %9s\n' 'all of these' $of_windows $of_linux
    echo "$((rows - bad)) passed, $bad failed"
}
wait
run counts counts
wait
if wanted counts; then cat build/log/counts.log; fi
finish
