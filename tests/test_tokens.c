/* test_tokens.c - compares ids with other tokenizers' ids. It also tests cutting, refusals and
 * hostile bytes. */
#define _XOPEN_SOURCE 700 /* mkdtemp */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/source.h"
#include "text/token_plan.h"
#include "text/tokenizer.h"

#include "test.h"
#include "token_vectors.h"

enum { NUM_TEXTS = sizeof token_texts / sizeof *token_texts };

static tokenizer_blob build(const char *path, text_cleaning cleaning, int context) {
    tokenizer_source from = { 0 };
    tokenizer_blob blob;
    report r = report_make();
    from.path = path;
    from.cleaning = cleaning;
    from.context = context;
    CHECK_MSG(tokenizer_build(&from, &blob, &r), "%s", r.text);
    return blob;
}

static vit_result tokenize(const vit_tokenizer *t, const char *text, size_t size, int *ids, int *n,
                           vit_text_ids *note) {
    const size_t scratch_size = vit_tokenize_size(t, size);
    void *scratch = malloc(scratch_size);
    vit_text_ids unused;
    vit_result result;
    if (!note) note = &unused;
    note->ids = ids;
    result = vit_tokenize(t, text, size, scratch, scratch_size, note);
    *n = note->num_ids;
    free(scratch);
    return result;
}

/* Compares the ids of all texts with the expected ids. Also checks the examples that the tokenizer
 * contains. */
static void compare(const char *name, const tokenizer_blob *blob, const int *expected) {
    vit_tokenizer t;
    const char *text;
    size_t size;
    vit_text_ids stored;
    int *ids, n, i;
    CHECK(vit_tokenizer_open(blob->data, blob->size, &t) == VIT_OK);
    ids = malloc(2 * (size_t)t.context * sizeof *ids);
    if (!ids) abort();
    stored.ids = ids + t.context;
    for (i = 0; i < NUM_TEXTS; i++) {
        vit_text_ids note;
        if (expected[0] < 0) {
            expected++;
            continue;
        }
        n = 0;
        CHECK(tokenize(&t, token_texts[i].text, (size_t)token_texts[i].size, ids, &n, &note) ==
              VIT_OK);
        CHECK(note.invalid_at == (size_t)token_texts[i].size);
        CHECK_MSG(n == expected[0] && memcmp(ids, expected + 1, (size_t)n * sizeof *ids) == 0,
                  "%s, text %d: '%s' has %d ids, expected %d", name, i, token_texts[i].text, n,
                  expected[0]);
        for (int k = n; t.pad >= 0 && k < t.context; k++) CHECK(ids[k] == t.pad);
        expected += 1 + expected[0];
    }
    for (i = 0; (text = vit_tokenizer_example(&t, i, &size, &stored)) != NULL; i++) {
        CHECK(tokenize(&t, text, size, ids, &n, NULL) == VIT_OK);
        CHECK(n == stored.num_ids && memcmp(ids, stored.ids, (size_t)n * sizeof *ids) == 0);
    }
    CHECK(i == 64);
    free(ids);
}

/* Tests a text that is too long. The result must have the first ids and the id that marks the end.
 * The number of dropped ids must be reported. */
static void test_cut(const tokenizer_blob *blob) {
    vit_tokenizer t;
    vit_text_ids note;
    int ids[77], n;
    const char
        *words = "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
                 "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a";
    /* These 75 words and the ids for the begin and the end fill the context of 77. */
    const size_t size = strlen(words);
    CHECK(vit_tokenizer_open(blob->data, blob->size, &t) == VIT_OK);
    CHECK(size == 149 && t.context == 77);
    CHECK(tokenize(&t, words, size, ids, &n, &note) == VIT_OK);
    CHECK(n == 77 && note.num_cut == 0 && ids[76] == t.end && ids[0] == t.begin);
    CHECK(tokenize(&t, words, size - 1, ids, &n, &note) == VIT_OK);
    CHECK(n == 76 && ids[75] == t.end);
    {
        char longer[154];
        memcpy(longer, words, size);
        memcpy(longer + size, " a a", 5);
        CHECK(tokenize(&t, longer, size + 4, ids, &n, &note) == VIT_OK);
        CHECK(n == 77 && note.num_cut == 2 && ids[76] == t.end && ids[75] == ids[1]);
    }
}

