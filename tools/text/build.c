/* build.c - finds the files of a tokenizer, and cleans as the library does that runs the model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "text/readers.h"

enum { MAX_PATH_SIZE = 4096 };

/* === CLIP === */

/* The cleaning of open_clip's and OpenAI's SimpleTokenizer, before and during the split into
 * words. */
static void clean_openai(tplan *p) {
    tplan_step_ftfy(p, &p->first);
    tplan_step_entities(p, &p->first);
    tplan_step_collapse(p, &p->first, TPLAN_PYTHON_SPACE, TPLAN_TRIM_BEGIN | TPLAN_TRIM_END);
    tplan_step_lower_python(p, &p->first);
    tplan_step_replace(p, &p->first, "\xcd\x85", " "); /* U+0345: regex finds it in no set, being
                                                         a letter to IGNORECASE alone */
}

/* CLIPTokenizerFast of transformers. */
static void clean_clip_fast(tplan *p) {
    tplan_step_compose(p, &p->steps, true);
    tplan_step_collapse(p, &p->steps, TPLAN_WHITE_SPACE, 0);
    tplan_step_lower(p, &p->steps);
}

/* The pattern's alternatives before letters, numbers and the rest. With `ignore_case`, U+017F is an
 * s to Python's regex. */
static void add_words(tplan *p, bool ignore_case) {
    static const char *const words[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        tplan_add(p, &p->words, words[i], strlen(words[i]), (uint32_t)TPLAN_NONE, 0);
    if (!ignore_case) return;
    tplan_add(p, &p->words, "'\xc5\xbf", 3, (uint32_t)TPLAN_NONE, 0);
    tplan_add(p, &p->words, "<|\xc5\xbftartoftext|>", 16, (uint32_t)TPLAN_NONE, 0);
    tplan_add(p, &p->words, CLIP_BEGIN, strlen(CLIP_BEGIN), (uint32_t)p->begin, 0);
    tplan_add(p, &p->words, CLIP_END, strlen(CLIP_END), (uint32_t)p->end, 0);
}

static void finish_clip(tplan *p, const tokenizer_source *from) {
    const bool openai = from->cleaning == TEXT_OPENAI;
    p->algorithm = TPLAN_BPE_BYTES;
    p->split = TPLAN_SPLIT_CLASSES;
    p->context = from->context ? from->context : 77;
    add_words(p, openai);
    if (openai) {
        clean_openai(p);
        p->pad = 0;
        return;
    }
    clean_clip_fast(p);
    p->pad = p->end;
    tplan_add(p, &p->cleaned, CLIP_BEGIN, strlen(CLIP_BEGIN), (uint32_t)p->begin, 0);
    tplan_add(p, &p->raw, CLIP_END, strlen(CLIP_END), (uint32_t)p->end, 0);
}

/* === Files === */

/* FOLDER/NAME, if that file exists; NULL otherwise. */
static const char *find(const char *folder, const char *name, char path[MAX_PATH_SIZE]) {
    const int n = snprintf(path, MAX_PATH_SIZE, "%s%s%s", folder, paths_slash(folder), name);
    return n > 0 && n < MAX_PATH_SIZE && source_exists(path) ? path : NULL;
}

typedef enum file_kind { FILE_NONE, FILE_VOCAB, FILE_BPE } file_kind;

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static file_kind find_files(const char *at, char path[MAX_PATH_SIZE], char other[MAX_PATH_SIZE]) {
    if (source_is_folder(at)) {
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
    if (ends_with(at, ".txt") || ends_with(at, ".txt.gz")) return FILE_BPE;
    return FILE_NONE;
}

bool tokenizer_exists(const char *at) {
    char path[MAX_PATH_SIZE], other[MAX_PATH_SIZE];
    return find_files(at, path, other) != FILE_NONE;
}

bool tokenizer_build(const tokenizer_source *from, tokenizer_blob *blob, report *r) {
    char path[MAX_PATH_SIZE], other[MAX_PATH_SIZE];
    tplan p;
    bool good = false;
    blob->data = NULL;
    blob->size = 0;
    tplan_start(&p);
    switch (find_files(from->path, path, other)) {
    case FILE_VOCAB: good = clip_read_vocab(&p, path, other, r); break;
    case FILE_BPE: good = clip_read_bpe(&p, path, r); break;
    case FILE_NONE:
        (void)report_fail(r, "%s: has no tokenizer; expected %s", from->path, TOKENIZER_FILES);
        break;
    }
    if (good) {
        finish_clip(&p, from);
        good = tplan_write(&p, blob, r) || report_file(r, path);
    }
    tplan_free(&p);
    return good;
}
