#include "base/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/shown.h"

report report_make(void)
{
    static const report none;
    return none;
}

/* Paths, and names read from a file, may contain anything. They must not begin a line and must not
 * control the terminal. */
static void set_text(report *r, const char *format, va_list arguments)
{
    char text[REPORT_SIZE];
    vsnprintf(text, sizeof text, format, arguments);
    text_show(r->text, sizeof r->text, REPORT_SIZE, text);
    r->failed = true;
}

bool (report_fail)(report *r, const char *format, ...)
{
    va_list arguments;
    if (r->failed) return false;
    va_start(arguments, format);
    set_text(r, format, arguments);
    va_end(arguments);
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
    char shown[REPORT_SIZE];
    const size_t used = strlen(r->text);
    size_t length;
    text_show(shown, sizeof shown, REPORT_SIZE, text);
    length = strlen(shown);
    if (used + length + 2 + spare > sizeof r->text) return false;
    r->text[used] = '\n';
    memcpy(r->text + used + 1, shown, length + 1);
    return true;
}

static bool is_within_letter(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* A path too long to leave room for the message loses its beginning. */
bool (report_file)(report *r, const char *file)
{
    enum { LEAST = 40 };     /* characters of the path, whatever the message needs */
    char message[REPORT_SIZE], shown[REPORT_SIZE - sizeof "...: "];
    const size_t whole = strlen(file);
    const char *from = shown;
    size_t length, room = sizeof r->text - strlen(r->text);
    if (!r->failed || r->names_file) return false;
    r->names_file = true;
    memcpy(message, r->text, sizeof message);
    room = room > LEAST + sizeof "...: " ? room - sizeof "...: " : LEAST;
    text_show(shown, sizeof shown, REPORT_SIZE, whole > room ? file + whole - room : file);
    length = strlen(shown);
    if (length > room) from += length - room;
    while (is_within_letter(*from)) from++;
    snprintf(r->text, sizeof r->text, "%s%s: ", whole > room || from > shown ? "..." : "", from);
    length = sizeof r->text - 1 - strlen(r->text);
    while (strlen(message) > length && is_within_letter(message[length])) length--;
    strncat(r->text, message, length);
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
    set_text(&r, format, arguments);
    va_end(arguments);
    if (file) (void)report_file(&r, file);
    report_print(&r, program);
}
