#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/source.h"
#include "checkpoint/torch_state_dict.h"
#include "checkpoint/zip.h"

/* === Zip archives === */

/* Since version 1.6, torch.save writes a zip archive with the file <root>/data.pkl, a file
 * <root>/data/<key> for each storage and, since version 2.0, <root>/byteorder. A TorchScript
 * archive also has <root>/constants.pkl. */

/* the most bytes of a data.pkl or code file after it is inflated */
#define TORCH_MAX_INFLATED ((uint64_t)8 << 20)
#define TORCH_MAX_CODE     ((uint64_t)64 << 20) /* the most bytes of code in all files */

typedef struct torch_zip {
    torch_reader reader;
    zip_archive archive;
    const char *root; /* the root folder, such as "archive/" */
    /* The entry of the pickle, such as "archive/data.pkl". */
    const zip_entry *data;
    const char *folder; /* the folder of the storages below the root: "data/" */
    /* For each entry of the archive, the index of its storage plus 1; 0 if it has none yet. */
    size_t *index;
    source inflated; /* the inflated data.pkl, if it is deflated */
    /* The number of bytes of code that were read so far. */
    uint64_t code_bytes;
    bool big_endian;
} torch_zip;

static bool torch_zip_place(torch_reader *t, const char *name, const torch_storage *storage,
                            size_t *index) {
    torch_zip *z = t->form;
    char path[TORCH_MAX_NAME * 2];
    checkpoint_storage placed = { 0 };
    const zip_entry *entry;
    size_t *slot;
    snprintf(path, sizeof path, "%.1000s%s%.200s", z->root, z->folder, storage->key);
    entry = zip_find(&z->archive, path);
    if (!entry) return report_fail(t->report, "%.200s: storage \"%.300s\" is missing", name, path);
    if (entry->size / storage->class->size < storage->root_count)
        return report_fail(t->report,
                           "%.200s: storage \"%.300s\" has %llu bytes, expected %llu elements "
                           "of %u bytes",
                           name, path, (unsigned long long)entry->size,
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

/* Refuses an archive without data.pkl. The message names a checkpoint inside the archive. If there
 * is none, the message names the first entry. */
static bool torch_refuse_zip(const torch_zip *z) {
    static const char *const ends[] = { ".pth", ".pt", ".bin", ".ckpt", ".safetensors", ".npz" };
    size_t i, k;
    for (i = 0; i < z->archive.count; i++)
        for (k = 0; k < sizeof ends / sizeof *ends; k++)
            if (strstr(z->archive.entries[i].name, ends[k]))
                return report_fail(z->reader.report,
                                   "zip: \"%.200s\" is inside; unpack the zip first",
                                   z->archive.entries[i].name);
    return report_fail(z->reader.report,
                       "zip: no data.pkl inside, so the zip is not a PyTorch checkpoint%s%.200s%s",
                       z->archive.count ? "; one of its entries is \"" : "",
                       z->archive.count ? z->archive.entries[0].name : "",
                       z->archive.count ? "\"" : "");
}

/* Finds the root folder of the archive, such as "archive/". It is the folder of the only file that
 * is called data.pkl. The root may be empty. */
static bool torch_find_root(torch_zip *z) {
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

static const zip_entry *torch_zip_entry(const torch_zip *z, const char *name) {
    char path[TORCH_MAX_NAME * 2];
    snprintf(path, sizeof path, "%.1000s%s", z->root, name);
    return zip_find(&z->archive, path);
}

static bool torch_read_byteorder(torch_zip *z) {
    const zip_entry *entry = torch_zip_entry(z, "byteorder");
    char text[8] = "";
    if (!entry) return true; /* Archives before PyTorch 2.0 are little-endian. */
    if (entry->size >= sizeof text)
        return report_fail(z->reader.report,
                           "zip: the entry byteorder has %llu bytes, expected at most 7",
                           (unsigned long long)entry->size);
    if (!zip_read(z->archive.source, entry, text, z->reader.report)) return false;
    z->big_endian = strcmp(text, "big") == 0;
    if (z->big_endian || strcmp(text, "little") == 0) return true;
    return report_fail(z->reader.report, "zip: found byteorder \"%.8s\", expected little or big",
                       text);
}

/* Returns the bytes of an entry in malloc'ed memory. Returns NULL on failure. */
static uint8_t *torch_inflate(torch_zip *z, const zip_entry *entry) {
    report *r = z->reader.report;
    uint8_t *bytes = NULL;
    if (entry->size > TORCH_MAX_INFLATED) {
        (void)report_fail(r, "zip: %.200s inflates to %llu bytes, expected at most %llu",
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

static bool torch_read_pickle(torch_zip *z, const zip_entry *entry) {
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

static void torch_close_pickle(torch_zip *z) {
    pickle_free(&z->reader.pickle);
    free((void *)(uintptr_t)z->inflated.memory);
    z->inflated.memory = NULL;
}

/* === TorchScript === */

/* Returns the text of the file that defines a class, in malloc'ed memory. The class
 * "__torch__.a.b.Name", for example, is the class Name in the file code/__torch__/a/b.py. Returns
 * NULL if this file is missing or cannot be read. */
static char *torch_read_code(torch_zip *z, const char *class) {
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

static bool torch_zip_describe(torch_reader *t, const char *module, const char *class) {
    torch_zip *z = t->form;
    char *code = torch_read_code(z, class);
    const bool ok = !code || torch_describe_code(t, module, class, code);
    free(code);
    return ok && !t->report->failed;
}

/* Reads the weights of a frozen archive. They are constants of the archive's code, and the code
 * refers to each constant by its number. */
static bool torch_read_frozen(torch_zip *z, const char *class) {
    const zip_entry *entry = torch_zip_entry(z, "constants.pkl");
    char *code = torch_read_code(z, class);
    bool ok = torch_read_pickle(z, entry);
    z->folder = "constants/";
    ok = ok && torch_add_constants(&z->reader, code ? code : "");
    free(code);
    return ok;
}

static bool torch_read_tensors(torch_zip *z) {
    torch_reader *t = &z->reader;
    const pickle_value *class;
    char name[TORCH_MAX_NAME] = "";
    if (!torch_read_state_dict(t)) return false;
    if (t->c->tensor_count > 0) return true;
    class = torch_part(t->pickle.root, PICKLE_CALLABLE);
    if (class && class->kind == PICKLE_GLOBAL) snprintf(name, sizeof name, "%s", class->u.text);
    torch_close_pickle(z);
    return torch_read_frozen(z, name);
}

static bool torch_read_zip(torch_zip *z) {
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

bool torch_zip_open(checkpoint *c, size_t file, report *r) {
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

/* === The legacy format === */

/* Before version 1.6, torch.save wrote five pickles: a magic number, the protocol number 1001,
 * facts about the system, the saved object, and the list of storage keys. For each key, an i64
 * element count and the elements follow, always little-endian. Python's pickle.dump writes each
 * storage as the bytes of such a file. */

/* A storage in the file. The reader finds a storage by its key. */
typedef struct torch_legacy_storage {
    const char *key;
    /* The size of an element and the number of elements, both from the persistent id. */
    uint64_t element_size, count;
    /* The offset of the first element; 0 if the list of keys does not contain the key. */
    uint64_t offset;
    /* The index of the storage in the checkpoint, if `added` is true. */
    size_t index;
    bool added;
} torch_legacy_storage;

typedef struct torch_legacy {
    torch_reader reader;
    const source *source;
    /* The end of the file inside the source. */
    uint64_t end;
    torch_legacy_storage *storages; /* The storages are sorted by key. */
    size_t count;
} torch_legacy;

static int torch_compare_keys(const void *a, const void *b) {
    const torch_legacy_storage *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static torch_legacy_storage *torch_find_legacy(torch_legacy *l, const char *key) {
    torch_legacy_storage wanted = { 0 };
    wanted.key = key;
    return bsearch(&wanted, l->storages, l->count, sizeof wanted, torch_compare_keys);
}

static bool torch_legacy_place(torch_reader *t, const char *name, const torch_storage *storage,
                               size_t *index) {
    torch_legacy_storage *found = torch_find_legacy(t->form,
                                                    /* never NULL, because all storages are
                                                     * listed */
                                                    storage->key);
    checkpoint_storage placed = { 0 };
    if (found->offset == 0)
        return report_fail(t->report,
                           "%.200s: storage \"%.200s\" is missing from the list of storage keys",
                           name, storage->key);
    if (!found->added) {
        placed.file = t->file;
        placed.bytes.name = memory_copy_text(&t->c->memory, found->key, strlen(found->key));
        placed.bytes.offset = found->offset;
        placed.bytes.size = found->count * found->element_size;
        placed.bytes.stored_size = placed.bytes.size;
        if (!placed.bytes.name) return report_no_memory(t->report);
        if (!checkpoint_add_storage(t->c, &placed, &found->index, t->report)) return false;
        found->added = true;
    }
    *index = found->index;
    return true;
}

/* Lists every storage that the saved object mentions, inside or outside the state dict. The sizes
 * of all storages give their places in the file. The class of a storage gives its element size. */
static bool torch_collect_storages(torch_legacy *l) {
    size_t i, count = l->reader.pickle.persistent_count;
    l->storages = calloc(count + 1, sizeof *l->storages);
    if (!l->storages) return report_no_memory(l->reader.report);
    for (i = 0; i < count; i++) {
        const pickle_value *value = l->reader.pickle.persistent[i];
        torch_legacy_storage *to = &l->storages[l->count];
        torch_storage storage = { 0 };
        if (pickle_is_text(torch_item(value->u.items[0], 0), PICKLE_STRING, "module")) continue;
        if (!torch_read_storage(&l->reader, "(legacy file)", value, &storage)) return false;
        to->key = storage.key;
        to->element_size = storage.class->size;
        to->count = storage.root_count;
        l->count++;
    }
    qsort(l->storages, l->count, sizeof *l->storages, torch_compare_keys);
    return true;
}

/* Removes duplicates from the sorted list of storages. Several tensors may share a storage, but
 * they must give the same element size and count for it. */
static bool torch_unify_storages(torch_legacy *l) {
    size_t i, kept = 0;
    for (i = 0; i < l->count; i++) {
        const torch_legacy_storage *last = kept ? &l->storages[kept - 1] : NULL;
        if (!last || strcmp(last->key, l->storages[i].key) != 0) {
            l->storages[kept++] = l->storages[i];
        } else if (last->element_size != l->storages[i].element_size ||
                   last->count != l->storages[i].count) {
            return report_fail(l->reader.report,
                               "tensors give storage \"%.200s\" different types or sizes",
                               last->key);
        }
    }
    l->count = kept;
    return true;
}

/* Checks the element count of a storage at byte *at, and records the offset of the elements after
 * the count. Moves *at to the end of the elements. */
static bool torch_locate_storage(torch_legacy *l, const char *key, uint64_t *at) {
    report *r = l->reader.report;
    torch_legacy_storage *storage = torch_find_legacy(l, key);
    uint8_t bytes[8];
    uint64_t size;
    if (!storage || storage->offset)
        return report_fail(r, "storage key \"%.200s\" is %s", key,
                           storage ? "listed twice" : "used by no tensor");
    if (!source_read(l->source, *at, bytes, sizeof bytes, r)) return false;
    if (bytes_load64(bytes) != storage->count)
        return report_fail(r,
                           "storage \"%.200s\" at byte %llu has %llu elements, expected "
                           "%llu",
                           key, (unsigned long long)*at, (unsigned long long)bytes_load64(bytes),
                           (unsigned long long)storage->count);
    *at += 8;
    size = storage->count * storage->element_size;
    if (*at > l->end || size > l->end - *at)
        return report_fail(
            r,
            "truncated: storage \"%.200s\" needs %llu bytes at byte %llu, but the file ends at "
            "%llu",
            key, (unsigned long long)size, (unsigned long long)*at, (unsigned long long)l->end);
    storage->offset = *at;
    *at += size;
    return true;
}

static bool torch_locate_storages(torch_legacy *l, const pickle_document *keys) {
    uint64_t at = keys->end;
    size_t i;
    if (keys->root->kind != PICKLE_LIST)
        return report_fail(l->reader.report,
                           "legacy: the fifth pickle is not a list of storage keys");
    for (i = 0; i < keys->root->count; i++) {
        const pickle_value *key = keys->root->u.items[i];
        if (key->kind != PICKLE_STRING)
            return report_fail(l->reader.report, "legacy: a storage key is not a string");
        if (!torch_locate_storage(l, key->u.text, &at)) return false;
    }
    return true;
}

/* Skips the magic number, the protocol number and the facts about the system. Checks only the
 * protocol. The facts do not matter, because the format is always little-endian. */
static bool torch_skip_preamble(torch_legacy *l, uint64_t *at) {
    pickle_document document;
    int i;
    for (i = 0; i < 3; i++) {
        bool ok = pickle_load(&document, l->source, *at, l->end, PICKLE_FEW_VALUES,
                              l->reader.report);
        if (!ok) return false;
        *at = document.end;
        if (i == 1) ok = document.root->kind == PICKLE_INT && document.root->u.integer == 1001;
        pickle_free(&document);
        if (!ok) return report_fail(l->reader.report, "legacy: expected protocol 1001");
    }
    return true;
}

static bool torch_read_keys(torch_legacy *l) {
    pickle_document keys;
    bool ok;
    if (!torch_collect_storages(l) || !torch_unify_storages(l)) return false;
    if (!pickle_load(&keys, l->source, l->reader.pickle.end, l->end, PICKLE_FEW_VALUES,
                     l->reader.report))
        return false;
    ok = torch_locate_storages(l, &keys);
    pickle_free(&keys);
    return ok;
}

/* Reads the file up to the list of keys, and computes the offsets of all storages. The caller must
 * call torch_close_legacy even after a failure. */
static bool torch_read_legacy(torch_legacy *l, uint64_t at, size_t max_values) {
    return torch_skip_preamble(l, &at) &&
           pickle_load(&l->reader.pickle, l->source, at, l->end, max_values, l->reader.report) &&
           torch_read_keys(l);
}

static void torch_close_legacy(torch_legacy *l) {
    free(l->storages);
    pickle_free(&l->reader.pickle);
}

bool torch_legacy_open(checkpoint *c, size_t file, report *r) {
    torch_legacy l = { 0 };
    bool ok;
    l.reader.c = c;
    l.reader.file = file;
    l.reader.report = r;
    l.reader.place = torch_legacy_place;
    l.reader.form = &l;
    l.reader.source = l.source = &c->sources[file];
    l.end = l.source->size;
    ok = torch_read_legacy(&l, 0, PICKLE_MAX_VALUES) && torch_read_state_dict(&l.reader);
    torch_close_legacy(&l);
    return ok;
}

/* === Files inside a pickle that pickle.dump wrote === */

bool torch_is_nested(const pickle_value *value) {
    return pickle_is_text(torch_part(value, PICKLE_CALLABLE), PICKLE_GLOBAL,
                          "torch.storage._load_from_bytes");
}

/* Finds the only storage of a file inside a pickle. This storage is the file's saved object. */
static bool torch_find_nested(torch_legacy *l, const char *name, torch_storage *storage,
                              checkpoint_storage *found) {
    torch_reader *t = &l->reader;
    const torch_legacy_storage *place;
    if (!torch_read_storage(t, name, t->pickle.root, storage)) return false;
    place = torch_find_legacy(l, storage->key); /* never NULL, because all storages are listed */
    if (place->offset == 0)
        return report_fail(t->report, "%.200s: its storage has no elements", name);
    found->bytes.name = memory_copy_text(&t->c->memory, place->key, strlen(place->key));
    found->bytes.offset = place->offset;
    found->bytes.size = found->bytes.stored_size = place->count * place->element_size;
    /* The key would become invalid when the pickle is freed. */
    storage->key = NULL;
    storage->found = found;
    return found->bytes.name || report_no_memory(t->report);
}

bool torch_read_nested(torch_reader *t, const char *name, const pickle_value *value,
                       torch_storage *storage, checkpoint_storage *found) {
    torch_legacy l = { 0 };
    torch_bytes bytes;
    source memory;
    bool ok;
    if (!torch_read_bytes(t, name, torch_item(torch_part(value, PICKLE_ARGUMENTS), 0), &bytes))
        return false;
    memory = source_from_memory(t->source->name, bytes.memory, (size_t)bytes.size);
    l.reader.c = t->c;
    l.reader.file = found->file = t->file;
    l.reader.report = t->report;
    l.source = bytes.memory ? &memory : t->source;
    l.end = bytes.offset + bytes.size;
    found->memory = bytes.memory;
    ok = torch_read_legacy(&l, bytes.offset, PICKLE_FEW_VALUES) &&
         torch_find_nested(&l, name, storage, found);
    torch_close_legacy(&l);
    return ok;
}

static bool torch_refuse_place(torch_reader *t, const char *name, const torch_storage *storage,
                               size_t *index) {
    (void)index;
    return report_fail(t->report, "%.200s: storage \"%.200s\" is not in the file", name,
                       storage->key);
}

bool torch_pickle_open(checkpoint *c, size_t file, report *r) {
    torch_reader reader = { 0 };
    const source *s = &c->sources[file];
    bool ok;
    reader.c = c;
    reader.file = file;
    reader.report = r;
    reader.place = torch_refuse_place;
    reader.source = s;
    ok = pickle_load(&reader.pickle, s, 0, s->size, PICKLE_MAX_VALUES, r) &&
         torch_read_state_dict(&reader);
    pickle_free(&reader.pickle);
    return ok;
}
