/* settings.h - what is known of a model, and from where: the options of its architecture and its
 * preprocessing, gathered from the tensors, timm's name, config.json and the command line.
 * setting_list.h has the settings, resolve.h puts them together into a vit_config.
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
    SETTING_WORD, /* one of its words; the value is the word's index */
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

/* A row of SETTING_LIST, which says what each column means. */
typedef struct setting_row {
    const char *name, *help;
    setting_field field;
    size_t offset; /* of the field in vit_config */
    double plain;
    setting_sources sources;
    setting_kind kind;
    const char *shown_by, *phrase;
    const char *choices;       /* the words, with spaces between them; NULL: not a WORD */
    const setting_word *words; /* the same by index; ends with a NULL word; or NULL */
} setting_row;

extern const setting_row setting_rows[SETTING_COUNT];

/* Indices of patch_order's words: h and w are the row and the column in a patch. */
enum { PATCH_ORDER_CHW, PATCH_ORDER_HWC, PATCH_ORDER_CWH, PATCH_ORDER_WHC };

/* Indices of qkv_order's words: how the rows of a weight, or its parts, are ordered. */
enum {
    QKV_ORDER_QKV,
    QKV_ORDER_QVK,
    QKV_ORDER_KQV,
    QKV_ORDER_KVQ,
    QKV_ORDER_VQK,
    QKV_ORDER_VKQ,
};

/* Indices of qkv_interleave's words: which of head, value of a head and query, key or value comes
 * first in the rows of a joint weight. */
enum { QKV_INTERLEAVE_NONE, QKV_INTERLEAVE_PER_HEAD, QKV_INTERLEAVE_PER_VALUE };

/* Indices of attn_root's words. The last one is what a well-known tutorial computes. */
enum { ATTN_ROOT_HEAD_DIM, ATTN_ROOT_EMBED_DIM, ATTN_ROOT_EMBED_DIM_AFTER };

/* What one source says of the model. Integers and indices of words are exact in a double. */
typedef struct settings {
    const char *origin; /* for messages: "config.json", "--set" */
    bool given[SETTING_COUNT];
    double value[SETTING_COUNT];
    int mean_count, std_count; /* 0: not given; 1: for every channel */
    double mean[VIT_MAX_CHANS], std[VIT_MAX_CHANS];
} settings;

/* In rising order of precedence. */
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

/* The field of a vit_config that a setting has. */
double setting_get_field(setting_key key, const vit_config *config);
void setting_put_field(setting_key key, double value, vit_config *config);
/* The same; refuses what is out of range. Whole numbers may come out of tensors or be computed, and
 * so be larger than an int. */
bool setting_put_whole(setting_key key, double value, vit_config *config, report *r);

/* What timm's name of an architecture says: the settings that are NAMED, and how positions are
 * resampled. */
void settings_from_config(settings *s, const vit_config *config);

/* Rotary positions, or that there are none. */
void settings_from_rope(settings *s, const rope_options *rope);

/* "num_heads=3", "img_size=384x256", "mean=0.5,0.5,0.5" */
bool settings_parse(settings *s, const char *assignment, report *r);
/* "384" or "384x256": height, then width. */
bool settings_parse_size(settings *s, const char *text, report *r);
/* The index of a word among those of a WORD, or -1. */
int setting_find_word(setting_key key, const char *word);
/* Also as people and libraries write it: "nn.SiLU", "swish". */
int setting_find_any_word(setting_key key, const char *text);

/* True with the value of the highest origin that gives one. */
bool settings_get(const settings all[FROM_COUNT], setting_key key, double *value);
/* That origin, or -1. */
int settings_origin(const settings all[FROM_COUNT], setting_key key);

/* The value as --set takes it: "7", or the word that it stands for. */
const char *setting_text(setting_key key, double value, char text[32]);

/* === Choices === */

/* The values that a setting may have, as an option to copy: "--set num_heads=N (1, 2, 4 or 8)". */

enum { CHOICES_SIZE = 256 };

/* "--set activation=gelu|relu", of all words; `others` comes after it. */
const char *choices_of_words(setting_key key, const char *others, char text[CHOICES_SIZE]);

/* Heads that attention of this width may have. */
const char *choices_of_heads(int64_t width, const char *others, char text[CHOICES_SIZE]);

/* Channels of a square patch of so many values. */
const char *choices_of_chans(int64_t values, char text[CHOICES_SIZE]);

/* Input sizes of so many patches. */
const char *choices_of_size(int patches, int patch_size, int stride, char text[CHOICES_SIZE]);

/* Is n the square of *side? */
bool choices_is_square(int64_t n, int *side);

/* === Preprocessing === */

/* The size before the crop, and mean and std of each channel. */

/* Puts them into the config, whose input size and channels are known; stored_chans: those of the
 * checkpoint, where the file has others. */
bool preprocessing_resolve(const settings all[FROM_COUNT], int stored_chans, vit_config *c,
                           report *r);

/* === Another patch embedding === */

/* The patch embedding that was asked for instead of the checkpoint's own. */

/* Channels and patch size that the .vit file is to have; 0: those of the checkpoint. */
typedef struct patch_request {
    int chans, patch;
} patch_request;

/* Puts them into the config, which has those of the checkpoint. */
bool patch_request_apply(const patch_request *wanted, vit_config *c, report *r);

#endif
