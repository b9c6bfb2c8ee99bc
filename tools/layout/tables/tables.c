#include "layout/tables/tables.h"

/* Where two could match, the one with the rarer key goes first. */
const layout *const layout_all[] = {
    &layout_torch_nn, &layout_torch_nn_list, &layout_timm, &layout_timm_conv, &layout_hf_vit,
    &layout_hf_dinov2, &layout_hf_dinov3, &layout_hf_clip, &layout_hf_siglip, &layout_hf_aimv2,
    &layout_torchvision, &layout_pe, &layout_open_clip, &layout_pe_core, &layout_jax,
    &layout_lucidrains, &layout_simple_vit, &layout_lucidrains_first, &layout_aimv2,
    &layout_beit3, &layout_mobileclip, &layout_einops, &layout_replica, &layout_notebook, NULL
};
