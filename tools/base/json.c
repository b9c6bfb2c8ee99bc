#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
    JSON_MAX_DEPTH = 64,
    JSON_MAX_VALUES = 1000000,
    /* The largest number of characters of a number. The longest useful double has about 330
     * characters. */
    JSON_MAX_NUMBER = 400,
};

typedef struct json_parser {
    char *text;
    size_t at, size;
    size_t values, max_values;
    bool unique_keys;
    uint64_t base;
    memory_arena *memory;
    report *report;
} json_parser;

static bool json_parse_value(json_parser *p, int depth, json_value **out);

static bool json_fail(json_parser *p, const char *what) {
    return report_fail(p->report, "JSON, byte %llu: %s", (unsigned long long)(p->base + p->at),
                       what);
}

static void json_skip_space(json_parser *p) {
    while (p->at < p->size && p->text[p->at] != '\0' && strchr(" \t\r\n", p->text[p->at])) p->at++;
}

static bool json_accept(json_parser *p, char c) {
    if (p->at >= p->size || p->text[p->at] != c) return false;
    p->at++;
    return true;
}

static bool json_new(json_parser *p, json_kind kind, json_value **out) {
    json_value *value;
    if (p->values++ >= p->max_values)
        return json_fail(p, p->max_values == JSON_MAX_VALUES
                                ? "more than 1000000 values"
                                : "the text has more than one value for every 8 bytes");
    value = memory_take(p->memory, sizeof *value);
    if (!value) return report_no_memory(p->report);
    value->kind = (uint8_t)kind;
    *out = value;
    return true;
}

/* === Strings === */

static bool json_hex4(json_parser *p, uint32_t *code) {
    int i;
    *code = 0;
    for (i = 0; i < 4; i++) {
        char c = p->at < p->size ? p->text[p->at] : '\0';
        uint32_t digit;
        if (c >= '0' && c <= '9') digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A') + 10;
        else return json_fail(p, "four hexadecimal digits expected after \\u");
        *code = *code * 16 + digit;
        p->at++;
    }
    return true;
}

