/* resample.h - position embeddings for another grid of patches, as timm resamples them: PyTorch's
 * antialiased bicubic interpolation (a = -0.5, edges renormalised), horizontally, then vertically,
 * all in float32.
 */
#ifndef RESAMPLE_H
#define RESAMPLE_H

#include <stdbool.h>

/* from [height, width, dim] -> to [new_height, new_width, dim]. False: out of memory. */
bool resample_positions(const float *from, int height, int width, float *to, int new_height,
                        int new_width, int dim);

#endif
