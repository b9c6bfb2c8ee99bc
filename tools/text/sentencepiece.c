/* sentencepiece.c - reads SentencePiece's .model files. These files are messages of Protocol
 * Buffers, which are read here without a library. */
#include <stdlib.h>
#include <string.h>

#include "text/token_plan.h"

/* === Protocol Buffers === */

/* A field of a message. */
typedef struct field {
    uint32_t number, wire;
    uint64_t value;      /* the value of a field of wire type 0, 1 or 5 */
    const uint8_t *data; /* the bytes of a field of wire type 2 */
    size_t size;
} field;

/* The bytes of a message that are not read yet. */
typedef struct message {
    const uint8_t *at, *end;
} message;

static bool take_varint(message *m, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const uint8_t byte = *m->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

/* Reads the next field. Returns 1 if there is a field, 0 at the end, and -1 if the file is
 * damaged. */
static int take_field(message *m, field *f) {
    uint64_t key;
    if (m->at == m->end) return 0;
    if (!take_varint(m, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff) return -1;
    f->number = (uint32_t)(key >> 3);
    f->wire = (uint32_t)(key & 7);
    f->data = NULL;
    f->size = 0;
    if (f->wire == 0) return take_varint(m, &f->value) ? 1 : -1;
    if (f->wire == 2) {
        if (!take_varint(m, &f->value) || f->value > (uint64_t)(m->end - m->at)) return -1;
        f->data = m->at;
        f->size = (size_t)f->value;
    } else if (f->wire == 5 || f->wire == 1) {
        f->size = f->wire == 5 ? 4 : 8;
        if ((size_t)(m->end - m->at) < f->size) return -1;
        f->value = f->wire == 5 ? bytes_load32(m->at) : bytes_load64(m->at);
    } else return -1;
    m->at += f->size;
    return 1;
}

static message message_of(const field *f) {
    message m;
    m.at = f->data;
    m.end = f->data + f->size;
    return m;
}

/* === The precompiled map of characters ===
 * The map is a trie that Darts stores as a double array. A leaf of the trie has the offset of the
 * replacement, which ends with a NUL. */

/* Several keys may share nodes at their ends, so a node may be visited several times. */
enum { MAX_KEY = 64, MAX_VISITS = 1000000 };

/* The state of reading a map of characters. `key` holds the bytes that lead to the current node. */
typedef struct charsmap {
    const uint8_t *units;
    size_t num_units, visited;
    const uint8_t *texts;
    size_t texts_size;
    char key[MAX_KEY];
    const tplan_table *fixed; /* the keys that must stay unchanged, in sorted order */
} charsmap;

static uint32_t unit_at(const charsmap *c, size_t i) { return bytes_load32(c->units + 4 * i); }

static size_t unit_offset(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6); }

/* True if the first `size` bytes of the key begin with one of the fixed keys. SentencePiece looks
 * for fixed keys first, so it never uses such a key. */
static bool is_hidden(const charsmap *c, size_t size) {
    for (size_t n = 1; n <= size; n++)
        if (tplan_find(c->fixed, c->key, n)) return true;
    return false;
}

/* Adds the keys whose first `depth` bytes lead to this node. False if the array is damaged. */
static bool walk(tplan *p, charsmap *c, size_t node, size_t depth, tplan_table *map) {
    const size_t base = node ^ unit_offset(unit_at(c, node));
    if (c->visited++ == MAX_VISITS) return false;
    if (unit_at(c, node) >> 8 & 1) {
        const uint8_t *text;
        size_t at, size = 0;
        if (base >= c->num_units || depth == 0) return false;
        at = unit_at(c, base) & 0x7fffffff;
        if (at >= c->texts_size) return false;
        text = c->texts + at;
        while (at + size < c->texts_size && text[size]) size++;
        if (at + size == c->texts_size) return false;
        if (!is_hidden(c, depth)) tplan_add_pair(p, map, c->key, depth, (const char *)text, size);
    }
    for (uint32_t byte = 1; byte < 256; byte++) {
        const size_t child = base ^ byte;
        if (child >= c->num_units || (unit_at(c, child) & 0x800000ffu) != byte) continue;
        if (depth == MAX_KEY) return false;
        c->key[depth] = (char)byte;
        if (!walk(p, c, child, depth + 1, map)) return false;
    }
    return true;
}

bool spiece_charsmap(tplan *p, const uint8_t *data, size_t size, const tplan_table *fixed,
                     tplan_table *map, report *r) {
    charsmap c = { 0 };
    const size_t units = size >= 4 ? bytes_load32(data) : 0;
    if (size < 4 || units < 4 || units % 4 || units > size - 4)
        return report_fail(r,
                           "the precompiled_charsmap has %zu bytes, but gives %zu bytes as the "
                           "size of its trie",
                           size, units);
    c.units = data + 4;
    c.num_units = units / 4;
    c.texts = data + 4 + units;
    c.texts_size = size - 4 - units;
    c.fixed = fixed;
    return walk(p, &c, 0, 0, map) ||
           report_fail(r, "the trie of the precompiled_charsmap is damaged");
}

/* === The model === */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE, NUM_TYPES };

