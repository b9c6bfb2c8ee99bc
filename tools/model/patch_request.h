/* patch_request.h - the patch embedding that was asked for instead of the checkpoint's own. */
#ifndef PATCH_REQUEST_H
#define PATCH_REQUEST_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Channels and patch size that the .vit file is to have; 0: those of the checkpoint. */
typedef struct patch_request {
    int chans, patch;
} patch_request;

/* Puts them into the config, which has those of the checkpoint. */
bool patch_request_apply(const patch_request *wanted, vit_config *c, report *r);

#endif
