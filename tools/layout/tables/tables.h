/* tables.h - the layouts, one table each. To add one: write its table, declare it here, and
 * add it to the list in tables.c and to tests/make_layouts.py.
 */
#ifndef TABLES_H
#define TABLES_H

#include "layout/layout.h"

extern const layout layout_timm, layout_timm_conv;
extern const layout layout_hf_vit, layout_hf_dinov2, layout_hf_dinov3, layout_hf_clip;
extern const layout layout_hf_siglip, layout_hf_aimv2;
extern const layout layout_torchvision, layout_torch_nn, layout_torch_nn_list;
extern const layout layout_lucidrains, layout_simple_vit;
extern const layout layout_einops, layout_replica, layout_notebook;
extern const layout layout_open_clip, layout_pe_core, layout_pe;
extern const layout layout_jax;
extern const layout layout_aimv2, layout_beit3, layout_mobileclip;
/* Recognised only to be refused by its name. */
extern const layout layout_lucidrains_first;

#endif
