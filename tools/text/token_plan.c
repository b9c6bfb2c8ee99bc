#include "text/token_plan.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/zip.h"
#include "text/unicode_tables.h"

enum {
    HEADER = 128,
    MAX_MEMORY = 1024 * 1024 * 1024,
};

void tplan_start(tplan *p) {
    static const unsigned char header[HEADER];
    memset(p, 0, sizeof *p);
    p->begin = p->end = p->pad = p->unknown = TPLAN_NONE;
    p->growth = 1.0;
    p->memory = memory_make(MAX_MEMORY);
    p->blob.data = malloc(HEADER);
    p->blob.capacity = HEADER;
    if (!p->blob.data) p->no_memory = true;
    else memcpy(p->blob.data, header, HEADER);
    p->blob.size = HEADER;
}

void tplan_free_table(tplan_table *table) {
    free(table->items);
    memset(table, 0, sizeof *table);
}

void tplan_free(tplan *p) {
    tplan_free_table(&p->pieces);
    tplan_free_table(&p->merges);
    tplan_free_table(&p->words);
    tplan_free_table(&p->raw);
    tplan_free_table(&p->cleaned);
    memory_free(&p->memory);
    free(p->blob.data);
    p->blob.data = NULL;
}

/* === Tables === */

static tplan_entry *add(tplan *p, tplan_table *table, const char *key, size_t key_size) {
    tplan_entry *items = memory_grow(table->items, sizeof *items, table->count, &table->capacity);
    char *copy = memory_copy_text(&p->memory, key, key_size);
    if (items) table->items = items;
    if (!items || !copy) {
        p->no_memory = true;
        return NULL;
    }
    items += table->count++;
    memset(items, 0, sizeof *items);
    items->key = copy;
    items->key_size = (uint32_t)key_size;
    return items;
}

void tplan_add(tplan *p, tplan_table *table, const char *key, size_t key_size, uint32_t number,
               uint32_t id) {
    tplan_entry *entry = add(p, table, key, key_size);
    if (!entry) return;
    entry->number = number;
    entry->id = id;
}

void tplan_add_pair(tplan *p, tplan_table *table, const char *key, size_t key_size,
                    const char *value, size_t value_size) {
    tplan_entry *entry = add(p, table, key, key_size);
    if (!entry) return;
    entry->value = memory_copy_text(&p->memory, value, value_size);
    entry->value_size = (uint32_t)value_size;
    if (!entry->value) p->no_memory = true;
}

