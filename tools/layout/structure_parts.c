#define _POSIX_C_SOURCE 200809L
#include "layout/structure.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/rules.h"

/* === Parts === */

const char structure_by_name[] = "by its name";
const char structure_by_shape[] = "by its shape";

/* === Words === */

static bool starts_word(const char *text, const char *at) {
    if (at == text) return true;
    if (isdigit((unsigned char)*at) != isdigit((unsigned char)at[-1])) return true;
    return isupper((unsigned char)*at) && !isupper((unsigned char)at[-1]);
}

void structure_read_words(structure_part *part, const char *text) {
    const char *at;
    size_t used = 0;
    part->word_count = 0;
    for (at = text; *at; at++) {
        const bool letter = isalnum((unsigned char)*at) != 0;
        const bool begins = letter && (starts_word(text, at) || !isalnum((unsigned char)at[-1]));
        if (!letter) continue;
        if (begins) {
            if (part->word_count == PART_MAX_WORDS) return;
            part->word_count++;
            used = 0;
        }
        if (used + 1 < PART_WORD_SIZE) {
            part->words[part->word_count - 1][used++] = (char)tolower((unsigned char)*at);
            part->words[part->word_count - 1][used] = '\0';
        }
    }
}

/* True if the words of the part, from word i on, begin with this text. '+' separates the words of
 * the text. */
static bool has_words_at(const structure_part *part, int i, const char *text, size_t size) {
    const char *end = text + size;
    while (text < end && i < part->word_count) {
        const char *plus = memchr(text, '+', (size_t)(end - text));
        const size_t length = (size_t)((plus ? plus : end) - text);
        if (strlen(part->words[i]) != length || memcmp(part->words[i], text, length) != 0)
            return false;
        text += length + (plus != NULL);
        i++;
    }
    return text >= end;
}

bool structure_says(const structure_part *part, const char *words) {
    int i;
    while (*words) {
        const size_t size = strcspn(words, " ");
        for (i = 0; i < part->word_count; i++)
            if (has_words_at(part, i, words, size)) return true;
        words += size;
        words += strspn(words, " ");
    }
    return false;
}

/* === Parts === */

/* The last component of a tensor's name; is_bias is true for a bias. */
typedef struct leaf_name {
    const char *text;
    bool is_bias;
} leaf_name;

/* The last components of the names that a module gives to its tensors. */
static const leaf_name leaf_names[] = {
    { "weight", false }, { "bias", true },   { "kernel", false }, { "gamma", false },
    { "beta", true },    { "alpha", false }, { "scale", false },  { "shift", true },
    { "a_2", false },    { "b_2", true },    { "g", false },      { "b", true },
    { "w", false },      { "W", false },     { "B", true },
};

/* Returns the length of the name without its last component. If that component is unknown, returns
 * the length of the whole name. */
static size_t stem_length(const char *name, bool *is_bias) {
    const size_t length = strlen(name);
    size_t i;
    for (i = 0; i < sizeof leaf_names / sizeof *leaf_names; i++) {
        const size_t leaf = strlen(leaf_names[i].text);
        const char before = length > leaf ? name[length - leaf - 1] : '\0';
        *is_bias = leaf_names[i].is_bias;
        if (length < leaf || strcmp(name + length - leaf, leaf_names[i].text) != 0) continue;
        if (before == '.' || before == '/' || (before == '_' && leaf > 3)) return length - leaf - 1;
    }
    *is_bias = false;
    return length;
}

/* Returns the number of dimensions of a tensor. Dimensions of 1 do not count if they come first or
 * last in a bare parameter, or follow the channels of a convolution. */
static int real_dims(const checkpoint_tensor_info *t, bool is_bare, int64_t dims[2]) {
    int first = 0, last = t->ndim;
    while (is_bare && first < t->ndim && t->dims[first] == 1) first++;
    while (last > first + (is_bare ? 1 : 2) && t->dims[last - 1] == 1) last--;
    dims[0] = first < last ? t->dims[first] : 1;
    dims[1] = first + 1 < last ? t->dims[first + 1] : 1;
    return last - first;
}

/* Sets the kind of a part by the shape of its weight. If the bias is as long as the second
 * dimension of the weight, the weight is [inputs, outputs]. */
