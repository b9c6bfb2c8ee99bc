/* provenance.h - where a .vit file comes from, as the text that is stored in it: "key: value" lines
 * with the hashes of its sources, the options and what was assumed.
 */
#ifndef PROVENANCE_H
#define PROVENANCE_H

#include "convert/conversion.h"

/* Fills c->provenance. */
bool provenance_make(conversion *c, report *r);

#endif
