/* layout.h - describes how a library names and shapes the tensors of a vision transformer. A layout
 * is a table (tables*.c); the end of this file explains how to add one. A feature needs code only
 * if no method, slice or order of axes below can express it.
 *
 * Keys. A rule names the keys of the checkpoint that make up one tensor of the .vit file:
 *     {b}     at the start: the block's path, which is "blocks.{i}." in the .vit file and one of
 *             layout->blocks in the checkpoint. In a path {i} is the block's number n, {c} is any
 *             number (a chunk of blocks), {e} is 2 n, and {o} is 2 n + 1. If a path has neither
 *             {i} nor {e}, all blocks are stacked in one tensor.
 *     {s} {u} stage and block of a convolutional stem, counted from 0; {S} and {U} count from 1
 *     ../     at the start, once or twice: a level above the prefix, for example for a classifier
 *             beside "vit."
 *     #k/n    at the end: piece k, from 0, of n equal pieces of the first dimension that is not 1
 *     @a @a: @:a   at the end: row a of the same dimension, all rows from a on, or all before a.
 *             "2d" stands for two times embed_dim, and a negative number counts from the end. "@,"
 *             slices the next dimension, and "@,," slices the dimension after the next
 *     0       as the whole key: a part of zeros, with as many rows as each other part has. Such a
 *             part cannot be the first or the last one
 *
 * Axes. "source>file" names the dimensions of a part, one letter each. Dimensions that the
 * checkpoint stores as one dimension are in brackets. The letters after the '>' have the order of
 * the .vit file. For example, "io>oi" transposes a matrix, and "d(pqc)>dcpq" is a linear layer over
 * channels-last pixels. p and q are the sides of a patch, c its channels, h the heads, k the width
 * of a head, and z the three of query, key and value. The tensor gives the size of any other
 * letter. "(patch)" stands for a patch's values in an order that a setting must give. If the axes
 * of another rule show the order, the setting patch_order can still overrule them.
 *
 * A condition is a key that must exist, or "!key" for a key that must not exist. For defaults and
 * questions, a condition may also be ":tensor", a tensor of the .vit file that some rule makes.
 * Conditions of a layout, its defaults and its questions refer to the first block.
 *
 * tools/layout owns the layouts, a table each: a library's names and shapes of tensors, and the
 * values of each .vit tensor; it may include base checkpoint model.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "model/settings.h"
#define VIT_TOOLS
#include "vit.h"

/* X(METHOD, fewest parts, most parts) lists the methods that make a tensor from its parts. To add a
 * method, add a line here, the shapes of its parts in plan.c's parts_fit, and its values in
 * values.c's read_item; the compiler reports a switch without the new method.
 * tests/test_layout_tables.c checks the number of parts of each rule. */
#define LAYOUT_METHODS(X)                                                                          \
    X(STACK, 1, 4)       /* the parts, one below the other */                                      \
    X(SUM, 1, 4)         /* the sum of the parts; a single part loses its dimensions of 1 */       \
    X(PRODUCT, 2, 4)     /* the product of the parts, element by element */                        \
    X(OUTER, 2, 2)       /* every row of parts[0] plus every row of parts[1]: a grid */            \
    X(LINEAR, 2, 3)      /* parts[1] parts[0] + parts[2]: a linear layer applied to a constant */  \
    X(STANDARD, 1, 1)    /* each row minus its mean, divided by its deviation */                   \
    X(BATCH_NORM, 3, 3)  /* a weight and the norm after it: each row of parts[0] times */          \
                         /* parts[1] / sqrt(parts[2] + 1e-5), the norm's weight and variance */    \
    X(BATCH_SHIFT, 4, 4) /* the bias for BATCH_NORM; parts: mean, weight, variance, bias */        \
    X(ZERO, 0, 0)        /* a tensor of zeros */                                                   \
    X(IDENTITY, 0, 0)    /* ones on the diagonal, or a vector of ones: an omitted layer */         \
    X(GROUPED, 3, 3)     /* query, key, value; neighbouring heads share a key and value head */    \
    X(NARROW, 1, 5)      /* attention pooling narrower than the tokens; zeros fill the rest */     \
    X(REL_POS, 1, 1)     /* relative positions: query minus key becomes key minus query */         \
    X(REL_POS_MLP, 4, 4) /* relative positions computed by two layers: their weights and biases */ \
    X(COS, 0, 1)         /* cosines of rotary positions, from the settings or parts[0] */          \
    X(SIN, 0, 1)         /* sines of rotary positions; parts[0]: periods or frequencies */         \
    X(ROTATIONS, 0, 1)   /* the data that COS and SIN use, for other input sizes at run time */    \
    X(LAMBDA, 4, 4)      /* exp(parts[0] parts[1]) - exp(parts[2] parts[3]) + lambda_init ... */   \
    X(LESS_LAMBDA, 1, 1) /* parts[0] (1 - lambda_init), for differential attention */

