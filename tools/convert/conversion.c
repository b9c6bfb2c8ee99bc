#include "convert/conversion.h"

photo_list *conversion_photos(conversion *c)
{
    return c->photos.count > 0 ? &c->photos : &c->calibration;
}

/* Narrow models have little to average rounding errors over, and are small: unless told otherwise,
 * int8 spares their first two blocks and the head, except attn.proj, whose input in 8 bits is what
 * keeps the workspace of low_memory small. */
vit_writer_keep conversion_kept(const conversion *c)
{
    static const char *const narrow[] = { "blocks.[01].attn.qkv.*", "blocks.[01].mlp.*",
                                          "head.weight" };
    const convert_options *o = c->options;
    vit_writer_keep keep;
    const bool by_default = o->keep.count == 0 && o->dtype == VIT_I8 &&
                            c->model.config.embed_dim <= 256;
    keep.patterns = by_default ? narrow : o->keep.items;
    keep.count = by_default ? (int)(sizeof narrow / sizeof *narrow) : o->keep.count;
    return keep;
}

bool conversion_allows_nonfinite(const conversion *c)
{
    return c->all[FROM_OPTIONS].value[SETTING_ALLOW_NONFINITE] != 0;
}