static void test_invalid(const tokenizer_blob *blob) {
    static const struct {
        const char *text;
        size_t at;
    } rows[] = {
        { "a\xff", 1 },
        { "\x80", 0 },
        { "ab\xc3", 2 },
        { "\xc0\xaf", 0 },
        { "\xe0\x80\xaf", 0 },
        { "\xed\xa0\x80", 0 },
        { "\xf4\x90\x80\x80", 0 },
        { "\xf0\x80\x80\x80", 0 },
        { "x\xe2\x82", 1 },
        { "\xc3(", 0 },
        { "\xf8\x88\x80\x80\x80", 0 },
    };
    vit_tokenizer t;
    vit_text_ids note;
    int ids[77], n;
    CHECK(vit_tokenizer_open(blob->data, blob->size, &t) == VIT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        note.invalid_at = 99;
        CHECK(tokenize(&t, rows[i].text, strlen(rows[i].text), ids, &n, &note) ==
              VIT_ERROR_ARGUMENT);
        CHECK_MSG(note.invalid_at == rows[i].at, "row %d: %d", (int)i, (int)note.invalid_at);
    }
    CHECK(vit_tokenize(&t, "a", 1, ids, 4, &note) == VIT_ERROR_MEMORY);
    CHECK(vit_tokenize(&t, "a", 1, NULL, 1 << 20, &note) == VIT_ERROR_MEMORY);
    CHECK(vit_tokenize(NULL, "a", 1, ids, 4, &note) == VIT_ERROR_ARGUMENT);
    CHECK(vit_tokenize(&t, "a", 1, ids, 4, NULL) == VIT_ERROR_ARGUMENT);
    CHECK(vit_tokenize_size(&t, (size_t)1 << 29) == 0);
}

/* Tests one word of 1 MB without a space. */
static void test_long(const tokenizer_blob *blob) {
    enum { SIZE = 1 << 20 };
    vit_tokenizer t;
    vit_text_ids note;
    int ids[77], n;
    char *text = malloc(SIZE);
    if (!text) abort();
    memset(text, 'a', SIZE);
    CHECK(vit_tokenizer_open(blob->data, blob->size, &t) == VIT_OK);
    CHECK(tokenize(&t, text, SIZE, ids, &n, &note) == VIT_OK);
    CHECK(n == t.context && note.num_cut > 1000);
    free(text);
}

