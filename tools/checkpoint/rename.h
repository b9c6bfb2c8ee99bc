/* rename.h - other names for the tensors of a checkpoint, so that a model with names of its
 * author's own becomes one of a known layout.
 */
#ifndef RENAME_H
#define RENAME_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

/* Each rule is "theirs=ours"; a '*' in theirs stands for any text, which the '*' of the same
 * number in ours puts back. The first rule that matches a name is used, and each must match. */
bool rename_tensors(checkpoint *c, const text_list *rules, report *r);

#endif