/* A piece of the vocabulary. */
typedef struct piece {
    const char *text;
    size_t size;
    float score;
    uint32_t type;
} piece;

/* The values that are read from a .model file. */
typedef struct model {
    piece *pieces;
    size_t count, capacity;
    uint32_t type; /* 1 means unigram, and 2 means BPE */
    bool byte_fallback, suffix, dummy_prefix, remove_extra, escape;
    field charsmap;
    int begin, end, pad;
} model;

static bool read_piece(model *m, const field *from, report *r) {
    message at = message_of(from);
    piece *pieces = memory_grow(m->pieces, sizeof *pieces, m->count, &m->capacity), *one;
    field f;
    int more;
    if (!pieces) return report_no_memory(r);
    m->pieces = pieces;
    one = &pieces[m->count++];
    memset(one, 0, sizeof *one);
    one->type = NORMAL;
    while ((more = take_field(&at, &f)) > 0) {
        if (f.number == 1 && f.wire == 2) {
            one->text = (const char *)f.data;
            one->size = f.size;
        } else if (f.number == 2 && f.wire == 5) {
            one->score = bytes_float((uint32_t)f.value);
        } else if (f.number == 3 && f.wire == 0) {
            one->type = f.value < NUM_TYPES ? (uint32_t)f.value : 0;
        }
    }
    if (more < 0) return report_fail(r, "piece %zu is damaged", m->count - 1);
    if (one->type == 0) return report_fail(r, "piece %zu has an unknown type", m->count - 1);
    if (one->size == 0 || one->size > TPLAN_MAX_PIECE)
        return report_fail(r, "piece %zu has %zu bytes, expected 1 to %d", m->count - 1, one->size,
                           TPLAN_MAX_PIECE);
    return true;
}

static bool read_trainer(model *m, const field *from, report *r) {
    message at = message_of(from);
    field f;
    int more;
    while ((more = take_field(&at, &f)) > 0) {
        if (f.wire != 0) continue;
        if (f.number == 3) m->type = (uint32_t)(f.value < 100 ? f.value : 100);
        if (f.number == 24) m->suffix = f.value != 0;
        if (f.number == 35) m->byte_fallback = f.value != 0;
        if (f.number == 41) m->begin = (int)(int64_t)f.value;
        if (f.number == 42) m->end = (int)(int64_t)f.value;
        if (f.number == 43) m->pad = (int)(int64_t)f.value;
    }
    return more == 0 || report_fail(r, "the trainer_spec is damaged");
}

static bool read_normalizer(model *m, const field *from, report *r) {
    message at = message_of(from);
    field f;
    int more;
    while ((more = take_field(&at, &f)) > 0) {
        if (f.number == 2 && f.wire == 2) m->charsmap = f;
        if (f.wire != 0) continue;
        if (f.number == 3) m->dummy_prefix = f.value != 0;
        if (f.number == 4) m->remove_extra = f.value != 0;
        if (f.number == 5) m->escape = f.value != 0;
    }
    return more == 0 || report_fail(r, "the normalizer_spec is damaged");
}

