/* tar.c - a tar archive with one file inside, which is the checkpoint. */
#include <string.h>

#include "base/source.h"
#include "base/tar_header.h"
#include "base/text.h"
#include "checkpoint/container.h"

enum { TAR_MAX_ENTRIES = 1000 };

static bool tar_is_visible_file(const tar_header *header)
{
    return header->type == '0' && *paths_file_name(header->name) != '.';
}

/* The only file that is not hidden; directories, links and extended headers are passed over. */
static bool tar_find_file(const source *s, source *found, report *r)
{
    uint64_t at = 0, size;
    int files = 0, entries;
    for (entries = 0; s->size - at >= TAR_BLOCK; entries++) {
        uint8_t block[TAR_BLOCK];
        tar_header header;
        if (entries == TAR_MAX_ENTRIES)
            return report_fail(r, "tar: more than %d entries; unpack it first", TAR_MAX_ENTRIES);
        if (!source_read(s, at, block, sizeof block, r)) return false;
        if (block[0] == 0) break;
        at += TAR_BLOCK;
        if (!tar_header_read(&header, block) || header.size > s->size - at)
            return report_fail(r, "tar: damaged at byte %llu",
                               (unsigned long long)(at - TAR_BLOCK));
        if (tar_is_visible_file(&header)) {
            *found = source_part(s, at, header.size);
            files++;
        }
        size = (header.size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
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
