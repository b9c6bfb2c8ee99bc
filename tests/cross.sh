#!/usr/bin/env bash
# cross.sh [short | TARGET...] - runs the tests on other CPUs, under QEMU. The tests must pass,
# compute the same bits as on this machine, and convert checkpoints to the same files. vit.h must
# detect the missing instructions of a CPU and work without them. `make test-more` runs the short
# part, and `make test-cross` runs everything. A TARGET selects the targets whose names begin with
# this word.
set -u
cd "$(dirname "$0")/.."
. tests/jobs.sh
[ "${1-}" = short ] || only=("$@")
work=build/cross
mkdir -p $work/host

declare -A tiers=([aarch64]=neon-bf16 [armhf]=smlad [riscv64]=scalar [s390x]=scalar [i686]=scalar)
declare -A emulators=([aarch64]=qemu-aarch64-static [armhf]=qemu-arm-static
    [riscv64]=qemu-riscv64-static [s390x]=qemu-s390x-static [i686]=qemu-i386-static)
declare -A macros=([i686]=-DVIT_NO_SSE2) # SSE2 computes other bits, so it has its own variant
# The names of variants contain a dot. If a compiler computes float with more bits by default, a
# flag prevents this.
declare -A compilers=([aarch64]=aarch64-linux-gnu-gcc [armhf]=arm-linux-gnueabihf-gcc
    [riscv64]=riscv64-linux-gnu-gcc [s390x]="s390x-linux-gnu-gcc -fexcess-precision=fast"
    [i686]="i686-linux-gnu-gcc -msse2 -mfpmath=sse"
    [aarch64.clang]="clang --target=aarch64-linux-gnu"
    [armhf.fma]="arm-linux-gnueabihf-gcc -mfpu=vfpv4"
    [s390x.clang]="clang --target=s390x-linux-gnu"
    [i686.sse2]="i686-linux-gnu-gcc -msse2 -mfpmath=sse")

# build TARGET COMPILER FLAGS PROGRAM...: builds into build/cross/TARGET. A variant contains only
# the header's tests
build() {
    local target=$1 compiler=$2 flags=$3 modules=
    shift 3
    [[ $target == host.* ]] || wanted "$target" || return 0
    [[ $target == *.* ]] && modules=MODULES=tools/base/vit
    # shellcheck disable=SC2086 # there or not
    make -s TARGET="cross/$target" CC="$compiler" CFLAGS=-O2 CPPFLAGS="$flags" \
        LDFLAGS=-static $modules "${@/#/$work/$target/}" || run "$target.build" false
}

# of_host COMMAND...: prints the lines of test_random that contain the bits of its models
of_host() {
    # shellcheck disable=SC2086 # two words
    "$@" tests/data $models | sed -n 's/^\(bits [0-9a-f]*, best tier \).*/\1/p'
}

# says TEXT COMMAND...: runs a test. The test fails if it does not print TEXT
says() {
    local text=$1 output
    shift
    output=$("$@")
    printf '%s\n' "$output"
    [[ $output == *"$text"* ]] || printf 'expected: %s\n0 passed, 1 failed\n' "$text"
}

# random NAME TIER COMMAND...: runs test_random. The test must give the bits of the host, and vit.h
# must choose TIER as the best tier
random() {
    local name=$1 tier=$2
    shift 2
    # shellcheck disable=SC2086 # two words
    run "$name" says "$bits$tier" "$@" tests/data $models
}

