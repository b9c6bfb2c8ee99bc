/* runner.h - a model, ready to run on one image at a time with all cores. */
#ifndef RUNNER_H
#define RUNNER_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct runner {
    float *input;  /* [in_chans, img_height, img_width]: write this */
    float *output; /* logits, or the embedding of a headless model: read this */
    size_t output_size;
    float *embedding; /* read this */
    size_t embedding_size;
    vit_executor executor; /* its threads, usable for other work between runs */

    /* Private. */
    const vit_model *model;
    vit_threads *threads;
    vit_session session;
    void *workspace;
} runner;

/* The model must stay at its address. trace may be NULL. Close it in any case. */
bool runner_open(runner *run, const vit_model *model, vit_trace *trace, void *user, report *r);
bool runner_forward(runner *run, report *r);
void runner_close(runner *run);

/* === Pages === */

/* Keeps a mapped model from filling the memory. */

/* Returns the pages of all tensors to the system, which reads them again when needed. Only for a
 * model that is mapped from a file: other memory would be zeroed. */
void pages_drop(const vit_model *model);

#endif
