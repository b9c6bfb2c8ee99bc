/* report.h - reports of errors: stores the message of a failing function, and prints it.
 *
 * tools/base owns error reports, memory, bytes, text, files, JSON, .npy, checksums; the
 * implementation of vit.h; it may include os.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPORT_SIZE 8192 /* enough for every message; a longer one is truncated */

/* The message of a failing function: "FILE: what is wrong", usually in one line. Only the first
 * failure is stored. A caller may add the name of the file (report_file), unless the message
 * already contains one. A caller may also add lines (report_line). */
typedef struct report {
    bool failed;
    bool no_memory;  /* true if memory was exhausted (report_no_memory) */
    bool names_file; /* private */
    char text[REPORT_SIZE];
} report;

#if defined(__MINGW32__) /* MinGW's printf is GNU's printf */
#define REPORT_PRINTF(format_index, first_argument)                                                \
    __attribute__((format(gnu_printf, format_index, first_argument)))
#elif defined(__GNUC__)
#define REPORT_PRINTF(format_index, first_argument)                                                \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define REPORT_PRINTF(format_index, first_argument)
#endif

report report_make(void); /* returns a report without a failure */

/* The functions that store a failure return false, so a function can end with `return
 * report_fail(...)`. Macros below make this result visible to compilers and analysers, which read
 * one file at a time. If a call is a whole statement, cast its result to void. */
bool report_fail(report *r, const char *format, ...) REPORT_PRINTF(2, 3);
bool report_no_memory(report *r);
/* Stores a message that already contains the name of the file, such as vit_model.detail after
 * vit_model_open. */
bool report_detail(report *r, const char *detail);
/* Adds the file's name to the failure: `return parse(text, r) || report_file(r, path)`. */
bool report_file(report *r, const char *file);
/* Adds a line to the message of a failure with several causes. If less than `spare` bytes would
 * remain after the line, leaves it out and returns false. */
bool report_line(report *r, size_t spare, const char *text);
#define report_fail(...)         (report_fail(__VA_ARGS__), false)
#define report_no_memory(r)      (report_no_memory(r), false)
#define report_detail(r, detail) (report_detail(r, detail), false)
#define report_file(r, file)     (report_file(r, file), false)

/* Prints a failure on stderr: "PROGRAM: FILE: what is wrong". */
void report_print(const report *r, const char *program);

/* Prints an error of the program itself. `file` is the file in which the error occurred, or
 * NULL. */
void report_error(const char *program, const char *file, const char *format, ...)
    REPORT_PRINTF(3, 4);

/* === UTF-8, and its printable characters === */

/* These functions read UTF-8, and find the characters that are not safe to print on a terminal. */

/* Returns the number of bytes of the UTF-8 sequence at `text`; 0 if the sequence is invalid. */
size_t text_utf8_length(const char *text, size_t size);
/* Returns the character that a valid sequence encodes. */
uint32_t text_utf8_value(const char *text, size_t length);
/* True if a terminal obeys the character, or reorders the text after it: controls, ends of lines,
 * direction marks. */
bool text_is_control(uint32_t c);

/* text_show and text_show_first make a text safe for a terminal, because names of files and labels
 * of models may come from anybody. Controls and invalid UTF-8 become escapes such as "\n", "\x1b",
 * "\u202e". A backslash stays unchanged.
 *
 * text_show writes as much of the text `from` as fits into `size` bytes and `columns` columns of a
 * terminal. It returns the number of columns used. */
int text_show(char *to, size_t size, int columns, const char *from);
/* text_show_first writes only the first character of the text, and sets *columns to its width.
 * Returns the number of bytes that the character has in the text. */
enum { TEXT_SHOWN_SIZE = 8 }; /* enough for "\u202e" and a NUL */
size_t text_show_first(const char *text, size_t size, char shown[TEXT_SHOWN_SIZE], int *columns);

#endif
