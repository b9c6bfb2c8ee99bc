#include "image/crop.h"

/* Returns the stride of the stem along one side: the number of input pixels that one pixel of the
 * stem's output covers. */
static int stem_stride(const vit_config *config) {
    const int blocks[] = { config->stem_stage1, config->stem_stage2, config->stem_stage3,
                           config->stem_stage4 };
    int stages = 0;
    if (config->stem == VIT_STEM_NONE) return 1;
    if (config->stem == VIT_STEM_CONV) return 8;
    while (stages < 4 && blocks[stages] > 0) stages++;
    return stages < 2 ? 4 : 2 << stages;
}

static int covered(int size, int patches, int step, int patch) {
    const int end = (patches - 1) * step + patch;
    return end < size ? end : size;
}

bool crop_find(crop *c, const vit_config *config, int width, int height, report *r) {
    const int stride = stem_stride(config), patch = config->patch_size * stride;
    vit_crop found;
    if (config->patch_cut != VIT_CUT_SQUARES)
        return report_fail(r, "the patches of this model are not squares of the photo");
    c->photo_width = width;
    c->photo_height = height;
    vit_find_crop(config, width, height, &found);
    c->across = (double)found.width / width;
    c->down = (double)found.height / height;
    c->left = (double)found.left;
    c->top = (double)found.top;
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

static int clamp(double value, int count) {
    return value < 0 ? 0 : value < count ? (int)value : count - 1;
}

int crop_patch(const crop *c, double x, double y) {
    const double input_x = x * c->across - c->left, input_y = y * c->down - c->top;
    if (input_x < 0 || input_y < 0 || input_x >= c->covered_x || input_y >= c->covered_y) return -1;
    return clamp((input_y - c->margin) / c->step, c->rows) * c->columns +
           clamp((input_x - c->margin) / c->step, c->columns);
}

static double between(double value, double high) {
    return value < 0 ? 0 : value < high ? value : high;
}

void crop_seen(const crop *c, double seen[4]) {
    seen[0] = between(c->left / c->across, c->photo_width);
    seen[1] = between(c->top / c->down, c->photo_height);
    seen[2] = between((c->left + c->width) / c->across, c->photo_width);
    seen[3] = between((c->top + c->height) / c->down, c->photo_height);
}
