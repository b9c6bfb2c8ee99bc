/* assume.h - what a model is taken to be although nothing says it: neither its tensors nor a name,
 * a configuration or an option.
 */
#ifndef ASSUME_H
#define ASSUME_H

#include "model/resolve.h"

/* One assumption for each setting that might be another, and one for all of the preprocessing.
 * False: out of memory. */
bool assume_settings(const settings all[FROM_COUNT], const settings_seen *seen,
                     const settings_resolved *model, findings *f);

#endif