static void find_kind(structure_part *part) {
    const checkpoint_tensor_info *t = part->weight;
    int64_t dims[2];
    int ndim = real_dims(t, part->is_bare, dims);
    part->rows = dims[0];
    part->cols = dims[1];
    part->kind = PART_OTHER;
    if (!checkpoint_is_float(t->dtype) || t->count == 0) return;
    if (t->ndim == 2 && part->bias && part->bias->count == dims[1] && dims[0] != dims[1])
        part->is_bare = true;
    if (ndim <= 1)
        part->kind = part->bias && part->bias->count == part->rows ? PART_NORM : PART_VECTOR;
    else if (part->is_bare) part->kind = PART_TABLE;
    /* this is a norm over [N, D] */
    else if (ndim == 2 && part->bias && part->bias->ndim > 1) return;
    else if (ndim == 2) part->kind = PART_MATRIX;
    else if (ndim == 4 && t->ndim == 4) part->kind = PART_CONV;
}

/* A hash table that finds a part by its path. A slot holds the index of the part plus 1; 0 if it is
 * free. */
typedef struct part_table {
    structure_parts *parts;
    int slots[4 * STRUCTURE_MAX_TENSORS];
} part_table;

/* Returns the slot that holds the part with this path, or the free slot for a new part. */
static int *find_slot(part_table *table, const char *name, size_t length) {
    const size_t count = sizeof table->slots / sizeof *table->slots;
    vit_hash hash;
    size_t i;
    vit_hash_init(&hash);
    vit_hash_update(&hash, name, length);
    for (i = vit_hash_final(&hash) % count; table->slots[i]; i = (i + 1) % count) {
        const structure_part *part = &table->parts->parts[table->slots[i] - 1];
        if (part->path_size == length && !memcmp(part->path, name, length)) break;
    }
    return &table->slots[i];
}

static structure_part *find_part(part_table *table, const char *name, size_t length) {
    const int *slot = find_slot(table, name, length);
    return *slot ? &table->parts->parts[*slot - 1] : NULL;
}

static structure_part *add_part(part_table *table, const char *name, size_t length) {
    structure_parts *p = table->parts;
    structure_part *part = &p->parts[p->count];
    part->path = malloc(length + 1);
    if (part->path) snprintf(part->path, length + 1, "%s", name);
    if (!part->path) return NULL;
    part->path_size = length;
    part->block = part->place = -1;
    part->is_bare = !name[length];
    *find_slot(table, name, length) = ++p->count;
    return part;
}

/* Adds a new part, or adds the bias or weight to a part that exists. */
static bool add_tensor(part_table *table, const checkpoint_tensor_info *t, report *r) {
    bool is_bias;
    size_t length = stem_length(t->name, &is_bias);
    structure_part *part = find_part(table, t->name, length);
    const checkpoint_tensor_info **slot;
    /* a module may have both alpha and gamma; the second one becomes a part of its own */
    if (part && (is_bias ? part->bias : part->weight)) {
        length = strlen(t->name);
        part = NULL;
        is_bias = false;
    }
    if (!part) part = add_part(table, t->name, length);
    if (!part) return report_no_memory(r);
    slot = is_bias ? &part->bias : &part->weight;
    *slot = t;
    return true;
}

/* Marks the parts of every module that has running_mean or running_var as a batch norm. */
static void mark_batch_norms(part_table *table) {
    structure_parts *p = table->parts;
    int i;
    for (i = 0; i < p->count; i++) {
        const char *leaf = strrchr(p->parts[i].path, '.');
        structure_part *norm;
        if (!leaf || (strcmp(leaf, ".running_mean") && strcmp(leaf, ".running_var"))) continue;
        p->parts[i].kind = PART_BATCH;
        norm = find_part(table, p->parts[i].path, (size_t)(leaf - p->parts[i].path));
        if (norm) norm->kind = PART_BATCH;
    }
}

/* Reads the words of all paths. Words in the path that all tensors share are left out, because they
 * carry no information. */
static void read_all_words(structure_parts *p) {
    const size_t shared = p->ordered ? 0 : layout_common_path(p->checkpoint);
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        part->inner = part->path + (shared < part->path_size ? shared : 0);
        structure_read_words(part, part->inner);
    }
}

