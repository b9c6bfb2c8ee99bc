/* tokenizer_json.c - reads tokenizer.json of Hugging Face's tokenizers. Any part of the file can
 * change the ids. So a part that this reader does not handle is refused, and the message names the
 * part. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "text/token_plan.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */

/* The state of reading a tokenizer.json. */
typedef struct reader {
    tplan *p;
    report *r;
    const json_value *vocab;
    bool bytes;         /* true if the pre-tokenizer turns the text into bytes */
    bool spaces_go;     /* true if a normalizer replaces every U+0020 */
    const char *suffix; /* the suffix of the last piece of a word */
} reader;

static const char *text_of(const json_value *object, const char *key) {
    return json_string(json_get(object, key), "");
}

static bool is_type(const json_value *object, const char *type) {
    return strcmp(text_of(object, "type"), type) == 0;
}

static bool is_null(const json_value *value) { return !value || value->kind == JSON_NULL; }

static bool refuse(reader *d, const char *part, const json_value *object) {
    return report_fail(d->r, "the %s '%s' is not supported", part, text_of(object, "type"));
}

/* Returns the id of a piece or an added token; TPLAN_NONE if it has no id. */
static int id_of(const reader *d, const char *token, const json_value *tokens) {
    for (const json_value *t = json_first(tokens); t; t = t->next)
        if (strcmp(text_of(t, "content"), token) == 0)
            return (int)json_integer(json_get(t, "id"), TPLAN_NONE);
    return (int)json_integer(json_get(d->vocab, token), TPLAN_NONE);
}

/* === Normalizers === */

static bool read_replace(reader *d, const json_value *n) {
    const char *string = json_string(json_get(json_get(n, "pattern"), "String"), NULL);
    const char *regex = json_string(json_get(json_get(n, "pattern"), "Regex"), NULL);
    const char *content = text_of(n, "content");
    if (string && *string) {
        tplan_step_replace(d->p, &d->p->steps, string, content);
        if (strcmp(string, " ") == 0 && !strchr(content, ' ')) d->spaces_go = true;
        return true;
    }
    if (regex && strcmp(regex, "\\s+") == 0 && strcmp(content, " ") == 0) {
        tplan_step_collapse(d->p, &d->p->steps, TPLAN_WHITE_SPACE, 0);
        return true;
    }
    return report_fail(d->r, "the normalizer Replace with the pattern '%s' is not supported",
                       regex ? regex : "");
}

static bool read_normalizer(reader *d, const json_value *n, int depth) {
    tplan *p = d->p;
    if (is_null(n)) return true;
    if (is_type(n, "Sequence") && depth < 4) {
        for (n = json_first(json_get(n, "normalizers")); n; n = n->next)
            if (!read_normalizer(d, n, depth + 1)) return false;
        return true;
    }
    if (is_type(n, "NFC") || is_type(n, "NFD")) {
        tplan_step_compose(p, &p->steps, is_type(n, "NFC"));
        return true;
    }
    if (is_type(n, "Lowercase")) {
        tplan_step_lower(p, &p->steps);
        return true;
    }
    if (is_type(n, "Prepend")) {
        tplan_step_prepend(p, &p->steps, text_of(n, "prepend"), false);
        return true;
    }
    if (is_type(n, "Replace")) return read_replace(d, n);
    if (is_type(n, "Precompiled"))
        return report_fail(d->r, "the normalizer 'Precompiled' requires spiece.model or "
                                 "tokenizer.model in the same folder");
    return refuse(d, "normalizer", n);
}

/* === Pre-tokenizers === */

/* True if the regular expression is CLIP's, with or without CLIP's tokens. */
static bool is_clip_pattern(const char *regex) {
    static const char *const patterns[] = {
        "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+",
        "<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|"
        "[^\\s\\p{L}\\p{N}]+",
    };
    return strcmp(regex, patterns[0]) == 0 || strcmp(regex, patterns[1]) == 0;
}

static bool read_split(reader *d, const json_value *n) {
    const char *string = json_string(json_get(json_get(n, "pattern"), "String"), NULL);
    const char *regex = text_of(json_get(n, "pattern"), "Regex");
    /* a normalizer has replaced every space, so there is nothing to split */
    if (string && strcmp(string, " ") == 0 && d->spaces_go) return true;
    if (is_clip_pattern(regex) && strcmp(text_of(n, "behavior"), "Removed") == 0 &&
        json_bool(json_get(n, "invert"), false)) {
        d->p->split = TPLAN_SPLIT_CLASSES;
        clip_add_words(d->p, false);
        return true;
    }
    return report_fail(d->r, "the pre_tokenizer Split with the pattern '%s' is not supported",
                       string ? string : regex);
}

