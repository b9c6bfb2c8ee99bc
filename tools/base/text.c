#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Prints the text in one piece. Standard error has no buffer, so another process could write to the
 * terminal between two pieces. */
void text_print(FILE *file, const char *format, ...) {
    char text[REPORT_SIZE], out[REPORT_SIZE + 16];
    const size_t before = strspn(format, "\n");
    size_t after = 0, used = before, length, at;
    bool whole;
    int width;
    va_list arguments;
    va_start(arguments, format);
    width = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (at = strlen(format); at > before && format[at - 1] == '\n'; at--) after++;
    whole = width >= 0 && (size_t)width < sizeof text;
    length = width < 0 ? 0 : whole ? (size_t)width - after : sizeof text - 1;
    memset(out, '\n', before);
    for (at = before; at < length && used < REPORT_SIZE - TEXT_SHOWN_SIZE;) {
        at += text_show_first(text + at, length - at, out + used, &width);
        used += strlen(out + used);
    }
    if (!whole || at < length) used += (size_t)snprintf(out + used, 4, "...");
    memset(out + used, '\n', after);
    fwrite(out, 1, used + after, file);
}

bool text_is_name(const char *text, size_t size) {
    size_t at = 0;
    if (size == 0 || size > 1024) return false;
    while (at < size) {
        size_t length = text_utf8_length(text + at, size - at);
        if (length == 0 || (uint8_t)text[at] < 0x20 || text[at] == 0x7F) return false;
        at += length;
    }
    return true;
}

/* True if all characters, 1 to 63, can occur in a decimal number. Callers check this before they
 * call strtol or strtod, which also accept leading white space and hexadecimal numbers. */
static bool looks_decimal(const char *text) {
    size_t length = strlen(text);
    return length > 0 && length < 64 && strspn(text, "0123456789+-.eE") == length;
}

bool text_read_int(const char *text, long min, long max, long *value) {
    char *end;
    long parsed;
    if (!looks_decimal(text)) return false;
    errno = 0;
    parsed = strtol(text, &end, 10);
    if (*end || errno || parsed < min || parsed > max) return false;
    *value = parsed;
    return true;
}

bool text_read_size(const char *text, long min, long max, int size[2]) {
    const char *x = strchr(text, 'x');
    size_t length = x ? (size_t)(x - text) : strlen(text);
    char first[32];
    long height, width;
    if (length >= sizeof first) return false;
    memcpy(first, text, length);
    first[length] = '\0';
    if (!text_read_int(first, min, max, &height)) return false;
    if (!text_read_int(x ? x + 1 : first, min, max, &width)) return false;
    size[0] = (int)height;
    size[1] = (int)width;
    return true;
}

bool text_read_number(const char *text, double min, double max, double *value) {
    char *end;
    double parsed;
    if (!looks_decimal(text)) return false;
    parsed = strtod(text, &end);
    if (*end || !(parsed >= min && parsed <= max)) return false;
    *value = parsed;
    return true;
}

/* Appends an item. The memory of the list doubles when the count is a power of two. */
bool text_list_append(text_list *list, const char *item) {
    if ((list->count & (list->count - 1)) == 0) {
        size_t capacity = list->count ? (size_t)list->count * 2 : 1;
        const char **items = realloc(list->items, capacity * sizeof *items);
        if (!items) return false;
        list->items = items;
    }
    list->items[list->count++] = item;
    return true;
}

void text_list_free(text_list *list) {
    free(list->items);
    list->items = NULL;
    list->count = 0;
}

char *text_take_field(char **at, char separator) {
    char *field = *at, *from = field, *to = field;
    const bool has_quotes = *from == '"';
    bool inside = false;
    for (; *from && (inside || *from != separator); from++) {
        if (inside && from[0] == '"' && from[1] == '"') *to++ = *from++;
        else if (has_quotes && *from == '"') inside = !inside;
        else *to++ = *from;
    }
    *at = *from ? from + 1 : NULL;
    *to = '\0';
    return inside ? NULL : field;
}

void text_append(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

const char *text_grouped(uint64_t value, char text[32]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

/* Matches one character against a set such as "[a-z]". *set points behind the opening bracket and
 * moves behind the closing bracket. Without a closing bracket there is no set. The function then
 * returns false and leaves *set unchanged. */
static bool match_set(const char **set, char c, bool *matched) {
    const char *p = *set;
    const bool negated = *p == '!';
    bool found = false;
    const char *first = p += negated;
    for (; *p && (*p != ']' || p == first); p++) {
        const char low = *p == '\\' && p[1] ? *++p : *p;
        char high = low;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            p += 2;
            high = *p == '\\' && p[1] ? *++p : *p;
        }
        found = found || (low <= c && c <= high);
    }
    if (!*p) return false;
    *set = p + 1;
    *matched = found != negated;
    return true;
}

/* Matches one character against the next element of a pattern, which must not be '*'. Moves
 * *pattern behind this element. */
static bool match_one(const char **pattern, char c) {
    const char p = *(*pattern)++;
    bool matched;
    if (p == '?') return true;
    if (p == '[' && match_set(pattern, c, &matched)) return matched;
    if (p == '\\' && **pattern) return *(*pattern)++ == c;
    return p == c;
}

bool text_matches(const char *pattern, const char *text) {
    /* `star` points behind the latest '*' of the pattern. `from` is the end of the text that this
     * '*' matches. */
    const char *star = NULL, *from = NULL;
    while (*text) {
        const char *next = pattern;
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (*pattern && match_one(&next, *text)) {
            pattern = next;
            text++;
        } else if (star) {
            pattern = star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

int text_distance(const char *a, const char *b) {
    enum { LONGEST = 79 };
    int row[LONGEST + 1], width = 0;
    while (b[width] && width < LONGEST) width++;
    for (int j = 0; j <= width; j++) row[j] = j;
    for (int i = 1; i <= LONGEST && a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[width];
}
