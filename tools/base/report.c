#include "base/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

report report_make(void)
{
    static const report none;
    return none;
}

/* Paths, and names read from a file, may contain anything. They must not begin a line and must not
 * control the terminal. */
static void hide_controls(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F) *text = '?';
}

bool (report_fail)(report *r, const char *format, ...)
{
    va_list arguments;
    if (r->failed) return false;
    r->failed = true;
    va_start(arguments, format);
    vsnprintf(r->text, sizeof r->text, format, arguments);
    va_end(arguments);
    hide_controls(r->text);
    return false;
}

bool (report_no_memory)(report *r)
{
    if (!r->failed) r->no_memory = true;
    return report_fail(r, "out of memory");
}

bool (report_detail)(report *r, const char *detail)
{
    if (!r->failed) r->names_file = true;
    return report_fail(r, "%s", detail);
}

bool report_line(report *r, size_t spare, const char *text)
{
    const size_t used = strlen(r->text), length = strlen(text);
    if (used + length + 2 + spare > sizeof r->text) return false;
    r->text[used] = '\n';
    memcpy(r->text + used + 1, text, length + 1);
    hide_controls(r->text + used + 1);
    return true;
}

/* A path too long to leave room for the message loses its beginning. */
bool (report_file)(report *r, const char *file)
{
    enum { LEAST = 40 };     /* characters of the path, whatever the message needs */
    char message[REPORT_SIZE];
    const size_t length = strlen(file);
    size_t room = sizeof r->text - strlen(r->text);
    if (!r->failed || r->names_file) return false;
    r->names_file = true;
    memcpy(message, r->text, sizeof message);
    room = room > LEAST + sizeof "...: " ? room - sizeof "...: " : LEAST;
    if (length <= room) snprintf(r->text, sizeof r->text, "%s: ", file);
    else snprintf(r->text, sizeof r->text, "...%s: ", file + length - room);
    hide_controls(r->text);
    strncat(r->text, message, sizeof r->text - 1 - strlen(r->text));
    return false;
}

void report_print(const report *r, const char *program)
{
    fprintf(stderr, "%s: %s\n", program, r->text);
}

void report_error(const char *program, const char *file, const char *format, ...)
{
    report r = report_make();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r.text, sizeof r.text, format, arguments);
    va_end(arguments);
    hide_controls(r.text);
    r.failed = true;
    if (file) (void)report_file(&r, file);
    report_print(&r, program);
}
