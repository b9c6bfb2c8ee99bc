/* text.h - prints text for people, reads numbers and fields of tables, and holds lists of texts. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"

/* True if the text can be the name of a tensor: it has 1 to 1024 bytes of UTF-8 without the control
 * characters of ASCII. */
bool text_is_name(const char *text, size_t size);

/* Prints like fprintf, but makes control characters and invalid UTF-8 visible as report.h
 * describes, because people read the text. Only newlines at the beginning or the end of the format
 * begin a new line. A text of more than REPORT_SIZE bytes is cut short and ends with "...". */
void text_print(FILE *file, const char *format, ...) REPORT_PRINTF(2, 3);

/* A list of strings. The list does not own the strings, which may be those of argv. text_list_free
 * frees only the list. */
typedef struct text_list {
    const char **items;
    int count;
} text_list;

bool text_list_append(text_list *list, const char *item); /* returns false if memory is exhausted */
void text_list_free(text_list *list);

/* True if the whole text is one number within [min, max]. *value receives the number. */
bool text_read_int(const char *text, long min, long max, long *value);
bool text_read_number(const char *text, double min, double max, double *value);
/* Reads "384" or "384x256" (the height precedes the width). size[0] receives the height, and
 * size[1] the width. */
bool text_read_size(const char *text, long min, long max, int size[2]);

/* True if a shell pattern matches the whole text. In the pattern, * stands for any characters, and
 * ? for one character. [a-z] stands for a character of the set, and [!a-z] for a character outside
 * the set. A backslash quotes the next character. */
bool text_matches(const char *pattern, const char *text);

/* Returns the smallest number of bytes to change, insert or delete to turn one text into the other.
 * Only the first 79 bytes of a text count. */
int text_distance(const char *a, const char *b);

/* Takes the next field, at *at, from a line of CSV (RFC 4180; separator ',') or TSV (separator
 * '\t'). Returns the field; quotes around it are removed in place. Returns NULL if a quote is not
 * closed. *at moves to the next field, and becomes NULL after the last field. */
char *text_take_field(char **at, char separator);

/* Formats like printf, and appends as much of the result to `text` as fits into its `size`
 * bytes. */
void text_append(char *text, size_t size, const char *format, ...) REPORT_PRINTF(3, 4);

/* Writes a number with commas: "5,717,416" for 5717416. */
const char *text_grouped(uint64_t value, char text[32]);

#endif