static size_t load_u32(const unsigned char *p) {
    return (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
}

/* Tests hostile bytes in the header and the tables. No call may read or write beyond the end of the
 * header or of a table. */
static void test_hostile(const tokenizer_blob *blob, const char *text) {
    static const unsigned char values[] = { 0, 1, 4, 0x7f, 0x80, 0xff };
    unsigned char *copy = malloc(blob->size);
    vit_tokenizer t;
    size_t opened = 0;
    if (!copy) abort();
    for (size_t at = 0; at < blob->size; at += at < 128 ? 1 : 1 + blob->size / 500) {
        for (size_t v = 0; v < sizeof values; v++) {
            memcpy(copy, blob->data, blob->size);
            copy[at] = values[v];
            if (vit_tokenizer_open(copy, blob->size, &t) == VIT_OK) {
                int *ids = malloc((size_t)t.context * sizeof *ids), n = 0;
                if (ids && !tokenize(&t, text, strlen(text), ids, &n, NULL))
                    for (int i = 0; i < n; i++) CHECK(ids[i] >= 0 && ids[i] < t.num_ids);
                opened++;
                free(ids);
            }
        }
    }
    CHECK(opened > 100);
    for (unsigned kind = 1; kind <= 6; kind++) { /* A step of each kind, without tables. */
        int ids[77], n;
        const size_t list = load_u32(blob->data + 100) ? load_u32(blob->data + 100)
                                                       : load_u32(blob->data + 60);
        memcpy(copy, blob->data, blob->size);
        memset(copy + list + 4, 0, 16);
        copy[list + 4] = (unsigned char)kind;
        copy[list + 5] = 1; /* This byte contains the flags of the step. */
        CHECK(vit_tokenizer_open(copy, blob->size, &t) == VIT_OK && t.context <= 77);
        CHECK(tokenize(&t, text, strlen(text), ids, &n, NULL) == VIT_OK);
    }
    for (size_t size = 0; size < blob->size; size += 1 + size / 16)
        CHECK(vit_tokenizer_open(blob->data, size, &t) == VIT_ERROR_TRUNCATED);
    copy[0] = 'x';
    CHECK(vit_tokenizer_open(copy, blob->size, &t) == VIT_ERROR_MAGIC);
    memcpy(copy, blob->data, blob->size);
    copy[4] = 2;
    CHECK(vit_tokenizer_open(copy, blob->size, &t) == VIT_ERROR_VERSION);
    free(copy);
}

/* Tests wrong files. The message must contain the name of the file and the reason. */
static void test_refused(const char *folder) {
    static const struct {
        const char *name, *text, *message;
    } rows[] = {
        { "tokenizer.json", "{", "JSON" },
        { "tokenizer.json", "{}", "no vocab" },
        { "tokenizer.json", "{\"normalizer\":{\"type\":\"NFKC\"}}", "normalizer 'NFKC'" },
        { "tokenizer.json", "{\"normalizer\":{\"type\":\"Precompiled\"}}", "spiece.model" },
        { "tokenizer.json",
          "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},\"content\":\"\"}}",
          "'x+'" },
        { "tokenizer.json", "{\"pre_tokenizer\":{\"type\":\"Digits\"}}", "pre_tokenizer 'Digits'" },
        { "tokenizer.json",
          "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"}}}", "Split" },
        { "tokenizer.json",
          "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}}", "ByteLevel" },
        { "tokenizer.json", "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}",
          "'WordPiece'" },
        { "tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0}}}",
          "dropout" },
        { "tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}",
          "'a' has no id" },
        { "tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":[\"a\"]}}", "is a list" },
        { "tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
          "merge 0" },
        { "tokenizer.json",
          "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
          "'ab', which the vocabulary lacks" },
        { "tokenizer.json",
          "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0}}}",
          "0 pieces for bytes" },
        { "tokenizer.json",
          "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}},\"post_processor\":{\"type\":\"X\"}}",
          "'X'" },
        { "tokenizer.json",
          "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}},\"added_tokens\":[{\"id\":1,\"content\":\"b\","
          "\"lstrip\":true}]}",
          "'b' sets single_word" },
        { "tokenizer.json", "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0.1]]}}",
          "expected a 32-bit float" },
        { "tokenizer.model", "x", "SentencePiece" },
        { "tokenizer.model", "", "SentencePiece" },
        { "spiece.model", "\x0a\x03\x0a\x01\x61", "no piece of type UNKNOWN" },
        { "spiece.model", "\x0a\x02\x18\x09", "unknown type" },
        { "spiece.model", "\x0a\x05\x0a\x01\x61\x18\x02\x12\x02\x18\x03", "model_type is 3" },
        { "bpe_simple_vocab_16e6.txt", "x\na b c\n", "line 2" },
        { "bpe_simple_vocab_16e6.txt", "x\n", "found no merges" },
        { "bpe_simple_vocab_16e6.txt.gz", "\x1f\x8b\x08", ".gz" },
        { "merges.txt", "x\n", "has no tokenizer" },
    };
    char path[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tokenizer_source from = { 0 };
        tokenizer_blob blob;
        report r = report_make();
        FILE *file;
        snprintf(path, sizeof path, "%s/%s", folder, rows[i].name);
        file = fopen(path, "wb");
        CHECK(file && fwrite(rows[i].text, 1, strlen(rows[i].text), file) == strlen(rows[i].text));
        if (file) fclose(file);
        from.path = folder;
        CHECK_MSG(!tokenizer_build(&from, &blob, &r) && !blob.data, "row %d", (int)i);
        CHECK_MSG(strstr(r.text, rows[i].message), "row %d: '%s' lacks '%s'", (int)i, r.text,
                  rows[i].message);
        CHECK_MSG(strstr(r.text, folder), "row %d: '%s' names no file", (int)i, r.text);
        CHECK(remove(path) == 0);
    }
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[256];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    CHECK(file && fputs(text, file) >= 0);
    if (file) fclose(file);
}

