#define _POSIX_C_SOURCE 200809L /* makes the headers declare strdup and strcasecmp */
#include "shards/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/source.h"
#include "base/text.h"
#include "image/photos.h"

/* === Archives === */

size_t tar_read_file(void *file, void *to, size_t size) { return fread(to, 1, size, file); }

void tar_begin(tar_stream *s, tar_read *read, void *user) {
    memset(s, 0, sizeof *s);
    s->read = read;
    s->user = user;
}

void tar_end(tar_stream *s) {
    free(s->text);
    s->text = NULL;
}

/* === Bytes === */

static bool take(tar_stream *s, void *to, size_t size, report *r) {
    const size_t got = s->read(s->user, to, size);
    s->offset += got;
    return got == size ||
           report_fail(r, "the archive is cut short: it ends at byte %llu, inside a member",
                       (unsigned long long)s->offset);
}

static bool pass_over(tar_stream *s, uint64_t size, report *r) {
    char bytes[1 << 14];
    while (size > 0) {
        const size_t piece = size < sizeof bytes ? (size_t)size : sizeof bytes;
        if (!take(s, bytes, piece, r)) return false;
        size -= piece;
    }
    return true;
}

bool tar_data(tar_stream *s, void *to, size_t size, report *r) {
    if (!take(s, to, size, r)) return false;
    s->left -= size;
    return true;
}

static uint64_t padding_of(uint64_t size) { return (0 - size) % TAR_BLOCK; }

/* === The headers that precede a member === */

/* Reads the data of an extended header into s->text, and appends a NUL. */
static bool take_extended(tar_stream *s, uint64_t size, report *r) {
    if (size > TAR_MAX_EXTENDED)
        return report_fail(r, "the archive has an extended header of %llu bytes, limit %d",
                           (unsigned long long)size, TAR_MAX_EXTENDED);
    free(s->text);
    s->text = malloc((size_t)size + 1);
    if (!s->text) return report_no_memory(r);
    s->text[size] = '\0';
    return take(s, s->text, (size_t)size, r) && pass_over(s, padding_of(size), r);
}

static void set_name(tar_stream *s, const char *text, size_t length) {
    s->name_too_long = length > TAR_MAX_NAME;
    if (s->name_too_long) length = TAR_MAX_NAME;
    memcpy(s->name, text, length);
    s->name[length] = '\0';
    s->long_name = length > 0;
}

/* Reads a decimal number of at most 2^63 - 1. Returns false for any other text. */
static bool read_decimal(const char *text, size_t length, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || *value > (INT64_MAX - 9) / 10) return false;
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return length > 0;
}

static bool is_key(const char *key, size_t length, const char *name) {
    return length == strlen(name) && memcmp(key, name, length) == 0;
}

/* Applies one PAX record, such as "path=photos/1.jpg", to the next member. */
static bool apply(tar_stream *s, const char *record, size_t length, report *r) {
    const char *equals = memchr(record, '=', length), *value;
    size_t key, size;
    if (!equals || equals == record)
        return report_fail(r, "the archive has a damaged PAX header: expected '='");
    value = equals + 1;
    key = (size_t)(equals - record);
    size = length - key - 1;
    if (is_key(record, key, "path")) {
        if (memchr(value, '\0', size))
            return report_fail(r, "the archive has a PAX path with a NUL in it");
        set_name(s, value, size);
    } else if (is_key(record, key, "size")) {
        s->resized = read_decimal(value, size, &s->size);
        if (!s->resized)
            return report_fail(r, "the archive has a damaged PAX header: expected a size");
    } else if (key > 10 && memcmp(record, "GNU.sparse", 10) == 0) {
        s->sparse = true;
    }
    return true;
}

/* Reads PAX records of the form "LENGTH KEY=VALUE\n". LENGTH is the number of bytes of the whole
 * record. Records with unknown keys are skipped. */
static bool read_pax(tar_stream *s, size_t size, report *r) {
    const char *at = s->text, *end = s->text + size;
    while (at < end && *at) { /* Some programs pad the records with NULs. */
        size_t digits = 0;
        uint64_t length;
        while (at + digits < end && at[digits] >= '0' && at[digits] <= '9') digits++;
        if (!read_decimal(at, digits, &length) || length > (uint64_t)(end - at) ||
            length < digits + 2 || at[digits] != ' ' || at[length - 1] != '\n')
            return report_fail(r, "the archive has a damaged PAX header: expected a record");
        if (!apply(s, at + digits + 1, (size_t)length - digits - 2, r)) return false;
        at += length;
    }
    return true;
}