static bool read_model(model *m, message at, report *r) {
    field f;
    int more;
    m->type = 1;
    m->dummy_prefix = m->remove_extra = m->escape = true;
    m->begin = 1;
    m->end = 2;
    m->pad = -1;
    while ((more = take_field(&at, &f)) > 0) {
        if (f.wire != 2) continue;
        if (f.number == 1 && !read_piece(m, &f, r)) return false;
        if (f.number == 2 && !read_trainer(m, &f, r)) return false;
        if (f.number == 3 && !read_normalizer(m, &f, r)) return false;
    }
    if (more < 0 || m->count == 0) return report_fail(r, "is not a SentencePiece model");
    if (m->type != 1 && m->type != 2)
        return report_fail(r, "model_type is %u, expected 1 (unigram) or 2 (BPE)", m->type);
    if (m->suffix) return report_fail(r, "treat_whitespace_as_suffix is not supported");
    if (m->count > 0x1000000) return report_fail(r, "has more than 16777216 pieces");
    return true;
}

/* Orders scores from the highest to the lowest. */
static int compare_scores(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Adds the merges of BPE, with ranks that follow from the scores of the pieces. Equal scores have
 * the same rank, and the highest score has rank 0. Any two halves of a piece can be merged to this
 * piece. */
static bool add_ranks(tplan *p, const model *m, report *r) {
    float *scores = malloc(m->count * sizeof *scores);
    size_t count = 0, kept = 0;
    if (!scores) return report_no_memory(r);
    for (size_t i = 0; i < m->count; i++) scores[count++] = m->pieces[i].score;
    qsort(scores, count, sizeof *scores, compare_scores);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || scores[kept - 1] > scores[i]) scores[kept++] = scores[i];
    for (size_t i = 0; i < m->count; i++) {
        const piece *one = &m->pieces[i];
        const float *found;
        if (one->type != NORMAL && one->type != USER_DEFINED) continue;
        found = bsearch(&one->score, scores, kept, sizeof *scores, compare_scores);
        if (found) tplan_add(p, &p->merges, one->text, one->size, (uint32_t)(found - scores), 0);
    }
    free(scores);
    return true;
}

static bool byte_of_piece(const piece *one, int *byte) {
    char text[8], *end;
    if (one->size != 6 || memcmp(one->text, "<0x", 3) != 0 || one->text[5] != '>') return false;
    memcpy(text, one->text + 3, 2);
    text[2] = '\0';
    *byte = (int)strtol(text, &end, 16);
    return end == text + 2;
}

static bool add_pieces(tplan *p, const model *m, report *r) {
    float lowest = 0.0f, highest = 0.0f;
    bool any = false;
    int bytes = 0, byte;
    for (size_t i = 0; i < m->count; i++) {
        const piece *one = &m->pieces[i];
        if (!(one->score >= -1e30f && one->score <= 1e30f))
            return report_fail(r, "the score of piece %zu is not finite", i);
        if (one->type != NORMAL) continue;
        if (!any || one->score < lowest) lowest = one->score;
        if (!any || one->score > highest) highest = one->score;
        any = true;
    }
    for (size_t i = 0; i < m->count; i++) {
        const piece *one = &m->pieces[i];
        float score = one->score;
        uint32_t bits;
        if (one->type == UNKNOWN) p->unknown = (int)i;
        if (one->type == UNUSED && m->type == 2)
            return report_fail(r, "piece %zu is UNUSED, which is not supported for BPE", i);
        if (one->type == BYTE) {
            if (!byte_of_piece(one, &byte))
                return report_fail(
                    r, "piece %zu has the type BYTE, but its text is not <0x00> to <0xFF>", i);
            p->byte_ids[byte] = (uint32_t)i;
            bytes++;
        }
        if (one->type == USER_DEFINED && m->type == 2)
            tplan_add(p, &p->cleaned, one->text, one->size, (uint32_t)i, 0);
        if (one->type != NORMAL && one->type != USER_DEFINED) continue;
        if (one->type == USER_DEFINED) score = (float)((double)((float)one->size * highest) - 0.1);
        memcpy(&bits, &score, 4);
        tplan_add(p, &p->pieces, one->text, one->size, m->type == 1 ? bits : 0, (uint32_t)i);
    }
    if (p->unknown < 0) return report_fail(r, "has no piece of type UNKNOWN");
    if (m->byte_fallback && bytes != 256)
        return report_fail(r, "has %d pieces for bytes, expected 256", bytes);
    p->has_bytes = m->byte_fallback;
    p->lowest_score = lowest;
    return m->type == 1 || add_ranks(p, m, r);
}

/* Adds the steps of SentencePiece's normaliser. These steps leave user-defined symbols
 * unchanged. */
