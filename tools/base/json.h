/* json.h - a small strict JSON reader (RFC 8259), and a writer.
 *
 * The text is parsed in place. Strings are unescaped in place, so the tree costs only 32 bytes per
 * value. The limits are 64 levels, 10^6 values (in a text above 8 MB: one value for each 8 bytes),
 * 400 characters for a number, and no NUL inside a string. The text must outlive the tree.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/report.h"

typedef enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
} json_kind;

typedef struct json_value json_value;

struct json_value {
    uint8_t kind;     /* json_kind */
    bool integral;    /* number: written without '.' or exponent and fits an int64 */
    uint32_t count;   /* array or object: number of children */
    const char *key;  /* inside an object */
    json_value *next; /* next child of the same parent */
    union {
        const char *string;
        json_value *first; /* first child */
        double number;
        int64_t integer; /* replaces `number` if integral; json_number reads both */
    } u;
};

typedef struct json_document {
    memory_arena memory;
    json_value *root;
} json_document;

/* text[size] must be writable, because it becomes a NUL. `unique_keys` refuses objects with a
 * repeated key; otherwise json_get finds the first of the equal keys. `base` is added to the byte
 * offsets in messages. On failure there is nothing to free. */
bool json_parse(json_document *document, char *text, size_t size, bool unique_keys, uint64_t base,
                report *r);
void json_free(json_document *document);

/* These functions return NULL or the default if the value has another kind or is missing (the
 * object may be NULL). */
const json_value *json_get(const json_value *object, const char *key);
const json_value *json_first(const json_value *array_or_object); /* then ->next */
const json_value *json_at(const json_value *array, size_t i);
const char *json_string(const json_value *value, const char *otherwise);
double json_number(const json_value *value, double otherwise);
int64_t json_integer(const json_value *value, int64_t otherwise);
bool json_bool(const json_value *value, bool otherwise);

/* Writes text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void json_write_string(FILE *file, const char *text);

/* === Writing, a value at a time ===
 * The writer adds the commas. key is NULL for the outermost value and for items of a list. */
typedef struct json_writer {
    FILE *file;
    bool comma; /* private: a comma must precede the next value */
} json_writer;

json_writer json_write_to(FILE *file);
void json_put_begin(json_writer *w, const char *key, char bracket);    /* '{' or '[' */
void json_put_end(json_writer *w, char bracket);                       /* '}' or ']' */
void json_put_text(json_writer *w, const char *key, const char *text); /* NULL: null */
void json_put_bool(json_writer *w, const char *key, bool value);
void json_put_integer(json_writer *w, const char *key, int64_t value);
/* NaN and infinity become null, because JSON has neither. */
void json_put_number(json_writer *w, const char *key, double value, int digits);
void json_put_decimals(json_writer *w, const char *key, double value, int decimals);
void json_put_float(json_writer *w, const char *key, float value); /* exactly, in few digits */
void json_put_floats(json_writer *w, const char *key, const float *values, int count);

#endif
