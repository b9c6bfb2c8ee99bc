/* match_options.h - a table of the settings that a checkpoint may leave open, and the values to
   try. */
#ifndef MATCH_OPTIONS_H
#define MATCH_OPTIONS_H

#include <stdbool.h>

#include "convert/conversion.h"

enum { MATCH_TEXT = 128, MATCH_MAX_ROWS = 24, MATCH_MAX_VALUES = 40 };

/* One open setting or combination. A value is an argument of --set, or several with spaces between
 * them; the likeliest comes first. */
typedef struct match_row {
    const char *name;
    const char *keys; /* the settings of the row, with spaces between them */
    bool is_fine;     /* has little effect, so it is tried once the rest fits */
    bool is_stored;   /* its first value uses a tensor as stored, the others do not */
    int count;
    char values[MATCH_MAX_VALUES][MATCH_TEXT];
} match_row;

typedef struct match_table {
    int count;
    match_row rows[MATCH_MAX_ROWS];
} match_table;

/* The index of the chosen value of each row. */
typedef struct match_choice {
    unsigned char of[MATCH_MAX_ROWS];
} match_choice;

/* Lists open settings: those that no source gave, and defaults of the layout or values read from
   weights. */
void match_list_architecture(match_table *table, const facts *f);
void match_list_preprocessing(match_table *table, const facts *f);

/* The number of patches, if side by side, and of positions. */
typedef struct match_patches {
    int height, width, size;
    int positions, prefix; /* rows, and how many of them may be prefix tokens */
} match_patches;

/* False if unknown, or if there are no positions. */
bool match_count_patches(const facts *f, match_patches *patches);

/* True if any of its settings would become a question. */
bool match_row_is_asked(const match_row *row, const findings *f);

/* Puts the chosen values of one row, or of all rows, into s. */
void match_apply_row(const match_row *row, int value, settings *s);
void match_apply(const match_table *table, const match_choice *choice, settings *s);

#endif
