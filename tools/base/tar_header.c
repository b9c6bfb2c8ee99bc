#include "base/tar_header.h"

#include <stddef.h>
#include <string.h>

enum { SIZE_AT = 124, SIZE_END = 136, SUM_AT = 148, SUM_END = 156, TYPE_AT = 156, MAGIC_AT = 257,
       PREFIX_AT = 345, PREFIX_SIZE = 155, NAME_SIZE = 100, EXTENDED_AT = 482 };

/* Octal digits, which may have spaces before and a space or a NUL after them. */
static bool read_octal(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    while (at < end && *at == ' ') at++;
    for (; at < end && *at >= '0' && *at <= '7'; at++) *value = *value * 8 + (uint64_t)(*at - '0');
    return at == end || *at == ' ' || *at == 0;
}

/* GNU's way for large ones: a set bit, then big-endian. */
static bool read_binary(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    *value = *at++ & 0x7f;
    for (; at < end; at++) {
        if (*value >> 55) return false;
        *value = *value << 8 | *at;
    }
    return true;
}

/* The bytes with the checksum as spaces, added up; old programs took them as signed. */
static bool checksum_fits(const uint8_t *block)
{
    uint64_t stored;
    int64_t plain = 0, with_sign = 0;
    for (int i = 0; i < TAR_BLOCK; i++) {
        const uint8_t byte = i >= SUM_AT && i < SUM_END ? ' ' : block[i];
        plain += byte;
        with_sign += byte < 128 ? byte : byte - 256;
    }
    return read_octal(block + SUM_AT, block + SUM_END, &stored) &&
           ((int64_t)stored == plain || (int64_t)stored == with_sign);
}

/* A text that a NUL ends if it is shorter. */
static size_t take_text(char *to, const uint8_t *from, size_t most)
{
    size_t length = 0;
    while (length < most && from[length]) length++;
    memcpy(to, from, length);
    to[length] = '\0';
    return length;
}

bool tar_header_read(tar_header *h, const uint8_t block[TAR_BLOCK])
{
    const uint8_t *size = block + SIZE_AT;
    size_t length = 0;
    memset(h, 0, sizeof *h);
    if (!checksum_fits(block)) return false;
    if (!(*size & 0x80 ? read_binary : read_octal)(size, block + SIZE_END, &h->size)) return false;
    if (memcmp(block + MAGIC_AT, "ustar", 6) == 0 && block[PREFIX_AT]) {   /* GNU's has no NUL */
        length = take_text(h->name, block + PREFIX_AT, PREFIX_SIZE);
        h->name[length++] = '/';
    }
    length += take_text(h->name + length, block, NAME_SIZE);
    h->type = block[TYPE_AT] ? (char)block[TYPE_AT] : '0';
    if (h->type == '0' && length > 0 && h->name[length - 1] == '/') h->type = '5';
    h->extended = block[EXTENDED_AT] != 0;
    return true;
}