static bool read_metaspace(reader *d, const json_value *n) {
    const char *scheme = json_string(json_get(n, "prepend_scheme"),
                                     json_bool(json_get(n, "add_prefix_space"), true) ? "always"
                                                                                      : "never");
    if (strcmp(text_of(n, "replacement"), SPACE_MARK) != 0)
        return report_fail(d->r, "the replacement of Metaspace is '%s', expected U+2581",
                           text_of(n, "replacement"));
    tplan_step_replace(d->p, &d->p->steps, " ", SPACE_MARK);
    if (strcmp(scheme, "always") == 0) tplan_step_prepend(d->p, &d->p->steps, SPACE_MARK, true);
    else if (strcmp(scheme, "never") != 0)
        return report_fail(d->r, "the prepend_scheme '%s' is not supported", scheme);
    if (json_bool(json_get(n, "split"), true)) d->p->split = TPLAN_SPLIT_SPACE;
    return true;
}

static bool read_pre_tokenizer(reader *d, const json_value *n, int depth) {
    if (is_null(n)) return true;
    if (is_type(n, "Sequence") && depth < 4) {
        for (n = json_first(json_get(n, "pretokenizers")); n; n = n->next)
            if (!read_pre_tokenizer(d, n, depth + 1)) return false;
        return true;
    }
    if (is_type(n, "Split")) return read_split(d, n);
    if (is_type(n, "Metaspace")) return read_metaspace(d, n);
    if (is_type(n, "WhitespaceSplit")) {
        tplan_step_collapse(d->p, &d->p->steps, TPLAN_WHITE_SPACE,
                            TPLAN_TRIM_BEGIN | TPLAN_TRIM_END);
        return true;
    }
    if (is_type(n, "ByteLevel")) {
        if (json_bool(json_get(n, "add_prefix_space"), true))
            return report_fail(d->r, "the pre_tokenizer ByteLevel with add_prefix_space is not "
                                     "supported");
        d->bytes = true;
        return d->p->split == TPLAN_SPLIT_CLASSES ||
               report_fail(d->r,
                           "the pre_tokenizer ByteLevel without CLIP's Split is not supported");
    }
    return refuse(d, "pre_tokenizer", n);
}

/* === Begin and end === */

static bool read_template(reader *d, const json_value *n, const json_value *tokens) {
    bool after = false;
    for (const json_value *item = json_first(json_get(n, "single")); item; item = item->next) {
        const json_value *special = json_get(item, "SpecialToken");
        const char *name = text_of(special, "id");
        const json_value *ids = json_get(json_get(json_get(n, "special_tokens"), name), "ids");
        int *to = after ? &d->p->end : &d->p->begin;
        if (!special) {
            after = true;
            continue;
        }
        if (*to != TPLAN_NONE || (ids && ids->count != 1))
            return report_fail(d->r,
                               "the post_processor adds more than one id at one end of a text");
        *to = (int)json_integer(json_at(ids, 0), id_of(d, name, tokens));
        if (*to < 0) return report_fail(d->r, "the token '%s' has no id", name);
    }
    return after || report_fail(d->r, "the post_processor has no text");
}

static bool read_post_processor(reader *d, const json_value *n, const json_value *tokens,
                                int depth) {
    if (is_null(n) || is_type(n, "ByteLevel")) return true;
    if (is_type(n, "Sequence") && depth < 4) {
        for (n = json_first(json_get(n, "processors")); n; n = n->next)
            if (!read_post_processor(d, n, tokens, depth + 1)) return false;
        return true;
    }
    if (is_type(n, "TemplateProcessing")) return read_template(d, n, tokens);
    if (is_type(n, "RobertaProcessing") || is_type(n, "BertProcessing")) {
        d->p->begin = (int)json_integer(json_at(json_get(n, "cls"), 1), TPLAN_NONE);
        d->p->end = (int)json_integer(json_at(json_get(n, "sep"), 1), TPLAN_NONE);
        return (d->p->begin >= 0 && d->p->end >= 0) ||
               report_fail(d->r, "the post_processor has no ids");
    }
    return refuse(d, "post_processor", n);
}

/* === Added tokens === */

/* True if no step of cleaning can change this text. The text of a normalized token must be found in
 * the cleaned text. */
static bool is_clean(const char *text) {
    for (; *text; text++)
        if (*text <= ' ' || *text > '~' || (*text >= 'A' && *text <= 'Z')) return false;
    return true;
}

