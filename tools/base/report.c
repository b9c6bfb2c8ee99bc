#include "base/report.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

report report_make(char *text, size_t size, const char *file)
{
    report r;
    r.text = text;
    r.size = size;
    r.file = file;
    r.failed = false;
    text[0] = '\0';
    return r;
}

/* Names from a file may hold anything; a terminal must not see it. */
static void report_hide_controls(char *text)
{
    for (; *text; text++)
        if ((uint8_t)*text < 0x20 || *text == 0x7F) *text = '?';
}

bool (report_fail)(report *r, const char *format, ...)
{
    int used = 0;
    va_list arguments;
    if (r->failed) return false;
    r->failed = true;
    if (r->file) used = snprintf(r->text, r->size, "%s: ", r->file);
    if ((size_t)used < r->size) {
        va_start(arguments, format);
        vsnprintf(r->text + used, r->size - (size_t)used, format, arguments);
        va_end(arguments);
    }
    report_hide_controls(r->text);
    return false;
}

bool (report_no_memory)(report *r)
{
    return report_fail(r, "out of memory");
}

/* Text of others (a path, an option) may hold control characters; a message must stay on one
 * line and must not steer the terminal. */
static void put_printable(const char *text, FILE *file) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putc(c < 32 || c == 127 ? '?' : c, file);
    }
}

void report_error(const char *program, const char *file, const char *format, ...) {
    char message[2 * REPORT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);

    fprintf(stderr, "%s: ", program);
    if (file) {
        put_printable(file, stderr);
        fputs(": ", stderr);
    }
    put_printable(message, stderr);
    putc('\n', stderr);
}

bool cli_fail(char *error, size_t error_size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, error_size, format, arguments);
    va_end(arguments);
    return false;
}
