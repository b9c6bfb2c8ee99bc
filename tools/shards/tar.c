#include "shards/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tar_header.h"

size_t tar_read_file(void *file, void *to, size_t size) { return fread(to, 1, size, file); }

void tar_begin(tar_stream *s, tar_read *read, void *user)
{
    memset(s, 0, sizeof *s);
    s->read = read;
    s->user = user;
}

void tar_end(tar_stream *s)
{
    free(s->text);
    s->text = NULL;
}

/* === Bytes === */

static bool take(tar_stream *s, void *to, size_t size, report *r)
{
    const size_t got = s->read(s->user, to, size);
    s->offset += got;
    return got == size || report_fail(r, "is cut short: it ends at byte %llu, inside a member",
                                      (unsigned long long)s->offset);
}

static bool pass_over(tar_stream *s, uint64_t size, report *r)
{
    char bytes[1 << 14];
    while (size > 0) {
        const size_t piece = size < sizeof bytes ? (size_t)size : sizeof bytes;
        if (!take(s, bytes, piece, r)) return false;
        size -= piece;
    }
    return true;
}

bool tar_data(tar_stream *s, void *to, size_t size, report *r)
{
    if (!take(s, to, size, r)) return false;
    s->left -= size;
    return true;
}

static uint64_t padding_of(uint64_t size) { return (0 - size) % TAR_BLOCK; }

/* === The headers that precede a member === */

/* The bytes of one, with a NUL after them, in s->text. */
static bool take_extended(tar_stream *s, uint64_t size, report *r)
{
    if (size > TAR_MAX_EXTENDED)
        return report_fail(r, "has an extended header of %llu bytes, limit %d",
                           (unsigned long long)size, TAR_MAX_EXTENDED);
    free(s->text);
    s->text = malloc((size_t)size + 1);
    if (!s->text) return report_no_memory(r);
    s->text[size] = '\0';
    return take(s, s->text, (size_t)size, r) && pass_over(s, padding_of(size), r);
}

static void set_name(tar_stream *s, const char *text, size_t length)
{
    s->name_too_long = length > TAR_MAX_NAME;
    if (s->name_too_long) length = TAR_MAX_NAME;
    memcpy(s->name, text, length);
    s->name[length] = '\0';
    s->long_name = length > 0;
}

/* Decimal digits, up to 2^63 - 1. */
static bool read_decimal(const char *text, size_t length, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || *value > (INT64_MAX - 9) / 10) return false;
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return length > 0;
}

static bool is_key(const char *key, size_t length, const char *name)
{
    return length == strlen(name) && memcmp(key, name, length) == 0;
}

/* "path=photos/1.jpg". */
static bool apply(tar_stream *s, const char *record, size_t length, report *r)
{
    const char *equals = memchr(record, '=', length), *value;
    size_t key, size;
    if (!equals || equals == record)
        return report_fail(r, "has a damaged PAX header: '=' expected");
    value = equals + 1;
    key = (size_t)(equals - record);
    size = length - key - 1;
    if (is_key(record, key, "path")) {
        if (memchr(value, '\0', size)) return report_fail(r, "has a PAX path with a NUL in it");
        set_name(s, value, size);
    } else if (is_key(record, key, "size")) {
        s->resized = read_decimal(value, size, &s->size);
        if (!s->resized) return report_fail(r, "has a damaged PAX header: a size expected");
    } else if (key > 10 && memcmp(record, "GNU.sparse", 10) == 0) {
        s->sparse = true;
    }
    return true;
}

/* Records "LENGTH KEY=VALUE\n", where LENGTH counts all of that. What is no key above is left. */
static bool read_pax(tar_stream *s, size_t size, report *r)
{
    const char *at = s->text, *end = s->text + size;
    while (at < end && *at) {   /* some pad with NULs */
        size_t digits = 0;
        uint64_t length;
        while (at + digits < end && at[digits] >= '0' && at[digits] <= '9') digits++;
        if (!read_decimal(at, digits, &length) || length > (uint64_t)(end - at) ||
            length < digits + 2 || at[digits] != ' ' || at[length - 1] != '\n')
            return report_fail(r, "has a damaged PAX header: a record expected");
        if (!apply(s, at + digits + 1, (size_t)length - digits - 2, r)) return false;
        at += length;
    }
    return true;
}

/* What a global header sets holds for all members, which no program that writes photos does. */
static bool read_global(tar_stream *s, size_t size, report *r)
{
    if (!read_pax(s, size, r)) return false;
    return (!s->long_name && !s->resized && !s->sparse) ||
           report_fail(r, "has a global PAX header with a path or a size, which is not supported");
}

/* False: h is no such header, or a failure. */
static bool read_extended(tar_stream *s, const tar_header *h, report *r)
{
    switch (h->type) {
    case 'x': return take_extended(s, h->size, r) && read_pax(s, (size_t)h->size, r);
    case 'g': return take_extended(s, h->size, r) && read_global(s, (size_t)h->size, r);
    case 'K': return take_extended(s, h->size, r);   /* the long target of a link */
    case 'L':
        if (!take_extended(s, h->size, r)) return false;
        if (!s->long_name) set_name(s, s->text, strlen(s->text));   /* a PAX path comes first */
        return true;
    default: return false;
    }
}

/* === Members === */

