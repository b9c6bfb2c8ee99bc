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

static bool expected_header(const char *vectors, const nearest_part *part, int dim, copy_header *h)
{
    const int file = os_open(vectors);
    bool good;
    memset(h, 0, sizeof *h);
    h->magic = magic;
    h->count = part->count;
    h->dim = dim;
    if (file < 0) return false;
    good = os_file_size(file, &h->source_size);
    h->source_time = os_file_time(file);
    os_close(file);
    return good;
}

static bool write_rows(FILE *file, const nearest_part *part, int dim, int8_t *bytes)
{
    for (int pass = 0; pass < 2; pass++) {   /* scales, then rows */
        for (int64_t i = 0; i < part->count; i++) {
            const nearest_scale scale = nearest_make_bytes(part, dim, i, bytes);
            const size_t size = pass ? (size_t)dim : sizeof scale;
            if (fwrite(pass ? (const void *)bytes : (const void *)&scale, 1, size, file) != size)
                return false;
        }
    }
    return true;
}

static bool make(const char *path, const char *vectors, const copy_header *h,
                 const nearest_part *part, report *r)
{
    const char *const inputs[1] = { vectors };
    int8_t *bytes = malloc((size_t)h->dim);
    cli_output output;
    if (!bytes) return report_no_memory(r);
    if (!cli_output_open(&output, path, inputs, 1, r)) {
        free(bytes);
        return false;
    }
    errno = 0;
    if (fwrite(h, sizeof *h, 1, output.file) != 1 ||
        !write_rows(output.file, part, (int)h->dim, bytes)) {
        (void)report_fail(r, "cannot be written: %s", os_error(errno ? errno : EIO));
        (void)report_file(r, path);
        cli_output_abandon(&output);
    } else {
        (void)cli_output_commit(&output, r);
    }
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

void *int8_copy_open(const char *program, const char *vectors, nearest_part *part, int dim,
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
    if (!expected_header(vectors, part, dim, &h)) {
        (void)report_fail(r, "cannot be opened: %s", os_error(errno));
        (void)report_file(r, vectors);
    } else {
        data = map_copy(path, &h, size);
        if (!data) {
            if (os_kind_of(path) != OS_NONE)
                report_error(program, path, "is not of the vectors as they are now: made again");
            if (make(path, vectors, &h, part, r) && !(data = map_copy(path, &h, size)))
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
