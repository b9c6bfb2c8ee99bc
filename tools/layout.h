/* layout.h - how a library names and shapes the tensors of a vision transformer, and where each
 * tensor of a .vit file comes from. A layout is a table; adding one adds no code unless it needs
 * a transform that does not exist yet.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include "../vit.h"
#include "checkpoint.h"
#include "cli.h"
#include "settings.h"

typedef enum layout_transform {
    LAYOUT_COPY,        /* same shape, same order */
    LAYOUT_PATCH,       /* also as a matrix [D, C * P * P], channels first */
    LAYOUT_POSITIONS    /* rows of the patches resampled where the grid differs */
} layout_transform;

/* tensor is the name in the .vit file, source the key in the checkpoint; "{i}" is the block. */
typedef struct layout_rule {
    const char *tensor, *source;
    layout_transform transform;
} layout_rule;

/* Tensors outside the rules: what they mean, or why they do not matter. */
typedef struct layout_extra {
    const char *pattern;   /* as of a shell */
    const char *meaning;
} layout_extra;

typedef struct layout {
    const char *name;
    const char *probe;             /* a key that only this layout has */
    const char *const *prefixes;   /* what wrappers put before every key; ends with NULL */
    const layout_rule *rules;      /* ends with a NULL tensor */
    const layout_extra *harmless;  /* dropped without a word */
    const layout_extra *lacking;   /* what this version of vit.h cannot run */
} layout;

/* A checkpoint seen through its layout. */
typedef struct layout_map {
    const layout *layout;
    checkpoint *checkpoint;
    char prefix[128];              /* stripped from every key, e.g. "module." */
} layout_map;

/* Where one tensor of the .vit file comes from. */
typedef struct layout_item {
    vit_tensor tensor;                     /* name and dims wanted */
    const checkpoint_tensor_info *info;    /* NULL for those that the converter makes itself */
    layout_transform transform;
} layout_item;

/* Everything the file consists of, in its order. */
typedef struct layout_plan {
    layout_item *items;
    size_t count;
    const char **ignored;          /* keys dropped: harmless, or named by --ignore */
    size_t ignored_count;
} layout_plan;

/* Finds the layout and the prefix. */
bool layout_detect(checkpoint *c, layout_map *map, report *r);

/* Refuses a tensor, unless --ignore names it, that means something which vit.h cannot run. */
bool layout_check_features(const layout_map *map, const cli_list *ignore, report *r);

/* What the tensors themselves say. */
bool layout_inspect(const layout_map *map, settings *s, settings_facts *facts, report *r);

/* Assigns every tensor of the architecture its source and checks shapes; then every tensor of
 * the checkpoint must have been used, be harmless, or match a pattern of `ignore`. */
bool layout_make_plan(const layout_map *map, const vit_config *config, vit_dtype dtype,
                      const settings_facts *facts, const cli_list *ignore, layout_plan *plan,
                      report *r);
void layout_free_plan(layout_plan *plan);

/* "[192, 3, 16, 16]" */
const char *layout_shape(const int64_t *dims, int ndim, char *text, size_t size);

#endif