/* === Parts without effect === */

/* Sets *constant to true if all values of the tensor are equal. A mask of equal values has no
 * effect. */
static bool is_constant(checkpoint *c, const checkpoint_tensor_info *t, bool *constant, report *r) {
    enum { MOST = 1 << 20 };
    const size_t count = t->count > 0 && t->count <= MOST ? (size_t)t->count : 0;
    float *values = malloc((count + 1) * sizeof *values);
    bool good = values ? true : report_no_memory(r);
    size_t i;
    good = good && (count == 0 || checkpoint_read(c, t, 0, t->count, values, r));
    *constant = count > 0;
    for (i = 1; good && i < count; i++) *constant = *constant && values[i] == values[0];
    free(values);
    return good;
}

static bool drop_parts(structure_parts *p, const text_list *ignore, report *r) {
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        const checkpoint_dtype dtype = part->weight->dtype;
        if (names_match(ignore, part->weight->name)) {
            part->is_dropped = true;
            part->reason = "by --ignore";
        } else if (dtype == CHECKPOINT_BOOL) {
            if (!is_constant(p->checkpoint, part->weight, &part->is_dropped, r)) return false;
            part->reason = "of a mask without effect";
        } else if (!checkpoint_is_float(dtype)) {
            part->is_dropped = true;
            part->reason = "of whole numbers";
        }
    }
    return true;
}

/* === The parts of the whole checkpoint === */

static bool fill_parts(part_table *table, checkpoint *c, report *r) {
    structure_parts *p = table->parts;
    const size_t count = checkpoint_count(c);
    const char *last = "";
    size_t i;
    int k;
    p->is_sorted = !p->ordered;
    for (i = 0; i < count; i++) {
        const checkpoint_tensor_info *t = p->ordered ? &p->ordered[i] : checkpoint_tensor(c, i);
        if (!add_tensor(table, t, r)) return false;
        if (strcmp(last, t->name) > 0) p->is_sorted = false;
        last = t->name;
    }
    for (k = 0; k < p->count; k++) {
        structure_part *part = &p->parts[k];
        if (!part->weight) { /* a bias without a weight is a vector, whatever its name is */
            part->weight = part->bias;
            part->bias = NULL;
            part->is_bare = true;
        }
        find_kind(part);
    }
    return true;
}

bool structure_make_parts(checkpoint *c, const text_list *ignore, structure_parts *p, report *r) {
    const size_t count = checkpoint_count(c);
    part_table *table;
    bool good;
    p->checkpoint = c;
    if (count == 0 || count > STRUCTURE_MAX_TENSORS)
        return report_fail(r, "expected 1 to %d tensors, found %zu", STRUCTURE_MAX_TENSORS, count);
    if (!structure_read_order(c, ignore, p, r)) return false;
    p->parts = calloc(count + 1, sizeof *p->parts);
    table = calloc(1, sizeof *table);
    if (table) table->parts = p;
    good = p->parts && table ? fill_parts(table, c, r) : report_no_memory(r);
    if (good) mark_batch_norms(table);
    free(table);
    if (good) read_all_words(p);
    return good && drop_parts(p, ignore, r) && structure_drop_copies(p, r);
}

void structure_free_parts(structure_parts *p) {
    int i;
    for (i = 0; i < p->count; i++) free(p->parts[i].path);
    free(p->parts);
    free(p->in_blocks);
    free(p->ordered);
    free(p->ordered_names);
}

const char *structure_shown(const structure_parts *p, const structure_part *part) {
    return p->ordered ? part->weight->stored_name : part->path;
}

structure_part *structure_at(const structure_parts *p, int block, int place) {
    return p->in_blocks[block * p->places + place];
}

structure_part *structure_with_role(const structure_parts *p, int block, const char *role) {
    const int count = block < 0 ? p->count : p->places;
    int i;
    for (i = 0; i < count; i++) {
        structure_part *part = block < 0 ? &p->parts[i] : structure_at(p, block, i);
        if (part->block == block && part->role && !strcmp(part->role, role)) return part;
    }
    return NULL;
}

void structure_name(structure_part *part, const char *role, const char *reason) {
    if (part->role) return;
    part->role = role;
    part->reason = reason;
}

