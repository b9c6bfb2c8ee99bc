#include "infer/words.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "os/os.h"

bool words_open(words *w, const vit_model *model, vit_isa isa, const char *program, report *r) {
    vit_params params = { 0 };
    vit_result result;
    memset(w, 0, sizeof *w);
    w->program = program;
    params.isa = isa;
    result = vit_model_text(model, 0, &w->text);
    if (result != VIT_OK && result != VIT_ERROR_UNSUPPORTED)
        return report_fail(r, "its text encoder: %s", w->text.detail);
    if (result != VIT_OK)
        return report_fail(
            r, "the model has no text encoder: expected CLIP or SigLIP, converted with the "
               "tokenizer beside its weights");
    result = vit_model_tokenizer(&w->text, &w->tokenizer);
    if (result == VIT_OK) result = vit_session_init(&w->session, &w->text, &params, NULL, 0);
    if (result != VIT_OK) return report_fail(r, "its text encoder: %s", vit_result_string(result));
    w->dim = vit_embedding_dim(&w->text);
    w->ids.ids = malloc((size_t)w->tokenizer.context * sizeof *w->ids.ids);
    return w->ids.ids || report_no_memory(r);
}

void words_close(words *w) {
    vit_session_close(&w->session);
    free(w->ids.ids);
    free(w->scratch);
    memset(w, 0, sizeof *w);
}

/* Provides memory for tokenizing a text of this many bytes. The memory is kept for later texts. */
static bool take_scratch(words *w, size_t bytes, report *r) {
    const size_t size = vit_tokenize_size(&w->tokenizer, bytes);
    if (w->scratch && w->scratch_size >= size) return true;
    free(w->scratch);
    w->scratch = size ? malloc(size) : NULL;
    w->scratch_size = size;
    return w->scratch || report_fail(r, "a text of %zu bytes is too long", bytes);
}

/* Returns the byte that stands for the character at `p` in Windows-1252, or 0 if there is no such
 * byte. *size receives the length of the character in bytes. */
static unsigned windows_byte(const char *p, size_t *size) {
    static const uint16_t above[32] = { 0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020,
                                        0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0,
                                        0x017d, 0,      0,      0x2018, 0x2019, 0x201c, 0x201d,
                                        0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a,
                                        0x0153, 0,      0x017e, 0x0178 };
    uint32_t code;
    *size = text_utf8_length(p, 4);
    code = *size ? text_utf8_value(p, *size) : 0;
    for (unsigned i = 0; code > 255 && i < 32; i++)
        if (above[i] == code) code = 128 + i;
    return code < 256 ? code : 0;
}

/* Finds UTF-8 text that a program has mistaken for Windows-1252, such as "\u00c3\u00a9" for one
 * letter with an accent. Returns the first such place, or NULL if there is none. A pair of
 * characters counts only if the first stands for C2 or C3, because other pairs may be intended. */
static const char *find_misread(const char *text) {
    for (size_t size = 1, next; *text && size; text += size) {
        const unsigned lead = windows_byte(text, &size);
        int rest = lead == 0xc2 || lead == 0xc3 ? 1
                   : lead < 0xe0 || lead > 0xf4 ? 0
                   : lead < 0xf0                ? 2
                                                : 3;
        const char *at = text + size;
        for (; rest > 0 && (windows_byte(at, &next) & 0xc0) == 0x80; rest--) at += next;
        if (rest == 0 && at > text + size) return text;
    }
    return NULL;
}

bool words_embed(words *w, const char *text, float *vector, report *r) {
    const size_t length = strlen(text);
    vit_input in = { 0 };
    vit_outputs out = { 0 };
    vit_result result;
    if (!take_scratch(w, length, r)) return false;
    result = vit_tokenize(&w->tokenizer, text, length, w->scratch, w->scratch_size, &w->ids);
    if (result == VIT_ERROR_ARGUMENT)
        return report_fail(r, "'%.60s': byte %zu is not UTF-8", text, w->ids.invalid_at);
    in.ids = w->ids.ids;
    out.embedding = vector;
    if (result == VIT_OK) result = vit_forward(&w->session, &in, &out);
    if (result != VIT_OK) return report_fail(r, "'%.60s': %s", text, vit_result_string(result));
    if (find_misread(text))
        report_error(w->program, NULL,
                     "'%.60s' looks like UTF-8 read as Windows-1252; the text is used unchanged",
                     text);
    if (w->ids.num_cut)
        report_error(w->program, NULL, "'%.60s ...' has %zu tokens too many: the model reads %d",
                     text, w->ids.num_cut, w->tokenizer.context);
    vit_normalize(vector, w->dim);
    return true;
}

