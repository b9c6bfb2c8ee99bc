#include "shards/int8_copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "os/os.h"

/* Numbers of the machine: of another byte order, magic is another one. */
typedef struct copy_header {
    uint64_t magic, source_size;
    int64_t source_time, count, dim;
    uint64_t zeros[3];
} copy_header;

static const uint64_t magic = 0x76697420693831u;

enum { BLOCK = 4096 };   /* rows made at a time */

/* time: of the file that is mapped, which another may have replaced. */
static bool expected_header(const char *vectors, int64_t time, const nearest_part *part, int dim,
                            copy_header *h, report *r)
{
    const int file = os_open(vectors);
    bool good;
    memset(h, 0, sizeof *h);
    h->magic = magic;
    h->count = part->count;
    h->dim = dim;
    if (file < 0) return report_fail(r, "cannot be opened: %s", os_error(errno));
    good = os_file_size(file, &h->source_size) || report_fail(r, "not a regular file");
    h->source_time = os_file_time(file);
    os_close(file);
    if (h->source_time == time) return good;
    return report_fail(r, "has been written anew since the search began");
}

/* Rows are made and written a block at a time, and the scales, which come before them, last. */
static bool write_rows(const int8_copies *c, FILE *file, const nearest_part *part,
                       nearest_scale *scales, int8_t *bytes)
{
    const size_t dim = (size_t)c->dim, count = (size_t)part->count;
    const long start = ftell(file);
    if (fwrite(scales, sizeof *scales, count, file) != count) return false;
    for (int64_t i = 0; i < part->count; i += BLOCK) {
        const int64_t rows = part->count - i < BLOCK ? part->count - i : BLOCK;
        const nearest_part block = { part->floats ? part->floats + i * c->dim : NULL,
                                     part->halves ? part->halves + i * c->dim : NULL, rows, NULL,
                                     NULL };
        nearest_make_bytes(&block, c->dim, c->executor, scales + i, bytes);
        if (fwrite(bytes, dim, (size_t)rows, file) != (size_t)rows) return false;
    }
    return fseek(file, start, SEEK_SET) == 0 &&
           fwrite(scales, sizeof *scales, count, file) == count;
}

static bool write_copy(const int8_copies *c, const char *path, const char *vectors,
                       const copy_header *h, const nearest_part *part, report *r)
{
    const size_t block = part->count < BLOCK ? (size_t)part->count : BLOCK;
    nearest_scale *scales = calloc((size_t)part->count, sizeof *scales);
    int8_t *bytes = malloc(block * (size_t)c->dim);
    cli_output output;
    if (!scales || !bytes) {
        (void)report_no_memory(r);
    } else if (cli_output_open(&output, path, r)) {
        errno = 0;
        if (!cli_output_spares(vectors, r)) {
            cli_output_abandon(&output);
        } else if (fwrite(h, sizeof *h, 1, output.file) != 1 ||
                   !write_rows(c, output.file, part, scales, bytes)) {
            (void)report_fail(r, "cannot be written: %s", os_error(errno ? errno : EIO));
            (void)report_file(r, path);
            cli_output_abandon(&output);
        } else {
            (void)cli_output_commit(&output, r);
        }
    }
    free(scales);
    free(bytes);
    return !r->failed;
}

/* NULL: it is to be made. */
static void *map_copy(const char *path, const copy_header *h, size_t *size)
{
    void *data = os_map(path, size);
    const uint64_t each = sizeof(nearest_scale) + (uint64_t)h->dim;
    if (data && *size == sizeof *h + (uint64_t)h->count * each && memcmp(data, h, sizeof *h) == 0)
        return data;
    if (data) os_unmap(data, *size);
    return NULL;
}

void *int8_copy_open(const int8_copies *c, const char *vectors, int64_t time, nearest_part *part,
                     size_t *size, report *r)
{
    const size_t stem = strlen(vectors) - strlen(".npy");
    char *path = malloc(stem + sizeof ".i8");
    copy_header h;
    void *data = NULL;
    if (!path) {
        (void)report_no_memory(r);
        return NULL;
    }
    memcpy(path, vectors, stem);
    memcpy(path + stem, ".i8", sizeof ".i8");
    if (!expected_header(vectors, time, part, c->dim, &h, r)) {
        (void)report_file(r, vectors);
    } else {
        data = map_copy(path, &h, size);
        if (!data) {
            if (os_kind_of(path) != OS_NONE)
                report_error(c->program, path, "is not of the vectors as they are now: made again");
            if (write_copy(c, path, vectors, &h, part, r) &&
                !(data = map_copy(path, &h, size)))
                (void)report_fail(r, "%.200s cannot be mapped", path);
        }
    }
    if (data) {
        part->scales = (const nearest_scale *)(const void *)((const char *)data + sizeof h);
        part->bytes = (const int8_t *)(const void *)(part->scales + part->count);
    }
    free(path);
    return data;
}
