#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/npy.h"
#include "base/report.h"
#include "base/source.h"
#include "base/text.h"
#include "checkpoint/container.h"

/* === Arrays in a zip archive === */

/* numpy.savez writes a zip archive that contains one .npy file for each array. Entries may be
 * deflated (savez_compressed). A deflated entry is inflated as a whole when its elements are
 * read. */

static const char suffix[] = ".npy";

static checkpoint_dtype dtype_of(const npy_header *header) {
    switch (header->kind) {
    case 'f':
        return header->size == 2   ? CHECKPOINT_F16
               : header->size == 4 ? CHECKPOINT_F32
                                   : CHECKPOINT_F64;
    case 'i':
        return header->size == 1   ? CHECKPOINT_I8
               : header->size == 2 ? CHECKPOINT_I16
               : header->size == 4 ? CHECKPOINT_I32
                                   : CHECKPOINT_I64;
    case 'V': return CHECKPOINT_BF16;
    case 'b': return CHECKPOINT_BOOL;
    default: return header->size == 1 ? CHECKPOINT_U8 : CHECKPOINT_DTYPE_COUNT;
    }
}

/* Returns the first bytes of an entry in malloc'ed memory. These bytes are enough for the longest
 * header. *size becomes the number of bytes. */
static void *read_start(const source *s, const zip_entry *entry, size_t *size, report *r) {
    void *data;
    *size = entry->size < NPY_MAX_HEADER ? (size_t)entry->size : NPY_MAX_HEADER;
    data = malloc(*size + 1);
    if (!data) {
        (void)report_no_memory(r);
        return NULL;
    }
    if (zip_read_start(s, entry, data, *size, r)) return data;
    free(data);
    return NULL;
}

static void fortran_strides(checkpoint_tensor_info *t) {
    int64_t stride = 1;
    int i;
    for (i = 0; i < t->ndim; i++) {
        t->strides[i] = stride;
        stride *= t->dims[i]; /* npy_read_header has checked that this fits int64_t */
    }
}

static bool add_array(checkpoint *c, size_t file, const zip_entry *entry, const char *name,
                      const npy_header *header, report *r) {
    checkpoint_storage storage;
    checkpoint_tensor_info t;
    memset(&storage, 0, sizeof storage);
    memset(&t, 0, sizeof t);
    storage.file = file;
    storage.bytes = *entry;
    storage.bytes.name = memory_copy_text(&c->memory, entry->name, strlen(entry->name));
    storage.has_crc = true;
    storage.big_endian = header->big_endian;
    if (!storage.bytes.name) return report_no_memory(r);
    if (header->offset % header->size != 0)
        return report_fail(
            r, "%.200s: the elements begin at a byte that is not a multiple of their size",
            entry->name);
    t.name = name;
    t.container_name = entry->name;
    t.dtype = dtype_of(header);
    t.ndim = header->ndim;
    memcpy(t.dims, header->dims, sizeof t.dims);
    if (header->fortran_order) fortran_strides(&t);
    else checkpoint_contiguous_strides(&t);
    t.storage_offset = (int64_t)(header->offset / header->size);
    return checkpoint_add_storage(c, &storage, &t.storage, r) &&
           checkpoint_add_tensor(c, &t, entry->size / header->size, r);
}

/* Reads an entry. An entry that cannot be a tensor, such as an array of text, is skipped, and the
 * file is still accepted. */
static bool read_entry(checkpoint *c, size_t file, const zip_entry *entry, report *r) {
    const size_t length = strlen(entry->name), tail = sizeof suffix - 1;
    char name[1025]; /* zip.c refuses longer names. */
    report found = report_make();
    npy_header header;
    size_t size;
    void *data;
    bool good;
    if (length <= tail || strcmp(entry->name + length - tail, suffix) != 0)
        return checkpoint_add_skipped(c, entry->name, "not a .npy file", r);
    snprintf(name, sizeof name, "%.*s", (int)(length - tail), entry->name);
    data = read_start(&c->sources[file], entry, &size, r);
    if (!data) return false;
    good = npy_read_header(data, size, entry->size, &header, &found);
    free(data);
    if (good && dtype_of(&header) == CHECKPOINT_DTYPE_COUNT)
        return checkpoint_add_skipped(c, name, "unsigned integers", r);
    if (good) return add_array(c, file, entry, name, &header, r);
    if (strstr(found.text, "not supported")) return checkpoint_add_skipped(c, name, found.text, r);
    return report_fail(r, "%.200s: %s", entry->name, found.text);
}

bool npz_open(checkpoint *c, size_t file, report *r) {
    zip_archive zip;
    size_t i;
    bool good = true;
    if (!zip_open(&zip, &c->sources[file], r)) return false;
    for (i = 0; i < zip.count && good; i++) good = read_entry(c, file, &zip.entries[i], r);
    zip_close(&zip);
    return good;
}

/* === Files in a tar archive === */

/* The tar archive must contain exactly one visible file, which is the checkpoint. */

enum { TAR_MAX_ENTRIES = 1000 };

static bool tar_is_visible_file(const tar_header *header) {
    return header->type == '0' && *paths_file_name(header->name) != '.';
}

/* Finds the only file in the archive whose name does not mark it as hidden. Skips directories,
 * links and extended headers. */
static bool tar_find_file(const source *s, source *found, report *r) {
    uint64_t at = 0, size;
    int files = 0, entries;
    for (entries = 0; s->size - at >= TAR_BLOCK; entries++) {
        uint8_t block[TAR_BLOCK];
        tar_header header;
        if (entries == TAR_MAX_ENTRIES)
            return report_fail(r, "tar: more than %d entries; unpack the tar first",
                               TAR_MAX_ENTRIES);
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
    return report_fail(
        r, "tar: found %d files inside, expected one checkpoint; unpack the tar first", files);
}

bool tar_open(checkpoint *c, size_t file, report *r) {
    source found = c->sources[file];
    char magic[5] = "";
    if (!tar_find_file(&c->sources[file], &found, r)) return false;
    if (found.size >= TAR_BLOCK && !source_read(&found, 257, magic, sizeof magic, r)) return false;
    if (memcmp(magic, "ustar", sizeof magic) == 0)
        return report_fail(r, "tar: a tar inside a tar; unpack the outer tar first");
    c->sources[file] = found;
    return checkpoint_open_inside(c, file, r);
}