typedef enum layout_method {
#define X(name, least, most) LAYOUT_##name,
    LAYOUT_METHODS(X)
#undef X
} layout_method;

enum { LAYOUT_MAX_PARTS = 5, LAYOUT_MAX_CONDITIONS = 4 };

/* A rule describes how to make one tensor of the .vit file. Several rules may make the same tensor.
 * The first rule whose parts all exist and whose conditions hold applies. */
typedef struct layout_rule {
    const char *tensor; /* name of the tensor in the .vit file */
    layout_method method;
    const char *axes; /* see "Axes" above; NULL if the parts are stored as in the .vit file */
    /* The keys of the parts in the checkpoint; NULL after the last key. */
    const char *parts[LAYOUT_MAX_PARTS];
    /* Conditions that must all hold; NULL after the last condition. */
    const char *when[LAYOUT_MAX_CONDITIONS];
} layout_rule;

/* A rule with this condition makes a tensor that every model of the library has, if the other
 * conditions of the rule hold. */
#define LAYOUT_REQUIRED "!"

#define LAYOUT_NONE NULL, NULL, NULL, NULL
#define LAYOUT_ALWAYS                                                                              \
    { NULL, NULL }
/* LAYOUT_SAME copies a tensor under the same name. LAYOUT_FROM copies it from another key, and
 * LAYOUT_WHEN does so only if the condition holds. */
#define LAYOUT_SAME(name)                                                                          \
    { name, LAYOUT_STACK, NULL, { name, NULL, NULL }, LAYOUT_ALWAYS }
#define LAYOUT_FROM(name, key)                                                                     \
    { name, LAYOUT_STACK, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS }
#define LAYOUT_WHEN(name, key, condition)                                                          \
    {                                                                                              \
        name, LAYOUT_STACK, NULL, { key, NULL, NULL }, { condition, NULL }                         \
    }
/* The same as LAYOUT_FROM, but the checkpoint is incomplete without this tensor. */
#define LAYOUT_MUST(name, key) LAYOUT_WHEN(name, key, LAYOUT_REQUIRED)
#define LAYOUT_MUST_WHEN(name, key, condition)                                                     \
    {                                                                                              \
        name, LAYOUT_STACK, NULL, { key, NULL, NULL }, { LAYOUT_REQUIRED, condition }              \
    }
/* Makes preprocessing squash images to the input's size by default, like torchvision's Resize((N,
 * N)). */
#define LAYOUT_SQUASHED                                                                            \
    { "crop_mode=squash", NULL }, { "crop_pct=1", NULL }, { "interpolation=bilinear", NULL }
/* Makes a tensor from a key with named axes. */
#define LAYOUT_VIEW(name, key, axes)                                                               \
    { name, LAYOUT_STACK, axes, { key, NULL, NULL }, LAYOUT_ALWAYS }
#define LAYOUT_ROWS2(name, axes, a, b)                                                             \
    { name, LAYOUT_STACK, axes, { a, b, NULL }, LAYOUT_ALWAYS }
#define LAYOUT_ROWS3(name, axes, a, b, c)                                                          \
    { name, LAYOUT_STACK, axes, { a, b, c }, LAYOUT_ALWAYS }
#define LAYOUT_ZEROS(name, condition)                                                              \
    {                                                                                              \
        name, LAYOUT_ZERO, NULL, { LAYOUT_NONE }, { condition, NULL }                              \
    }
