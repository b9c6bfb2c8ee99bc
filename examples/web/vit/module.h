/* module.h - the exports of the WebAssembly module; vit.mjs is the JavaScript around it.
 *
 * Pointers are numbers into the module's memory, which grows. Lengths follow from the model's
 * sizes; the caller must provide that much memory. Arguments that choose something are checked.
 *
 * A function that fails returns 0; web_result() and web_message() then give the reason.
 */
#ifndef MODULE_H
#define MODULE_H

#include "heap.h"
#include "numbers/tokens.h"

typedef struct web_model web_model;

/* Opens a model from the bytes of a .vit file. The bytes must come from malloc(); the model owns
 * them from then on, even on failure. */
EXPORT(open) web_model *web_open(void *data, size_t size, int threads, int verify);
EXPORT(close) void web_close(web_model *m);

/* The last failure: a vit_result, its name, and the message. */
EXPORT(result) int web_result(void);
EXPORT(result_string) const char *web_result_string(int result);
EXPORT(message) const char *web_message(void);

/* The card of model/card.h with the labels, as one JSON object; the caller releases it. */
EXPORT(info) char *web_info(const web_model *m);

/* The sizes of all arrays: [WEB_SIZES], in this order. */
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

/* The input of all functions below, [in_chans, img_height, img_width]: the caller writes it, or it
 * is made from a photo. */
/* If photos keep their aspect ratio, sets all sizes to those of a photo of this size. Photos need
 * it before web_preprocess. */
EXPORT(fit) int web_fit(web_model *m, int width, int height);
EXPORT(input) float *web_input(const web_model *m);
EXPORT(preprocess)
int web_preprocess(web_model *m, const uint8_t *pixels, int width, int height, int stride,
                   int format);

/* Puts the `most` best classes and their scores into web_top(); returns their number. */
EXPORT(classify) int web_classify(web_model *m, int most);
EXPORT(top) const vit_prediction *web_top(const web_model *m);
/* Changes [num_classes] in place. */
EXPORT(scores) void web_scores(const web_model *m, float *logits);

/* The outputs are logits, embedding and tokens; each may be NULL. */
EXPORT(forward)
int web_forward(web_model *m, float *const outputs[3], const vit_block_output *blocks,
                int num_blocks);

/* The attention of the class token (or the mean of all), or of a patch >= 0: [rows, columns].
 * `head` is one head, or -1 for the mean of all; `block` -1 gives a rollout through all blocks. */
EXPORT(attention) int web_attention(web_model *m, int block, int patch, int head, float *map);

/* Takes the patches [rows * columns, dim] of all photos, and their grids; gives coordinates [rows *
 * columns, 3] of all photos, the variances of the three components, then their shares of the whole
 * variance. Returns the number of components. */
EXPORT(components)
int web_components(const web_model *m, const float *patches, const vit_grid *grids, int photos,
                   int foreground, float *coordinates, double numbers[6]);

/* Cosines to each of `count` vectors [dim]. */
EXPORT(similarity)
void web_similarity(const float *vector, const float *others, int count, int dim, float *cosines);

/* `kind` is a position_kind, or -1 for the first that the model has; `block` matters only if each
 * block has its own positions. Gives cosines [n, n]; `numbers` receives the kind, the block or -1,
 * and dim. */
EXPORT(positions)
int web_positions(const web_model *m, int kind, int block, float *cosines, int numbers[3]);

/* Returns the place of the input on a photo, as left, top, width and height in the photo's pixels;
 * that of the area of the patches; then width, height, left and top from vit_find_crop, and the
 * grid's rows and columns. */
EXPORT(crop) int web_crop(const web_model *m, int width, int height, double numbers[14]);
/* -1 if there is none, or the patches are not places on a photo. */
EXPORT(patch_at) int web_patch_at(const web_model *m, int width, int height, double x, double y);

#endif