static bool read_tokens(reader *d, const json_value *tokens) {
    for (const json_value *t = json_first(tokens); t; t = t->next) {
        const char *text = text_of(t, "content");
        const bool normalized = json_bool(json_get(t, "normalized"), false);
        const int64_t id = json_integer(json_get(t, "id"), -1);
        if (!*text || id < 0 || id >= 0x1000000)
            return report_fail(d->r, "the added token '%s' has no text or no id", text);
        if (json_bool(json_get(t, "single_word"), false) ||
            json_bool(json_get(t, "lstrip"), false) || json_bool(json_get(t, "rstrip"), false))
            return report_fail(d->r,
                               "the added token '%s' sets single_word, lstrip or rstrip, which is "
                               "not supported",
                               text);
        if (normalized && d->p->steps.count > 0 && !is_clean(text))
            return report_fail(d->r,
                               "the added token '%s' sets normalized, which is supported only for "
                               "tokens of printable ASCII without capitals and spaces",
                               text);
        if (id >= d->p->num_ids) d->p->num_ids = (int)id + 1;
        tplan_add(d->p, normalized ? &d->p->cleaned : &d->p->raw, text, strlen(text), (uint32_t)id,
                  0);
    }
    return true;
}

/* === Models === */

static bool read_piece(reader *d, const char *text, int64_t id, uint32_t score) {
    const size_t size = strlen(text);
    if (id < 0 || id >= 0x1000000)
        return report_fail(d->r, "the piece '%s' has no id in 0 to 16777215", text);
    if (id >= d->p->num_ids) d->p->num_ids = (int)id + 1;
    if (size == 0) return true; /* an empty piece occurs in no text */
    if (d->bytes) {
        /* A token with a character that stands for no byte is left out, because no merge makes
         * it. */
        if (!clip_add_piece(d->p, text, size, d->suffix, (uint32_t)id) && size > TPLAN_MAX_PIECE)
            return report_fail(d->r, "the piece '%s' has more than %d bytes", text,
                               TPLAN_MAX_PIECE);
        return true;
    }
    if (size == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>') {
        char *end;
        const long byte = strtol(text + 3, &end, 16);
        if (end == text + 5 && byte >= 0) d->p->byte_ids[byte] = (uint32_t)id;
    }
    tplan_add(d->p, &d->p->pieces, text, size, score, (uint32_t)id);
    return true;
}

static bool read_merge(reader *d, const json_value *merge, uint32_t rank) {
    const char *pair = json_string(merge, NULL), *space = pair ? strchr(pair, ' ') : NULL;
    const char *left = pair ? pair : json_string(json_at(merge, 0), ""),
               *right = space ? space + 1 : json_string(json_at(merge, 1), "");
    const size_t left_size = space ? (size_t)(space - pair) : strlen(left),
                 right_size = strlen(right);
    char text[2 * TPLAN_MAX_PIECE];
    if (left_size == 0 || right_size == 0 || left_size + right_size > TPLAN_MAX_PIECE ||
        (space && strchr(right, ' ')))
        return report_fail(d->r, "merge %u does not consist of two pieces", rank);
    if (d->bytes) {
        return clip_add_merge(d->p, left, left_size, right, right_size, d->suffix, rank) ||
               report_fail(d->r, "merge %u is not written in GPT-2's characters for bytes", rank);
    }
    memcpy(text, left, left_size);
    memcpy(text + left_size, right, right_size);
    tplan_add(d->p, &d->p->merges, text, left_size + right_size, rank, (uint32_t)left_size);
    return true;
}

static bool read_bpe(reader *d, const json_value *model, const json_value *tokens) {
    uint32_t rank = 0;
    if (!is_null(json_get(model, "dropout")) ||
        json_bool(json_get(model, "ignore_merges"), false) ||
        *text_of(model, "continuing_subword_prefix"))
        return report_fail(d->r, "a BPE model with dropout, ignore_merges or "
                                 "continuing_subword_prefix is not supported");
    d->suffix = text_of(model, "end_of_word_suffix");
    if (d->bytes != (*d->suffix != '\0'))
        return report_fail(d->r, "a BPE model must have both ByteLevel and an end_of_word_suffix, "
                                 "or neither");
    d->p->algorithm = d->bytes ? TPLAN_BPE_BYTES : TPLAN_BPE_CHARS;
    if (json_bool(json_get(model, "fuse_unk"), false)) d->p->flags |= TPLAN_FUSES;
    if (!is_null(json_get(model, "unk_token")))
        d->p->unknown = id_of(d, text_of(model, "unk_token"), tokens);
    if (d->vocab->kind != JSON_OBJECT)
        return report_fail(d->r,
                           "the vocab of the BPE model is a list, expected an object of pieces "
                           "and ids");
    for (const json_value *v = json_first(d->vocab); v; v = v->next)
        if (!read_piece(d, v->key, v->integral ? json_integer(v, -1) : -1, 0)) return false;
    for (const json_value *m = json_first(json_get(model, "merges")); m; m = m->next)
        if (!read_merge(d, m, rank++)) return false;
    return true;
}

