# vit.h - builds the tools, the examples and the tests. `make help` lists the targets.
#
# The command line may set CC, CFLAGS and PREFIX. Give the same values to `make` and to `make
# install`. CFLAGS='-O2 -g' is for a debugger. No flag is needed for speed: every build contains
# kernels for each instruction set, and chooses the best ones for the CPU at run time.
#
# `make help` prints the "## GROUP: TEXT" behind each target.

# Compiles one file per core at a time, unless -j is given. `make clean all` runs its targets one
# after the other.
CORES := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
ifeq ($(MAKELEVEL)$(filter clean,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(CORES)
endif

CC      = cc
CFLAGS  = -O2
PREFIX  = /usr/local
BINDIR  = $(PREFIX)/bin
LIBDIR  = $(PREFIX)/lib
STRIP   = $(shell $(CC) -print-prog-name=strip)
VERSION = $(shell sed -n 's/^.* vit\.h - v\([0-9.]*\) .*/\1/p' vit.h)

# The smaller archive of a release has no tests.
ifneq ($(if $(wildcard tests/run.sh),,$(filter check budget soak analyze mutants fuzz% test%,$(MAKECMDGOALS))),)
$(error this archive has no tests: take vit-$(VERSION)-full.tar.gz)
endif

WARNINGS = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef \
           -Wcast-align -Wcast-qual -Wdouble-promotion -Wvla -Wstrict-prototypes \
           -Wmissing-prototypes
LDLIBS   = -lpthread -lm

PROGRAMS = tools/vit-bench tools/vit-classify tools/vit-convert tools/vit-embed tools/vit-evaluate tools/vit-get \
           tools/vit-info tools/vit-learn tools/vit-look tools/vit-run tools/vit-search
EXAMPLES = examples/classify
MODULES  = $(patsubst %.c,%,$(filter-out tools/bench/peers/% tools/packaging/%,$(wildcard tools/*/*.c tools/*/*/*.c)))
TESTS    = $(patsubst %.c,%,$(wildcard tests/test_*.c))
SHELL_TESTS = $(filter-out $(TESTS:%=%.sh),$(wildcard tests/test_*.sh))

# Set STB to the folder with stb_image.h if the compiler does not find stb/stb_image.h. The link
# build/stb/stb points to this folder.
ifdef STB
ifeq ($(wildcard $(STB)/stb_image.h),)
$(error STB=$(STB): this folder has no stb_image.h)
endif
STB_FLAGS := -isystem build/stb$(shell mkdir -p build/stb && ln -sfn '$(abspath $(STB))' build/stb/stb)
endif
USES_STB = tools/checkpoint/inflate tools/image/photos tools/picture/stb tests/test_image tests/fuzz/fuzz_image
STB_FOUND = printf '\#include <stb/%s>\n' stb_image.h stb_image_write.h stb_easy_font.h | \
    $(CC) $(CPPFLAGS) $(STB_FLAGS) -E - >/dev/null 2>&1 || \
    { echo "$(or $(STB),the compiler's folders) lacks stb_image.h, stb_image_write.h or" \
        "stb_easy_font.h: install them (Debian: libstb-dev), or take them from" \
        "https://github.com/nothings/stb and name their folder: make STB=DIR" >&2; exit 1; }
COMPILER_FOUND = command -v $(firstword $(CC)) >/dev/null || \
    { echo "there is no compiler called $(firstword $(CC)): install it (Debian: gcc libc6-dev libstb-dev," \
        "for Windows gcc-mingw-w64-x86-64), or name another: make CC=NAME" >&2; exit 1; }

# INSTALLS is yes for `make` and `make all` with the default compiler: they may install
# libjpeg-turbo.
INSTALLS = $(if $(filter all,$(or $(MAKECMDGOALS),all)),$(if $(filter file,$(origin CC)),yes))

.PHONY: all windows test-windows libraries abi demo wasm web npm npm-modules no-relaxed firmware firmware-accuracy firmware-check \
        check test test-more test-all mutants budget test-cross test-wasm test-web test-packages soak analyze fuzz \
        fuzz-long bench-programs test-tokens test-cluster bench-peers bench-web bench-search bench-photos bench-accuracy bench-figures mca \
        help install uninstall dist static release clean
all: $(PROGRAMS) $(EXAMPLES)

help: ## 1: print this
	@awk 'BEGIN { split("Use it:Change it:Web and boards:More tests:Speed:Release", title, ":") } \
	    /^[a-z][a-z -]*:.* ## [1-6]: / { name = text = $$0; sub(/:.*/, "", name); sub(/.* ## /, "", text); \
	        group = substr(text, 1, 1); \
	        line[group] = line[group] sprintf("  make %-18s %s\n", name, substr(text, 4)) } \
	    END { print "make                      build the programs and the examples"; \
	        for (group = 1; group in title; group++) printf "\n%s\n%s", title[group], line[group]; \
	        print "\nWith any of them: CC=, CFLAGS=; STB=DIR, the folder that holds stb_image.h;\nDECODER=stb, JPEGs without libjpeg-turbo" }' Makefile

# make expands a recipe after its prerequisites are made. Recipes depend on installed packages, so
# packages are a prerequisite. Installing in the first line of a recipe would be too late.
packages-%:
	@sh tools/install-packages.sh $*

# If a script calls make, the called make gets the variables of the command line, but not its
# options, such as -j.
SCRIPT = MAKELEVEL=0 MAKEFLAGS='$(MAKEOVERRIDES)' bash

# Compiled files depend on a file that holds the flags and the section of this Makefile that uses
# them. The file is rewritten only if its contents change, so new flags recompile only the affected
# files.
define FLAGS
build/$(1)/flags: FORCE $(4)
	@+mkdir -p $$(@D)
	@+new=$$$$(sed -n '/^. --- $(2)/,/^. ---/p' Makefile; printf '%s\n' '$(subst ','\'',$(3))'); \
	    [ "$$$$new" = "$$$$(cat $$@ 2>/dev/null)" ] || { \
	    [ ! -e $$@ ] || echo "new flags: build/$(1) is compiled anew" >&2; printf '%s\n' "$$$$new" >$$@; }
endef
.PHONY: FORCE compiler
compiler:
	@+$(COMPILER_FOUND)

# --- building -----------------------------------------------------------------------------
# Each variant has the same rules, with its own flags and the modules that its tests need: plain
# ($(1) empty), address and undefined-behaviour sanitizer (build/asan/), thread sanitizer
# (build/tsan/).

define VARIANT
$(call FLAGS,$(2),building,$(CC) $(WARNINGS) $(CPPFLAGS) $(CFLAGS) $(STB_FLAGS) $(LDFLAGS) $(LDLIBS),compiler)

build/$(2)/%.o: %.c build/$(2)/flags
	@mkdir -p $$(@D)
	$$(CC) -std=c99 -D_FILE_OFFSET_BITS=64 $$(WARNINGS) $$(CPPFLAGS) $$(CFLAGS) $(3) $$(STB_FLAGS) \
	    -DVIT_SCALAR -DVIT_TEXT_ENCODER -I. -Itools -MMD -MP -c $$< -o $$@

$$(USES_STB:%=build/$(2)/%.o): | build/$(2)/stb
build/$(2)/stb: | build/$(2)/flags
	@mkdir -p $$(@D)
	@$$(STB_FOUND)
	@touch $$@

# libjpeg-turbo decodes JPEGs if the compiler can link a program with it; DECODER=stb omits
# libjpeg-turbo. `make` alone, as root on Debian, installs libjpeg-turbo before the first build.
build/$(2)/libs: FORCE build/$(2)/flags
	@+links() { printf '#include <stdio.h>\n#include <jpeglib.h>\nint main(void) { jpeg_destroy(0); return 0; }' | \
	    $$(CC) $$(CPPFLAGS) $$(CFLAGS) $(3) -xc - $$(LDFLAGS) -ljpeg -o $$@.test 2>/dev/null; }; \
	    installs() { [ '$(2)$$(INSTALLS)' = plainyes ] && [ ! -e $$@ ] && [ "$$$$(id -u)" = 0 ] && \
	    command -v apt-get >/dev/null && sh tools/install-packages.sh jpeg; }; libs=; \
	    if [ '$$(DECODER)' != stb ] && { links || { installs && links; }; }; then libs=-ljpeg; fi; rm -f $$@.test; \
	    [ -e $$@ ] && [ "$$$$libs" = "$$$$(cat $$@)" ] || { echo "$$$$libs" >$$@; [ "$$$$libs$$(DECODER)" ] || \
	    echo "no libjpeg-turbo (Debian: libjpeg62-turbo-dev): stb_image decodes JPEGs, at half the speed" >&2; }

build/$(2)/tools/image/jpeg.o: build/$(2)/libs
build/$(2)/tools/image/jpeg.o: private override CPPFLAGS += $$$$(sed 's/.*jpeg.*/-DJPEG_TURBO/' build/$(2)/libs)

build/$(2)/modules.a: $$(patsubst %,build/$(2)/%.o,$(4))
	@rm -f $$@
	ar rcs $$@ $$^

.PHONY: build/$(2)/programs
build/$(2)/programs: $$(PROGRAMS:%=$(1)%)

$$(PROGRAMS:%=$(1)%): $(1)%: build/$(2)/%.o build/$(2)/modules.a build/$(2)/libs
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS) $(3) $$(LDFLAGS) $$(filter-out %/libs,$$^) $$$$(cat build/$(2)/libs) $$(LDLIBS) -o $$@

$$(TESTS:%=build/$(2)/%) build/$(2)/tests/soak build/$(2)/tests/token_ids: build/$(2)/%: build/$(2)/%.o build/$(2)/modules.a build/$(2)/libs
	$$(CC) $$(CFLAGS) $(3) $$(LDFLAGS) $$(filter-out %/libs,$$^) $$$$(cat build/$(2)/libs) $$(LDLIBS) -o $$@
endef

# Compiling takes most of the time of the sanitized tests, so they have only -O1 and line numbers.
SANITIZE_FLAGS = -O1 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all
$(eval $(call VARIANT,,plain,,$(MODULES)))
$(eval $(call VARIANT,build/asan/,asan,-fsanitize=address -fsanitize=undefined $(SANITIZE_FLAGS),$(MODULES)))
$(eval $(call VARIANT,build/tsan/,tsan,-fsanitize=thread $(SANITIZE_FLAGS),tools/base/vit))
# Tests kernels with instructions that this CPU may lack; see tests/simde/immintrin.h. The kernels
# use FMA.
$(eval $(call VARIANT,build/simde/,simde,-std=gnu11 -mavx2 -mfma -mf16c -Wno-psabi -Itests/simde,tools/base/vit))
ifdef TARGET # one more, under build/$(TARGET)/: for another compiler, CPU or configuration
$(eval $(call VARIANT,build/$(TARGET)/,$(TARGET),,$(MODULES)))
endif

# clang compiles the fuzzers, and the modules that they test, with sanitizers and coverage counters.
# If the fuzzers traced comparisons, they would take ten times as long. Dictionaries and seeds
# replace the tracing. The programs in build/msan/ run the fuzzers' findings again, under the memory
# sanitizer.
FUZZERS = $(patsubst tests/fuzz/fuzz_%.c,build/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_FLAGS = -fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp $(SANITIZE_FLAGS) -O2 \
             -fsanitize-ignorelist=tests/fuzz/ignore.txt
FUZZ_WATCH = -fsanitize=address -fsanitize=undefined
$(eval $(call VARIANT,build/fuzz/,fuzz,$(FUZZ_FLAGS) $(FUZZ_WATCH),$(MODULES)))
$(eval $(call VARIANT,build/msan/,msan,$(FUZZ_FLAGS) -fsanitize=memory,$(MODULES)))
build/fuzz/% build/msan/%: override CC = clang
# The memory sanitizer cannot watch libjpeg-turbo.
build/msan/libs: override DECODER := stb
build/fuzz/tools/base/vit.o: override CPPFLAGS += -include tests/fuzz/memcmp.h
build/fuzz/tools/checkpoint/torch_state_dict.o: override CPPFLAGS += -DTORCH_MAX_STEPS=2000 # more steps only take longer
$(FUZZERS): build/fuzz/%: build/fuzz/tests/fuzz/fuzz_%.o build/fuzz/modules.a
	clang -fsanitize=fuzzer $(FUZZ_WATCH) $^ $$(cat build/fuzz/libs) $(LDLIBS) -o $@
$(FUZZERS:build/fuzz/%=build/msan/%): build/msan/%: build/msan/tests/fuzz/fuzz_%.o build/msan/modules.a
	clang -fsanitize=fuzzer -fsanitize=memory $^ $(LDLIBS) -o $@

build/plain/tests/fuzz/make_corpus: build/plain/tests/fuzz/make_corpus.o build/plain/modules.a
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $$(cat build/plain/libs) $(LDLIBS) -o $@

# A test in which allocations and file operations fail.
WRAPPED = malloc calloc realloc free fread fwrite fflush fclose fsync rename open_memstream opendir \
          source_read vit_model_open_as
build/%/tests/test_converter_memory: override LDFLAGS += $(WRAPPED:%=-Wl,--wrap=%)
build/%/tests/test_layout_damage: override LDFLAGS += -Wl,--wrap=checkpoint_tensor -Wl,--wrap=checkpoint_find

# Programs whose decoder tries to open a file, for tests/test_confined.sh.
build/evil/photos.o: tools/image/photos.c tests/evil_decoder.h
	@mkdir -p $(@D)
	$(CC) -std=c99 -D_FILE_OFFSET_BITS=64 -D_POSIX_C_SOURCE=200809L $(WARNINGS) $(CPPFLAGS) \
	    $(CFLAGS) -include tests/evil_decoder.h -DVIT_SCALAR -I. -Itools -MMD -MP -c $< -o $@

.PHONY: build/evil/programs
build/evil/programs: $(PROGRAMS:%=build/evil/%)
$(PROGRAMS:%=build/evil/%): build/evil/%: build/plain/%.o build/evil/photos.o build/plain/modules.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $$(cat build/plain/libs) $(LDLIBS) -o $@

# Programs that need only vit.h and stb_image.h.
$(EXAMPLES): examples/%: examples/%.c vit.h build/plain/flags | build/plain/stb
	$(CC) -std=c99 $(WARNINGS) $(CPPFLAGS) $(CFLAGS) $(STB_FLAGS) -I. $(LDFLAGS) $< $(LDLIBS) -o $@

# The compiled library exports the symbols of vit.h and no others. macOS needs other file names:
# use CMake there (tools/packaging/cmake).
LIBRARY_FLAGS = -std=c99 -fPIC -fvisibility=hidden
LIBRARY_API   = '-DVIT_API=__attribute__((visibility("default"))) extern'
STATIC  = build/lib/libvit.a
SHARED  = $(if $(filter Darwin,$(shell uname -s)),,build/lib/libvit.so.$(VERSION))

$(eval $(call FLAGS,lib,building,$(CC) $(WARNINGS) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(LDLIBS),compiler))
build/lib/vit.o: tools/packaging/vit.c vit.h build/lib/flags
	@mkdir -p $(@D)
	$(CC) $(LIBRARY_FLAGS) $(LIBRARY_API) $(WARNINGS) $(CPPFLAGS) $(CFLAGS) -I. -c $< -o $@

$(STATIC): build/lib/vit.o
	@rm -f $@
	ar rcs $@ $^

build/lib/libvit.so.$(VERSION): build/lib/vit.o
	$(CC) -shared -Wl,-soname,libvit.so.2 -Wl,-z,defs $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@
	ln -sf $(@F) build/lib/libvit.so.2
	ln -sf libvit.so.2 build/lib/libvit.so

libraries: $(STATIC) $(SHARED) ## 1: libvit.a and libvit.so: build/lib/

abi: libraries ## 6: record the interface of the compiled library: tests/abi/list.txt
	@$(SCRIPT) tests/test_abi.sh record

-include $(shell find build -name '*.d' 2>/dev/null)
.SECONDARY:
.DELETE_ON_ERROR:

# --- the demonstration --------------------------------------------------------------------

demo: packages-demo ## 1: classify the bundled photo
	@$(MAKE) --no-print-directory -s examples/classify
	examples/classify examples/cat.jpg

# --- WebAssembly ----------------------------------------------------------------------------

# clang compiles the shared sources of tools/ for size, and vit.h's hot parts for speed. Debian's C
# library is not built for shared memory, so the linker needs --no-check-features; see heap.c.
# Relaxed SIMD needs a newer clang than Debian's default.
WEB          = examples/web/vit
WASM_CC      = clang
WASM_CLANG19 = $(shell command -v clang-19)
WASM_FLAGS   = --target=wasm32-wasi -std=c99 -D_POSIX_C_SOURCE=200809L $(WARNINGS) \
               -ftls-model=local-exec -mbulk-memory -mmutable-globals -I. -Itools \
               -DVIT_NO_STDIO -DVIT_NO_TRACE
WASM_LINK    = -nostdlib -Wl,--no-entry,--strip-all,--stack-first,-z,stack-size=262144 \
               -Wl,--import-memory,--initial-memory=4194304,--max-memory=4294901760
WASM_SHARED  = -DWEB_THREADS -Wl,--shared-memory,--no-check-features,--export=__stack_pointer
WASM_ROOMS   = $(addprefix base/,json memory report tensor text) image/crop infer/attention \
               $(addprefix model/,card settings) \
               $(addprefix numbers/,pca tokens)
WASM_OBJECTS = $(WASM_ROOMS:%=build/wasm/tools/%.o) build/wasm/$(WEB)/heap.o
WASM_PLAIN   = $(WEB)/vit.wasm $(WEB)/vit-scalar.wasm
WASM_RELAXED = $(WEB)/vit-relaxed.wasm
WASM_MODULES = $(WASM_PLAIN:%=%.gz) $(WEB)/words.wasm.gz $(if $(WASM_CLANG19),$(WASM_RELAXED:%=%.gz),no-relaxed)

$(eval $(call FLAGS,wasm,WebAssembly,$(WARNINGS)))
$(eval $(call FLAGS,wasi,WebAssembly,$(WARNINGS)))

build/wasm/%.o: %.c build/wasm/flags
	@mkdir -p $(@D)
	$(WASM_CC) $(WASM_FLAGS) -Oz -MMD -MP -c $< -o $@

# Three builds of vit.h. The one without SIMD is for engines from before 2023. -Os makes this one a
# fifth smaller and a tenth slower.
build/wasm/scalar.o build/wasm/simd.o build/wasm/relaxed.o: tools/base/vit.c vit.h build/wasm/flags
	@mkdir -p $(@D)
	$(WASM_CC) $(WASM_FLAGS) $(FEATURES) -c $< -o $@

build/wasm/scalar.o: FEATURES = -Os
build/wasm/simd.o: FEATURES = -O2 -msimd128
build/wasm/relaxed.o: FEATURES = -O2 -msimd128 -mrelaxed-simd
build/wasm/relaxed.o: WASM_CC = $(WASM_CLANG19)

$(WASM_PLAIN) $(WASM_RELAXED): $(WEB)/module.c $(WEB)/module.h $(WEB)/heap.h vit.h build/wasm/flags \
                               $(WASM_OBJECTS)
	$(WASM_CC) $(WASM_FLAGS) -Oz $(WASM_THREADS) $(WASM_LINK) $< $(filter %.o,$^) -lc -o $@

$(WEB)/vit-scalar.wasm: build/wasm/scalar.o
$(WEB)/vit.wasm: build/wasm/simd.o
$(WEB)/vit-relaxed.wasm: build/wasm/relaxed.o
$(WEB)/vit.wasm $(WEB)/vit-relaxed.wasm: WASM_THREADS = $(WASM_SHARED)
$(WASM_RELAXED): WASM_CC = $(WASM_CLANG19)
$(WASM_OBJECTS): WASM_CC = clang

# This module has only the text encoder. Flags omit photos, threads and outputs of blocks.
WORDS_FLAGS = -msimd128 -DVIT_TEXT_ENCODER -DVIT_NO_PREPROCESS -DVIT_LOGITS_ONLY -DVIT_NO_EXECUTOR

build/wasm/words.o: tools/base/vit.c vit.h build/wasm/flags
	@mkdir -p $(@D)
	$(WASM_CC) $(WASM_FLAGS) $(WORDS_FLAGS) -Os -c $< -o $@

$(WEB)/words.wasm: $(WEB)/words.c $(WEB)/heap.h vit.h build/wasm/words.o build/wasm/$(WEB)/heap.o
	$(WASM_CC) $(WASM_FLAGS) $(WORDS_FLAGS) -Oz $(WASM_LINK) $< $(filter %.o,$^) -lc -o $@

$(WEB)/%.wasm.gz: $(WEB)/%.wasm
	zopfli -c $< > $@

# The npm package has a decoder of photos, for engines that have none.
PHOTO = build/wasm/photo.wasm
$(PHOTO): $(WEB)/photo.c tools/image/image_file.h $(WEB)/heap.h build/wasm/flags \
    $(patsubst %,build/wasm/tools/base/%.o,checksum memory report text) build/wasm/$(WEB)/heap.o
	$(WASM_CC) $(WASM_FLAGS) $(STB_FLAGS) -Os -nostdlib -Wl,--no-entry,--strip-all,--stack-first,-z,stack-size=262144 \
	    $< $(filter %.o,$^) -lc -o $@

# Programs with a C library; JavaScript supplies their files. wasi.c replaces tools/os/posix.c. In the
# converter, left_out.c replaces the modules that no page needs.
CONVERT_ROOMS   = base cli checkpoint model layout convert
CONVERT_LESS    = $(addprefix tools/convert/,text.c calibrate.c code.c python.c python_eval.c match_folder.c c_array.c help.c) \
                  tools/checkpoint/gguf_file.c tools/checkpoint/onnx.c tools/checkpoint/onnx_graph.c tools/model/imagenet.c
CONVERT_SOURCES = $(filter-out $(CONVERT_LESS),$(wildcard $(CONVERT_ROOMS:%=tools/%/*.c))) \
                  tools/os/common.c tools/vit-convert.c $(WEB)/wasi.c $(WEB)/left_out.c
CONVERT_FLAGS   = --target=wasm32-wasi -Oz -flto -msign-ext -mnontrapping-fptoint
CONVERT_WASI    = -include $(WEB)/wasi.h

build/wasi/%.o: %.c $(WEB)/wasi.h build/wasi/flags
	@mkdir -p $(@D)
	clang -std=c99 -D_FILE_OFFSET_BITS=64 $(WARNINGS) $(CONVERT_FLAGS) $(CONVERT_WASI) $(STB_FLAGS) \
	    -ffunction-sections -fdata-sections -I. -Itools -MMD -MP -c $< -o $@

# With embeddings.c, vit-learn reads embeddings instead of photos.
LEARN_ROOMS   = $(addprefix convert/,runner unpack vit_writer) $(addprefix infer/,classes learned tags) \
                $(addprefix model/,card settings) numbers/precision os/common vit-learn
LEARN_SOURCES = $(wildcard tools/base/*.c tools/cli/*.c) $(LEARN_ROOMS:%=tools/%.c) \
                $(WEB)/wasi.c $(WEB)/embeddings.c

WASI_MODULES = $(WEB)/convert.wasm.gz $(WEB)/learn.wasm.gz

$(WEB)/convert.wasm: $(CONVERT_SOURCES:%.c=build/wasi/%.o)
$(WEB)/learn.wasm: $(LEARN_SOURCES:%.c=build/wasi/%.o)
$(WASI_MODULES:.gz=):
	clang $(CONVERT_FLAGS) -Wl,--strip-all,--compress-relocations,--stack-first \
	    -Wl,-z,stack-size=1048576 $^ -o $@

no-relaxed:
	@echo "no clang-19 (Debian: clang-19 lld-19), so no modules for relaxed SIMD"

wasm: packages-wasm ## 3: build examples/web/vit, classify the bundled photo in Node
	@$(MAKE) --no-print-directory -s $(WASM_MODULES) $(WASI_MODULES)
	node $(WEB)/run.mjs examples/cat.ppm

web: packages-page ## 3: build the page, examples/web, and serve it: PORT=8000
	@$(MAKE) --no-print-directory -s $(WASM_MODULES) $(WASI_MODULES)
	@node examples/web/serve.mjs $(if $(PORT),--port $(PORT))

npm: packages-npm ## 6: build/packages/npm/vit-h-VERSION.tgz, for Node, Deno, Bun, Workers and pages
	@$(SCRIPT) tools/packaging/npm/build.sh build/packages/npm
npm-modules: $(WASM_MODULES) $(WASI_MODULES) $(PHOTO)

# --- microcontrollers -----------------------------------------------------------------------

firmware: packages-firmware ## 3: run the example for microcontrollers under QEMU: BOARDS="m4 m55"
	@$(MAKE) --no-print-directory -s tools/vit-convert
	@$(SCRIPT) examples/firmware/run.sh $(BOARDS)

firmware-accuracy: packages-fashion ## 3: run this example with all 10,000 test images
	@$(MAKE) --no-print-directory -s tools/vit-convert
	@$(SCRIPT) examples/firmware/run.sh -a $(or $(BOARDS),m4)

# --- tests ----------------------------------------------------------------------------------

# Each fuzzer runs for FUZZ seconds. If FUZZ is a number and x, each fuzzer makes this number of
# runs instead.
FUZZ       = 100000000x
FUZZ_BUILD = $(FUZZERS) build/plain/tests/fuzz/make_corpus

# If a package is missing, only the tests that need it are skipped.
perhaps-%:
	@sh tools/install-packages.sh $* || echo "going on without" >&2

check: packages-demo ## 2: build and run tests by the beginnings of their names: T="json convert"
	@$(if $(T),,echo "make check T=NAME: one of$(TESTS:tests/test_%= %)$(SHELL_TESTS:tests/test_%.sh= %)" >&2; exit 2)
	@$(SCRIPT) tests/run.sh $(T)

test: packages-demo ## 2: every promise of README, with a C compiler and stb alone: 4 minutes
	@$(SCRIPT) tests/run.sh

test-more: perhaps-test ## 2: the rest: sanitizers, other compilers and CPUs, boards, packages, fuzzers
	@WHICH=more $(SCRIPT) tests/run.sh

test-all: perhaps-test ## 2: test and test-more; LONG=yes runs more models, damage, compilers and types
	@WHICH=all $(SCRIPT) tests/run.sh

firmware-check: packages-test ## 4: size, stack, arena, instructions of each board, by two compilers
	@$(MAKE) --no-print-directory -s tools/vit-convert tools/vit-run
	@$(SCRIPT) tests/firmware.sh all

budget: packages-test packages-page ## 2: lines, compile time, code size beside the limits of tests/budget.txt
	@$(SCRIPT) tests/budget.sh

analyze: packages-trust ## 4: gcc -fanalyzer, clang-tidy, cppcheck
	@$(SCRIPT) tests/analyze.sh

mutants: packages-demo ## 4: small changes of vit.h and tools/ that no test notices: N=200 SEED= FILES=
	@$(MAKE) --no-print-directory -s all $(TESTS:%=build/plain/%)
	@/usr/bin/python3 -B tests/mutants.py -n $(or $(N),200) -s $(or $(SEED),1) $(FILES)

soak: build/plain/tests/soak ## 4: ten thousand classifications in one process, at constant memory
	build/plain/tests/soak models/cifar10-vit.vit

fuzz: packages-test ## 4: each fuzzer for a minute, then their findings under the memory sanitizer
fuzz-long: packages-test ## 4: each fuzzer for FUZZ=SECONDS, or 100000000 runs: FUZZ=100000000x
fuzz fuzz-long:
	@$(MAKE) --no-print-directory -s $(FUZZ_BUILD) $(FUZZERS:build/fuzz/%=build/msan/%)
	@$(SCRIPT) tests/fuzz/fuzz.sh $(if $(filter fuzz,$@),60,$(FUZZ))
	@BIN=build/msan $(SCRIPT) tests/fuzz/fuzz.sh 0x

test-cross: packages-cross ## 4: ARM, RISC-V, s390x, i686 by QEMU; musl; the dialect of MSVC; Wine
	@$(SCRIPT) tests/cross.sh
	@$(SCRIPT) tests/systems.sh
	@$(SCRIPT) tests/msvc.sh
	@$(MAKE) --no-print-directory test-windows

test-packages: packages-test $(if $(filter python,$(or $(PACKAGES),python)),perhaps-wheel) $(if $(filter rust go,$(or $(PACKAGES),go)),perhaps-bindings) $(if $(filter static,$(or $(PACKAGES),static)),perhaps-static) $(if $(filter npm,$(or $(PACKAGES),npm)),perhaps-firefox) $(if $(filter debian,$(or $(PACKAGES),debian)),perhaps-debian) ## 4: an installed copy and each package, from its archive: PACKAGES="install npm"
	@$(MAKE) --no-print-directory -s all libraries
	@$(SCRIPT) tests/packages.sh $(PACKAGES)

test-wasm: packages-wasm ## 4: the numerical tests in WebAssembly, and the bindings
	@$(MAKE) --no-print-directory -s all $(WASM_MODULES) $(WASI_MODULES)
	@$(SCRIPT) tests/wasm.sh

# test-web needs the browser's driver, from npm, and a native program that, like WebAssembly,
# computes logits without fused multiply-add.
build/web/installed: tests/web/package.json
	@mkdir -p $(@D)
	cp $< build/web
	cd build/web && npm install --ignore-scripts --no-audit --no-fund --silent
	touch $@

build/web/reference: tests/wasm_reference.c vit.h build/plain/flags
	@mkdir -p $(@D)
	$(CC) -std=c99 $(WARNINGS) $(CFLAGS) -DVIT_NO_FMA -DVIT_NO_SIMD $(STB_FLAGS) -I. -Itools $< \
	    tools/base/checksum.c tools/base/memory.c tools/base/report.c \
	    tools/base/source.c \
	    tools/os/common.c tools/os/posix.c tools/image/jpeg.c $(LDLIBS) -o $@

test-web: packages-$(if $(filter firefox,$(SUITES)),firefox,web) ## 4: the page in Chromium: SUITES="classes views" chooses
	@$(MAKE) --no-print-directory -s all $(WASM_MODULES) $(WASI_MODULES) \
	    build/web/installed build/web/reference
	@$(MAKE) --no-print-directory -s TARGET=nofma CPPFLAGS='-DVIT_NO_FMA -DVIT_NO_SIMD' \
	    build/nofma/tools/vit-convert build/nofma/tools/vit-learn
	@node tests/web/run.mjs $(SUITES)
test-tokens: ## 4: ids of COUNT random texts beside other tokenizers; tests/tokens.sh lists the variables
	@$(MAKE) --no-print-directory -s build/plain/tests/token_ids
	@$(SCRIPT) tests/tokens.sh $(COUNT)

test-cluster: packages-cluster ## 4: vit-embed under Slurm, Open MPI, GNU parallel; tasks and a node are killed
	@$(MAKE) --no-print-directory -s tools/vit-embed tools/vit-search
	@$(SCRIPT) tests/cluster.sh

# --- Windows --------------------------------------------------------------------------------

# The cross compiler uses its own headers, and those of stb.
WINDOWS = TARGET=windows CC=x86_64-w64-mingw32-gcc CFLAGS='-O2 -Wno-float-conversion' \
          LDFLAGS=-static STB='$(or $(STB),/usr/include/stb)'

build/windows/tests/%.o: override CPPFLAGS += -include tests/windows.h

windows: ## 1: programs and examples for Windows, by MinGW-w64: build/windows/
	@$(MAKE) --no-print-directory -s $(WINDOWS) build/windows/programs

test-windows: packages-cross ## 4: programs and tests by MinGW-w64 under Wine
	@$(MAKE) --no-print-directory -s all \
	    $(patsubst %,build/plain/%,$(filter-out $(NOT_WINDOWS),$(TESTS)))
	@$(MAKE) --no-print-directory windows
	@$(MAKE) --no-print-directory -s TARGET=nojpeg DECODER=stb build/nojpeg/tools/vit-classify \
	    build/nojpeg/tools/vit-run
	@$(MAKE) --no-print-directory -s $(WINDOWS) \
	    $(patsubst %,build/windows/%,$(filter-out $(NOT_WINDOWS),$(TESTS)))
	@x86_64-w64-mingw32-gcc -O1 -Wall -Wextra tests/windows_hold.c -static \
	    -o build/windows/tests/windows_hold.exe
	@$(SCRIPT) tests/windows.sh

# Windows cannot run these tests; tests/windows.sh gives the reasons.
NOT_WINDOWS = $(addprefix tests/test_,converter_memory cores layout_damage sandbox threads)

# --- speed, beside other runtimes -----------------------------------------------------------

build/peers/vit_worker: tools/bench/peers/vit_worker.c vit.h build/plain/flags
	@mkdir -p $(@D)
	$(CC) -std=c99 $(WARNINGS) $(CFLAGS) -I. $< $(LDLIBS) -o $@

bench-programs: packages-peers $(if $(NCNN),packages-ncnn)
	@$(MAKE) --no-print-directory -s tools/vit-convert tools/vit-get tools/vit-run build/peers/vit_worker \
	    $(if $(findstring --wasm,$(BENCH_FLAGS)),$(WASM_MODULES))

BENCH = /usr/bin/python3 -B tools/bench/peers/bench_peers.py --rounds $(or $(ROUNDS),10) \
        $(if $(NCNN),--ncnn '$(NCNN)') $(if $(ISA),--isa $(ISA))

bench-peers: bench-programs ## 5: beside ONNX Runtime, PyTorch, ncnn: NCNN=DIR ARCHS= BATCH= THREADS= ROUNDS= ISA=
	@$(BENCH) $(if $(ARCHS),--archs '$(ARCHS)') $(if $(BATCH),--batch '$(BATCH)') \
	    $(if $(THREADS),--threads '$(THREADS)') $(BENCH_FLAGS)

bench-web: packages-web packages-peers ## 5: in Chromium, beside onnxruntime-web: ROUNDS=
	@$(MAKE) --no-print-directory -s tools/vit-convert $(WASM_MODULES) build/web/installed
	@node tools/bench/peers/browser.mjs --rounds $(or $(ROUNDS),24) $(BENCH_FLAGS)

bench-search: packages-peers ## 5: vit-search beside NumPy, FAISS and the memory's speed
	@$(MAKE) --no-print-directory -s tools/vit-search
	@/usr/bin/python3 -B tools/bench/peers/search_speed.py $(BENCH_FLAGS)

bench-photos: packages-peers ## 5: from a JPEG to its embedding, beside Pillow and ONNX Runtime: ROUNDS=
	@$(MAKE) --no-print-directory -s tools/vit-convert tools/vit-embed tools/vit-classify
	@/usr/bin/python3 -B tools/bench/peers/photo_speed.py --rounds $(or $(ROUNDS),3) $(BENCH_FLAGS)

bench-accuracy: bench-programs ## 5: accuracy of int8 and others: CHECKPOINT= ARCH= IMAGES= CALIBRATE=
	@/usr/bin/python3 -B tools/bench/peers/accuracy.py --checkpoint '$(CHECKPOINT)' \
	    --arch '$(ARCH)' --images '$(IMAGES)' --calibrate '$(CALIBRATE)' \
	    $(if $(NCNN),--ncnn '$(NCNN)') --json tools/bench/figures/accuracy.json $(BENCH_FLAGS)

# CLASS is the name of the file of figures: avx2 or avx512. For avx512, use DTYPES="f32 bf16 int8".
CLASS   = avx2
DTYPES  = f32 int8
FIGURES = --json tools/bench/figures/$(CLASS).json --dtypes '$(DTYPES)'
bench-figures: bench-programs ## 5: figures and charts of tools/bench/README.md for this CPU
	@rm -f tools/bench/figures/$(CLASS).json
	@$(BENCH) --rounds $(or $(ROUNDS),8) $(FIGURES) \
	    --archs 'vit_tiny_patch16_224 vit_small_patch16_224 vit_base_patch16_224'
	@$(BENCH) --rounds $(or $(ROUNDS),4) $(FIGURES) --threads 1 \
	    --dtypes '$(filter-out $(DTYPES),bf16 int4)' \
	    --runtimes vit.h --archs 'vit_tiny_patch16_224 vit_base_patch16_224'
	@$(BENCH) --rounds $(or $(ROUNDS),2) $(FIGURES) --threads 1 \
	    --archs 'vit_small_patch16_224@384 vit_small_patch16_224@592'
	@$(BENCH) --rounds $(or $(ROUNDS),2) $(FIGURES) --threads 1 --batch '1 8 32' \
	    --archs vit_tiny_patch16_224
	@$(BENCH) $(FIGURES) --cold 3 --archs vit_base_patch16_224
	@/usr/bin/python3 -B tools/bench/peers/figures.py

mca: packages-mca ## 5: simulate the inner loops on other CPUs
	@$(SCRIPT) tools/bench/mca.sh

# --- installing ---------------------------------------------------------------------------

SHARE = $(DESTDIR)$(PREFIX)/share
# Like the command install, $(call FILL,FROM,TO) writes a file that all users can read, whatever the
# umask is.
FILL  = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
            tools/packaging/$(1) >$(2) && chmod 644 $(2)

# Strips symbols from programs, and debug information from libraries. `STRIP=:` keeps both.
install: all libraries ## 1: header, libraries, programs, man pages, model: PREFIX=, DESTDIR=
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(BINDIR) $(SHARE)/vit $(SHARE)/doc/vit \
	    $(DESTDIR)$(LIBDIR)/pkgconfig $(SHARE)/pkgconfig
	install -m 644 vit.h tools/packaging/cpp/vit.hpp $(DESTDIR)$(PREFIX)/include
	install -m 644 LICENSE $(SHARE)/doc/vit
	install -m 644 $(STATIC) $(DESTDIR)$(LIBDIR)
	$(if $(SHARED),install -m 755 $(SHARED) $(DESTDIR)$(LIBDIR))
	$(if $(SHARED),ln -sf $(notdir $(SHARED)) $(DESTDIR)$(LIBDIR)/libvit.so.2)
	$(if $(SHARED),ln -sf libvit.so.2 $(DESTDIR)$(LIBDIR)/libvit.so)
	$(STRIP) -S $(DESTDIR)$(LIBDIR)/$(notdir $(STATIC)) $(SHARED:build/lib/%=$(DESTDIR)$(LIBDIR)/%)
	$(foreach program,$(PROGRAMS),install -m 755 $(program) $(DESTDIR)$(BINDIR)/$(notdir $(program)) &&) :
	$(STRIP) $(foreach program,$(PROGRAMS),$(DESTDIR)$(BINDIR)/$(notdir $(program)))
	install -m 644 models/cifar10-vit.vit tools/packaging/vit.c tools/packaging/vit.cpp \
	    tools/packaging/cmake/vit-config.cmake tools/packaging/cmake/vit-header.cmake $(SHARE)/vit
	$(call FILL,cmake/vit-config-version.cmake.in,$(SHARE)/vit/vit-config-version.cmake)
	$(call FILL,vit.pc.in,$(SHARE)/pkgconfig/vit.pc)
	$(call FILL,libvit.pc.in,$(DESTDIR)$(LIBDIR)/pkgconfig/libvit.pc)
	sh tools/packaging/pages.sh tools $(SHARE) $(VERSION) \
	    $(shell sed -n 's/^| $(VERSION) | \([0-9-]*\) .*/\1/p' .github/CHANGELOG.md)

# Removes only the files that install wrote, because the folders may contain other files.
uninstall: ## 1: remove the files that install wrote
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/include/,vit.h vit.hpp) $(SHARE)/pkgconfig/vit.pc $(SHARE)/doc/vit/LICENSE \
	    $(DESTDIR)$(LIBDIR)/pkgconfig/libvit.pc \
	    $(addprefix $(DESTDIR)$(LIBDIR)/libvit.,a so so.2 so.$(VERSION)) \
	    $(foreach program,$(PROGRAMS),$(DESTDIR)$(BINDIR)/$(notdir $(program))) \
	    $(addprefix $(SHARE)/vit/,cifar10-vit.vit vit.c vit.cpp vit-config.cmake vit-header.cmake \
	        vit-config-version.cmake) \
	    $(addprefix $(SHARE)/,$(shell sh tools/packaging/pages.sh names))
	rmdir $(SHARE)/vit $(SHARE)/doc/vit 2>/dev/null || :

dist: ## 6: the sources of a release in build/dist: archives, header, sums
	@$(SCRIPT) tools/packaging/dist.sh $(VERSION)

static: packages-static ## 6: archives of static programs: build/packages/static; PLATFORMS="linux-x86_64"
	@$(SCRIPT) tools/packaging/static/build.sh build/packages/static

release: packages-static perhaps-wheel perhaps-bindings perhaps-debian perhaps-npm ## 6: everything that a release has, and TESTED.md: build/release
	@$(SCRIPT) tools/packaging/release.sh build/release $(VERSION)

clean: ## 1: remove everything that was built
	rm -rf build $(PROGRAMS) $(EXAMPLES) examples/web/vit/*.wasm examples/web/vit/*.wasm.gz