void structure_note_add(structure *s, const char *what, const char *why, const char *option) {
    structure_note *note = &s->notes[s->note_count];
    if (s->note_count == STRUCTURE_MAX_NOTES) return;
    s->note_count++;
    snprintf(note->what, sizeof note->what, "%s", what);
    snprintf(note->why, sizeof note->why, "%s", why);
    snprintf(note->option, sizeof note->option, "%s", option);
}

int structure_last_number(const structure_part *part) {
    int i;
    for (i = part->word_count - 1; i >= 0; i--)
        if (isdigit((unsigned char)part->words[i][0])) return atoi(part->words[i]);
    return -1;
}

/* Writes a pattern for --rename that names this part in all blocks, such as "layers.*.b". */
static void put_pattern(const structure_part *part, char *text, size_t size) {
    const size_t inner = (size_t)(part->inner - part->path);
    size_t before = inner;
    while (before > 0 && isdigit((unsigned char)part->path[before - 1])) before--;
    if (before < inner) snprintf(text, size, "%.*s*%s", (int)before, part->path, part->inner);
    else snprintf(text, size, "%s", part->path);
}

bool structure_order_tells(structure_parts *p, structure_part *const *parts, int count,
                           const char *roles) {
    enum { ROOM = 1200 }; /* the space that is kept for the text after the list */
    char pattern[256];
    int i, j;
    bool told = true;
    for (i = 0; i < count; i++)
        for (j = 0; j < i; j++)
            told = told && structure_last_number(parts[i]) != structure_last_number(parts[j]);
    if (!p->is_sorted || told || p->unsure[0]) return !p->is_sorted || told;
    snprintf(p->unsure, sizeof p->unsure, "the names of");
    for (i = 0; i < count && strlen(p->unsure) < sizeof p->unsure - ROOM; i++) {
        put_pattern(parts[i], pattern, sizeof pattern);
        text_append(p->unsure, sizeof p->unsure, "%s %s", i ? "," : "", pattern);
    }
    put_pattern(parts[0], pattern, sizeof pattern);
    text_append(p->unsure, sizeof p->unsure,
                " do not distinguish %s. The file does not show their order either, because it "
                "sorts its tensors by name. Rename each of them, the first one with --rename "
                "'%s.*=NEW.*', where NEW is a recognisable name such as 'layers.*.attn.query'",
                roles, pattern);
    return false;
}

/* === Groups === */

/* Blocks are groups of parts that repeat. A name with a number, such as "enc.layers.3.norm",
 * belongs to the series "enc.layers." at the number 3. Two numbers of a series are alike if the
 * same names with the same shapes follow both numbers. Consecutive numbers form a run if all of
 * them are alike. They also form a run if every n-th number is alike; each block then has n
 * numbers. A run consists of blocks if it has at least a norm, a matrix that reads tokens and a
 * matrix that writes tokens. */

enum { MAX_PERIOD = 6, MAX_NUMBERS = 8, MAX_PLACES = 1024 };

/* One number in the path of a part. */
typedef struct numbered {
    structure_part *part;
    size_t before; /* length of the path before the number */
    size_t after;  /* length of the path up to the end of the number */
    int number;
} numbered;

/* A run of consecutive numbers. Each block of the run consists of `period` numbers. */
typedef struct block_run {
    /* the first entry of the run; all entries are sorted by series and number */
    const numbered *first;
    size_t count; /* number of entries in the run */
    int blocks, period;
    int64_t elements; /* the number of values in all tensors of the run */
    bool is_complete;
} block_run;

/* All numbers in the paths of the parts. */
typedef struct group_search {
    numbered *entries;
    size_t count, capacity;
} group_search;

/* === All numbers === */

static bool add_entry(group_search *g, structure_part *part, size_t before, size_t after) {
    numbered *entry;
    /* a number with more than four digits is not that of a block */
    if (after - before > 4) return true;
    if (g->count == g->capacity) {
        numbered *grown = realloc(g->entries, (2 * g->capacity + 64) * sizeof *grown);
        if (!grown) return false;
        g->entries = grown;
        g->capacity = 2 * g->capacity + 64;
    }
    entry = &g->entries[g->count++];
    entry->part = part;
    entry->before = before;
    entry->after = after;
    entry->number = atoi(part->path + before);
    return true;
}

