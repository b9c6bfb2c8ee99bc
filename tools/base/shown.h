/* shown.h - UTF-8, and what of it may be shown. */
#ifndef SHOWN_H
#define SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the UTF-8 sequence at text; 0: not valid. */
size_t text_utf8_length(const char *text, size_t size);
uint32_t text_utf8_value(const char *text, size_t length);   /* of a sequence so long */
/* Whether a terminal obeys the character instead of showing it, or shows in another order what
 * follows it: controls, ends of lines, marks of direction. */
bool text_is_control(uint32_t c);

/* What people read goes through these, as names of files and labels of models may be anybody's:
 * controls and what is not UTF-8 become "\n", "\x1b", "\u202e". A backslash stays as it is.
 *
 * As much of a text as fits in so many bytes and columns; returns the columns it takes. */
int text_show(char *to, size_t size, int columns, const char *from);
/* The first character alone, and how many columns it takes. Returns its length before. */
enum { TEXT_SHOWN_SIZE = 8 };   /* "\u202e" */
size_t text_show_first(const char *text, size_t size, char shown[TEXT_SHOWN_SIZE], int *columns);

#endif
