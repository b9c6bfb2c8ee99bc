/* layout.h - how a library names and shapes the tensors of a vision transformer, and where each
 * tensor of a .vit file comes from. A layout is a table (tools/layout/tables/); adding one adds no
 * code unless it needs something that no form, slice or method below expresses.
 *
 * Keys. A rule says which keys of the checkpoint make up one tensor of the .vit file:
 *     {b}     at the start: the block's path, "blocks.{i}." in the file, layout->blocks in the
 *             checkpoint; {i} there is the block's number, {c} any number (a chunk of blocks).
 *             A path without {i} means that all blocks are stacked in one tensor.
 *     {s} {u} stage and block of a convolutional stem; {S} {U} the same counted from 1
 *     ../     at the start, also twice: a level above the prefix, e.g. a classifier beside "vit."
 *     #k/n    at the end: the k-th of n equal pieces of the first dimension that is not 1
 *     @a @a: @:a   at the end: row a of that dimension, all from a on, all before a; "2d" is two
 *             times embed_dim, a negative number counts from the end, and "@," slices the
 *             dimension that follows
 *     0       alone: zeros, as many rows as each other part has
 *
 * Forms. "src>dst" names the dimensions of the source, one letter each, several in brackets where
 * they are merged, and then their order in the .vit file: "io>oi" is a transposed matrix,
 * "d(pqc)>dcpq" a linear layer over channels-last pixels. p and q are the sides of a patch, c the
 * channels, h the heads, k the width of a head, z the three of query, key, value; any other letter
 * is as large as the tensor says. "(patch)" is a patch's numbers in an order that has to be told;
 * where a form knows it, patch_order can still overrule it.
 *
 * Conditions are keys that must be there, "!key" that must not, and ":tensor" tensors of the .vit
 * file that some rule makes.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "model/settings.h"
#include "vit.h"

typedef enum layout_method {
    LAYOUT_STACK,       /* the parts, one below the other */
    LAYOUT_SUM,         /* the parts added up */
    LAYOUT_PRODUCT,     /* the parts multiplied, number by number */
    LAYOUT_LINEAR,      /* parts[1] parts[0] + parts[2]: what a linear layer makes of a constant */
    LAYOUT_STANDARD,    /* each row less its mean, divided by its deviation */
    LAYOUT_BATCH_NORM,  /* a weight, with the norm behind it: parts[1] is its weight, parts[2] its
                         * variance; each row times weight / sqrt(variance + 1e-5) */
    LAYOUT_BATCH_SHIFT, /* the bias of both: parts are its mean, weight, variance and bias */
    LAYOUT_ZERO,        /* nothing but zeros */
    LAYOUT_IDENTITY,    /* ones on the diagonal: a projection that is left out */
    LAYOUT_REL_POS,     /* parts[0], relative positions: query less key becomes key less query */
    LAYOUT_COS,         /* of the angles of rotary positions, whose frequencies are settings, ... */
    LAYOUT_SIN,         /* or parts[0], as periods or, of each block, as [2, depth, ...] */
    LAYOUT_LAMBDA,      /* exp(parts[0] parts[1]) - exp(parts[2] parts[3]) + lambda_init ... */
    LAYOUT_LESS_LAMBDA  /* parts[0] (1 - lambda_init), both of differential attention */
} layout_method;

enum { LAYOUT_MAX_PARTS = 4, LAYOUT_MAX_CONDITIONS = 4 };

/* Several rules may serve one tensor: the first whose parts and conditions hold does. */
typedef struct layout_rule {
    const char *tensor;                        /* name in the .vit file */
    layout_method method;
    const char *axes;                          /* NULL: the parts are stored as in the .vit file */
    const char *parts[LAYOUT_MAX_PARTS];
    const char *when[LAYOUT_MAX_CONDITIONS];   /* conditions; NULL: none */
} layout_rule;

/* Among a rule's conditions: every model of the library has this tensor, if the others hold. */
#define LAYOUT_REQUIRED "!"

#define LAYOUT_NONE NULL, NULL, NULL, NULL
#define LAYOUT_ALWAYS { NULL, NULL }
/* As it is, under the same name or another. */
#define LAYOUT_SAME(name) { name, LAYOUT_STACK, NULL, { name, NULL, NULL }, LAYOUT_ALWAYS }
#define LAYOUT_FROM(name, key) { name, LAYOUT_STACK, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS }
#define LAYOUT_WHEN(name, key, condition)                                                        \
    { name, LAYOUT_STACK, NULL, { key, NULL, NULL }, { condition, NULL } }