/* Returns a copy of the template with the text in place of {}. The caller frees the copy. */
static char *fill_in(const char *template, const char *text, report *r) {
    const char *gap = strstr(template, "{}");
    const size_t size = strlen(template) + strlen(text) + 1;
    char *filled = gap ? malloc(size) : NULL;
    if (!gap) (void)report_fail(r, "'%.60s': expected {} in place of the class", template);
    else if (!filled) (void)report_no_memory(r);
    else snprintf(filled, size, "%.*s%s%s", (int)(gap - template), template, text, gap + 2);
    return filled;
}

bool words_embed_in(words *w, const char *text, const text_list *templates, float *vector,
                    report *r) {
    float *one;
    bool good = true;
    if (templates->count == 0) return words_embed(w, text, vector, r);
    one = malloc((size_t)w->dim * sizeof *one);
    if (!one) return report_no_memory(r);
    memset(vector, 0, (size_t)w->dim * sizeof *vector);
    for (int i = 0; good && i < templates->count; i++) {
        char *filled = fill_in(templates->items[i], text, r);
        good = filled && words_embed(w, filled, one, r);
        for (int d = 0; good && d < w->dim; d++) vector[d] += one[d];
        free(filled);
    }
    vit_normalize(vector, w->dim);
    free(one);
    return good;
}

/* === Lists === */

enum { MOST_TEXTS = 1 << 20, MOST_BYTES = 1 << 28 };

/* Returns the content of a file as text. The caller frees the text. */
static char *read_file(const char *path, report *r) {
    unsigned char *text;
    size_t size;
    if (!source_read_all(path, MOST_BYTES, &text, &size, r)) return NULL;
    if (size <= MOST_BYTES && !memchr(text, '\0', size)) return (char *)text;
    (void)report_fail(r, "expected one text per line, at most %d MB, found %s", MOST_BYTES >> 20,
                      size > MOST_BYTES ? "more" : "a NUL byte");
    (void)report_file(r, path);
    free(text);
    return NULL;
}

/* Returns true if the text is probably the name of a file: it has no comma and no space, and
 * contains a '/' or ends with a file type. */
static bool looks_like_file(const char *text) {
    const char *dot = strrchr(text, '.');
    if (strpbrk(text, ", ")) return false;
    return strchr(text, '/') || (dot && dot > text && strlen(dot) > 1 && strlen(dot) <= 5);
}

/* Returns all texts as one string, which the caller frees. *separator becomes '\n' if the texts
 * come from a file or standard input, and ',' if `from` itself contains the texts. */
static char *read_texts(const char *from, char *separator, report *r) {
    const bool is_file = !strcmp(from, "-") || os_kind_of(from) == OS_FILE || looks_like_file(from);
    char *text = is_file ? read_file(from, r) : malloc(strlen(from) + 1);
    *separator = is_file ? '\n' : ',';
    if (!is_file && !text) (void)report_no_memory(r);
    if (!is_file && text) strcpy(text, from);
    return text;
}

/* Returns the next text without white space around it, or NULL after the last text. */
static char *next_text(char **rest, char separator) {
    while (**rest) {
        char *start = *rest, *end = strchr(start, separator);
        *rest = end ? end + 1 : start + strlen(start);
        if (!end) end = *rest;
        while (start < end && isspace((unsigned char)*start)) start++;
        while (end > start && isspace((unsigned char)end[-1])) end--;
        *end = '\0';
        if (end > start) return start;
    }
    return NULL;
}

bool words_read(const char *from, char **list, const char ***names, int *count, report *r) {
    char separator, *rest;
    const char *text;
    size_t most = 2;
    *list = read_texts(from, &separator, r);
    if (!*list) return false;
    for (rest = *list; *rest; rest++) most += *rest == separator;
    *names = malloc(most * sizeof **names);
    if (!*names) return report_no_memory(r);
    for (rest = *list, *count = 0; (text = next_text(&rest, separator)) != NULL; ++*count) {
        if (*count == MOST_TEXTS) return report_fail(r, "%s: more than %d texts", from, MOST_TEXTS);
        (*names)[*count] = text;
    }
    return *count > 0 || report_fail(r, "'%.80s': expected texts, found none", from);
}
