/* pickle_values.c - reads a pickle's values, and decodes the texts of protocol 0, which are Python
 * source code.
 */
#include <string.h>

#include "checkpoint/pickle.h"

/* === Access === */

bool pickle_is_text(const pickle_value *value, pickle_kind kind, const char *text) {
    return value && value->kind == kind && value->count == strlen(text) &&
           memcmp(value->u.text, text, value->count) == 0;
}

const pickle_value *pickle_get(const pickle_value *dict, const char *key) {
    size_t i = dict && dict->kind == PICKLE_DICT ? dict->count : 0;
    for (; i >= 2; i -= 2)
        if (pickle_is_text(dict->u.items[i - 2], PICKLE_STRING, key)) return dict->u.items[i - 1];
    return NULL;
}

uint64_t pickle_long_size(const pickle_value *long_text) {
    return (uint64_t)long_text->capacity << 32 | long_text->count;
}

/* === Texts of protocol 0 === */

static unsigned pickle_digit(uint8_t c) {
    if (c >= '0' && c <= '9') return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f') return (unsigned)(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return (unsigned)(c - 'A' + 10);
    return 16;
}

/* Reads `count` hexadecimal digits into *value. Returns false if there are fewer digits. */
static bool pickle_hexadecimal(const uint8_t *from, size_t size, size_t count, uint32_t *value) {
    size_t i;
    *value = 0;
    for (i = 0; i < count; i++) {
        const unsigned digit = i < size ? pickle_digit(from[i]) : 16;
        if (digit == 16) return false;
        *value = *value << 4 | digit;
    }
    return true;
}

/* Returns the byte for which a backslash and this letter stand. Returns 0 if they have no
 * meaning. */
static uint8_t pickle_escape(uint8_t letter) {
    static const char letters[] = "\\'\"ntrabfv", bytes[] = "\\'\"\n\t\r\a\b\f\v";
    const char *at = letter ? strchr(letters, letter) : NULL;
    return at ? (uint8_t)bytes[at - letters] : 0;
}

/* Decodes the backslashes of a byte string. A backslash without a meaning stands for itself, as in
 * Python. */
static size_t pickle_decode_bytes(const uint8_t *from, size_t size, uint8_t *to) {
    size_t i, used = 0;
    uint32_t value;
    for (i = 0; i < size; i++) {
        const bool escaped = from[i] == '\\' && i + 1 < size;
        if (escaped && from[i + 1] == 'x' &&
            pickle_hexadecimal(from + i + 2, size - i - 2, 2, &value)) {
            to[used++] = (uint8_t)value;
            i += 3;
        } else if (escaped && pickle_escape(from[i + 1])) {
            to[used++] = pickle_escape(from[++i]);
        } else {
            to[used++] = from[i];
        }
    }
    return used;
}

/* Writes a character as UTF-8. Returns the number of bytes. */
static size_t pickle_put_character(uint32_t c, uint8_t *to) {
    static const uint8_t first[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    const size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    size_t i;
    for (i = size - 1; i > 0; i--, c >>= 6) to[i] = (uint8_t)(0x80 | (c & 0x3F));
    to[0] = (uint8_t)(first[size] | c);
    return size;
}

static size_t pickle_decode_characters(const uint8_t *from, size_t size, uint8_t *to) {
    size_t i, used = 0;
    for (i = 0; i < size; i++) {
        const uint8_t letter = from[i] == '\\' && i + 1 < size ? from[i + 1] : 0;
        const size_t digits = letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
        uint32_t c;
        if (digits && pickle_hexadecimal(from + i + 2, size - i - 2, digits, &c) && c < 0x110000)
            i += 1 + digits;
        else c = from[i];
        used += pickle_put_character(c, to + used);
    }
    return used;
}

size_t pickle_decode(pickle_encoding encoding, const uint8_t *from, size_t size, uint8_t *to) {
    if (encoding == PICKLE_ESCAPED_BYTES) return pickle_decode_bytes(from, size, to);
    if (encoding == PICKLE_ESCAPED_TEXT) return pickle_decode_characters(from, size, to);
    memmove(to, from, size);
    return size;
}
