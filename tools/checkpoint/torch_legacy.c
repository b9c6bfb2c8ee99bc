/* torch_legacy.c - torch.save before 1.6: five pickles (magic, 1001, system, object, storage keys),
 * then for each key an i64 element count and the elements, always little-endian.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/source.h"
#include "checkpoint/torch_state_dict.h"

/* A storage of the file, found by key. */
typedef struct torch_legacy_storage {
    const char *key;
    uint64_t element_size, count;    /* as the persistent id says */
    uint64_t offset;                 /* of the first element; 0: not in the list of keys */
    size_t index;                    /* in the checkpoint's storages, once added */
    bool added;
} torch_legacy_storage;

typedef struct torch_legacy {
    torch_reader reader;
    torch_legacy_storage *storages;  /* sorted by key */
    size_t count;
} torch_legacy;

static int torch_compare_keys(const void *a, const void *b)
{
    const torch_legacy_storage *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static torch_legacy_storage *torch_find_legacy(torch_legacy *l, const char *key)
{
    torch_legacy_storage wanted = { 0 };
    wanted.key = key;
    return bsearch(&wanted, l->storages, l->count, sizeof wanted, torch_compare_keys);
}

static bool torch_legacy_place(torch_reader *t, const char *name, const torch_storage *storage,
                               size_t *index)
{
    torch_legacy_storage *found = torch_find_legacy(t->form, storage->key);   /* all are listed */
    checkpoint_storage placed = { 0 };
    if (found->offset == 0)
        return report_fail(t->report, "%.200s: storage \"%.200s\" is missing from the list of keys",
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

/* Every storage that the object mentions, also outside the state dict: all of them follow in the
 * file, and only the class says how many bytes an element has. */
static bool torch_collect_storages(torch_legacy *l)
{
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

/* Several tensors may share a storage, but they must agree on it. */
static bool torch_unify_storages(torch_legacy *l)
{
    size_t i, kept = 0;
    for (i = 0; i < l->count; i++) {
        const torch_legacy_storage *last = kept ? &l->storages[kept - 1] : NULL;
        if (!last || strcmp(last->key, l->storages[i].key) != 0) {
            l->storages[kept++] = l->storages[i];
        } else if (last->element_size != l->storages[i].element_size
                   || last->count != l->storages[i].count) {
            return report_fail(l->reader.report, "storage \"%.200s\" has two types or sizes",
                               last->key);
        }
    }
    l->count = kept;
    return true;
}

/* *at becomes the end of the storage. */
static bool torch_locate_storage(torch_legacy *l, const char *key, uint64_t *at)
{
    const source *s = &l->reader.c->sources[l->reader.file];
    report *r = l->reader.report;
    torch_legacy_storage *storage = torch_find_legacy(l, key);
    uint8_t bytes[8];
    uint64_t size;
    if (!storage || storage->offset)
        return report_fail(r, "storage key \"%.200s\" is %s", key,
                           storage ? "listed twice" : "used by no tensor");
    if (!source_read(s, *at, bytes, sizeof bytes, r)) return false;
    if (bytes_load64(bytes) != storage->count)
        return report_fail(r, "storage \"%.200s\" at byte %llu has %llu elements, %llu "
                           "expected", key, (unsigned long long)*at,
                           (unsigned long long)bytes_load64(bytes),
                           (unsigned long long)storage->count);
    *at += 8;
    size = storage->count * storage->element_size;
    if (size > s->size - *at)
        return report_fail(r, "truncated: storage \"%.200s\" needs %llu bytes at byte "
                           "%llu, the file ends at %llu", key, (unsigned long long)size,
                           (unsigned long long)*at, (unsigned long long)s->size);
    storage->offset = *at;
    *at += size;
    return true;
}

static bool torch_locate_storages(torch_legacy *l, const pickle_document *keys)
{
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

/* Magic, protocol and system info. Only the protocol is checked: the format is little-endian
 * whatever system wrote it. */
static bool torch_skip_preamble(torch_legacy *l, uint64_t *at)
{
    const source *s = &l->reader.c->sources[l->reader.file];
    pickle_document document;
    int i;
    for (i = 0; i < 3; i++) {
        bool ok = pickle_load(&document, s, *at, s->size, PICKLE_FEW_VALUES, l->reader.report);
        if (!ok) return false;
        *at = document.end;
        if (i == 1) ok = document.root->kind == PICKLE_INT && document.root->u.integer == 1001;
        pickle_free(&document);
        if (!ok) return report_fail(l->reader.report, "legacy: protocol 1001 expected");
    }
    return true;
}

static bool torch_read_keys(torch_legacy *l)
{
    const source *s = &l->reader.c->sources[l->reader.file];
    pickle_document keys;
    bool ok;
    if (!torch_collect_storages(l) || !torch_unify_storages(l)) return false;
    if (!pickle_load(&keys, s, l->reader.pickle.end, s->size, PICKLE_FEW_VALUES, l->reader.report))
        return false;
    ok = torch_locate_storages(l, &keys);
    pickle_free(&keys);
    return ok;
}

bool torch_legacy_open(checkpoint *c, size_t file, report *r)
{
    torch_legacy l = { 0 };
    const source *s = &c->sources[file];
    uint64_t at = 0;
    bool ok;
    l.reader.c = c;
    l.reader.file = file;
    l.reader.report = r;
    l.reader.place = torch_legacy_place;
    l.reader.form = &l;
    if (!torch_skip_preamble(&l, &at)) return false;
    if (!pickle_load(&l.reader.pickle, s, at, s->size, PICKLE_MAX_VALUES, r)) return false;
    ok = torch_read_keys(&l) && torch_read_state_dict(&l.reader);
    free(l.storages);
    pickle_free(&l.reader.pickle);
    return ok;
}
