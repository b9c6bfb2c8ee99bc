#include "base/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* === Reports === */

report report_make(void) {
    static const report none;
    return none;
}

/* Sets the text of the report. Paths and names from a file may contain any bytes. text_show changes
 * them so that they can neither begin a line nor control the terminal. */
static void set_text(report *r, const char *format, va_list arguments) {
    char text[REPORT_SIZE];
    vsnprintf(text, sizeof text, format, arguments);
    text_show(r->text, sizeof r->text, REPORT_SIZE, text);
    r->failed = true;
}

/* These macros are only for callers, so they are removed before the functions are defined. */
#undef report_fail
#undef report_no_memory
#undef report_detail
#undef report_file

bool report_fail(report *r, const char *format, ...) {
    va_list arguments;
    if (r->failed) return false;
    va_start(arguments, format);
    set_text(r, format, arguments);
    va_end(arguments);
    return false;
}

bool report_no_memory(report *r) {
    if (!r->failed) r->no_memory = true;
    return report_fail(r, "out of memory");
}

bool report_detail(report *r, const char *detail) {
    if (!r->failed) r->names_file = true;
    return report_fail(r, "%s", detail);
}

bool report_line(report *r, size_t spare, const char *text) {
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

static bool is_within_letter(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

/* Puts the path of a file before the message. If the path leaves too little space for the message,
 * the path loses its beginning. */
bool report_file(report *r, const char *file) {
    enum { LEAST = 40 }; /* the number of characters of the path that always stay */
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

void report_print(const report *r, const char *program) {
    fprintf(stderr, "%s: %s\n", program, r->text);
}

void report_error(const char *program, const char *file, const char *format, ...) {
    report r = report_make();
    va_list arguments;
    va_start(arguments, format);
    set_text(&r, format, arguments);
    va_end(arguments);
    if (file) (void)report_file(&r, file);
    report_print(&r, program);
}

/* === UTF-8, and its printable characters === */

/* Checks the second byte of a UTF-8 character. Returns false if this byte does not continue the
 * character, or shows an over-long form, a surrogate or a value beyond Unicode. */
static bool text_utf8_second_fits(uint8_t lead, uint8_t second) {
    switch (lead) {
    case 0xE0: return second >= 0xA0 && second <= 0xBF;
    case 0xED: return second >= 0x80 && second <= 0x9F;
    case 0xF0: return second >= 0x90 && second <= 0xBF;
    case 0xF4: return second >= 0x80 && second <= 0x8F;
    default: return second >= 0x80 && second <= 0xBF;
    }
}

size_t text_utf8_length(const char *text, size_t size) {
    const uint8_t *p = (const uint8_t *)text;
    size_t length, i;
    if (size == 0) return 0;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
    length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (length > size || !text_utf8_second_fits(p[0], p[1])) return 0;
    for (i = 2; i < length; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return length;
}

uint32_t text_utf8_value(const char *text, size_t length) {
    uint32_t value = (uint8_t)text[0];
    if (length > 1) value &= 0x7Fu >> length;
    for (size_t i = 1; i < length; i++) value = value << 6 | ((uint8_t)text[i] & 0x3Fu);
    return value;
}

bool text_is_control(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

/* Returns the number of columns that a character takes on most terminals. The function covers
 * combining accents, East Asian characters and emoji. */
static int columns_of(uint32_t c) {
    if ((c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200D) || (c >= 0xFE00 && c <= 0xFE0F))
        return 0;
    return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
                   (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
                   (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                   (c >= 0xFFE0 && c <= 0xFFE6) || (c >= 0x1F300 && c <= 0x1FAFF) ||
                   (c >= 0x20000 && c <= 0x3FFFD)
               ? 2
               : 1;
}

size_t text_show_first(const char *text, size_t size, char shown[TEXT_SHOWN_SIZE], int *columns) {
    static const char from[] = "\n\r\t", into[] = "nrt";
    const size_t length = text_utf8_length(text, size);
    const uint32_t c = length ? text_utf8_value(text, length) : (uint8_t)*text;
    const char *letter = c ? strchr(from, (int)(c < 0x80 ? c : 0x80)) : NULL;
    if (length && !text_is_control(c)) {
        memcpy(shown, text, length);
        shown[length] = '\0';
        *columns = columns_of(c);
        return length;
    }
    if (letter) *columns = snprintf(shown, TEXT_SHOWN_SIZE, "\\%c", into[letter - from]);
    else
        *columns = snprintf(shown, TEXT_SHOWN_SIZE, length > 1 ? "\\u%04x" : "\\x%02x",
                            (unsigned)c);
    return length ? length : 1;
}

int text_show(char *to, size_t size, int columns, const char *from) {
    const size_t length = strlen(from);
    size_t at = 0, used = 0;
    int width = 0;
    while (at < length) {
        char shown[TEXT_SHOWN_SIZE];
        int wide;
        const size_t taken = text_show_first(from + at, length - at, shown, &wide);
        const size_t bytes = strlen(shown);
        if (used + bytes >= size || width + wide > columns) break;
        memcpy(to + used, shown, bytes);
        used += bytes;
        width += wide;
        at += taken;
    }
    to[used] = '\0';
    return width;
}