static const char *refusal_by_type(char type)
{
    switch (type) {
    case '0': case '7': return NULL;
    case '1': return "is a hard link";
    case '2': return "is a symbolic link";
    case '3': case '4': return "is a device";
    case '5': return "is a folder";
    case '6': return "is a pipe";
    case 'S': return "is a sparse file";
    default: return "is of a kind that is not known";
    }
}

/* "a/../b", "..", "/a", "C:\a": a program that unpacks it would write elsewhere. */
static bool leads_out(const char *name)
{
    const char *part = name;
    const bool letter = (*name >= 'A' && *name <= 'Z') || (*name >= 'a' && *name <= 'z');
    if (*name == '/' || *name == '\\' || (letter && name[1] == ':')) return true;
    for (;;) {
        const size_t length = strcspn(part, "/\\");
        if (length == 2 && part[0] == '.' && part[1] == '.') return true;
        if (!part[length]) return false;
        part += length + 1;
    }
}

/* Also makes a name printable: a terminal obeys control characters. */
static bool has_controls(char *name)
{
    bool found = false;
    for (; *name; name++) {
        if ((unsigned char)*name >= ' ' && *name != 127) continue;
        *name = '?';
        found = true;
    }
    return found;
}

static void describe(tar_stream *s, const tar_header *h, tar_member *m)
{
    const char *name = s->long_name ? s->name : h->name, *kind = refusal_by_type(h->type);
    bool controls;
    strcpy(m->name, name);
    controls = has_controls(m->name);
    m->size = s->resized ? s->size : h->size;
    m->folder = h->type == '5';
    m->refused = kind               ? kind
                 : s->sparse        ? "is a sparse file"
                 : s->name_too_long ? "has a name of more than 4095 bytes"
                 : controls         ? "has control characters in its name"
                 : !*name           ? "has no name"
                 : leads_out(name)  ? "has a name that leads out of the archive"
                                    : NULL;
    /* Links, devices and folders have no data, whatever their size says. */
    s->left = h->type >= '1' && h->type <= '6' ? 0 : m->size;
    s->padding = padding_of(s->left);
}

/* Blocks that go on with the map of a sparse file. */
static bool pass_map(tar_stream *s, const tar_header *h, report *r)
{
    uint8_t block[TAR_BLOCK];
    block[504] = h->type == 'S' && h->extended;
    while (block[504])
        if (!take(s, block, sizeof block, r)) return false;
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    size_t i = 0;
    while (i < size && !bytes[i]) i++;
    return i == size;
}

/* After a block of zeros: to the end of the stream, so that whoever writes into a pipe can finish.
 * Always false. */
static bool finish(tar_stream *s, report *r)
{
    uint8_t bytes[1 << 14];
    size_t got;
    while ((got = s->read(s->user, bytes, sizeof bytes)) > 0) {
        if (!is_zero(bytes, got))
            return report_fail(r, "has more after its end, near byte %llu: archives that were "
                               "joined must be given one by one", (unsigned long long)s->offset);
        s->offset += got;
    }
    return false;
}

static bool not_tar(const tar_stream *s, const uint8_t *block, report *r)
{
    static const struct { const char *magic, *kind, *command; } packed[] = {
        { "\x1f\x8b", "gzip", "gzip -dc" }, { "\x28\xb5\x2f\xfd", "Zstandard", "zstd -dc" },
        { "BZh", "bzip2", "bzip2 -dc" }, { "\xfd" "7zXZ", "xz", "xz -dc" }
    };
    if (s->offset > TAR_BLOCK)
        return report_fail(r, "is damaged: the checksum of the header at byte %llu is wrong",
                           (unsigned long long)(s->offset - TAR_BLOCK));
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++)
        if (memcmp(block, packed[i].magic, strlen(packed[i].magic)) == 0)
            return report_fail(r, "is compressed by %s; give it unpacked: %s SHARD | ... --tar -",
                               packed[i].kind, packed[i].command);
    return report_fail(r, "is not a tar archive");
}

/* A header that is damaged, or an end that is none. */
static bool next_header(tar_stream *s, tar_header *h, report *r)
{
    uint8_t block[TAR_BLOCK];
    const size_t got = s->read(s->user, block, sizeof block);
    s->offset += got;
    if (got == 0 && s->offset == 0) return report_fail(r, "is empty");
    if (got == 0)
        return report_fail(r, "is cut short at byte %llu: the zeros that end an archive are "
                           "missing", (unsigned long long)s->offset);
    if (got < sizeof block)
        return s->offset < sizeof block
                   ? report_fail(r, "is not a tar archive")
                   : report_fail(r, "is cut short: it ends at byte %llu, inside a header",
                                 (unsigned long long)s->offset);
    if (is_zero(block, sizeof block)) return finish(s, r);
    return tar_header_read(h, block) || not_tar(s, block, r);
}

bool tar_next(tar_stream *s, tar_member *m, report *r)
{
    tar_header h;
    bool extended = false;
    if (!pass_over(s, s->left, r) || !pass_over(s, s->padding, r)) return false;
    s->left = s->padding = 0;
    s->long_name = s->resized = s->sparse = s->name_too_long = false;
    while (next_header(s, &h, r)) {
        if (read_extended(s, &h, r)) {
            extended = h.type != 'g';
            continue;
        }
        if (r->failed) return false;
        describe(s, &h, m);
        return pass_map(s, &h, r);
    }
    return r->failed || !extended ? false : report_fail(r, "ends after an extended header");
}
