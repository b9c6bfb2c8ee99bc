#!/usr/bin/env bash
# The examples in other languages, with the compiled library: C++, with threads of its own, which
# have names and cores; Python by ctypes, with and without NumPy. They give what examples/ gives.
set -u
cd "$(dirname "$0")/.."
. tests/built.sh all libraries
. tests/checks.sh
bin=${BIN:-.}
model=models/cifar10-vit.vit photo=examples/cat.ppm

says() { # TEXT COMMAND...: in its output, with status 0
    local text=$1
    shift
    tried=$*
    if "$@" >"$work/out" 2>"$work/err" && grep -qxF -- "$text" "$work/out"; then pass
    else fail "$text"; fi
}

refuses() { # TEXT COMMAND...: status 1, with that message and no trace of the program's insides
    local text=$1
    shift
    tried=$*
    "$@" >"$work/out" 2>"$work/err"
    if [ $? = 1 ] && grep -qF -- "$text" "$work/err" && [ "$(wc -l <"$work/err")" = 1 ]; then pass
    else fail "$text"; fi
}

printf 'P6\n4 4\n255\nshort' >"$work/short.ppm"
{ printf 'P6\n32 32\n255\n'; head -c 3072 /dev/zero | tr '\0' ' '; } >"$work/spaces.ppm"
head -c 1000 $model >"$work/cut.vit"

# vit_image_load, which is there for whoever includes stb_image.h before.
cat >"$work/bridge.c" <<'END'
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#include "vit.h"
int main(int argc, char **argv) {
    vit_image photo = vit_image_load(argc > 2 ? argv[2] : "");
    vit_prediction best;
    vit_model model;
    if (!photo.pixels) return fprintf(stderr, "%s\n", stbi_failure_reason()), 1;
    if (vit_model_open(argv[1], 0, &model)) return fprintf(stderr, "%s\n", model.detail), 1;
    if (vit_classify(&model, &photo, 1, &best)) return 1;
    vit_image_free(&photo);
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);
    vit_model_close(&model);
    return photo.pixels != NULL;
}
END
for language in "cc -x c -std=c99" "g++ -x c++ -std=c++11"; do
    have "${language%% *}" "vit_image_load: $language" || continue
    # shellcheck disable=SC2086 # words
    check "vit_image_load compiles: $language" $language -O1 -g -w -I. ${STB:+-isystem build/stb} \
        "$work/bridge.c" -x none build/lib/libvit.a -o "$work/bridge" -pthread -lm
    says "cat, 82.4 %" "$work/bridge" $model examples/cat.jpg
    says "cat, 78.8 %" "$work/bridge" $model $photo
    refuses "can't fopen" "$work/bridge" $model no/such.jpg
    refuses "unknown image type" "$work/bridge" $model $model
done

if have g++ "examples/hello.cpp"; then
    warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
    # shellcheck disable=SC2086 # words
    check "hello.cpp compiles" g++ -std=c++11 -O1 -g $warnings -I. examples/hello.cpp \
        build/lib/libvit.a -o "$work/hello" -pthread
    says "cat, 78.8 %" "$work/hello" $model $photo
    for _ in 1 2 3 4 5; do says "cat, 78.8 %" taskset -c 0 "$work/hello" $model $photo; done
    check "a photo of spaces" "$work/hello" $model "$work/spaces.ppm"
    refuses "no/such.vit: cannot be opened" "$work/hello" no/such.vit $photo
    : >"$work/empty.vit"
    refuses "empty.vit: is empty" "$work/hello" "$work/empty.vit" $photo
    grep -q 'empty$' "$work/err" || fail "a reason beside the reason"
    refuses "cut.vit: " "$work/hello" "$work/cut.vit" $photo
    refuses "short.ppm: cut off" "$work/hello" $model "$work/short.ppm"
    refuses "not a PPM" "$work/hello" $model examples/cat.jpg
    if [ "$(uname -s)" = Linux ]; then # the worker of two threads, as the kernel sees it
        sleeps='std::this_thread::sleep_for(std::chrono::seconds(1));'
        sed "s/Threads threads(2);/&\n    for (;;) $sleeps/" examples/hello.cpp >"$work/waits.cpp"
        check "hello.cpp compiles, waiting" g++ -std=c++11 -O1 -I. "$work/waits.cpp" \
            build/lib/libvit.a -o "$work/waits" -pthread
        "$work/waits" $model $photo &
        waits=$!
        for _ in $(seq 100); do
            grep -lx 'hello-1' /proc/$waits/task/*/comm >"$work/found" 2>/dev/null && break
            sleep 0.05
        done
        check "a thread is called hello-1" test -s "$work/found"
        task=$(dirname "$(cat "$work/found")")
        sleep 0.1
        check "it is pinned to one core" \
            sh -c "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' $task/status | grep -x '[0-9]*'"
        kill $waits
        wait $waits 2>/dev/null
    fi
fi

if [ -e build/lib/libvit.so.2 ] && have python3 "examples/vit_ctypes.py"; then
    python="python3 -B examples/vit_ctypes.py build/lib/libvit.so.2"
    cat >"$work/array.py" <<'END'
import sys
import numpy
sys.path.append("examples")
from vit_ctypes import Model, read_ppm
array = numpy.asarray(Model(*sys.argv[1:3]).run(read_ppm(sys.argv[3]))[1])
print("%s, %d, %.6f" % (array.dtype, array.size, array[0]))
END
    # shellcheck disable=SC2086 # words
    {
        says "cat, 78.8 %" $python $model $photo
        "$bin/tools/vit-embed" -m $model -o "$work/e.npy" $photo 2>"$work/err"
        first=$(tail -c +129 "$work/e.npy" | od -An -tf4 -N4 | tr -d ' ')
        first=$(LC_ALL=C printf %.6f "$first")
        # -S: without the folders that NumPy may be in
        says "embedding of 192, $first first" python3 -S ${python#python3} $model $photo
        with=
        for python3 in python3 /usr/bin/python3; do # Debian's may have it
            $python3 -c 'import numpy' 2>/dev/null && with=$python3 && break
        done
        if [ -n "$with" ]; then
            says "float32, 192, $first" $with -B "$work/array.py" build/lib/libvit.so.2 \
                $model $photo
        else
            skip "vit_ctypes.py with NumPy" "no NumPy here"
        fi
        check "a photo of spaces" $python $model "$work/spaces.ppm"
        cp $model "$work/mod"$'\xe8'le.vit # a name that is no UTF-8
        says "cat, 78.8 %" $python "$work/mod"$'\xe8'le.vit $photo
        refuses "no/such.vit: cannot be opened" $python no/such.vit $photo
        refuses "cut.vit: " $python "$work/cut.vit" $photo
        refuses "short.ppm: not a whole PPM" $python $model "$work/short.ppm"
        refuses "no/lib.so" python3 -B examples/vit_ctypes.py no/lib.so $model $photo
    }
fi
summary