/* Tests the settings in the files beside tokenizer.json: the ids that mark the begin, the end and
 * the padding of a text, the context length, and lower case. */
static void test_facts(const char *folder) {
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json",
                                         "special_tokens_map.json", "open_clip_config.json" };
    tokenizer_blob blob;
    vit_tokenizer t;
    int ids[9], n;
    char path[256];
    write_file(
        folder, names[0],
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<b>\"},{\"id\":5,\"content\":\"<e>\"},"
        "{\"id\":6,\"content\":\"<p>\"}],\"post_processor\":{\"type\":\"TemplateProcessing\","
        "\"single\":[{\"SpecialToken\":{\"id\":\"<b>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
        "\"special_tokens\":{}},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[[\"a\",\"b\"]]}}");
    blob = build(folder, TEXT_HUGGING_FACE, 0);
    CHECK(vit_tokenizer_open(blob.data, blob.size, &t) == VIT_OK);
    CHECK(t.begin == 4 && t.end == -1 && t.pad == -1 && t.context == 64 && t.num_ids == 7);
    free(blob.data);
    write_file(
        folder, names[1],
        "{\"tokenizer_class\":\"Siglip2Tokenizer\",\"add_bos_token\":false,\"add_eos_token\":true,"
        "\"bos_token\":\"<b>\",\"eos_token\":{\"content\":\"<e>\"},\"model_max_length\":12}");
    write_file(folder, names[2], "{\"pad_token\":{\"content\":\"<p>\"}}");
    write_file(folder, names[3], "{\"model_cfg\":{\"text_cfg\":{\"context_length\":9}}}");
    blob = build(folder, TEXT_HUGGING_FACE, 0);
    CHECK(vit_tokenizer_open(blob.data, blob.size, &t) == VIT_OK);
    CHECK(t.begin == -1 && t.end == 5 && t.pad == 6 && t.context == 9);
    CHECK(tokenize(&t, "AB<p>xb", 7, ids, &n, NULL) == VIT_OK);
    CHECK(n == 4 && ids[0] == 2 && ids[1] == 6 && ids[2] == 1 && ids[3] == 5 && ids[8] == 6);
    free(blob.data);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        CHECK(remove(path) == 0);
    }
}

/* Tests damaged vocabularies: files that are cut short or have a changed byte. Each must give a
 * tokenizer or a message, without a crash. A damaged .gz file must be refused, unless the changed
 * byte may have no effect. */
static void test_damaged(const char *folder) {
    static const struct {
        const char *from, *name;
    } rows[] = { { "tests/data/tokens/siglip/spiece.model", "spiece.model" },
                 { "tests/data/tokens/bpe.txt.gz", "bpe_simple_vocab_16e6.txt.gz" } };
    for (size_t row = 0; row < 2; row++) {
        unsigned char *data;
        size_t size, refused = 0, tried = 0;
        report r = report_make();
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, rows[row].name);
        CHECK(source_read_all(rows[row].from, 1 << 20, &data, &size, &r));
        for (size_t at = 0; at < size; at += at < 40 ? 1 : 7) {
            for (int cut = 0; cut < 2; cut++) {
                tokenizer_source from = { 0 };
                tokenizer_blob blob;
                FILE *file = fopen(path, "wb");
                data[at] ^= 0x55;
                CHECK(file && fwrite(data, 1, cut ? at : size, file) == (cut ? at : size));
                data[at] ^= 0x55;
                if (file) fclose(file);
                from.path = folder;
                r = report_make();
                if (!tokenizer_build(&from, &blob, &r)) refused++;
                CHECK((blob.data == NULL) == (r.text[0] != '\0'));
                /* In a .gz file, changes to the time, the level, the system and the name may have
                 * no effect. */
                if (row == 1 && (cut || at < 4 || at > 16))
                    CHECK_MSG(!blob.data, "byte %d", (int)at);
                free(blob.data);
                tried++;
            }
        }
        CHECK(refused > tried / 2 && remove(path) == 0);
        free(data);
    }
}

/* Tests files of SentencePiece that are made here: pieces of bytes, a trie with its keys, and
 * defects. */
