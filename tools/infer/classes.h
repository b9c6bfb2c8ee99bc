/* classes.h - finds a model's class by a folder's name, by a map, or by texts. */
#ifndef CLASSES_H
#define CLASSES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"
#include "base/text.h"
#include "image/photos.h"
#include "infer/embedding.h"
#define VIT_TOOLS
#include "vit.h"

enum { CLASS_NONE = -1, CLASS_AMBIGUOUS = -2 };

/* Finds a class by its synset id, its label, one of the names in a label such as "tabby, tabby
 * cat", or its number. Tries these four in this order; the first one that matches any class
 * decides. In labels, case is ignored and '_' equals ' '. Returns CLASS_NONE if no class matches,
 * and CLASS_AMBIGUOUS if several classes match. */
int class_find(const vit_model *model, const char *name);

/* Returns the label of a class. If the class has no label, writes a text such as "class 7" to
 * `text`, which has `size` bytes, and returns `text`. */
const char *class_name(const vit_model *model, int index, char *text, size_t size);

/* A file that maps folders to classes. Its lines are "FOLDER<tab>CLASS", or "FOLDER CLASS" if
 * FOLDER has no space. Comments begin with '#'. */
typedef struct class_map {
    photo_list folders;
    int *classes;
} class_map;

/* Reads a map from a file. On failure there is nothing to free. */
bool class_map_read(class_map *map, const vit_model *model, const char *path, report *r);
void class_map_free(class_map *map);

/* Returns the class of a folder from the map. If the folder is not in the map, returns the result
 * of class_find for the folder's name. */
int class_map_find(const class_map *map, const vit_model *model, const char *folder);

/* Finds the classes of all folders; classes [folders->count] receives them. Prints a message on
 * stderr for each of the first ten folders without a class. Returns false if any folder has no
 * class. `program` begins the messages. */
bool class_map_all(const class_map *map, const vit_model *model, const photo_list *folders,
                   const char *program, int *classes);

/* === Classes by texts === */

/* Each class is a text. A photo belongs to the class whose text has the vector nearest to the
 * photo's vector. The vectors of the texts are computed by the model's text encoder, or read from a
 * file. CLIP and SigLIP classify in this way.
 *
 *     if (zero_shot_open(&z, &options, &asked, &model, &path, &choice, &r)) ...
 *     zero_shot_logits(&z, embedding_of(&choice, &model, result), logits);
 *     zero_shot_scores(&z, logits);
 */

/* The values of the options below. Initialise them with ZERO_SHOT_NONE. */
typedef struct zero_shot_options {
    /* values of --classes (texts, a file of texts, or a .npy file) and of --class-names (a file
     * of names); NULL if not given */
    const char *classes, *names;
    text_list templates; /* texts with {} in place of a class, such as "a photo of {}" */
    /* NaN if not given: the values of the text encoder are then used; without a text encoder, 100
     * and 0 */
    double scale, bias;
    bool sigmoid;
} zero_shot_options;

#define ZERO_SHOT_NONE                                                                             \
    { NULL, NULL, { NULL, 0 }, (double)NAN, (double)NAN, false }

/* Rows of a program's table of options (cli/options.h). Each program has its own row for
 * --sigmoid. */
/* clang-format off */
#define ZERO_SHOT_OPTIONS(o)                                                                       \
    { 0, "classes", "TEXTS",                                                                       \
      "classify by texts: 'a cat, a dog'; a file with one text per\n"                              \
      "line; or TEXT.npy, the vectors of texts [n, dim]",                                          \
      CLI_TEXT, &(o)->classes, 0, 0 },                                                             \
    { 0, "template", "T",                                                                          \
      "text with {} for a class, such as 'a photo of {}'; may be\n"                                \
      "repeated: the mean of the vectors is used",                                                 \
      CLI_LIST, &(o)->templates, 0, 0 },                                                           \
    { 0, "class-names", "FILE", "the names of the vectors of TEXT.npy, one per line",              \
      CLI_TEXT, &(o)->names, 0, 0 },                                                               \
    { 0, "scale", "S", "multiply the cosines by S (default: the model's scale, else 100)",         \
      CLI_NUMBER, &(o)->scale, 0, 1e6 },                                                           \
    { 0, "bias", "B", "with --sigmoid, add B to the scaled cosines (default: the model's, else 0)",\
      CLI_NUMBER, &(o)->bias, -1e6, 1e6 }
/* clang-format on */

/* The notes on these options in a program's help. */
#define ZERO_SHOT_NOTES                                                                               \
    "--classes needs a model with a text encoder, such as CLIP or SigLIP; vit-convert converts the\n" \
    "encoder with its tokenizer. The model's scale and bias, and then its softmax or sigmoid, turn\n" \
    "the cosines into probabilities. TEXT.npy has vectors that another program made from texts.\n"    \
    "They are compared with the output of the model's head (CLIP's projection) if the widths are\n"   \
    "equal, else with the embedding. Without --sigmoid, the probabilities add up to 1 (CLIP). With\n" \
    "--sigmoid, each probability is independent (SigLIP; give the model's --scale and --bias). If\n"  \
    "vit-embed made TEXT.npy, the default of -m is the model of that run.\n"

/* Returns a message if options contradict each other, and otherwise NULL. --sigmoid may be given
 * without --classes. */
const char *zero_shot_wrong(const zero_shot_options *options);

typedef struct zero_shot {
    /* the vectors of the texts, [count, dim], and the names of the classes */
    embedding_index texts;
    int count;
    float scale, bias;
    bool sigmoid;
    float *own; /* private, like `list`: the vectors that the text encoder has computed */
    char *list;
} zero_shot;

/* Opens the model, and reads or computes the vectors of the texts. `options` and `asked` must live
 * as long as z. Fails if there are more than 2^20 vectors, or if a vector has no direction because
 * it is zero or has NaN or infinity. The caller closes the model and z, and frees *path, even after
 * a failure. */
bool zero_shot_open(zero_shot *z, const zero_shot_options *options, const embedding_request *asked,
                    vit_model *model, char **path, embedding_choice *choice, report *r);
/* Reads the vectors of texts from a .npy file (--classes), without a model. On failure there is
 * nothing to close. */
bool zero_shot_open_vectors(zero_shot *z, const zero_shot_options *options, report *r);
void zero_shot_close(zero_shot *z); /* also accepts a zeroed struct */

/* Computes logits [count] for a photo's vector [dim]. The logit of a text is scale * cosine + bias,
 * with the cosine between its vector and the photo's. The photo's vector need not have length 1. */
void zero_shot_logits(const zero_shot *z, const float *vector, float *logits);

/* Turns logits x [count] into probabilities, in place. Uses a softmax (CLIP, arXiv 2103.00020) or,
 * if z->sigmoid is true, a sigmoid of each logit (SigLIP, arXiv 2303.15343). */
void zero_shot_scores(const zero_shot *z, float *x);

#endif
