#!/usr/bin/env bash
# run.sh [WORD...] - builds and runs the tests of `make test`. With words, it runs only the tests
# whose names begin with one of them. The words may omit "test_".
#
# WHICH=more runs the additional tests of `make test-more`: the same tests under sanitizers, other
# compilers and CPUs, packages, fuzzers, the developers' own checks, and tests of `make test` that
# skipped a part in their last run. WHICH=all runs both sets. Words select from both sets. A word
# with a dot selects another build of a test, as in json.sanitized. LONG=yes runs the tests with
# more models, damage, compilers and types.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/jobs.sh
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

# Some tests are slow under sanitizers. With sanitizers, only the parts given here run.
declare -A fewer=([test_converter_memory]=40 [test_damage]=10 [test_layout_damage]=4
    [test_match]=6 [test_random]="330 6 24" [test_structure]=20)
# `make test` and `make test-more` run only a part of these long tests.
declare -A part=([test_converter_memory]=60 [test_damage]=10 [test_match]=12 [test_random]="120 20 40")
declare -A larger=([test_converter_memory]= [test_damage]=3 [test_match]=40 [test_random]="400 60 150"
    [test_random.simde]="330 6 24")
fuzz=1 # second; `make fuzz` takes longer
# These tests are not repeated with sanitizers, because they have no sanitized programs or only
# convert files of other tests. The last test replaces malloc itself.
unsanitized=" test_abi test_build test_confined test_embedded test_fixed test_floors test_make "
unsanitized+="test_tools_memory "
if [ "${LONG-}" = yes ]; then
    larger=([test_converter_memory]= [test_damage]=1 [test_match]= [test_random]=) fuzz=30
else
    unsanitized+="test_look " # test_look.c runs its modules
fi

# These tests check properties that no page promises to users.
developers=" test_bench test_embedded test_fixed test_floors test_make "

# Debian's packages that tests need; without them, a test is skipped.
declare -A packages=([compile]="g++ clang" [loops]="clang" [firmware]="gcc-arm-none-eabi qemu-system-arm clang"
    [cross]="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static gcc-s390x-linux-gnu
        libc6-dev-s390x-cross gcc-i686-linux-gnu libc6-dev-i386-cross"
    [packages]="g++ cmake pkg-config" [fuzz]="clang libclang-rt-14-dev" [simde]="libsimde-dev" [test_fixed]="clang")

# for_users COMMAND, for_developers COMMAND: call COMMAND with each test's name and the words that
# run the test, long tests first
for_users() {
    local source name
    "$1" test_build env BIN=. bash tests/test_build.sh
    "$1" test_parity env BIN=. bash tests/test_parity.sh
    for source in tests/test_*.c; do
        name=$(basename "$source" .c)
        [ "$name" = test_parity ] && continue # its driver, above, runs it
        "$1" "$name" "build/plain/tests/$name" tests/data ${part[$name]-}
    done
    for source in tests/test_*.sh; do
        name=$(basename "$source" .sh)
        [[ $name == test_@(build|parity) || $developers == *" $name "* ]] && continue
        [ ! -e "tests/$name.c" ] || name+=.sh
        "$1" "$name" env BIN=. bash "$source"
    done
}

