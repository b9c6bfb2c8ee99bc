/* report.h - errors: the message that a failing function leaves, and how a program prints it.
 *
 * tools/base owns error reports, memory, bytes, text, files, JSON, .npy, checksums; the
 * implementation of vit.h; it may include os.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>

#define REPORT_SIZE 8192   /* enough for every message; a longer one is truncated */

/* Where a failing function leaves its message: "FILE: what is wrong", mostly in one line. The first
 * failure wins. Callers add only the name of the file, and only if there is none yet. */
typedef struct report {
    bool failed;
    bool no_memory;          /* report_no_memory was the failure */
    bool names_file;         /* private */
    char text[REPORT_SIZE];
} report;

#if defined(__MINGW32__)   /* whose printf is GNU's */
#define REPORT_PRINTF(format_index, first_argument) \
    __attribute__((format(gnu_printf, format_index, first_argument)))
#elif defined(__GNUC__)
#define REPORT_PRINTF(format_index, first_argument) \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define REPORT_PRINTF(format_index, first_argument)
#endif

report report_make(void);   /* no failure yet */

/* These return false, so that a function can end with `return report_fail(...)`. The macros show
 * that to compilers and analysers, which see one file at a time; cast to void in a statement. */
bool report_fail(report *r, const char *format, ...) REPORT_PRINTF(2, 3);
bool report_no_memory(report *r);
/* A message that names the file itself: vit_model.detail of vit_model_open. */
bool report_detail(report *r, const char *detail);
/* Says which file the failure is about: `return parse(text, r) || report_file(r, path)`. */
bool report_file(report *r, const char *file);
/* A failure about several things has a line for each. False: the line does not fit as a whole with
 * `spare` more bytes, and is left out. */
bool report_line(report *r, size_t spare, const char *text);
#define report_fail(...) (report_fail(__VA_ARGS__), false)
#define report_no_memory(r) (report_no_memory(r), false)
#define report_detail(r, detail) (report_detail(r, detail), false)
#define report_file(r, file) (report_file(r, file), false)

/* Prints a failure on stderr: "PROGRAM: FILE: what is wrong". */
void report_print(const report *r, const char *program);

/* The same for a message of the program itself; file may be NULL. */
void report_error(const char *program, const char *file, const char *format, ...)
    REPORT_PRINTF(3, 4);

#endif
