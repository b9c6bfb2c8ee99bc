/* subject.h - what a question or an assumption is about, and how a user answers it: by the list of
 * settings, or by an option of its own.
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "model/settings.h"

typedef struct subject {
    char name[64];
    const setting_row *row;      /* NULL: of other kinds */
    const char *option, *type, *means;   /* option NULL: nothing that one option gives */
    bool with_prefix;            /* the option takes "name=" before the value */
} subject;

/* name: "num_heads" of "num_heads=3", with its length. False: an assumption that no option gives. */
bool subject_find(const char *name, size_t length, subject *s);

#endif