# The converted files must equal this machine's, and their models must give PyTorch's numbers.
converts() {
    local target=$1 emulator=$2 passed=0 failed=0 from to dtype converted=()
    for from in plain/model.safetensors dist/model_legacy.pth headdim72/model.pth; do
        for dtype in f32 f16 bf16 int8 int4; do
            to=${from%/*}.some.$dtype.vit
            "$emulator" "$work/$target/tools/vit-convert" -q "tests/data/fixtures/$from" \
                -o "$work/$target/$to" --dtype $dtype
            converted+=("$work/$target/$to")
            cmp "$work/$target/$to" "$work/host/$to" && passed=$((passed + 1)) ||
                failed=$((failed + 1))
        done
    done
    echo "$passed files are the same, $failed not"
    "$emulator" "$work/$target/tests/test_parity" tests/data/fixtures "${converted[@]}"
    [ $failed = 0 ] || echo "0 passed, $failed failed"
}

make -s tools/vit-convert build/plain/tests/test_random

# --- CPU models, of this family and of 64-bit ARM's ----------------------------------------------

models="120 10 20" target=aarch64 # models with stems (slow in software) and own_options
[ "${1-}" = short ] && models="24 2 6" target=aarch64.short
bits=$(of_host build/plain/tests/test_random)
build $target "${compilers[aarch64]}" "" tests/test_math tests/test_random
for cpu in cortex-a53:neon cortex-a76:neon-dotprod max:neon-bf16; do
    random "aarch64.${cpu%:*}" "${cpu#*:}" qemu-aarch64-static -cpu "${cpu%:*}" \
        $work/$target/tests/test_random
done
# SSE2 has no fused multiply-add and therefore gives other bits. On any x86-64 CPU, a program can
# select SSE2.
# shellcheck disable=SC2086 # several words
sse2=$(build/plain/tests/test_random tests/data $models | grep 'of sse2$')
cpus="Opteron_G1:sse2 Haswell:avx2" # one of each tier, and others with the same tiers
[ "${1-}" = short ] || cpus+=" core2duo:sse2 Nehalem:sse2 Skylake-Client:avx2 Icelake-Server:avx2"
for cpu in $cpus; do
    [ "$(uname -m)" = x86_64 ] || continue
    random "x86_64.${cpu%:*}" "${cpu#*:}"$'\n'"$sse2" qemu-x86_64-static -cpu "${cpu%:*}" \
        build/plain/tests/test_random
done
if [ "${1-}" = short ]; then # 32 bits, and big-endian
    for target in i686 s390x; do
        build $target.short "${compilers[$target]}" "${macros[$target]-}" tests/test_random
        random $target.test_random scalar ${emulators[$target]} $work/$target.short/tests/test_random
    done
    build i686.short "${compilers[i686]}" "${macros[i686]}" tests/test_api
    run i686.test_api ${emulators[i686]} $work/i686.short/tests/test_api tests/data sizes
    run aarch64.test_math qemu-aarch64-static $work/aarch64.short/tests/test_math
    finish
    exit
fi

# --- all tests, on all CPU families --------------------------------------------------------------

for from in plain/model.safetensors dist/model_legacy.pth headdim72/model.pth; do
    for dtype in f32 f16 bf16 int8 int4; do
        tools/vit-convert -q "tests/data/fixtures/$from" --dtype $dtype \
            -o "$work/host/${from%/*}.some.$dtype.vit" 2>$work/host/err || cat $work/host/err
    done
done
tests="math api load preprocess npy checkpoint checkpoint_memory json image arch convert_units
    layout_units defaults coverage"
for target in aarch64 armhf riscv64 s390x i686; do
    # shellcheck disable=SC2086 # many words
    build $target "${compilers[$target]}" "${macros[$target]-}" tools/vit-convert \
        tests/test_random tests/test_parity $(printf 'tests/test_%s ' $tests)
    for name in $tests; do
        run "$target.test_$name" ${emulators[$target]} "$work/$target/tests/test_$name" tests/data
    done
    run "$target.converts" converts $target ${emulators[$target]}
    [ $target = aarch64 ] ||
        random $target.test_random ${tiers[$target]} ${emulators[$target]} \
            $work/$target/tests/test_random
done

# --- other compilers and flags -------------------------------------------------------------------

models="60 2 10"
bits=$(of_host build/plain/tests/test_random)
for target in aarch64.clang armhf.fma s390x.clang; do
    build $target "${compilers[$target]}" "" tests/test_math tests/test_random
    run $target.test_math ${emulators[${target%.*}]} $work/$target/tests/test_math
    random $target.test_random ${tiers[${target%.*}]} ${emulators[${target%.*}]} \
        $work/$target/tests/test_random
done

# All CPUs without fused multiply-add give the same bits as SSE2.
build host.nofma cc "-DVIT_NO_FMA -DVIT_NO_SIMD" tests/test_random
bits=$(of_host $work/host.nofma/tests/test_random)
build i686.sse2 "${compilers[i686.sse2]}" "" tests/test_math tests/test_random
run i686.sse2.test_math qemu-i386-static $work/i686.sse2/tests/test_math
# shellcheck disable=SC2086 # several words
run i686.sse2.test_random says "${bits%,*} of sse2" qemu-i386-static \
    $work/i686.sse2/tests/test_random tests/data $models
# shellcheck disable=SC2086 # several words
[ "$(uname -m)" != x86_64 ] ||
    run x86_64.sse2 says "${bits%,*} of sse2" build/plain/tests/test_random tests/data $models
for target in aarch64 armhf riscv64 s390x i686; do
    build $target.nofma "${compilers[$target]}" "-DVIT_NO_FMA -DVIT_NO_SIMD" tests/test_random
    random $target.nofma scalar ${emulators[$target]} $work/$target.nofma/tests/test_random
done
finish
