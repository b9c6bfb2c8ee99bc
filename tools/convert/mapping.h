/* mapping.h - which tensors of the checkpoint become which of the .vit file, and why. */
#ifndef MAPPING_H
#define MAPPING_H

#include "base/json.h"
#include "convert/conversion.h"

/* One line for each tensor of the file, or of all blocks, then the tensors that are dropped. */
void mapping_print(const conversion *c);

/* The tensors as an array "mapping" of objects, one for each. */
void mapping_put(json_writer *w, const conversion *c);

/* For a conversion that failed: a plan of the names that structure found, good for printing alone,
 * as open questions must not keep anybody from seeing the mapping. False: it found none. */
bool mapping_plan_names(conversion *c);

#endif