static bool read_unigram(reader *d, const json_value *model) {
    float lowest = 0.0f;
    int64_t id = 0;
    d->p->algorithm = TPLAN_UNIGRAM;
    d->p->flags = TPLAN_FUSES | TPLAN_DOUBLE;
    d->p->unknown = (int)json_integer(json_get(model, "unk_id"), TPLAN_NONE);
    for (const json_value *v = json_first(d->vocab); v; v = v->next, id++) {
        const double number = json_number(json_at(v, 1), 1e9);
        const float score = (float)number;
        uint32_t bits;
        if (!(number > -1e9 && number < 1e9) || (double)score != number)
            return report_fail(d->r, "the score of piece %lld is %.17g, expected a 32-bit float",
                               (long long)id, number);
        if (id == 0 || score < lowest) lowest = score;
        memcpy(&bits, &score, 4);
        if (!read_piece(d, json_string(json_at(v, 0), ""), id, bits)) return false;
    }
    d->p->lowest_score = lowest;
    return true;
}

static bool read_model(reader *d, const json_value *root) {
    const json_value *model = json_get(root, "model"), *tokens = json_get(root, "added_tokens");
    int bytes = 0;
    d->vocab = json_get(model, "vocab");
    if (json_first(d->vocab) == NULL) return report_fail(d->r, "the model has no vocab");
    memset(d->p->byte_ids, 255, sizeof d->p->byte_ids);
    if (is_type(model, "Unigram") ? !read_unigram(d, model)
                                  : !is_type(model, "BPE") || !read_bpe(d, model, tokens)) {
        return d->r->failed ? false : refuse(d, "model", model);
    }
    for (int i = 0; i < 256; i++) bytes += d->p->byte_ids[i] != UINT32_MAX;
    d->p->has_bytes = json_bool(json_get(model, "byte_fallback"), false);
    if (d->p->has_bytes && bytes != 256)
        return report_fail(d->r, "has %d pieces for bytes, expected 256", bytes);
    return read_tokens(d, tokens) &&
           read_post_processor(d, json_get(root, "post_processor"), tokens, 0);
}

/* Sets the token at one end of a text. `said` is add_bos_token or add_eos_token of transformers: 1
 * adds the token `name`, 0 adds no token, and -1 means that the option is not set. Only the classes
 * in set_ends need these options, because their tokenizer.json adds no such tokens. */
static bool set_end(const reader *d, int said, const char *name, const json_value *tokens,
                    int *id) {
    if (said == 0) *id = TPLAN_NONE;
    if (said != 1) return true;
    *id = id_of(d, name, tokens);
    return *id >= 0 || report_fail(d->r, "lacks the token '%s', which begins or ends a text", name);
}

static bool set_ends(const reader *d, const text_facts *f, const json_value *tokens) {
    static const char *const classes[] = { "Gemma", "Llama", "Siglip2" };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strncmp(f->class_name, classes[i], strlen(classes[i])) == 0)
            return set_end(d, f->add_begin, f->begin, tokens, &d->p->begin) &&
                   set_end(d, f->add_end, f->end, tokens, &d->p->end);
    return true;
}

bool json_tokenizer_read(tplan *p, const char *path, const text_facts *facts, bool *precompiled,
                         report *r) {
    json_document document;
    reader d = { 0 };
    const json_value *root, *fixed;
    char *text;
    size_t size;
    bool good;
    *precompiled = false;
    if (!read_text(path, &text, &size, r)) return false;
    if (!json_parse(&document, text, size, false, 0, r)) {
        free(text);
        return report_file(r, path);
    }
    d.p = p;
    d.r = r;
    d.suffix = "";
    root = document.root;
    if (is_type(json_get(root, "normalizer"), "Precompiled")) *precompiled = true;
    for (const json_value *n = json_first(json_get(json_get(root, "normalizer"), "normalizers")); n;
         n = n->next)
        if (is_type(n, "Precompiled")) *precompiled = true;
    good = read_normalizer(&d, json_get(root, "normalizer"), 0) &&
           read_pre_tokenizer(&d, json_get(root, "pre_tokenizer"), 0) && read_model(&d, root);
    if (good) {
        p->context = (int)json_integer(json_get(json_get(root, "truncation"), "max_length"), 0);
        fixed = json_get(json_get(json_get(root, "padding"), "strategy"), "Fixed");
        if (fixed) {
            p->pad = (int)json_integer(json_get(json_get(root, "padding"), "pad_id"), TPLAN_NONE);
            if (!p->context) p->context = (int)json_integer(fixed, 0);
        }
        if (facts->pad[0]) {
            p->pad = id_of(&d, facts->pad, json_get(root, "added_tokens"));
            if (p->pad < 0) good = report_fail(r, "lacks the pad token '%s'", facts->pad);
        }
        good = good && set_ends(&d, facts, json_get(root, "added_tokens"));
    }
    json_free(&document);
    free(text);
    return good || report_file(r, path);
}