static bool add_steps(tplan *p, const model *m, bool dummy_prefix, bool at_begin, report *r) {
    tplan_table fixed = { 0 }, map = { 0 };
    bool good = true;
    for (size_t i = 0; i < m->count; i++)
        if (m->pieces[i].type == USER_DEFINED)
            tplan_add_pair(p, &fixed, m->pieces[i].text, m->pieces[i].size, m->pieces[i].text,
                           m->pieces[i].size);
    tplan_sort(&fixed);
    if (m->charsmap.size) {
        good = spiece_charsmap(p, m->charsmap.data, m->charsmap.size, &fixed, &map, r);
        for (size_t i = 0; i < fixed.count; i++)
            tplan_add_pair(p, &map, fixed.items[i].key, fixed.items[i].key_size,
                           fixed.items[i].value, fixed.items[i].value_size);
        tplan_step_map(p, &p->steps, &map);
    }
    if (m->remove_extra)
        tplan_step_collapse_spaces(p, &p->steps,
                                   TPLAN_TRIM_END | (at_begin ? TPLAN_TRIM_BEGIN : 0));
    if (dummy_prefix) tplan_step_prepend(p, &p->steps, m->escape ? "\xe2\x96\x81" : " ", false);
    if (m->escape) tplan_step_replace(p, &p->steps, " ", "\xe2\x96\x81");
    if (m->escape && m->remove_extra) tplan_step_trim_end(p, &p->steps, 0x2581);
    tplan_free_table(&fixed);
    tplan_free_table(&map);
    return good;
}

/* Returns the score of the prefix that SiglipTokenizer adds. SentencePiece adds the scores of the
 * text to this score. The rounding of the sum depends on this order, so vit.h starts with the same
 * score. */
static float score_prefix(tplan *p, const char *prefix) {
    float best[16] = { 0 };
    bool reached[16] = { true };
    const size_t n = strlen(prefix);
    tplan_sort(&p->pieces);
    for (size_t i = 0, length; i < n; i += length) {
        bool single = false;
        length = text_utf8_length(prefix + i, n - i);
        for (size_t size = 1; i + size <= n; size++) {
            const tplan_entry *found = tplan_find(&p->pieces, prefix + i, size);
            double sum;
            if (!found) continue;
            sum = (double)best[i] + (double)bytes_float(found->number);
            if (!reached[i + size] || sum > (double)best[i + size]) best[i + size] = (float)sum;
            reached[i + size] = true;
            single = single || size == length;
        }
        if (!single &&
            (!reached[i + length] || best[i] + (p->lowest_score - 10.0f) > best[i + length])) {
            best[i + length] = best[i] + (p->lowest_score - 10.0f);
            reached[i + length] = true;
        }
    }
    return best[n];
}

bool spiece_read(tplan *p, const char *path, bool siglip, report *r) {
    model m = { 0 };
    message all;
    char *data;
    size_t size;
    bool good;
    if (!read_text(path, &data, &size, r)) return false;
    all.at = (const uint8_t *)data;
    all.end = all.at + size;
    good = read_model(&m, all, r) && add_pieces(p, &m, r) &&
           add_steps(p, &m, m.dummy_prefix && !siglip, !siglip, r);
    if (good) {
        p->algorithm = m.type == 1 ? TPLAN_UNIGRAM : TPLAN_BPE_CHARS;
        p->flags = TPLAN_FUSES;
        if (siglip && m.type == 1) p->first_score = score_prefix(p, "\xe2\x96\x81<unk>");
        p->num_ids = (int)m.count;
        p->begin = m.begin >= 0 && (size_t)m.begin < m.count ? m.begin : TPLAN_NONE;
        p->end = m.end >= 0 && (size_t)m.end < m.count ? m.end : TPLAN_NONE;
        p->pad = m.pad >= 0 && (size_t)m.pad < m.count ? m.pad : TPLAN_NONE;
        /* transformers adds these pieces to the tokenizer as AddedTokens */
        for (size_t i = 0; i < m.count; i++)
            if (m.pieces[i].type == CONTROL || m.pieces[i].type == UNKNOWN)
                tplan_add(p, &p->raw, m.pieces[i].text, m.pieces[i].size, (uint32_t)i, 0);
    }
    free(m.pieces);
    free(data);
    return good || report_file(r, path);
}
