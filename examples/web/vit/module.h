/* module.h - the exported functions of the WebAssembly module, which vit.mjs calls.
 *
 * In JavaScript, pointers are offsets in the module's memory, which may grow. The sizes of the
 * model determine the lengths of arrays, for which the caller provides the memory. Numbers that
 * select something, such as a block, are checked. A function that fails returns 0; web_result() and
 * web_message() then give the reason.
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

/* These return the vit_result of the last failure, the name of a result, and the message. */
EXPORT(result) int web_result(void);
EXPORT(result_string) const char *web_result_string(int result);
EXPORT(message) const char *web_message(void);

/* Returns a JSON object with the card (model/card.h) and the labels; free it by web_release. */
EXPORT(info) char *web_info(const web_model *m);

/* web_sizes returns the sizes of the model, [WEB_SIZES], in the order of this enum. */
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

/* web_input returns the memory of the input for the functions below, [in_chans, img_height,
 * img_width]. The caller writes the input, or web_preprocess computes it from a photo. If photos
 * keep their aspect ratio, call web_fit first. It sets all sizes to those for a photo of width x
 * height pixels, and may move the input. */
EXPORT(fit) int web_fit(web_model *m, int width, int height);
EXPORT(input) float *web_input(const web_model *m);
EXPORT(preprocess)
int web_preprocess(web_model *m, const uint8_t *pixels, int width, int height, int stride,
                   int format);

/* Finds the `most` best classes of the input for web_top(). Returns how many it found. */
EXPORT(classify) int web_classify(web_model *m, int most);
EXPORT(top) const vit_prediction *web_top(const web_model *m);
/* Turns logits [num_classes] into the scores of vit_scores, in place. */
EXPORT(scores) void web_scores(const web_model *m, float *logits);

/* Computes logits, embedding and tokens, unless their pointers are NULL, and outputs of blocks. */
EXPORT(forward)
int web_forward(web_model *m, float *const outputs[3], const vit_block_output *blocks,
                int num_blocks);

/* Computes the attention map of `patch`, [rows, columns]; -1 is the class token or, in models
 * without one, the mean of all tokens. `head` -1 is the mean of all heads, and `block` -1 is a
 * rollout through all blocks. */
EXPORT(attention) int web_attention(web_model *m, int block, int patch, int head, float *map);

/* Fits components to the patches [rows * columns, dim] of all photos. Writes the coordinates of all
 * photos, [rows * columns, 3]. `numbers` receives the variances of the three components, and then
 * their shares of the whole variance. Returns the number of components. */
EXPORT(components)
int web_components(const web_model *m, const float *patches, const vit_grid *grids, int photos,
                   int foreground, float *coordinates, double numbers[6]);

/* Computes the cosines of a vector [dim] with each of `count` other vectors [dim]. */
EXPORT(similarity)
void web_similarity(const float *vector, const float *others, int count, int dim, float *cosines);

/* Computes the cosines of all positions, [n, n]. `kind` is a position_kind, or -1 for the first
 * that the model has. `block` is used only if each block has its own positions. `numbers` receives
 * the kind, the block or -1, and dim. */
EXPORT(positions)
int web_positions(const web_model *m, int kind, int block, float *cosines, int numbers[3]);

/* Writes 14 numbers: the area of the input on a photo (left, top, width and height in pixels of the
 * photo), the area of the patches in the same form, the width, height, left and top from
 * vit_find_crop, and the rows and columns of the grid. */
EXPORT(crop) int web_crop(const web_model *m, int width, int height, double numbers[14]);
/* Returns the patch at (x, y) of a photo; -1 for none, or if patches are not areas of a photo. */
EXPORT(patch_at) int web_patch_at(const web_model *m, int width, int height, double x, double y);

#endif
