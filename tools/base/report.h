/* report.h - what went wrong: the one line that a failing function leaves, and how a program prints
 * it.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* A report is where a failing function leaves its one line. The first failure wins: callers on
 * the way out add nothing. */
typedef struct report {
    char *text;
    size_t size;        /* of text, not 0 */
    const char *file;   /* prefix of the line; may be NULL */
    bool failed;
} report;

#define REPORT_SIZE 512   /* enough for every message; a smaller buffer truncates */

#if defined(__GNUC__)
#define REPORT_PRINTF(format_index, first_argument) \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define REPORT_PRINTF(format_index, first_argument)
#endif

report report_make(char *text, size_t size, const char *file);

/* Always false, so that a function can end with `return report_fail(...)`. The macros tell that to
 * a compiler or analyser which sees one file at a time; a statement begins with (void). */
bool report_fail(report *r, const char *format, ...) REPORT_PRINTF(2, 3);
bool report_no_memory(report *r);
#define report_fail(...) (report_fail(__VA_ARGS__), false)
#define report_no_memory(r) (report_no_memory(r), false)

/* Formats into error and returns false, for `return cli_fail(...)`. */
bool cli_fail(char *error, size_t error_size, const char *format, ...) REPORT_PRINTF(3, 4);

/* What a program says: "PROGRAM: FILE: message" on stderr; file may be NULL. */
void report_error(const char *program, const char *file, const char *format, ...)
    REPORT_PRINTF(3, 4);

#endif
