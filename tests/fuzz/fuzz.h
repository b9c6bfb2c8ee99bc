/* fuzz.h - what the fuzzers share. Each is one file with LLVMFuzzerTestOneInput; clang's libFuzzer
 * brings main(). `make fuzz` runs them all: see tests/README.md.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "layout/detect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A condition that must hold for any input; the fuzzer keeps an input for which it does not
 * hold. */
static inline void fuzz_require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

/* Returns a copy in a block of exactly that size, so that the sanitizer detects reads beyond it. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) exit(1);
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

/* Reads only the first and the last elements of a tensor, because a damaged tensor may claim to
 * have very many. */
static inline bool fuzz_read_tensor(checkpoint *c, const checkpoint_tensor_info *t, report *r) {
    enum { MOST = 64 };
    float values[MOST];
    const int64_t count = t->count < MOST ? t->count : MOST;
    return checkpoint_read(c, t, 0, count, values, r) &&
           checkpoint_read(c, t, t->count - count, count, values, r);
}

/* The texts of a checkpoint must be printable, in one line. */
static inline bool fuzz_read_attributes(checkpoint *c, report *r) {
    static settings all[FROM_COUNT];
    attributes_told told;
    memset(all, 0, sizeof all);
    for (size_t i = 0; i < checkpoint_attribute_count(c); i++) {
        const checkpoint_attribute *a = checkpoint_attribute_at(c, i);
        fuzz_require(!strpbrk(a->name, "\n\r") && !strpbrk(a->value, "\n\r"), "one line");
    }
    return attributes_put(c, "patch_embed.proj.weight", all, &told, r) || report_file(r, "input");
}

/* Opens a checkpoint and reads from all of its tensors. A refusal must have a reason in one
 * line. */
static inline void fuzz_checkpoint(const uint8_t *data, size_t size) {
    report r = report_make();
    checkpoint *c;
    bool good = checkpoint_open_memory("input", data, size, &c, &r);
    for (size_t i = 0; good && i < checkpoint_count(c); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
        fuzz_require(checkpoint_find(c, t->name) == t, "a tensor is found by its name");
        good = fuzz_read_tensor(c, t, &r);
    }
    if (good) good = checkpoint_verify(c, &r) && fuzz_read_attributes(c, &r);
    fuzz_require(good || strncmp(r.text, "input: ", 7) == 0, "the message names the file");
    fuzz_require(!strchr(r.text, '\n'), "the message is one line");
    checkpoint_close(c);
}

#endif