static int compare_keys(const char *a, size_t a_size, const char *b, size_t b_size) {
    const size_t size = a_size < b_size ? a_size : b_size;
    const int order = size ? memcmp(a, b, size) : 0;
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare(const void *a, const void *b) {
    const tplan_entry *x = a, *y = b;
    const int order = compare_keys(x->key, x->key_size, y->key, y->key_size);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

void tplan_sort(tplan_table *table) {
    if (table->count) qsort(table->items, table->count, sizeof *table->items, compare);
}

tplan_entry *tplan_find(const tplan_table *table, const char *key, size_t size) {
    size_t low = 0, high = table->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        tplan_entry *entry = &table->items[middle];
        const int order = compare_keys(entry->key, entry->key_size, key, size);
        if (order == 0) return entry;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* === Bytes === */

static void put_bytes(tplan *p, const void *data, size_t size) {
    tplan_bytes *blob = &p->blob;
    if (p->no_memory) return;
    if (size > blob->capacity - blob->size) {
        const size_t capacity = (blob->capacity + size) * 2;
        unsigned char *grown = realloc(blob->data, capacity);
        if (!grown) {
            p->no_memory = true;
            return;
        }
        blob->data = grown;
        blob->capacity = capacity;
    }
    if (size) memcpy(blob->data + blob->size, data, size);
    blob->size += size;
}

static void set32(unsigned char *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (unsigned char)(value >> 8 * i);
}

static void put32(tplan *p, uint32_t value) {
    unsigned char bytes[4];
    set32(bytes, value);
    put_bytes(p, bytes, sizeof bytes);
}

/* Adds bytes up to the next multiple of 4. Returns the offset at which the next table begins. */
static uint32_t place(tplan *p) {
    static const unsigned char zeros[4];
    put_bytes(p, zeros, (4 - p->blob.size % 4) % 4);
    return (uint32_t)p->blob.size;
}

static uint32_t put_list(tplan *p, const uint32_t *items, size_t count) {
    const uint32_t at = place(p);
    put32(p, (uint32_t)count);
    for (size_t i = 0; i < count; i++) put32(p, items[i]);
    return at;
}

/* Writes a sorted table. If `is_map` is true, the table has a value for each key instead of a
 * number. Returns the offset of the table; 0 if the table is empty. */
static uint32_t put_table(tplan *p, const tplan_table *table, bool is_map) {
    uint32_t keys = 0, values = 0, at;
    if (!table->count) return 0;
    at = place(p);
    for (size_t i = 0; i < table->count; i++) {
        keys += table->items[i].key_size;
        values += is_map ? table->items[i].value_size : 0;
    }
    put32(p, (uint32_t)table->count);
    put32(p, keys + values);
    keys = 0;
    for (size_t i = 0; i < table->count; i++) {
        put32(p, keys);
        keys += table->items[i].key_size;
    }
    put32(p, keys);
    values = keys;
    for (size_t i = 0; i < table->count; i++) {
        put32(p, is_map ? values : table->items[i].number);
        values += is_map ? table->items[i].value_size : 0;
    }
    put32(p, values);
    for (size_t i = 0; i < table->count; i++)
        put_bytes(p, table->items[i].key, table->items[i].key_size);
    for (size_t i = 0; is_map && i < table->count; i++)
        put_bytes(p, table->items[i].value, table->items[i].value_size);
    return at;
}

/* === Steps === */

static void add_step(tplan *p, tplan_steps *steps, uint32_t kind, uint32_t a, uint32_t b,
                     uint32_t c) {
    uint32_t *row;
    if (steps->count == TPLAN_MAX_STEPS) {
        p->no_memory = true; /* no file has so many steps */
        return;
    }
    row = steps->rows[steps->count++];
    row[0] = kind;
    row[1] = a;
    row[2] = b;
    row[3] = c;
}

void tplan_step_map(tplan *p, tplan_steps *steps, tplan_table *map) {
    double growth = 1.0;
    size_t kept = 0;
    tplan_sort(map);
    for (size_t i = 0; i < map->count; i++) {
        const tplan_entry *entry = &map->items[i];
        /* if keys are equal, the first is kept */
        if (kept > 0 && compare(&map->items[kept - 1], entry) == 0) continue;
        if (entry->value_size > growth * entry->key_size)
            growth = (double)entry->value_size / entry->key_size;
        map->items[kept++] = *entry;
    }
    map->count = kept;
    if (growth > p->growth) p->growth = growth;
    if (map->count) add_step(p, steps, TPLAN_STEP_MAP, put_table(p, map, true), 0, 0);
}

void tplan_step_replace(tplan *p, tplan_steps *steps, const char *from, const char *to) {
    tplan_table map = { 0 };
    tplan_add_pair(p, &map, from, strlen(from), to, strlen(to));
    tplan_step_map(p, steps, &map);
    tplan_free_table(&map);
}

void tplan_step_prepend(tplan *p, tplan_steps *steps, const char *text, bool unless_there) {
    tplan_table map = { 0 };
    tplan_add_pair(p, &map, "", 0, text, strlen(text));
    add_step(p, steps, TPLAN_STEP_PREPEND | (uint32_t)unless_there << 8, put_table(p, &map, true),
             0, 0);
    tplan_free_table(&map);
}

/* === Unicode === */

/* The indices of the tables, in the order in which the tables are stored. */
enum {
    KINDS,
    COMBINING,
    CASE,
    LOWER,
    PARTS,
    COMPOSITIONS,
    ENTITIES,
    FIXED_ENTITIES,
    FIXED,
    NUM_TABLES
};
static const size_t sizes[NUM_TABLES] = {
    UNICODE_KINDS,        UNICODE_COMBINING, UNICODE_CASE,           UNICODE_LOWER, UNICODE_PARTS,
    UNICODE_COMPOSITIONS, UNICODE_ENTITIES,  UNICODE_FIXED_ENTITIES, UNICODE_FIXED
};

static unsigned base64_value(char c) {
    if (c >= 'A' && c <= 'Z') return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z') return (unsigned)(c - 'a' + 26);
    if (c >= '0' && c <= '9') return (unsigned)(c - '0' + 52);
    return c == '+' ? 62 : c == '/' ? 63 : 0;
}

static bool load_unicode(tplan *p) {
    unsigned char *deflated = calloc(UNICODE_DEFLATED + 3 + INFLATE_PADDING, 1);
    size_t size = 0, at = 0;
    for (int i = 0; i < NUM_TABLES; i++) size += sizes[i];
    p->unicode = memory_take(&p->memory, size);
    if (!deflated || !p->unicode) {
        free(deflated);
        p->no_memory = true;
        p->unicode = NULL;
        return false;
    }
    for (size_t i = 0; i < sizeof unicode_base64 / sizeof *unicode_base64; i++)
        for (const char *c = unicode_base64[i]; *c && at < UNICODE_DEFLATED; c += 4, at += 3) {
            const unsigned bits = base64_value(c[0]) << 18 | base64_value(c[1]) << 12 |
                                  base64_value(c[2]) << 6 | base64_value(c[3]);
            for (int k = 0; k < 3; k++)
                deflated[at + (size_t)k] = (unsigned char)(bits >> (16 - 8 * k));
        }
    if (!inflate_whole(deflated, UNICODE_DEFLATED, p->unicode, size)) p->no_memory = true;
    free(deflated);
    return true;
}

static const unsigned char *unicode(tplan *p, int table) {
    size_t at = 0;
    if (!p->unicode && !load_unicode(p)) return NULL;
    for (int i = 0; i < table; i++) at += sizes[i];
    return p->unicode + at;
}

/* Adds a list of ranges of characters. The bits in `mask` are the classes of the characters;
 * neighbouring ranges that do not differ in these bits are joined. Returns the offset of the list;
 * 0 if memory is exhausted. */
static uint32_t put_ranges(tplan *p, int table, unsigned mask) {
    const size_t count = sizes[table] / 4;
    const unsigned char *data = unicode(p, table);
    uint32_t *items = malloc(count * sizeof *items);
    uint32_t code = 0, last = 0, at = 0;
    size_t kept = 0;
    if (!items) p->no_memory = true;
    for (size_t i = 0; i < count && data && items; i++) {
        code += bytes_load32(data + 4 * i);
        if ((code & mask) == last) continue;
        last = code & mask;
        items[kept++] = (code & 0xffffff00u) | last;
    }
    if (items) at = put_list(p, items, kept);
    free(items);
    return at;
}

static void add_pairs(tplan *p, int table, tplan_table *map) {
    const char *at = (const char *)unicode(p, table), *end = at ? at + sizes[table] : NULL;
    while (at && at < end) {
        const char *value = memchr(at, 0xff, (size_t)(end - at));
        const char *next = value ? memchr(value, 0xfe, (size_t)(end - value)) : NULL;
        if (!next) return;
        tplan_add_pair(p, map, at, (size_t)(value - at), value + 1, (size_t)(next - value - 1));
        at = next + 1;
    }
}

static uint32_t put_pairs(tplan *p, int table) {
    tplan_table map = { 0 };
    uint32_t at;
    add_pairs(p, table, &map);
    tplan_sort(&map);
    at = put_table(p, &map, true);
    tplan_free_table(&map);
    return at;
}

void tplan_step_collapse(tplan *p, tplan_steps *steps, unsigned kinds, unsigned trim) {
    add_step(p, steps, TPLAN_STEP_COLLAPSE | trim << 8, put_ranges(p, KINDS, kinds), 0, 0);
}

void tplan_step_collapse_spaces(tplan *p, tplan_steps *steps, unsigned trim) {
    static const uint32_t space[] = { ' ' << 8 | 1, (' ' + 1) << 8 };
    add_step(p, steps, TPLAN_STEP_COLLAPSE | trim << 8, put_list(p, space, 2), 0, 0);
}

void tplan_step_trim_end(tplan *p, tplan_steps *steps, uint32_t code) {
    const uint32_t list[] = { code << 8 | 1, (code + 1) << 8 };
    add_step(p, steps, TPLAN_STEP_COLLAPSE | (TPLAN_TRIM_END | 4) << 8, put_list(p, list, 2), 0, 0);
}

void tplan_step_lower(tplan *p, tplan_steps *steps) {
    tplan_table map = { 0 };
    add_pairs(p, LOWER, &map);
    tplan_step_map(p, steps, &map);
    tplan_free_table(&map);
}

void tplan_step_lower_python(tplan *p, tplan_steps *steps) {
    add_step(p, steps, TPLAN_STEP_SIGMA, put_ranges(p, CASE, 3), 0, 0);
    tplan_step_lower(p, steps);
}

/* Adds a step that composes characters, or decomposes them if `compose` is false. A decomposed text
 * has at most three times as many bytes. */
void tplan_step_compose(tplan *p, tplan_steps *steps, bool compose) {
    const uint32_t parts = put_pairs(p, PARTS), classes = put_ranges(p, COMBINING, 255);
    add_step(p, steps, TPLAN_STEP_COMPOSE, parts, classes,
             compose ? put_pairs(p, COMPOSITIONS) : 0);
    if (p->growth < 3) p->growth = 3;
}

/* Adds a step with one of the stored maps, whose keys are sorted. */
static void add_map(tplan *p, tplan_steps *steps, uint32_t kind, int table) {
    add_step(p, steps, kind, put_pairs(p, table), 0, 0);
}

void tplan_step_ftfy(tplan *p, tplan_steps *steps) {
    add_map(p, steps, TPLAN_STEP_ENTITIES | 1 << 8, FIXED_ENTITIES);
    add_map(p, steps, TPLAN_STEP_MAP, FIXED);
    tplan_step_compose(p, steps, true);
}

void tplan_step_entities(tplan *p, tplan_steps *steps) {
    const uint32_t entities = put_pairs(p, ENTITIES);
    add_step(p, steps, TPLAN_STEP_ENTITIES, entities, 0, 0);
    add_step(p, steps, TPLAN_STEP_ENTITIES, entities, 0, 0);
}

void tplan_step_punctuation(tplan *p, tplan_steps *steps) {
    tplan_table map = { 0 };
    for (const char *c = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"; *c; c++)
        tplan_add_pair(p, &map, c, 1, "", 0);
    tplan_step_map(p, steps, &map);
    tplan_free_table(&map);
}

/* === Writing === */

static bool check_unique(tplan_table *table, const char *what, report *r) {
    tplan_sort(table);
    for (size_t i = 1; i < table->count; i++)
        if (compare_keys(table->items[i - 1].key, table->items[i - 1].key_size, table->items[i].key,
                         table->items[i].key_size) == 0)
            return report_fail(r, "the %s '%s' occurs twice", what, table->items[i].key);
    return true;
}

static bool check_ids(const tplan *p, const tplan_table *table, bool numbers, report *r) {
    for (size_t i = 0; i < table->count; i++) {
        const tplan_entry *entry = &table->items[i];
        const uint32_t id = numbers ? entry->number : entry->id;
        if (id != (uint32_t)TPLAN_NONE && id >= (uint32_t)p->num_ids)
            return report_fail(r, "the piece '%s' has id %u, expected less than %d", entry->key, id,
                               p->num_ids);
    }
    return true;
}

/* Writes the merges in the order of the pieces that they make. The number of each piece becomes the
 * index of the piece's first merge. */
static bool put_merges(tplan *p, uint32_t *at, report *r) {
    size_t m = 0;
    *at = place(p);
    put32(p, (uint32_t)(2 * p->merges.count));
    for (size_t i = 0; i < p->pieces.count; i++) {
        tplan_entry *piece = &p->pieces.items[i];
        piece->number = (uint32_t)m;
        for (; m < p->merges.count; m++) {
            const tplan_entry *merge = &p->merges.items[m];
            const int order = compare_keys(merge->key, merge->key_size, piece->key,
                                           piece->key_size);
            if (order > 0) break;
            if (order < 0)
                return report_fail(r, "a merge makes '%s', which the vocabulary lacks", merge->key);
            put32(p, merge->number);
            put32(p, merge->id);
        }
    }
    if (m < p->merges.count)
        return report_fail(r, "a merge makes '%s', which the vocabulary lacks",
                           p->merges.items[m].key);
    return true;
}

static void set_header(tplan *p, int at, uint32_t value) {
    if (!p->no_memory) set32(p->blob.data + at, value);
}

static void put_steps(tplan *p, const tplan_steps *steps, int at) {
    if (steps->count) set_header(p, at, put_list(p, steps->rows[0], steps->count * 4));
}

static bool put_tables(tplan *p, report *r) {
    uint32_t longest = 1, score, at, *ids;
    if (!check_unique(&p->pieces, "piece", r) || !check_unique(&p->raw, "token", r) ||
        !check_unique(&p->cleaned, "token", r) || !check_unique(&p->words, "word", r) ||
        !check_ids(p, &p->pieces, false, r) || !check_ids(p, &p->raw, true, r) ||
        !check_ids(p, &p->cleaned, true, r) || !check_ids(p, &p->words, true, r)) {
        return false;
    }
    tplan_sort(&p->merges);
    put_steps(p, &p->first, 100);
    put_steps(p, &p->steps, 60);
    if (p->algorithm != TPLAN_UNIGRAM) {
        if (!put_merges(p, &at, r)) return false;
        set_header(p, 72, at);
    }
    ids = malloc((p->pieces.count + 1) * sizeof *ids);
    if (!ids) return report_no_memory(r);
    for (size_t i = 0; i < p->pieces.count; i++) {
        ids[i] = p->pieces.items[i].id;
        if (p->pieces.items[i].key_size > longest) longest = p->pieces.items[i].key_size;
    }
    set_header(p, 68, put_list(p, ids, p->pieces.count));
    free(ids);
    set_header(p, 64, put_table(p, &p->pieces, false));
    /* A table has one more number than it has entries. The numbers of the pieces are indices of
     * merges, so the last one is the number of merges. */
    if (p->algorithm != TPLAN_UNIGRAM && !p->no_memory && p->pieces.count)
        set32(p->blob.data + bytes_load32(p->blob.data + 64) + 8 + 4 * (2 * p->pieces.count + 1),
              (uint32_t)p->merges.count);
    if (p->has_bytes) set_header(p, 76, put_list(p, p->byte_ids, 256));
    if (p->split == TPLAN_SPLIT_CLASSES) set_header(p, 80, put_ranges(p, KINDS, 7));
    set_header(p, 84, put_table(p, &p->words, false));
    set_header(p, 88, put_table(p, &p->raw, false));
    set_header(p, 92, put_table(p, &p->cleaned, false));
    if (longest > TPLAN_MAX_PIECE)
        return report_fail(r, "the longest piece has %u bytes, expected at most %d", longest,
                           TPLAN_MAX_PIECE);
    /* A step that lengthens a text usually leaves little for the other steps to lengthen. All other
     * steps together are assumed to lengthen it by at most half. */
    p->growth *= 1.5;
    if (p->growth > 60)
        return report_fail(
            r, "normalization can make a text %.0f times as long, expected at most 60 times",
            p->growth);
    memcpy(&score, &p->first_score, 4);
    set_header(p, 104, score);
    memcpy(&score, &p->lowest_score, 4);
    set_header(p, 0, 0x4b4f5456); /* VTOK */
    set_header(p, 4, 1);
    set_header(p, 12, (uint32_t)p->algorithm);
    set_header(p, 16, (uint32_t)p->split);
    set_header(p, 20, (uint32_t)p->flags);
    set_header(p, 24, (uint32_t)p->context);
    set_header(p, 28, (uint32_t)p->num_ids);
    set_header(p, 32, (uint32_t)p->begin);
    set_header(p, 36, (uint32_t)p->end);
    set_header(p, 40, (uint32_t)p->pad);
    set_header(p, 44, (uint32_t)p->unknown);
    set_header(p, 48, (uint32_t)(p->growth * 16 + 1));
    set_header(p, 52, longest);
    set_header(p, 56, score);
    place(p);
    set_header(p, 8, (uint32_t)p->blob.size);
    return !p->no_memory || report_no_memory(r);
}

/* Texts that different tokenizers split differently. The conversion stores their ids. A computer
 * that uses the tokenizer can compute the ids again and compare them. */
static const char *const examples[] = {
    "",
    "a photo of a cat",
    "A dog on a beach, at sunset.",
    "  two   spaces\tand\na line  ",
    "UPPER lower MiXeD",
    "it's they're I'll we've he'd I'm don't",
    "12345 3.14 1,000,000",
    "caf\xc3\xa9 na\xc3\xafve re\xcc\x81sume\xcc\x81",
    "\xce\xa3\xce\x9f\xce\xa6\xce\x9f\xce\xa3 \xce\xa3",
    "\xd0\x9a\xd0\xbe\xd1\x88\xd0\xba\xd0\xb0 \xd0\x8e",
    "\xe7\x8c\xab\xe3\x81\xae\xe5\x86\x99\xe7\x9c\x9f",
    "\xea\xb3\xa0\xec\x96\x91\xec\x9d\xb4 \xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
    "\xe0\xb9\x81\xe0\xb8\xa1\xe0\xb8\xa7",
    "\xd7\x97\xd7\xaa\xd7\x95\xd7\x9c \xd9\x82\xd8\xb7\xd8\xa9",
    "\xf0\x9f\x90\xb1 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
    "\xf0\x9f\x87\xab\xf0\x9f\x87\xb7 \xe2\x9d\xa4\xef\xb8\x8f",
    "&lt;b&gt; &amp;amp; &eacute; &#39;",
    "<|startoftext|> <|endoftext|> </s> <eos>",
    "!!!??? ... ---",
    "snake_case camelCase kebab-case",
    "https://example.com/a?b=c&d=e",
    "\xc4\xb0stanbul \xc7\x85 \xe1\xba\x9e",
    "\xef\xac\x81ne \xef\xbc\xa1\xef\xbc\xa2 \xe2\x85\xa3",
    "\xe2\x80\x9cquoted\xe2\x80\x9d \xe2\x80\x98it\xe2\x80\x99s",
    "\xe2\x96\x81 \xe2\x96\x81\xe2\x96\x81",
    "tab\there\x01\x7f",
    "\xc2\xa0no-break\xe2\x80\xafspaces\xe3\x80\x80",
    "\xc2\xbd \xe2\x82\x82 \xe0\xa5\xaa\xe0\xa5\xa8",
    "a photo of a dog.",
    "a bad photo of the small bird.",
    "a black and white photo of an empty street at night",
    "two children playing with a red ball in the park",
    "a close-up of a person's hand holding a coffee cup",
    "the quick brown fox jumps over the lazy dog",
    "Mountains; rivers: lakes, (and) [trees] {too}",
    "Photo #42 by @someone, 50% off, $9.99 + tax = \xe2\x82\xac"
    "10",
    "I can't won't shan't; y'all'd've",
    "ALL CAPS TEXT",
    "\xc3\x9c"
    "ber gro\xc3\x9f"
    "e \xc3\x84pfel",
    "\xc3\x89t\xc3\xa9 \xc3\xa0 la plage",
    "ni\xc3\xb1o a\xc3\xb1o \xc2\xbfqu\xc3\xa9\x3f",
    "za\xc5\xbc\xc3\xb3\xc5\x82\xc4\x87 g\xc4\x99\xc5\x9bl\xc4\x85",
    "\xce\xb3\xce\xac\xcf\x84\xce\xb1 \xcf\x83\xcf\x84\xce\xbf \xcf\x83\xcf\x80\xce\xaf\xcf\x84\xce\xb9",
    "\xd1\x81\xd0\xbe\xd0\xb1\xd0\xb0\xd0\xba\xd0\xb0 \xd0\xb8 \xd0\xba\xd0\xbe\xd1\x82",
    "\xe0\xa4\xac\xe0\xa4\xbf\xe0\xa4\xb2\xe0\xa5\x8d\xe0\xa4\xb2\xe0\xa5\x80",
    "\xe3\x83\x8d\xe3\x82\xb3 \xef\xbe\x88\xef\xbd\xba",
    "\xe4\xb8\x80\xe5\x8f\xaa\xe7\x8b\x97\xe5\x9c\xa8\xe6\xb5\xb7\xe6\xbb\xa9\xe4\xb8\x8a",
    "\xd9\x83\xd9\x84\xd8\xa8 \xd8\xb9\xd9\x84\xd9\x89 \xd8\xa7\xd9\x84\xd8\xb4\xd8\xa7\xd8\xb7\xd8\xa6",
    "\xf0\x9d\x93\x91\xf0\x9d\x93\xbe\xf0\x9d\x93\xb7 \xf0\x9d\x9f\x98",
    "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd \xf0\x9f\xa7\x91\xe2\x80\x8d\xf0\x9f\x9a\x80",
    "1\xef\xb8\x8f\xe2\x83\xa3 \xe2\x93\x90 \xe2\x98\x83",
    "\xf0\xa0\x80\x80\xf3\xa0\x81\x81\xf4\x8f\xbf\xbd",
    "&quot;quoted&quot; &copy; &notit; &#x41;&#8364;",
    "e\xcc\xa3\xcc\x82 e\xcc\x82\xcc\xa3 \xe1\xbb\x87",
    "\xe2\x84\xab \xe2\x84\xa6 \xe2\x84\xaa",
    "a\xcc\x80\xcc\x81\xcc\x82\xcc\x83\xcc\x84\xcc\x85\xcc\x86\xcc\x87",
    "\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x8b\xe2\x81\xa0\xef\xbb\xbf",
    "line one\x0d\x0aline two\xe2\x80\xa8line three",
    "0.5e-10 0xff 1st 2nd 3rd",
    "<mask> <pad> <unk> <0x41> [CLS]",
    "`tick` | ~ ^ _ __",
    "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8\xe1\x86\xa8 \xea\xb0\x80\xe1\x86\xa8",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "one two three four five six seven eight nine ten one two three four five six seven eight nine "
    "ten one two three four five six seven eight nine ten one two three four five six seven eight "
    "nine ten one two three four five six seven eight nine ten one two three four five six seven "
    "eight nine ten one two three four five six seven eight nine ten one two three four five six",
};

static bool put_examples(tplan *p, report *r) {
    enum { COUNT = sizeof examples / sizeof *examples };
    vit_tokenizer t;
    uint32_t *list = NULL;
    size_t count = 0, scratch_size;
    void *scratch;
    vit_text_ids ids;
    bool good = true;
    const vit_result result = vit_tokenizer_open(p->blob.data, p->blob.size, &t);
    if (result)
        return report_fail(r, "the tokenizer cannot be opened: %s", vit_result_string(result));
    scratch_size = vit_tokenize_size(&t, 1024);
    scratch = malloc(scratch_size);
    ids.ids = malloc((size_t)t.context * sizeof *ids.ids);
    list = malloc(COUNT * (3 + (size_t)t.context) * sizeof *list);
    for (int i = 0; i < COUNT && scratch && ids.ids && list && good; i++) {
        const size_t size = strlen(examples[i]);
        const vit_result done = vit_tokenize(&t, examples[i], size, scratch, scratch_size, &ids);
        good = !done || report_fail(r, "'%s' has no ids: %s", examples[i], vit_result_string(done));
        list[count++] = 0;
        list[count++] = (uint32_t)size;
        list[count++] = (uint32_t)ids.num_ids;
        for (int k = 0; k < ids.num_ids; k++) list[count++] = (uint32_t)ids.ids[k];
    }
    if (!scratch || !ids.ids || !list) p->no_memory = true;
    for (size_t i = 0, k = 0; good && !p->no_memory && i < COUNT; i++) {
        list[k] = (uint32_t)p->blob.size;
        put_bytes(p, examples[i], strlen(examples[i]));
        k += 3 + list[k + 2];
    }
    if (good && !p->no_memory) {
        set_header(p, 96, put_list(p, list, count));
        set_header(p, 8, (uint32_t)p->blob.size);
    }
    free(scratch);
    free(ids.ids);
    free(list);
    return good && (!p->no_memory || report_no_memory(r));
}

bool tplan_write(tplan *p, tokenizer_blob *blob, report *r) {
    blob->data = NULL;
    blob->size = 0;
    if (p->no_memory) return report_no_memory(r);
    if (!put_tables(p, r) || !put_examples(p, r)) return false;
    blob->data = p->blob.data;
    blob->size = p->blob.size;
    p->blob.data = NULL;
    return true;
}
