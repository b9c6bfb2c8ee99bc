/* build.c - finds the files of a tokenizer, and adds the steps that clean texts as the model's
 * library does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/source.h"
#include "text/token_plan.h"

enum { MAX_PATH_SIZE = 4096 };

/* === CLIP === */

/* Adds the steps by which SimpleTokenizer of open_clip and OpenAI cleans texts, before it splits
 * them into words and while it does so. */
static void clean_openai(tplan *p) {
    tplan_step_ftfy(p, &p->first);
    tplan_step_entities(p, &p->first);
    tplan_step_collapse(p, &p->first, TPLAN_PYTHON_SPACE, TPLAN_TRIM_BEGIN | TPLAN_TRIM_END);
    tplan_step_lower_python(p, &p->first);
    /* U+0345, which no set of the regex matches */
    tplan_step_replace(p, &p->first, "\xcd\x85", " ");
}

/* Adds the steps by which CLIPTokenizerFast of transformers cleans texts. */
static void clean_clip_fast(tplan *p) {
    tplan_step_compose(p, &p->steps, true);
    tplan_step_collapse(p, &p->steps, TPLAN_WHITE_SPACE, 0);
    tplan_step_lower(p, &p->steps);
}

static bool finish_clip(tplan *p, const tokenizer_source *from, const text_facts *f, report *r) {
    const bool openai = from->cleaning == TEXT_OPENAI;
    p->algorithm = TPLAN_BPE_BYTES;
    p->split = TPLAN_SPLIT_CLASSES;
    p->context = from->context ? from->context : f->context ? f->context : 77;
    clip_add_words(p, openai);
    if (openai) {
        clean_openai(p);
        p->pad = 0;
        return true;
    }
    clean_clip_fast(p);
    p->pad = p->end;
    /* the files of some models name another pad token, "!" */
    if (f->pad[0] && strcmp(f->pad, CLIP_END) != 0) {
        const tplan_entry *pad;
        tplan_sort(&p->pieces);
        pad = tplan_find(&p->pieces, f->pad, strlen(f->pad));
        if (!pad) return report_fail(r, "%s: lacks the pad token '%s'", from->path, f->pad);
        p->pad = (int)pad->id;
    }
    tplan_add(p, &p->cleaned, CLIP_BEGIN, strlen(CLIP_BEGIN), (uint32_t)p->begin, 0);
    tplan_add(p, &p->raw, CLIP_END, strlen(CLIP_END), (uint32_t)p->end, 0);
    return true;
}

/* === Facts beside the tokenizer === */

/* Copies a token. In JSON a token is a string, or an object with a member "content". */
static void copy_token(char *to, size_t size, const json_value *token) {
    const char *text = json_string(token, json_string(json_get(token, "content"), ""));
    if (*text && strlen(text) < size) strcpy(to, text);
}

static bool read_facts_file(text_facts *f, const char *path, report *r) {
    json_document document;
    const json_value *root, *text;
    char *data;
    size_t size;
    if (!read_text(path, &data, &size, r)) return false;
    if (!json_parse(&document, data, size, false, 0, r)) {
        free(data);
        return report_file(r, path);
    }
    root = document.root;
    copy_token(f->class_name, sizeof f->class_name, json_get(root, "tokenizer_class"));
    if (json_get(root, "add_bos_token"))
        f->add_begin = json_bool(json_get(root, "add_bos_token"), false);
    if (json_get(root, "add_eos_token"))
        f->add_end = json_bool(json_get(root, "add_eos_token"), true);
    if (json_bool(json_get(root, "do_lower_case"), false)) f->lower_case = true;
    copy_token(f->pad, sizeof f->pad, json_get(root, "pad_token"));
    copy_token(f->begin, sizeof f->begin, json_get(root, "bos_token"));
    copy_token(f->end, sizeof f->end, json_get(root, "eos_token"));
    /* only open_clip_config.json has this member */
    text = json_get(json_get(root, "model_cfg"), "text_cfg");
    if (!f->context && json_integer(json_get(root, "model_max_length"), 0) <= 65536)
        f->context = (int)json_integer(json_get(root, "model_max_length"), 0);
    if (json_get(text, "context_length"))
        f->context = (int)json_integer(json_get(text, "context_length"), 0);
    json_free(&document);
    free(data);
    return true;
}