/* Refuses a global header with a path or a size, because this value would apply to all members. No
 * program that writes photos makes such a header. */
static bool read_global(tar_stream *s, size_t size, report *r) {
    if (!read_pax(s, size, r)) return false;
    return (!s->long_name && !s->resized && !s->sparse) ||
           report_fail(
               r,
               "the archive has a global PAX header with a path or a size, which is not supported");
}

/* Reads a header that describes the next member, if `h` is such a header. Returns false if `h` is
 * any other header, or after a failure. */
static bool read_extended(tar_stream *s, const tar_header *h, report *r) {
    switch (h->type) {
    case 'x': return take_extended(s, h->size, r) && read_pax(s, (size_t)h->size, r);
    case 'g': return take_extended(s, h->size, r) && read_global(s, (size_t)h->size, r);
    /* This is the long name of a link's target, which is not needed. */
    case 'K': return take_extended(s, h->size, r);
    case 'L':
        if (!take_extended(s, h->size, r)) return false;
        /* A path from a PAX header has priority. */
        if (!s->long_name) set_name(s, s->text, strlen(s->text));
        return true;
    default: return false;
    }
}

/* === Members === */

static const char *refusal_by_type(char type) {
    switch (type) {
    case '0':
    case '7': return NULL;
    case '1': return "is a hard link";
    case '2': return "is a symbolic link";
    case '3':
    case '4': return "is a device";
    case '5': return "is a folder";
    case '6': return "is a pipe";
    case 'S': return "is a sparse file";
    default: return "is of an unknown kind";
    }
}

/* Returns true for names such as "a/../b", "..", "/a" and "C:\a". A program that unpacks the
 * archive would write such files outside its folder. */
static bool leads_out(const char *name) {
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

/* Replaces each control character in the name by '?', because the name may be printed on a
 * terminal. Returns true if there were any. */
static bool has_controls(char *name) {
    bool found = false;
    for (; *name; name++) {
        if ((unsigned char)*name >= ' ' && *name != 127) continue;
        *name = '?';
        found = true;
    }
    return found;
}

static void describe(tar_stream *s, const tar_header *h, tar_member *m) {
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
    /* Links, devices and folders have no data, whatever value their size field has. */
    s->left = h->type >= '1' && h->type <= '6' ? 0 : m->size;
    s->padding = padding_of(s->left);
}

/* Skips the additional blocks of a sparse file's map, which follow its header. */
static bool pass_map(tar_stream *s, const tar_header *h, report *r) {
    uint8_t block[TAR_BLOCK];
    block[504] = h->type == 'S' && h->extended;
    while (block[504])
        if (!take(s, block, sizeof block, r)) return false;
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t size) {
    size_t i = 0;
    while (i < size && !bytes[i]) i++;
    return i == size;
}

/* Reads the stream to its end, after the block of zeros that ends the archive. A program that
 * writes the archive to a pipe can thus finish. Always returns false. If anything but zeros
 * follows, *r has a message. */
static bool finish(tar_stream *s, report *r) {
    uint8_t bytes[1 << 14];
    size_t got;
    while ((got = s->read(s->user, bytes, sizeof bytes)) > 0) {
        if (!is_zero(bytes, got))
            return report_fail(
                r,
                "the archive has data after its end, near byte %llu: give concatenated "
                "archives one by one",
                (unsigned long long)s->offset);
        s->offset += got;
    }
    return false;
}

static bool not_tar(const tar_stream *s, const uint8_t *block, report *r) {
    static const struct {
        const char *magic, *kind, *command;
    } packed[] = {
        { "\x1f\x8b", "gzip", "gzip -dc" },
        { "\x28\xb5\x2f\xfd", "Zstandard", "zstd -dc" },
        { "BZh", "bzip2", "bzip2 -dc" },
        { "\xfd"
          "7zXZ",
          "xz", "xz -dc" },
    };
    if (s->offset > TAR_BLOCK)
        return report_fail(
            r, "the archive is damaged: the checksum of the header at byte %llu is wrong",
            (unsigned long long)(s->offset - TAR_BLOCK));
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++)
        if (memcmp(block, packed[i].magic, strlen(packed[i].magic)) == 0)
            return report_fail(
                r, "the archive is compressed by %s; give it unpacked: %s SHARD | ... --tar -",
                packed[i].kind, packed[i].command);
    return report_fail(r, "the file is not a tar archive");
}

/* Reads the next header. Returns false at the end of the archive. A damaged header, or an archive
 * without its end, is a failure. */