static bool add_numbers(group_search *g, structure_part *part) {
    const char *path = part->path;
    size_t at = 0;
    int found = 0;
    while (path[at] && found < MAX_NUMBERS) {
        const size_t start = at;
        while (isdigit((unsigned char)path[at])) at++;
        if (at == start) {
            at++;
            continue;
        }
        found++;
        if (!add_entry(g, part, start, at)) return false;
    }
    return true;
}

static int compare_texts(const char *a, size_t a_size, const char *b, size_t b_size) {
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static bool same_series(const numbered *a, const numbered *b) {
    return !compare_texts(a->part->path, a->before, b->part->path, b->before);
}

/* Orders entries by series, then by number, then by their place in the file. */
static int compare_entries(const void *x, const void *y) {
    const numbered *a = x, *b = y;
    const int order = compare_texts(a->part->path, a->before, b->part->path, b->before);
    if (order) return order;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return (a->part > b->part) - (a->part < b->part);
}

/* === Numbers that are alike === */

static bool same_shape(const checkpoint_tensor_info *a, const checkpoint_tensor_info *b) {
    if (!a || !b) return a == b;
    return a->ndim == b->ndim && !memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims);
}

static const char *rest_of(const numbered *e) { return e->part->path + e->after; }

static bool are_alike(const numbered *a, const numbered *b) {
    return !strcmp(rest_of(a), rest_of(b)) && same_shape(a->part->weight, b->part->weight) &&
           same_shape(a->part->bias, b->part->bias);
}

/* Returns how many entries, from this one on, have the same number as this one. */
static size_t number_length(const numbered *e, const numbered *end) {
    const numbered *at = e;
    while (at < end && at->number == e->number) at++;
    return (size_t)(at - e);
}

/* Returns how many entries the next `period` numbers have; 0 if there are fewer numbers. */
static size_t period_length(const numbered *e, const numbered *end, int period) {
    const numbered *at = e;
    for (; period > 0; period--) {
        if (at >= end) return 0;
        at += number_length(at, end);
    }
    return (size_t)(at - e);
}

static bool alike_at(const numbered *a, const numbered *b, size_t length) {
    size_t i;
    for (i = 0; i < length; i++)
        if (!are_alike(&a[i], &b[i])) return false;
    return true;
}

/* === Runs === */

/* True if these entries include a matrix that reads tokens and a matrix that writes tokens. */
static bool has_pair(const numbered *e, size_t length) {
    size_t i, j;
    for (i = 0; i < length; i++)
        for (j = 0; j < length; j++)
            if (i != j && e[i].part->kind == PART_MATRIX && e[j].part->kind == PART_MATRIX &&
                e[i].part->cols == e[j].part->rows)
                return true;
    return false;
}

static bool looks_complete(const numbered *e, size_t length) {
    size_t i = 0;
    while (i < length && e[i].part->kind != PART_NORM && e[i].part->kind != PART_VECTOR) i++;
    return i < length && has_pair(e, length);
}

/* True if the entries of a single group form exactly one block, neither the whole model nor several
 * blocks. */
static bool is_one_block(const numbered *e, size_t length) {
    structure_part part;
    size_t i;
    for (i = 0; i < length; i++) {
        part.kind = e[i].part->kind;
        structure_read_words(&part, rest_of(&e[i]));
        if (part.kind == PART_CONV || part.kind == PART_TABLE ||
            structure_says(&part,
                           "patch patches pos position positional cls class head classifier"))
            return false;
    }
    return true;
}

/* Returns the run with this period that begins at this entry. Its `first` is NULL if no run begins
 * here. */
static block_run run_at(const numbered *e, const numbered *end, int period) {
    block_run run = { NULL, 0, 0, 0, 0, false };
    const size_t length = period_length(e, end, period);
    size_t i;
    if (length == 0) return run;
    run.first = e;
    run.blocks = 1;
    run.period = period;
    run.count = length;
    while (period_length(e + run.count, end, period) == length &&
           alike_at(e, e + run.count, length)) {
        run.blocks++;
        run.count += length;
    }
    for (i = 0; i < run.count; i++) run.elements += e[i].part->weight->count;
    if (length <= MAX_PLACES && (run.blocks > 1 || period == 1))
        run.is_complete = looks_complete(e, length) && (run.blocks > 1 || is_one_block(e, length));
    return run;
}

