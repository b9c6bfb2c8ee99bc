/* handles.h - declares the functions of vit.h without its structs. The functions use handles,
 * numbers and arrays, for languages that cannot read C's structs. rust/build.sh and go/build.sh
 * copy handles.h, handles.c and vit.h into their packages.
 *
 * tools/packaging owns the compiled library, CMake, pkg-config, man pages, releases, bindings; it may
 * include no other floor.
 *
 * The functions return a vit_result of vit.h, or VITH_STOPPED. All names begin with vith_.
 * handles.c contains a static copy of vit.h, so a program may also link another copy. */
#ifndef VITH_H
#define VITH_H
#include <stddef.h>
#include <stdint.h>

#define VITH_STOPPED 1   /* result: *stop was not zero */
#define VITH_MESSAGE 256 /* size of a message in bytes, with its NUL */

typedef struct vith_model vith_model;
typedef struct vith_pool vith_pool;
typedef struct vith_session vith_session;

/* Returns the name of a result, which is a static string and never NULL. */
const char *vith_result_string(int result);
const char *vith_version(void);

/* Opens the file `path`. If path is NULL, opens the `size` bytes at data. These bytes must not move
 * until the model is closed. On failure *model is NULL and message has the reason. */
int vith_model_open(const char *path, const void *data, size_t size, unsigned flags,
                    vith_model **model, char *message);

/* Makes *resized, the same model for another input size. Close *resized before `model`. */
int vith_model_resized(const vith_model *model, int height, int width, vith_model **resized,
                       char *message);
void vith_model_close(vith_model *model);
const char *vith_label(const vith_model *model, int index); /* NULL if the model has no labels */

enum {
    VITH_NUM_CLASSES,
    VITH_EMBEDDING_DIM,
    VITH_IN_CHANS,
    VITH_IMG_HEIGHT,
    VITH_IMG_WIDTH,
    VITH_PATCH_SIZE,
    VITH_EMBED_DIM,
    VITH_DEPTH,
    VITH_NUM_HEADS,
    VITH_GRID_HEIGHT,
    VITH_GRID_WIDTH,
    VITH_NUM_PREFIX_TOKENS,
    VITH_NUM_TOKENS
};
int vith_number(const vith_model *model, int which);

/* Starts a pool. num_threads includes the caller; 0 stands for one thread per core. */
int vith_pool_open(int num_threads, vith_pool **pool);
int vith_pool_threads(const vith_pool *pool);
void vith_pool_close(vith_pool *pool);

/* Opens a session. pool may be NULL; pool and model must stay open until the session is closed. A
   pass ends with VITH_STOPPED when *stop is not zero. A pass with VIT_CROP_ASPECT stops only before
   it begins. stop may be NULL, is read atomically, and must outlive the session. */
int vith_session_open(const vith_model *model, const vith_pool *pool, int low_memory, int batch,
                      const int32_t *stop, vith_session **session);
void vith_session_close(vith_session *session);

/* Returns the number of bytes of a photo's pixels; 0 if the shape is invalid. shape [4] has the
 * width, height, stride and format of the photo, as in vit_image. */
uint64_t vith_photo_size(const int32_t *shape);

/* Runs `count` photos. Photo i has the pixels pixels[i] and the shape that begins at shapes[4 * i].
 * *scores and *embedding receive pointers to the results of all photos. The results are memory of
 * the session, and are valid until the next call for this session. *scores is NULL if the model has
 * no head. */
int vith_run(vith_session *session, int count, const uint8_t *const *pixels, const int32_t *shapes,
             const float **scores, const float **embedding);

/* Computes the tokens of a photo [num_tokens, embed_dim] after the final norm, and the attention
 * [num_heads, num_tokens, num_tokens] of a block. A negative `block` counts from the end: -1 is the
 * last block. Both arrays may be NULL. */
int vith_look(vith_session *session, const uint8_t *pixels, const int32_t *shape, float *tokens,
              int block, float *attention);

/* Finds the k highest of n scores. `index` and `value` receive their indices and values, the
 * highest first. Returns their number. */
int vith_top_k(const float *scores, int n, int k, int32_t *index, float *value);
float vith_cosine(const float *a, const float *b, int n);

/* vith_text_embed computes the embedding of a text. vith_text_scores turns the cosines of a photo
   and n texts into probabilities, in place. */
int vith_text_embed(const vith_model *model, const char *text, float *embedding);
int vith_text_scores(const vith_model *model, float *cosines, int n);

#endif