/* Makes an MLP that adds 0, with one hidden unit, for attention pooling without an MLP. The
 * layout's defaults must contain "pool_mlp_dim=1". */
#define LAYOUT_POOL_WITHOUT_MLP(condition)                                                         \
    { "attn_pool.norm.weight", LAYOUT_IDENTITY, NULL, { LAYOUT_NONE }, { condition, NULL } },      \
        LAYOUT_ZEROS("attn_pool.mlp.fc1.weight", condition),                                       \
        LAYOUT_ZEROS("attn_pool.mlp.fc1.bias", condition),                                         \
        LAYOUT_ZEROS("attn_pool.mlp.fc2.weight", condition),                                       \
        LAYOUT_ZEROS("attn_pool.mlp.fc2.bias", condition)
/* Makes tables of rotary positions from the settings, or takes them from the checkpoint. */
#define LAYOUT_ROPE(name, key)                                                                     \
    { name ".cos", LAYOUT_COS, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS },                         \
        { name ".sin", LAYOUT_SIN, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS }, {                   \
        name ".rotations", LAYOUT_ROTATIONS, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS              \
    }
/* Copies the weight and the bias of a linear layer or a norm. */
#define LAYOUT_SAME2(name) LAYOUT_SAME(name ".weight"), LAYOUT_SAME(name ".bias")
#define LAYOUT_FROM2(name, key)                                                                    \
    LAYOUT_FROM(name ".weight", key ".weight"), LAYOUT_FROM(name ".bias", key ".bias")
#define LAYOUT_MUST2(name, key) LAYOUT_WHEN2(name, key, LAYOUT_REQUIRED)
#define LAYOUT_MUST_WHEN2(name, key, condition)                                                    \
    LAYOUT_MUST_WHEN(name ".weight", key ".weight", condition),                                    \
        LAYOUT_MUST_WHEN(name ".bias", key ".bias", condition)
#define LAYOUT_WHEN2(name, key, condition)                                                         \
    LAYOUT_WHEN(name ".weight", key ".weight", condition),                                         \
        LAYOUT_WHEN(name ".bias", key ".bias", condition)
#define LAYOUT_QKV(q, k, v)                                                                        \
    LAYOUT_ROWS3("{b}attn.qkv.weight", NULL, q ".weight", k ".weight", v ".weight"),               \
        LAYOUT_ROWS3("{b}attn.qkv.bias", NULL, q ".bias", k ".bias", v ".bias")
/* Joins a convolution with the batch norm after it. */
#define LAYOUT_CONV_BN(name, conv, bn)                                                             \
    { name ".weight",                                                                              \
      LAYOUT_BATCH_NORM,                                                                           \
      NULL,                                                                                        \
      { conv ".weight", bn ".weight", bn ".running_var" },                                         \
      LAYOUT_ALWAYS },                                                                             \
    {                                                                                              \
        name ".bias", LAYOUT_BATCH_SHIFT, NULL,                                                    \
            { bn ".running_mean", bn ".weight", bn ".running_var", bn ".bias" }, LAYOUT_ALWAYS     \
    }
#define LAYOUT_END                                                                                 \
    { NULL, LAYOUT_STACK, NULL, { LAYOUT_NONE }, LAYOUT_ALWAYS }

/* A tensor that no rule reads. `meaning` names the tensor's purpose, or the reason why it has no
 * effect. */
typedef struct layout_extra {
    /* Shell pattern for names of tensors. With "../" at the start, the tensors are outside the
     * prefix. */
    const char *pattern;
    const char *meaning;
} layout_extra;

/* Tensors that have no effect if the tensor `beside` exists. For example, a table of words shows
 * that the tensors belong to a text encoder. */
typedef struct layout_company {
    const char *pattern, *beside; /* a pattern as in layout_extra; a key */
    const char *meaning;
} layout_company;

/* A default value of the library's models. */
typedef struct layout_default {
    const char *assignment; /* a setting and its value, such as "norm_eps=1e-12" */
    const char *when;       /* condition for the default; NULL if the default always applies */
} layout_default;