static bool next_header(tar_stream *s, tar_header *h, report *r) {
    uint8_t block[TAR_BLOCK];
    const size_t got = s->read(s->user, block, sizeof block);
    s->offset += got;
    if (got == 0 && s->offset == 0) return report_fail(r, "is empty");
    if (got == 0)
        return report_fail(
            r,
            "the archive is cut short at byte %llu: the zeros that end an archive are "
            "missing",
            (unsigned long long)s->offset);
    if (got < sizeof block)
        return s->offset < sizeof block
                   ? report_fail(r, "the file is not a tar archive")
                   : report_fail(r,
                                 "the archive is cut short: it ends at byte %llu, inside a header",
                                 (unsigned long long)s->offset);
    if (is_zero(block, sizeof block)) return finish(s, r);
    return tar_header_read(h, block) || not_tar(s, block, r);
}

bool tar_next(tar_stream *s, tar_member *m, report *r) {
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
    return r->failed || !extended ? false
                                  : report_fail(r, "the archive ends after an extended header");
}

/* === Samples === */

void sample_free(sample *s) {
    free(s->key);
    free(s->name);
    free(s->caption);
    free(s->label);
    free(s->url);
    free(s->note);
    free(s->error);
    free(s->data);
    memset(s, 0, sizeof *s);
}

void samples_begin(samples *s, tar_read *read, void *user, size_t max_bytes) {
    memset(s, 0, sizeof *s);
    s->max_bytes = max_bytes;
    tar_begin(&s->tar, read, user);
}

static void clear(samples *s) {
    for (int i = s->next; i < s->count; i++) sample_free(&s->images[i]);
    sample_free(&s->shared);
    s->count = s->next = 0;
}

void samples_end(samples *s) {
    clear(s);
    tar_end(&s->tar);
}

/* === Names === */

/* Returns the length of the key at the start of the name. The key ends before the first dot of the
 * file name. Returns 0 if the name has no key, so that the member belongs to no sample. */
static size_t key_length(const char *name) {
    const char *file = paths_file_name(name), *dot = strchr(file, '.');
    return dot && dot > file ? (size_t)(dot - name) : 0;
}

/* Returns true if a member with this name belongs to the current sample. */
static bool is_of(const samples *s, const char *name) {
    const size_t length = key_length(name);
    return length == strlen(s->shared.key) && memcmp(name, s->shared.key, length) == 0;
}

/* Returns the pointer of the current sample that receives the text of this member. Returns NULL if
 * the member is not a text. */
static char **text_of(samples *s, const char *name) {
    const char *suffix = name + key_length(name);
    return strcasecmp(suffix, ".txt") == 0   ? &s->shared.caption
           : strcasecmp(suffix, ".cls") == 0 ? &s->shared.label
           /* Until read_json, `url` holds the whole text of KEY.json. */
           : strcasecmp(suffix, ".json") == 0 ? &s->shared.url
                                              : NULL;
}

/* === Taking members === */

static bool copy_text(char **to, const char *text, report *r) {
    *to = strdup(text);
    return *to || report_no_memory(r);
}

/* Notes the first text that could not be used, and the reason. Later problems are ignored. */
static bool put_note(samples *s, const char *what, report *r) {
    char text[256];
    if (s->shared.note) return true;
    snprintf(text, sizeof text, "%.100s %.150s", paths_file_name(s->member.name), what);
    return copy_text(&s->shared.note, text, r);
}

static bool take_text(samples *s, char **to, report *r) {
    const tar_member *m = &s->member;
    const size_t size = (size_t)m->size;
    if (m->refused) return put_note(s, m->refused, r);
    if (*to) return put_note(s, "is there twice", r);
    if (m->size > SAMPLE_MAX_TEXT) return put_note(s, "has more than 1 MiB", r);
    *to = malloc(size + 1);
    if (!*to) return report_no_memory(r);
    if (!tar_data(&s->tar, *to, size, r)) {
        (*to)[0] = '\0';
        return false;
    }
    (*to)[size] = '\0';
    if (strlen(*to) == size) return true;
    free(*to);
    *to = NULL;
    return put_note(s, "has a NUL in it", r);
}

static size_t bytes_held(const samples *s) {
    size_t sum = 0;
    for (int i = 0; i < s->count; i++) sum += s->images[i].size;
    return sum;
}

static bool take_bytes(samples *s, sample *image, report *r) {
    image->size = (size_t)s->member.size;
    image->data = malloc(image->size + 1);
    return image->data ? tar_data(&s->tar, image->data, image->size, r) : report_no_memory(r);
}

