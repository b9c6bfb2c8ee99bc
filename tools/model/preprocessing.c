#include "model/preprocessing.h"

#include <math.h>

/* Value of a channel that was made from those of the checkpoint, as its weights were. */
static double adapted_value(const double *values, int count, int chans, int channel)
{
    double sum = 0;
    int i;
    if (chans > 1) return values[channel % count];
    for (i = 0; i < count; i++) sum += values[i];
    return sum / count;
}

/* mean or std, for each channel of the file: told for these, for the checkpoint's, or one for all.
 * A name stands for three channels: any number of others may have its values if they are equal. */
static bool resolve_vector(const settings all[FROM_COUNT], bool is_std, int stored_chans, int chans,
                           float *out, report *r)
{
    const char *name = is_std ? "std" : "mean";
    int from = FROM_COUNT - 1, i, count;
    const double *values;
    bool equal = true;
    while (from >= 0 && (is_std ? all[from].std_count : all[from].mean_count) == 0) from--;
    for (i = 0; i < VIT_MAX_CHANS; i++) out[i] = 0.5f; /* timm's default for a ViT */
    if (from < 0) return true;
    count = is_std ? all[from].std_count : all[from].mean_count;
    values = is_std ? all[from].std : all[from].mean;
    for (i = 1; i < count; i++) equal = equal && values[i] == values[0];
    if (count != chans && count != stored_chans && count != 1 && !(equal && from == FROM_NAME))
        return report_fail(r, "%s gives %d values of %s for in_chans %d; give --set %s=...",
                           all[from].origin, count, name, chans, name);
    for (i = 0; i < chans; i++) {
        double value = values[0];
        if (count == chans) value = values[i];
        else if (count == stored_chans) value = adapted_value(values, count, chans, i);
        if (is_std && !(value > 0))
            return report_fail(r, "%s std %.9g is not above 0", all[from].origin, value);
        out[i] = (float)value;
    }
    return true;
}

/* A model whose input size may change needs the size before the crop to follow from it. timm gives
 * crop_pct in a few decimals; with any other number vit.h keeps the proportion of both sizes. */
static float kept_crop_pct(const settings all[FROM_COUNT], const vit_config *c, double crop_pct)
{
    const bool told = settings_origin(all, SETTING_RESIZE_HEIGHT) >= 0 ||
                      settings_origin(all, SETTING_RESIZE_WIDTH) >= 0;
    const bool is_short = fabs(floor(crop_pct * 1e6 + 0.5) / 1e6 - crop_pct) < 1e-9;
    return c->dynamic_img_size && !told && is_short ? (float)crop_pct : 0;
}

bool preprocessing_resolve(const settings all[FROM_COUNT], int stored_chans, vit_config *c,
                           report *r)
{
    double crop_pct = setting_rows[SETTING_CROP_PCT].plain, height, width;
    settings_get(all, SETTING_CROP_PCT, &crop_pct);
    if (!(crop_pct > 0 && crop_pct <= 4))
        return report_fail(r, "crop_pct %.9g is not in (0, 4]", crop_pct);
    height = floor(c->img_height / crop_pct);
    width = floor(c->img_width / crop_pct);
    settings_get(all, SETTING_RESIZE_HEIGHT, &height);
    settings_get(all, SETTING_RESIZE_WIDTH, &width);
    c->crop_pct = kept_crop_pct(all, c, crop_pct);
    return setting_put_whole(SETTING_RESIZE_HEIGHT, height, c, r) &&
           setting_put_whole(SETTING_RESIZE_WIDTH, width, c, r) &&
           resolve_vector(all, false, stored_chans, c->in_chans, c->mean, r) &&
           resolve_vector(all, true, stored_chans, c->in_chans, c->std, r);
}