/* A setting that the tensors never show, so only the user can give it. */
typedef struct layout_question {
    setting_key setting;
    /* Options that answer the question: "--set activation=gelu or --set activation=quick_gelu". */
    const char *options;
    const char *when; /* condition for the question; NULL if the question always applies */
} layout_question;

typedef struct layout {
    const char *name;  /* name of the layout in messages */
    const char *probe; /* a key that identifies this layout if the conditions in `when` also hold */
    const char *when[LAYOUT_MAX_CONDITIONS];
    /* The prefixes that wrappers put before every key; "*." stands for any prefix. Ends with
     * NULL. */
    const char *const *prefixes;
    const char *const *blocks; /* the possible paths of a block; ends with NULL */
    const layout_rule *rules;  /* ends with LAYOUT_END */
    /* True if hand-written code also uses the names of this layout. Settings that the tensors do
     * not show then become assumptions. */
    bool is_open;
    /* Each of these lists is NULL or ends with an entry of NULL. */
    const layout_extra *harmless;  /* tensors that have no effect and are dropped */
    const layout_company *company; /* tensors that have no effect if other tensors exist */
    const layout_extra *lacking;   /* tensors of features that this version of vit.h cannot run */
    const layout_default *defaults;
    const layout_question *questions;
} layout;

/* All layouts, in the order in which they are tried; ends with NULL. */
extern const layout *const layout_all[];

/* The layouts of text encoders that a checkpoint may have beside an image encoder. Ends with
 * NULL. */
extern const layout *const layout_texts[];

/* The layouts to which structure_*.c maps its results: hand-written blocks, torch.nn's encoder
 * layers under other names, and widely copied code. No key identifies such checkpoints, so
 * layout_all does not contain these layouts. */
extern const layout layout_own, layout_own_torch, layout_own_dense, layout_own_lecture,
    layout_own_numpy;

/* === All layouts, one table each ===
 *
 * To add a layout:
 *   1. Write its table (prefixes, paths of a block, rules, defaults, questions): in tables.c for
 *      timm and transformers, in tables_published.c for other code with published weights, in
 *      tables_own.c for code that people copy.
 *   2. Add its name to LAYOUT_LIST, above each layout whose probe also occurs in checkpoints of
 *      the new layout.
 *   3. In tests/make_layouts.py, add a checkpoint, and a "twin": a checkpoint with the same
 *      weights under the names of a .vit file. Run the script, which writes tests/data/layouts.
 *   4. Add its name to the list of convertible models in README.md.
 * tests/test_layout_tables.c reads every table, and reports errors of step 1 and omissions of step
 * 3. tests/test_layouts.sh reports omissions of step 2, and converts every checkpoint of step 3. */

/* The web page's converter omits GGUF to stay small; left_out.c refuses such files. */
#ifdef __wasi__
#define LAYOUT_GGUF(X)
#else
#define LAYOUT_GGUF(X) X(qwen_gguf) X(llama_cpp)
#endif

/* Layouts are tried in this order. If two layouts could match, the layout with the rarer key comes
 * first. */
/* clang-format off */
#define LAYOUT_LIST(X)                                                                           \
    X(torch_nn) X(torch_nn_list)                                                                 \
    X(qwen_vl) X(timm) X(timm_conv) X(timm_naflex)                                               \
    X(hf_vit) X(hf_dinov2) X(hf_dinov3) X(hf_clip) X(hf_siglip) X(hf_aimv2) LAYOUT_GGUF(X)       \
    X(torchvision)                                                                               \
    X(pe) X(open_clip) X(pe_core)                                                                \
    X(jax)                                                                                       \
    X(lucidrains) X(simple_vit) X(lucidrains_2020) X(lucidrains_first)                           \
    X(aimv2) X(radio) X(sapiens2) X(nomic) X(vjepa2)                                             \
    X(beit3)                                                                                     \
    X(mobileclip)                                                                                \
    X(einops) X(replica) X(notebook)
/* clang-format on */

#define X(name) extern const layout layout_##name;
LAYOUT_LIST(X)
#undef X
extern const layout layout_hf_text, layout_open_clip_text, layout_mobileclip_text;

/* Prefixes that training scripts put in front of a model, for layouts without their own
 * prefixes. */
extern const char *const layout_wrappers[];

#endif
