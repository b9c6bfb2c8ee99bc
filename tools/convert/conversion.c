#include "convert/conversion.h"

photo_list *conversion_photos(conversion *c)
{
    return c->photos.count > 0 ? &c->photos : &c->calibration;
}

/* Narrow models have little to average rounding errors over, and are small: unless told otherwise,
 * some tensors are spared. In int8 these are the first two blocks and the head, except attn.proj,
 * whose input in 8 bits is what keeps the workspace of low_memory small. */
vit_writer_keep conversion_kept(const conversion *c)
{
    static const char *const int8[] = { "blocks.[01].attn.qkv.*", "blocks.[01].mlp.*",
                                        "head.weight" };
    static const char *const int4[] = { "blocks.0.*", "blocks.*.attn.*" };
    const convert_options *o = c->options;
    const bool by_default = o->keep.count == 0 && c->model.config.embed_dim <= 256;
    vit_writer_keep keep;
    keep.patterns = o->keep.items;
    keep.count = o->keep.count;
    if (by_default && o->dtype == VIT_I8) {
        keep.patterns = int8;
        keep.count = (int)(sizeof int8 / sizeof *int8);
    } else if (by_default && o->dtype == VIT_I4) {
        keep.patterns = int4;
        keep.count = (int)(sizeof int4 / sizeof *int4);
    }
    return keep;
}

bool conversion_allows_nonfinite(const conversion *c)
{
    return c->all[FROM_OPTIONS].value[SETTING_ALLOW_NONFINITE] != 0;
}
