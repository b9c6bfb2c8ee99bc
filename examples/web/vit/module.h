/* module.h - what the WebAssembly module exports; vit.mjs is the JavaScript around it.
 *
 * Pointers are numbers into the module's memory, which grows. Lengths are what the model's sizes
 * say; the caller sees to it that there is so much. Numbers that choose something are checked.
 *
 * A function that may fail returns 0 if it did; web_result() and web_message() then say why.
 */
#ifndef MODULE_H
#define MODULE_H

#include "heap.h"
#include "vit.h"

typedef struct web_model web_model;

/* Bytes of a .vit file, which come from malloc() and become the model's, also if that fails. */
EXPORT(open) web_model *web_open(void *data, size_t size, int threads, int verify);
EXPORT(close) void web_close(web_model *m);

/* Of the last failure: a vit_result, its name, and more. */
EXPORT(result) int web_result(void);
EXPORT(result_string) const char *web_result_string(int result);
EXPORT(message) const char *web_message(void);

/* The card of model/card.h with the labels, as one JSON object; to be released. */
EXPORT(info) char *web_info(const web_model *m);

/* What there is of everything: [WEB_SIZES], in this order. */
enum {
    WEB_CHANS,
    WEB_HEIGHT,
    WEB_WIDTH,
    WEB_DIM,
    WEB_DEPTH,
    WEB_HEADS,
    WEB_CLASSES,
    WEB_EMBEDDING,
    WEB_TOKENS,
    WEB_PREFIX,
    WEB_ROWS,
    WEB_COLUMNS,
    WEB_CLASS_TOKEN,
    WEB_SIZES
};
EXPORT(sizes) const int *web_sizes(const web_model *m);

/* The input of everything below, [in_chans, img_height, img_width]: written to by the caller, or
 * out of a photo. */
EXPORT(input) float *web_input(const web_model *m);
EXPORT(preprocess)
int web_preprocess(web_model *m, const uint8_t *pixels, int width, int height, int stride,
                   int format);

/* How many classes there now are in web_top(): the `most` best and their scores. */
EXPORT(classify) int web_classify(web_model *m, int most);
EXPORT(top) const vit_prediction *web_top(const web_model *m);
/* [num_classes] in place. */
EXPORT(scores) void web_scores(const web_model *m, float *logits);

/* Outputs: logits, embedding, tokens, each of which may be NULL. */
EXPORT(forward)
int web_forward(web_model *m, float *const outputs[3], const vit_block_output *blocks,
                int num_blocks);

/* What the class token (or the mean of all), or from a patch >= 0 on, attends to: [rows, columns].
 * Of one head, or, if that is -1, of their mean; through all blocks if block is -1. */
EXPORT(attention) int web_attention(web_model *m, int block, int patch, int head, float *map);

/* Of patches [photos, rows * columns, dim]: coordinates [photos, rows * columns, 3]; of the three
 * components their variances and then their shares of all. How many components there are. */
EXPORT(components)
int web_components(web_model *m, const float *patches, int photos, int foreground,
                   float *coordinates, double numbers[6]);

/* To each of `count` vectors [dim]. */
EXPORT(similarity)
void web_similarity(const float *vector, const float *others, int count, int dim, float *cosines);

/* A position_kind, and -1 for the first that the model has; the block counts where each has its
 * own. Cosines [n, n]; numbers: kind, block or -1, dim. */
EXPORT(positions)
int web_positions(const web_model *m, int kind, int block, float *cosines, int numbers[3]);

/* Where a photo's patches are: of the input left, top, width, height in the photo's pixels; of what
 * patches cover the same; width, height, left, top of vit_find_crop. */
EXPORT(crop) int web_crop(const web_model *m, int width, int height, double numbers[12]);
/* -1: none, or the patches are no places of a photo. */
EXPORT(patch_at) int web_patch_at(const web_model *m, int width, int height, double x, double y);

#endif
