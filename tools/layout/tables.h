/* tables.h - the layouts, one table each.
 *
 * To add a layout:
 *   1. Write its table (prefixes, paths of a block, rules, defaults, questions): in tables.c for
 *      timm and transformers, in tables_published.c for other code with published weights, in
 *      tables_own.c for code that people copy. layout.h has the grammar.
 *   2. Name it in LAYOUT_LIST, above every layout whose probe its checkpoints also have.
 *   3. Give it a checkpoint, and a twin with the same weights under the names of a .vit file, in
 *      tests/make_layouts.py, and run that: it writes tests/data/layouts.
 *   4. Add its name to the list of convertible models in README.md.
 * tests/test_layout_tables.c reads every table and names errors of step 1 and omissions of step 3;
 * tests/test_layouts.sh names omissions of step 2, and converts every checkpoint of step 3.
 */
#ifndef TABLES_H
#define TABLES_H

#include "layout/layout.h"

/* In the order in which they are tried: if two could match, the one with the rarer key comes
 * first. */
/* clang-format off */
#define LAYOUT_LIST(X)                                                                           \
    X(torch_nn) X(torch_nn_list)                                                                 \
    X(timm) X(timm_conv)                                                                         \
    X(hf_vit) X(hf_dinov2) X(hf_dinov3) X(hf_clip) X(hf_siglip) X(hf_aimv2)                      \
    X(torchvision)                                                                               \
    X(pe) X(open_clip) X(pe_core)                                                                \
    X(jax)                                                                                       \
    X(lucidrains) X(simple_vit) X(lucidrains_2020) X(lucidrains_first)                           \
    X(aimv2)                                                                                     \
    X(beit3)                                                                                     \
    X(mobileclip)                                                                                \
    X(einops) X(replica) X(notebook)
/* clang-format on */

#define X(name) extern const layout layout_##name;
LAYOUT_LIST(X)
#undef X
extern const layout layout_hf_text, layout_open_clip_text, layout_mobileclip_text;

/* Prefixes that training scripts put in front of a model, for layouts without their own. */
extern const char *const layout_wrappers[];

#endif
