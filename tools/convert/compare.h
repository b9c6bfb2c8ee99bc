/* compare.h - how far a model's outputs are from those of its original in f32. */
#ifndef COMPARE_H
#define COMPARE_H

#include <stdbool.h>

#include "base/report.h"
#include "image/photos.h"

typedef struct comparison {
    int images;                      /* 0: nothing was compared */
    double mean_cosine, min_cosine;  /* of the angle between both embeddings */
    const char *worst;               /* path of the image of min_cosine */
    bool has_classes;                /* if not, what follows is 0 */
    int agree;                       /* images with the same best class */
    int sure, sure_agree;            /* those whose best class in f32 leads the second by 10 points
                                        of probability or more, and how many of them agree */
} comparison;

/* Photos that cannot be read are taken out of the list. */
bool compare_models(const vit_model *reference, const vit_model *model, photo_decoder *decoder,
                    photo_list *photos, bool quiet, comparison *result, report *r);

#endif
