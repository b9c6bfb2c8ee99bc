/* look.h - draws pictures of a model's attention, tokens and weights: the commands of
 * tools/vit-look.
 *
 * A command has three steps: it prepares, runs the model on each photo, and draws. Drawing fills in
 * the sheet of pictures, and the values that the pictures show. look_write writes the requested
 * outputs.
 *
 * To add a command, write its functions in maps.c if it shows photos, or in weights.c if it shows
 * only the model. Then add its row and its options in tools/vit-look.c.
 *
 * tools/look owns the commands of tools/vit-look and their common parts; it may include base cli
 * numbers image picture infer.
 */
#ifndef LOOK_H
#define LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/npy.h"
#include "base/report.h"
#include "base/text.h"
#include "cli/options.h"
#include "image/photos.h"
#include "numbers/tokens.h"
#include "picture/picture.h"
#define VIT_TOOLS
#include "vit.h"

/* The command line. */
typedef struct look_choices {
    const char *model, *output, *npy, *at, *heads, *kind;
    cli_size img_size;
    int block; /* number of the block, from 0; -1: the last block, or the model's output */
    int head;  /* number of the head; -1: `heads` decides */
    int side, columns, count, num_threads;
    vit_isa isa;
    text_list lists; /* lists of photos */
    bool null;       /* paths in lists end with NUL */
    bool rollout, foreground, compare, json;
    photo_options photos;
    double point[2]; /* point of --at */
} look_choices;

/* A photo, and the values that the model computes for it. */
typedef struct look_photo {
    const char *name; /* memory of the list */
    view shown;
    vit_config config; /* config of the model at the input size of this photo */
    int before;        /* number of patches of all previous photos */
    int marked;        /* the patch with a frame around it; -1 for none */
    float *values;     /* [num_tokens, look_job.each] */
} look_photo;

/* The positions of a model. */
typedef struct look_positions {
    const char *path;
    position_kind kind;
    int block; /* number of the block; -1: the whole model */
    int dim;   /* number of values in a position's vector */
    vit_grid grid;
    float *cosines; /* [n, n], n = grid.height * grid.width */
} look_positions;

struct look_command;

/* The state of one run of the program. Zero the struct, then set chosen, command and operands. The
 * steps fill in the other members. */
typedef struct look_job {
    const look_choices *chosen;
    const struct look_command *command;
    const text_list *operands;
    vit_model model;
    char *path; /* path of the model; NULL with compare */
    photo_list photos;
    photo_decoder *decoder;
    vit_threads *threads;
    vit_executor executor;
    vit_model fitted; /* the model at the photo's size, with crop_mode=aspect */
    vit_session session;
    float *input;
    look_photo *seen; /* [num_seen] */
    int num_seen, unreadable;
    size_t each;            /* floats of a token in look_photo.values; `prepare` sets it */
    look_positions *placed; /* [num_placed] */
    int num_placed;
    sheet sheet;    /* `draw` sets this member and all members below */
    float *numbers; /* with photos: [num_seen, maps, height, width] of each photo's grid */
    int64_t dims[NPY_MAX_DIMS];
    int ndim;
    pca components; /* components of tokens or filters */
} look_job;

typedef struct look_command {
    const char *name, *synopsis, *operand, *description;
    int min_operands, max_operands;
    bool photos;                                               /* operands are photos */
    double opacity;                                            /* opacity of the map over photos */
    const char *(*wrong)(const look_choices *c, int operands); /* returns a message or NULL */
    bool (*prepare)(look_job *j, report *r);                   /* called before any photo */
    bool (*read)(look_job *j, look_photo *s, report *r);       /* computes values from j->input */
    bool (*draw)(look_job *j, report *r);
    void (*put)(const look_job *j, json_writer *w); /* adds to --json */
} look_command;

/* Runs a command. Unreadable photos are reported on stderr and counted. */
bool look_run(look_job *j, report *r);
void look_free(look_job *j);

/* === The commands === */

const char *look_wrong_attention(const look_choices *c, int operands);
bool look_prepare_attention(look_job *j, report *r);
bool look_read_attention(look_job *j, look_photo *s, report *r);
bool look_draw_attention(look_job *j, report *r);
void look_put_attention(const look_job *j, json_writer *w);

bool look_prepare_tokens(look_job *j, report *r);
bool look_read_tokens(look_job *j, look_photo *s, report *r);
bool look_draw_tokens(look_job *j, report *r);
void look_put_components(const look_job *j, json_writer *w);

const char *look_wrong_similarity(const look_choices *c, int operands);
bool look_draw_similarity(look_job *j, report *r);
void look_put_similarity(const look_job *j, json_writer *w);

const char *look_wrong_positions(const look_choices *c, int operands);
bool look_draw_positions(look_job *j, report *r);
void look_put_positions(const look_job *j, json_writer *w);

bool look_draw_filters(look_job *j, report *r);
void look_put_filters(const look_job *j, json_writer *w);

/* === What they share === */

/* Allocates values [a, b, c, d], or [a, b, c] if d is 0. */
bool look_take_numbers(look_job *j, int64_t a, int64_t b, int64_t c, int64_t d, report *r);
/* Allocates `maps` maps for each photo. */
bool look_take_maps(look_job *j, int maps, report *r);
/* Returns one map of a photo, [grid_height, grid_width], within j->numbers. */
float *look_map_of(const look_job *j, int photo, int map);
/* Returns the number of patches of all photos. */
int look_all_patches(const look_job *j);
vit_grid look_grid_of(const vit_config *config);
/* Returns false if the model has no block --block. */
bool look_check_block(const look_job *j, report *r);
/* Finds the index of the photo's patch at the point of --at. */
bool look_patch_at(const look_job *j, const view *v, int *patch, report *r);
const float *look_patch_token(const look_photo *s, int patch);

/* Both functions add a photo to the sheet. The first function paints a colour over each patch; if
 * `patches` is NULL, it shows only the photo. The second function paints a map of values, from
 * range[0], dark, to range[1], bright. */
bool look_add_view(look_job *j, const look_photo *s, const picture_colour *patches,
                   const char *caption, report *r);
bool look_add_heat(look_job *j, const look_photo *s, const float *values, const double range[2],
                   const char *caption, report *r);

void look_put_pair(json_writer *w, const char *key, int a, int b);
/* Writes the chosen outputs: the picture, the array, and JSON on standard output. */
bool look_write(const look_job *j, report *r);

#endif
