/* settings.h - the settings of a model's architecture and preprocessing, gathered from the tensors,
 * timm's name, config.json and the command line. setting_list.h lists them, resolve.h combines them
 * into a vit_config.
 *
 * tools/model owns facts about models: timm's names, config.json, settings, labels, positions; it
 * may include base.
 */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#include "model/positions.h"
#include "model/setting_list.h"
#define VIT_TOOLS
#include "vit.h"

typedef enum setting_key {
#define X(key, name, kind, field, plain, sources, help) SETTING_##key,
    SETTING_LIST(X)
#undef X
        SETTING_COUNT
} setting_key;

typedef enum setting_kind {
    SETTING_INTEGER,
    SETTING_NUMBER,
    SETTING_FLAG, /* 0 or 1, also true and false */
    SETTING_WORD, /* a word; the value is the word's index */
} setting_kind;

typedef enum setting_field { SETTING_NO_FIELD, SETTING_COPIED, SETTING_WORKED_OUT } setting_field;

/* Bits of `sources` in SETTING_LIST. */
typedef enum setting_sources {
    SETTING_IS_NEITHER = 0,
    SETTING_IS_NAMED = 1,
    SETTING_IS_CHECKED = 2,
    SETTING_IS_BOTH = 3,
} setting_sources;

typedef struct setting_word {
    const char *word, *phrase;
} setting_word;

/* A row of SETTING_LIST, which describes each column. */
typedef struct setting_row {
    const char *name, *help;
    setting_field field;
    size_t offset; /* offset of the field in vit_config */
    double plain;
    setting_sources sources;
    setting_kind kind;
    const char *shown_by, *phrase;
    const char *choices;       /* the words, with spaces between them; NULL if not a WORD */
    const setting_word *words; /* the words by index, with NULL at the end; or NULL */
} setting_row;

extern const setting_row setting_rows[SETTING_COUNT];

/* The indices of the words of patch_order; h and w are the row and the column in a patch. */
enum { PATCH_ORDER_CHW, PATCH_ORDER_HWC, PATCH_ORDER_CWH, PATCH_ORDER_WHC };

/* The indices of the words of qkv_order: the order of the rows, or of the parts, of a weight. */
enum {
    QKV_ORDER_QKV,
    QKV_ORDER_QVK,
    QKV_ORDER_KQV,
    QKV_ORDER_KVQ,
    QKV_ORDER_VQK,
    QKV_ORDER_VKQ,
};

/* The indices of the words of qkv_interleave: the order in which the rows of a joint weight vary by
 * head, by value of a head, and by query, key and value. */
enum { QKV_INTERLEAVE_NONE, QKV_INTERLEAVE_PER_HEAD, QKV_INTERLEAVE_PER_VALUE };

/* Indices of merge_act's words: those of vit_activation. */
enum {
    MERGE_GELU = VIT_GELU,
    MERGE_GELU_TANH = VIT_GELU_TANH,
    MERGE_QUICK_GELU = VIT_QUICK_GELU,
    MERGE_SILU = VIT_SILU,
    MERGE_RELU = VIT_RELU,
};

/* Indices of attn_root's words. A well-known tutorial has the last order. */
enum { ATTN_ROOT_HEAD_DIM, ATTN_ROOT_EMBED_DIM, ATTN_ROOT_EMBED_DIM_AFTER };

/* The settings from one source. A double holds integers and indices of words exactly. */
typedef struct settings {
    const char *origin; /* for messages: "config.json", "--set" */
    bool given[SETTING_COUNT];
    double value[SETTING_COUNT];
    int mean_count, std_count; /* number of values: 0: not given; 1: for every channel */
    double mean[VIT_MAX_CHANS], std[VIT_MAX_CHANS];
} settings;

/* The origins of settings, in rising order of precedence. */
enum {
    FROM_TENSORS,
    FROM_NAME,
    FROM_CONFIG,
    FROM_MATCH, /* found by running the model: see convert/match.h */
    FROM_OPTIONS,
    FROM_COUNT,
};

void settings_start(settings *s, const char *origin);
void settings_put(settings *s, setting_key key, double value);

/* Returns the value of a setting's field in a vit_config. */
double setting_get_field(setting_key key, const vit_config *config);
void setting_put_field(setting_key key, double value, vit_config *config);
/* Sets the field; refuses values out of range. A whole number from tensors or computations may be
 * larger than an int. */
bool setting_put_whole(setting_key key, double value, vit_config *config, report *r);

/* Takes the settings that timm's name of an architecture implies: the settings marked NAMED, and
 * the resampling of positions. */
void settings_from_config(settings *s, const vit_config *config);

/* Puts the settings of rotary positions, or of none. */
void settings_from_rope(settings *s, const rope_options *rope);

/* Parses "num_heads=3", "img_size=384x256" or "mean=0.5,0.5,0.5". */
bool settings_parse(settings *s, const char *assignment, report *r);
/* Parses "384" or "384x256": height, then width. */
bool settings_parse_size(settings *s, const char *text, report *r);
/* Returns the index of a word among those of a WORD, or -1. */
int setting_find_word(setting_key key, const char *word);
/* Also accepts other spellings: "nn.SiLU", "swish". */
int setting_find_any_word(setting_key key, const char *text);

/* True if an origin gives the setting. *value receives the value of the highest such origin. */
bool settings_get(const settings all[FROM_COUNT], setting_key key, double *value);
/* Returns the highest origin that gives the setting, or -1. */
int settings_origin(const settings all[FROM_COUNT], setting_key key);

/* Writes a value in the form that --set accepts: "7", or a word. */
const char *setting_text(setting_key key, double value, char text[32]);

/* === Choices === */

/* Writes the possible values of a setting as an option to copy: "--set num_heads=N (1, 2, 4 or
 * 8)". */

enum { CHOICES_SIZE = 256 };

/* Writes "--set activation=gelu|relu" with all words, then `others`. */
const char *choices_of_words(setting_key key, const char *others, char text[CHOICES_SIZE]);

/* Writes the possible numbers of heads for this width of attention. */
const char *choices_of_heads(int64_t width, const char *others, char text[CHOICES_SIZE]);

/* Writes the possible channels of a square patch with this many values. */
const char *choices_of_chans(int64_t values, char text[CHOICES_SIZE]);

/* Writes the possible input sizes for this many patches. */
const char *choices_of_size(int patches, int patch_size, int stride, char text[CHOICES_SIZE]);

/* True if n is a square; *side becomes its root. */
bool choices_is_square(int64_t n, int *side);

/* === Preprocessing === */

/* The size before the crop, and mean and std of each channel. */

/* Puts the preprocessing into the config, which already contains the input size and the channels.
 * `stored_chans` is the number of channels in the checkpoint, which the .vit file may change. */
bool preprocessing_resolve(const settings all[FROM_COUNT], int stored_chans, vit_config *c,
                           report *r);

/* === Another patch embedding === */

/* Requested changes of the patch embedding. */

/* The channels and the patch size of the .vit file; 0 keeps those of the checkpoint. */
typedef struct patch_request {
    int chans, patch;
} patch_request;

/* Puts the requested channels and patch size into the config, which contains the checkpoint's
 * values. */
bool patch_request_apply(const patch_request *wanted, vit_config *c, report *r);

#endif
