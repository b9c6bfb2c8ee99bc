/* fuzz.h - functions that several fuzzers use. Each fuzzer is one file with a function
 * LLVMFuzzerTestOneInput; clang's libFuzzer has the function main(). `make fuzz` runs all fuzzers
 * (tests/README.md).
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

/* Checks a condition that must be true for any input. If the condition is false, the program ends,
 * and libFuzzer stores the input in a file. */
static inline void fuzz_require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

/* Returns a copy of the data in a block of exactly `size` bytes. The sanitizer thus detects a read
 * beyond the end of the data. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) exit(1);
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

/* Reads only the first and the last elements of a tensor, because the header of a damaged file may
 * give a very large number of elements. */
static inline bool fuzz_read_tensor(checkpoint *c, const checkpoint_tensor_info *t, report *r) {
    enum { MOST = 64 };
    float values[MOST];
    const int64_t count = t->count < MOST ? t->count : MOST;
    return checkpoint_read(c, t, 0, count, values, r) &&
           checkpoint_read(c, t, t->count - count, count, values, r);
}

/* Reads the attributes of a checkpoint. Their names and values must be single lines. */
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

/* Opens a checkpoint and reads from all of its tensors. If it is refused, the reason must be a
 * single line. */
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