/* True if run a is better than run b. The first difference in this list decides: being complete,
 * two blocks or more, more values in the tensors, a shorter period, and a shorter path before the
 * numbers (a list further outside). */
static bool is_better(const block_run *a, const block_run *b) {
    if (!b->first) return a->first != NULL;
    if (a->is_complete != b->is_complete) return a->is_complete;
    if ((a->blocks > 1) != (b->blocks > 1)) return a->blocks > 1;
    if (a->elements != b->elements) return a->elements > b->elements;
    if (a->period != b->period) return a->period < b->period;
    return a->first->before < b->first->before;
}

/* Finds the best run within one series. A run that lies inside a longer run is not tried by
 * itself. */
static void search_series(const numbered *first, const numbered *end, block_run *best) {
    const numbered *e, *after[MAX_PERIOD + 1] = { NULL };
    int period;
    for (e = first; e < end; e += number_length(e, end))
        for (period = 1; period <= MAX_PERIOD; period++) {
            block_run run;
            if (after[period] && e < after[period]) continue;
            run = run_at(e, end, period);
            if (!run.first || (run.blocks == 1 && period > 1)) continue;
            after[period] = e + run.count - run.count / (size_t)run.blocks;
            if (is_better(&run, best)) *best = run;
        }
}

/* === Blocks === */

static void mark(const block_run *run, int first_place) {
    const size_t length = run->count / (size_t)run->blocks;
    size_t i;
    for (i = 0; i < run->count; i++) {
        structure_part *part = run->first[i].part;
        part->block = (int)(i / length);
        part->place = first_place + (int)(i % length);
        part->inner = rest_of(&run->first[i]);
    }
}

static bool overlaps(const block_run *run) {
    size_t i;
    for (i = 0; i < run->count; i++)
        if (run->first[i].part->block >= 0) return true;
    return false;
}

/* True if the number is a whole component of the path, as in "norms.0.weight". */
static bool is_component(const numbered *e) {
    const char *path = e->part->path;
    return (e->before == 0 || path[e->before - 1] == '.') &&
           (!path[e->after] || path[e->after] == '.');
}

static size_t series_end(const group_search *g, size_t first) {
    size_t end = first + 1;
    while (end < g->count && same_series(&g->entries[first], &g->entries[end])) end++;
    return end;
}

/* Joins parallel lists, such as "norms.0", "attns.0" and "mlps.0", into blocks. Their parts get the
 * places from `places` on. Their words include the names of the lists, which show the kinds of the
 * parts. Returns the next free place. */
static int join_lists(const group_search *g, int blocks, bool components, int places) {
    size_t i, next;
    for (i = 0; i < g->count; i = next) {
        block_run run;
        next = series_end(g, i);
        run = run_at(&g->entries[i], &g->entries[next], 1);
        if (run.blocks != blocks || run.count != next - i || overlaps(&run) ||
            is_component(&g->entries[i]) != components || run.count > (size_t)MAX_PLACES)
            continue;
        mark(&run, places);
        places += (int)(run.count / (size_t)run.blocks);
        for (; i < next; i++) g->entries[i].part->inner = g->entries[i].part->path;
    }
    return places;
}

/* True if the first block of the joined lists has a norm and two matrices, which every block needs.
 * Otherwise separates the lists again. */
static bool keep_lists(structure_parts *p) {
    int norms = 0, matrices = 0, i;
    for (i = 0; i < p->count; i++) {
        if (p->parts[i].block != 0) continue;
        norms += p->parts[i].kind == PART_NORM;
        matrices += p->parts[i].kind == PART_MATRIX;
    }
    if (norms > 0 && matrices > 1) return true;
    for (i = 0; i < p->count; i++) {
        if (p->parts[i].block < 0) continue;
        p->parts[i].block = p->parts[i].place = -1;
        p->parts[i].inner = p->parts[i].path;
    }
    return false;
}

/* Joins lists whose numbers are whole components of a path, then lists whose numbers are inside a
 * word. */