for_developers() {
    local source name
    "$1" compile bash tests/compile.sh
    "$1" cross bash tests/cross.sh short
    "$1" loops bash tests/loops.sh
    "$1" firmware bash tests/firmware.sh
    "$1" packages bash tests/packages/install.sh short
    for name in "${!larger[@]}"; do
        [[ $name == *.* ]] || "$1" "$name.larger" "build/plain/tests/$name" tests/data ${larger[$name]}
    done
    "$1" test_parity.sanitized env BIN=build/asan bash tests/test_parity.sh
    for source in tests/test_*.c; do
        name=$(basename "$source" .c)
        [ "$name" = test_parity ] && continue
        "$1" "$name.sanitized" "build/asan/tests/$name" tests/data ${fewer[$name]-}
    done
    "$1" test_api.threads build/tsan/tests/test_api tests/data
    "$1" test_threads.threads build/tsan/tests/test_threads
    "$1" test_random.threads build/tsan/tests/test_random tests/data 150 # models are slow here
    if grep -qw avx2 /proc/cpuinfo; then # emulates tiers that this CPU lacks
        "$1" test_math.simde build/simde/tests/test_math
        "$1" test_random.simde build/simde/tests/test_random tests/data ${larger[test_random.simde]-}
    fi
    for source in tests/test_*.sh; do
        name=$(basename "$source" .sh)
        [ "$name" = test_parity ] && continue
        [[ $developers == *" $name "* ]] && "$1" "$name" env BIN=. bash "$source"
        [[ $unsanitized == *" $name "* ]] && continue
        [ ! -e "tests/$name.c" ] || name+=.sh
        "$1" "$name.sanitized" env BIN=build/asan bash "$source"
    done
    for source in tests/fuzz/fuzz_*.c; do
        name=$(basename "$source" .c)
        "$1" "$name" bash tests/fuzz/fuzz.sh $fuzz "${name#fuzz_}"
    done
}

# skipped_before COMMAND: calls COMMAND for the tests of `make test` that skipped a part in their
# last run. The packages that they lacked may be installed by now.
skipped_before() {
    again=$1
    for_users if_skipped
}
if_skipped() {
    local skipped
    read -r _ _ skipped _ 2>/dev/null <"build/log/$1.sum" && [ "$skipped" != 0 ] && "$again" "$@"
}

# For each test, notes the targets that make must build, or the missing packages.
declare -A targets=() absent=()
needs() {
    local word name=$1 kind=$1
    wanted "$name" || return 0
    case $name in
    fuzz_*) kind=fuzz ;;
    *.simde) kind=simde ;;
    esac
    # shellcheck disable=SC2086 # one word a package
    [ -z "${packages[$kind]-}" ] || absent[$name]=$(sh tools/install-packages.sh missing ${packages[$kind]})
    [ -z "${absent[$name]-}" ] || return 0
    for word in "${@:2}"; do
        case $word in
        build/*) targets[$word]=1 ;;
        BIN=build/asan) targets[build/asan/programs]=1 ;;
        tests/fuzz/fuzz.sh)
            targets[build/fuzz/${name#fuzz_}]=1
            targets[build/plain/tests/fuzz/make_corpus]=1
            ;;
        tests/test_parity.sh)
            targets[build/plain/tests/test_parity]=1
            [[ $name != *.sanitized ]] || targets[build/asan/tests/test_parity]=1
            ;;&
        tests/test_confined.sh) targets[build/evil/programs]=1 ;;&
        tests/*.sh) targets[all]=1 targets[libraries]=1 ;;
        esac
    done
}

perhaps() { if [ -n "${absent[$1]-}" ]; then omit "$1" "${absent[$1]}"; else run "$@"; fi; }

# sets COMMAND: calls COMMAND for the tests of WHICH, or with words for both sets. Other builds of
# tests are included only if a word names one
sets() {
    command=$1
    case ${only[*]+words}${WHICH-} in
    words*) for_users "$1" && for_developers named ;;
    more) for_developers "$1" && skipped_before "$1" ;;
    all) for_users "$1" && for_developers "$1" ;;
    *) for_users "$1" ;;
    esac
}
named() { [[ $1 == *.@($builds) && ${only[*]} != *.@($builds)* ]] || "$command" "$@"; }

for word in "$@"; do
    only+=("$word")
    [[ $word == test_* ]] || only+=("test_$word")
done
sets needs
[ ${#targets[@]} -gt 0 ] || [ ${#absent[@]} -gt 0 ] ||
    { echo "run.sh: no test's name begins with: $*" >&2; exit 2; }
[ ${#targets[@]} = 0 ] || make --no-print-directory -s "${!targets[@]}" || exit 2
[ -z "${STB-}" ] || export CPATH=$PWD/build/stb${CPATH:+:$CPATH} # make's link to stb
export BUILT=yes # tests/built.sh then checks nothing, because make has just run
sets perhaps

finish
