#include "image/crop.h"

#include <math.h>
#include <stdint.h>

/* The resized photo. */
typedef struct extent {
    int64_t width, height;
} extent;

/* As vit_preprocess, whose results tests/test_crop.c holds against these. */
static int64_t round_half_even(double x)
{
    const double floor_x = floor(x), rest = x - floor_x;
    const int64_t down = (int64_t)floor_x;
    return rest > 0.5 || (rest == 0.5 && down % 2 != 0) ? down + 1 : down;
}

static int64_t offset_of(const vit_config *config, int64_t resized, int size)
{
    const int down = config->crop_rounding == VIT_ROUND_DOWN;
    if (size > resized) return -((size - resized + down) / 2);
    return down ? (resized - size) / 2 : round_half_even((double)(resized - size) / 2);
}

static extent keep_ratio(const vit_config *config, int width, int height)
{
    const double down_h = (double)height / config->resize_height;
    const double down_w = (double)width / config->resize_width;
    const bool smaller = config->crop_mode == VIT_CROP_CENTER;
    const double ratio = (down_h < down_w) == smaller ? down_h : down_w;
    extent found = { round_half_even(width / ratio), round_half_even(height / ratio) };
    if (found.width < 1) found.width = 1;
    if (found.height < 1) found.height = 1;
    return found;
}

static extent resized_size(const vit_config *config, int width, int height)
{
    extent found = { config->resize_width, config->resize_height };
    if (config->crop_mode == VIT_CROP_BORDER ||
        (config->crop_mode == VIT_CROP_CENTER && found.width != found.height))
        return keep_ratio(config, width, height);
    if (config->crop_mode == VIT_CROP_CENTER && width <= height)
        found.height = found.height * height / width;
    else if (config->crop_mode == VIT_CROP_CENTER)
        found.width = found.width * width / height;
    return found;
}

/* Input pixels for a pixel of the map that a stem makes of the input. */
static int stem_stride(const vit_config *config)
{
    const int blocks[] = { config->stem_stage1, config->stem_stage2, config->stem_stage3,
                           config->stem_stage4 };
    int stages = 0;
    if (config->stem == VIT_STEM_NONE) return 1;
    if (config->stem == VIT_STEM_CONV) return 8;
    while (stages < 4 && blocks[stages] > 0) stages++;
    return stages < 2 ? 4 : 2 << stages;
}

static int covered(int size, int patches, int step, int patch)
{
    const int end = (patches - 1) * step + patch;
    return end < size ? end : size;
}

bool crop_find(crop *c, const vit_config *config, int width, int height, report *r)
{
    const int stride = stem_stride(config), patch = config->patch_size * stride;
    const extent photo = resized_size(config, width, height);
    if (config->patch_cut != VIT_CUT_SQUARES)
        return report_fail(r, "the patches of this model are not squares of the photo");
    c->photo_width = width;
    c->photo_height = height;
    c->across = (double)photo.width / width;
    c->down = (double)photo.height / height;
    c->left = (double)offset_of(config, photo.width, config->img_width);
    c->top = (double)offset_of(config, photo.height, config->img_height);
    c->width = config->img_width;
    c->height = config->img_height;
    c->rows = config->grid_height;
    c->columns = config->grid_width;
    c->step = config->patch_stride ? config->patch_stride * stride : patch;
    c->covered_x = covered(c->width, c->columns, c->step, patch);
    c->covered_y = covered(c->height, c->rows, c->step, patch);
    c->margin = (patch - c->step) / 2.0;
    return true;
}

static int clamp(double value, int count)
{
    return value < 0 ? 0 : value < count ? (int)value : count - 1;
}

int crop_patch(const crop *c, double x, double y)
{
    const double input_x = x * c->across - c->left, input_y = y * c->down - c->top;
    if (input_x < 0 || input_y < 0 || input_x >= c->covered_x || input_y >= c->covered_y)
        return -1;
    return clamp((input_y - c->margin) / c->step, c->rows) * c->columns +
           clamp((input_x - c->margin) / c->step, c->columns);
}

static double between(double value, double high)
{
    return value < 0 ? 0 : value < high ? value : high;
}

void crop_seen(const crop *c, double seen[4])
{
    seen[0] = between(c->left / c->across, c->photo_width);
    seen[1] = between(c->top / c->down, c->photo_height);
    seen[2] = between((c->left + c->width) / c->across, c->photo_width);
    seen[3] = between((c->top + c->height) / c->down, c->photo_height);
}