static void test_spiece(const char *folder) {
    /* Each piece begins with 3 bytes: the tag of field 1, the piece's size, and the tag of its own
     * field 1. */
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } rows[] = {
#define UNKNOWN_PIECE "\x0a\x07\x0a\x03<u>\x18\x02"
        { UNKNOWN_PIECE, 9, NULL },
        { UNKNOWN_PIECE "\x0a\x0a\x0a\x06<0x4G>\x18\x06", 21, "is not <0x00> to <0xFF>" },
        { UNKNOWN_PIECE "\x0a\x0a\x0a\x06<1x41>\x18\x06", 21, "is not <0x00> to <0xFF>" },
        { UNKNOWN_PIECE "\x0a\x0a\x0a\x06<0x41)\x18\x06", 21, "is not <0x00> to <0xFF>" },
        { UNKNOWN_PIECE "\x0a\x09\x0a\x05<0x4>\x18\x06", 20, "is not <0x00> to <0xFF>" },
        { UNKNOWN_PIECE "\x0a\x0a\x0a\x06<0x41>\x18\x06", 21, NULL },
        { UNKNOWN_PIECE "\x12\x03\x98\x02\x01", 14, "0 pieces for bytes" },
        { UNKNOWN_PIECE "\x12\x03\xc0\x01\x01", 14, "treat_whitespace_as_suffix" },
        { UNKNOWN_PIECE "\x0a\x05\x0a\x01\x61\x18\x05\x12\x02\x18\x02", 20, "UNUSED" },
        { UNKNOWN_PIECE "\x0a\x08\x0a\x01\x61\x15\x00\x00\xc0\x7f", 19, "not finite" },
        { UNKNOWN_PIECE UNKNOWN_PIECE, 18, "occurs twice" },
        /* A valid trie of 2 units, whose root has no child. Then wrong tries: 1 byte, 16 bytes,
         * and a leaf at the root. */
        { UNKNOWN_PIECE "\x1a\x0e\x12\x0c\x08\0\0\0\0\x04\0\0\0\0\0\0", 25, NULL },
        { UNKNOWN_PIECE "\x1a\x0e\x12\x0c\x01\0\0\0\0\x04\0\0\0\0\0\0", 25, "gives 1 bytes as" },
        { UNKNOWN_PIECE "\x1a\x0e\x12\x0c\x10\0\0\0\0\x04\0\0\0\0\0\0", 25, "gives 16 bytes as" },
        { UNKNOWN_PIECE "\x1a\x0e\x12\x0c\x08\0\0\0\0\x05\0\0\0\0\0\0", 25, "damaged" },
    };
    char path[256];
    snprintf(path, sizeof path, "%s/spiece.model", folder);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tokenizer_source from = { 0 };
        tokenizer_blob blob;
        report r = report_make();
        FILE *file = fopen(path, "wb");
        CHECK(file && fwrite(rows[i].bytes, 1, rows[i].size, file) == rows[i].size);
        if (file) fclose(file);
        from.path = folder;
        CHECK_MSG(tokenizer_build(&from, &blob, &r) == !rows[i].message, "row %d: %s", (int)i,
                  r.text);
        CHECK_MSG(!rows[i].message || strstr(r.text, rows[i].message), "row %d: '%s' lacks '%s'",
                  (int)i, r.text, rows[i].message ? rows[i].message : "");
        free(blob.data);
    }
    CHECK(remove(path) == 0);
}

/* Tests a tokenizer.json whose normalizer is 'Precompiled'. The SentencePiece model beside it must
 * be read instead. */
static void test_precompiled(const char *folder) {
    tokenizer_blob blob;
    vit_tokenizer t;
    report r = report_make();
    unsigned char *model;
    size_t size;
    char json[256], path[256];
    FILE *file;
    write_file(folder, "tokenizer.json", "{\"normalizer\":{\"type\":\"Precompiled\"}}");
    snprintf(json, sizeof json, "%s/tokenizer.json", folder);
    snprintf(path, sizeof path, "%s/spiece.model", folder);
    file = fopen(path, "wb");
    CHECK(file &&
          source_read_all("tests/data/tokens/siglip/spiece.model", 1 << 20, &model, &size, &r));
    CHECK(file && fwrite(model, 1, size, file) == size);
    if (file) fclose(file);
    free(model);
    blob = build(folder, TEXT_HUGGING_FACE, 0);
    CHECK(vit_tokenizer_open(blob.data, blob.size, &t) == VIT_OK);
    CHECK(t.begin == -1 && t.end == 1 && t.pad == 1 && t.context == 64);
    free(blob.data);
    CHECK(remove(path) == 0 && remove(json) == 0);
}

