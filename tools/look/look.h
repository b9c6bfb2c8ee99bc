/* look.h - implements the commands of vit-look, which draw pictures of a model's attention, tokens
 * and weights.
 *
 * A command has three steps, which are functions in look_command. `prepare` checks the options and
 * allocates memory. `read` runs the model on one photo and is called for each photo. `draw` fills
 * in look_job.sheet, a contact sheet of pictures, and look_job.numbers, the values that the
 * pictures show. Then look_write writes the requested outputs.
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

/* The values of the options on the command line. */
typedef struct look_choices {
    const char *model, *output, *npy, *at, *heads, *kind;
    cli_size img_size;
    /* number of the block, from 0; -1 means that the command chooses the block or the output */
    int block;
    int head; /* number of the head, from 0; -1 means that the option --heads decides */
    int side, columns, count, num_threads;
    vit_isa isa;
    text_list lists; /* files with lists of photos */
    bool null;       /* true if the paths in lists end with NUL */
    bool rollout, foreground, compare, json;
    photo_options photos;
    double point[2]; /* the point that --at gives, in pixels of the photo */
} look_choices;

/* A photo, and the values that the command computes for its tokens. */
typedef struct look_photo {
    const char *name; /* name of the photo, which look_job.photos owns */
    view shown;
    vit_config config; /* configuration of the model at the input size for this photo */
    int before;        /* total number of patches of all photos before this photo */
    int marked;        /* index of the patch with a frame around it; -1 if no patch has a frame */
    float *values;     /* [num_tokens, look_job.each] */
} look_photo;

/* The position vectors of a model (numbers/tokens.h), and their cosines. */
typedef struct look_positions {
    const char *path;
    position_kind kind;
    /* number of the block to which the vectors belong, from 0; -1 means the whole model */
    int block;
    int dim; /* number of values in the vector of a position */
    vit_grid grid;
    /* [n, n]: cosines of all pairs of positions, where n = grid.height * grid.width */
    float *cosines;
} look_positions;

struct look_command;

/* The state of one run of the program. Zero the struct, then set chosen, command and operands.
 * look_run fills in the other members. */
typedef struct look_job {
    const look_choices *chosen;
    const struct look_command *command;
    const text_list *operands;
    vit_model model;
    /* path of the model; NULL if the option `compare` is set, which compares several models */
    char *path;
    photo_list photos;
    photo_decoder *decoder;
    vit_threads *threads;
    vit_executor executor;
    /* the model at the size of the current photo; used only with crop_mode=aspect */
    vit_model fitted;
    vit_session session;
    float *input;
    look_photo *seen; /* [num_seen]: the photos that were read */
    int num_seen, unreadable;
    /* number of floats for a token in look_photo.values; `prepare` sets it */
    size_t each;
    look_positions *placed; /* [num_placed]: the position vectors to draw */
    int num_placed;
    sheet sheet; /* `draw` sets this member and all members below */
    /* the values that the pictures show; with photos, [maps, height, width] for each photo, where
     * height and width are those of the photo's grid */
    float *numbers;
    int64_t dims[NPY_MAX_DIMS];
    int ndim;
    pca components; /* principal components of tokens or filters */
} look_job;

typedef struct look_command {
    const char *name, *synopsis, *operand, *description;
    int min_operands, max_operands;
    bool photos; /* true if the operands are photos */
    /* opacity of the map that is drawn over a photo */
    double opacity;
    /* returns a message about wrong options, or NULL if there are none */
    const char *(*wrong)(const look_choices *c, int operands);
    bool (*prepare)(look_job *j, report *r); /* called before the first photo */
    /* computes s->values from j->input */
    bool (*read)(look_job *j, look_photo *s, report *r);
    bool (*draw)(look_job *j, report *r);
    /* writes members to the JSON object of --json */
    void (*put)(const look_job *j, json_writer *w);
} look_command;

/* Runs j->command. Unreadable photos are reported on stderr, and counted in j->unreadable. */
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

/* === Functions for several commands === */

/* Allocates j->numbers with the shape [a, b, c, d], or [a, b, c] if d is 0. */
bool look_take_numbers(look_job *j, int64_t a, int64_t b, int64_t c, int64_t d, report *r);
/* Allocates j->numbers with `maps` maps for each photo. */
bool look_take_maps(look_job *j, int maps, report *r);
/* Returns a pointer to one map of a photo, [grid_height, grid_width], in j->numbers. */
float *look_map_of(const look_job *j, int photo, int map);
/* Returns the total number of patches of all photos. */
int look_all_patches(const look_job *j);
vit_grid look_grid_of(const vit_config *config);
/* Returns false if the model has no block with the number of --block. */
bool look_check_block(const look_job *j, report *r);
/* Sets *patch to the index of the patch at the point that --at gives. Fails if there is none. */
bool look_patch_at(const look_job *j, const view *v, int *patch, report *r);
const float *look_patch_token(const look_photo *s, int patch);

/* Both functions add a picture of a photo to j->sheet. look_add_view paints a colour over each
 * patch; if `patches` is NULL, it paints nothing. look_add_heat paints a map with a value for each
 * patch; range[0] has the darkest colour, and range[1] has the brightest. */
bool look_add_view(look_job *j, const look_photo *s, const picture_colour *patches,
                   const char *caption, report *r);
bool look_add_heat(look_job *j, const look_photo *s, const float *values, const double range[2],
                   const char *caption, report *r);

void look_put_pair(json_writer *w, const char *key, int a, int b);
/* Writes the requested outputs: the picture, the .npy file, and JSON on standard output. */
bool look_write(const look_job *j, report *r);

#endif
