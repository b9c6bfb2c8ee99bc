/* attributes.h - the settings that a model saved whole says itself: a pickled module by its classes
 * and attributes, TorchScript by its code, a training program by the options beside its weights.
 */
#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "model/settings.h"

typedef struct attributes_told {
    char text[REPORT_SIZE]; /* "num_heads=3 (blocks.0.attn.num_heads), ..."; "": nothing */
    /* An encoder layer of torch.nn without batch_first: given [batch, tokens, D], it attends over
     * the batch. Only the code of forward() says what it is given. */
    bool batch_second;
    const char *activation_doubt; /* why it must be asked for; or NULL */
} attributes_told;

/* Puts what is said for sure, with one value wherever it is said, into all[FROM_TENSORS]. To be
 * called before layout_inspect, so that the tensors overrule it and it overrules the layout's
 * defaults. patch: what the checkpoint calls the weight that reads the input's patches; NULL:
 * nothing does. Fails for an activation or patches that vit.h lacks, unless a higher source tells
 * of others. */
bool attributes_put(const checkpoint *c, const char *patch, settings all[FROM_COUNT],
                    attributes_told *told, report *r);

#endif
