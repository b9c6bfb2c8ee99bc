/* assume.h - what is assumed of a model where neither its tensors nor a name, a configuration or an
 * option says it.
 */
#ifndef ASSUME_H
#define ASSUME_H

#include "model/resolve.h"

/* One assumption for each setting that might be another, and one for all of the preprocessing.
 * False: out of memory. */
bool assume_settings(const settings all[FROM_COUNT], const settings_seen *seen,
                     const settings_resolved *model, findings *f);

#endif