static bool join_all_lists(structure_parts *p, const group_search *g, int blocks) {
    const int places = join_lists(g, blocks, true, 0);
    return join_lists(g, blocks, false, places) > 0 && keep_lists(p);
}

static void count_places(structure_parts *p) {
    int i;
    p->depth = p->places = 0;
    for (i = 0; i < p->count; i++) {
        if (p->parts[i].block >= p->depth) p->depth = p->parts[i].block + 1;
        if (p->parts[i].place >= p->places) p->places = p->parts[i].place + 1;
    }
}

/* Makes the index of all parts of the blocks, and reads the words of each part again. The words
 * begin after the number of the block. If this number is inside a name, as in "block3_attn", the
 * words begin with the rest of that name. */
static bool index_blocks(structure_parts *p, report *r) {
    int i;
    p->in_blocks = calloc((size_t)p->depth * (size_t)p->places + 1, sizeof *p->in_blocks);
    if (!p->in_blocks) return report_no_memory(r);
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (part->block < 0) continue;
        p->in_blocks[part->block * p->places + part->place] = part;
        structure_read_words(part, part->inner);
    }
    return true;
}

/* Returns the length that most norms of a block have. Norms over single heads are shorter. */
static int64_t find_width(const structure_parts *p) {
    int64_t width = 0;
    int most = 0, i, j;
    for (i = 0; i < p->places; i++) {
        const structure_part *a = structure_at(p, 0, i);
        int count = 0;
        if (a->kind != PART_NORM && a->kind != PART_VECTOR) continue;
        for (j = 0; j < p->places; j++) {
            const structure_part *b = structure_at(p, 0, j);
            count += b->rows == a->rows && (b->kind == PART_NORM || b->kind == PART_VECTOR);
        }
        if (count < most || (count == most && a->rows <= width)) continue;
        most = count;
        width = a->rows;
    }
    return width;
}

/* === A single block whose parts have no number === */

/* Returns the length that most norms of the model have; 0 if no two have the same length. */
static int64_t common_norm(const structure_parts *p) {
    int64_t length = 0;
    int most = 1, i, j;
    for (i = 0; i < p->count; i++) {
        int count = 0;
        for (j = 0; p->parts[i].kind == PART_NORM && j < p->count; j++)
            count += p->parts[j].kind == PART_NORM && p->parts[j].rows == p->parts[i].rows;
        if (count <= most) continue;
        most = count;
        length = p->parts[i].rows;
    }
    return length;
}

static bool is_outside(const structure_part *part) {
    return part->is_dropped ||
           structure_says(part, "patch patches pos position positional cls class head classifier "
                                "embed embedding final last");
}

/* True if another matrix reads the output of this matrix, or a third of this output. */
static bool is_read(const structure_parts *p, const structure_part *part) {
    int i;
    for (i = 0; i < p->count; i++) {
        const structure_part *other = &p->parts[i];
        if (other == part || other->kind != PART_MATRIX || other->is_outside) continue;
        if (other->cols == part->rows || (part->rows % 3 == 0 && other->cols == part->rows / 3))
            return true;
    }
    return false;
}

static bool may_be_in_block(const structure_parts *p, const structure_part *part, int64_t width) {
    if (part->is_outside) return false;
    if (part->kind == PART_NORM) return part->rows == width;
    if (part->kind != PART_MATRIX) return false;
    return part->rows == width || (part->cols == width && is_read(p, part));
}

/* Takes a single block whose parts have no number. If there are three norms, the last one follows
 * the block. */
static void take_single_block(structure_parts *p) {
    const int64_t width = common_norm(p);
    int norms = 0, i;
    if (width == 0) return;
    for (i = 0; i < p->count; i++) p->parts[i].is_outside = is_outside(&p->parts[i]);
    for (i = 0; i < p->count && p->places < MAX_PLACES; i++) {
        structure_part *part = &p->parts[i];
        if (!may_be_in_block(p, part, width)) continue;
        if (part->kind == PART_NORM && ++norms > 2) continue;
        part->block = 0;
        part->place = p->places++;
    }
}

/* Returns the best of all runs. If `beside` is true, runs that share a part with the blocks are
 * excluded. */
