/* json.h - a small strict JSON reader (RFC 8259), and a writer.
 *
 * The text is parsed in place. Strings are unescaped in place, so the tree costs only 32 bytes per
 * value. A text of up to 8 MB may have 10^6 values, and a larger text may have one value for each 8
 * bytes. Values may be nested 64 levels deep. A number may have 400 characters. A string must not
 * contain NUL. The text must outlive the tree.
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
    uint8_t kind; /* a value of json_kind */
    /* True for a number that fits an int64 and has neither '.' nor an exponent. */
    bool integral;
    uint32_t count;   /* number of children of an array or an object */
    const char *key;  /* the key of a member of an object; NULL for other values */
    json_value *next; /* the next child of the same parent; NULL for the last child */
    union {
        const char *string;
        json_value *first; /* the first child of an array or an object */
        double number;
        /* If `integral` is true, the number is stored here and not in `number`; json_number reads
         * both. */
        int64_t integer;
    } u;
};

typedef struct json_document {
    memory_arena memory;
    json_value *root;
} json_document;

/* Parses a text. text[size] must be writable, because the function stores a NUL there. If
 * `unique_keys` is set, an object with a repeated key is refused; otherwise json_get finds the
 * first of the equal keys. `base` is added to the byte offsets in messages. On failure there is
 * nothing to free. */
bool json_parse(json_document *document, char *text, size_t size, bool unique_keys, uint64_t base,
                report *r);
void json_free(json_document *document);

/* These functions read a value. The first argument may be NULL. If the value is missing or has
 * another kind, or if json_integer finds no `integral` number, they return NULL or `otherwise`. */
const json_value *json_get(const json_value *object, const char *key);
/* Returns the first child; the `next` of each child is the following child. */
const json_value *json_first(const json_value *array_or_object);
const json_value *json_at(const json_value *array, size_t i);
const char *json_string(const json_value *value, const char *otherwise);
double json_number(const json_value *value, double otherwise);
int64_t json_integer(const json_value *value, int64_t otherwise);
bool json_bool(const json_value *value, bool otherwise);

/* Writes text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void json_write_string(FILE *file, const char *text);

/* === Writing, a value at a time ===
 *
 * The writer adds the commas. `key` is NULL for the outermost value and for items of a list. */
typedef struct json_writer {
    FILE *file;
    bool comma; /* private: a comma must precede the next value */
} json_writer;

json_writer json_write_to(FILE *file);
void json_put_begin(json_writer *w, const char *key, char bracket); /* `bracket` is '{' or '[' */
void json_put_end(json_writer *w, char bracket);                    /* `bracket` is '}' or ']' */
/* Writes a text as a string; NULL becomes null. */
void json_put_text(json_writer *w, const char *key, const char *text);
void json_put_bool(json_writer *w, const char *key, bool value);
void json_put_integer(json_writer *w, const char *key, int64_t value);
/* Write a number with `digits` significant digits, or with `decimals` digits after the point. NaN
 * and infinity become null, because JSON has neither. */
void json_put_number(json_writer *w, const char *key, double value, int digits);
void json_put_decimals(json_writer *w, const char *key, double value, int decimals);
/* Writes the float with at most 9 digits, from which the same float can be read. */
void json_put_float(json_writer *w, const char *key, float value);
void json_put_floats(json_writer *w, const char *key, const float *values, int count);

#endif