/* === SentencePiece === */

static void clean_canonicalize(tplan *p) {
    tplan_step_ftfy(p, &p->first);
    tplan_step_entities(p, &p->first);
    tplan_step_replace(p, &p->first, "_", " ");
    tplan_step_punctuation(p, &p->first);
    tplan_step_lower_python(p, &p->first);
    tplan_step_collapse(p, &p->first, TPLAN_PYTHON_SPACE, TPLAN_TRIM_BEGIN | TPLAN_TRIM_END);
}

/* Adds the steps of SiglipTokenizer of transformers. First it puts a prefix in front of the text,
 * and converts the text to lower case. Then, in the text between the tokens, it removes punctuation
 * and leaves one space between words. */
static void clean_siglip(tplan *p) {
    tplan_step_replace(p, &p->first, "\xe2\x96\x81", " ");
    tplan_step_prepend(p, &p->first, "\xe2\x96\x81", false);
    tplan_step_lower(p, &p->first);
    tplan_step_punctuation(p, &p->steps);
    tplan_step_collapse(p, &p->steps, TPLAN_PYTHON_SPACE, TPLAN_TRIM_BEGIN | TPLAN_TRIM_END);
}

static bool build_spiece(tplan *p, const char *path, const tokenizer_source *from,
                         const text_facts *f, report *r) {
    const bool siglip = from->cleaning != TEXT_NONE &&
                        strncmp(f->class_name, "SiglipTokenizer", 15) == 0;
    if (from->cleaning == TEXT_CANONICALIZE) clean_canonicalize(p);
    if (from->cleaning == TEXT_OPENAI) clean_openai(p);
    if (siglip) clean_siglip(p);
    else if (from->lower_case || (f->lower_case && from->cleaning == TEXT_HUGGING_FACE))
        tplan_step_lower(p, &p->first);
    if (!spiece_read(p, path, siglip, r)) return false;
    p->context = from->context ? from->context : f->context ? f->context : 64;
    if (f->add_begin != 1) p->begin = TPLAN_NONE;
    if (f->add_end == 0) p->end = TPLAN_NONE;
    if (siglip || p->algorithm == TPLAN_UNIGRAM) p->pad = p->end;
    tplan_sort(&p->raw);
    if (f->pad[0]) {
        const tplan_entry *pad = tplan_find(&p->raw, f->pad, strlen(f->pad));
        if (!pad) return report_fail(r, "%s: lacks the pad token '%s'", path, f->pad);
        p->pad = (int)pad->number;
    }
    if (from->cleaning == TEXT_NONE) p->raw.count = 0;
    return true;
}

/* === tokenizer.json === */

static bool build_json(tplan *p, const char *path, const tokenizer_source *from,
                       const text_facts *f, bool *precompiled, report *r) {
    if (from->cleaning == TEXT_CANONICALIZE) clean_canonicalize(p);
    if (from->cleaning == TEXT_OPENAI) clean_openai(p);
    if (from->lower_case || strncmp(f->class_name, "Siglip2Tokenizer", 16) == 0)
        tplan_step_lower(p, &p->steps);
    if (!json_tokenizer_read(p, path, f, precompiled, r)) return false;
    if (p->context == 0) p->context = p->algorithm == TPLAN_BPE_BYTES ? 77 : 64;
    if (f->context) p->context = f->context;
    if (from->context) p->context = from->context;
    return true;
}

/* === Files === */

/* Returns FOLDER/NAME if a file with this path exists; otherwise NULL. */
static const char *find(const char *folder, const char *name, char path[MAX_PATH_SIZE]) {
    const int n = snprintf(path, MAX_PATH_SIZE, "%s%s%s", folder, paths_slash(folder), name);
    return n > 0 && n < MAX_PATH_SIZE && source_exists(path) ? path : NULL;
}