static block_run find_best(const group_search *g, bool beside) {
    block_run best = { NULL, 0, 0, 0, 0, false };
    size_t i;
    for (i = 0; i < g->count; i = series_end(g, i)) {
        const numbered *first = &g->entries[i], *end = g->entries + series_end(g, i);
        block_run run = { NULL, 0, 0, 0, 0, false };
        search_series(first, end, &run);
        if (run.first && (!beside || !overlaps(&run)) && is_better(&run, &best)) best = run;
    }
    return best;
}

static int64_t norm_length(const block_run *run) {
    size_t i;
    for (i = 0; i < run->count; i++)
        if (run->first[i].part->kind == PART_NORM) return run->first[i].part->rows;
    return run->first->part->rows;
}

/* Writes the pattern of a run's names, such as "encoder.layers.*". */
static void put_series(const block_run *run, char *text, size_t size) {
    snprintf(text, size, "%.*s*", (int)run->first->before, run->first->part->path);
}

/* Refuses a checkpoint that has a second run of blocks, such as a decoder or a further stage,
 * because no part may be dropped without a message. */
static bool check_alone(const group_search *g, const block_run *best, report *r) {
    const block_run other = find_best(g, true);
    const char *decoder;
    char a[300], b[300];
    if (best->blocks < 2 || !other.is_complete || other.blocks < 2) return true;
    put_series(best, a, sizeof a);
    put_series(&other, b, sizeof b);
    decoder = strstr(a, "dec") ? a : strstr(b, "dec") ? b : NULL;
    return report_fail(r,
                       "two groups of tensors look like the blocks of a transformer: %d blocks "
                       "%s, %lld wide, and %d blocks %s, %lld wide. vit.h does not run models "
                       "with several stages, such as Swin%s%s%s",
                       best->blocks, a, (long long)norm_length(best), other.blocks, b,
                       (long long)norm_length(&other), decoder ? "; --ignore '" : "",
                       decoder ? decoder : "", decoder ? "' drops the decoder" : "");
}

/* Returns the only norm of the model if the blocks have no norm: all blocks then use this module.
 * Otherwise returns NULL. */
static const structure_part *find_shared_norm(const structure_parts *p, const block_run *best) {
    const structure_part *found = NULL;
    int i;
    if (best->blocks < 2 || best->count / (size_t)best->blocks > MAX_PLACES ||
        !has_pair(best->first, best->count / (size_t)best->blocks))
        return NULL;
    for (i = 0; i < p->count; i++) {
        if (p->parts[i].kind != PART_NORM || p->parts[i].is_dropped) continue;
        if (found) return NULL;
        found = &p->parts[i];
    }
    return found;
}

static bool find_groups(structure_parts *p, group_search *g, report *r) {
    block_run best;
    int k;
    for (k = 0; k < p->count; k++)
        if (!p->parts[k].is_dropped && !add_numbers(g, &p->parts[k])) return report_no_memory(r);
    if (g->count > 0) qsort(g->entries, g->count, sizeof *g->entries, compare_entries);
    best = find_best(g, false);
    if (!best.is_complete) p->shared_norm = find_shared_norm(p, &best);
    if (p->shared_norm && strcmp(p->shared_norm->path, "norm_shared") != 0)
        return report_fail(
            r,
            "the blocks have no norm, so vit.h cannot run them. If all blocks share the model's "
            "only norm, %.300s, give --rename '%.300s.*=norm_shared.*'",
            p->shared_norm->path, p->shared_norm->path);
    if (best.is_complete || p->shared_norm) {
        mark(&best, 0);
        if (!check_alone(g, &best, r)) return false;
    } else if (best.blocks < 2 || !join_all_lists(p, g, best.blocks)) {
        take_single_block(p);
    }
    count_places(p);
    if (p->places == 0)
        return report_fail(r, "no group of tensors looks like the blocks of a transformer. A "
                              "block has a norm as wide as a token, and matrices that read and "
                              "write tokens of this width");
    return index_blocks(p, r);
}

bool structure_find_blocks(structure_parts *p, report *r) {
    group_search g = { NULL, 0, 0 };
    const bool good = find_groups(p, &g, r);
    free(g.entries);
    if (!good) return false;
    p->width = p->shared_norm ? p->shared_norm->rows : find_width(p);
    return p->width > 0 ||
           report_fail(r, "the width of a token is unknown, as no block has a norm");
}
