/* preprocessing.h - the size before the crop, and mean and std of each channel. */
#ifndef PREPROCESSING_H
#define PREPROCESSING_H

#include <stdbool.h>

#include "base/report.h"
#include "model/settings.h"
#define VIT_TOOLS
#include "vit.h"

/* Puts them into the config, whose input size and channels are known; stored_chans: those of the
 * checkpoint, where the file has others. */
bool preprocessing_resolve(const settings all[FROM_COUNT], int stored_chans, vit_config *c,
                           report *r);

#endif
