#define _POSIX_C_SOURCE 200809L

#include "layout/structure_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/names.h"

const char structure_by_name[] = "by its name";
const char structure_by_shape[] = "by its shape";

/* === Words === */

static bool starts_word(const char *text, const char *at)
{
    if (at == text) return true;
    if (isdigit((unsigned char)*at) != isdigit((unsigned char)at[-1])) return true;
    return isupper((unsigned char)*at) && !isupper((unsigned char)at[-1]);
}

void structure_read_words(structure_part *part, const char *text)
{
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

/* Do the words from i on begin with this text, in which '+' is between two of them? */
static bool has_words_at(const structure_part *part, int i, const char *text, size_t size)
{
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

bool structure_says(const structure_part *part, const char *words)
{
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

typedef struct leaf_name {
    const char *text;
    bool is_bias;
} leaf_name;

/* What the last component of a module's tensors is called. */
static const leaf_name leaf_names[] = {
    { "weight", false }, { "bias", true }, { "kernel", false }, { "gamma", false },
    { "beta", true }, { "alpha", false }, { "scale", false }, { "shift", true }, { "a_2", false },
    { "b_2", true }, { "g", false }, { "b", true }, { "w", false }, { "W", false }, { "B", true }
};

/* Length of the name without its leaf; the name's own if it has none of these. */
static size_t stem_length(const char *name, bool *is_bias)
{
    const size_t length = strlen(name);
    size_t i;
    for (i = 0; i < sizeof leaf_names / sizeof *leaf_names; i++) {
        const size_t leaf = strlen(leaf_names[i].text);
        const char before = length > leaf ? name[length - leaf - 1] : '\0';
        *is_bias = leaf_names[i].is_bias;
        if (length < leaf || strcmp(name + length - leaf, leaf_names[i].text) != 0) continue;
        if (before == '.' || before == '/' || (before == '_' && leaf > 3))
            return length - leaf - 1;
    }
    *is_bias = false;
    return length;
}

/* Number of dimensions without ones: in front of a parameter, after a convolution's channels. */
static int real_dims(const checkpoint_tensor_info *t, bool is_bare, int64_t dims[2])
{
    int first = 0, last = t->ndim;
    while (is_bare && first < t->ndim && t->dims[first] == 1) first++;
    while (last > first + (is_bare ? 1 : 2) && t->dims[last - 1] == 1) last--;
    dims[0] = first < last ? t->dims[first] : 1;
    dims[1] = first + 1 < last ? t->dims[first + 1] : 1;
    return last - first;
}

/* The kind by the shape of the weight. A bias as long as its second dimension shows that it is
 * [inputs, outputs]. */
static void find_kind(structure_part *part)
{
    const checkpoint_tensor_info *t = part->weight;
    int64_t dims[2];
    int ndim = real_dims(t, part->is_bare, dims);
    part->rows = dims[0];
    part->cols = dims[1];
    part->kind = PART_OTHER;
    if (!checkpoint_is_float(t->dtype) || t->count == 0) return;
    if (t->ndim == 2 && part->bias && part->bias->count == dims[1] && dims[0] != dims[1])
        part->is_bare = true;
    if (ndim <= 1) part->kind = part->bias && part->bias->count == part->rows ? PART_NORM
                                                                              : PART_VECTOR;
    else if (part->is_bare) part->kind = PART_TABLE;
    else if (ndim == 2 && part->bias && part->bias->ndim > 1) return;   /* a norm of [N, D] */
    else if (ndim == 2) part->kind = PART_MATRIX;
    else if (ndim == 4 && t->ndim == 4) part->kind = PART_CONV;
}

/* Parts by their path: indices + 1, 0 is free. */
typedef struct part_table {
    structure_parts *parts;
    int slots[4 * STRUCTURE_MAX_TENSORS];
} part_table;

/* Where a path is, or where it would be. */
static int *find_slot(part_table *table, const char *name, size_t length)
{
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

static structure_part *find_part(part_table *table, const char *name, size_t length)
{
    const int *slot = find_slot(table, name, length);
    return *slot ? &table->parts->parts[*slot - 1] : NULL;
}

static structure_part *add_part(part_table *table, const char *name, size_t length)
{
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

/* A new part, or a bias or weight for one that is there. */
static bool add_tensor(part_table *table, const checkpoint_tensor_info *t, report *r)
{
    bool is_bias;
    size_t length = stem_length(t->name, &is_bias);
    structure_part *part = find_part(table, t->name, length);
    const checkpoint_tensor_info **slot;
    if (part && (is_bias ? part->bias : part->weight)) {   /* say, alpha and gamma */
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

/* running_mean and running_var mark a batch norm. */
static void mark_batch_norms(part_table *table)
{
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

/* Words of a path that all share say nothing of a part. */
static void read_all_words(structure_parts *p)
{
    const size_t shared = p->ordered ? 0 : layout_common_path(p->checkpoint);
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        part->inner = part->path + (shared < part->path_size ? shared : 0);
        structure_read_words(part, part->inner);
    }
}

/* === What plays no part === */

/* A mask that is the same everywhere masks nothing. */
static bool is_constant(checkpoint *c, const checkpoint_tensor_info *t, bool *constant, report *r)
{
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

static bool drop_parts(structure_parts *p, const text_list *ignore, report *r)
{
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        const checkpoint_dtype dtype = part->weight->dtype;
        if (names_match(ignore, part->weight->name)) {
            part->is_dropped = true;
            part->reason = "by --ignore";
        } else if (dtype == CHECKPOINT_BOOL) {
            if (!is_constant(p->checkpoint, part->weight, &part->is_dropped, r)) return false;
            part->reason = "of a mask that masks nothing";
        } else if (!checkpoint_is_float(dtype)) {
            part->is_dropped = true;
            part->reason = "of whole numbers";
        }
    }
    return true;
}

/* === All of it === */

static bool fill_parts(part_table *table, checkpoint *c, report *r)
{
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
        if (!part->weight) {   /* a bias by itself is a vector, whatever it is called */
            part->weight = part->bias;
            part->bias = NULL;
            part->is_bare = true;
        }
        find_kind(part);
    }
    return true;
}

bool structure_make_parts(checkpoint *c, const text_list *ignore, structure_parts *p, report *r)
{
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

void structure_free_parts(structure_parts *p)
{
    int i;
    for (i = 0; i < p->count; i++) free(p->parts[i].path);
    free(p->parts);
    free(p->in_blocks);
    free(p->ordered);
    free(p->ordered_names);
}

const char *structure_shown(const structure_parts *p, const structure_part *part)
{
    return p->ordered ? part->weight->stored_name : part->path;
}

structure_part *structure_at(const structure_parts *p, int block, int place)
{
    return p->in_blocks[block * p->places + place];
}

structure_part *structure_with_role(const structure_parts *p, int block, const char *role)
{
    const int count = block < 0 ? p->count : p->places;
    int i;
    for (i = 0; i < count; i++) {
        structure_part *part = block < 0 ? &p->parts[i] : structure_at(p, block, i);
        if (part->block == block && part->role && !strcmp(part->role, role)) return part;
    }
    return NULL;
}

void structure_name(structure_part *part, const char *role, const char *reason)
{
    if (part->role) return;
    part->role = role;
    part->reason = reason;
}

void structure_note_add(structure *s, const char *what, const char *why, const char *option)
{
    structure_note *note = &s->notes[s->note_count];
    if (s->note_count == STRUCTURE_MAX_NOTES) return;
    s->note_count++;
    snprintf(note->what, sizeof note->what, "%s", what);
    snprintf(note->why, sizeof note->why, "%s", why);
    snprintf(note->option, sizeof note->option, "%s", option);
}

int structure_last_number(const structure_part *part)
{
    int i;
    for (i = part->word_count - 1; i >= 0; i--)
        if (isdigit((unsigned char)part->words[i][0])) return atoi(part->words[i]);
    return -1;
}

/* "layers.*.b": what a --rename of all blocks calls it. */
static void put_pattern(const structure_part *part, char *text, size_t size)
{
    const size_t inner = (size_t)(part->inner - part->path);
    size_t before = inner;
    while (before > 0 && isdigit((unsigned char)part->path[before - 1])) before--;
    if (before < inner) snprintf(text, size, "%.*s*%s", (int)before, part->path, part->inner);
    else snprintf(text, size, "%s", part->path);
}

bool structure_order_tells(structure_parts *p, structure_part *const *parts, int count,
                           const char *roles)
{
    enum { ROOM = 1200 };   /* for what comes after the list */
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
    text_append(p->unsure, sizeof p->unsure, " do not tell which is which of %s, and the tensors "
                "of this file are sorted by name; give --rename '%s.*=NEW.*' for each, where NEW "
                "is a telling name such as 'layers.*.attn.query'", roles, pattern);
    return false;
}