static char *json_put_utf8(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xF0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

/* Reads the part of an escape after "\u". It is one code unit, or two code units that form a
 * surrogate pair. */
static bool json_unicode_escape(json_parser *p, char **to) {
    uint32_t code, low;
    if (!json_hex4(p, &code)) return false;
    if (code == 0) return json_fail(p, "\\u0000 is not supported");
    if (code >= 0xDC00 && code <= 0xDFFF) return json_fail(p, "lone low surrogate");
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (!json_accept(p, '\\') || !json_accept(p, 'u'))
            return json_fail(p, "lone high surrogate");
        if (!json_hex4(p, &low)) return false;
        if (low < 0xDC00 || low > 0xDFFF) return json_fail(p, "lone high surrogate");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *to = json_put_utf8(*to, code);
    return true;
}

static bool json_escape(json_parser *p, char **to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char c = p->at < p->size ? p->text[p->at] : '\0';
    const char *found = c ? strchr(from, c) : NULL;
    if (c == 'u') {
        p->at++;
        return json_unicode_escape(p, to);
    }
    if (!found) return json_fail(p, "unknown escape");
    *(*to)++ = into[found - from];
    p->at++;
    return true;
}

/* Parses a string and unescapes it in place. The unescaped string is never longer than the escaped
 * string, so its final NUL never lies after the closing quote. */
static bool json_parse_string(json_parser *p, const char **out) {
    char *to;
    if (!json_accept(p, '"')) return json_fail(p, "'\"' expected");
    to = p->text + p->at;
    *out = to;
    while (p->at < p->size && p->text[p->at] != '"') {
        size_t length = text_utf8_length(p->text + p->at, p->size - p->at);
        if (length == 0) return json_fail(p, "invalid UTF-8");
        if ((uint8_t)p->text[p->at] < 0x20) return json_fail(p, "control character in a string");
        if (p->text[p->at] == '\\') {
            p->at++;
            if (!json_escape(p, &to)) return false;
        } else {
            memmove(to, p->text + p->at, length);
            to += length;
            p->at += length;
        }
    }
    if (p->at >= p->size) return json_fail(p, "the text ends inside a string");
    p->at++;
    *to = '\0';
    return true;
}

/* === Numbers === */

static size_t json_skip_digits(json_parser *p) {
    size_t start = p->at;
    while (p->at < p->size && p->text[p->at] >= '0' && p->text[p->at] <= '9') p->at++;
    return p->at - start;
}

/* Skips a number. *integral becomes true if the number has neither a '.' nor an exponent. */
static bool json_scan_number(json_parser *p, bool *integral) {
    *integral = true;
    json_accept(p, '-');
    if (!json_accept(p, '0') && json_skip_digits(p) == 0) return json_fail(p, "digit expected");
    if (json_accept(p, '.')) {
        *integral = false;
        if (json_skip_digits(p) == 0) return json_fail(p, "digit expected after '.'");
    }
    if (json_accept(p, 'e') || json_accept(p, 'E')) {
        *integral = false;
        if (!json_accept(p, '+')) json_accept(p, '-');
        if (json_skip_digits(p) == 0) return json_fail(p, "digit expected in the exponent");
    }
    return true;
}

/* Converts decimal digits to an integer. Returns false if the value does not fit into an int64. */
static bool json_to_integer(const char *text, int64_t *out) {
    bool negative = *text == '-';
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0), value = 0;
    for (text += negative; *text; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (limit - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (negative) *out = value == limit ? INT64_MIN : -(int64_t)value;
    else *out = (int64_t)value;
    return true;
}

static bool json_parse_number(json_parser *p, json_value **out) {
    char copy[JSON_MAX_NUMBER + 1];
    size_t start = p->at, length;
    bool integral;
    if (!json_scan_number(p, &integral) || !json_new(p, JSON_NUMBER, out)) return false;
    length = p->at - start;
    if (length > JSON_MAX_NUMBER) return json_fail(p, "number of more than 400 characters");
    memcpy(copy, p->text + start, length);
    copy[length] = '\0';
    (*out)->integral = integral && json_to_integer(copy, &(*out)->u.integer);
    if (!(*out)->integral) (*out)->u.number = strtod(copy, NULL);
    return true;
}

/* === Arrays and objects === */

static int json_compare_keys(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool json_check_keys(json_parser *p, const json_value *object) {
    const char **keys = malloc((object->count + (size_t)1) * sizeof *keys);
    const json_value *child;
    size_t count = 0, i;
    bool ok = true;
    if (!keys) return report_no_memory(p->report);
    for (child = object->u.first; child; child = child->next) keys[count++] = child->key;
    qsort(keys, count, sizeof *keys, json_compare_keys);
    for (i = 1; ok && i < count; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            ok = report_fail(p->report, "JSON: duplicate key \"%.200s\"", keys[i]);
    free(keys);
    return ok;
}

static bool json_parse_key(json_parser *p, const char **key) {
    json_skip_space(p);
    if (!json_parse_string(p, key)) return false;
    json_skip_space(p);
    if (json_accept(p, ':')) return true;
    return json_fail(p, "':' expected");
}

/* Reads the items of an array or the members of an object. One function reads both, because they
 * differ only in the closing character and in the keys of an object. */
static bool json_parse_children(json_parser *p, json_value *parent, int depth) {
    bool object = parent->kind == JSON_OBJECT;
    json_value **end = &parent->u.first;
    const char *key = NULL;
    p->at++;
    json_skip_space(p);
    if (json_accept(p, object ? '}' : ']')) return true;
    for (;;) {
        if (object && !json_parse_key(p, &key)) return false;
        if (!json_parse_value(p, depth + 1, end)) return false;
        (*end)->key = key;
        end = &(*end)->next;
        parent->count++;
        json_skip_space(p);
        if (json_accept(p, object ? '}' : ']')) break;
        if (!json_accept(p, ','))
            return json_fail(p, object ? "',' or '}' expected" : "',' or ']' expected");
    }
    return !object || !p->unique_keys || json_check_keys(p, parent);
}

static bool json_parse_word(json_parser *p, json_value **out) {
    static const char words[3][6] = { "null", "false", "true" };
    int i;
    for (i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if (p->size - p->at < length || memcmp(p->text + p->at, words[i], length) != 0) continue;
        p->at += length;
        return json_new(p, (json_kind)i, out);
    }
    return json_fail(p, "value expected");
}

static bool json_parse_value(json_parser *p, int depth, json_value **out) {
    char c;
    json_skip_space(p);
    if (p->at >= p->size) return json_fail(p, "the text ends where a value is expected");
    if (depth >= JSON_MAX_DEPTH) return json_fail(p, "nested deeper than 64");
    c = p->text[p->at];
    if (c == '{' || c == '[')
        return json_new(p, c == '{' ? JSON_OBJECT : JSON_ARRAY, out) &&
               json_parse_children(p, *out, depth);
    if (c == '"') return json_new(p, JSON_STRING, out) && json_parse_string(p, &(*out)->u.string);
    if (c == '-' || (c >= '0' && c <= '9')) return json_parse_number(p, out);
    return json_parse_word(p, out);
}

bool json_parse(json_document *document, char *text, size_t size, bool unique_keys, uint64_t base,
                report *r) {
    json_parser p = { 0 };
    bool ok;
    p.max_values = size / 8 > JSON_MAX_VALUES ? size / 8 : JSON_MAX_VALUES;
    document->memory = memory_make(p.max_values * sizeof(json_value));
    document->root = NULL;
    p.text = text;
    p.size = size;
    p.unique_keys = unique_keys;
    p.base = base;
    p.memory = &document->memory;
    p.report = r;
    text[size] = '\0';
    ok = json_parse_value(&p, 0, &document->root);
    json_skip_space(&p);
    if (ok && p.at < size) ok = json_fail(&p, "text after the end of the value");
    if (!ok) json_free(document);
    return ok;
}

void json_free(json_document *document) {
    memory_free(&document->memory);
    document->root = NULL;
}

/* === Access === */

const json_value *json_first(const json_value *value) {
    return value && value->kind >= JSON_ARRAY ? value->u.first : NULL;
}

const json_value *json_get(const json_value *object, const char *key) {
    const json_value *child = object && object->kind == JSON_OBJECT ? object->u.first : NULL;
    while (child && strcmp(child->key, key) != 0) child = child->next;
    return child;
}

const json_value *json_at(const json_value *array, size_t i) {
    const json_value *child = json_first(array);
    while (child && i-- > 0) child = child->next;
    return child;
}

const char *json_string(const json_value *value, const char *otherwise) {
    return value && value->kind == JSON_STRING ? value->u.string : otherwise;
}

double json_number(const json_value *value, double otherwise) {
    if (!value || value->kind != JSON_NUMBER) return otherwise;
    return value->integral ? (double)value->u.integer : value->u.number;
}

int64_t json_integer(const json_value *value, int64_t otherwise) {
    return value && value->kind == JSON_NUMBER && value->integral ? value->u.integer : otherwise;
}

bool json_bool(const json_value *value, bool otherwise) {
    if (value && value->kind == JSON_TRUE) return true;
    if (value && value->kind == JSON_FALSE) return false;
    return otherwise;
}

/* === Writing === */

static void json_write_special(FILE *file, uint32_t c) {
    static const char from[] = "\"\\\b\f\n\r\t", into[] = "\"\\bfnrt";
    const char *found = c < 0x80 ? strchr(from, (int)c) : NULL;
    if (found) fprintf(file, "\\%c", into[found - from]);
    else fprintf(file, "\\u%04x", (unsigned)c);
}

void json_write_string(FILE *file, const char *text) {
    size_t size = strlen(text), at = 0;
    putc('"', file);
    while (at < size) {
        size_t length = text_utf8_length(text + at, size - at);
        const uint32_t c = length ? text_utf8_value(text + at, length) : 0xFFFD;
        if (length == 0) fputs("\xEF\xBF\xBD", file);
        else if (text_is_control(c) || c == '"' || c == '\\') json_write_special(file, c);
        else fwrite(text + at, 1, length, file);
        at += length ? length : 1;
    }
    putc('"', file);
}

json_writer json_write_to(FILE *file) {
    json_writer w;
    w.file = file;
    w.comma = false;
    return w;
}

static void json_next(json_writer *w, const char *key) {
    if (w->comma) fputs(", ", w->file);
    w->comma = true;
    if (!key) return;
    json_write_string(w->file, key);
    fputs(": ", w->file);
}

void json_put_begin(json_writer *w, const char *key, char bracket) {
    json_next(w, key);
    putc(bracket, w->file);
    w->comma = false;
}

void json_put_end(json_writer *w, char bracket) {
    putc(bracket, w->file);
    w->comma = true;
}

void json_put_text(json_writer *w, const char *key, const char *text) {
    json_next(w, key);
    if (text) json_write_string(w->file, text);
    else fputs("null", w->file);
}

void json_put_integer(json_writer *w, const char *key, int64_t value) {
    json_next(w, key);
    fprintf(w->file, "%lld", (long long)value);
}

void json_put_bool(json_writer *w, const char *key, bool value) {
    json_next(w, key);
    fputs(value ? "true" : "false", w->file);
}

void json_put_number(json_writer *w, const char *key, double value, int digits) {
    json_next(w, key);
    if (isfinite(value)) fprintf(w->file, "%.*g", digits, value);
    else fputs("null", w->file);
}

void json_put_decimals(json_writer *w, const char *key, double value, int decimals) {
    json_next(w, key);
    if (isfinite(value)) fprintf(w->file, "%.*f", decimals, value);
    else fputs("null", w->file);
}

/* Nine significant digits are enough to read every float back exactly. */
void json_put_float(json_writer *w, const char *key, float value) {
    char text[32];
    int digits;
    for (digits = 6; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    json_put_number(w, key, (double)value, digits);
}

void json_put_floats(json_writer *w, const char *key, const float *values, int count) {
    int i;
    json_put_begin(w, key, '[');
    for (i = 0; i < count; i++) json_put_float(w, NULL, values[i]);
    json_put_end(w, ']');
}
