#include "convert/conversion.h"

photo_list *conversion_photos(conversion *c)
{
    return c->photos.count > 0 ? &c->photos : &c->calibration;
}

vit_writer_keep conversion_kept(const conversion *c)
{
    const convert_options *o = c->options;
    const vit_writer_keep asked = { o->keep.items, o->keep.count };
    return asked.count ? asked : vit_writer_kept(&c->model.config, o->dtype);
}

bool conversion_allows_nonfinite(const conversion *c)
{
    return c->all[FROM_OPTIONS].value[SETTING_ALLOW_NONFINITE] != 0;
}
