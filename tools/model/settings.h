/* settings.h - the settings of a model's architecture and preprocessing, gathered from the tensors,
 * timm's name, config.json and the command line. setting_list.h lists the settings, and resolve.h
 * combines them into a vit_config.
 *
 * tools/model owns facts about models: timm's names, config.json, settings, labels, positions; it
 * may include base. */
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
    SETTING_FLAG, /* 0 or 1, which may also be written as true or false */
    SETTING_WORD, /* one of a list of words; its value is the index of the word */
} setting_kind;

/* The relation of a setting to the field of vit_config with the same name. See `field` of
 * SETTING_LIST. */
typedef enum setting_field { SETTING_NO_FIELD, SETTING_COPIED, SETTING_WORKED_OUT } setting_field;

/* The values of the column `sources` of SETTING_LIST. */
typedef enum setting_sources {
    SETTING_IS_NEITHER = 0,
    SETTING_IS_NAMED = 1,
    SETTING_IS_CHECKED = 2,
    SETTING_IS_BOTH = 3,
} setting_sources;

/* A possible value of a WORD setting, and the phrase that describes a model with this value. */
typedef struct setting_word {
    const char *word, *phrase;
} setting_word;

/* A row of SETTING_LIST. setting_list.h describes each column. */
typedef struct setting_row {
    const char *name, *help;
    setting_field field;
    size_t offset; /* offset of the field in vit_config, in bytes */
    double plain;
    setting_sources sources;
    setting_kind kind;
    const char *shown_by, *phrase;
    /* All words, with spaces between them; NULL if the setting is not a WORD. */
    const char *choices;
    /* The words by index, with a NULL word at the end; NULL if the setting is not a WORD. */
    const setting_word *words;
} setting_row;

extern const setting_row setting_rows[SETTING_COUNT];

/* The values of patch_order: the order in which the pixels of a patch are flattened. C is the
 * channel, H the row and W the column within the patch. */
enum { PATCH_ORDER_CHW, PATCH_ORDER_HWC, PATCH_ORDER_CWH, PATCH_ORDER_WHC };

/* The values of qkv_order: the order of queries, keys and values in one joint tensor, or the order
 * of their three tensors. */
enum {
    QKV_ORDER_QKV,
    QKV_ORDER_QVK,
    QKV_ORDER_KQV,
    QKV_ORDER_KVQ,
    QKV_ORDER_VQK,
    QKV_ORDER_VKQ,
};

/* The values of qkv_interleave: the rows of a joint weight are [3, num_heads, head_dim],
 * [num_heads, 3, head_dim] or [num_heads, head_dim, 3], where 3 stands for query, key and value. */
enum { QKV_INTERLEAVE_NONE, QKV_INTERLEAVE_PER_HEAD, QKV_INTERLEAVE_PER_VALUE };

/* The values of merge_act, which are those of vit_activation. */
enum {
    MERGE_GELU = VIT_GELU,
    MERGE_GELU_TANH = VIT_GELU_TANH,
    MERGE_QUICK_GELU = VIT_QUICK_GELU,
    MERGE_SILU = VIT_SILU,
    MERGE_RELU = VIT_RELU,
};

/* The values of attn_root. The code of a well-known tutorial has the last value. */
enum { ATTN_ROOT_HEAD_DIM, ATTN_ROOT_EMBED_DIM, ATTN_ROOT_EMBED_DIM_AFTER };

/* The settings from one source. A double holds integers and indices of words exactly. */
typedef struct settings {
    const char *origin; /* name of the source in messages, such as "config.json" or "--set" */
    /* given[key] is true if the source gives the setting; value[key] is then its value. */
    bool given[SETTING_COUNT];
    double value[SETTING_COUNT];
    /* Number of values of `mean` and `std`. 0 if they are not given; 1 if one value is for every
     * channel. */
    int mean_count, std_count;
    double mean[VIT_MAX_CHANS], std[VIT_MAX_CHANS];
} settings;