/* Without it the checkpoint is damaged. */
#define LAYOUT_MUST(name, key) LAYOUT_WHEN(name, key, LAYOUT_REQUIRED)
#define LAYOUT_MUST_WHEN(name, key, condition)                                                   \
    { name, LAYOUT_STACK, NULL, { key, NULL, NULL }, { LAYOUT_REQUIRED, condition } }
/* Seen through a form. */
#define LAYOUT_VIEW(name, key, form)                                                            \
    { name, LAYOUT_STACK, form, { key, NULL, NULL }, LAYOUT_ALWAYS }
#define LAYOUT_ROWS2(name, form, a, b) { name, LAYOUT_STACK, form, { a, b, NULL }, LAYOUT_ALWAYS }
#define LAYOUT_ROWS3(name, form, a, b, c) { name, LAYOUT_STACK, form, { a, b, c }, LAYOUT_ALWAYS }
#define LAYOUT_ZEROS(name, condition)                                                            \
    { name, LAYOUT_ZERO, NULL, { LAYOUT_NONE }, { condition, NULL } }
/* Tables of rotary positions, from the settings alone or from what is in the checkpoint. */
#define LAYOUT_ROPE(name, key)                                                                   \
    { name ".cos", LAYOUT_COS, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS },                       \
    { name ".sin", LAYOUT_SIN, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS }
/* Weight and bias of a linear layer or a norm. */
#define LAYOUT_SAME2(name) LAYOUT_SAME(name ".weight"), LAYOUT_SAME(name ".bias")
#define LAYOUT_FROM2(name, key)                                                                  \
    LAYOUT_FROM(name ".weight", key ".weight"), LAYOUT_FROM(name ".bias", key ".bias")
#define LAYOUT_MUST2(name, key) LAYOUT_WHEN2(name, key, LAYOUT_REQUIRED)
#define LAYOUT_MUST_WHEN2(name, key, condition)                                                  \
    LAYOUT_MUST_WHEN(name ".weight", key ".weight", condition),                                  \
    LAYOUT_MUST_WHEN(name ".bias", key ".bias", condition)
#define LAYOUT_WHEN2(name, key, condition)                                                       \
    LAYOUT_WHEN(name ".weight", key ".weight", condition),                                       \
    LAYOUT_WHEN(name ".bias", key ".bias", condition)
#define LAYOUT_QKV(q, k, v)                                                                      \
    LAYOUT_ROWS3("{b}attn.qkv.weight", NULL, q ".weight", k ".weight", v ".weight"),             \
    LAYOUT_ROWS3("{b}attn.qkv.bias", NULL, q ".bias", k ".bias", v ".bias")
/* A convolution and the batch norm behind it. */
#define LAYOUT_CONV_BN(name, conv, bn)                                                           \
    { name ".weight", LAYOUT_BATCH_NORM, NULL,                                                   \
      { conv ".weight", bn ".weight", bn ".running_var" }, LAYOUT_ALWAYS },                      \
    { name ".bias", LAYOUT_BATCH_SHIFT, NULL,                                                    \
      { bn ".running_mean", bn ".weight", bn ".running_var", bn ".bias" }, LAYOUT_ALWAYS }
#define LAYOUT_END { NULL, LAYOUT_STACK, NULL, { LAYOUT_NONE }, LAYOUT_ALWAYS }

/* Tensors outside the rules: what they mean, or why they do not matter. */
typedef struct layout_extra {
    const char *pattern;   /* as of a shell; "../" at the start: outside the prefix */
    const char *meaning;
} layout_extra;

/* What the library does where nothing else says so: "norm_eps=1e-12". */
typedef struct layout_default {
    const char *assignment;
    const char *when;      /* a condition, or NULL */
} layout_default;

/* What neither the tensors nor the library say, so that somebody must. */
typedef struct layout_question {
    setting_key setting;
    const char *options;   /* "--set activation=gelu or --set activation=quick_gelu" */
    const char *when;      /* as above */
} layout_question;

typedef struct layout {
    const char *name;
    const char *probe;             /* a key that only this layout has ... */
    const char *when[LAYOUT_MAX_CONDITIONS];   /* ... together with these conditions */
    const char *const *prefixes;   /* what wrappers put before every key, "*.": anything; to NULL */
    const char *const *blocks;     /* paths of a block; ends with NULL */
    const layout_rule *rules;      /* ends with LAYOUT_END */
    /* Each ends with an entry of NULL, or is NULL. */
    const layout_extra *harmless;         /* dropped without a word */
    const layout_extra *lacking;          /* what this version of vit.h cannot run */
    const layout_default *defaults;
    const layout_question *questions;
} layout;

/* All of them, in the order in which they are tried; ends with NULL. */
extern const layout *const layout_all[];

/* "[192, 3, 16, 16]" */
const char *layout_shape(const int64_t *dims, int ndim, char *text, size_t size);

#endif