/* Tests the cleaning that open_clip applies for SigLIP: a text and its cleaned form must give the
 * same ids. */
static void test_canonical(void) {
    tokenizer_blob blob = build("tests/data/tokens/siglip/spiece.model", TEXT_CANONICALIZE, 64);
    static const char *const texts[] = { "A DOG_on  the &amp; Beach!\n", "a dog on the beach" };
    vit_tokenizer t;
    int ids[2][64], n[2];
    CHECK(vit_tokenizer_open(blob.data, blob.size, &t) == VIT_OK);
    for (int i = 0; i < 2; i++)
        CHECK(tokenize(&t, texts[i], strlen(texts[i]), ids[i], &n[i], NULL) == VIT_OK);
    CHECK(n[0] == n[1] && memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    free(blob.data);
}

/* A vocabulary whose pieces are plain text instead of GPT-2's characters must be refused. */
static void test_plain_pieces(const char *folder) {
    tokenizer_source from = { 0 };
    tokenizer_blob blob;
    report r = report_make();
    char path[256];
    write_file(folder, "vocab.json", "{\"a b\": 0, \"<|startoftext|>\": 1, \"<|endoftext|>\": 2}");
    write_file(folder, "merges.txt", "#version: 0.2\n");
    from.path = folder;
    CHECK(!tokenizer_build(&from, &blob, &r) && strstr(r.text, "'a b' is not written in GPT-2"));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "merges.txt" : "vocab.json");
        CHECK(remove(path) == 0);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name, *path;
        text_cleaning cleaning;
        int context;
        const int *ids;
    } rows[] = {
        { "clip", "tests/data/tokens/clip", TEXT_HUGGING_FACE, 0, token_ids_clip },
        { "vocab.json", "tests/data/tokens/clip/vocab.json", TEXT_HUGGING_FACE, 77,
          token_ids_clip },
        { "clip_json", "tests/data/tokens/clip_json", TEXT_HUGGING_FACE, 0, token_ids_clip },
        { "bpe.txt", "tests/data/tokens/bpe.txt", TEXT_OPENAI, 0, token_ids_bpe },
        { "bpe.txt.gz", "tests/data/tokens/bpe.txt.gz", TEXT_OPENAI, 0, token_ids_bpe },
        { "siglip", "tests/data/tokens/siglip", TEXT_HUGGING_FACE, 0, token_ids_siglip },
        { "unigram", "tests/data/tokens/siglip/spiece.model", TEXT_NONE, 64, token_ids_unigram },
        { "canonical", "tests/data/tokens/siglip", TEXT_CANONICALIZE, 64, token_ids_canonical },
        { "bytes", "tests/data/tokens/bpe.model", TEXT_NONE, 64, token_ids_bytes },
        { "gemma", "tests/data/tokens/gemma", TEXT_HUGGING_FACE, 0, token_ids_gemma },
    };
    static const char hard[] =
        "A caf\xc3\xa9 \xce\xa3 re\xcc\x81 &amp; <|endoftext|> it's 12! <mask>";
    char folder[] = "/tmp/test_tokens_XXXXXX";
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tokenizer_blob blob = build(rows[i].path, rows[i].cleaning, rows[i].context);
        if (!blob.data) continue;
        compare(rows[i].name, &blob, rows[i].ids);
        if (i == 0) test_cut(&blob);
        if (i == 0) test_invalid(&blob);
        if (i == 0 || i >= 6) test_long(&blob);
        if (i == 0 || i == 3 || i == 5 || i == 9) test_hostile(&blob, hard);
        free(blob.data);
    }
    test_canonical();
    if (mkdtemp(folder)) {
        test_refused(folder);
        test_facts(folder);
        test_precompiled(folder);
        test_spiece(folder);
        test_damaged(folder);
        test_plain_pieces(folder);
        CHECK(rmdir(folder) == 0);
    }
    return test_summary();
}