/* The sources of settings, in rising order of precedence. */
enum {
    FROM_TENSORS,
    FROM_NAME,
    FROM_CONFIG,
    FROM_MATCH, /* values found by running the model (convert/match.h) */
    FROM_OPTIONS,
    FROM_COUNT,
};

/* Empties *s and sets its origin. */
void settings_start(settings *s, const char *origin);
/* Sets one setting to a value. */
void settings_put(settings *s, setting_key key, double value);

/* Returns the value of a setting's field in a vit_config. */
double setting_get_field(setting_key key, const vit_config *config);
void setting_put_field(setting_key key, double value, vit_config *config);
/* Sets the field of a setting in *config. Fails if a whole number is negative or too large for an
 * int. A number from tensors or computations may be so. */
bool setting_put_whole(setting_key key, double value, vit_config *config, report *r);

/* Fills *s with the settings that timm's name of an architecture implies: the settings marked
 * NAMED, and the resampling of positions. `config` is the configuration of the architecture. */
void settings_from_config(settings *s, const vit_config *config);

/* Fills *s with the settings of these rotary positions. *rope may also state that the model has no
 * rotary positions. */
void settings_from_rope(settings *s, const rope_options *rope);

/* Puts a setting such as "num_heads=3", "img_size=384x256" or "mean=0.5,0.5,0.5" into *s. */
bool settings_parse(settings *s, const char *assignment, report *r);
/* Puts a size such as "384" or "384x256" into *s; the height precedes the width. */
bool settings_parse_size(settings *s, const char *text, report *r);
/* Returns the index of a word among the words of a WORD setting; -1 if the setting has no such
 * word. */
int setting_find_word(setting_key key, const char *word);
/* Does the same, but also accepts the spellings of other libraries: "nn.SiLU", "swish". */
int setting_find_any_word(setting_key key, const char *text);

/* True if any source gives the setting. *value then receives the value from the source of highest
 * precedence; otherwise it keeps its value. */
bool settings_get(const settings all[FROM_COUNT], setting_key key, double *value);
/* Returns the index in all[] of the source of highest precedence that gives the setting; -1 if none
 * does. */
int settings_origin(const settings all[FROM_COUNT], setting_key key);

/* Writes a value in the form that --set accepts: "7", or a word. */
const char *setting_text(setting_key key, double value, char text[32]);

/* === Choices === */

/* These functions write the possible values of a setting as an option to copy: "--set num_heads=N
 * (1, 2, 4 or 8)". The text `others` is appended. */

enum { CHOICES_SIZE = 256 };

/* Writes "--set activation=gelu|relu" with all words of the setting. */
const char *choices_of_words(setting_key key, const char *others, char text[CHOICES_SIZE]);

/* Writes the possible numbers of heads if attention has this width. */
const char *choices_of_heads(int64_t width, const char *others, char text[CHOICES_SIZE]);

/* Writes the possible numbers of channels if a square patch has this many values. */
const char *choices_of_chans(int64_t values, char text[CHOICES_SIZE]);

/* Writes the possible input sizes if the input has this many patches. */
const char *choices_of_size(int patches, int patch_size, int stride, char text[CHOICES_SIZE]);

/* True if n is a square number; *side becomes its root. */
bool choices_is_square(int64_t n, int *side);

/* === Preprocessing === */

/* This function computes the size before the crop, and the mean and std of each channel. */

/* Puts the preprocessing into *c, which already contains the input size and the channels.
 * `stored_chans` is the number of channels in the checkpoint; the .vit file may have another
 * number. */
bool preprocessing_resolve(const settings all[FROM_COUNT], int stored_chans, vit_config *c,
                           report *r);

/* === Another patch embedding === */

/* The channels and the patch size that the user requests for the .vit file. 0 keeps those of the
 * checkpoint. */
typedef struct patch_request {
    int chans, patch;
} patch_request;

/* Puts the requested channels and patch size into *c, which contains those of the checkpoint. */
bool patch_request_apply(const patch_request *wanted, vit_config *c, report *r);

#endif
