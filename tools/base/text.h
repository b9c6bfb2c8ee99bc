/* text.h - text for people, numbers as text, lists of words. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"

/* True for 1 to 1024 bytes of UTF-8 without control characters, which can be the name of a
 * tensor. */
bool text_is_name(const char *text, size_t size);

/* Like fprintf, but makes control characters and invalid UTF-8 visible (report.h), because people
 * read the text. Only newlines at the beginning or the end of the format begin a line. "..."
 * replaces text beyond REPORT_SIZE bytes. */
void text_print(FILE *file, const char *format, ...) REPORT_PRINTF(2, 3);

/* A list of strings that others own, such as argv. text_list_free frees the list. */
typedef struct text_list {
    const char **items;
    int count;
} text_list;

bool text_list_append(text_list *list, const char *item); /* false: out of memory */
void text_list_free(text_list *list);

/* True if the whole text is one number within [min, max]. */
bool text_read_int(const char *text, long min, long max, long *value);
bool text_read_number(const char *text, double min, double max, double *value);
/* Reads "384", or "384x256": height, then width. */
bool text_read_size(const char *text, long min, long max, int size[2]);

/* True if a pattern matches the whole text. * stands for any characters, and ? for one. [a-z] is a
 * character of the set, and [!a-z] a character outside the set. A backslash quotes the next
 * character. */
bool text_matches(const char *pattern, const char *text);

/* Returns the number of letters to change, insert or delete to turn one text into another. A text
 * longer than 79 bytes counts as its beginning. */
int text_distance(const char *a, const char *b);

/* Takes a field off a line of CSV (RFC 4180; separator ',') or TSV ('\t'), in place and without its
 * quotes. Returns NULL if a quote is unclosed. *at moves to the next field, and becomes NULL after
 * the last field. */
char *text_take_field(char **at, char separator);

/* Appends to a text as much as fits. */
void text_append(char *text, size_t size, const char *format, ...) REPORT_PRINTF(3, 4);

/* 5717416 -> "5,717,416" */
const char *text_grouped(uint64_t value, char text[32]);

#endif
