/* tar.c - a tar archive with one file inside, which is the checkpoint. */
#include <string.h>

#include "base/paths.h"
#include "base/source.h"
#include "checkpoint/container.h"

enum { TAR_BLOCK = 512, TAR_MAX_ENTRIES = 1000 };

/* Octal digits, which may have spaces before and a space or NUL after them. */
static bool tar_read_size(const uint8_t header[TAR_BLOCK], uint64_t *size)
{
    const uint8_t *digits = header + 124;
    int i = 0;
    *size = 0;
    while (i < 11 && digits[i] == ' ') i++;
    for (; i < 12 && digits[i] >= '0' && digits[i] <= '7'; i++)
        *size = *size * 8 + (uint64_t)(digits[i] - '0');
    return i == 12 || digits[i] == ' ' || digits[i] == 0;
}

/* The header's bytes with its checksum as spaces, added up. */
static bool tar_checksum_fits(const uint8_t header[TAR_BLOCK])
{
    unsigned long sum = 0, stored = 0;
    int i;
    for (i = 0; i < TAR_BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : header[i];
    for (i = 148; i < 156 && header[i] == ' '; i++) continue;
    for (; i < 156 && header[i] >= '0' && header[i] <= '7'; i++)
        stored = stored * 8 + (unsigned long)(header[i] - '0');
    return sum == stored;
}

static bool tar_is_visible_file(const uint8_t header[TAR_BLOCK])
{
    char name[101] = "";
    memcpy(name, header, sizeof name - 1);
    return (header[156] == '0' || header[156] == 0) && *paths_file_name(name) != '.';
}

/* The only file that is not hidden; directories, links and extended headers are passed over. */
static bool tar_find_file(const source *s, source *found, report *r)
{
    uint64_t at = 0, size = 0;
    int files = 0, entries;
    for (entries = 0; s->size - at >= TAR_BLOCK; entries++) {
        uint8_t header[TAR_BLOCK];
        if (entries == TAR_MAX_ENTRIES)
            return report_fail(r, "tar: more than %d entries; unpack it first", TAR_MAX_ENTRIES);
        if (!source_read(s, at, header, sizeof header, r)) return false;
        if (header[0] == 0) break;
        at += TAR_BLOCK;
        if (!tar_checksum_fits(header) || !tar_read_size(header, &size) || size > s->size - at)
            return report_fail(r, "tar: damaged at byte %llu",
                               (unsigned long long)(at - TAR_BLOCK));
        if (tar_is_visible_file(header)) {
            *found = source_part(s, at, size);
            files++;
        }
        size = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        at = size > s->size - at ? s->size : at + size;
    }
    if (files == 1) return true;
    return report_fail(r, "tar: %d files inside, one checkpoint expected; unpack it first", files);
}

bool tar_open(checkpoint *c, size_t file, report *r)
{
    source found = c->sources[file];
    char magic[5] = "";
    if (!tar_find_file(&c->sources[file], &found, r)) return false;
    if (found.size >= TAR_BLOCK && !source_read(&found, 257, magic, sizeof magic, r)) return false;
    if (memcmp(magic, "ustar", sizeof magic) == 0)
        return report_fail(r, "tar: a tar inside a tar; unpack it first");
    c->sources[file] = found;
    return checkpoint_open_inside(c, file, r);
}
