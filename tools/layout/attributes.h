/* attributes.h - settings that a whole saved model states: a pickled module by its classes and
 * attributes, TorchScript by its code, a training program by the options stored with the weights.
 */
#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "model/settings.h"

typedef struct attributes_told {
    char text[REPORT_SIZE]; /* "num_heads=3 (blocks.0.attn.num_heads), ..."; "" for none */
    /* An encoder layer of torch.nn without batch_first: given [batch, tokens, D], it attends over
     * the batch. Only the code of forward() shows which it gets. */
    bool batch_second;
    const char *activation_doubt; /* reason to ask for it, or NULL */
} attributes_told;

/* Puts settings that all statements agree on into all[FROM_TENSORS]. Call it before layout_inspect,
 * so that the tensors overrule it and it overrules the layout's defaults. patch is the checkpoint's
 * name of the weight that reads the input's patches; NULL if there is none. Fails for an activation
 * or patches that vit.h lacks, unless a higher source gives others. */
bool attributes_put(const checkpoint *c, const char *patch, settings all[FROM_COUNT],
                    attributes_told *told, report *r);

#endif
