#include "picture/grids.h"

#include <math.h>
#include <stddef.h>

bool grids_range(const float *values, size_t count, double range[2])
{
    bool any = false;
    range[0] = range[1] = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = (double)values[i];
        if (isnan(value)) continue;
        if (!any || value < range[0]) range[0] = value;
        if (!any || value > range[1]) range[1] = value;
        any = true;
    }
    return any;
}

double grids_share(double value, const double range[2])
{
    return range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : 0.5;
}

/* One small grid, a square of `scale` pixels for each value. */
static void draw_grid(picture *p, int x, int y, const float *values, vit_grid grid,
                      const double range[2], int scale)
{
    for (int i = 0; i < grid.height * grid.width; i++) {
        const picture_box box = { x + i % grid.width * scale, y + i / grid.width * scale, scale,
                                  scale };
        picture_fill(p, box, colour_of(COLOUR_VIRIDIS, grids_share((double)values[i], range)));
    }
}

bool grids_draw(picture *p, const float *values, vit_grid grid, const double range[2], int side,
                report *r)
{
    const int64_t n = (int64_t)grid.height * grid.width;
    const int gap = 2, fit = (side / grid.width - gap) / grid.width, scale = fit < 1 ? 1 : fit;
    const int64_t across = (int64_t)grid.width * scale + gap;
    const int64_t down = (int64_t)grid.height * scale + gap;
    if (!picture_make(p, grid.width * across - gap, grid.height * down - gap, PICTURE_WHITE, r))
        return false;
    for (int64_t i = 0; i < n; i++) {
        draw_grid(p, (int)(i % grid.width * across), (int)(i / grid.width * down), values + i * n,
                  grid, range, scale);
    }
    return true;
}

bool grids_draw_filter(picture *p, const float *filter, int chans, int size, int side, report *r)
{
    const int scale = side < size ? 1 : side / size, area = size * size;
    double range[2];
    (void)grids_range(filter, (size_t)chans * (size_t)area, range);
    if (!picture_make(p, (int64_t)size * scale, (int64_t)size * scale, PICTURE_BLACK, r))
        return false;
    for (int i = 0; i < area; i++) {
        uint8_t rgb[3];
        for (int c = 0; c < 3; c++) {
            const double value = (double)filter[(chans == 3 ? c : 0) * area + i];
            rgb[c] = (uint8_t)(255 * grids_share(value, range) + 0.5);
        }
        picture_fill(p, (picture_box){ i % size * scale, i / size * scale, scale, scale },
                     (picture_colour){ rgb[0], rgb[1], rgb[2] });
    }
    return true;
}
