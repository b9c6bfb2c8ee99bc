#include "bench/random_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "cli/progress.h"
#include "convert/vit_writer.h"

/* n values around `base`, spread as timm initialises weights (standard deviation 0.02): 256
 * different ones, none so close to zero that it is denormal in f16. One step of xorshift gives
 * eight of them. */
static void fill_random(float *to, size_t n, float base, uint64_t *state) {
    float values[256];
    for (int i = 0; i < 256; i++) values[i] = base + ((float)i - 127.5f) * (0.0346f / 127.5f);
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0) {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
        }
        to[i] = values[*state >> 8 * (i % 8) & 255];
    }
}

/* The mean of a tensor's values. */
static float base_of(const vit_tensor *tensor) {
    if (strncmp(tensor->name, "preprocess.", 11) == 0) return 0.5f;
    return strstr(tensor->name, "norm") && strstr(tensor->name, "weight") ? 1.0f : 0.0f;
}

/* A row of int8 as calibration makes them, which is what the fastest kernels want: see section
 * "fits16" in vit.h. The first weight is its largest, 127 steps, and alone in its lane; all others
 * have at most 31. */
static void fit_row(float *row, size_t size) {
    const float step = 0.0346f / 31;
    for (size_t k = 0; k < size; k++) row[k] = (float)(int)(row[k] / step) * step;
    row[0] = 127 * step;
    for (size_t k = 1; k < 6 && k < size; k += k == 1 ? 3 : 1) row[k] = 0;
}

/* Tensor i, 16 rows at a time. */
static bool write_tensor(vit_writer *w, size_t i, uint64_t *state, report *r) {
    const vit_tensor *tensor = &w->tensors[i];
    size_t size = tensor_depth(tensor);
    float *rows = malloc(16 * size * sizeof *rows);
    bool good = rows != NULL || report_no_memory(r);
    for (int row = 0; good && row < tensor->dims[0]; row += 16) {
        int n = tensor->dims[0] - row < 16 ? tensor->dims[0] - row : 16;
        fill_random(rows, (size_t)n * size, base_of(tensor), state);
        for (int k = 0; tensor->dtype == VIT_I8 && k < n; k++)
            fit_row(rows + (size_t)k * size, size);
        good = vit_writer_rows(w, rows, n, r);
    }
    free(rows);
    return good;
}

bool bench_write_random(FILE *file, const vit_config *config, vit_dtype dtype, report *r) {
    const vit_writer_contents contents = { config, dtype, vit_writer_kept(config, dtype), 0, NULL,
                                           NULL, "source: random, by vit-bench\n" };
    uint64_t state = 0x9e3779b97f4a7c15u;
    cli_progress progress;
    vit_writer w;
    bool good = true;
    if (!vit_writer_start(&w, file, &contents, r)) return false;
    cli_progress_start(&progress, "random weights", w.file_size);
    for (size_t i = 0; good && i < w.count; i++) {
        good = write_tensor(&w, i, &state, r);
        cli_progress_update(&progress, w.tensors[i].offset);
    }
    cli_progress_clear(&progress);
    good = good && vit_writer_finish(&w, r);
    vit_writer_free(&w);
    return good;
}