typedef enum file_kind { FILE_NONE, FILE_VOCAB, FILE_BPE, FILE_SPIECE, FILE_JSON } file_kind;

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static file_kind find_files(const char *at, char path[MAX_PATH_SIZE], char other[MAX_PATH_SIZE]) {
    if (source_is_folder(at)) {
        if (find(at, "tokenizer.json", path)) return FILE_JSON;
        if (find(at, "spiece.model", path) || find(at, "tokenizer.model", path)) return FILE_SPIECE;
        if (find(at, "vocab.json", path) && find(at, "merges.txt", other)) return FILE_VOCAB;
        if (find(at, "bpe_simple_vocab_16e6.txt.gz", path)) return FILE_BPE;
        if (find(at, "bpe_simple_vocab_16e6.txt", path)) return FILE_BPE;
        return FILE_NONE;
    }
    if (strlen(at) >= MAX_PATH_SIZE || !source_exists(at)) return FILE_NONE;
    strcpy(path, at);
    if (ends_with(at, "vocab.json")) {
        char folder[MAX_PATH_SIZE];
        const size_t n = paths_folder_length(at);
        memcpy(folder, at, n);
        folder[n] = '\0';
        if (n == 0) strcpy(folder, "./");
        return find(folder, "merges.txt", other) ? FILE_VOCAB : FILE_NONE;
    }
    if (ends_with(at, ".model")) return FILE_SPIECE;
    if (ends_with(at, "tokenizer.json")) return FILE_JSON;
    if (ends_with(at, ".txt") || ends_with(at, ".txt.gz")) return FILE_BPE;
    return FILE_NONE;
}

const char *tokenizer_absence(void) {
    return "no tokenizer is beside the weights: expected " TOKENIZER_FILES;
}

bool tokenizer_exists(const char *at) {
    char path[MAX_PATH_SIZE], other[MAX_PATH_SIZE];
    return find_files(at, path, other) != FILE_NONE;
}

/* Reads the settings in the files that are in the same folder as the tokenizer. */
static bool read_facts(text_facts *f, const char *tokenizer, report *r) {
    static const char *const names[] = { "special_tokens_map.json", "tokenizer_config.json",
                                         "open_clip_config.json" };
    char folder[MAX_PATH_SIZE], path[MAX_PATH_SIZE];
    size_t n = paths_folder_length(tokenizer);
    memset(f, 0, sizeof *f);
    f->add_begin = f->add_end = -1;
    memcpy(folder, tokenizer, n);
    folder[n] = '\0';
    if (n == 0) strcpy(folder, "./");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (find(folder, names[i], path) && !read_facts_file(f, path, r)) return false;
    return true;
}

static bool read_files(tplan *p, file_kind kind, const char *path, const char *other,
                       const tokenizer_source *from, const text_facts *f, report *r) {
    char model[MAX_PATH_SIZE];
    bool precompiled = false, good = false;
    switch (kind) {
    case FILE_VOCAB: good = clip_read_vocab(p, path, other, r); break;
    case FILE_BPE: good = clip_read_bpe(p, path, r); break;
    case FILE_SPIECE: return build_spiece(p, path, from, f, r);
    case FILE_JSON:
        if (build_json(p, path, from, f, &precompiled, r)) return true;
        if (!precompiled || !source_is_folder(from->path)) return false;
        if (!find(from->path, "spiece.model", model) && !find(from->path, "tokenizer.model", model))
            return false;
        *r = report_make();
        tplan_free(p);
        tplan_start(p);
        return build_spiece(p, model, from, f, r);
    case FILE_NONE: break;
    }
    return good && finish_clip(p, from, f, r);
}

bool tokenizer_build(const tokenizer_source *from, tokenizer_blob *blob, report *r) {
    char path[MAX_PATH_SIZE], other[MAX_PATH_SIZE];
    const file_kind kind = find_files(from->path, path, other);
    text_facts f;
    tplan p;
    bool good;
    blob->data = NULL;
    blob->size = 0;
    if (kind == FILE_NONE)
        return report_fail(r, "%s: has no tokenizer; expected %s", from->path, TOKENIZER_FILES);
    if (!read_facts(&f, path, r)) return false;
    tplan_start(&p);
    good = read_files(&p, kind, path, other, from, &f, r) &&
           (tplan_write(&p, blob, r) || report_file(r, path));
    tplan_free(&p);
    return good;
}