static bool take_image(samples *s, report *r) {
    const tar_member *m = &s->member;
    const size_t room = s->max_bytes - bytes_held(s);
    sample *image = &s->images[s->count];
    char text[128];
    memset(image, 0, sizeof *image);
    /* From here on, the image belongs to `samples`, which also frees it after a failure. */
    s->count++;
    if (!copy_text(&image->name, m->name, r) || !copy_text(&image->key, s->shared.key, r))
        return false;
    if (m->refused) return copy_text(&image->error, m->refused, r);
    if (m->size <= room) return take_bytes(s, image, r);
    snprintf(text, sizeof text, "is too large: %llu bytes, limit %llu%s",
             (unsigned long long)m->size, (unsigned long long)s->max_bytes,
             m->size > s->max_bytes ? "" : " for all images of a sample together");
    return copy_text(&image->error, text, r);
}

static void pass_member(samples *s) {
    if (!s->member.folder && s->others++ == 0) strcpy(s->other, s->member.name);
}

static bool take_member(samples *s, report *r) {
    char **text = text_of(s, s->member.name);
    return text ? take_text(s, text, r) : take_image(s, r);
}

static bool is_wanted(samples *s) {
    const char *name = s->member.name;
    return !s->member.folder && key_length(name) > 0 && (text_of(s, name) || photos_is_name(name));
}

/* === KEY.json === */

static bool from_json(char **to, const json_value *root, const char *key, char **note, report *r) {
    const json_value *value = json_get(root, key);
    char number[32];
    if (*to || !value) return true;
    if (value->kind == JSON_STRING) return copy_text(to, value->u.string, r);
    if (value->kind == JSON_NULL) return true;
    if (value->kind != JSON_NUMBER || !value->integral) {
        char text[80];
        snprintf(text, sizeof text, "%s of its .json is neither text nor a whole number", key);
        return *note || copy_text(note, text, r);
    }
    snprintf(number, sizeof number, "%lld", (long long)value->u.integer);
    return copy_text(to, number, r);
}

static bool read_json(samples *s, report *r) {
    char *text = s->shared.url;
    report unread = report_make();
    json_document document;
    bool good;
    s->shared.url = NULL;
    if (!text) return true;
    if (!json_parse(&document, text, strlen(text), false, 0, &unread)) {
        free(text);
        if (unread.no_memory) return report_no_memory(r);
        return s->shared.note || copy_text(&s->shared.note, "its .json is invalid", r);
    }
    good = from_json(&s->shared.caption, document.root, "caption", &s->shared.note, r) &&
           from_json(&s->shared.label, document.root, "label", &s->shared.note, r) &&
           from_json(&s->shared.url, document.root, "url", &s->shared.note, r);
    json_free(&document);
    free(text);
    return good;
}

/* === A sample === */

static bool begin_sample(samples *s, report *r) {
    const char *name = s->member.name;
    const size_t length = key_length(name);
    s->shared.key = malloc(length + 1);
    if (!s->shared.key) return report_no_memory(r);
    memcpy(s->shared.key, name, length);
    s->shared.key[length] = '\0';
    return true;
}

/* Reads the members of one sample. If the sample has more than SAMPLE_MAX_IMAGES images, the
 * remaining members become a separate sample. */
static bool read_sample(samples *s, report *r) {
    while (s->count < SAMPLE_MAX_IMAGES && (s->pending || tar_next(&s->tar, &s->member, r))) {
        s->pending = false;
        if (!is_wanted(s)) {
            pass_member(s);
            continue;
        }
        s->pending = s->shared.key && !is_of(s, s->member.name);
        if (s->pending) return read_json(s, r);
        if (!s->shared.key && !begin_sample(s, r)) return false;
        if (!take_member(s, r)) return false;
    }
    if (r->failed) return false;
    s->ended = s->count < SAMPLE_MAX_IMAGES;
    return read_json(s, r);
}

/* Copies the texts of the sample to one of its images. */
static bool share(const sample *from, sample *to, report *r) {
    return (!from->caption || copy_text(&to->caption, from->caption, r)) &&
           (!from->label || copy_text(&to->label, from->label, r)) &&
           (!from->url || copy_text(&to->url, from->url, r)) &&
           (!from->note || copy_text(&to->note, from->note, r));
}

bool samples_next(samples *s, sample *image, report *r) {
    while (s->next == s->count) {
        clear(s);
        if (s->ended || !read_sample(s, r)) return false;
        if (s->count == 0 && s->shared.key) s->without_image++;
    }
    *image = s->images[s->next];
    memset(&s->images[s->next++], 0, sizeof *image);
    if (share(&s->shared, image, r)) return true;
    sample_free(image);
    return false;
}
