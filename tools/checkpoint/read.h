/* read.h - renames the tensors of a checkpoint, so that a model with names of its own becomes one
 * of a known layout.
 */
#ifndef READ_H
#define READ_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

/* Each rule is "theirs=ours". The n-th '*' in theirs stands for any text, which replaces the n-th
 * '*' in ours. The first rule that matches a name is used; a rule that matches none is an error. */
bool rename_tensors(checkpoint *c, const text_list *rules, report *r);

#endif
