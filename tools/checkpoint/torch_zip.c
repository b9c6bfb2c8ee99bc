/* torch_zip.c - torch.save since 1.6: a zip archive of <root>/data.pkl, <root>/data/<key> for each
 * storage, <root>/byteorder. TorchScript archives have <root>/constants.pkl as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/source.h"
#include "checkpoint/torch_state_dict.h"
#include "checkpoint/zip.h"

#define TORCH_MAX_INFLATED ((uint64_t)8 << 20)   /* data.pkl in a deflated entry */

typedef struct torch_zip {
    torch_reader reader;
    zip_archive archive;
    const char *root;                /* "archive/" */
    const zip_entry *data;           /* "archive/data.pkl" */
    size_t *index;                   /* entry -> storage + 1 */
    bool big_endian;
} torch_zip;

static bool torch_zip_place(torch_reader *t, const char *name, const torch_storage *storage,
                               size_t *index)
{
    torch_zip *z = t->form;
    char path[TORCH_MAX_NAME * 2];
    checkpoint_storage placed = { 0 };
    const zip_entry *entry;
    size_t *slot;
    snprintf(path, sizeof path, "%.1000s" "data/%.200s", z->root, storage->key);
    entry = zip_find(&z->archive, path);
    if (!entry)
        return report_fail(t->report, "%.200s: storage \"%.300s\" is missing", name, path);
    if (entry->size / storage->class->size < storage->root_count)
        return report_fail(t->report, "%.200s: storage \"%.300s\" has %llu bytes, %llu elements of "
                           "%u bytes expected", name, path, (unsigned long long)entry->size,
                           (unsigned long long)storage->root_count, storage->class->size);
    slot = &z->index[entry - z->archive.entries];
    if (*slot == 0) {
        placed.file = t->file;
        placed.bytes = *entry;
        placed.bytes.name = memory_copy_text(&t->c->memory, entry->name, strlen(entry->name));
        placed.has_crc = true;
        placed.big_endian = z->big_endian;
        if (!placed.bytes.name) return report_no_memory(t->report);
        if (!checkpoint_add_storage(t->c, &placed, slot, t->report)) return false;
        ++*slot;
    }
    *index = *slot - 1;
    return true;
}

/* "archive/" from the only entry of that name; the root may be empty. */
static bool torch_find_root(torch_zip *z)
{
    static const char suffix[] = "data.pkl";
    size_t i, length = strlen(suffix);
    char *root;
    for (i = 0; i < z->archive.count; i++) {
        const char *name = z->archive.entries[i].name;
        size_t size = strlen(name);
        if (size < length || strcmp(name + size - length, suffix) != 0) continue;
        if (size > length && name[size - length - 1] != '/') continue;
        if (z->root) return report_fail(z->reader.report, "zip: two entries are called data.pkl");
        root = memory_copy_text(&z->reader.c->memory, name, size - length);
        if (!root) return report_no_memory(z->reader.report);
        z->root = root;
        z->data = &z->archive.entries[i];
    }
    if (z->root) return true;
    return report_fail(z->reader.report, "zip: no data.pkl inside: not a PyTorch checkpoint");
}

static const zip_entry *torch_zip_entry(const torch_zip *z, const char *name)
{
    char path[TORCH_MAX_NAME * 2];
    snprintf(path, sizeof path, "%.1000s%s", z->root, name);
    return zip_find(&z->archive, path);
}

static bool torch_read_byteorder(torch_zip *z)
{
    const zip_entry *entry = torch_zip_entry(z, "byteorder");
    char text[8] = "";
    if (!entry) return true;                       /* older than 2.0: little */
    if (entry->size >= sizeof text)
        return report_fail(z->reader.report, "zip: byteorder of %llu bytes",
                           (unsigned long long)entry->size);
    if (!zip_read(z->archive.source, entry, text, z->reader.report)) return false;
    z->big_endian = strcmp(text, "big") == 0;
    if (z->big_endian || strcmp(text, "little") == 0) return true;
    return report_fail(z->reader.report, "zip: byteorder \"%.8s\", little or big expected", text);
}

static bool torch_inflate_pickle(torch_zip *z, const zip_entry *entry)
{
    report *r = z->reader.report;
    source memory;
    uint8_t *bytes;
    bool ok;
    if (entry->size > TORCH_MAX_INFLATED)
        return report_fail(r, "zip: deflated data.pkl of %llu bytes, at most %llu expected",
                           (unsigned long long)entry->size,
                           (unsigned long long)TORCH_MAX_INFLATED);
    bytes = malloc((size_t)entry->size + 1);
    if (!bytes) return report_no_memory(r);
    ok = zip_read(z->archive.source, entry, bytes, r);
    memory = source_from_memory(z->archive.source->name, bytes, (size_t)entry->size);
    ok = ok && pickle_load(&z->reader.pickle, &memory, 0, entry->size, PICKLE_MAX_VALUES, r);
    free(bytes);
    return ok;
}

static bool torch_read_pickle(torch_zip *z)
{
    if (z->data->deflated) return torch_inflate_pickle(z, z->data);
    return zip_verify(z->archive.source, z->data, z->reader.report)
        && pickle_load(&z->reader.pickle, z->archive.source, z->data->offset,
                       z->data->offset + z->data->size, PICKLE_MAX_VALUES, z->reader.report);
}

static bool torch_read_zip(torch_zip *z)
{
    bool ok;
    if (!torch_find_root(z) || !torch_read_byteorder(z) || !torch_read_pickle(z)) return false;
    z->reader.torchscript = torch_zip_entry(z, "constants.pkl") != NULL;
    if (z->reader.torchscript) z->reader.c->kind = "TorchScript";
    z->index = calloc(z->archive.count, sizeof *z->index);
    ok = z->index ? torch_read_state_dict(&z->reader) : report_no_memory(z->reader.report);
    free(z->index);
    pickle_free(&z->reader.pickle);
    return ok;
}

bool torch_zip_open(checkpoint *c, size_t file, report *r)
{
    torch_zip z = { 0 };
    bool ok;
    z.reader.c = c;
    z.reader.file = file;
    z.reader.report = r;
    z.reader.place = torch_zip_place;
    z.reader.form = &z;
    if (!zip_open(&z.archive, &c->sources[file], r)) return false;
    ok = torch_read_zip(&z);
    zip_close(&z.archive);
    return ok;
}
