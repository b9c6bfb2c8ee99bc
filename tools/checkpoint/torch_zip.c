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

#define TORCH_MAX_INFLATED ((uint64_t)8 << 20)   /* data.pkl in a deflated entry, or code */
#define TORCH_MAX_CODE ((uint64_t)64 << 20)      /* read in all */

typedef struct torch_zip {
    torch_reader reader;
    zip_archive archive;
    const char *root;                /* "archive/" */
    const zip_entry *data;           /* "archive/data.pkl" */
    const char *folder;              /* of the storages: "data/" */
    size_t *index;                   /* entry -> storage + 1 */
    source inflated;                 /* data.pkl, where it is deflated */
    uint64_t code_bytes;             /* that were read */
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
    snprintf(path, sizeof path, "%.1000s%s%.200s", z->root, z->folder, storage->key);
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

/* A checkpoint inside is named, else the first entry. */
static bool torch_refuse_zip(const torch_zip *z)
{
    static const char *const ends[] = { ".pth", ".pt", ".bin", ".ckpt", ".safetensors", ".npz" };
    size_t i, k;
    for (i = 0; i < z->archive.count; i++)
        for (k = 0; k < sizeof ends / sizeof *ends; k++)
            if (strstr(z->archive.entries[i].name, ends[k]))
                return report_fail(z->reader.report, "zip: \"%.200s\" is inside; unpack it first",
                                   z->archive.entries[i].name);
    return report_fail(z->reader.report, "zip: no data.pkl inside%s%.200s%s: not a PyTorch "
                       "checkpoint", z->archive.count ? ", but \"" : "",
                       z->archive.count ? z->archive.entries[0].name : "",
                       z->archive.count ? "\"" : "");
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
    return torch_refuse_zip(z);
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

/* Bytes of an entry, malloc'ed; NULL: failed. */
static uint8_t *torch_inflate(torch_zip *z, const zip_entry *entry)
{
    report *r = z->reader.report;
    uint8_t *bytes = NULL;
    if (entry->size > TORCH_MAX_INFLATED) {
        (void)report_fail(r, "zip: deflated %.200s of %llu bytes, at most %llu expected",
                          strrchr(entry->name, '/') ? strrchr(entry->name, '/') + 1 : entry->name,
                          (unsigned long long)entry->size, (unsigned long long)TORCH_MAX_INFLATED);
        return NULL;
    }
    bytes = malloc((size_t)entry->size + 1);
    if (!bytes) (void)report_no_memory(r);
    if (bytes && zip_read(z->archive.source, entry, bytes, r)) {
        bytes[entry->size] = 0;
        return bytes;
    }
    free(bytes);
    return NULL;
}

static bool torch_read_pickle(torch_zip *z, const zip_entry *entry)
{
    torch_reader *t = &z->reader;
    uint64_t start = 0;
    if (entry->deflated) {
        uint8_t *bytes = torch_inflate(z, entry);
        if (!bytes) return false;
        z->inflated = source_from_memory(z->archive.source->name, bytes, (size_t)entry->size);
        t->source = &z->inflated;
    } else {
        if (!zip_verify(z->archive.source, entry, t->report)) return false;
        t->source = z->archive.source;
        start = entry->offset;
    }
    return pickle_load(&t->pickle, t->source, start, start + entry->size, PICKLE_MAX_VALUES,
                       t->report);
}

static void torch_close_pickle(torch_zip *z)
{
    pickle_free(&z->reader.pickle);
    free((void *)(uintptr_t)z->inflated.memory);
    z->inflated.memory = NULL;
}

/* === TorchScript === */

/* The class's text in code/: "__torch__.a.b.Name" is class Name in code/__torch__/a/b.py. */
static char *torch_read_code(torch_zip *z, const char *class)
{
    const char *dot = strrchr(class, '.');
    char path[TORCH_MAX_NAME];
    const zip_entry *entry;
    size_t i;
    snprintf(path, sizeof path, "code/%.*s.py", dot ? (int)(dot - class) : 0, class);
    for (i = 5; path[i] && path[i + 3]; i++)
        if (path[i] == '.') path[i] = '/';
    entry = strlen(class) < TORCH_MAX_NAME / 2 ? torch_zip_entry(z, path) : NULL;
    if (!entry || entry->size > TORCH_MAX_CODE - z->code_bytes) return NULL;
    z->code_bytes += entry->size;
    return (char *)torch_inflate(z, entry);
}

static bool torch_zip_describe(torch_reader *t, const char *module, const char *class)
{
    torch_zip *z = t->form;
    char *code = torch_read_code(z, class);
    const bool ok = !code || torch_describe_code(t, module, class, code);
    free(code);
    return ok && !t->report->failed;
}

/* A frozen archive has its weights among the constants of the code, which names them by number. */
static bool torch_read_frozen(torch_zip *z, const char *class)
{
    const zip_entry *entry = torch_zip_entry(z, "constants.pkl");
    char *code = torch_read_code(z, class);
    bool ok = torch_read_pickle(z, entry);
    z->folder = "constants/";
    ok = ok && torch_add_constants(&z->reader, code ? code : "");
    free(code);
    return ok;
}

static bool torch_read_tensors(torch_zip *z)
{
    torch_reader *t = &z->reader;
    const pickle_value *class;
    char name[TORCH_MAX_NAME] = "";
    if (!torch_read_state_dict(t)) return false;
    if (t->c->tensor_count > 0) return true;
    class = torch_part(t->pickle.root, PICKLE_CALLABLE);
    if (class && class->kind == PICKLE_GLOBAL)
        snprintf(name, sizeof name, "%s", class->u.text);
    torch_close_pickle(z);
    return torch_read_frozen(z, name);
}

static bool torch_read_zip(torch_zip *z)
{
    bool ok;
    if (!torch_find_root(z) || !torch_read_byteorder(z)) return false;
    z->reader.torchscript = torch_zip_entry(z, "constants.pkl") != NULL;
    if (z->reader.torchscript) {
        z->reader.c->kind = "TorchScript";
        z->reader.describe = torch_zip_describe;
    }
    z->index = calloc(z->archive.count, sizeof *z->index);
    if (!z->index) return report_no_memory(z->reader.report);
    ok = torch_read_pickle(z, z->data) && torch_read_tensors(z);
    free(z->index);
    torch_close_pickle(z);
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
    z.folder = "data/";
    if (!zip_open(&z.archive, &c->sources[file], r)) return false;
    ok = torch_read_zip(&z);
    zip_close(&z.archive);
    return ok;
}
